/* The fit against a service whose parameters are known: the simulator itself, with parameters that
 * are not the prior's, plays the server that is observed. */
#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/solve.h"
#include "calibrate/batches.h"
#include "calibrate/calibrate.h"
#include "support/h100.h"
#include "support/support.h"

struct service {
    struct trial trial;
    struct iteration_shape shape;
    struct theta_prior prior;
    struct theta truth;
};

static void open_service(struct test *t, struct service *s)
{
    *s = (struct service){
        .trial = {.params = {.model = &llama_7b, .tp = 1, .pp = 1, .hardware = &h100_peaks},
                  .serve = {.policy = "vllm_0_33",
                            .replicas = 1,
                            .batch_cap = 128,
                            .token_budget = 2048,
                            .block_size = 16,
                            .num_blocks = 6000,
                            .max_model_len = 4096,
                            .async = ASYNC_OVERLAP}}};
    assert_ok(predictor_find("roofline", &s->trial.predictor, &t->e), t);
    assert_ok(iteration_shape(t->a, &llama_7b, &h100_peaks,
                              &(struct iteration_degrees){1, 1, 1, 0, {0}}, &s->shape, &t->e),
              t);
    theta_prior_roofline(&llama_7b, &s->shape, &s->prior);
    s->truth = s->prior.mean;
    s->truth.ln[ITERATION_WEIGHTS_EFFICIENCY] = log(0.7);
    s->truth.ln[ITERATION_KV_EFFICIENCY] = log(0.9);
    s->truth.ln[ITERATION_LAYER_S] = log(25e-6);
    s->truth.ln[THETA_FIRST_TOKEN] = log(9e-3);
    s->truth.ln[THETA_SPREAD] = log(0.03);
}

/* Requests of the service at that rate, and what it made of them. */
static struct observed_stage observe(struct test *t, const struct service *s, const char *name,
                                     double rate, int64_t n, int64_t prompt)
{
    struct observed_stage o = {.name = name, .completed = n, .rate = rate};
    struct trial_result r;
    o.w = (struct workload){.requests = arena_array(t->a, struct workload_request, n),
                            .n = (size_t)n};
    for (int64_t i = 0; i < n; i++)
        o.w.requests[i] = (struct workload_request){.request_id = i,
                                                    .arrival_ns = ns_from_s((double)i / rate),
                                                    .arrival_s = (double)i / rate,
                                                    .num_prefill_tokens = prompt,
                                                    .num_decode_tokens = 150};
    assert_ok(trial_run(t->a, &s->trial, &o, &s->truth, &r, &t->e), t);
    for (int m = 0; m < OBSERVED_METRICS; m++)
        o.of[m] = r.of[m];
    return o;
}

static struct calibrate_input input_of(struct test *t, struct observed *run)
{
    struct calibrate_input in;
    assert_ok(calibrate_check(t->a, run, 1, &in, &t->e), t);
    return in;
}

static double relative(double a, double b)
{
    return fabs(a / b - 1);
}

static void two_rates_predict_a_third_and_other_prompts(void **state)
{
    struct test *t = *state;
    struct service s;
    open_service(t, &s);
    struct observed_stage stages[] = {observe(t, &s, "0", 4, 600, 400),
                                      observe(t, &s, "1", 16, 2000, 400)};
    struct observed run = {.path = "r", .name = "r", .stages = stages, .n_stages = 2};
    const struct calibrate_input in = input_of(t, &run);
    const struct calibrate_params p = {&s.trial, &s.shape, &s.prior};
    struct calibrate_fit fit;
    assert_ok(calibrate_fit(t->a, &p, &in, &fit, &t->e), t);
    assert_true(fit.fits);
    assert_near(exp(fit.theta.ln[ITERATION_KV_EFFICIENCY]), 0.9, 0.07);
    assert_near(exp(fit.theta.ln[THETA_SPREAD]), 0.03, 0.01);
    const struct observed_stage other = observe(t, &s, "2", 10, 1200, 700);
    struct calibrate_prediction predicted;
    assert_ok(calibrate_predict(t->a, &p, &fit, &other, true, &predicted, &t->e), t);
    for (int m = 0; m < OBSERVED_METRICS; m++)
        for (int k = OBSERVED_P10; k <= OBSERVED_P90; k++)
            assert_true(relative(predicted.of[m].at[k], other.of[m].at[k]) <
                        (m == OBSERVED_TTFT ? 0.05 : 0.02));
    assert_true(predicted.low[OBSERVED_E2E].at[OBSERVED_P50] <
                other.of[OBSERVED_E2E].at[OBSERVED_P50]);
    assert_true(predicted.high[OBSERVED_E2E].at[OBSERVED_P50] >
                other.of[OBSERVED_E2E].at[OBSERVED_P50]);
}

