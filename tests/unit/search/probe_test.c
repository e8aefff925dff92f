#include "search/probe.h"

#include <math.h>

#include "base/rng.h"
#include "search/probe_sim.h"
#include "support/support.h"

static struct slo limit(enum slo_metric m, double s)
{
    struct slo slo = {.fraction = 0.99};
    for (int i = 0; i < SLO_METRICS; i++)
        slo.limit_s[i] = (double)INFINITY;
    slo.limit_s[m] = s;
    return slo;
}

static struct run_request row(int64_t id, int64_t arrival_ms, int64_t wait_ms, int64_t tokens)
{
    int64_t at = arrival_ms * 1000000, start = at + wait_ms * 1000000;
    return (struct run_request){.request_id = id,
                                .arrival_ns = at,
                                .scheduled_ns = start,
                                .first_token_ns = start + 1000000,
                                .completion_ns = start + tokens * 1000000,
                                .num_prefill_tokens = 5,
                                .num_decode_tokens = tokens,
                                .num_decode_tokens_actual = tokens};
}

static void who_overlaps_was_not_alone(void **state)
{
    (void)state;
    struct slo slo = limit(SLO_TTFT, 0.0015);
    struct probe_samples s = {0};
    struct probe_result r;
    /*                                     arrival, end: 0-10, 10-15, 14-16, 17-37, 20-21, 40-45 */
    const int64_t rows[][3] = {{0, 0, 10},  {10, 1, 4}, {14, 0, 2},
                               {17, 0, 20}, {20, 0, 1}, {40, 1, 4}};
    probe_samples_begin(&s, &slo);
    for (int64_t i = 0; i < 6; i++) {
        struct run_request q = row(i, rows[i][0], rows[i][1], rows[i][2]);
        probe_samples_add(&s, &q);
    }
    probe_samples_sum(&s, &r);
    assert_near(r.alone, 2, 0); /* the first and the last */
    assert_near(r.alone_bad, 1, 0);
    probe_samples_free(&s);
}

static void rows_add_up_to_a_result(void **state)
{
    (void)state;
    struct slo slo = limit(SLO_TTFT, 0.0055);
    struct probe_samples s = {0};
    struct probe_result r;
    probe_samples_begin(&s, &slo);
    for (int64_t i = 7; i >= 0; i--) { /* in any order */
        struct run_request q = row(i, 1000 * i, i, i ? 11 : 1);
        probe_samples_add(&s, &q);
    }
    struct run_request failed = row(8, 8000, 0, 1), warmup = row(9, 90000, 50, 9);
    failed.status = RUN_REJECTED;
    failed.first_token_ns = failed.completion_ns = RUN_NONE;
    warmup.warmup = true;
    probe_samples_add(&s, &failed);
    probe_samples_add(&s, &warmup);
    probe_samples_sum(&s, &r);
    assert_near(r.requests, 9, 0);
    assert_near(r.failed, 1, 0);
    assert_near(r.alone, 8, 0); /* when the failed one ended is not known */
    assert_near(r.alone_bad, 3, 0);
    assert_near(r.good, 5.0 / 9, 1e-15); /* waits of 0 to 4 ms, and one token after */
    assert_near(r.duration_s, 7.018, 1e-12);
    assert_near(r.output_tokens_per_s, 78 / 7.018, 1e-9);
    assert_near(r.requests_per_s, 8 / 7.018, 1e-12);
    assert_near(r.goodput_per_s, 5 / 7.018, 1e-12);
    assert_near(r.latency_s[SLO_DELAY][0], 0.0035, 1e-12);
    assert_near(r.latency_s[SLO_TPOT][3], 0.001, 1e-12);
    assert_near(r.early_delay_s, 0.0025, 1e-12);
    assert_near(r.late_delay_s, 0.007, 1e-12); /* the failed one has none */
    assert_true(isnan(r.energy_j));
    probe_samples_free(&s);
}

static void nothing_gives_unknowns(void **state)
{
    struct test *t = *state;
    struct slo slo = limit(SLO_TTFT, 1);
    struct probe_samples s = {0};
    struct probe_result r, back;
    probe_samples_begin(&s, &slo);
    probe_samples_sum(&s, &r);
    assert_true(isnan(r.good) && isnan(r.requests_per_s) && isnan(r.latency_s[SLO_E2EL][2]));
    struct node *n = fields_node(t->a, &probe_result_fields, &r);
    assert_ok(fields_read(t->a, &probe_result_fields, n, &back, &t->e), t);
    assert_true(isnan(back.good));
    probe_samples_free(&s);
}

