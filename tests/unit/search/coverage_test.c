/* Do 95 % intervals of a simulated run (search/monte_carlo.h) hold the truth 95 times in 100, and
 * are they no wider than that asks for?
 *
 * A machine is made whose operator times are known at every size. It is profiled many times over,
 * each time with other noise; every profile simulates the same workload, with its intervals, and so
 * does the machine itself. The study of docs/lab/intervals.md is this program with more of
 * everything:
 *
 *     COVERAGE=400 build-test/tests/unit.search unit.search.coverage */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profile/read/read.h"
#include "search/monte_carlo.h"
#include "support/support.h"

static const struct model model = {.name = "made",
                                   .act = ACT_SILU_GATED,
                                   .layers = 4,
                                   .hidden = 1024,
                                   .heads = 16,
                                   .kv_heads = 4,
                                   .head_dim = 64,
                                   .intermediate = 4096,
                                   .vocab = 8192};

/* ---- the machine -------------------------------------------------------------------------------
 */

/* Of two limits the larger, rounded where they meet: a bend that no line between knots follows. */
static double limits(double a, double b)
{
    return sqrt(sqrt(pow(a, 4) + pow(b, 4)));
}

/* Seconds of one repeat: a launch, then memory at 1 TB/s or arithmetic at 60 TFLOP/s. */
static double op_s(const struct op *op, double x, double kv)
{
    const double moved = 2e-12 * (double)op->weight_params, kept = 4096e-12;
    switch (op->axis) {
    case AXIS_DECODE:
        return 4e-6 + 1e-7 * x + limits(x * kv * kept / 4, 2e-6 * sqrt(x));
    case AXIS_PREFILL:
        return 5e-6 + 1e-8 * x + limits((kv + x) * kept, (x * kv + x * (x + 1) / 2) * 1.1e-10);
    case AXIS_TOKENS:
    case AXIS_ROWS:
        break;
    }
    return 2e-6 + limits(moved, 3.3e-14 * x * (double)(op->m * op->k)) + x * 1e-9;
}

/* How the machine is off the sum of its operators in a run: what a calibration run is there to
 * find. */
struct machine {
    double context; /* factor on the sum */
    double drift;   /* of a while, to the next: standard deviation of its logarithm */
    bool calibrated;
};

struct truth {
    double factor; /* of the machine while the run lasted */
};

static enum st true_s(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    const struct truth *t = self;
    struct op_list ops;
    const double tokens = (double)(b->prefill_tokens + b->n_decodes), seqs = b->n_decodes;
    double s = 0;
    (void)e;
    model_ops(&model, &ops);
    for (int i = 0; i < ops.n; i++) {
        const struct op *op = &ops.ops[i];
        if (op->axis == AXIS_DECODE && seqs > 0)
            s += op_s(op, seqs, (double)b->decode_kv_tokens / seqs) * op->repeat;
        else if (op->axis == AXIS_PREFILL)
            for (int32_t k = 0; k < b->n_chunks; k++)
                s += op_s(op, (double)b->chunks[k].tokens, (double)b->chunks[k].start) * op->repeat;
        else if (op->axis == AXIS_TOKENS)
            s += op_s(op, tokens, 0) * op->repeat;
        else if (op->axis == AXIS_ROWS && seqs + b->n_last_chunks > 0)
            s += op_s(op, seqs + b->n_last_chunks, 0) * op->repeat;
    }
    stages[0] = (struct stage_time){.device_s = s * t->factor};
    return ST_OK;
}

static enum st true_open(struct arena *a, const struct predictor_params *p, void **self,
                         struct err *e)
{
    (void)a, (void)p, (void)e;
    *self = NULL;
    return ST_OK;
}

static const struct predictor_ops true_ops = {
    .name = "true", .help = "", .version = PREDICTOR_VERSION, .open = true_open, .predict = true_s};

/* ---- a profile of it ---------------------------------------------------------------------------
 */

