/* Every predictor, over random batches: what must hold wherever times come from. */
#include <math.h>

#include "base/rng.h"
#include "profile/read/iteration.h"
#include "sim/predictor.h"
#include "support/golden_bundle.h"
#include "text/json.h"

static const struct model model = {.name = "m",
                                   .family = MODEL_LLAMA,
                                   .norm = NORM_RMS,
                                   .act = ACT_SILU_GATED,
                                   .position = POSITION_ROPE,
                                   .layers = 4,
                                   .hidden = 1024,
                                   .heads = 16,
                                   .kv_heads = 4,
                                   .head_dim = 64,
                                   .intermediate = 4096,
                                   .vocab = 32000};

enum { MOST_CHUNKS = 3, BATCHES = 200 };

struct random_batch {
    struct batch b;
    struct chunk chunks[MOST_CHUNKS];
};

/* Sums as serve/flights.c makes them. */
static void sum(struct batch *b)
{
    int64_t decodes = (int64_t)b->n_decodes * (1 + b->draft_tokens);
    b->prefill_tokens = b->n_last_chunks = 0;
    b->load = (struct op_load){0};
    for (int32_t i = 0; i < b->n_chunks; i++) {
        const struct chunk *c = &b->chunks[i];
        b->prefill_tokens += c->tokens;
        b->n_last_chunks += c->last;
        b->load.kv_tokens_prefill += c->tokens * c->start;
        b->load.chunk_sq += c->tokens * (c->tokens + 1) / 2;
        b->load.kv_read_tokens += c->start + c->tokens;
    }
    b->load.tokens = b->prefill_tokens + decodes;
    b->load.rows = decodes + b->n_last_chunks;
    b->load.seqs = b->n_decodes;
    b->load.kv_tokens = b->decode_kv_tokens + decodes;
}

static void draw(struct rng *r, struct random_batch *x)
{
    *x = (struct random_batch){.b = {.chunks = x->chunks, .n_chunks = (int32_t)rng_below(r, 4)}};
    for (int32_t i = 0; i < x->b.n_chunks; i++)
        x->chunks[i] = (struct chunk){.start = (int64_t)rng_below(r, 64) * 16,
                                      .tokens = 1 + (int64_t)rng_below(r, 256),
                                      .last = rng_below(r, 2) == 0};
    x->b.n_decodes = (int32_t)rng_below(r, 33) + (x->b.n_chunks == 0);
    for (int32_t i = 0; i < x->b.n_decodes; i++) {
        int64_t kv = 1 + (int64_t)rng_below(r, 500);
        x->b.decode_kv_tokens += kv;
        x->b.decode_kv_max = kv > x->b.decode_kv_max ? kv : x->b.decode_kv_max;
    }
    sum(&x->b);
}

static double total(struct test *t, const struct predictor *p, const struct batch *b)
{
    struct stage_time stages[4] = {{0}};
    double s = 0;
    assert_ok(p->ops->predict(p->self, b, stages, &t->e), t);
    for (int32_t i = 0; i < p->stages; i++) {
        assert_true(isfinite(stages[i].host_s) && stages[i].host_s >= 0);
        assert_true(isfinite(stages[i].device_s) && stages[i].device_s > 0);
        s += stages[i].host_s + stages[i].device_s;
    }
    return s;
}

/* `smooth`: more work never takes less time. Interpolated measurements may. */
static void check(struct test *t, const struct predictor_ops *ops,
                  const struct predictor_params *params, bool smooth)
{
    struct predictor p, again;
    struct rng r = rng_stream(1, "predictor");
    assert_ok(predictor_open(t->a, ops, params, &p, &t->e), t);
    assert_ok(predictor_open(t->a, ops, params, &again, &t->e), t);
    assert_int_equal(p.stages, params->pp);
    assert_int_equal(p.ops->version, PREDICTOR_VERSION);
    for (int i = 0; i < BATCHES; i++) {
        struct random_batch x;
        draw(&r, &x);
        double s = total(t, &p, &x.b);
        assert_true(s == total(t, &p, &x.b)); /* no state */
        assert_true(s == total(t, &again, &x.b));
        struct random_batch longer = x;
        longer.b.chunks = longer.chunks;
        longer.b.decode_kv_tokens += 100 * x.b.n_decodes;
        longer.b.decode_kv_max += 100;
        if (longer.b.n_chunks > 0)
            longer.chunks[0].tokens += 64;
        sum(&longer.b);
        if (smooth)
            assert_true(total(t, &p, &longer.b) > s);
    }
}

static const struct iteration_hardware gpu = {.dram_bytes_per_s = 3e12,
                                              .flop_per_s = {[PRECISION_BF16] = 1e15},
                                              .links.link_bytes_per_s = 4e11};

