/* Reports by hand: power in steps, a whole and its kernels. */
#include "energy/energy_report.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "support/support.h"
#include "text/json.h"

#define S NS_PER_S

/* From 10 s to 20 s the whole at 400 W; from 30 s a kernel at 500 W, from 40 s another at 300 W,
 * for 5 s each; else 100 W idle. A sample every 50 ms, +-1 W in turn. */
static double power_at(double s)
{
    return s >= 10 && s < 20 ? 400 : s >= 30 && s < 35 ? 500 : s >= 40 && s < 45 ? 300 : 100;
}

static struct power_log make_log(struct test *t)
{
    enum { N = 1200 };
    struct power_sample *p = arena_array(t->a, struct power_sample, N);
    for (int i = 0; i < N; i++)
        p[i] =
            (struct power_sample){(int64_t)i * S / 20, power_at(i / 20.0) + (i % 2 ? 1 : -1), NAN};
    return (struct power_log){.p = p, .n = N, .source = "power.csv", .what = "GPU 0"};
}

static struct timing_window window(double from_s, double to_s)
{
    return (struct timing_window){"a", "b", ns_from_s(from_s), ns_from_s(to_s), false};
}

static const struct timing_under unknown = {NAN, NAN, NAN, NULL};

/* 1,000 runs of 10 ms each: 8 ms of the first kernel, twice, 1.5 ms of the second, 0.5 ms gap. */
static struct full_timing make_full(void)
{
    return (struct full_timing){.window = window(10, 20),
                                .num_runs = 1000,
                                .inference_us = 10000,
                                .source = "full.json",
                                .under = unknown};
}

static struct kernel_timing a_kernel(const char *name, int64_t tier, int64_t count, int64_t runs,
                                     double single_us, double in_context_us,
                                     struct timing_window ran)
{
    return (struct kernel_timing){.window = ran,
                                  .name = name,
                                  .tier = tier,
                                  .invocation_count = count,
                                  .benchmark_runs = runs,
                                  .single_time_us = single_us,
                                  .in_context_us = in_context_us,
                                  .under = unknown,
                                  .busy_share = NAN,
                                  .as_launched_us = NAN,
                                  .application_us = NAN};
}

static struct kernel_timing *make_kernels(struct test *t)
{
    struct kernel_timing *k = arena_array(t->a, struct kernel_timing, 3);
    k[0] = a_kernel("gemm", 2, 2, 1200, 4000, 4000, window(30.1, 34.9));
    k[1] = a_kernel("softmax", 3, 1, 4800, 1000, 1500, window(40.1, 44.9));
    return k;
}

static void the_two_predictions_by_hand(void **state)
{
    struct test *t = *state;
    const struct power_log log = make_log(t);
    const struct full_timing full = make_full();
    const struct isolated_timing isolated = {
        .kernels = make_kernels(t), .n = 2, .source = "i.json"};
    const struct energy_inputs in = {
        .power = &log, .full = &full, .isolated = &isolated, .idle_w = 100, .idle_half_w = 2};
    struct energy_report r;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    /* 400 W for 10 s, but the sample at 20 s is idle already: half of a step, 300 W x 50 ms / 2. */
    assert_near(r.full.total_energy_j, 4000 - 7.5, 0.2);
    assert_near(r.full.energy_per_inference_j, 3.9925, 1e-3);
    assert_int_equal(r.full.energy.samples, 201);
    assert_near(r.full.high_j - r.full.low_j, 2 * 0.1 * 302 / 1000, 0.001); /* both edges */
    /* Windows: 500 W x 4.8 s / 1,200 x 2 + 300 W x 4.8 s / 4,800 = 4 + 0.3 J */
    assert_near(r.predicted_j, 4.3, 1e-3);
    assert_near(r.predicted_error_j, 4.3 - 3.9925, 2e-3);
    assert_near(r.predicted_error_percent, 7.70, 0.05);
    assert_near(r.ratio, 1.077, 1e-3);
    assert_int_equal(r.num_measured, 2);
    /* In context: 500 W x 8 ms + 300 W x 1.5 ms = 4 + 0.45 J, and 100 W x 0.5 ms of idle. */
    assert_near(r.in_context_j, 4.45, 1e-3);
    assert_true(r.whole.known && !r.app.known);
    assert_near(r.whole.gap_us, 500, 1e-9);
    assert_near(r.whole.idle_j, 0.05, 1e-9);
    assert_near(r.whole.energy_j, 4.5, 1e-3);
    assert_near(r.whole.error_percent, 100 * (4.5 / 3.9925 - 1), 0.05);
    assert_near(r.whole.above_idle_j, 3.5, 1e-3);
    assert_near(r.whole.above_idle_error_percent, 100 * (3.5 / 2.9925 - 1), 0.1);
    assert_true(r.whole.low_j < 4.5 && r.whole.high_j > 4.5);
    assert_true(r.whole.high_j - r.whole.low_j < 0.02);
    assert_string_equal(r.kernels[0].name, "gemm"); /* dearest first */
    assert_near(r.kernels[0].share_percent, 100 * 4 / 4.45, 0.1);
    assert_near(r.kernels[1].power.mean_w, 300, 0.5);
    assert_int_equal(r.n_notes, 0);
}

