/* Small tables; the whole against Vidur's own logs is tests/conform/vidur_test.c. */
#include "sim/sim.h"

#include "support/support.h"

static const struct model m = {.name = "m", .layers = 4, .heads = 8, .kv_heads = 2};

static const char *const per_token[] = {
    "attn_pre_proj", "attn_post_proj",     "attn_rope",  "input_layernorm",
    "mlp_up_proj",   "mlp_down_proj",      "mlp_act",    "post_attention_layernorm",
    "add",           "attn_kv_cache_save", "all_reduce", "send_recv"};
enum { PER_TOKEN = sizeof per_token / sizeof *per_token };

/* Operator i takes 2^i ms for up to 16 tokens, so sums are exact; kv_cache_save (512) only for 11
 * tokens, else nothing; decode 0.5 ms and prefill 0.25 ms at one key each. */
static const char *tables(struct test *t)
{
    for (int i = 0; i < PER_TOKEN; i++) {
        struct buf b = {0};
        buf_puts(&b, "num_tokens,prediction\n");
        for (int n = 1; n <= 16; n++)
            buf_printf(&b, "%d,%d\n", n, i == 9 && n != 11 ? 0 : 1 << i);
        test_write(t, arena_printf(t->a, "t/%s.csv", per_token[i]), buf_str(&b));
        buf_free(&b);
    }
    test_write(t, "t/attn_decode.csv", "batch_size,kv_cache_size,prediction\n3,128,0.5\n1,0,9\n");
    test_write(t, "t/attn_prefill.csv",
               "kv_cache_size,prefill_chunk_size_squared,prediction\n128,25,0.25\n0,64,3\n");
    return arena_str(t->a, test_path(t, "t"));
}

static struct predictor opened(struct test *t, int64_t tp, int64_t pp, const char *dir)
{
    struct predictor_params p = {.model = &m, .tp = tp, .pp = pp, .tables = dir};
    struct predictor out;
    assert_ok(predictor_open(t->a, &predictor_vidur_tables, &p, &out, &t->e), t);
    return out;
}

static const struct chunk chunks[] = {{.start = 65, .tokens = 3}, {.start = 0, .tokens = 4}};

/* 3 decodes with 64 cached tokens each, one more with this step's: 65, rounded up to 128. Chunks of
 * 3 and 4 count as one of 5 after 128 tokens. 11 tokens in all but 16 for most operators (10 and 8
 * would be another row of the table). Both attention times are dearer by a tenth. */
static void the_formula(void **state)
{
    struct test *t = *state;
    const char *dir = tables(t);
    struct batch b = {.chunks = chunks,
                      .n_chunks = 2,
                      .n_decodes = 4,
                      .prefill_tokens = 7,
                      .decode_kv_tokens = 4 * 64};
    struct stage_time s[2];
    struct predictor p = opened(t, 2, 2, dir);
    assert_int_equal(p.ops->predict(p.self, &b, s, &t->e), ST_INPUT); /* no key for 4 */
    err_clear(&t->e);
    b.n_decodes = 3;
    b.prefill_tokens = 8; /* not the chunks' sum: a table may be asked for anything */
    b.decode_kv_tokens = 3 * 64;
    assert_ok(p.ops->predict(p.self, &b, s, &t->e), t);
    double comm = 1024 + 0.02;
    double attn = 1 + 2 + 4 + 512 + 0.5 * 1.1 + 0.25 * 1.1 + comm + 8;
    double mlp = 16 + 32 + 64 + comm + 128;
    assert_near_rel(s[1].device_s, (attn + mlp + 256) * 2 / 1000, 1e-15);
    assert_near_rel(s[0].device_s, ((attn + mlp + 256) * 2 + 2048) / 1000, 1e-15);
    assert_true(s[0].host_s == 0 && s[1].host_s == 0);

    p = opened(t, 1, 1, dir);
    assert_ok(p.ops->predict(p.self, &b, s, &t->e), t);
    assert_near_rel(s[0].device_s, (attn + mlp + 256 - 2 * comm) * 4 / 1000, 1e-15);
}

