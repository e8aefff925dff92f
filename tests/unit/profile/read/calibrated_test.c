#include "profile/read/calibrated.h"

#include <math.h>

#include "profile/read/overheads.h"
#include "support/support.h"
#include "text/json.h"

static const struct model model = {.name = "m"};

static struct calibrated sample(struct test *t)
{
    struct calibrated c = {.hardware = {.dram_bytes_per_s = 3.35e12,
                                        .flop_per_s = {[PRECISION_BF16] = 9.89e14},
                                        .links.link_bytes_per_s = 4.5e11},
                           .tp = 2,
                           .pp = 1,
                           .source = "runs/real/a"};
    struct iteration_params p = iteration_defaults(PRECISION_BF16);
    struct doubles *rows = arena_array(t->a, struct doubles, ITERATION_PARAMS);
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        c.param[i] = (struct calibrated_param){
            .value = p.v[i], .sd = 0.01 * i, .low = NAN, .high = NAN, .fitted = i % 2};
        rows[i] = (struct doubles){arena_array(t->a, double, ITERATION_PARAMS), ITERATION_PARAMS};
        rows[i].v[i] = 1e-4 * i * i;
    }
    c.covariance = rows;
    c.n_covariance = ITERATION_PARAMS;
    struct node *settings = node_new(t->a, NODE_MAP);
    node_set(t->a, settings, SV("scheduler.batch_cap"), node_int(t->a, 128));
    c.settings = settings;
    c.first_use_s = 0.04;
    c.first_use_sd_s = 0.002;
    return c;
}

static const char *write(struct test *t, const struct calibrated *c)
{
    struct buf text = {0};
    json_write(&text, calibrated_node(t->a, c), 2, true);
    const char *path = test_write(t, "calibration.json", buf_str(&text));
    buf_free(&text);
    return path;
}

static void what_is_written_is_read(void **state)
{
    struct test *t = *state;
    struct calibrated c = sample(t), *back;
    assert_ok(calibrated_load(t->a, write(t, &c), &model, 2, 1, 0, &back, &t->e), t);
    assert_near_rel(back->hardware.dram_bytes_per_s, 3.35e12, 1e-12);
    assert_near_rel(back->hardware.links.link_bytes_per_s, 4.5e11, 1e-12);
    assert_near_rel(back->hardware.flop_per_s[PRECISION_BF16], 9.89e14, 1e-12);
    assert_near(back->hardware.flop_per_s[PRECISION_FP8], 0, 0);
    struct iteration_params p = calibrated_params(back);
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        assert_near(p.v[i], c.param[i].value, 0);
        assert_int_equal(back->param[i].fitted, i % 2);
        assert_near(back->covariance[i].v[i], 1e-4 * i * i, 0);
    }
    assert_int_equal(node_find(back->settings, "scheduler.batch_cap")->i, 128);
    assert_near(back->first_use_s, 0.04, 0);
    assert_near(back->first_use_sd_s, 0.002, 0);
    assert_string_equal(back->source, "runs/real/a");
}

static void other_settings_are_refused(void **state)
{
    struct test *t = *state;
    struct calibrated c = sample(t), *back;
    struct model fp8 = model;
    const char *path = write(t, &c);
    fp8.weights = PRECISION_FP8;
    assert_err(calibrated_load(t->a, path, &model, 4, 1, 0, &back, &t->e), ST_INPUT, t,
               arena_printf(t->a,
                            "%s holds for parallel.tp=2, not 4\nhint: calibrate runs of that "
                            "setting, or predictor=roofline, uncalibrated",
                            path));
    assert_err(calibrated_load(t->a, path, &model, 2, 2, 0, &back, &t->e), ST_INPUT, t,
               arena_printf(t->a,
                            "%s holds for parallel.pp=1, not 2\nhint: calibrate runs of that "
                            "setting, or predictor=roofline, uncalibrated",
                            path));
    assert_err(calibrated_load(t->a, path, &fp8, 2, 1, 1, &back, &t->e), ST_INPUT, t,
               arena_printf(t->a,
                            "%s holds for weights in bf16, not fp8\nhint: calibrate runs of that "
                            "format, or predictor=roofline, uncalibrated",
                            path));
}

