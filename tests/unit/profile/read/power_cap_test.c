#include "profile/read/power_cap.h"

#include <math.h>
#include <string.h>

#include "support/support.h"
#include "text/json.h"

#define TIMES \
    "\"smoothing_s\": 0.02, \"control_s\": 0.03, \"decode_below\": 0.1, \"rest_below\": 1.8, "

/* Prompts of 256 tokens and more hold the clock, of 128 hardly. None lasts until it falls. */
static const char good[] =
    "{\"power_cap\": {\"held\": true, " TIMES "\"decode_ratio\": 1.08, \"rows\": ["
    "{\"tokens\": 128, \"rested_s\": 0.005, \"sustained_s\": 0.0051},"
    "{\"tokens\": 256, \"rested_s\": 0.006, \"sustained_s\": 0.0069},"
    "{\"tokens\": 1024, \"rested_s\": 0.02, \"sustained_s\": 0.024}]}}";
static const double tables_s[] = {0.005, 0.0063, 0.022};

static enum st make(struct test *t, const char *text, const double *table_s,
                    const struct power_cap **out)
{
    struct node *map;
    struct bundle_meta meta;
    *out = NULL;
    assert_ok(json_load(t->a, test_write(t, "meta.json", text), NULL, &map, &t->e), t);
    TRY(fields_read(t->a, &bundle_meta_fields, map, &meta, &t->e));
    assert_true(meta.has_power_cap);
    return power_cap_make(t->a, node_find(map, "power_cap"), &meta.power_cap, table_s, out, &t->e);
}

static struct power_cap_factors at(const struct power_cap *c, int64_t tokens, double decode_share)
{
    const struct power_cap_batch b = {
        .tokens = tokens, .chunks = true, .decode_share = decode_share};
    return power_cap_factors(c, &b);
}

static void rows_take_the_place_of_the_tables(void **state)
{
    struct test *t = *state;
    const struct power_cap *c;
    assert_ok(make(t, good, tables_s, &c), t);
    assert_near(at(c, 256, 0).rested, 0.006 / 0.0063, 1e-12);
    assert_near(at(c, 256, 0).sustained, 0.0069 / 0.0063, 1e-12);
    assert_near(at(c, 256, 0).target, 1, 1e-12);
    assert_near(at(c, 512, 0).rested, (0.006 / 0.0063 + 0.02 / 0.022) / 2, 1e-12);
    /* the nearest size outside */
    assert_near(at(c, 4096, 0).sustained, 0.024 / 0.022, 1e-12);
    assert_near(at(c, 1, 0).rested, 1, 2e-3);
    /* a short one slows down as decodes do, and goes there a quarter of the way, from the start */
    assert_near(at(c, 128, 0).sustained / at(c, 128, 0).rested, 1.08, 1e-9);
    assert_near(at(c, 128, 0).target, 0.25, 0.02);
    /* decode attention in a batch of both */
    assert_near(at(c, 256, 0.25).sustained, 0.75 * 0.0069 / 0.0063 + 0.25 * 1.08, 1e-12);
    assert_near(at(c, 256, 0.25).target, 0.75 - 0.25 * 0.1, 1e-12);
    const struct power_cap_factors d =
        power_cap_factors(c, &(struct power_cap_batch){.tokens = 64, .decode_share = 0.5});
    assert_true(d.rested == 1 && d.sustained == 1.08 && d.target == -0.1);
}

/* Behind long prompts a short one takes a fifth longer, and by itself a twentieth; a long one is no
 * longer behind others than by itself. */
static void short_prompts_have_the_slope_measured_behind_long_ones(void **state)
{
    struct test *t = *state;
    const struct power_cap *c;
    assert_ok(make(t,
                   "{\"power_cap\": {\"held\": true, " TIMES
                   "\"decode_ratio\": 1.08, \"rows\": [{\"tokens\": 128, \"rested_s\": 0.005, "
                   "\"sustained_s\": 0.00525, \"behind_s\": 0.006, \"behind_passes\": 3}, "
                   "{\"tokens\": 512, \"rested_s\": 0.01, \"sustained_s\": 0.012, "
                   "\"behind_s\": 0.0119}]}}",
                   (double[]){0.005, 0.01}, &c),
              t);
    assert_near(at(c, 128, 0).sustained, 1.2, 1e-9);
    assert_near(at(c, 128, 0).target, 0.25, 0.02);
    assert_near(at(c, 512, 0).sustained, 1.2, 1e-12);
    assert_near(at(c, 512, 0).target, 1, 1e-12);
}

