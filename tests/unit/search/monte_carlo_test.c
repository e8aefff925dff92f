#include "search/monte_carlo.h"

#include <math.h>

#include "metrics/metrics.h"
#include "support/golden_bundle.h"

static void draws_have_the_spread_asked_for(void **state)
{
    (void)state;
    enum { N = 20000 };
    struct bundle_uncertainty d = {.decode_drift = 0.2, .prompt_drift = 0.4};
    double sum = 0, squares = 0;
    d.shift[PART_TOKENS] = 0.1;
    for (size_t i = 0; i < N; i++) {
        struct rng host, unevenness;
        struct bundle_factors f = monte_carlo_draw(&d, 7, i, &host, &unevenness);
        double z = log(f.part[PART_TOKENS]);
        assert_near(f.part[PART_ROWS], 1, 0);
        assert_near(f.part[PART_SEND_RECV], 1, 0);
        assert_near(f.part[PART_HOST], 1, 0);
        assert_near(log(f.prompt), 2 * log(f.decode), 1e-12); /* the machine is slow for both */
        sum += z;
        squares += z * z;
    }
    assert_near(sum / N, 0, 4 * 0.1 / sqrt(N));
    assert_near(sqrt(squares / N), 0.1, 0.002);
}

static double decode_draw(const struct bundle_uncertainty *d, uint64_t seed, size_t i)
{
    struct rng host, unevenness;
    return monte_carlo_draw(d, seed, i, &host, &unevenness).decode;
}

static void a_draw_depends_on_seed_and_replica_alone(void **state)
{
    (void)state;
    struct bundle_uncertainty d = {.decode_drift = 0.2}, more = d;
    more.shift[PART_TOKENS] = 0.3; /* another part's uncertainty moves no other draw */
    assert_near(decode_draw(&d, 1, 3), decode_draw(&more, 1, 3), 0);
    assert_true(decode_draw(&d, 1, 3) != decode_draw(&d, 1, 4));
    assert_true(decode_draw(&d, 1, 3) != decode_draw(&d, 2, 3));
}

/* ---- one request, alone: its latencies are known --------------------------------------------- */

/* Every batch takes one operator's time, */
static enum st one_operator(void *self, const struct batch *b, struct stage_time *stages,
                            struct err *e)
{
    const struct predictor_params *p = self;
    (void)b, (void)e;
    stages[0] = (struct stage_time){.device_s = predict_decode_s(p->bundle, 4, 4 * 256)};
    return ST_OK;
}

/* or that of the host. */
static enum st host_alone(void *self, const struct batch *b, struct stage_time *stages,
                          struct err *e)
{
    const struct predictor_params *p = self;
    (void)b, (void)e;
    stages[0] = (struct stage_time){.host_s = bundle_host_s(p->bundle, 1, false)};
    return ST_OK;
}

static enum st open_params(struct arena *a, const struct predictor_params *p, void **self,
                           struct err *e)
{
    (void)e;
    *self = arena_copy(a, p, sizeof *p);
    return ST_OK;
}

static enum st one_request(void *self, struct arena *a, uint64_t seed, struct workload *out,
                           int32_t ***ids, struct err *e)
{
    (void)seed, (void)ids, (void)e;
    *out = (struct workload){.requests = arena_one(a, struct workload_request), .n = 1};
    out->requests[0] = (struct workload_request){.num_prefill_tokens = 8,
                                                 .num_decode_tokens = *(const int64_t *)self};
    return ST_OK;
}

typedef enum st predict_fn(void *self, const struct batch *b, struct stage_time *stages,
                           struct err *e);

static struct monte_carlo run_one(struct test *t, const struct bundle *b, const struct model *m,
                                  int64_t tokens, int64_t replicas, int64_t workers,
                                  predict_fn *predict)
{
    const struct predictor_ops ops = {.name = "one",
                                      .help = "",
                                      .version = PREDICTOR_VERSION,
                                      .open = open_params,
                                      .predict = predict};
    const struct predictor_params params = {.model = m, .bundle = b, .tp = 1, .pp = 1};
    const struct serve_params serve = {
        .policy = "vllm_v1", .replicas = 1, .batch_cap = 1, .block_size = 16, .num_blocks = 400};
    const struct monte_carlo_params p = {.predictor = &params,
                                         .ops = &ops,
                                         .serve = &serve,
                                         .workload = {&tokens, one_request},
                                         .seed = 3,
                                         .replicas = replicas,
                                         .workers = workers};
    struct monte_carlo out;
    assert_ok(monte_carlo_run(&p, &out, &t->e), t);
    return out;
}

