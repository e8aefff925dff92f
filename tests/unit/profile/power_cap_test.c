#include "profile/power_cap.h"

#include <math.h>

#include "profile/read/power_cap.h"
#include "support/support.h"

/* Of prompts by themselves; slope: what they take longer where the clock is down. */
static const struct size {
    int64_t tokens;
    double rested_s, sustained_s, slope;
} sizes[] = {{128, 0.0049, 0.0050, 0.12}, {512, 0.0106, 0.0122, 0}, {1024, 0.0209, 0.0241, 0}};
enum { SIZES = sizeof sizes / sizeof *sizes };
static const double TRAIN_S = 0.35, DECODE_S = 0.0043, DECODE_RATIO = 1.08;

static void put(struct test *t, struct journal *j, char kind, int train, bool prompt,
                int64_t tokens, double begin_s, double device_s)
{
    const double v[] = {train, prompt, (double)tokens, begin_s, device_s};
    assert_ok(journal_row(j, kind, v, 5, &t->e), t);
}

static void open_journal(struct test *t, const char *name, struct journal *j)
{
    assert_ok(journal_open(t->a, test_path(t, name), "key", 1, j, &t->e), t);
}

/* A train of a device whose clock falls as the model has it. */
struct train {
    struct test *t;
    struct journal *j;
    const struct power_cap *c;
    struct power_cap_state clock;
    char kind;
    int number, passes;
    double now_s;
};

/* Every seventh pass is disturbed. */
static void pass(struct train *r, const struct size *z)
{
    struct power_cap_factors f = {
        .rested = 1, .sustained = DECODE_RATIO, .target = -r->c->decode_below};
    if (z) {
        const double excess = z->sustained_s / z->rested_s - 1, slope = fmax(excess, z->slope);
        f.sustained = 1 + slope;
        f.target = excess / slope;
    }
    const double took = power_cap_run(r->c, &f, z ? z->rested_s : DECODE_S, 0, &r->clock);
    put(r->t, r->j, r->kind, r->number, z != NULL, z ? z->tokens : 4, r->now_s,
        r->passes++ % 7 == 6 ? 1.3 * took : took);
    r->now_s += took;
}

static void next_train(struct train *r, bool rested)
{
    if (rested)
        r->clock = power_cap_rested(r->c);
    r->number++;
    r->passes = 0;
    r->now_s = 0;
}

static void put_trains(struct test *t, struct journal *j, const struct power_cap *c)
{
    struct train r = {.t = t, .j = j, .c = c, .kind = 't'};
    for (int i = 0; i < SIZES; i++)
        for (next_train(&r, true); r.now_s < TRAIN_S;)
            pass(&r, &sizes[i]);
    for (next_train(&r, false); r.now_s < TRAIN_S;)
        pass(&r, NULL);
    r.kind = 'm';
    for (next_train(&r, true); r.now_s < 0.2;)
        pass(&r, &sizes[SIZES - 1]);
    for (int i = 0; i < 6; i++) {
        pass(&r, &sizes[i % 2]);
        pass(&r, &sizes[SIZES - 1]);
        pass(&r, &sizes[SIZES - 1]);
    }
    for (int decodes = 3; decodes <= 9; decodes += 6)
        for (next_train(&r, true); r.now_s < TRAIN_S;) {
            pass(&r, &sizes[SIZES - 1]);
            for (int i = 0; i < decodes; i++)
                pass(&r, NULL);
        }
    for (double rest_s = 0.01; rest_s < 0.05; rest_s += 0.03)
        for (next_train(&r, true); r.now_s < TRAIN_S; r.now_s += rest_s) {
            pass(&r, &sizes[SIZES - 1]);
            pass(&r, &sizes[SIZES - 1]);
            power_cap_rest(c, rest_s, &r.clock);
        }
}

