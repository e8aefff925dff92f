/* The fit to logs of iterations, of a server whose parameters are known: the simulator's own
 * account of it gives the times. */
#include <math.h>

#include "base/rng.h"
#include "calibrate/calibrate.h"
#include "calibrate/log_replay.h"
#include "calibrate/pace.h"
#include "support/fake_log.h"
#include "support/h100.h"
#include "support/support.h"

struct server {
    struct trial trial;
    struct iteration_shape shape;
    struct theta_prior prior;
    struct theta truth;
    struct fake_log fake;
    struct logged_run logged;
    struct observed observed;
    struct observed_stage stage;
    double *device_s; /* of the iterations */
    double slow;      /* the host's pace in every other stretch; 0 = as ever */
};

static const struct launching graphs = {LAUNCHING_FULL_AND_PIECEWISE, 512};

static void open_server(struct test *t, struct server *s)
{
    const struct iteration_degrees degrees = {.tp = 1, .pp = 1, .ep = 1, .launching = graphs};
    s->trial =
        (struct trial){.params = {.model = &llama_8b, .tp = 1, .pp = 1, .hardware = &h100_peaks},
                       .serve = {.policy = "vllm_0_33",
                                 .replicas = 1,
                                 .batch_cap = 256,
                                 .token_budget = 8192,
                                 .block_size = 16,
                                 .num_blocks = 6000,
                                 .max_model_len = 4096,
                                 .launching = graphs,
                                 .async = ASYNC_OVERLAP}};
    assert_ok(predictor_find("roofline", &s->trial.predictor, &t->e), t);
    assert_ok(iteration_shape(t->a, &llama_8b, &h100_peaks, &degrees, &s->shape, &t->e), t);
    theta_prior_roofline(&llama_8b, &s->shape, &s->prior);
    s->truth = s->prior.mean;
    s->truth.ln[ITERATION_WEIGHTS_EFFICIENCY] = log(0.7);
    s->truth.ln[ITERATION_PIECE_LAYER_S] = log(4e-4);
    s->truth.ln[ITERATION_KERNEL_LAYER_S] = log(1.1e-3);
    s->truth.ln[THETA_FIRST_TOKEN] = log(4e-3);
    s->truth.ln[THETA_COMPLETION] = log(2e-3);
}

/* Of n iterations. */
static const double *true_paces(struct test *t, const struct server *s, size_t n)
{
    double *pace = arena_array(t->a, double, n);
    for (size_t i = 0; i < n; i++)
        pace[i] = s->slow > 0 && i / PACE_STRETCH % 2 ? s->slow : 1;
    return pace;
}

/* Times of the requests and waits of the loop, by the truth; arrivals lie anywhere between the
 * begins of two iterations. The log has hundredths of a millisecond. */