static void the_application_is_predicted_from_the_same_kernels(void **state)
{
    struct test *t = *state;
    struct power_log log = make_log(t), app_log = make_log(t);
    const struct full_timing full = make_full();
    /* 100 runs in 10 s of 100 ms: launch-bound; its power, in a log of its own, is 144.5 W. */
    const struct full_timing app = {
        .window = window(2, 8), .num_runs = 60, .inference_us = 100000, .source = "app.json"};
    const struct isolated_timing isolated = {
        .kernels = make_kernels(t), .n = 2, .source = "i.json"};
    struct power_sample *p = arena_array(t->a, struct power_sample, app_log.n);
    for (size_t i = 0; i < app_log.n; i++)
        p[i] = (struct power_sample){app_log.p[i].ns, 135.5, NAN};
    app_log.p = p;
    const struct energy_inputs in = {.power = &log,
                                     .full = &full,
                                     .isolated = &isolated,
                                     .application = &app,
                                     .application_power = &app_log,
                                     .idle_w = 100,
                                     .idle_half_w = NAN};
    struct energy_report r;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_true(r.has_application && r.app.known);
    assert_near(r.app.measured_j, 13.55, 1e-9);
    assert_near(r.app.gap_us, 90500, 1e-9);
    assert_near(r.app.energy_j, 4.45 + 9.05, 1e-3); /* not scaled to anything */
    assert_near(r.app.error_percent, 100 * (13.5 / 13.55 - 1), 0.01);
}

/* A kernel whose loop at 500 W has a tenth of sets, and a kind of sets whose own loop draws 300 W:
 * those 200 W above idle are not the kernel's. Without a power of sets they count as gap. */
static void sets_of_a_loop_are_not_charged_twice(void **state)
{
    struct test *t = *state;
    const struct power_log log = make_log(t);
    const struct full_timing full = make_full();
    struct kernel_timing *k = make_kernels(t);
    k[0].busy_share = 0.8;
    k[0].sets_share = 0.1;
    k[0].with_sets = 2;
    k[1].name = "Memset";
    k[1].tier = 1;
    k[1].faster_when_repeated = true;
    const struct isolated_timing isolated = {.kernels = k, .n = 2, .source = "i.json"};
    const struct energy_inputs in = {
        .power = &log, .full = &full, .isolated = &isolated, .idle_w = 100, .idle_half_w = NAN};
    struct energy_report r;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_near(r.kernels[0].running_power_w, 100 + (500 - 100 - 200 * 0.1) / 0.8, 0.5);
    assert_near(r.in_context_j, 575 * 0.008 + 300 * 0.0015, 5e-3);
    assert_near(r.whole.at_loop_j, 500 * 0.008 + 300 * 0.0015 + 0.05, 5e-3);
    assert_near(r.predicted_j, 4.3, 1e-3); /* the first prediction is the one before, and says so */
    assert_int_equal(r.n_notes, 2);
    assert_string_equal(r.notes[0], "1 of 2 kernels were repeated with the sets that belong to "
                                    "them: the sum of windows counts those sets twice");
    assert_string_equal(r.notes[1],
                        "1 of 2 kernels are so much faster when they are repeated that their power "
                        "may be that of other work: Memset");
    k[1].benchmark_runs = 0; /* the power of sets is unknown */
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    for (size_t i = 0; i < r.n; i++)
        if (r.kernels[i].timing == &k[0])
            assert_near(r.kernels[i].running_power_w, 100 + 400 / 0.8, 0.5);
}

/* A loop of which kernels run four fifths: 500 W there are 600 W while they run, above 100 W idle.
 * And the program's own idle power, 120 W in two windows at rest, is that of its gaps. */