static bool noted(const struct calibrate_fit *f, const char *text)
{
    for (size_t i = 0; i < f->n_notes; i++)
        if (strstr(f->notes[i], text))
            return true;
    return false;
}

/* Of ln E2E P50. */
static double width(const struct calibrate_prediction *p)
{
    return log(p->high[OBSERVED_E2E].at[OBSERVED_P50] / p->low[OBSERVED_E2E].at[OBSERVED_P50]);
}

static void one_rate_leaves_more_open_than_two(void **state)
{
    struct test *t = *state;
    struct service s;
    open_service(t, &s);
    struct observed_stage stages[] = {observe(t, &s, "0", 4, 400, 400),
                                      observe(t, &s, "1", 16, 1600, 400)};
    struct observed one = {.path = "r", .name = "r", .stages = stages, .n_stages = 1};
    struct observed two = {.path = "r", .name = "r", .stages = stages, .n_stages = 2};
    const struct calibrate_input in_one = input_of(t, &one), in_two = input_of(t, &two);
    const struct calibrate_params p = {&s.trial, &s.shape, &s.prior};
    struct calibrate_fit f1, f2;
    struct calibrate_prediction far, near;
    assert_ok(calibrate_fit(t->a, &p, &in_one, &f1, &t->e), t);
    assert_ok(calibrate_fit(t->a, &p, &in_two, &f2, &t->e), t);
    assert_true(f1.told[ITERATION_KV_EFFICIENCY] > 0.95); /* nothing */
    assert_true(f2.told[ITERATION_KV_EFFICIENCY] < 0.75);
    assert_true(noted(&f1, "the data could not tell: "));
    assert_ok(calibrate_predict(t->a, &p, &f1, &stages[1], true, &far, &t->e), t);
    assert_ok(calibrate_predict(t->a, &p, &f2, &stages[1], true, &near, &t->e), t);
    const double truth = stages[1].of[OBSERVED_E2E].at[OBSERVED_P50];
    assert_true(far.low[OBSERVED_E2E].at[OBSERVED_P50] < truth);
    assert_true(far.high[OBSERVED_E2E].at[OBSERVED_P50] > truth);
    assert_true(width(&far) > 1.5 * width(&near));
}

/* Servers drawn from the prior itself: 95 % intervals hold what was drawn. Steps for the
 * derivatives so short that jumps of percentiles count as information left half of them outside. */
/* Requests near saturation that were sent as one draw of the arrivals has it, of a record that does
 * not say which. */
static struct observed_stage observe_draw(struct test *t, const struct service *s, int draw,
                                          double rate)
{
    const struct observed_means m = {
        .rate = rate, .burstiness = 1, .prompt_tokens = 400, .output_tokens = 150};
    struct observed_stage o = {.name = "0", .completed = 1000};
    struct trial f = s->trial;
    struct trial_result r;
    assert_ok(observed_from_means(t->a, "r", &m, &o, &t->e), t);
    f.draw = draw;
    assert_ok(trial_run(t->a, &f, &o, &s->truth, &r, &t->e), t);
    for (int k = 0; k < OBSERVED_METRICS; k++)
        o.of[k] = r.of[k];
    return o;
}

