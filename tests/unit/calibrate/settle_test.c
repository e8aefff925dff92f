/* Starts that had not settled: those of a fresh server, and what is none. */
#include "calibrate/settle.h"

#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "support/h100.h"
#include "support/support.h"

static void mser_cuts_where_the_mean_is_known_best(void **state)
{
    (void)state;
    const double even[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const double step[] = {9, 8, 0.95, 1.05, 1, 1.05, 0.95, 1};
    const double late[] = {1, 1, 1, 1, 1, 1, 9, 9}; /* no start */
    assert_int_equal(settle_mser(even, 8), 0);
    assert_int_equal(settle_mser(step, 8), 2);
    assert_int_equal(settle_mser(late, 8), 0);
    assert_int_equal(settle_mser(even, 0), 0);
}

enum { N = 200 };

struct service {
    struct trial trial;
    struct iteration_shape shape;
    struct theta_prior prior;
    struct observed_row rows[N];
    struct observed_stage stage;
    struct observed run;
    struct calibrate_input in;
};

static void open_service(struct test *t, struct service *s)
{
    s->trial =
        (struct trial){.params = {.model = &llama_8b, .tp = 1, .pp = 1, .hardware = &h100_peaks},
                       .serve = {.policy = "vllm_0_33",
                                 .replicas = 1,
                                 .batch_cap = 64,
                                 .token_budget = 2048,
                                 .block_size = 16,
                                 .num_blocks = 6000,
                                 .max_model_len = 4096,
                                 .async = ASYNC_OVERLAP}};
    assert_ok(predictor_find("roofline", &s->trial.predictor, &t->e), t);
    assert_ok(iteration_shape(t->a, &llama_8b, &h100_peaks,
                              &(struct iteration_degrees){1, 1, 1, 0, {0}}, &s->shape, &t->e),
              t);
    theta_prior_roofline(&llama_8b, &s->shape, &s->prior);
}

/* Requests as the simulator has them, each first token by chance up to 10 % later, and slow for the
 * first `fresh` of them. */
static void observe(struct test *t, struct service *s, double rate, size_t fresh, double slow_s)
{
    struct rng rng = rng_stream(1, "service");
    struct observed_stage plain = {.name = "0"};
    struct trial f = s->trial;
    struct trial_result of;
    double first_s[N];
    for (size_t i = 0; i < N; i++)
        s->rows[i] = (struct observed_row){.arrival_s = (double)i / rate,
                                           .first_token_s = (double)i / rate + 0.1,
                                           .end_s = (double)i / rate + 1,
                                           .prompt_tokens = 100 + 400 * (int64_t)(i % 5),
                                           .output_tokens = 60,
                                           .cached_tokens = -1,
                                           .ok = true};
    assert_ok(observed_from_rows(t->a, "r", s->rows, N, &plain, &t->e), t);
    f.first_tokens_s = first_s;
    assert_ok(trial_run(t->a, &f, &plain, &s->prior.mean, &of, &t->e), t);
    for (size_t i = 0; i < N; i++) {
        struct observed_row *r = &s->rows[i];
        r->first_token_s =
            r->arrival_s + first_s[i] * (1 + 0.1 * rng_unit(&rng)) + (i < fresh ? slow_s : 0);
        r->end_s = r->first_token_s + 0.5;
    }
    s->stage = (struct observed_stage){.name = "0"};
    assert_ok(observed_from_rows(t->a, "r", s->rows, N, &s->stage, &t->e), t);
    s->run = (struct observed){.path = "r", .name = "r", .stages = &s->stage, .n_stages = 1};
    s->run.settings.prefix_caching = -1;
    assert_ok(calibrate_check(t->a, &s->run, 1, &s->in, &t->e), t);
}

static void settle(struct test *t, struct service *s)
{
    const struct calibrate_params p = {&s->trial, &s->shape, &s->prior};
    assert_ok(settle_starts(t->a, &p, &s->in, &s->run, 1, &t->e), t);
}

static void a_fresh_server_is_left_out(void **state)
{
    struct test *t = *state;
    struct service *s = arena_one(t->a, struct service);
    open_service(t, s);
    observe(t, s, 5, 20, 1.5);
    assert_true(s->stage.of[OBSERVED_TTFT].at[OBSERVED_P90] < 1); /* a tenth of them */
    assert_true(s->stage.of[OBSERVED_TTFT].mean > 0.15);
    settle(t, s);
    const int64_t cut = s->stage.warmup; /* by MSER-5 a little more, as chance has it */
    assert_true(cut >= 20 && cut <= 40);
    assert_int_equal(s->stage.completed, N - cut);
    assert_true(s->stage.of[OBSERVED_TTFT].mean < 0.1);
    assert_int_equal(s->in.n_notes, 1);
    const char *begin = arena_printf(
        t->a,
        "stage 0 of r: its first %lld of 200 requests are left out, as the server had not "
        "settled (MSER-5): TTFT is 0.",
        (long long)cut);
    assert_int_equal(strncmp(s->in.notes[0], begin, strlen(begin)), 0);

    /* the fit says so, and a start that was left out is not looked at again */
    const struct calibrate_params p = {&s->trial, &s->shape, &s->prior};
    struct calibrate_fit fit;
    assert_ok(calibrate_fit(t->a, &p, &s->in, &fit, &t->e), t);
    assert_string_equal(fit.notes[0], s->in.notes[0]);
    assert_near_rel(s->stage.of[OBSERVED_TTFT].at[OBSERVED_P50], fit.residuals[2].fitted, 0.1);
    settle(t, s);
    assert_int_equal(s->in.n_notes, 1);
}

static void what_the_load_does_is_no_start(void **state)
{
    struct test *t = *state;
    struct service *s = arena_one(t->a, struct service);
    open_service(t, s);
    observe(t, s, 5, 0, 0);
    settle(t, s);
    assert_int_equal(s->in.n_notes, 0);
    assert_int_equal(s->stage.warmup, 0);

    observe(t, s, 5, 20, -0.01); /* a start that is faster is none either */
    settle(t, s);
    assert_int_equal(s->in.n_notes, 0);

    observe(t, s, 60, 0, 0); /* a queue that grows: its first requests wait least */
    settle(t, s);
    assert_int_equal(s->in.n_notes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mser_cuts_where_the_mean_is_known_best),
        TEST(a_fresh_server_is_left_out),
        TEST(what_the_load_does_is_no_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
