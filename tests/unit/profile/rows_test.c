/* A model whose layers differ, profiled, written and read back: a column for each row. */
#include <math.h>

#include "base/fs.h"
#include "base/str.h"
#include "model/shard.h"
#include "profile/profile.h"
#include "profile/read/read.h"
#include "sim/predictor.h"
#include "support/models.h"
#include "support/timed_executor.h"
#include "text/csv.h"

/* Layers 0 and 2 see a window of 48 tokens, 1 and 3 all; all have experts. */
static const char gpt_oss[] =
    "{\"model_type\": \"gpt_oss\", \"vocab_size\": 500, \"hidden_size\": 64, "
    "\"intermediate_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 48, "
    "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"max_position_embeddings\": 512}";
/* One dense layer, then two of experts with an MLP beside them. */
static const char deepseek[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 500, \"hidden_size\": 64, "
    "\"intermediate_size\": 128, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
    "\"q_lora_rank\": 24, \"kv_lora_rank\": 32, \"qk_nope_head_dim\": 16, "
    "\"qk_rope_head_dim\": 8, \"v_head_dim\": 16, \"first_k_dense_replace\": 1, "
    "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, "
    "\"n_shared_experts\": 1, \"max_position_embeddings\": 512}";
/* Of one kind, with experts. */
static const char mixtral[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 500, \"hidden_size\": 64, "
    "\"intermediate_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"num_local_experts\": 4, \"num_experts_per_tok\": 2, "
    "\"max_position_embeddings\": 512}";

enum { WINDOW = 48, BLOCK = 16, MAX_BATCH = 16, MAX_KV = 300, MAX_TOKENS = 256 };

static const char *profile(struct test *t, const struct model *m, struct timed_executor *x)
{
    struct serve_clock clock = clock_virtual();
    const struct profile_params p = {.root = test_dir(t),
                                     .hardware = "bench",
                                     .model_name = "tiny",
                                     .device = "cpu",
                                     .settings = "",
                                     .model = m,
                                     .block_size = BLOCK,
                                     .num_blocks = 400,
                                     .max_tokens = MAX_TOKENS,
                                     .max_batch = MAX_BATCH,
                                     .max_kv = MAX_KV,
                                     .samples = 3,
                                     .warmup = 1,
                                     .tp = 1,
                                     .seed = 1,
                                     .clock = &clock};
    const char *dir;
    *x = (struct timed_executor){.model = m};
    assert_ok(profile_run(t->a, &p, timed_executor(x), NULL, &dir, &t->e), t);
    return dir;
}

static struct bundle *load(struct test *t, const struct model *m)
{
    const struct bundle_key key = {.root = test_dir(t),
                                   .hardware = "bench",
                                   .model_name = "tiny",
                                   .model = m,
                                   .tp = 1,
                                   .block_size = BLOCK};
    struct bundle *b;
    assert_ok(bundle_load(t->a, &key, &b, &t->e), t);
    return b;
}

#define relative(got, want) assert_near((got) / (want), 1, 1e-6)

/* Seconds of all operators of an axis that are flat, at n tokens or rows. */
static double flat_s(const struct op_list *l, enum op_axis axis, int64_t n)
{
    double s = 0;
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].axis == axis)
            s += timed_flat_s(l->ops[i].row, n) * l->ops[i].repeat;
    return s;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* By hand: two layers see the last 48 tokens, two all, at twice the time. */
static double decode_s(int64_t n, int64_t kv)
{
    return 2 * timed_decode_s(n, n * least(kv, WINDOW - 1)) + 2 * 2 * timed_decode_s(n, n * kv);
}

static double prefill_s(int64_t c, int64_t kv)
{
    double pairs = 0;
    for (int64_t i = 1; i <= c; i++)
        pairs += (double)least(kv + i, WINDOW);
    const double window = 3e-6 + 1e-7 * (double)c + 1e-10 * pairs;
    return 2 * window + 2 * 2 * timed_prefill_s(c, kv);
}

static void windows_and_all(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, gpt_oss);
    struct timed_executor x;
    profile(t, &m, &x);
    struct bundle *b = load(t, &m);
    assert_null(bundle_missing(b));
    for (int64_t n = 1; n <= MAX_TOKENS; n += 5)
        relative(predict_tokens_s(b, n), flat_s(&x.ops, AXIS_TOKENS, n));
    for (int64_t n = 1; n <= MAX_BATCH; n++)
        relative(predict_rows_s(b, n), flat_s(&x.ops, AXIS_ROWS, n));
    for (int64_t n = 1; n <= MAX_BATCH; n++)
        for (int64_t kv = 1; kv < MAX_KV; kv += 7)
            relative(predict_decode_s(b, n, n * kv), decode_s(n, kv));
    for (int64_t c = 1; c <= MAX_TOKENS; c += 11)
        for (int64_t kv = 0; kv + c <= 200; kv += 17)
            relative(predict_prefill_s(b, kv, c), prefill_s(c, kv));
    assert_int_equal(bundle_extrapolations(b), 0);
    /* far beyond the grid the window's layers take no more */
    const double far = predict_decode_s(b, 2, 2 * 100000), near = predict_decode_s(b, 2, 2 * 10000);
    assert_near((far - near) / (2 * 2 * 2 * 90000 * 1e-9), 1, 1e-6);
    for (int i = 0; i < x.ops.n; i++)
        assert_true(bundle_row_error(b, x.ops.ops[i].row) < 1e-6);
}