static void which_arrivals_there_were_is_luck(void **state)
{
    struct test *t = *state;
    struct service s;
    open_service(t, &s);
    const struct observed_stage other = observe(t, &s, "1", 8, 1000, 400);
    const struct calibrate_params p = {&s.trial, &s.shape, &s.prior};
    double by_one = 0, by_several = 0;
    for (int draw = 4; draw < OBSERVED_DRAWS; draw++) { /* none of those that are simulated */
        struct observed_stage stage = observe_draw(t, &s, draw, 22);
        struct observed run = {.path = "r", .name = "r", .stages = &stage, .n_stages = 1};
        const struct calibrate_input in = input_of(t, &run);
        struct calibrate_fit several, one;
        struct calibrate_prediction a, b;
        assert_ok(calibrate_fit(t->a, &p, &in, &several, &t->e), t);
        assert_ok(calibrate_predict(t->a, &p, &several, &other, true, &a, &t->e), t);
        stage.drawn_ns = NULL; /* as if these arrivals were known */
        assert_ok(calibrate_fit(t->a, &p, &in, &one, &t->e), t);
        assert_ok(calibrate_predict(t->a, &p, &one, &other, true, &b, &t->e), t);
        const double seen = other.of[OBSERVED_E2E].at[OBSERVED_P50];
        by_several += relative(a.of[OBSERVED_E2E].at[OBSERVED_P50], seen);
        by_one += relative(b.of[OBSERVED_E2E].at[OBSERVED_P50], seen);
        assert_true(several.fits);
        assert_true(several.told[ITERATION_KV_EFFICIENCY] > one.told[ITERATION_KV_EFFICIENCY]);
        assert_true(a.low[OBSERVED_E2E].at[OBSERVED_P50] < seen &&
                    a.high[OBSERVED_E2E].at[OBSERVED_P50] > seen);
    }
    print_message("errors at another rate: %.3f, by one draw %.3f\n", by_several / 4, by_one / 4);
    assert_true(by_several < by_one);
}

static void intervals_hold_the_truth(void **state)
{
    struct test *t = *state;
    static const int drawn[] = {ITERATION_WEIGHTS_EFFICIENCY,    ITERATION_KV_EFFICIENCY,
                                ITERATION_ACTIVATION_EFFICIENCY, ITERATION_COMPUTE_EFFICIENCY,
                                ITERATION_ATTENTION_EFFICIENCY,  ITERATION_LAYER_S,
                                ITERATION_ITERATION_S,           THETA_FIRST_TOKEN};
    enum { SERVERS = 4, DRAWN = sizeof drawn / sizeof *drawn };
    int inside = 0;
    struct service s;
    open_service(t, &s);
    for (int k = 0; k < SERVERS; k++) {
        struct rng r = rng_stream((uint64_t)k, "fit_test.servers");
        s.truth = s.prior.mean;
        for (int i = 0; i < DRAWN; i++)
            s.truth.ln[drawn[i]] += rng_normal(&r) / sqrt(s.prior.precision[drawn[i]][drawn[i]]);
        theta_clamp(&s.truth);
        struct observed_stage stages[] = {observe(t, &s, "0", 2, 150, 400),
                                          observe(t, &s, "1", 8, 500, 400)};
        struct observed run = {.path = "r", .name = "r", .stages = stages, .n_stages = 2};
        const struct calibrate_input in = input_of(t, &run);
        const struct calibrate_params p = {&s.trial, &s.shape, &s.prior};
        struct calibrate_fit fit;
        assert_ok(calibrate_fit(t->a, &p, &in, &fit, &t->e), t);
        for (int i = 0; i < DRAWN; i++) {
            const int x = drawn[i];
            inside += fabs(fit.theta.ln[x] - s.truth.ln[x]) <= 1.96 * sqrt(fit.covariance[x][x]);
        }
    }
    if (inside < 27) /* 0.84 */
        fail_msg("%d of %d are inside", inside, SERVERS * DRAWN);
}

static void equal_input_gives_equal_parameters(void **state)
{
    struct test *t = *state;
    struct service s;
    open_service(t, &s);
    struct observed_stage stage = observe(t, &s, "0", 8, 400, 300);
    struct observed run = {.path = "r", .name = "r", .stages = &stage, .n_stages = 1};
    const struct calibrate_input in = input_of(t, &run);
    const struct calibrate_params p = {&s.trial, &s.shape, &s.prior};
    struct calibrate_fit a, b;
    assert_ok(calibrate_fit(t->a, &p, &in, &a, &t->e), t);
    assert_ok(calibrate_fit(t->a, &p, &in, &b, &t->e), t);
    assert_memory_equal(&a.theta, &b.theta, sizeof a.theta);
    assert_memory_equal(a.covariance, b.covariance, sizeof a.covariance);
}