/* Noise of a cell's median: of the pass, which all its operators share, and of each operator. */
static const double SHARED = 0.015, OWN = 0.015;

static void add_point(struct surface_point *p, int *n, const struct op *op, double x, double kv,
                      double noise)
{
    p[(*n)++] = (struct surface_point){x, kv, op_s(op, x, kv) * exp(noise)};
}

static struct bundle *profiled(struct arena *a, struct rng *r)
{
    static const double sizes[] = {1,  2,  3,  4,  5,   6,   7,   8,   12,  16,  24,
                                   32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    struct bundle *b = arena_one(a, struct bundle);
    struct grid_set known = {0};
    double shared[SIZES];
    b->counts = arena_one(a, struct bundle_counts);
    b->host_scale = b->host_prefill_scale = 1;
    model_ops(&model, &b->ops);
    for (int i = 0; i < SIZES; i++)
        shared[i] = SHARED * rng_normal(r);
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        struct surface_point *p = arena_array(a, struct surface_point, 400);
        int n = 0;
        for (int k = 0; k < SIZES; k++)
            if (op->axis == AXIS_TOKENS || op->axis == AXIS_ROWS)
                add_point(p, &n, op, sizes[k], 0, shared[k] + OWN * rng_normal(r));
        for (double x = op->axis == AXIS_PREFILL ? 16 : 1;
             x <= (op->axis == AXIS_PREFILL ? 1024 : 64); x *= 2)
            for (double kv = op->axis == AXIS_PREFILL ? 0 : 16; kv <= 2048;
                 kv = kv > 0 ? 2 * kv : 128)
                if (op->axis == AXIS_PREFILL || op->axis == AXIS_DECODE)
                    add_point(p, &n, op, x, kv, hypot(SHARED, OWN) * rng_normal(r));
        b->error[op->row] = -1;
        op_table_build(a, op->axis, &known, p, n, &b->table[op->row]);
    }
    bundle_find_attention(b);
    bundle_sum_tables(a, b);
    return b;
}

/* Factors as a calibration run finds them: of every class the mean over its rounds of measured /
 * predicted. The batches are those that the class stands for; each varies by BATCH. */
static const double BATCH = 0.04;
enum { ROUNDS = 6, BATCHES = 12 /* of a class in a round */ };

static void calibrate(struct arena *a, struct bundle *b, const struct machine *of, struct rng *r)
{
    static const double sizes[2][6] = {{1, 2, 4, 8, 16, 32}, {16, 32, 64, 128, 256, 512}};
    static const enum calibration_kind kinds[] = {CALIBRATION_DECODE, CALIBRATION_PROMPT};
    struct curve *const curves[] = {&b->decode_scale, &b->prompt_scale};
    struct bundle_meta *said = arena_one(a, struct bundle_meta);
    double slow[ROUNDS];
    for (int k = 0; k < ROUNDS; k++)
        slow[k] = exp(of->drift * rng_normal(r));
    for (int prompt = 0; prompt < 2; prompt++) {
        struct bundle_class *rows = arena_array(a, struct bundle_class, 6);
        double x[6], *y = arena_array(a, double, 6);
        for (int i = 0; i < 6; i++) {
            const int32_t n = (int32_t)sizes[prompt][i];
            const struct chunk chunk = {.tokens = n, .last = true};
            const struct batch batch =
                prompt ? (struct batch){.chunks = &chunk,
                                        .n_chunks = 1,
                                        .n_last_chunks = 1,
                                        .prefill_tokens = n}
                       : (struct batch){.n_decodes = n, .decode_kv_tokens = n * 160};
            struct truth t = {of->context};
            struct stage_time s;
            struct err ignored = {0};
            (void)true_s(&t, &batch, &s, &ignored);
            double predicted =
                predict_tokens_s(b, n) + predict_rows_s(b, prompt ? 1 : n) +
                (prompt ? predict_prefill_s(b, 0, n) : predict_decode_s(b, n, n * 160));
            double mean[ROUNDS], sum = 0, logs = 0, squares = 0;
            for (int k = 0; k < ROUNDS; k++) {
                mean[k] = 0;
                for (int j = 0; j < BATCHES; j++)
                    mean[k] +=
                        s.device_s / predicted * slow[k] * exp(BATCH * rng_normal(r)) / BATCHES;
                sum += mean[k];
                logs += log(mean[k]) / ROUNDS;
            }
            for (int k = 0; k < ROUNDS; k++)
                squares += pow(log(mean[k]) - logs, 2);
            x[i] = log2(n);
            y[i] = sum / ROUNDS;
            rows[i] = (struct bundle_class){.x = n,
                                            .factor = y[i],
                                            .error = BATCH / sqrt(acos(-1) / 2),
                                            .batches = ROUNDS * BATCHES,
                                            .rounds = ROUNDS,
                                            .drift = sqrt(squares / (ROUNDS - 1))};
        }
        *curves[prompt] = (struct curve){grid_new(a, x, 6), y};
        said->iteration[kinds[prompt]] = (struct bundle_classes){rows, 6};
    }
    b->said = said;
}