static void observe(struct test *t, struct server *s)
{
    struct rng rng = rng_stream(3, "arrivals");
    const struct request_overheads o = theta_overheads(&s->truth);
    struct logged_run *r = &s->logged;
    struct observed_row rows[FAKE_LOG_REQUESTS];
    double begin_s = 1;
    fake_log_compose(&s->fake);
    r->run = s->fake.run;
    r->log = s->fake.log;
    assert_ok(iteration_match(t->a, &r->run, &r->log, NULL, &r->match, &t->e), t);
    const size_t n = r->match.n;
    struct replayed at = replayed_new(t->a, n);
    assert_ok(log_replay(t->a, &s->trial, r, &s->truth, true_paces(t, s, n), &at, &t->e), t);
    s->device_s = at.device_s;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && r->match.of[i].idle_before)
            begin_s = at.tokens_s[i - 1] + 0.5;
        at.tokens_s[i] += begin_s;
        at.begin_s[i] += begin_s;
        const double elapsed_s =
            isnan(at.wait_s[i]) ? at.tokens_s[i] - at.begin_s[i] : at.wait_s[i];
        s->fake.of[i].elapsed_s = round(1e5 * elapsed_s) / 1e5;
    }
    for (int k = 0; k < FAKE_LOG_REQUESTS; k++) {
        struct run_request *q = &s->fake.requests[k];
        const size_t i = s->fake.first[k];
        const double joined = r->match.of[i].idle_before ? 0 : at.begin_s[i] - at.begin_s[i - 1];
        q->arrival_ns = llround(1e9 * (at.begin_s[i] - o.front_s - joined * rng_unit(&rng)));
        q->first_token_ns =
            llround(1e9 * (at.tokens_s[i] + o.first_token_s +
                           o.prompt_token_s * (double)q->num_prefill_tokens +
                           o.stream_s * (double)(s->fake.of[i].generation_requests + 1)));
        q->completion_ns = llround(1e9 * (at.tokens_s[i + FAKE_LOG_ANSWER - 1] + o.completion_s));
        rows[k] = (struct observed_row){.arrival_s = 1e-9 * (double)q->arrival_ns,
                                        .first_token_s = 1e-9 * (double)q->first_token_ns,
                                        .end_s = 1e-9 * (double)q->completion_ns,
                                        .prompt_tokens = q->num_prefill_tokens,
                                        .output_tokens = FAKE_LOG_ANSWER,
                                        .cached_tokens = -1,
                                        .ok = true};
    }
    assert_ok(iteration_times(t->a, &r->run, &r->match, &r->times, &t->e), t);
    r->n_anchors = iteration_anchors(t->a, &r->run, &r->match, &r->anchors);
    s->stage.name = "0";
    assert_ok(observed_from_rows(t->a, "run", rows, FAKE_LOG_REQUESTS, &s->stage, &t->e), t);
    s->observed = (struct observed){
        .path = "run", .name = "run", .stages = &s->stage, .n_stages = 1, .logged = r};
    s->observed.settings.prefix_caching = -1;
}

static void fit_runs(struct test *t, const struct server *s, const struct observed *runs, size_t n,
                     struct calibrate_fit *fit)
{
    const struct calibrate_params p = {&s->trial, &s->shape, &s->prior};
    struct calibrate_input in;
    assert_ok(calibrate_check(t->a, runs, n, &in, &t->e), t);
    assert_ok(calibrate_fit(t->a, &p, &in, fit, &t->e), t);
}

static bool noted(const struct calibrate_fit *f, const char *text)
{
    for (size_t i = 0; i < f->n_notes; i++)
        if (strstr(f->notes[i], text))
            return true;
    return false;
}

static void parameters_follow_from_a_log(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server);
    struct calibrate_input in;
    struct calibrate_fit fit;
    open_server(t, s);
    observe(t, s);
    assert_true(s->logged.times.async);
    const struct calibrate_params p = {&s->trial, &s->shape, &s->prior};
    assert_ok(calibrate_check(t->a, &s->observed, 1, &in, &t->e), t);
    assert_true(in.logs);
    assert_ok(calibrate_fit(t->a, &p, &in, &fit, &t->e), t);
    assert_true(fit.fits);
    static const int told[] = {ITERATION_PIECE_LAYER_S, ITERATION_KERNEL_LAYER_S,
                               THETA_FIRST_TOKEN};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        const int k = told[i];
        assert_near(fit.theta.ln[k], s->truth.ln[k], 0.1);
        assert_true(fit.told[k] < 0.6);
        assert_true(fabs(fit.theta.ln[k] - s->truth.ln[k]) < 4 * sqrt(fit.covariance[k][k]) + 0.02);
    }
    assert_true(noted(&fit, "waits of the loop: residuals of 0.0"));
    assert_int_equal(fit.n_residuals, 3 * 5);

    /* what it predicts of its own run, with all parameters together */
    struct trial_result ours, truth;
    /* the replay has no unevenness; of decode steps alone there are too few to tell */
    assert_near(fit.told[THETA_SPREAD], 1, 1e-9);
    assert_true(exp(fit.theta.ln[ITERATION_LAUNCH_SPREAD]) < 1e-2);
    s->truth.ln[ITERATION_LAUNCH_SPREAD] = fit.theta.ln[ITERATION_LAUNCH_SPREAD];
    assert_ok(trial_run(t->a, &s->trial, &s->stage, &fit.theta, &ours, &t->e), t);
    assert_ok(trial_run(t->a, &s->trial, &s->stage, &s->truth, &truth, &t->e), t);
    for (int m = 0; m < OBSERVED_METRICS; m++)
        assert_near_rel(ours.of[m].at[OBSERVED_P50], truth.of[m].at[OBSERVED_P50], 0.03);
}

