/* The paces of a host beside the parameters: eliminating them is the same as solving for all. */
#include <math.h>

#include "base/rng.h"
#include "base/solve.h"
#include "calibrate/pace.h"
#include "support/support.h"

enum { RUNS = 2, DATA = 60, OURS = 2 };

/* Two parameters, one of the host; stretches of two runs. */
static const int ours[OURS] = {ITERATION_WEIGHTS_EFFICIENCY, ITERATION_KERNEL_LAYER_S};
static const size_t iterations[RUNS] = {2 * PACE_STRETCH, PACE_STRETCH + 1};

struct data {
    size_t stretch[DATA];
    double slope[DATA][THETAS], w[DATA], off[DATA];
};

static void draw(const struct pace *p, struct data *d)
{
    struct rng rng = rng_stream(5, "data");
    *d = (struct data){0};
    for (int k = 0; k < DATA; k++) {
        const size_t run = rng_unit(&rng) < 0.5;
        const size_t at = (size_t)(rng_unit(&rng) * (double)iterations[run]);
        d->stretch[k] = pace_stretch(p, run, at);
        for (int i = 0; i < OURS; i++)
            d->slope[k][ours[i]] = 0.2 + rng_unit(&rng);
        d->w[k] = 1 + rng_unit(&rng);
        d->off[k] = rng_normal(&rng);
    }
}

static void eliminating_is_solving_for_all(void **state)
{
    struct test *t = *state;
    struct pace p;
    struct data d;
    double hessian[THETAS][THETAS] = {{0}}, gradient[THETAS] = {0}, step[THETAS];
    bool left_out[THETAS];
    pace_new(t->a, iterations, RUNS, &p);
    assert_int_equal(p.n, 4);
    draw(&p, &d);
    p.ln[1] = 0.3; /* as an earlier step left it */

    /* all at once: two parameters and four paces */
    enum { ALL = OURS + 4 };
    double all[ALL][ALL] = {{0}}, down[ALL] = {0}, expected[ALL];
    for (int b = 0; b < 4; b++) {
        all[OURS + b][OURS + b] = 1 / (p.sd * p.sd);
        down[OURS + b] = p.ln[b] / (p.sd * p.sd);
    }
    pace_begin(&p);
    for (int k = 0; k < DATA; k++) {
        double row[ALL] = {0};
        for (int i = 0; i < OURS; i++)
            row[i] = d.slope[k][ours[i]];
        row[OURS + d.stretch[k]] = d.slope[k][ITERATION_KERNEL_LAYER_S];
        for (int i = 0; i < ALL; i++) {
            down[i] += d.w[k] * row[i] * d.off[k];
            for (int j = 0; j < ALL; j++)
                all[i][j] += d.w[k] * row[i] * row[j];
        }
        for (int i = 0; i < THETAS; i++) {
            gradient[i] += d.w[k] * d.slope[k][i] * d.off[k];
            for (int j = 0; j < THETAS; j++)
                hessian[i][j] += d.w[k] * d.slope[k][i] * d.slope[k][j];
        }
        pace_add(&p, d.stretch[k], d.slope[k], d.w[k], d.off[k]);
    }
    assert_true(solve(ALL, ALL, all[0], NULL, down, expected));

    pace_equations(&p, hessian, gradient);
    for (int i = 0; i < THETAS; i++)
        left_out[i] = i != ours[0] && i != ours[1];
    assert_true(solve(THETAS, THETAS, hessian[0], left_out, gradient, step));
    for (int i = 0; i < OURS; i++)
        assert_near(step[ours[i]], expected[i], 1e-9);
    double paces[4];
    pace_step(&p, step, paces);
    for (int b = 0; b < 4; b++)
        assert_near(paces[b], expected[OURS + b], 1e-9);

    const double loss = pace_loss(&p);
    assert_near(loss, 0.3 * 0.3 / (2 * p.sd * p.sd), 1e-12);
    pace_move(&p, paces, 1);
    assert_near(p.ln[1], 0.3 - paces[1], 1e-12);
    assert_near(p.of[0][PACE_STRETCH], exp(p.ln[1]), 1e-12);
    assert_near(p.of[1][PACE_STRETCH], exp(p.ln[3]), 1e-12);
}

