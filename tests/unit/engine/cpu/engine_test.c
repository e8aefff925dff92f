#include "engine/engine.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "serve/serve.h"
#include "support/sequences.h"
#include "support/support.h"

enum { SEQUENCES = 9, PROMPT_MOST = 45, OUTPUT = 12 };

static struct model model_of(struct arena *a, const char *name, const char **dir)
{
    struct model m;
    struct err e = {0};
    *dir = arena_printf(a, "%s/tests/golden/models/%s", TW_SOURCE_DIR, name);
    assert_ok(model_load(a, *dir, &m, &e), &e);
    return m;
}

static struct cpu_engine_params params_of(const struct model *m, const char *dir, int threads)
{
    return (struct cpu_engine_params){.model = m,
                                      .weights_dir = dir,
                                      .threads = threads,
                                      .block_size = 8,
                                      .num_blocks = 200,
                                      .max_batch_tokens = 600,
                                      .max_rows = 40,
                                      .ignore_eos = true};
}

/* ---- the same bits for any batch ------------------------------------------------------------- */

struct expected {
    int32_t prompt[SEQUENCES][PROMPT_MOST];
    int64_t n[SEQUENCES];
    int32_t tokens[SEQUENCES][OUTPUT];
    float logits[SEQUENCES][OUTPUT][256];
};

/* Every sequence alone, its prompt in one piece. */
static void run_alone(struct sequences *s, struct expected *x)
{
    struct rng rng = rng_stream(11, "engine");
    for (int i = 0; i < SEQUENCES; i++) {
        const int32_t slot = i;
        x->n[i] = 1 + (int64_t)rng_below(&rng, PROMPT_MOST);
        for (int64_t t = 0; t < x->n[i]; t++)
            x->prompt[i][t] = (int32_t)rng_below(&rng, 256);
        sequence_start(s, slot, x->prompt[i], x->n[i]);
        struct chunk c = {.slot = slot, .tokens = x->n[i]};
        for (int t = 0; t < OUTPUT; t++) {
            sequences_step(s, &c, t == 0, &slot, t != 0);
            memcpy(x->logits[i][t], sequences_logits(s, 0), sizeof x->logits[i][t]);
            x->tokens[i][t] = s->slots[i].ids[x->n[i] + t];
        }
        sequence_drop(s, slot);
    }
}

/* Rows of the last batch: chunks that finish in batch order, then decodes by slot. */
static void check_row(struct sequences *s, const struct expected *x, int32_t slot, int64_t row)
{
    const int64_t t = s->slots[slot].n_ids - x->n[slot] - 1;
    assert_int_equal(s->slots[slot].ids[x->n[slot] + t], x->tokens[slot][t]);
    assert_memory_equal(sequences_logits(s, row), x->logits[slot][t], sizeof x->logits[slot][t]);
}

/* All sequences at once: chunks of random size mixed with decodes, some decode sets at rest, now
 * and then one that loses its blocks and is computed again from prompt and output. */