static void trains_give_back_what_made_them(void **state)
{
    struct test *t = *state;
    static const struct power_cap made_with[] = {
        {.smoothing_s = 0.02, .control_s = 0.03, .decode_below = 0.1, .rest_below = 1.8},
        {.smoothing_s = 0.03, .control_s = 0.06, .decode_below = 0.3, .rest_below = 3}};
    for (int k = 0; k < 2; k++) {
        struct journal j;
        struct bundle_power_cap cap;
        open_journal(t, k ? "slow" : "quick", &j);
        put_trains(t, &j, &made_with[k]);
        assert_true(power_cap_fit(t->a, &j, &cap));
        assert_true(cap.held);
        assert_int_equal(cap.n_rows, SIZES);
        for (int i = 0; i < SIZES; i++) {
            const struct bundle_power_cap_row *row = &cap.rows[i];
            assert_int_equal(row->tokens, sizes[i].tokens);
            /* a pass that begins before the clock falls may end behind that */
            assert_near(row->rested_s / sizes[i].rested_s, 1, 0.01);
            assert_near(row->sustained_s / sizes[i].sustained_s, 1, 0.01);
            assert_true(row->rested_passes > 0 && row->sustained_passes > 2);
        }
        assert_near(cap.rows[0].behind_s / sizes[0].rested_s, 1.12, 0.015);
        assert_true(cap.rows[0].behind_passes == 3 && cap.rows[1].behind_passes == 3);
        assert_true(isnan(cap.rows[2].behind_s) && cap.rows[2].behind_passes == 0);
        /* the first 15 ms behind the prompts, of a clock that recovers from the first on */
        assert_true(cap.decode_ratio > 1.04 && cap.decode_ratio < DECODE_RATIO);
        assert_near(cap.smoothing_s / made_with[k].smoothing_s, 1, 0.15);
        assert_near(cap.control_s / made_with[k].control_s, 1, 0.15);
        assert_near(cap.decode_below / made_with[k].decode_below, 1, 0.2);
        assert_near(cap.rest_below / made_with[k].rest_below, 1, 0.2);
        journal_close(&j);
    }
}

static void a_clock_that_stays_is_said(void **state)
{
    struct test *t = *state;
    struct journal j;
    struct bundle_power_cap cap;
    open_journal(t, "flat", &j);
    assert_false(power_cap_fit(t->a, &j, &cap)); /* no trains */
    for (int i = 0; i < 100; i++)
        put(t, &j, 't', 0, true, 128, 0.0049 * i, i % 2 ? 0.0049 : 0.00493);
    put(t, &j, 't', 1, false, 4, 0, 0.0043);
    assert_true(power_cap_fit(t->a, &j, &cap));
    assert_false(cap.held);
    assert_int_equal(cap.n_rows, 1);
    assert_true(isnan(cap.smoothing_s) && isnan(cap.control_s) && isnan(cap.decode_ratio));
    assert_true(isnan(cap.decode_below) && isnan(cap.rest_below));
    journal_close(&j);
}

/* Prompts that wait for the host, now and then, and one that was slow to wake up. */
static void what_the_host_takes_is_left_out(void **state)
{
    struct test *t = *state;
    struct journal j;
    struct bundle_power_cap cap;
    open_journal(t, "host", &j);
    for (int i = 0; i < 100; i++)
        put(t, &j, 't', 0, true, 128, 0.003 * i, i % 3 ? 0.0015 : 0.0025);
    for (int i = 0; i < 60; i++)
        put(t, &j, 't', 1, true, 256, 0.0066 * i, i < 5 ? 0.009 : 0.0066);
    for (int i = 0; i < 40; i++)
        put(t, &j, 't', 2, true, 512, 0.0122 * i, i < 3 ? 0.0106 : 0.0122);
    assert_true(power_cap_fit(t->a, &j, &cap));
    assert_true(cap.held && cap.n_rows == 2);
    assert_int_equal(cap.rows[0].tokens, 256);
    assert_true(cap.rows[0].rested_s == 0.0066 && cap.rows[0].sustained_s == 0.0066);
    assert_int_equal(cap.rows[1].tokens, 512);
    journal_close(&j);
}

/* Prompts so long that none begins late in its train; no decodes. */
static void what_is_missing_is_left_out(void **state)
{
    struct test *t = *state;
    struct journal j;
    struct bundle_power_cap cap;
    open_journal(t, "few", &j);
    put(t, &j, 't', 0, true, 4096, 0, 0.1);
    assert_false(power_cap_fit(t->a, &j, &cap));
    put(t, &j, 't', 1, true, 512, 0, 0.010);
    put(t, &j, 't', 1, true, 512, 0.2, 0.012);
    assert_true(power_cap_fit(t->a, &j, &cap));
    assert_true(cap.held && cap.n_rows == 1 && cap.decode_ratio == 1);
    journal_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(trains_give_back_what_made_them), TEST(a_clock_that_stays_is_said),
        TEST(what_the_host_takes_is_left_out), TEST(what_is_missing_is_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