/* With a trace the device's parameters are known much better than by the log alone. */
static void a_trace_tells_the_device(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server);
    struct calibrate_input in;
    struct calibrate_fit alone, both;
    open_server(t, s);
    s->truth.ln[ITERATION_COMPUTE_EFFICIENCY] = log(0.6);
    observe(t, s);
    const struct calibrate_params p = {&s->trial, &s->shape, &s->prior};
    assert_ok(calibrate_check(t->a, &s->observed, 1, &in, &t->e), t);
    assert_ok(calibrate_fit(t->a, &p, &in, &alone, &t->e), t);
    s->logged.device_s = s->device_s;
    assert_ok(calibrate_fit(t->a, &p, &in, &both, &t->e), t);
    static const int told[] = {ITERATION_WEIGHTS_EFFICIENCY, ITERATION_COMPUTE_EFFICIENCY};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        const int k = told[i];
        assert_near(both.theta.ln[k], s->truth.ln[k], 0.05);
        assert_true(both.told[k] < 0.3 && both.told[k] < alone.told[k] / 2);
    }
    assert_true(noted(&both, "times on the device, of a trace: residuals of"));
    assert_false(noted(&alone, "of a trace"));
}

/* A recording slowed the host of one run: it says of the device only, the other one of the host. */
static void a_traced_host_does_not_count(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server), *traced = arena_one(t->a, struct server);
    struct calibrate_fit fit;
    open_server(t, s);
    open_server(t, traced);
    traced->truth.ln[ITERATION_PIECE_LAYER_S] += log(1.5);
    traced->truth.ln[ITERATION_KERNEL_LAYER_S] += log(1.5);
    observe(t, s);
    observe(t, traced);
    traced->logged.device_s = traced->device_s;
    const struct observed runs[] = {s->observed, traced->observed};
    fit_runs(t, s, runs, 2, &fit);
    assert_near(fit.theta.ln[ITERATION_KERNEL_LAYER_S], s->truth.ln[ITERATION_KERNEL_LAYER_S], 0.1);
    assert_near(fit.theta.ln[ITERATION_PIECE_LAYER_S], s->truth.ln[ITERATION_PIECE_LAYER_S], 0.1);
    assert_near(fit.theta.ln[ITERATION_WEIGHTS_EFFICIENCY], log(0.7), 0.05);
}

/* What the host takes of an iteration with a prompt. */
static double launched_s(const struct replayed *at, size_t i)
{
    return isnan(at->launch_s[i]) ? at->tokens_s[i] - at->begin_s[i] - at->device_s[i]
                                  : at->launch_s[i];
}

/* A simulation, which has no paces, launches in the time that the run took in all. */
static void check_mean_pace(struct test *t, const struct server *s, const struct calibrate_fit *fit)
{
    const size_t n = s->logged.match.n;
    struct replayed took = replayed_new(t->a, n), takes = replayed_new(t->a, n);
    const double *pace = true_paces(t, s, n);
    double took_s = 0, takes_s = 0;
    assert_ok(log_replay(t->a, &s->trial, &s->logged, &s->truth, pace, &took, &t->e), t);
    assert_ok(log_replay(t->a, &s->trial, &s->logged, &fit->theta, NULL, &takes, &t->e), t);
    for (size_t i = 0; i < n; i++)
        if (s->logged.match.of[i].is.chunks)
            took_s += launched_s(&took, i), takes_s += launched_s(&takes, i);
    assert_near_rel(takes_s, took_s, 0.03);
}

/* A host that is slow by turns: its pace takes that up, and what a sequence costs does not. What is
 * known of the host is as uncertain as its pace. */