/* A host that is slow by turns of many stretches: its spread, and that neighbours are alike. */
static void spread_and_turns_are_found(void **state)
{
    struct test *t = *state;
    struct pace p;
    enum { N = 128, TURN = 16 };
    const size_t long_run = N * PACE_STRETCH;
    double covariance[THETAS][THETAS] = {{0}};
    bool held[THETAS] = {[ITERATION_TOKEN_S] = true};
    pace_new(t->a, &long_run, 1, &p);
    for (int b = 0; b < N; b++) {
        p.ln[b] = b / TURN % 2 ? 0.29 : -0.29;
        p.curvature[b] = 1e4; /* well known */
    }
    pace_settle(t->a, &p);
    assert_near(p.sd, sqrt(0.29 * 0.29 + 1e-4), 1e-9);
    assert_true(p.worth > TURN / 2 && p.worth < 2 * TURN);

    pace_widen(&p, held, covariance);
    const double adds = p.worth * p.sd * p.sd / N;
    assert_near(covariance[ITERATION_ANSWER_S][ITERATION_KERNEL_LAYER_S], adds, 1e-12);
    assert_near(covariance[ITERATION_TOKEN_S][ITERATION_TOKEN_S], 0, 1e-12);
    assert_near(covariance[ITERATION_LAYER_S][ITERATION_LAYER_S], 0, 1e-12);
}

/* One stretch in which a kernel was compiled says nothing of the others. */
static void a_stall_is_no_pace(void **state)
{
    struct test *t = *state;
    struct pace p;
    enum { N = 64 };
    const size_t long_run = N * PACE_STRETCH;
    pace_new(t->a, &long_run, 1, &p);
    for (int b = 0; b < N; b++) {
        p.ln[b] = b % 2 ? 0.1 : -0.1;
        p.curvature[b] = 1e6; /* well known */
    }
    p.ln[5] = 2.5;
    for (int round = 0; round < 20; round++)
        pace_settle(t->a, &p);
    assert_true(p.sd > 0.1 && p.sd < 0.12);
    assert_true(pace_stalled(&p, 5));
    assert_false(pace_stalled(&p, 4));
}

static void all_paces_move_together(void **state)
{
    struct test *t = *state;
    struct pace p;
    const size_t runs[] = {2 * PACE_STRETCH, 10};
    pace_new(t->a, runs, 2, &p);
    p.ln[1] = 0.3;
    pace_slow(&p, -0.1);
    assert_near(p.of[0][0], exp(-0.1), 1e-12);
    assert_near(p.of[0][PACE_STRETCH], exp(0.2), 1e-12);
    assert_near(p.of[1][9], exp(-0.1), 1e-12);
}

/* That the stretches of a run are alike does not say that another run has their pace. */
static void another_run_has_a_pace_of_its_own(void **state)
{
    struct test *t = *state;
    struct pace p;
    const size_t long_run = 100 * PACE_STRETCH;
    double covariance[THETAS][THETAS] = {{0}};
    const bool held[THETAS] = {false};
    pace_new(t->a, &long_run, 1, &p);
    p.sd = 0.05;
    pace_widen(&p, held, covariance);
    assert_near(covariance[ITERATION_ANSWER_S][ITERATION_ANSWER_S], 0.1 * 0.1, 1e-12);
}

/* Of two runs one tells nothing of its host (its times on the device are traced): how much paces
 * vary is found from the other, and stays. */
static void runs_without_times_of_the_host_do_not_widen(void **state)
{
    struct test *t = *state;
    struct pace p;
    enum { N = 64, TURN = 16, SETTLED = 20 };
    const size_t long_runs[] = {N * PACE_STRETCH, N * PACE_STRETCH};
    const double slope[THETAS] = {[ITERATION_ITERATION_S] = 1}, none[THETAS] = {0};
    double step[2 * N];
    pace_new(t->a, long_runs, 2, &p);
    for (int round = 0; round < SETTLED; round++) {
        pace_begin(&p);
        for (size_t b = 0; b < N; b++) {
            const double is = b / TURN % 2 ? 0.05 : -0.05;
            pace_add(&p, b, slope, 1e5, p.ln[b] - is);
            pace_add(&p, N + b, none, 1e5, 1); /* of the device */
        }
        pace_step(&p, none, step);
        pace_move(&p, step, 1);
        pace_settle(t->a, &p);
    }
    assert_near_rel(p.sd, 0.05, 0.01);
    assert_true(p.worth > TURN / 2 && p.worth < 2 * TURN);
    assert_near(p.ln[N], 0, 0);
}

/* Where the data say little, u's own variance is the most that sd was. */
static void weak_data_do_not_widen(void **state)
{
    struct test *t = *state;
    struct pace p;
    enum { N = 64 };
    const size_t long_run = N * PACE_STRETCH;
    pace_new(t->a, &long_run, 1, &p);
    p.worth = 16;
    pace_begin(&p);
    for (int b = 0; b < N; b++)
        p.curvature[b] += 1e-3;
    const double before = p.sd;
    pace_settle(t->a, &p);
    assert_true(p.sd <= before && p.sd > 0.99 * before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(eliminating_is_solving_for_all),
        TEST(spread_and_turns_are_found),
        TEST(runs_without_times_of_the_host_do_not_widen),
        TEST(weak_data_do_not_widen),
        TEST(a_stall_is_no_pace),
        TEST(all_paces_move_together),
        TEST(another_run_has_a_pace_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