static void gaps_of_a_loop_are_taken_at_idle_power(void **state)
{
    struct test *t = *state;
    const struct power_log log = make_log(t);
    struct power_log app_log = make_log(t);
    const struct full_timing full = make_full();
    struct timing_window rests[] = {window(1, 2), window(9, 10)};
    const struct full_timing app = {.window = window(2.5, 8.5),
                                    .num_runs = 60,
                                    .inference_us = 100000,
                                    .source = "app.json",
                                    .under = unknown,
                                    .idle = rests,
                                    .n_idle = 2};
    struct kernel_timing *k = make_kernels(t);
    const struct isolated_timing isolated = {.kernels = k, .n = 2, .source = "i.json"};
    struct power_sample *p = arena_array(t->a, struct power_sample, app_log.n);
    for (size_t i = 0; i < app_log.n; i++) {
        const double s = (double)app_log.p[i].ns / 1e9;
        p[i] = (struct power_sample){app_log.p[i].ns, s > 2.4 && s < 8.6 ? 155 : 120, NAN};
    }
    app_log.p = p;
    const struct energy_inputs in = {.power = &log,
                                     .full = &full,
                                     .isolated = &isolated,
                                     .application = &app,
                                     .application_power = &app_log,
                                     .idle_w = 100,
                                     .idle_half_w = 2};
    struct energy_report r;
    k[0].busy_share = 0.8;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_near(r.kernels[0].power.mean_w, 500, 0.5);
    assert_near(r.kernels[0].running_power_w, 600, 0.5);
    assert_near(r.kernels[1].running_power_w, 300, 0.5); /* its share is unknown */
    assert_near(r.in_context_j, 4.8 + 0.45, 1e-3);
    assert_near(r.busy_share, 0.8, 1e-9);
    assert_near(r.whole.energy_j, 5.25 + 0.05, 1e-3);
    assert_near(r.whole.at_loop_j, 4.45 + 0.05, 1e-3); /* as if the gaps were kernels too */
    assert_near(r.whole.at_loop_above_idle_error_percent, 100 * (3.5 / 2.9925 - 1), 0.1);
    /* Of the idle power's error 0.5 ms x 2 W are the gap's, and 2 ms x 2 W, less, the loops'. */
    assert_near(r.whole.high_j - r.whole.low_j,
                2 * hypot(0.003, r.in_context_high_j - r.in_context_j), 1e-6);
    assert_near(r.application.idle_w, 120, 1e-9);
    assert_near(r.app.idle_w, 120, 1e-9);
    assert_near(r.app.energy_j, 5.25 + 120 * 0.0905, 1e-3);
    assert_near(r.app.measured_above_idle_j, (155 - 120) * 0.1, 1e-3);
    /* more kernels' time than there is: they overlap */
    k[1].in_context_us = 3000;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_int_equal(r.n_notes, 1);
    assert_string_equal(r.notes[0], "the kernels' times sum to 110.0 % of a run of the whole: some "
                                    "overlap, and the overlap is charged twice");
}

static void kernels_without_power_are_excluded_and_counted(void **state)
{
    struct test *t = *state;
    const struct power_log log = make_log(t);
    const struct full_timing full = make_full();
    struct kernel_timing *k = make_kernels(t);
    struct isolated_timing isolated = {.kernels = k, .n = 3, .source = "i.json"};
    const struct energy_inputs in = {
        .power = &log, .full = &full, .isolated = &isolated, .idle_w = 100, .idle_half_w = NAN};
    struct energy_report r;
    /* 10 us between two samples, 0.5 % of the kernels' time; then a third of it. */
    k[2] = a_kernel("copy", 1, 1, 10, 50, 48, window(50.01, 50.02));
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_int_equal(r.num_excluded, 1);
    assert_near(r.predicted_j, 4.3, 1e-3);
    assert_near(r.in_context_j, 4.45 * (9500 + 48) / 9500, 1e-3); /* charged the mean power */
    assert_string_equal(r.notes[0],
                        "1 of 3 kernels have no sample of power in their window and are in no sum");
    assert_string_equal(r.notes[1],
                        "kernels without power take 0.50 % of the kernels' time and are "
                        "charged the mean power of the others");
    assert_string_equal(r.kernels[2].name, "copy");
    assert_string_equal(r.kernels[2].how, "excluded");
    k[2].in_context_us = 5000;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_true(isnan(r.in_context_j) && !r.whole.known);
    assert_string_equal(r.notes[1],
                        "no in-context energy: kernels without power take 34.5 % of the "
                        "kernels' time");
    /* One sample: the power there for all of the window. */
    k[2].window = window(50.01, 50.06);
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_int_equal(r.num_estimated, 1);
    assert_near(r.predicted_j, 4.3 + 101 * 0.05 / 10, 2e-3);
    /* Without the times in the whole there is no in-context energy. */
    k[2].in_context_us = NAN;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_true(isnan(r.in_context_j));
}