/* ---- the study ---------------------------------------------------------------------------------
 */

static enum st requests(void *self, struct arena *a, uint64_t seed, struct workload *out,
                        int32_t ***ids, struct err *e)
{
    enum { N = 60 };
    char name[32];
    snprintf(name, sizeof name, "requests.%d", *(const int *)self);
    struct rng r = rng_stream(5, name);
    double at = 0;
    (void)seed, (void)ids, (void)e;
    *out = (struct workload){.requests = arena_array(a, struct workload_request, N), .n = N};
    for (int i = 0; i < N; i++) {
        at += rng_exponential(&r) * 0.008;
        out->requests[i] =
            (struct workload_request){.arrival_s = at,
                                      .arrival_ns = llround(at * 1e9),
                                      .num_prefill_tokens = (int64_t)(16 * exp2(5 * rng_unit(&r))),
                                      .num_decode_tokens = 20 + (int64_t)rng_below(&r, 80)};
    }
    return ST_OK;
}

static const struct serve_params serve = {.policy = "vllm_v1",
                                          .replicas = 1,
                                          .batch_cap = 32,
                                          .token_budget = 512,
                                          .block_size = 16,
                                          .num_blocks = 4000,
                                          .max_model_len = 4096};

enum { CELLS = 6 };
static const struct {
    const char *name;
    int metric, percentile;
} cells[CELLS] = {{"TTFT P50", SLO_TTFT, 0}, {"TTFT P90", SLO_TTFT, 1}, {"TPOT P50", SLO_TPOT, 0},
                  {"TPOT P90", SLO_TPOT, 1}, {"E2E P50", SLO_E2EL, 0},  {"E2E P90", SLO_E2EL, 1}};

/* Percentiles on the machine itself. */
static void true_run(struct test *t, int which, double factor, double out[CELLS])
{
    struct truth truth = {factor};
    const struct predictor predictor = {.ops = &true_ops, .self = &truth, .stages = 1};
    struct slo slo = {.fraction = 1};
    for (int m = 0; m < SLO_METRICS; m++)
        slo.limit_s[m] = (double)INFINITY;
    struct rate_probe probe = probe_sim_open(&(struct probe_sim_params){
        .predictor = &predictor, .serve = &serve, .workload = {&which, requests}, .slo = &slo});
    struct probe_result r;
    assert_ok(probe.ops->run(probe.self, 1, 1, &r, &t->e), t);
    probe_sim_close(&probe);
    for (int c = 0; c < CELLS; c++)
        out[c] = r.latency_s[cells[c].metric][cells[c].percentile];
}

struct study {
    double covered[CELLS]; /* share of the intervals that hold the truth */
    double error[CELLS];   /* root mean square of ln(value / truth) */
    double width[CELLS];   /* mean of ln(high / low) */
    double bias[CELLS];    /* mean of ln(value / truth) */
};