/* predictor=bundle is the sum by hand: operators, every chunk, decode at each row's length. */
static void predictor_sums_rows(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, gpt_oss);
    struct timed_executor x;
    profile(t, &m, &x);
    struct bundle *b = load(t, &m);
    const struct predictor_params p = {.model = &m, .tp = 1, .pp = 1, .bundle = b};
    struct predictor predictor;
    struct stage_time stage;
    assert_ok(predictor_open(t->a, &predictor_bundle, &p, &predictor, &t->e), t);
    const struct chunk chunks[] = {{.start = 20, .tokens = 60},
                                   {.start = 0, .tokens = 9, .last = true}};
    const struct batch batch = {.chunks = chunks,
                                .n_chunks = 2,
                                .n_last_chunks = 1,
                                .prefill_tokens = 69,
                                .n_decodes = 3,
                                .decode_kv_tokens = 3 * 150,
                                .decode_kv_max = 150};
    assert_ok(predictor.ops->predict(predictor.self, &batch, &stage, &t->e), t);
    const double want = flat_s(&x.ops, AXIS_TOKENS, 72) + flat_s(&x.ops, AXIS_ROWS, 4) +
                        decode_s(3, 150) + prefill_s(60, 20) + prefill_s(9, 0);
    relative(stage.device_s, want * bundle_prompt_scale(b, 72, true));
    /* of lengths that differ, 10, 100 and 290, the window's layers see 10, 47 and 47 before them:
     * the load says so */
    const struct key_spans spans = model_spans(&m);
    struct batch unequal = {.n_decodes = 3, .decode_kv_tokens = 400, .decode_kv_max = 290};
    unequal.load = (struct op_load){.seqs = 3, .n_spans = spans.n};
    op_load_add_keys(&unequal.load, &spans, 11);
    op_load_add_keys(&unequal.load, &spans, 101);
    op_load_add_keys(&unequal.load, &spans, 291);
    assert_ok(predictor.ops->predict(predictor.self, &unequal, &stage, &t->e), t);
    const double decodes = flat_s(&x.ops, AXIS_TOKENS, 3) + flat_s(&x.ops, AXIS_ROWS, 3) +
                           2 * timed_decode_s(3, 10 + 47 + 47) + 2 * 2 * timed_decode_s(3, 400);
    relative(stage.device_s, decodes * bundle_decode_scale(b, 3, 0));
}

static void columns_are_named_by_kind(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, gpt_oss);
    struct timed_executor x;
    const char *dir = profile(t, &m, &x);
    static const char *const mlp[] = {"time_stats.attn_pre_proj.median",
                                      "time_stats.attn_pre_proj_full.median",
                                      "time_stats.attn_pre_proj_full.n",
                                      "time_stats.moe_up_proj.median",
                                      "num_experts",
                                      "num_experts_per_tok"};
    static const char *const attention[] = {
        "time_stats.attn_decode.median", "time_stats.attn_decode_full.median",
        "time_stats.attn_prefill_full.median", "time_stats.attn_kv_cache_save_full.median"};
    struct csv_reader *r;
    assert_ok(csv_open(&r, fs_join(t->a, dir, "mlp.csv"), &t->e), t);
    for (size_t i = 0; i < sizeof mlp / sizeof *mlp; i++)
        assert_true(csv_find(r, mlp[i]) >= 0);
    csv_close(&r);
    assert_ok(csv_open(&r, fs_join(t->a, dir, "attention.csv"), &t->e), t);
    for (size_t i = 0; i < sizeof attention / sizeof *attention; i++)
        assert_true(csv_find(r, attention[i]) >= 0);
    csv_close(&r);
}