/* No kernel has a power: their energy is unknown, not 0. */
static void nothing_known_is_not_nothing(void **state)
{
    struct test *t = *state;
    const struct power_log log = make_log(t);
    const struct full_timing full = make_full();
    struct kernel_timing *k = make_kernels(t);
    const struct isolated_timing isolated = {.kernels = k, .n = 2, .source = "i.json"};
    const struct energy_inputs in = {
        .power = &log, .full = &full, .isolated = &isolated, .idle_w = 100, .idle_half_w = 2};
    struct energy_report r;
    struct buf text = {0};
    k[0].window = window(50.01, 50.02);
    k[1].window = window(50.03, 50.04);
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_int_equal(r.num_excluded, 2);
    assert_true(isnan(r.predicted_j) && isnan(r.ratio) && isnan(r.in_context_j));
    energy_report_text(t->a, &text, &r);
    assert_null(strstr(buf_str(&text), "nan"));
    assert_null(strstr(buf_str(&text), "windows sum"));
    buf_free(&text);
}

static void what_was_not_logged_is_rejected(void **state)
{
    struct test *t = *state;
    const struct power_log log = make_log(t);
    struct full_timing full = make_full();
    const struct energy_inputs in = {
        .power = &log, .full = &full, .idle_w = NAN, .idle_half_w = NAN};
    struct energy_report r;
    full.window = window(70, 80);
    assert_err(energy_report_make(t->a, &in, &r, &t->e), ST_REJECTED, t,
               "the energy of the whole\npower.csv has no sample of power from a to b\n"
               "hint: log power from before the run until after it, on a clock of the same zone; "
               "this log goes from 1970-01-01 00:00:00.000 to 1970-01-01 00:00:59.950");
    full.window = window(50, 70);
    err_clear(&t->e);
    assert_err(
        energy_report_make(t->a, &in, &r, &t->e), ST_REJECTED, t,
        "the energy of the whole\npower.csv has no power for 10.050 of the 20.000 s from a to b\n"
        "hint: log power from before the run until after it, on a clock of the same zone; "
        "this log goes from 1970-01-01 00:00:00.000 to 1970-01-01 00:00:59.950");
    const struct power_log none = {.source = "power.csv", .what = "GPU 0"}; /* of a dead sensor */
    const struct energy_inputs without = {
        .power = &none, .full = &full, .idle_w = NAN, .idle_half_w = NAN};
    err_clear(&t->e);
    assert_err(energy_report_make(t->a, &without, &r, &t->e), ST_REJECTED, t,
               "the energy of the whole\npower.csv has no sample of power from a to b\n"
               "hint: no reading of the sensor came: twinfer energy probe says which answer");
    full.window.zoned = true;
    err_clear(&t->e);
    assert_err(
        energy_report_make(t->a, &in, &r, &t->e), ST_INPUT, t,
        "the energy of the whole\nthe times of power.csv have no zone, those of full.json have "
        "one\n"
        "hint: a time without a zone is local time of where it was written: give both files a "
        "zone, or neither");
}

static void an_averaged_log_settles_longer_and_says_so(void **state)
{
    struct test *t = *state;
    struct power_log log = make_log(t);
    const struct full_timing full = make_full();
    const struct energy_inputs in = {
        .power = &log, .full = &full, .idle_w = NAN, .idle_half_w = NAN};
    struct energy_report r;
    log.averaged = true;
    log.missing = 4;
    log.cut = true;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_near(r.full.high_j - r.full.low_j, 2 * 302 * 1.0 / 1000,
                0.01); /* a second at each edge */
    assert_int_equal(r.n_notes, 3);
    assert_string_equal(r.notes[0],
                        "the power of power.csv is an average over the last second: windows "
                        "of a few seconds are smeared");
    assert_string_equal(r.notes[1], "power.csv: 4 rows without power were left out");
    assert_string_equal(r.notes[2], "power.csv: the last line has no end and was left out");
}

/* A pool: three kernels that ran in turn share a window, and its power. */
static void pooled_kernels_share_a_window(void **state)
{
    struct test *t = *state;
    const struct power_log log = make_log(t);
    const struct full_timing full = make_full();
    struct kernel_timing *k = make_kernels(t);
    k[2] = k[1];
    k[2].name = "norm";
    k[1].pooled = k[2].pooled = true;
    k[1].benchmark_runs = k[2].benchmark_runs = 2400; /* rounds of 2 ms */
    const struct isolated_timing isolated = {.kernels = k, .n = 3, .source = "i.json"};
    const struct energy_inputs in = {
        .power = &log, .full = &full, .isolated = &isolated, .idle_w = 100, .idle_half_w = NAN};
    struct energy_report r;
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_near(r.predicted_j, 4 + 300 * 0.002, 2e-3); /* their window's energy counts once */
    assert_near(r.in_context_j, 4 + 2 * 0.45, 2e-3);
    assert_true(isnan(r.kernels[1].energy_per_inference_j));
}