static void run_mixed(struct sequences *s, const struct expected *x, uint64_t seed)
{
    struct rng rng = rng_stream(seed, "engine.mixed");
    int64_t live = SEQUENCES;
    for (int i = 0; i < SEQUENCES; i++)
        sequence_start(s, i, x->prompt[i], x->n[i]);
    while (live > 0) {
        struct chunk chunks[SEQUENCES];
        int32_t decodes[SEQUENCES], n_chunks = 0, n_decodes = 0;
        const bool rest = rng_below(&rng, 5) == 0;
        for (int32_t i = SEQUENCES - 1; i >= 0; i--) {
            struct sequence *q = &s->slots[i];
            if (q->n_ids - x->n[i] == OUTPUT)
                continue;
            if (q->kv_tokens > 0 && rng_below(&rng, 20) == 0)
                sequence_drop(s, i);
            const int64_t left = q->n_ids - q->kv_tokens;
            const bool decodes_next = left == 1 && q->kv_tokens > 0;
            if (!decodes_next && rng_below(&rng, 3) != 0)
                chunks[n_chunks++] = (struct chunk){
                    .slot = i, .tokens = 1 + (int64_t)rng_below(&rng, (uint64_t)left)};
        }
        for (int32_t i = 0; i < SEQUENCES && !rest; i++) {
            const struct sequence *q = &s->slots[i];
            if (q->n_ids - x->n[i] < OUTPUT && q->kv_tokens > 0 && q->n_ids - q->kv_tokens == 1 &&
                q->n_ids > x->n[i])
                decodes[n_decodes++] = i;
        }
        if (n_chunks + n_decodes == 0)
            continue;
        sequences_step(s, chunks, n_chunks, decodes, n_decodes);
        int64_t row = 0;
        for (int32_t i = 0; i < n_chunks; i++)
            if (chunks[i].last)
                check_row(s, x, chunks[i].slot, row++);
        for (int32_t i = 0; i < n_decodes; i++)
            check_row(s, x, decodes[i], row++);
        live = 0;
        for (int32_t i = 0; i < SEQUENCES; i++)
            live += s->slots[i].n_ids - x->n[i] < OUTPUT;
    }
    for (int32_t i = 0; i < SEQUENCES; i++)
        sequence_drop(s, i);
}

static void check_bits(const char *name)
{
    struct arena *a = arena_new();
    const char *dir;
    const struct model m = model_of(a, name, &dir);
    struct expected *x = arena_one(a, struct expected);
    struct sequences *one = sequences_open(params_of(&m, dir, 1));
    struct sequences *two = sequences_open(params_of(&m, dir, 2));
    run_alone(one, x);
    for (uint64_t seed = 0; seed < 4; seed++) {
        run_mixed(one, x, seed);
        run_mixed(two, x, seed);
    }
    sequences_close(&one);
    sequences_close(&two);
    arena_free(&a);
}

static void test_same_bits(void **state)
{
    (void)state;
    check_bits("qwen3");
    check_bits("llama");
    check_bits("bloom_h6");
    check_bits("mistral");
    check_bits("qwen3_moe");
    check_bits("gpt_oss");
    check_bits("gemma3");
}

/* More keys than one step of attention holds, hidden sizes that no vector divides. */
static void test_long_and_odd(void **state)
{
    (void)state;
    enum { LONG = 700 };
    const struct model m = {.name = "odd",
                            .family = MODEL_LLAMA,
                            .norm = NORM_RMS,
                            .act = ACT_SILU_GATED,
                            .position = POSITION_ROPE,
                            .layers = 2,
                            .hidden = 37,
                            .heads = 3,
                            .kv_heads = 1,
                            .head_dim = 10,
                            .intermediate = 51,
                            .vocab = 67,
                            .max_positions = 1000,
                            .rope_theta = 10000,
                            .norm_eps = 1e-5,
                            .attn_bias = true,
                            .mlp_bias = true,
                            .bos_id = -1};
    struct cpu_engine_params p = params_of(&m, NULL, 2);
    int32_t ids[LONG];
    float whole[67];
    p.block_size = 3;
    p.num_blocks = 300;
    p.max_batch_tokens = LONG;
    for (int i = 0; i < LONG; i++)
        ids[i] = i * 31 % 67;
    struct sequences *s = sequences_open(p);
    sequence_start(s, 0, ids, LONG);
    struct chunk c = {.slot = 0, .tokens = LONG};
    sequences_step(s, &c, 1, NULL, 0);
    memcpy(whole, sequences_logits(s, 0), sizeof whole);
    for (int i = 0; i < 67; i++)
        assert_true(isfinite(whole[i]));
    sequence_drop(s, 0);

    sequence_start(s, 0, ids, LONG);
    for (int i = 0; s->slots[0].kv_tokens < LONG; i++) {
        const int64_t left = LONG - s->slots[0].kv_tokens;
        c = (struct chunk){.slot = 0, .tokens = 1 + i * 17 % 90 < left ? 1 + i * 17 % 90 : left};
        sequences_step(s, &c, 1, NULL, 0);
    }
    assert_memory_equal(whole, sequences_logits(s, 0), sizeof whole);
    sequences_close(&s);
}

