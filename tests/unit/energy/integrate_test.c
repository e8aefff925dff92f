/* Energy of windows, by hand. */
#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "energy/power_log.h"
#include "support/support.h"

#define S NS_PER_S

static struct power_log log_of(const struct power_sample *p, size_t n)
{
    return (struct power_log){.p = p, .n = n, .source = "power.csv", .what = "GPU 0"};
}

/* Power 100 W at 0 s, 200 W at 1 s, 200 W at 2 s, 400 W at 3 s. */
static const struct power_sample ramp[] = {
    {0, 100, NAN}, {1 * S, 200, NAN}, {2 * S, 200, NAN}, {3 * S, 400, NAN}};

static void edges_are_interpolated_and_trapezoids_stand_between(void **state)
{
    const struct power_log log = log_of(ramp, 4);
    (void)state;
    /* 0.5 s: 150 W; 2.5 s: 300 W. (150 + 200) / 2 x 0.5 + 200 x 1 + (200 + 300) / 2 x 0.5 */
    struct energy e = energy_of(&log, S / 2, 5 * S / 2);
    assert_int_equal(e.how, ENERGY_TRAPEZOIDS);
    assert_near(e.joules, 87.5 + 200 + 125, 1e-9);
    assert_near(e.duration_s, 2, 1e-12);
    assert_int_equal(e.samples, 2);
    assert_near(e.low_w, 200, 0);
    assert_near(e.high_w, 200, 0);
    assert_near(e.outside_s, 0, 0);
    assert_near(e.longest_gap_s, 1, 1e-12);
    assert_true(isnan(e.counter_j));
    /* Edges on samples: nothing to interpolate. */
    e = energy_of(&log, 0, 3 * S);
    assert_near(e.joules, 150 + 200 + 300, 1e-9);
    assert_int_equal(e.samples, 4);
    assert_near(e.low_w, 100, 0);
    assert_near(e.high_w, 400, 0);
}

static void one_sample_counts_for_all_and_none_for_nothing(void **state)
{
    const struct power_log log = log_of(ramp, 4);
    struct energy e;
    (void)state;
    e = energy_of(&log, S / 2, 3 * S / 2); /* 200 W at 1 s is the only one */
    assert_int_equal(e.how, ENERGY_ONE_SAMPLE);
    assert_near(e.joules, 200, 1e-9);
    assert_int_equal(e.samples, 1);
    e = energy_of(&log, 11 * S / 10, 19 * S / 10); /* between two samples */
    assert_int_equal(e.how, ENERGY_EXCLUDED);
    assert_true(isnan(e.joules));
    assert_int_equal(e.samples, 0);
    assert_string_equal(energy_how_name(e.how), "excluded");
    e = energy_of(&log, S, S); /* an instant on a sample */
    assert_int_equal(e.how, ENERGY_ONE_SAMPLE);
    assert_near(e.joules, 0, 0);
}

/* Two logs joined, or a clock of whole seconds: rows of one time are one sample. */
static void rows_of_one_time_are_one_sample(void **state)
{
    static const struct power_sample p[] = {{0, 100, NAN},     {1 * S, 200, NAN},
                                            {1 * S, 200, NAN}, {2 * S, 200, NAN},
                                            {2 * S, 400, NAN}, {3 * S, 400, NAN}};
    const struct power_log log = log_of(p, 6);
    (void)state;
    struct energy e = energy_of(&log, S / 2, 3 * S / 2);
    assert_int_equal(e.how, ENERGY_ONE_SAMPLE);
    assert_int_equal(e.samples, 1);
    assert_near(e.joules, 200, 1e-9);
    e = energy_of(&log, 3 * S / 2, 5 * S / 2); /* both powers at 2 s */
    assert_int_equal(e.how, ENERGY_ONE_SAMPLE);
    assert_near(e.joules, 300, 1e-9);
    e = energy_of(&log, 0, 3 * S); /* it steps there */
    assert_int_equal(e.samples, 4);
    assert_near(e.joules, 150 + 200 + 400, 1e-9);
}

static void beyond_its_ends_the_log_is_held_and_said_to_be(void **state)
{
    const struct power_log log = log_of(ramp, 4);
    (void)state;
    struct energy e = energy_of(&log, 2 * S, 5 * S); /* 300 x 1 s, then 400 W for 2 s */
    assert_near(e.joules, 300 + 800, 1e-9);
    assert_near(e.outside_s, 2, 1e-12);
    e = energy_of(&log, 7 * S, 8 * S);
    assert_int_equal(e.how, ENERGY_EXCLUDED);
    assert_near(e.outside_s, 1, 1e-12);
}

static void samples_without_power_are_gaps(void **state)
{
    static const struct power_sample p[] = {
        {0, 100, NAN}, {1 * S, NAN, 5}, {2 * S, 300, NAN}, {3 * S, 300, NAN}};
    const struct power_log log = log_of(p, 4);
    (void)state;
    const struct energy e = energy_of(&log, 0, 3 * S);
    assert_near(e.joules, 400 + 300, 1e-9);
    assert_int_equal(e.samples, 3);
    assert_near(e.longest_gap_s, 2, 1e-12);
}