static void roofline(void **state)
{
    struct test *t = *state;
    struct model moe = model;
    moe.experts = 8;
    moe.experts_per_token = 2;
    for (int64_t pp = 1; pp <= 4; pp *= 2)
        for (int64_t tp = 1; tp <= 4; tp *= 2) {
            struct predictor_params p = {
                .model = &model, .tp = tp, .pp = pp, .hardware = &gpu, .host_overhead = true};
            check(t, &predictor_roofline, &p, true);
            p.model = &moe;
            check(t, &predictor_roofline, &p, true);
            p.ep = tp * 2;
            check(t, &predictor_roofline, &p, true);
        }
}

static void bundle(void **state)
{
    struct test *t = *state;
    struct model m;
    const struct bundle *b = golden_bundle(t, &m);
    const struct predictor_params p = {
        .model = &m, .tp = 1, .pp = 1, .bundle = b, .host_overhead = true};
    check(t, &predictor_bundle, &p, false);
}

static const struct bundle *written(struct test *t, const char *file, const char *text)
{
    struct bundle *b;
    const struct bundle_key key = {.root = test_dir(t),
                                   .hardware = "gpu",
                                   .model_name = "m",
                                   .model = &model,
                                   .tp = 1,
                                   .pp = 1,
                                   .block_size = 16};
    test_write(t, "data/profiling/compute/gpu/m/bundle_meta.json",
               "{\"schema_version\": 1, \"run_type\": \"vidur_profile\"}");
    test_write(t, arena_printf(t->a, "data/profiling/compute/gpu/m/%s", file), text);
    assert_ok(bundle_load(t->a, &key, &b, &t->e), t);
    return b;
}

static void calibrated(void **state)
{
    struct test *t = *state;
    struct calibrated c = {.hardware = gpu, .tp = 1, .pp = 1};
    struct iteration_params d = iteration_defaults(PRECISION_BF16);
    for (int i = 0; i < ITERATION_PARAMS; i++)
        c.param[i] = (struct calibrated_param){.value = d.v[i]};
    struct buf text = {0};
    json_write(&text, calibrated_node(t->a, &c), 2, true);
    const struct bundle *b = written(t, BUNDLE_CALIBRATION_FILE, buf_str(&text));
    buf_free(&text);
    struct predictor_params p = {
        .model = &model, .tp = 1, .pp = 1, .bundle = b, .host_overhead = true, .hardware = &gpu};
    check(t, &predictor_bundle, &p, true);
    /* With the defaults as parameters it is the roofline. */
    struct predictor x, y;
    struct rng r = rng_stream(2, "predictor");
    assert_ok(predictor_open(t->a, &predictor_bundle, &p, &x, &t->e), t);
    assert_ok(predictor_open(t->a, &predictor_roofline, &p, &y, &t->e), t);
    assert_ptr_equal(x.ops, &predictor_calibrated);
    for (int i = 0; i < BATCHES; i++) {
        struct random_batch batch;
        draw(&r, &batch);
        assert_near_rel(total(t, &x, &batch.b), total(t, &y, &batch.b), 1e-12);
    }
}

/* Rows of the form that is fitted come back exactly, between and beyond them. */
static void iterations(void **state)
{
    struct test *t = *state;
    struct buf text = {0};
    buf_puts(&text, "num_tensor_parallel_workers,chunk_tokens,chunk_context,decode_sequences,"
                    "decode_kv_tokens,host_ns,device_ns\n");
    for (int c = 0; c <= 512; c = c ? c * 4 : 8)
        for (int n = c == 0; n <= 32; n = n ? n * 2 : 1) {
            int64_t kv = n * (40 + 10 * n + c % 5 * 30),
                    context = (int64_t)c * (c + 1) / 2 + 64 * c;
            for (int64_t more = 0; more <= 400; more += 400)
                buf_printf(&text, "1,%d,%lld,%d,%lld,%d,%lld\n", c, (long long)context, n,
                           (long long)(kv + n * more), 500000 + 1000 * n,
                           (long long)(4000000 + 20000 * c + 7 * context + 3000 * n +
                                       11 * (kv + n * more)));
        }
    const struct predictor_params p = {.model = &model,
                                       .tp = 1,
                                       .pp = 1,
                                       .bundle = written(t, "iteration.csv", buf_str(&text)),
                                       .host_overhead = true};
    buf_free(&text);
    check(t, &predictor_bundle, &p, true);
    struct predictor x;
    struct rng r = rng_stream(3, "predictor");
    assert_ok(predictor_open(t->a, &predictor_bundle, &p, &x, &t->e), t);
    assert_ptr_equal(x.ops, &predictor_iterations);
    for (int i = 0; i < BATCHES; i++) {
        struct random_batch batch;
        draw(&r, &batch);
        const struct batch *b = &batch.b;
        double context = (double)(b->load.kv_tokens_prefill + b->load.chunk_sq);
        double want = 4.5e-3 + 20e-6 * (double)b->prefill_tokens + 7e-9 * context +
                      4e-6 * b->n_decodes + 11e-9 * (double)b->decode_kv_tokens;
        assert_near_rel(total(t, &x, b), want, 1e-6);
    }
    assert_true(bundle_lookups(p.bundle) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(roofline), TEST(bundle), TEST(calibrated),
                                       TEST(iterations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