/* 40 ms of which the clock falls during the last ten: free, it would take less. */
static void a_prompt_after_rest_takes_its_rested_time(void **state)
{
    struct test *t = *state;
    const struct power_cap *c;
    assert_ok(make(t,
                   "{\"power_cap\": {\"held\": true, " TIMES
                   "\"decode_ratio\": 1.08, \"rows\": [{\"tokens\": 2048, \"rested_s\": 0.04, "
                   "\"sustained_s\": 0.048}]}}",
                   (double[]){0.042}, &c),
              t);
    struct power_cap_state clock = power_cap_rested(c);
    const struct power_cap_factors f = at(c, 2048, 0);
    assert_true(f.rested < 0.995 * 0.04 / 0.042 && f.rested > 0.95 * 0.04 / 0.042);
    assert_near(f.sustained, 0.048 / 0.042, 1e-12);
    assert_near(power_cap_run(c, &f, 0.042, 0, &clock), 0.04, 1e-6);
}

/* Rows of prompts that wait for their launches are none. */
static void what_launches_take_is_no_clock(void **state)
{
    struct test *t = *state;
    const struct power_cap *c;
    assert_ok(make(t, good, (double[]){0.0036, 0.0063, 0.022}, &c), t);
    assert_near(at(c, 128, 0).target, at(c, 256, 0).target, 0); /* as of the nearest size */
    assert_ok(make(t, good, (double[]){0.0036, 0.0045, 0.015}, &c), t);
    assert_null(c);
}

static const struct power_cap model = {
    .smoothing_s = 0.02, .control_s = 0.03, .decode_below = 0.1, .rest_below = 1.8};

/* Of small steps: the mean of a path is that of its pieces. */
static void check_path(struct power_cap_state from, double target, double seconds)
{
    enum { PIECES = 50 };
    struct power_cap_state whole = from;
    double sum = 0;
    for (int i = 0; i < PIECES; i++)
        sum += power_cap_move(&model, target, seconds / PIECES, &from) / PIECES;
    assert_near(sum, power_cap_move(&model, target, seconds, &whole), 0.01);
    assert_near(from.held, whole.held, 0.01);
    assert_near(from.excess, whole.excess, 0.02);
}

static double held_after(struct power_cap_state s, double target, double seconds)
{
    (void)power_cap_move(&model, target, seconds, &s);
    return s.held;
}

static void the_state_goes_to_its_target(void **state)
{
    (void)state;
    const struct power_cap_state rested = power_cap_rested(&model), down = {.held = 1};
    assert_near(held_after(rested, 1, 10), 1, 1e-9);
    assert_near(held_after(rested, 0.4, 10), 0.4, 1e-3);
    assert_near(held_after(down, -model.decode_below, 10), 0, 0);
    assert_true(held_after(down, 1, 0) == 1);
    assert_near(power_cap_move(&model, 1, 0.05, &(struct power_cap_state){.held = 1}), 1, 1e-12);
    /* the whole of a long time at once, and other times that are far apart */
    assert_near(power_cap_move(&model, 0.4, 1e9, &(struct power_cap_state){.held = 1}), 0.4, 1e-3);
    const struct power_cap odd = {.smoothing_s = 1e-4, .control_s = 100};
    struct power_cap_state s = {.held = 0.5};
    assert_true(isfinite(power_cap_move(&odd, 1, 1e9, &s)) && s.held >= 0 && s.held <= 1);
    check_path(rested, 1, 0.07);
    check_path(down, -model.decode_below, 0.07);
    check_path((struct power_cap_state){.held = 0.5, .excess = 0.2}, 0.3, 0.2);
}

/* Seconds until prompts have the clock a tenth down. */
static double until_it_falls(struct power_cap_state s)
{
    double at = 0;
    for (; s.held < 0.1; at += 1e-3)
        (void)power_cap_move(&model, 1, 1e-3, &s);
    return at;
}

/* By hand, from rest: the smoothed draw reaches the limit after 0.02 x ln(2.8) = 21 ms. */
static void a_board_may_exceed_its_limit_for_longer_behind_rest_than_behind_decodes(void **state)
{
    (void)state;
    struct power_cap_state s = power_cap_rested(&model), rests = {.held = 1}, decodes = {.held = 1};
    (void)power_cap_move(&model, 1, 0.02, &s);
    assert_true(s.held == 0 && s.excess < 0);
    (void)power_cap_move(&model, 1, 0.002, &s);
    assert_true(s.excess > 0);
    power_cap_rest(&model, 0.03, &rests);
    (void)power_cap_move(&model, -model.decode_below, 0.03, &decodes);
    assert_true(rests.held == 0 && decodes.held > 0.01);
    (void)power_cap_move(&model, -model.decode_below, 1, &decodes);
    assert_true(until_it_falls(rests) > 1.5 * until_it_falls(decodes));
    assert_near(until_it_falls(power_cap_rested(&model)), 0.031, 0.003);
}