static void what_the_figures_rest_on_is_noted(void **state)
{
    struct test *t = *state;
    struct power_log log = make_log(t);
    struct full_timing full = make_full();
    struct kernel_timing *k = make_kernels(t);
    struct isolated_timing isolated = {
        .kernels = k, .n = 2, .source = "i.json", .in_context_from = "application"};
    const struct energy_inputs in = {
        .power = &log, .full = &full, .isolated = &isolated, .idle_w = 100, .idle_half_w = 2};
    struct energy_report r;
    full.under = (struct timing_under){1755, 3201, 50, ""};
    k[0].under = (struct timing_under){1700, 3201, 71, "power cap"};
    k[1].under = (struct timing_under){1740, 3201, 55, ""}; /* within 2 % */
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_int_equal(r.n_notes, 2);
    assert_string_equal(r.notes[0], "the times of the kernels inside the whole are those of the "
                                    "application, not of the replay");
    assert_string_equal(r.notes[1], "1 of 2 kernels, 84.2 % of the kernels' time, ran alone at "
                                    "other clocks than the whole: SM at 1700 to 1700 MHz, the "
                                    "whole at 1755 MHz");
    assert_string_equal(r.kernels[0].under.clock_limits, "power cap");
    assert_near(r.kernels[0].under.celsius_high, 71, 0);
}

/* Two samples, 0.05 s apart, are too few for an interval of a power. */
static void without_readings_there_is_no_interval(void **state)
{
    struct test *t = *state;
    const struct power_log log = make_log(t);
    const struct full_timing full = make_full();
    struct kernel_timing *k = make_kernels(t);
    const struct isolated_timing isolated = {.kernels = k, .n = 2, .source = "i.json"};
    const struct energy_inputs in = {
        .power = &log, .full = &full, .isolated = &isolated, .idle_w = 100, .idle_half_w = 2};
    struct energy_report r;
    k[1].window = window(42, 42.07);
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_true(r.whole.known && isnan(r.whole.low_j) && isnan(r.in_context_low_j));
    assert_near(r.in_context_j, 4.45, 0.01);
    assert_int_equal(r.n_notes, 1);
    assert_string_equal(r.notes[0], "the prediction has no interval: the powers of some kernels "
                                    "rest on fewer than three readings");
    k[1].in_context_us = 50; /* 0.6 % of the time: the others' intervals will do */
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    assert_true(isfinite(r.whole.low_j));
    assert_int_equal(r.n_notes, 0);
}

static void the_documents_are_as_they_were(void **state)
{
    struct test *t = *state;
    struct power_log log = make_log(t);
    const struct full_timing full = make_full();
    struct kernel_timing *k = make_kernels(t);
    k[2] = a_kernel("copy", 1, 1, 10, 50, 48, window(50.01, 50.02));
    const struct isolated_timing isolated = {.kernels = k, .n = 3, .source = "i.json"};
    k[0].busy_share = 0.9;
    k[0].under = (struct timing_under){1755, 3201, 50, ""};
    const struct energy_inputs in = {.power = &log,
                                     .full = &full,
                                     .isolated = &isolated,
                                     .application = &full,
                                     .idle_w = 100,
                                     .idle_half_w = 2};
    struct energy_report r;
    struct buf text = {0};
    assert_ok(energy_report_make(t->a, &in, &r, &t->e), t);
    json_write(&text, energy_report_node(t->a, &r), 2, true);
    assert_golden(t, "energy/gpu_energy_report.json", ((struct sv){text.p, text.n}));
    buf_clear(&text);
    energy_report_text(t->a, &text, &r);
    assert_golden(t, "energy/summary.txt", ((struct sv){text.p, text.n}));
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_two_predictions_by_hand),
        TEST(the_application_is_predicted_from_the_same_kernels),
        TEST(sets_of_a_loop_are_not_charged_twice),
        TEST(gaps_of_a_loop_are_taken_at_idle_power),
        TEST(kernels_without_power_are_excluded_and_counted),
        TEST(nothing_known_is_not_nothing),
        TEST(what_was_not_logged_is_rejected),
        TEST(an_averaged_log_settles_longer_and_says_so),
        TEST(pooled_kernels_share_a_window),
        TEST(what_the_figures_rest_on_is_noted),
        TEST(without_readings_there_is_no_interval),
        TEST(the_documents_are_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