static void fields_name_every_number_once(void **state)
{
    (void)state;
    assert_int_equal(PROBE_FIELDS * sizeof(double), sizeof(struct probe_result));
    for (int i = 0; i < PROBE_FIELDS; i++)
        for (int k = 0; k < i; k++) {
            assert_int_not_equal(probe_fields[i].at, probe_fields[k].at);
            assert_string_not_equal(probe_fields[i].key, probe_fields[k].key);
        }
}

/* ---- the simulator -------------------------------------------------------------------------- */

enum { SERVICE_MS = 10, REQUESTS = 40000 };

/* Every batch takes 10 ms; with batches of one request and one token that is a queue with constant
 * service times. */
static enum st constant(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    (void)self, (void)b, (void)e;
    stages[0] = (struct stage_time){.device_s = SERVICE_MS / 1e3};
    return ST_OK;
}

static enum st poisson(void *self, struct arena *a, uint64_t seed, struct workload *out,
                       int32_t ***ids, struct err *e)
{
    (void)self, (void)ids, (void)e;
    struct rng r = rng_stream(seed, "arrivals");
    double now = 0;
    *out = (struct workload){.requests = arena_array(a, struct workload_request, REQUESTS),
                             .n = REQUESTS};
    for (int64_t i = 0; i < REQUESTS; i++) {
        now += rng_exponential(&r);
        out->requests[i] = (struct workload_request){.request_id = i,
                                                     .arrival_ns = (int64_t)(now * 1e9),
                                                     .num_prefill_tokens = 4,
                                                     .num_decode_tokens = 1};
    }
    return ST_OK;
}

static const struct predictor_ops constant_ops = {
    .name = "constant", .help = "", .version = PREDICTOR_VERSION, .predict = constant};

static struct rate_probe open_probe(const struct predictor *p, const struct serve_params *serve,
                                    const struct slo *slo)
{
    return probe_sim_open(&(struct probe_sim_params){
        .predictor = p, .serve = serve, .workload = {NULL, poisson}, .slo = slo});
}

/* Median and P90 of the waits of a queue with constant service D at load rho, from Erlang's formula
 * P(W <= t) = (1 - rho) sum_k (-lambda (t - k D))^k / k! exp(lambda (t - k D)), k <= t / D. */
static double md1(double rho, double t) /* t in services */
{
    double sum = 0, factorial = 1;
    for (int k = 0; k <= (int)t; k++) {
        factorial *= k ? k : 1;
        double x = rho * (t - k);
        sum += pow(-x, k) / factorial * exp(x);
    }
    return (1 - rho) * sum;
}

static void waits_are_those_of_a_queue_with_constant_service(void **state)
{
    struct test *t = *state;
    struct predictor p = {.ops = &constant_ops, .stages = 1};
    struct serve_params serve = {
        .policy = "vllm_v1", .replicas = 1, .batch_cap = 1, .block_size = 16, .num_blocks = 1};
    struct slo slo = limit(SLO_DELAY, 5);
    struct rate_probe probe = open_probe(&p, &serve, &slo);
    struct probe_result r, again, other;
    double rho = 0.7, rate = rho * 1e3 / SERVICE_MS;
    assert_ok(probe.ops->run(probe.self, rate, 1, &r, &t->e), t);
    for (int k = 0; k < 3; k++) /* P50, P90, P95 of the waits */
        assert_near(md1(rho, r.latency_s[SLO_DELAY][k] / (SERVICE_MS / 1e3)),
                    probe_percentiles[k] / 100, 0.01);
    assert_ok(probe.ops->run(probe.self, rate, 2, &other, &t->e), t);
    assert_ok(probe.ops->run(probe.self, rate, 1, &again, &t->e), t);
    for (int i = 0; i < PROBE_FIELDS; i++)
        if (!isnan(*probe_value(&r, i)))
            assert_near(*probe_value(&r, i), *probe_value(&again, i), 0);
    assert_true(other.latency_s[SLO_DELAY][1] != r.latency_s[SLO_DELAY][1]);
    probe_sim_close(&probe);
}

