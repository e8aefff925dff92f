/* Probes and capacities over Vidur's own tables, arrivals and results (data/vidur beside the
 * repository; skipped without it): CodeLlama-34b on two A100, sarathi, 1,000 requests at 2.5/s. */
#include "search/capacity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics/metrics.h"
#include "search/probe_sim.h"
#include "support/support.h"

#define CASE "vidur/reference/cl34_sarathi512_conv_q2.5_1k/"

enum { MOST = 1000 };

static enum st given(void *self, struct arena *a, uint64_t seed, struct workload *out,
                     int32_t ***ids, struct err *e)
{
    (void)seed, (void)ids;
    return workload_load_trace(a, self, out, e);
}

/* Replica of Vidur's published case; the blocks are those of its memory planner. */
static const struct serve_params serve = {.policy = "sarathi",
                                          .router = "round_robin",
                                          .replicas = 1,
                                          .batch_cap = 128,
                                          .chunk_size = 512,
                                          .block_size = 16,
                                          .num_blocks = 27904,
                                          .watermark = 0.01,
                                          .max_model_len = 4096};

struct bench {
    struct model model;
    struct predictor predictor;
    struct slo slo;
    struct rate_probe probe;
};

static void begin(struct test *t, struct bench *b)
{
    char *trace = arena_str(t->a, test_data(t, CASE "trace.csv"));
    const char *tables = arena_str(t->a, test_data(t, "vidur/tables/cl34"));
    b->model = (struct model){.name = "codellama_34b",
                              .family = MODEL_LLAMA,
                              .act = ACT_SILU_GATED,
                              .layers = 48,
                              .heads = 64,
                              .kv_heads = 8,
                              .hidden = 8192,
                              .head_dim = 128,
                              .intermediate = 22016};
    const struct predictor_params p = {.model = &b->model, .tp = 2, .pp = 1, .tables = tables};
    assert_ok(predictor_open(t->a, &predictor_vidur_tables, &p, &b->predictor, &t->e), t);
    assert_ok(slo_parse((const char *const[]){"delay:5000"}, 1, 0.99, &b->slo, &t->e), t);
    b->probe = probe_sim_open(&(struct probe_sim_params){
        .predictor = &b->predictor, .serve = &serve, .workload = {trace, given}, .slo = &b->slo});
}

/* One column of Vidur's request_metrics.csv, sorted. */
static size_t column(struct test *t, const char *name, double *out)
{
    char command[1000], line[4000];
    double scratch[MOST];
    size_t n = 0;
    int at = 0;
    snprintf(command, sizeof command, "gzip -dc '%s'", test_data(t, CASE "request_metrics.csv.gz"));
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    for (const char *c = line; strncmp(c, name, strlen(name)) != 0 || c[strlen(name)] != ','; at++)
        c = strchr(c, ',') + 1;
    while (n < MOST && fgets(line, sizeof line, f)) {
        const char *c = line;
        for (int i = 0; i < at; i++)
            c = strchr(c, ',') + 1;
        out[n++] = strtod(c, NULL);
    }
    assert_int_equal(pclose(f), 0);
    stats_sort(out, scratch, n);
    return n;
}

static void a_probe_sees_what_vidur_measured(void **state)
{
    static const struct {
        enum slo_metric metric;
        const char *column;
    } rows[] = {{SLO_DELAY, "request_scheduling_delay"},
                {SLO_TTFT, "prefill_e2e_time"},
                {SLO_E2EL, "request_e2e_time"}};
    struct test *t = *state;
    struct bench b;
    struct probe_result r;
    begin(t, &b);
    assert_ok(b.probe.ops->run(b.probe.self, 1, 1, &r, &t->e), t);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double v[MOST];
        size_t n = column(t, rows[i].column, v);
        assert_int_equal(n, (size_t)r.requests);
        for (int k = 0; k < PROBE_PERCENTILES; k++)
            assert_near(r.latency_s[rows[i].metric][k],
                        stats_percentile(v, n, probe_percentiles[k]), 3e-9);
    }
    assert_true(capacity_holds(&b.slo, &r)); /* so the capacity is above 2.5/s */
    probe_sim_close(&b.probe);
}

/* Rates are multiples of the trace's own. */
static void capacity_lies_between_a_rate_that_holds_and_one_that_does_not(void **state)
{
    struct test *t = *state;
    struct bench b;
    begin(t, &b);
    const struct capacity_params p = {.slo = b.slo, .tolerance = 0.01, .seed = 1, .seeds = 1};
    struct capacity_seed s;
    struct probe_result r;
    assert_ok(capacity_bisect(t->a, &p, &b.probe, 1, &s, &t->e), t);
    assert_true(s.low > 1 && s.high > s.low && s.high <= 1.01 * s.low);
    assert_ok(b.probe.ops->run(b.probe.self, s.low, 1, &r, &t->e), t);
    assert_true(r.good >= 0.99);
    assert_ok(b.probe.ops->run(b.probe.self, s.high, 1, &r, &t->e), t);
    assert_true(r.good < 0.99);
    /* Work conserved: at the capacity nearly as many requests leave a second as can. */
    assert_true(r.requests_per_s > 0.8 * s.flood_per_s && r.requests_per_s < 1.01 * s.flood_per_s);
    probe_sim_close(&b.probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_probe_sees_what_vidur_measured),
        TEST(capacity_lies_between_a_rate_that_holds_and_one_that_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