static void near_cell(struct monte_carlo_cell c, double value, double low, double high)
{
    assert_near(c.value_s, value, 2e-9); /* times are rounded to ns */
    assert_near(c.low_s, low, 2e-9);
    assert_near(c.high_s, high, 2e-9);
}

/* Latencies are so many times d exp(s z) at a measured place: their interval is that of the draws.
 */
static void one_operators_error_is_the_interval_of_a_request(void **state)
{
    enum { TOKENS = 5, N = 1000 };
    struct test *t = *state;
    struct model model;
    const struct bundle *b = golden_bundle(t, &model);
    const struct monte_carlo m = run_one(t, b, &model, TOKENS, N, 2, one_operator);
    double f[N], scratch[N], d = predict_decode_s(b, 4, 4 * 256);
    double s = hypot(m.uncertainty.place[PART_DECODE], m.uncertainty.shift[PART_DECODE]);
    struct arena *a = arena_new();
    for (size_t i = 0; i < N; i++) {
        struct rng host, unevenness;
        struct bundle_factors x = monte_carlo_draw(&m.uncertainty, 3, i, &host, &unevenness);
        f[i] = predict_decode_s(bundle_perturbed(a, b, &x), 4, 4 * 256) / d;
        arena_reset(a);
    }
    arena_free(&a);
    stats_sort(f, scratch, N);
    double low = stats_percentile(f, N, 2.5), high = stats_percentile(f, N, 97.5);
    double off = 4 * sqrt(0.025 * 0.975 / N) / 0.0584 * s; /* 4 sd of a quantile, density there */
    assert_true(s > 0.001);
    assert_near(log(low), -1.96 * s, off);
    assert_near(log(high), 1.96 * s, off);
    for (int k = 0; k < PROBE_PERCENTILES; k++) {
        near_cell(m.of[SLO_TTFT][k], d, d * low, d * high);
        near_cell(m.of[SLO_TPOT][k], d, d * low, d * high);
        near_cell(m.of[MONTE_CARLO_TOKEN_LATENCY][k], d, d * low, d * high);
        near_cell(m.of[SLO_E2EL][k], TOKENS * d, TOKENS * d * low, TOKENS * d * high);
        near_cell(m.of[SLO_DELAY][k], 0, 0, 0);
    }
}

/* n iterations of mean h and standard deviation c h, and a common factor whose sd is s. */
static void host_time_that_varies_widens_sums_little_and_tails_much(void **state)
{
    enum { TOKENS = 3000, N = 300 };
    struct test *t = *state;
    struct model model;
    const struct bundle *b = golden_bundle(t, &model);
    const struct monte_carlo m = run_one(t, b, &model, TOKENS, N, 2, host_alone);
    const struct monte_carlo again = run_one(t, b, &model, TOKENS, N, 1, host_alone);
    assert_memory_equal(&m.of, &again.of, sizeof m.of); /* whatever the workers */
    assert_int_equal(bundle_lookups(b), 0);             /* replicas count their own */
    double h = bundle_host_s(b, 1, false), c = 0.0028276503 / 0.0041337302;
    double s = hypot(m.uncertainty.place[PART_HOST], c / sqrt(TOKENS)), variance = log1p(c * c);
    const struct monte_carlo_cell *e2e = &m.of[SLO_E2EL][0];
    const struct monte_carlo_cell *tail = &m.of[MONTE_CARLO_TOKEN_LATENCY][3];
    assert_near_rel(e2e->value_s, TOKENS * h, 1e-3);
    assert_near((e2e->high_s - e2e->low_s) / (TOKENS * h), 2 * 1.96 * s, 0.25 * 2 * 1.96 * s);
    assert_near(tail->value_s, h, 2e-9);
    double p99 = h * exp(2.3263 * sqrt(variance) - variance / 2);
    assert_true(tail->low_s > h && tail->low_s < p99 && p99 < tail->high_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(draws_have_the_spread_asked_for),
        TEST(a_draw_depends_on_seed_and_replica_alone),
        TEST(one_operators_error_is_the_interval_of_a_request),
        TEST(host_time_that_varies_widens_sums_little_and_tails_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