static void all_at_once_takes_the_sum_of_the_services(void **state)
{
    struct test *t = *state;
    struct predictor p = {.ops = &constant_ops, .stages = 1};
    struct serve_params serve = {
        .policy = "vllm_v1", .replicas = 1, .batch_cap = 1, .block_size = 16, .num_blocks = 1};
    struct slo slo = limit(SLO_DELAY, 5);
    struct rate_probe probe = open_probe(&p, &serve, &slo);
    struct probe_result r;
    assert_ok(probe.ops->run(probe.self, (double)INFINITY, 1, &r, &t->e), t);
    assert_near_rel(r.requests_per_s, 1e3 / SERVICE_MS, 1e-9);
    assert_near(r.good, 501.0 / REQUESTS, 1e-12); /* starts at 0, 10 ms, ... 5 s */
    probe_sim_close(&probe);
}

static enum st three_joules(void *self, const struct batch *b, struct stage_time *stages,
                            struct err *e)
{
    TRY(constant(self, b, stages, e));
    stages[0].energy_j = 3;
    return ST_OK;
}

static const struct predictor_ops three_joules_ops = {
    .name = "three_joules", .help = "", .version = PREDICTOR_VERSION, .predict = three_joules};

/* 3 J a token, of warm-up and the rest alike: J/token does not depend on how many warm up. */
static void warmup_bears_its_own_energy(void **state)
{
    struct test *t = *state;
    struct predictor p = {.ops = &three_joules_ops, .stages = 1};
    struct serve_params serve = {.policy = "vllm_v1",
                                 .replicas = 1,
                                 .batch_cap = 1,
                                 .block_size = 16,
                                 .num_blocks = 1,
                                 .warmup_requests = REQUESTS / 4};
    struct slo slo = limit(SLO_DELAY, 5);
    struct rate_probe probe = open_probe(&p, &serve, &slo);
    struct probe_result r;
    assert_ok(probe.ops->run(probe.self, 50, 1, &r, &t->e), t);
    assert_near_rel(r.energy_j, 3.0 * REQUESTS * 3 / 4, 1e-12);
    assert_near_rel(r.energy_j / (r.output_tokens_per_s * r.duration_s), 3, 1e-9);
    probe_sim_close(&probe);
}

/* A decode after 100 tokens or more takes 20 ms, any other batch 10 ms. */
static enum st by_cache(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    (void)self, (void)e;
    stages[0] = (struct stage_time){.device_s = b->decode_kv_tokens >= 100 ? 0.02 : 0.01};
    return ST_OK;
}

static enum st short_then_long(void *self, struct arena *a, uint64_t seed, struct workload *out,
                               int32_t ***ids, struct err *e)
{
    static const struct workload_request two[] = {
        {.request_id = 9, .num_prefill_tokens = 4, .num_decode_tokens = 5},
        {.request_id = 0, .num_prefill_tokens = 100, .num_decode_tokens = 5}};
    (void)self, (void)seed, (void)ids, (void)e;
    *out = (struct workload){.requests = arena_copy(a, two, sizeof two), .n = 2};
    return ST_OK;
}

/* The first to arrive warms up, whatever its id. */
static void gaps_are_those_of_requests_that_count(void **state)
{
    static const struct predictor_ops ops = {
        .name = "by cache", .help = "", .version = PREDICTOR_VERSION, .predict = by_cache};
    struct test *t = *state;
    struct predictor p = {.ops = &ops, .stages = 1};
    struct serve_params serve = {
        .policy = "vllm_v1", .replicas = 1, .batch_cap = 1, .block_size = 16, .num_blocks = 10};
    struct slo slo = limit(SLO_DELAY, 5);
    struct probe_result r;
    for (int64_t warmup = 0; warmup < 2; warmup++) {
        struct summary *gaps = summary_new();
        serve.warmup_requests = warmup;
        struct rate_probe probe =
            probe_sim_open(&(struct probe_sim_params){.predictor = &p,
                                                      .serve = &serve,
                                                      .workload = {NULL, short_then_long},
                                                      .slo = &slo,
                                                      .tokens = gaps});
        assert_ok(probe.ops->run(probe.self, 1, 1, &r, &t->e), t);
        assert_near(summary_percentile(gaps, METRIC_TOKEN_LATENCY, 0), warmup ? 2e7 : 1e7, 1);
        assert_near(summary_percentile(gaps, METRIC_TOKEN_LATENCY, 100), 2e7, 1);
        probe_sim_close(&probe);
        summary_free(&gaps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_overlaps_was_not_alone),
        TEST(rows_add_up_to_a_result),
        TEST(nothing_gives_unknowns),
        TEST(fields_name_every_number_once),
        TEST(waits_are_those_of_a_queue_with_constant_service),
        TEST(all_at_once_takes_the_sum_of_the_services),
        TEST(warmup_bears_its_own_energy),
        TEST(gaps_are_those_of_requests_that_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