/* A server with one batch in flight, simulated with two: TTFT is an iteration too long, whatever
 * the parameters. */
static void another_schedule_does_not_fit(void **state)
{
    struct test *t = *state;
    struct service s;
    open_service(t, &s);
    s.trial.serve.async = ASYNC_OFF;
    s.truth.ln[THETA_FIRST_TOKEN] = log(2e-3);
    struct observed_stage stages[] = {observe(t, &s, "0", 4, 400, 400),
                                      observe(t, &s, "1", 16, 1600, 400)};
    s.trial.serve.async = ASYNC_OVERLAP;
    struct observed run = {.path = "r", .name = "r", .stages = stages, .n_stages = 2};
    const struct calibrate_input in = input_of(t, &run);
    const struct calibrate_params p = {&s.trial, &s.shape, &s.prior};
    struct calibrate_fit fit;
    assert_ok(calibrate_fit(t->a, &p, &in, &fit, &t->e), t);
    assert_false(fit.fits);
    assert_true(noted(&fit, "does not fit: ttft"));
    assert_true(noted(&fit, "scheduler.async_scheduling"));
}

/* ---- other calibrations as a prior ---------------------------------------------------------- */

static void other_calibrations_narrow_the_prior(void **state)
{
    struct test *t = *state;
    struct service s;
    open_service(t, &s);
    struct observed_stage stages[] = {observe(t, &s, "0", 4, 400, 400),
                                      observe(t, &s, "1", 16, 1600, 400)};
    struct observed run = {
        .path = "r", .name = "r", .format = "vllm", .stages = stages, .n_stages = 2};
    const struct calibrate_input in = input_of(t, &run);
    const struct calibrate_params p = {&s.trial, &s.shape, &s.prior};
    struct calibrate_fit fit;
    struct theta_prior pooled;
    const char *root = test_path(t, "root");
    const struct calibrate_written w = {.root = root,
                                        .hardware = "h",
                                        .model_name = "m",
                                        .model = &llama_7b,
                                        .peaks = &h100_peaks,
                                        .tp = 1,
                                        .pp = 1,
                                        .ep = 1};
    assert_ok(calibrate_fit(t->a, &p, &in, &fit, &t->e), t);
    assert_ok(calibrate_write(t->a, &w, &in, &fit, &t->e), t);
    assert_ok(calibrate_pool(t->a, &root, 1, 0.1, &s.prior, &pooled, &t->e), t);
    const int kv = ITERATION_KV_EFFICIENCY, chunk = ITERATION_CHUNK_S;
    assert_true(pooled.precision[kv][kv] > 2 * s.prior.precision[kv][kv]);
    assert_true(fabs(pooled.mean.ln[kv] - s.truth.ln[kv]) <
                fabs(s.prior.mean.ln[kv] - s.truth.ln[kv]));
    /* what the data did not tell stays as it was */
    assert_near_rel(pooled.precision[chunk][chunk], s.prior.precision[chunk][chunk], 0.05);
    const char *none = test_path(t, "none");
    assert_int_equal(calibrate_pool(t->a, &none, 1, 0.1, &s.prior, &pooled, &t->e), ST_INPUT);
}

/* ---- what is refused ----------------------------------------------------------------------------
 */

static void overload_and_few_requests_are_refused(void **state)
{
    struct test *t = *state;
    struct observed_stage s = {.name = "0", .completed = 49, .rate = 4};
    struct observed run = {.path = "r", .name = "r", .stages = &s, .n_stages = 1};
    struct calibrate_input in;
    for (int m = 0; m < OBSERVED_METRICS; m++)
        s.of[m] = observed_unknown();
    s.of[OBSERVED_TTFT].at[OBSERVED_P50] = 0.1;
    s.of[OBSERVED_E2E].at[OBSERVED_P50] = 4;
    assert_err(calibrate_check(t->a, &run, 1, &in, &t->e), ST_REJECTED, t,
               "no stage can be fitted\nstage 0 of r: too few requests: 49 ended well, and 50 are "
               "needed\nhint: a calibration takes runs below capacity, of 50 requests or more; two "
               "rates tell a constant from a slope");
    err_clear(&t->e);
    s.completed = 500;
    s.of[OBSERVED_TTFT].at[OBSERVED_P50] = 30;
    s.of[OBSERVED_E2E].at[OBSERVED_P50] = 40;
    assert_int_equal(calibrate_check(t->a, &run, 1, &in, &t->e), ST_REJECTED);
    assert_cause(&t->e, "stage 0 of r: overload: requests wait 30 s of 40 s (P50)");
    err_clear(&t->e);
    s.of[OBSERVED_TTFT].at[OBSERVED_P50] = 0.1;
    s.of[OBSERVED_E2E].at[OBSERVED_P50] = 4;
    s.failed = 100;
    assert_int_equal(calibrate_check(t->a, &run, 1, &in, &t->e), ST_REJECTED);
    assert_cause(&t->e, "stage 0 of r: 100 of 600 requests failed");
}