/* ---- completions ----------------------------------------------------------------------------- */

static void test_end_of_sequence(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const char *dir;
    struct model m = model_of(a, "qwen3", &dir);
    const int32_t prompt[] = {5, 6, 7};
    for (int ignore = 0; ignore < 2; ignore++) {
        struct cpu_engine_params p = params_of(&m, dir, 1);
        p.ignore_eos = ignore;
        struct sequences *s = sequences_open(p);
        struct chunk c = {.slot = 4, .tokens = 3};
        sequence_start(s, 4, prompt, 3);
        sequences_step(s, &c, 1, NULL, 0);
        const int32_t token = s->slots[4].ids[3];
        assert_int_equal(s->done.tokens[0].slot, 4);
        assert_int_equal(s->done.tokens[0].token_id, token);
        if (m.eos_ids[0] != token || ignore) {
            assert_int_equal(s->done.n_ended, 0);
        } else {
            assert_int_equal(s->done.n_ended, 1);
            assert_int_equal(s->done.ended[0], 4);
        }
        sequences_close(&s);
        if (ignore == 0 && m.eos_ids[0] != token) { /* again with that token as the end */
            m.eos_ids[0] = token;
            m.n_eos = 1;
            ignore = -1;
        }
    }
    arena_free(&a);
}

/* ---- what is sampled ------------------------------------------------------------------------- */

/* A padded vocabulary: no token from its end, greedily or not, and else the likeliest. */
static void test_ids_beyond_the_tokenizer(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const char *dir;
    const struct model m = model_of(a, "qwen3", &dir);
    struct cpu_engine_params p = params_of(&m, dir, 2);
    const struct sampling hot = {.temperature = 50, .top_p = 1, .seed = 1};
    const int32_t prompt[] = {1, 2, 3, 4}, both[] = {0, 1};
    int beyond = 0;
    p.sample_vocab = 40; /* of 256 */
    struct sequences *s = sequences_open(p);
    sequence_start(s, 0, prompt, 4);
    sequence_start(s, 1, prompt, 4);
    s->slots[1].sampling = &hot;
    struct chunk c[] = {{.slot = 0, .tokens = 4}, {.slot = 1, .tokens = 4}};
    for (int t = 0; t < 60; t++) {
        sequences_step(s, c, t == 0 ? 2 : 0, both, t == 0 ? 0 : 2);
        const float *x = sequences_logits(s, 0);
        int32_t best = 0, best_of_all = 0;
        for (int32_t i = 0; i < 256; i++) {
            best = i < 40 && x[i] > x[best] ? i : best;
            best_of_all = x[i] > x[best_of_all] ? i : best_of_all;
        }
        beyond += best_of_all >= 40;
        assert_int_equal(s->slots[0].ids[4 + t], best);
        assert_in_range(s->slots[1].ids[4 + t], 0, 39);
    }
    assert_true(beyond > 0); /* or it would show nothing */
    sequences_close(&s);
    arena_free(&a);
}

/* The same tokens whatever shares the batch, and other ones with another seed. Slot 0 draws with
 * seed 1, slot 1 with seed 1, slot 2 with seed 2, slot 3 does not draw. */
