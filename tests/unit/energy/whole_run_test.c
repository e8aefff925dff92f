/* From idle to idle on the fake GPU, with a subject that only waits. */
#include "energy/whole_run.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

struct waiter {
    double whole_s, kernel_s;
    const char *file, *script; /* what the fake GPU's file holds meanwhile; NULL = as before */
    int64_t asked_runs;
    double asked_s;
    enum st st; /* what it returns */
};

/* Bytes of the file that the fake NVML writes: readings of its counter. */
static int64_t readings(void)
{
    struct stat st;
    return stat(getenv("FAKE_READINGS"), &st) == 0 ? st.st_size : 0;
}

/* So long, and until the recorder took some samples in that time. */
static struct timing_window wait_for(double s)
{
    enum { SOME = 8 };
    const int64_t from_ns = clock_wall_ns(), end = clock_mono_ns() + ns_from_s(s);
    const int64_t before = readings();
    while (clock_mono_ns() < end || readings() < before + 2 + SOME)
        clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS);
    return (struct timing_window){.from_ns = from_ns, .to_ns = clock_wall_ns(), .zoned = true};
}

static enum st wait_all(void *self, struct arena *a, const struct energy_wish *wish,
                        struct full_timing *full, struct isolated_timing *isolated, struct err *e)
{
    struct waiter *w = self;
    w->asked_runs = wish->runs;
    w->asked_s = wish->window_s;
    if (w->script)
        fake_gpu_change(w->file, w->script);
    if (w->st != ST_OK)
        return err_set(e, w->st, "the subject fails");
    *full = (struct full_timing){
        .window = wait_for(w->whole_s), .num_runs = 100, .inference_us = w->whole_s * 1e4};
    isolated->n = 2;
    isolated->kernels = arena_array(a, struct kernel_timing, 2);
    isolated->kernels[0] = (struct kernel_timing){.window = wait_for(w->kernel_s),
                                                  .name = "gemm",
                                                  .tier = 2,
                                                  .invocation_count = 1,
                                                  .benchmark_runs = 100,
                                                  .single_time_us = w->kernel_s * 1e4,
                                                  .in_context_us = w->whole_s * 1e4};
    isolated->kernels[1] = (struct kernel_timing){.name = "not run alone",
                                                  .tier = 3,
                                                  .invocation_count = 1,
                                                  .single_time_us = NAN,
                                                  .in_context_us = 0};
    return ST_OK;
}

static const struct energy_run_params params = {
    .interval_s = 0.002, .idle_s = 0.05, .wish = {.runs = 7, .window_s = 3}, .sampler = "auto"};

/* The counter is a tick and a reading late at each edge: so much of the power times that. */
static double late_j(const struct energy_run *r, double most_w)
{
    int64_t gap_ns = 0;
    for (size_t i = 1; i < r->log.n; i++)
        if (r->log.p[i].ns - r->log.p[i - 1].ns > gap_ns)
            gap_ns = r->log.p[i].ns - r->log.p[i - 1].ns;
    return most_w * 2 * (0.005 + ns_to_s(gap_ns));
}

/* 300 W all the time, idle or not, and a little more with each tick, up to 305 W: all follows from
 * the times. */
static void energy_is_power_times_time(void **state)
{
    struct test *t = *state;
    struct waiter w = {.whole_s = 0.2, .kernel_s = 0.1};
    const struct energy_subject s = {&w, false, wait_all};
    struct energy_run r;
    fake_gpu_play("memory=1;power_tick_ms=5");
    setenv("FAKE_POWER", "0:300 100:305", 1);
    setenv("FAKE_READINGS", test_path(t, "readings"), 1);
    assert_ok(energy_run(t->a, &params, &s, &r, &t->e), t);
    assert_int_equal(w.asked_runs, 7);
    assert_near(w.asked_s, 3, 0);
    const struct energy *whole = &r.report.full.energy;
    assert_near_rel(whole->joules, 300 * whole->duration_s, 0.02);
    assert_near(whole->counter_j, 302.5 * whole->duration_s,
                2.5 * whole->duration_s + late_j(&r, 305));
    assert_near_rel(r.report.full.energy_per_inference_j, whole->joules / 100, 1e-9);
    assert_near_rel(r.report.full.counter_energy_per_inference_j, whole->counter_j / 100, 1e-9);
    assert_near(r.report.kernels[0].power.mean_w, 300, 6);
    assert_int_equal(r.report.num_excluded, 1);
    assert_string_equal(r.report.kernels[1].name, "not run alone");
    assert_true(r.report.whole.known);
    assert_near_rel(r.report.whole.kernels_j, 300 * 0.002, 0.02);
    assert_near(r.report.idle_w, 300, 6);
    assert_true(r.log.n > 10 && r.counts.failed == 0);
    assert_true(r.under.samples > 0);
    assert_non_null(r.full.window.start);
    unsetenv("FAKE_POWER");
    unsetenv("FAKE_READINGS");
}