static void contradictory_settings_are_refused(void **state)
{
    struct test *t = *state;
    struct observed_stage s = {.name = "0", .completed = 500, .rate = 4};
    for (int m = 0; m < OBSERVED_METRICS; m++)
        s.of[m] = observed_unknown();
    s.of[OBSERVED_E2E].at[OBSERVED_P50] = 4;
    struct observed runs[] = {{.path = "a", .name = "a", .stages = &s, .n_stages = 1},
                              {.path = "b", .name = "b", .stages = &s, .n_stages = 1}};
    struct calibrate_input in;
    runs[0].settings = (struct observed_settings){.batch_cap = 128, .prefix_caching = -1};
    runs[1].settings = (struct observed_settings){.batch_cap = 256, .prefix_caching = -1};
    assert_err(
        calibrate_check(t->a, runs, 2, &in, &t->e), ST_INPUT, t,
        "the batch cap (max_num_seqs) of a is 128, and of b 256\nhint: one calibration holds "
        "for one server with one set of settings");
    err_clear(&t->e);
    runs[1].settings = (struct observed_settings){.prefix_caching = -1, .tp = 2};
    assert_ok(calibrate_check(t->a, runs, 2, &in, &t->e), t);
    assert_int_equal(in.settings.batch_cap, 128);
    assert_int_equal(in.settings.tp, 2);
}

/* ---- batches ------------------------------------------------------------------------------------
 */

/* The fit to a run of these batches, which has nothing else. */
static void fit_batches(struct test *t, const struct service *s, const struct batch_load *b,
                        size_t n, struct calibrate_fit *out)
{
    struct observed_stage stage = {.name = "0", .completed = 10, .rate = 1};
    for (int m = 0; m < OBSERVED_METRICS; m++)
        stage.of[m] = observed_unknown();
    struct observed run = {.path = "r",
                           .name = "r",
                           .batches = b,
                           .n_batches = n,
                           .first_token_lag_s = 0.002,
                           .stages = &stage,
                           .n_stages = 1};
    const struct calibrate_input in = input_of(t, &run);
    const struct calibrate_params p = {&s->trial, &s->shape, &s->prior};
    assert_ok(calibrate_fit(t->a, &p, &in, out, &t->e), t);
}

/* What such a batch takes, by the fit. */
static double fitted_s(const struct service *s, const struct calibrate_fit *fit,
                       const struct batch_load *b)
{
    struct iteration_terms terms;
    const struct iteration_batch x = {.load = b->load, .chunks = b->chunks};
    const struct iteration_params found = theta_iteration(&fit->theta);
    iteration_terms(&s->shape, &x, 0, &terms);
    const struct iteration_time time = iteration_time(&found, &terms, NULL);
    return time.host_s + time.device_s;
}

/* Batches of a slow engine: 60 ms and 0.5 ms a sequence, stalls, and a first half that is slower.
 */