static void kinds_of_mlp(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, deepseek);
    struct timed_executor x;
    profile(t, &m, &x);
    struct bundle *b = load(t, &m);
    assert_null(bundle_missing(b));
    for (int64_t n = 1; n <= MAX_TOKENS; n += 5)
        relative(predict_tokens_s(b, n), flat_s(&x.ops, AXIS_TOKENS, n));
    for (int64_t kv = 1; kv < MAX_KV; kv += 7)
        relative(predict_decode_s(b, 4, 4 * kv), 3 * timed_decode_s(4, 4 * kv));
}

/* Two stages: the dense layer and one of experts, then one of experts. */
static void stages_have_their_own_layers(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, deepseek);
    struct timed_executor x;
    profile(t, &m, &x);
    const struct predictor_params p = {.model = &m, .tp = 1, .pp = 2, .bundle = load(t, &m)};
    struct predictor predictor;
    struct stage_time stages[2];
    const struct batch batch = {.n_decodes = 4, .decode_kv_tokens = 4 * 100, .decode_kv_max = 100};
    assert_ok(predictor_open(t->a, &predictor_bundle, &p, &predictor, &t->e), t);
    assert_ok(predictor.ops->predict(predictor.self, &batch, stages, &t->e), t);
    const int64_t first = shard_stage_layers(&m, 2, 0);
    double want[2] = {0};
    for (int i = 0; i < x.ops.n; i++) {
        const struct op *op = &x.ops.ops[i];
        const double s = op->axis == AXIS_DECODE    ? timed_decode_s(4, 400)
                         : op->axis == AXIS_PREFILL ? 0
                                                    : timed_flat_s(op->row, 4);
        if (op->where != OP_IN_LAYER) {
            want[op->where == OP_AFTER_LAYERS] += s;
            continue;
        }
        for (int64_t layer = 0; layer < 3; layer++)
            if (!op_is_of_mlp(op->kind) || m.structure->mlp_of[layer] == op->part)
                want[layer >= first] += s;
    }
    const double scale = bundle_decode_scale(p.bundle, 4, 0);
    relative(stages[0].device_s, want[0] * scale);
    relative(stages[1].device_s, want[1] * scale);
    assert_true(stages[1].host_s == 0);
}

/* Experts of a model whose layers are alike have columns too. */
static void experts_of_layers_alike(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, mixtral);
    struct timed_executor x;
    profile(t, &m, &x);
    assert_false(m.layered);
    struct bundle *b = load(t, &m);
    assert_null(bundle_missing(b));
    assert_true(bundle_has(b, OP_MOE_UP_PROJ) && bundle_has(b, OP_MOE_COMBINE));
    for (int64_t n = 1; n <= MAX_TOKENS; n += 5)
        relative(predict_tokens_s(b, n), flat_s(&x.ops, AXIS_TOKENS, n));
}

/* A file of other kinds: by the name of the column that is missing. */
static void a_kind_without_a_column(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, gpt_oss);
    struct timed_executor x;
    const char *path = fs_join(t->a, profile(t, &m, &x), "attention.csv");
    struct sv text;
    struct bundle *b;
    const struct bundle_key key = {.root = test_dir(t),
                                   .hardware = "bench",
                                   .model_name = "tiny",
                                   .model = &m,
                                   .tp = 1,
                                   .block_size = BLOCK};
    assert_ok(fs_read(t->a, path, 1 << 24, &text, &t->e), t);
    char *other = arena_strn(t->a, text.p, text.n);
    char *at = strstr(other, "time_stats.attn_decode_full.median");
    assert_non_null(at);
    memcpy(at, "time_stats.attn_decode_some.median", strlen("time_stats.attn_decode_some.median"));
    assert_ok(fs_write_atomic(path, other, text.n, &t->e), t);
    assert_int_equal(bundle_load(t->a, &key, &b, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "time_stats.attn_decode_full.median"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(windows_and_all),
        TEST(predictor_sums_rows),
        TEST(columns_are_named_by_kind),
        TEST(kinds_of_mlp),
        TEST(stages_have_their_own_layers),
        TEST(experts_of_layers_alike),
        TEST(a_kind_without_a_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