static void test_draws_depend_on_the_seed_alone(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const char *dir;
    const struct model m = model_of(a, "llama", &dir);
    const struct cpu_engine_params p = params_of(&m, dir, 2);
    const struct sampling how[] = {{.temperature = 3, .top_p = 0.99, .top_k = 200, .seed = 1},
                                   {.temperature = 3, .top_p = 0.99, .top_k = 200, .seed = 1},
                                   {.temperature = 3, .top_p = 0.99, .top_k = 200, .seed = 2}};
    const int32_t prompt[] = {7, 8, 9, 10, 11}, all[] = {0, 1, 2, 3}, first = 0;
    struct sequences *s = sequences_open(p);
    struct chunk c[4];
    int32_t alone[30];
    sequence_start(s, 0, prompt, 5);
    s->slots[0].sampling = &how[0];
    c[0] = (struct chunk){.slot = 0, .tokens = 5};
    for (int t = 0; t < 30; t++) {
        sequences_step(s, c, t == 0, &first, t != 0);
        alone[t] = s->slots[0].ids[5 + t];
    }
    sequence_drop(s, 0);
    for (int i = 0; i < 4; i++) {
        sequence_start(s, i, prompt, 5);
        s->slots[i].sampling = i < 3 ? &how[i] : NULL;
        c[i] = (struct chunk){.slot = i, .tokens = 5};
    }
    int other_seed = 0, greedy = 0;
    for (int t = 0; t < 30; t++) {
        sequences_step(s, c, t == 0 ? 4 : 0, all, t == 0 ? 0 : 4);
        assert_int_equal(s->slots[0].ids[5 + t], alone[t]);
        assert_int_equal(s->slots[1].ids[5 + t], alone[t]);
        other_seed += s->slots[2].ids[5 + t] != alone[t];
        greedy += s->slots[3].ids[5 + t] != alone[t];
    }
    assert_true(other_seed > 0 && greedy > 0);
    sequences_close(&s);
    arena_free(&a);
}