static void stalls_and_a_slow_start_do_not_count(void **state)
{
    struct test *t = *state;
    enum { N = 600 };
    struct service s;
    open_service(t, &s);
    static struct batch_load b[N];
    for (int i = 0; i < N; i++) {
        const int64_t seqs = 1 + i % 5;
        b[i] = (struct batch_load){
            .load = {.tokens = seqs, .rows = seqs, .seqs = seqs, .kv_tokens = 300 * seqs},
            .duration_s = (0.06 + 0.004 * sin(i)) * (i < N / 2 ? 1.3 : 1) * (i % 50 == 49 ? 9 : 1)};
    }
    struct calibrate_fit fit;
    fit_batches(t, &s, b, N, &fit);
    assert_true(fit.fits);
    assert_true(noted(&fit, "the first 300 of its 600 batches do not count"));
    assert_true(noted(&fit, "6 left out as stalls or warm-up"));
    assert_near_rel(fitted_s(&s, &fit, &b[2]), 0.06, 0.02);
    assert_near_rel(exp(fit.theta.ln[THETA_FIRST_TOKEN]), 0.002, 1e-9);
}

/* The same engine prepares something for each shape: every shape comes twice, and takes 40 ms
 * longer the first time; `extra` 0: it does not. The first half has more of the first ones. */
static void fit_shapes(struct test *t, double extra, struct calibrate_fit *fit)
{
    enum { N = 600 };
    struct service s;
    open_service(t, &s);
    static struct batch_load b[N];
    for (int i = 0; i < N; i++) {
        const int shape = i < 200 ? i : i < 400 ? 100 + i % 200 / 2 : 300 + i % 100;
        const bool first = i < 200 || i == 400 + shape - 300;
        b[i] = (struct batch_load){
            .load = {.tokens = 4, .rows = 4, .seqs = 4, .kv_tokens = 4 * (int64_t)(300 + shape)},
            .longest = 300 + shape,
            .duration_s = 0.06 + 0.004 * sin(i) + (first ? extra : 0)};
    }
    fit_batches(t, &s, b, N, fit);
    assert_true(fit->fits);
    assert_true(fit->n_unevenness >= N - 10); /* they are no start that does not count */
    assert_near_rel(fitted_s(&s, fit, &b[2]), 0.06, 0.02);
}

static void first_batches_of_a_shape_are_told_apart(void **state)
{
    struct test *t = *state;
    struct calibrate_fit with, without;
    fit_shapes(t, 0.04, &with);
    assert_near(with.first_use_s, 0.04, 0.001);
    assert_true(with.first_use_sd_s > 0 && with.first_use_sd_s < 0.001);
    assert_true(noted(&with, "the first batch of a shape takes 40"));
    fit_shapes(t, 0, &without);
    assert_near(without.first_use_s, 0, 0);
    assert_false(noted(&without, "the first batch of a shape"));
}

/* A machine that is slow by turns: 1.35 times in bouts of 40 to 120 batches, on a third of the
 * time. */
static double *bouts_of(struct test *t, uint64_t seed, int n)
{
    struct rng r = rng_stream(seed, "test.bouts");
    double *ratio = arena_array(t->a, double, n);
    for (int i = 0; i < n;) {
        const int end = i + 40 + (int)rng_below(&r, 80);
        const double slow = rng_below(&r, 3) == 0 ? 1.35 : 1;
        for (; i < end && i < n; i++)
            ratio[i] = slow * (1 + 0.03 * rng_normal(&r));
    }
    return ratio;
}

/* On such a machine, every 20th batch is a prompt, which takes 8 ms more than the decode steps
 * beside it: a difference inside the bouts, known far better than the bouts' own mean. */
static void what_differs_inside_bouts_is_told(void **state)
{
    struct test *t = *state;
    enum { N = 800 };
    struct service s;
    open_service(t, &s);
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct batch_load *b = arena_array(t->a, struct batch_load, N);
        const double *ratio = bouts_of(t, seed, N);
        for (int i = 0; i < N; i++)
            b[i] = i % 20 ? (struct batch_load){.load = {.tokens = 4,
                                                         .rows = 4,
                                                         .seqs = 4,
                                                         .kv_tokens = 1200},
                                                .longest = 300,
                                                .duration_s = 0.06 * ratio[i]}
                          : (struct batch_load){.load = {.tokens = 100,
                                                         .rows = 1,
                                                         .chunk_sq = 5050,
                                                         .kv_read_tokens = 100},
                                                .chunks = 1,
                                                .duration_s = 0.068 * ratio[i]};
        struct calibrate_fit fit;
        fit_batches(t, &s, b, N, &fit);
        assert_near_rel(fitted_s(&s, &fit, &b[0]) / fitted_s(&s, &fit, &b[1]), 0.068 / 0.06, 0.03);
    }
}