static void faults_are_named(void **state)
{
    struct test *t = *state;
    struct calibrated c = sample(t), *back;
    c.param[ITERATION_KV_EFFICIENCY].value = 2;
    assert_int_equal(calibrated_load(t->a, write(t, &c), &model, 2, 1, 0, &back, &t->e), ST_INPUT);
    assert_non_null(
        strstr(err_cause(&t->e, 0), "parameters.kv_efficiency: 2 is not in 0.001 to 1.2"));
    err_clear(&t->e);
    c = sample(t);
    c.n_covariance = 3;
    assert_int_equal(calibrated_load(t->a, write(t, &c), &model, 2, 1, 0, &back, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "covariance: expected 22 rows of as many numbers"));
    err_clear(&t->e);
    c = sample(t);
    struct node *n = calibrated_node(t->a, &c);
    node_remove(node_find(n, "parameters"), SV("layer_s"));
    struct buf text = {0};
    json_write(&text, n, 2, true);
    const char *path = test_write(t, "calibration.json", buf_str(&text));
    buf_free(&text);
    assert_int_equal(calibrated_load(t->a, path, &model, 2, 1, 0, &back, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "parameters.layer_s: missing"));
    err_clear(&t->e);
    assert_ok(calibrated_load(t->a, test_path(t, "absent"), &model, 1, 1, 0, &back, &t->e), t);
    assert_null(back);
}

static void overheads_of_requests(void **state)
{
    struct test *t = *state;
    struct request_overheads *o;
    const char *path = test_write(t, "request_overheads.json", "{\"first_token_s\": 0.004}");
    assert_ok(request_overheads_load(t->a, path, &o, &t->e), t);
    assert_near(o->first_token_s, 0.004, 0);
    assert_near(o->prompt_token_s, 0, 0);
    assert_near(o->completion_s, 0, 0);
    path = test_write(t, "request_overheads.json", "{\"first_token_s\": -1}");
    assert_int_equal(request_overheads_load(t->a, path, &o, &t->e), ST_INPUT);
    assert_non_null(
        strstr(err_cause(&t->e, 0), "request_overheads.json:1:19: first_token_s: -1 is below"));
    err_clear(&t->e);
    assert_ok(request_overheads_load(t->a, test_path(t, "absent"), &o, &t->e), t);
    assert_null(o);
}

/* Draws spread as the covariance says, combinations too: here the last two parameters that are
 * efficiencies only ever move against each other. */
static void draws_follow_the_covariance(void **state)
{
    enum { DRAWS = 400, A = ITERATION_WEIGHTS_EFFICIENCY, B = ITERATION_KV_EFFICIENCY };
    struct test *t = *state;
    struct calibrated c = sample(t);
    double sum[2] = {0}, squares[2] = {0}, both = 0;
    for (int i = 0; i < ITERATION_PARAMS; i++)
        for (int j = 0; j < ITERATION_PARAMS; j++)
            c.covariance[i].v[j] = 0;
    c.param[A].value = c.param[B].value = 0.5;
    c.covariance[A].v[A] = c.covariance[B].v[B] = 0.01;
    c.covariance[A].v[B] = c.covariance[B].v[A] = -0.0099999;
    for (int k = 0; k < DRAWS; k++) {
        const struct calibrated *d = calibrated_drawn(t->a, &c, (uint64_t)k);
        const double x[2] = {1 - 0.5 / d->param[A].value, 1 - 0.5 / d->param[B].value};
        for (int i = 0; i < 2; i++) {
            sum[i] += x[i] / DRAWS;
            squares[i] += x[i] * x[i] / DRAWS;
        }
        both += x[0] * x[1] / DRAWS;
        for (int i = B + 1; i < ITERATION_PARAMS; i++)
            assert_near(d->param[i].value, c.param[i].value, 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_near(sum[i], 0, 0.02);
        assert_near(sqrt(squares[i]), 0.1, 0.01);
    }
    assert_true(both < -0.99 * squares[0]);
    assert_near(calibrated_drawn(t->a, &c, 7)->param[A].value,
                calibrated_drawn(t->a, &c, 7)->param[A].value, 0);
}

/* Without a covariance each by its own sd; host times that were not fitted stay. */
static void draws_without_a_covariance(void **state)
{
    struct test *t = *state;
    struct calibrated c = sample(t);
    c.n_covariance = 0;
    assert_true(calibrated_is_uncertain(&c));
    const struct calibrated *d = calibrated_drawn(t->a, &c, 1);
    for (int i = 1; i < ITERATION_PARAMS; i++) {
        const struct iteration_param_info *info = &iteration_param_table[i];
        const bool stays =
            i >= ITERATION_ITERATION_S && i <= ITERATION_TOKEN_S && !c.param[i].fitted;
        assert_true((d->param[i].value == c.param[i].value) == (stays || c.param[i].value == 0));
        assert_true(d->param[i].value >= info->min && d->param[i].value <= info->max);
    }
    for (int i = 0; i < ITERATION_PARAMS; i++)
        c.param[i].sd = 0;
    assert_false(calibrated_is_uncertain(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(what_is_written_is_read),
                                       TEST(other_settings_are_refused),
                                       TEST(faults_are_named),
                                       TEST(overheads_of_requests),
                                       TEST(draws_follow_the_covariance),
                                       TEST(draws_without_a_covariance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