/* One request costs no tenth more, whatever the heads. */
static void alone(void **state)
{
    struct test *t = *state;
    struct predictor p = opened(t, 1, 1, tables(t));
    struct batch b = {.chunks = &(struct chunk){.tokens = 8}, .n_chunks = 1, .prefill_tokens = 8};
    struct stage_time s;
    assert_ok(p.ops->predict(p.self, &b, &s, &t->e), t);
    assert_near_rel(s.device_s, (511 + 3.0) * 4 / 1000, 1e-15);
}

static void what_the_tables_lack_is_said(void **state)
{
    struct test *t = *state;
    struct predictor p = opened(t, 1, 1, tables(t));
    struct batch b = {.n_decodes = 17, .decode_kv_tokens = 17 * 200};
    struct stage_time s;
    assert_err(p.ops->predict(p.self, &b, &s, &t->e), ST_INPUT, t,
               "DIR/t has no prediction of attn_decode for 17 sequences and kv_cache_size 256\n"
               "hint: make the tables with larger prediction_max_* in Vidur's configuration, or "
               "limit batches and lengths");
    b = (struct batch){.chunks = chunks, .n_chunks = 1, .prefill_tokens = 3};
    assert_err(p.ops->predict(p.self, &b, &s, &t->e), ST_INPUT, t,
               "DIR/t has no prediction of attn_prefill for 3 tokens and kv_cache_size 128\n"
               "hint: make the tables with larger prediction_max_* in Vidur's configuration, or "
               "limit batches and lengths");
    b = (struct batch){.chunks = &(struct chunk){.tokens = 8}, .n_chunks = 1, .prefill_tokens = 17};
    assert_err(p.ops->predict(p.self, &b, &s, &t->e), ST_INPUT, t,
               "DIR/t has no prediction of operators for 17 tokens\n"
               "hint: make the tables with larger prediction_max_* in Vidur's configuration, or "
               "limit batches and lengths");
}

static void refused(struct test *t, const struct predictor_params *p, enum st want,
                    const char *text)
{
    struct predictor out;
    assert_err(predictor_open(t->a, &predictor_vidur_tables, p, &out, &t->e), want, t, text);
}

static void bad_folders(void **state)
{
    struct test *t = *state;
    struct predictor_params p = {.model = &m, .tp = 1, .pp = 1};
    refused(t, &p, ST_USAGE,
            "predictor.tables: vidur_tables needs the folder of Vidur's tables\n"
            "hint: predictor.tables=DIR with attn_pre_proj.csv and so on, or .csv.gz");
    p.tables = tables(t);
    p.pp = 3;
    refused(t, &p, ST_USAGE,
            "parallel.pp: 3 stages do not divide the 4 layers of m, as Vidur wants");
    p.pp = 1;
    p.tp = 3;
    refused(t, &p, ST_USAGE, "parallel.tp: 3 shards do not divide the 8 heads of m");
    p.tp = 1;
    test_write(t, "t/attn_prefill.csv",
               "kv_cache_size,prefill_chunk_size_squared,prediction\n64,10,1\n");
    refused(t, &p, ST_INPUT,
            "predictor vidur_tables\nDIR/t/attn_prefill: kv_cache_size 64, "
            "prefill_chunk_size_squared 10 is no key of Vidur's");
    test_write(t, "t/attn_decode.csv", "batch_size,kv_cache_size,prediction\n1,64,-1\n");
    refused(t, &p, ST_INPUT,
            "predictor vidur_tables\n"
            "DIR/t/attn_decode.csv:2:3: prediction: -1 is below the minimum 0");
    test_write(t, "t/add.csv", "num_tokens,prediction\n");
    refused(t, &p, ST_INPUT, "predictor vidur_tables\nDIR/t/add.csv has no rows");
}

static void a_missing_table_is_named(void **state)
{
    struct test *t = *state;
    struct predictor_params p = {.model = &m, .tp = 1, .pp = 1, .tables = test_dir(t)};
    refused(
        t, &p, ST_INPUT,
        "predictor vidur_tables\ncannot open DIR/attn_pre_proj.csv.gz: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_formula),
        TEST(alone),
        TEST(what_the_tables_lack_is_said),
        TEST(bad_folders),
        TEST(a_missing_table_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