static void what_does_not_count_is_rejected(void **state)
{
    static const struct {
        const char *script;
        bool child;
        enum st st;
        const char *error;
    } rows[] = {
        {"memory=1;power_tick_ms=5;processes=1", false, ST_REJECTED,
         "1 other process computed on GPU 0 meanwhile: what they draw cannot be told apart\n"
         "hint: nvidia-smi lists them; measure when they have ended"},
        {"memory=1;power_tick_ms=5;processes=2", true, ST_REJECTED,
         "1 other process computed on GPU 0 meanwhile: what they draw cannot be told apart\n"
         "hint: nvidia-smi lists them; measure when they have ended"},
        {"memory=1;power_tick_ms=5;reasons=0x20", false, ST_REJECTED,
         "the clocks were held down: software thermal slowdown\n"
         "hint: let the GPU cool down and measure again"},
    };
    struct test *t = *state;
    const char *file = test_path(t, "script");
    setenv("FAKE_POWER", "0:300 100:305", 1);
    setenv("FAKE_READINGS", test_path(t, "readings"), 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct waiter w = {
            .whole_s = 0.3, .kernel_s = 0.01, .file = file, .script = rows[i].script};
        const struct energy_subject s = {&w, rows[i].child, wait_all};
        struct energy_run r;
        fake_gpu_play_file(file, "memory=1;power_tick_ms=5;reasons=0"); /* a row's comes later */
        err_clear(&t->e);
        assert_err(energy_run(t->a, &params, &s, &r, &t->e), rows[i].st, t, rows[i].error);
    }
    struct waiter w = {.st = ST_INPUT};
    const struct energy_subject s = {&w, false, wait_all};
    struct energy_run r;
    fake_gpu_play("memory=1;power_tick_ms=5");
    err_clear(&t->e);
    assert_err(energy_run(t->a, &params, &s, &r, &t->e), ST_INPUT, t, "the subject fails");
    unsetenv("FAKE_POWER");
    unsetenv("FAKE_READINGS");
    fake_gpu_play("");
}

/* Unless one is given, a probe comes first. What it finds is the machine's. */
static void a_window_is_what_the_sensor_needs(void **state)
{
    struct test *t = *state;
    struct waiter w = {.whole_s = 0.2, .kernel_s = 0.1};
    const struct energy_subject s = {&w, false, wait_all};
    struct energy_run_params p = params;
    struct energy_run r;
    p.wish.window_s = 0;
    p.probe_s = 0.2;
    p.percent = 2;
    fake_gpu_play("memory=1;power_tick_ms=5");
    setenv("FAKE_POWER", "0:300 1000:1300", 1);
    setenv("FAKE_READINGS", test_path(t, "readings"), 1);
    assert_ok(energy_run(t->a, &p, &s, &r, &t->e), t);
    assert_int_equal(
        r.window.from == ENERGY_WINDOW_PROBED || r.window.from == ENERGY_WINDOW_ASSUMED, 1);
    assert_near(w.asked_s, r.window.s, 0);
    assert_string_equal(r.window.sensor, "nvml_instant");
    assert_near(r.window.percent, 2, 0);
    unsetenv("FAKE_POWER");
    unsetenv("FAKE_READINGS");
}

static void windows_by_what_a_probe_says(void **state)
{
    struct probe p = {.n = 2, .percent = 1};
    struct energy_window w;
    (void)state;
    p.sensors[0] = (struct probe_sensor){.name = "nvml_counter", .window_s = NAN, .update_s = 0.1};
    p.sensors[1] = (struct probe_sensor){.name = "nvml_instant", .window_s = 1.5, .update_s = 0.1};
    w = energy_window_of(&p, "nvml_instant", false);
    assert_int_equal(w.from, ENERGY_WINDOW_PROBED);
    assert_near(w.s, 1.6, 1e-12); /* behind the first 0.1 s */
    assert_near(w.update_s, 0.1, 0);
    assert_near(energy_window_of(&p, "nvml_instant", true).s, 2.7, 1e-12);
    w = energy_window_of(&p, "nvml_counter", false); /* it does not say */
    assert_int_equal(w.from, ENERGY_WINDOW_ASSUMED);
    assert_near(w.s, ENERGY_WINDOW_S, 0);
    w = energy_window_of(&p, "rapl", false); /* none of a GPU's */
    assert_int_equal(w.from, ENERGY_WINDOW_ASSUMED);
    assert_true(isnan(w.update_s));
    assert_string_equal(energy_window_from_name(w.from), "assumed");
}

static void the_edges_of_a_long_window_are_left_out(void **state)
{
    struct full_timing f = {.window = {.from_ns = 0, .to_ns = 10 * NS_PER_S}, .num_runs = 1000};
    (void)state;
    energy_trim(&f); /* 10 ms a run: 20 and 10 of them */
    assert_int_equal(f.num_runs, 970);
    assert_int_equal(f.window.from_ns, 200 * NS_PER_MS);
    assert_int_equal(f.window.to_ns, 9900 * NS_PER_MS);
    f = (struct full_timing){.window = {.from_ns = 0, .to_ns = 2 * NS_PER_S}, .num_runs = 7};
    energy_trim(&f); /* 286 ms a run: one at each end */
    assert_int_equal(f.num_runs, 5);
    assert_near((double)f.window.from_ns / 1e9, 2.0 / 7, 1e-8);
    f = (struct full_timing){.window = {.from_ns = 0, .to_ns = NS_PER_S / 2}, .num_runs = 1000};
    energy_trim(&f); /* too short to lose anything */
    assert_int_equal(f.num_runs, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(energy_is_power_times_time),
        TEST(what_does_not_count_is_rejected),
        TEST(a_window_is_what_the_sensor_needs),
        TEST(windows_by_what_a_probe_says),
        TEST(the_edges_of_a_long_window_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