/* Decode steps that are compiled, of 5.6 ms, and one batch in 13 a prompt, which is not: 22 to 38
 * ms. Beside what the steps vary by, all of them would be stalls. */
static void prompts_of_five_times_a_step_are_no_stalls(void **state)
{
    struct test *t = *state;
    enum { N = 1300 };
    struct service s;
    struct rng r = rng_stream(1, "test.prompts");
    open_service(t, &s);
    struct batch_load *b = arena_array(t->a, struct batch_load, N);
    for (int i = 0; i < N; i++)
        b[i] =
            i % 13
                ? (struct batch_load){.load = {.tokens = 4,
                                               .rows = 4,
                                               .seqs = 4,
                                               .kv_tokens = 1200},
                                      .longest = 300,
                                      .duration_s = 0.0056 * (1 + 0.02 * rng_normal(&r))}
                : (struct batch_load){
                      .load = {.tokens = 100, .rows = 1, .chunk_sq = 5050, .kv_read_tokens = 100},
                      .chunks = 1,
                      .duration_s = 0.022 + 0.016 * rng_unit(&r)};
    struct calibrate_fit fit;
    fit_batches(t, &s, b, N, &fit);
    assert_true(fit.fits);
    assert_true(fit.n_unevenness > N - 20);
    assert_near_rel(fitted_s(&s, &fit, &b[0]), 0.03, 0.04);
    assert_near_rel(fitted_s(&s, &fit, &b[1]), 0.0056, 0.04);
}

/* Whether the interval of E2E P50 of a run, predicted from the batches of another, holds it. */
static bool bouts_are_held(struct test *t, struct service *s, uint64_t seed, double *width)
{
    enum { N = 800, RUN = 20000 };
    struct batch_load *b = arena_array(t->a, struct batch_load, N);
    const struct iteration_params truth = theta_iteration(&s->truth);
    const double *ratio = bouts_of(t, seed, N);
    for (int i = 0; i < N; i++) {
        const int64_t seqs = 1 + i % 5;
        struct iteration_batch x = {
            .load = {.tokens = seqs, .rows = seqs, .seqs = seqs, .kv_tokens = 300 * seqs}};
        struct iteration_terms terms;
        iteration_terms(&s->shape, &x, 0, &terms);
        const struct iteration_time time = iteration_time(&truth, &terms, NULL);
        b[i] = (struct batch_load){.load = x.load,
                                   .duration_s = (time.host_s + time.device_s) * ratio[i]};
    }
    struct observed_stage stage = {.name = "0", .completed = 10, .rate = 1};
    for (int m = 0; m < OBSERVED_METRICS; m++)
        stage.of[m] = observed_unknown();
    struct observed run = {.path = "r",
                           .name = "r",
                           .batches = b,
                           .n_batches = N,
                           .first_token_lag_s = exp(s->truth.ln[THETA_FIRST_TOKEN]),
                           .stages = &stage,
                           .n_stages = 1};
    const struct calibrate_input in = input_of(t, &run);
    const struct calibrate_params p = {&s->trial, &s->shape, &s->prior};
    struct calibrate_fit fit;
    assert_ok(calibrate_fit(t->a, &p, &in, &fit, &t->e), t);
    struct service other = *s;
    other.trial.ratios = bouts_of(t, seed + 1000, RUN);
    other.trial.n_ratios = RUN;
    const struct observed_stage real = observe(t, &other, "1", 2, 60, 200);
    struct calibrate_prediction q;
    assert_ok(calibrate_predict(t->a, &p, &fit, &real, true, &q, &t->e), t);
    const double low = q.low[OBSERVED_E2E].at[OBSERVED_P50];
    const double high = q.high[OBSERVED_E2E].at[OBSERVED_P50];
    *width = log(high / low);
    return low <= real.of[OBSERVED_E2E].at[OBSERVED_P50] &&
           real.of[OBSERVED_E2E].at[OBSERVED_P50] <= high;
}

/* Two runs meet other bouts: intervals hold both what the fit does not know of the machine's mean
 * and what the other run meets. */