static void a_slow_host_is_no_cost_of_its_batches(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server);
    struct calibrate_fit fit;
    open_server(t, s);
    s->slow = 1.6;
    observe(t, s);
    fit_runs(t, s, &s->observed, 1, &fit);
    assert_true(fit.fits);
    assert_true(noted(&fit, "the host's pace varies by 2"));
    const double middle = s->truth.ln[ITERATION_KERNEL_LAYER_S] + log(1.6) / 2,
                 sd = sqrt(fit.covariance[ITERATION_KERNEL_LAYER_S][ITERATION_KERNEL_LAYER_S]);
    assert_true(sd > 0.05);
    assert_near(fit.theta.ln[ITERATION_KERNEL_LAYER_S], middle, 2 * sd);
    assert_near(fit.theta.ln[ITERATION_SEQUENCE_S], s->truth.ln[ITERATION_SEQUENCE_S], log(2));
    check_mean_pace(t, s, &fit);
}

/* A run whose host nothing is known of has no part in the mean. */
static void a_traced_run_has_no_pace(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server), *traced = arena_one(t->a, struct server);
    struct calibrate_fit fit;
    open_server(t, s);
    open_server(t, traced);
    s->slow = 1.6;
    observe(t, s);
    observe(t, traced);
    traced->logged.device_s = traced->device_s;
    const struct observed runs[] = {s->observed, traced->observed};
    fit_runs(t, s, runs, 2, &fit);
    check_mean_pace(t, s, &fit);
}

/* Without asynchronous scheduling each iteration waits for its host. */
static void a_synchronous_host_has_a_pace(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server);
    struct calibrate_fit fit;
    open_server(t, s);
    s->trial.serve.async = ASYNC_OFF;
    s->slow = 1.6;
    observe(t, s);
    fit_runs(t, s, &s->observed, 1, &fit);
    check_mean_pace(t, s, &fit);
}

static void other_servers_are_refused(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server);
    struct calibrate_input in;
    struct calibrate_fit fit;
    open_server(t, s);
    observe(t, s);
    const struct calibrate_params p = {&s->trial, &s->shape, &s->prior};
    assert_ok(calibrate_check(t->a, &s->observed, 1, &in, &t->e), t);
    s->trial.serve.async = ASYNC_OFF;
    assert_err(calibrate_fit(t->a, &p, &in, &fit, &t->e), ST_USAGE, t,
               "server.log: the server scheduled asynchronously, as the times of its iterations "
               "say\nhint: scheduler.async_scheduling=overlap");
    err_clear(&t->e);
    s->trial.serve.async = ASYNC_OVERLAP;
    s->trial.serve.launching.mode = LAUNCHING_UNTOLD;
    assert_int_equal(calibrate_fit(t->a, &p, &in, &fit, &t->e), ST_USAGE);
    assert_cause(&t->e, "an iteration log is fitted to the account of a host that launches, and "
                        "the server of these settings has none: nothing is known of how it "
                        "launches batches");
}

static void runs_without_a_log_stay_out(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server);
    struct calibrate_input in;
    open_server(t, s);
    observe(t, s);
    struct observed runs[] = {s->observed, s->observed};
    runs[1].logged = NULL;
    assert_ok(calibrate_check(t->a, runs, 2, &in, &t->e), t);
    assert_null(in.stages[0].left_out);
    assert_string_equal(in.stages[1].left_out, "it has no log of iterations, and another run has");
    assert_int_equal(observed_take_log(t->a, "x.log", &runs[1], &t->e), ST_USAGE);
    assert_cause(&t->e, "x.log: an iteration log was given for run, which is no run directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parameters_follow_from_a_log), TEST(a_trace_tells_the_device),
        TEST(a_traced_host_does_not_count), TEST(a_slow_host_is_no_cost_of_its_batches),
        TEST(a_traced_run_has_no_pace),     TEST(a_synchronous_host_has_a_pace),
        TEST(other_servers_are_refused),    TEST(runs_without_a_log_stay_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