static struct study studied(struct test *t, const struct machine *of, int profiles, int replicas)
{
    struct study s = {.width = {0}};
    struct rng r = rng_stream(9, "profiles");
    struct arena *a = arena_new();
    double truth[CELLS];
    for (int i = 0; i < profiles; i++) {
        struct bundle *b = profiled(a, &r);
        if (of->calibrated)
            calibrate(a, b, of, &r);
        true_run(t, i, of->context * exp(of->drift * rng_normal(&r)), truth);
        const struct predictor_params params = {.model = &model, .bundle = b, .tp = 1, .pp = 1};
        const struct monte_carlo_params p = {.predictor = &params,
                                             .ops = &predictor_bundle,
                                             .serve = &serve,
                                             .workload = {&i, requests},
                                             .seed = (uint64_t)i + 1,
                                             .replicas = replicas,
                                             .workers = 2};
        struct monte_carlo m;
        assert_ok(monte_carlo_run(&p, &m, &t->e), t);
        if (i == 0)
            for (int k = 0; k < BUNDLE_PARTS; k++)
                if (m.uncertainty.place[k] > 0)
                    print_message("%s: place %.2f %%, shift %.2f %%\n",
                                  bundle_part_name((enum bundle_part)k),
                                  100 * m.uncertainty.place[k], 100 * m.uncertainty.shift[k]);
        for (int c = 0; c < CELLS; c++) {
            const struct monte_carlo_cell *x = &m.of[cells[c].metric][cells[c].percentile];
            s.covered[c] += (x->low_s <= truth[c] && truth[c] <= x->high_s) / (double)profiles;
            s.bias[c] += log(x->value_s / truth[c]) / profiles;
            s.error[c] += pow(log(x->value_s / truth[c]), 2);
            s.width[c] += log(x->high_s / x->low_s) / profiles;
        }
        arena_reset(a);
    }
    for (int c = 0; c < CELLS; c++)
        s.error[c] = sqrt(s.error[c] / profiles);
    arena_free(&a);
    return s;
}

static void print(const char *what, const struct study *s)
{
    for (int c = 0; c < CELLS; c++)
        print_message("%-34s %-9s  error %5.2f %% (mean %+.2f)  width %5.2f %%  covers %5.1f %%\n",
                      what, cells[c].name, 100 * s->error[c], 100 * s->bias[c], 100 * s->width[c],
                      100 * s->covered[c]);
}

/* An interval that holds 95 % is 3.92 standard errors wide. Of so few profiles the coverage is
 * known to 4 points, the error to a tenth. */
static void check(struct test *t, const char *what, const struct machine *of)
{
    enum { PROFILES = 60, REPLICAS = 40 };
    const char *asked = getenv("COVERAGE");
    const int profiles = asked ? atoi(asked) : PROFILES;
    const struct study s = studied(t, of, profiles, asked ? 100 : REPLICAS);
    double covered = 0, ratio = 0;
    print(what, &s);
    for (int c = 0; c < CELLS; c++) {
        covered += s.covered[c] / CELLS;
        ratio += s.width[c] / (3.92 * s.error[c]) / CELLS;
    }
    if (!(covered > 0.88) || !(ratio > 0.75 && ratio < 1.4))
        fail_msg("%s: %.1f %% covered, %.2f times as wide as 95 %% asks for", what, 100 * covered,
                 ratio);
}

static void a_bundle_of_tables(void **state)
{
    const struct machine m = {.context = 1};
    check(*state, "tables alone", &m);
}

static void a_bundle_with_factors(void **state)
{
    const struct machine m = {.context = 1.08, .calibrated = true};
    check(*state, "with a calibration run", &m);
}

static void a_bundle_of_a_machine_that_drifts(void **state)
{
    const struct machine m = {.context = 1.08, .drift = 0.02, .calibrated = true};
    check(*state, "on a machine that drifts by 2 %", &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_bundle_of_tables), TEST(a_bundle_with_factors),
                                       TEST(a_bundle_of_a_machine_that_drifts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