static void intervals_hold_the_bouts_of_other_runs(void **state)
{
    struct test *t = *state;
    enum { RUNS = 8 };
    struct service s;
    int held = 0;
    double width, mean = 0;
    open_service(t, &s);
    s.truth.ln[THETA_SPREAD] = log(1e-4);
    s.truth.ln[THETA_COMPLETION] = log(1e-6);
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        held += bouts_are_held(t, &s, seed, &width);
        mean += width / RUNS;
    }
    assert_in_range(held, 7, RUNS);
    assert_true(mean < 0.9); /* factors between the ends of 2.5 and less */
}

/* ---- algebra, wave ------------------------------------------------------------------------------
 */

static void systems_are_solved_around_what_is_left_out(void **state)
{
    (void)state;
    const double m[9] = {4, 9, 2, 9, 0, 9, 2, 9, 3};
    const double y[3] = {8, 77, 7};
    const bool out[3] = {false, true, false};
    double x[3], inverse[9], root[9];
    assert_true(solve(3, 3, m, out, y, x));
    assert_near(x[0], 1.25, 1e-12);
    assert_near(x[1], 0, 0);
    assert_near(x[2], 1.5, 1e-12);
    assert_true(solve_inverse(3, 3, m, out, inverse));
    assert_near(inverse[0], 0.375, 1e-12);
    assert_near(inverse[2], -0.25, 1e-12);
    assert_near(inverse[4], 0, 0);
    assert_true(solve_root(3, 3, m, out, root));
    assert_near(root[6] * root[0], 2, 1e-12);
    assert_false(solve(3, 3, m, NULL, y, x));
}

static void the_wave_is_normal_and_of_mean_one(void **state)
{
    (void)state;
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < TRIAL_WAVE; i++) {
        const double v = trial_wave(0.1, i);
        sum += v;
        squares += log(v) * log(v);
        assert_near(v, trial_wave(0.1, i + 3 * TRIAL_WAVE), 0);
    }
    assert_near(sum / TRIAL_WAVE, 1, 1e-3);
    assert_near(sqrt(squares / TRIAL_WAVE), 0.1, 2e-3);
}

/* All at time 0, so many in the service: what a closed loop is. */
static void a_closed_loop_has_so_many_at_a_time(void **state)
{
    enum { N = 200, AT_ONCE = 4 };
    struct test *t = *state;
    struct service s;
    struct trial_result open, closed;
    struct observed_stage o = {.name = "c", .completed = N};
    open_service(t, &s);
    o.w = (struct workload){.requests = arena_array(t->a, struct workload_request, N), .n = N};
    for (int i = 0; i < N; i++)
        o.w.requests[i] = (struct workload_request){
            .request_id = i, .num_prefill_tokens = 200 + i, .num_decode_tokens = 50 + i % 30};
    assert_ok(trial_run(t->a, &s.trial, &o, &s.truth, &open, &t->e), t);
    o.w.concurrency = concurrency_of(t->a, AT_ONCE, 0);
    assert_ok(trial_run(t->a, &s.trial, &o, &s.truth, &closed, &t->e), t);
    assert_int_equal(closed.completed, N);
    assert_in_range(closed.running, AT_ONCE, AT_ONCE + 1);
    assert_true(10 * closed.of[OBSERVED_TTFT].at[OBSERVED_P50] <
                open.of[OBSERVED_TTFT].at[OBSERVED_P50]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_rates_predict_a_third_and_other_prompts),
        TEST(one_rate_leaves_more_open_than_two),
        TEST(which_arrivals_there_were_is_luck),
        TEST(intervals_hold_the_truth),
        TEST(equal_input_gives_equal_parameters),
        TEST(another_schedule_does_not_fit),
        TEST(other_calibrations_narrow_the_prior),
        TEST(overload_and_few_requests_are_refused),
        TEST(contradictory_settings_are_refused),
        TEST(stalls_and_a_slow_start_do_not_count),
        TEST(first_batches_of_a_shape_are_told_apart),
        TEST(what_differs_inside_bouts_is_told),
        TEST(prompts_of_five_times_a_step_are_no_stalls),
        TEST(intervals_hold_the_bouts_of_other_runs),
        TEST(systems_are_solved_around_what_is_left_out),
        TEST(the_wave_is_normal_and_of_mean_one),
        TEST(a_closed_loop_has_so_many_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