static void test_operator_times(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const char *dir;
    const struct model m = model_of(a, "bloom", &dir);
    const int32_t prompt[] = {1, 2, 3, 4};
    double sum = 0;
    struct sequences *s = sequences_open(params_of(&m, dir, 1));
    assert_true(s->ex.ops->caps & EXEC_OP_TIMES);
    s->op_times = true;
    struct chunk c = {.slot = 0, .tokens = 4};
    sequence_start(s, 0, prompt, 4);
    sequences_step(s, &c, 1, NULL, 0);
    assert_non_null(s->done.op_s);
    for (int k = 0; k < OP_ROWS; k++)
        sum += s->done.op_s[k];
    assert_true(s->done.op_s[OP_EMB_NORM] > 0);
    assert_true(s->done.op_s[OP_ROPE] == 0);
    assert_true(s->done.op_s[OP_MLP_UP_PROJ] > 0);
    assert_true(sum > 0 && sum <= s->done.device_s);
    assert_true(s->done.host_s >= 0);
    assert_true(s->done.host_s + s->done.device_s <= s->done.end_s - s->done.start_s + 1e-9);

    s->op_times = false; /* asked for by each batch: this one does not */
    sequences_step(s, NULL, 0, (int32_t[]){0}, 1);
    assert_null(s->done.op_s);
    sequences_close(&s);
    arena_free(&a);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static struct slot_view some_view(void *self, int32_t slot)
{
    static const int32_t ids[] = {1, 2, 300}, blocks[400];
    (void)self;
    (void)slot;
    return (struct slot_view){.ids = ids, .blocks = blocks, .n_blocks = 400};
}

static void refused(const struct cpu_engine_params *p, const struct chunk *c, const char *text)
{
    struct err e = {0};
    struct executor x;
    uint64_t ticket;
    assert_ok(cpu_engine_open(p, &x, &e), &e);
    x.ops->bind(x.self, (struct slot_source){NULL, some_view});
    const struct batch b = {
        .chunks = c, .n_chunks = 1, .prefill_tokens = c->tokens, .n_last_chunks = c->last};
    assert_int_equal(x.ops->submit(x.self, &b, &ticket, &e), ST_USAGE);
    assert_cause(&e, text);
    x.ops->close(x.self);
}

static void test_batches_refused(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const char *dir;
    const struct model m = model_of(a, "qwen3", &dir);
    struct cpu_engine_params p = params_of(&m, dir, 1);
    const struct serve_clock clock = clock_real();
    p.clock = &clock;
    p.max_batch_tokens = 3;
    refused(&p, &(struct chunk){0, 0, 4, true}, "a batch of 4 tokens: the engine was opened for 3");
    refused(&p, &(struct chunk){0, 0, 3, true}, "token id 300: the model has 256");
    refused(&p, &(struct chunk){0, 1600, 1, true},
            "a sequence of 1601 tokens: the model and its KV cache hold 1600 at most");
    arena_free(&a);
}

/* A completion later than asked for waits for the next call. */
static void test_deadline(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const char *dir;
    const struct model m = model_of(a, "qwen3", &dir);
    struct cpu_engine_params p = params_of(&m, dir, 1);
    const struct serve_clock clock = clock_real();
    struct executor x;
    struct err e = {0};
    struct completion done;
    uint64_t ticket;
    p.clock = &clock;
    assert_ok(cpu_engine_open(&p, &x, &e), &e);
    x.ops->bind(x.self, (struct slot_source){NULL, some_view});
    assert_int_equal(x.ops->next(x.self, INFINITY, &done, &e), ST_END);
    const struct chunk c = {0, 0, 2, true};
    const struct batch b = {.chunks = &c, .n_chunks = 1, .prefill_tokens = 2, .n_last_chunks = 1};
    assert_ok(x.ops->submit(x.self, &b, &ticket, &e), &e);
    assert_int_equal(x.ops->next(x.self, clock_now_s(&clock), &done, &e), ST_END);
    assert_ok(x.ops->next(x.self, INFINITY, &done, &e), &e);
    assert_int_equal(done.ticket, ticket);
    assert_int_equal(done.n_tokens, 1);
    assert_int_equal(x.ops->next(x.self, INFINITY, &done, &e), ST_END);
    x.ops->close(x.self);
    arena_free(&a);
}

static void open_refused(const struct cpu_engine_params *p, const char *text)
{
    struct err e = {0};
    struct executor x;
    assert_int_equal(cpu_engine_open(p, &x, &e), ST_USAGE);
    assert_cause(&e, text);
    assert_string_equal(err_cause(&e, 0), "cannot open the CPU engine");
}

static void test_open_refused(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const char *dir;
    const struct model m = model_of(a, "qwen3", &dir);
    struct cpu_engine_params p = params_of(&m, dir, 1);
    p.block_size = 0;
    open_refused(&p, "block_size: 0 is below the minimum 1");
    p = params_of(&m, dir, 1);
    p.num_blocks = -5;
    open_refused(&p, "num_blocks: -5 is below the minimum 1");
    p = params_of(&m, dir, 1);
    p.max_rows = 0;
    open_refused(&p, "max_rows: 0 is below the minimum 1");
    p = params_of(&m, dir, -3);
    open_refused(&p, "threads: -3 is not between 0 and 1024");
    arena_free(&a);
}

static void test_absurd_cache(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {
        {16, INT64_C(1) << 40}, {INT64_MAX, INT64_MAX}, {INT64_C(1) << 50, 1}};
    struct arena *a = arena_new();
    const char *dir;
    const struct model m = model_of(a, "qwen3", &dir);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct cpu_engine_params p = params_of(&m, dir, 1);
        struct err e = {0};
        struct executor x;
        p.block_size = sizes[i][0];
        p.num_blocks = sizes[i][1];
        assert_int_equal(cpu_engine_open(&p, &x, &e), ST_USAGE);
        char start[100];
        snprintf(start, sizeof start, "a KV cache of %lld blocks of %lld tokens takes ",
                 (long long)p.num_blocks, (long long)p.block_size);
        assert_memory_equal(err_cause(&e, 1), start, strlen(start));
        assert_string_equal(err_hint_text(&e), "lower scheduler.num_blocks or the batch limits, or "
                                               "take a smaller model");
    }
    arena_free(&a);
}

/* ---- prefix caching: the loop hands out blocks that already hold keys and values ------------- */

enum { ALIKE = 14, ALIKE_OUTPUT = 10 };

struct served {
    struct executor ex;
    int64_t pulled, n, written; /* tokens that came; of them with logits */
    int64_t request[ALIKE * ALIKE_OUTPUT], index[ALIKE * ALIKE_OUTPUT];
    int64_t token[ALIKE][ALIKE_OUTPUT];
    float logits[ALIKE][ALIKE_OUTPUT][256];
};