static void a_batch_takes_what_its_own_end_allows(void **state)
{
    struct test *t = *state;
    const struct power_cap *c;
    assert_ok(make(t, good, tables_s, &c), t);
    const struct power_cap_factors f = at(c, 1024, 0);
    struct power_cap_state clock = power_cap_rested(c), before;
    double s = 0;
    for (int i = 0; i < 40; i++) {
        before = clock;
        s = power_cap_run(c, &f, 0.022, 0.001, &clock);
        const double mean = power_cap_move(c, 1, s, &before);
        assert_near(s, 0.001 + 0.022 * (f.rested + (f.sustained - f.rested) * mean), 1e-8);
        assert_near(clock.held, before.held, 1e-12);
    }
    assert_near(s, 0.001 + 0.024, 1e-6); /* prompts alone end where they were measured to */
    const struct power_cap_factors little = at(c, 128, 0);
    clock = power_cap_rested(c);
    for (int i = 0; i < 200; i++)
        s = power_cap_run(c, &little, 0.005, 0, &clock);
    assert_near(s, 0.0051, 1e-6);
    /* far longer than both times: no oscillation */
    clock = power_cap_rested(c);
    s = power_cap_run(c, &f, 22, 0, &clock);
    assert_near(s, 24, 0.03);
}

static void a_clock_that_does_not_fall_is_none(void **state)
{
    struct test *t = *state;
    const struct power_cap *c;
    assert_ok(make(t,
                   "{\"power_cap\": {\"held\": false, \"smoothing_s\": null, \"decode_ratio\": "
                   "null, \"rows\": [{\"tokens\": 20, \"rested_s\": 1, \"sustained_s\": 1}]}}",
                   tables_s, &c),
              t);
    assert_null(c);
}

static void refused(struct test *t, const char *numbers, const char *rows, const double *table_s,
                    const char *text)
{
    const struct power_cap *c;
    const char *json =
        arena_printf(t->a, "{\"power_cap\": {\"held\": true, %s, \"rows\": [%s]}}", numbers, rows);
    assert_int_equal(make(t, json, table_s, &c), ST_INPUT);
    assert_null(c);
    const char *said = strstr(err_cause(&t->e, 0), "meta.json:1:"); /* with its place */
    assert_non_null(said);
    said = strstr(said, ": ");
    assert_string_equal(said ? said + 2 : "", text);
    err_clear(&t->e);
}

static void bad_rows_are_named(void **state)
{
    struct test *t = *state;
    static const char numbers[] = TIMES "\"decode_ratio\": 1.08";
    static const char row[] = "{\"tokens\": 256, \"rested_s\": 1, \"sustained_s\": 2}";
    refused(t, "\"decode_ratio\": 1.08", row, tables_s,
            "power_cap: where held is true, smoothing_s, control_s, decode_below, rest_below and "
            "decode_ratio are numbers");
    refused(t, "\"control_s\": 0, \"decode_ratio\": 1", row, tables_s,
            "power_cap.control_s: 0 is below the minimum 0.0001");
    refused(t, TIMES "\"decode_ratio\": 0.5", row, tables_s,
            "power_cap.decode_ratio: 0.5 is below the minimum 1");
    refused(t, numbers, "", tables_s, "power_cap.rows: expected 1 to 64");
    refused(t, numbers, arena_printf(t->a, "%s, %s", row, row), tables_s,
            "power_cap.rows: tokens must ascend");
    refused(t, numbers, "{\"tokens\": 256, \"rested_s\": 0, \"sustained_s\": 2}", tables_s,
            "power_cap.rows[0].rested_s: 0 is below the minimum 1e-09");
    refused(t, numbers, "{\"tokens\": 256, \"rested_s\": 2, \"sustained_s\": 2}", tables_s,
            "power_cap.rows: held is true, but no sustained_s is above rested_s");
    refused(t, numbers, row, (double[]){0},
            "power_cap.rows: the tables have no time of such a prompt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_take_the_place_of_the_tables),
        TEST(short_prompts_have_the_slope_measured_behind_long_ones),
        TEST(a_prompt_after_rest_takes_its_rested_time),
        TEST(what_launches_take_is_no_clock),
        TEST(the_state_goes_to_its_target),
        TEST(a_board_may_exceed_its_limit_for_longer_behind_rest_than_behind_decodes),
        TEST(a_batch_takes_what_its_own_end_allows),
        TEST(a_clock_that_does_not_fall_is_none),
        TEST(bad_rows_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