/* A counter that ticks every 100 ms beside power that was read late: 200 W throughout. */
static void the_counter_is_interpolated_between_its_ticks(void **state)
{
    static const struct power_sample p[] = {{0, 200, 1000},
                                            {S / 10, 200, 1020},
                                            {2 * S / 10, 200, 1040},
                                            {3 * S / 10, 200, 1060},
                                            {4 * S / 10, 200, 1100}};
    const struct power_log log = log_of(p, 5);
    (void)state;
    assert_near(energy_of(&log, 5 * S / 100, 25 * S / 100).counter_j, 40, 1e-9);
    assert_near(energy_of(&log, 25 * S / 100, 35 * S / 100).counter_j, 30, 1e-9);
    /* Not beyond what was read. */
    assert_true(isnan(energy_of(&log, 25 * S / 100, 45 * S / 100).counter_j));
    /* A counter that was reset says nothing. */
    static const struct power_sample reset[] = {{0, 1, 1000}, {S, 1, 3}};
    const struct power_log other = log_of(reset, 2);
    assert_true(isnan(energy_of(&other, 0, S).counter_j));
}

static void repeated_readings_of_the_counter_are_no_ticks(void **state)
{
    struct power_sample p[] = {{0, 1, 10}, {1, 1, 10},  {2, 1, 11},
                               {3, 1, 11}, {4, 1, NAN}, {5, 1, 11}};
    (void)state;
    power_log_ticks(p, 6);
    assert_near(p[0].energy_j, 10, 0);
    assert_true(isnan(p[1].energy_j));
    assert_near(p[2].energy_j, 11, 0);
    assert_true(isnan(p[3].energy_j) && isnan(p[4].energy_j) && isnan(p[5].energy_j));
}

static void mean_power_has_an_interval_from_its_scatter(void **state)
{
    /* 98, 102, 98, ...: mean 100, deviation 2.04 of 26 readings. */
    struct power_sample p[52];
    (void)state;
    for (int i = 0; i < 52; i++) /* every reading is seen twice: 26 readings */
        p[i] = (struct power_sample){i * S / 20, i / 2 % 2 ? 102 : 98, NAN};
    const struct power_log log = log_of(p, 52);
    const struct power_mean m = power_mean_of(&log, 0, 51 * S / 20);
    assert_int_equal(m.readings, 26);
    assert_near(m.mean_w, 100, 0.1);
    assert_near(m.spread_w, 2.0396, 1e-3);
    assert_near(m.correlation, 0, 0); /* they alternate: not taken as a gain */
    assert_near(m.half_w, 2.060 * 2.0396 / sqrt(26), 2e-3); /* Student, 25 degrees */
    const struct power_mean few = power_mean_of(&log, 0, S / 20);
    assert_near(few.mean_w, 98, 1e-9);
    assert_true(isnan(few.half_w));
}

/* Neighbours that are alike know less than they are many. */
static void correlated_readings_widen_the_interval(void **state)
{
    struct power_sample alone[2000], alike[2000];
    struct rng r = rng_stream(7, "power");
    double x = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        const double e = rng_normal(&r);
        x = 0.9 * x + sqrt(1 - 0.81) * e;
        alone[i] = (struct power_sample){i * S / 10, 500 + 10 * e, NAN};
        alike[i] = (struct power_sample){i * S / 10, 500 + 10 * x, NAN};
    }
    const struct power_log a = log_of(alone, 2000), b = log_of(alike, 2000);
    const struct power_mean ma = power_mean_of(&a, 0, 200 * S), mb = power_mean_of(&b, 0, 200 * S);
    assert_near(mb.correlation, 0.9, 0.05);
    assert_near(ma.half_w, 1.96 * 10 / sqrt(2000), 0.1);
    assert_near(mb.half_w / ma.half_w, sqrt(1.9 / 0.1), 1.5);
    assert_near(mb.mean_w, 500, mb.half_w);
}

/* Ticks that are seen late by up to 40 ms scatter in time, not in power. */
static void late_ticks_of_a_lone_counter_do_not_scatter(void **state)
{
    struct power_sample p[200];
    size_t n = 0;
    double joules = 0;
    (void)state;
    for (int i = 0, tick = 0; i < 125; i++) { /* a look every 40 ms, ticks every 100 ms */
        for (; (tick + 1) * 100 <= i * 40; tick++)
            joules += 30; /* 300 W */
        p[n++] = (struct power_sample){i * 40 * NS_PER_MS, NAN, joules};
    }
    power_log_ticks(p, n);
    const struct power_log log = log_of(p, n);
    const struct power_mean m = power_mean_of(&log, S / 2, 4 * S);
    assert_near(m.mean_w, 300, 4);
    assert_true(m.spread_w < 0.03 * 300);
    assert_true(m.readings > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(edges_are_interpolated_and_trapezoids_stand_between),
        TEST(one_sample_counts_for_all_and_none_for_nothing),
        TEST(rows_of_one_time_are_one_sample),
        TEST(beyond_its_ends_the_log_is_held_and_said_to_be),
        TEST(samples_without_power_are_gaps),
        TEST(the_counter_is_interpolated_between_its_ticks),
        TEST(repeated_readings_of_the_counter_are_no_ticks),
        TEST(mean_power_has_an_interval_from_its_scatter),
        TEST(correlated_readings_widen_the_interval),
        TEST(late_ticks_of_a_lone_counter_do_not_scatter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