static enum st alike_next(void *self, struct workload_request *out, struct err *e)
{
    struct served *x = self;
    (void)e;
    if (x->pulled == ALIKE)
        return ST_END;
    *out = (struct workload_request){.request_id = x->pulled++, .num_decode_tokens = ALIKE_OUTPUT};
    out->num_prefill_tokens = 24 + out->request_id * 5 % 17;
    return ST_OK;
}

/* Two families of prompts: the first 12 to 30 tokens are those of the family. */
static enum st alike_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)self;
    (void)e;
    for (int64_t i = 0; i < r->num_prefill_tokens; i++) {
        bool common = i < 12 + r->request_id * 7 % 19;
        ids[i] =
            (int32_t)((common ? r->request_id % 2 * 50 + i * 3 : 100 + r->request_id * 11 + i * 5) %
                      256);
    }
    return ST_OK;
}

static void alike_token(void *self, const struct run_token *t)
{
    struct served *x = self;
    x->request[x->n] = t->request_id;
    x->index[x->n++] = t->token_index;
    x->token[t->request_id][t->token_index] = t->token_id;
}

/* The tokens of a batch came in the order of its rows. */
static void alike_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct served *x = self;
    int64_t rows;
    const float *logits = cpu_engine_logits(&x->ex, &rows);
    (void)b;
    assert_int_equal(x->written + rows, x->n);
    assert_int_equal(rows, c->n_tokens);
    for (int64_t r = 0; r < rows; r++, x->written++)
        memcpy(x->logits[x->request[x->written]][x->index[x->written]], logits + r * 256,
               256 * sizeof *logits);
}

static struct serve_counters serve_alike(const struct cpu_engine_params *p, bool caching,
                                         struct served *x)
{
    struct serve_clock clock = clock_real();
    struct cpu_engine_params ep = *p;
    struct err e = {0};
    struct serve_counters n;
    struct serve_params sp = {.policy = "vllm_v1",
                              .replicas = 1,
                              .batch_cap = 4,
                              .token_budget = 20,
                              .block_size = p->block_size,
                              .num_blocks = 14,
                              .prefix_caching = caching,
                              .emit_tokens = true};
    struct request_source source = {x, alike_next, alike_ids, NULL};
    struct serve_sink sink = {.self = x, .token = alike_token, .batch = alike_batch};
    *x = (struct served){0};
    ep.clock = &clock;
    assert_ok(cpu_engine_open(&ep, &x->ex, &e), &e);
    assert_ok(serve_run(&sp, &clock, &x->ex, &source, &sink, NULL, &n, &e), &e);
    x->ex.ops->close(x->ex.self);
    assert_int_equal(x->written, ALIKE * ALIKE_OUTPUT);
    return n;
}

/* Every token and every logit has the same bits, through preemptions and evictions. */
static void test_prefix_caching_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3", "llama", "bloom_h6"};
    struct arena *a = arena_new();
    struct served *with = arena_one(a, struct served), *without = arena_one(a, struct served);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *dir;
        const struct model m = model_of(a, names[i], &dir);
        const struct cpu_engine_params p = params_of(&m, dir, 2);
        const struct serve_counters n = serve_alike(&p, true, with);
        const struct serve_counters plain = serve_alike(&p, false, without);
        assert_memory_equal(with->token, without->token, sizeof with->token);
        assert_memory_equal(with->logits, without->logits, sizeof with->logits);
        assert_true(n.prefix_hit_tokens > 100 && n.prefix_evictions > 0);
        assert_true(n.prefill_tokens < plain.prefill_tokens);
        assert_true(n.preemptions > 0);
        assert_int_equal(plain.prefix_looked_tokens, 0);
    }
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_long_and_odd),
        cmocka_unit_test(test_end_of_sequence),
        cmocka_unit_test(test_ids_beyond_the_tokenizer),
        cmocka_unit_test(test_draws_depend_on_the_seed_alone),
        cmocka_unit_test(test_operator_times),
        cmocka_unit_test(test_batches_refused),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_open_refused),
        cmocka_unit_test(test_absurd_cache),
        cmocka_unit_test(test_prefix_caching_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
