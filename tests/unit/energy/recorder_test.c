/* The recording thread, on the fake NVML. Its sensors tick every few ms here, not every 100. */
#include "energy/recorder.h"

#include <math.h>

#include "base/clock.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static const char uuid[] = "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0";

/* Waits for n more readings that begin from now on: a time alone would say nothing of how many a
 * busy machine takes in it. */
static void take(struct recorder *r, int64_t n)
{
    recorder_await(r, recorder_rounds(r) + 1 + n, NULL);
}

/* Until the counter was read behind the moment: a tick late, as it is seen. */
static void await_counter(struct test *t, struct recorder *r, int64_t ns)
{
    struct power_log now = {0};
    for (size_t n = 0; now.n == 0 || n == 0 || now.p[n - 1].ns <= ns;) {
        take(r, 1);
        recorder_so_far(t->a, r, "GPU 0", &now);
        for (n = now.n; n > 0 && isnan(now.p[n - 1].energy_j);)
            n--;
    }
}

static double longest_gap_s(const struct power_log *log)
{
    int64_t ns = 0;
    for (size_t i = 1; i < log->n; i++)
        if (log->p[i].ns - log->p[i - 1].ns > ns)
            ns = log->p[i].ns - log->p[i - 1].ns;
    return ns_to_s(ns);
}

static void samples_and_counter_agree_with_the_curve(void **state)
{
    enum { WATTS = 400 };
    struct test *t = *state;
    struct recorder *r;
    struct power_log log;
    struct recorder_params p = {.sampler = {.uuid = uuid}, .interval_s = 0.002};
    fake_gpu_play("power_tick_ms=4");
    setenv("FAKE_POWER", "0:400 1000:400", 1);
    assert_ok(recorder_pick(t->a, "auto", &p, &t->e), t);
    assert_true(p.power == &sampler_nvml_instant && p.energy == &sampler_nvml_counter);
    assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
    assert_string_equal(recorder_sensor(r, SAMPLER_ENERGY).ops->name, "nvml_counter");
    take(r, 3);
    const int64_t from_ns = recorder_now(r);
    take(r, 50);
    const int64_t to_ns = recorder_now(r);
    await_counter(t, r, to_ns);
    assert_ok(recorder_stop(r, &t->e), t);
    recorder_log(t->a, r, "GPU 0", &log);
    assert_true(log.zoned && log.n > 3);
    assert_int_equal(recorder_counts(r).failed, 0);
    for (size_t i = 1; i < log.n; i++)
        assert_true(log.p[i].ns >= log.p[i - 1].ns);
    const struct energy e = energy_of(&log, from_ns, to_ns);
    assert_true(e.samples >= 50);
    assert_near_rel(e.joules, WATTS * e.duration_s, 1e-9);
    /* At each edge the counter is a tick late, and as much as lies between two readings. */
    assert_near(e.counter_j, WATTS * e.duration_s, WATTS * 2 * (0.004 + longest_gap_s(&log)));
    recorder_close(&r);
    assert_null(r);
    recorder_close(&r);
    unsetenv("FAKE_POWER");
}

/* Until it has changed often enough, as long as learn_s is not over. */
static void the_update_period_is_learned(void **state)
{
    struct test *t = *state;
    struct recorder *r;
    const struct recorder_params p = {.energy = &sampler_nvml_counter,
                                      .sampler = {.uuid = uuid},
                                      .interval_s = 0.002,
                                      .learn_s = 1000};
    fake_gpu_play("power_tick_ms=4");
    setenv("FAKE_POWER", "0:400 1000:400", 1);
    assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
    const struct recorder_sensor counter = recorder_sensor(r, SAMPLER_ENERGY);
    assert_true(counter.ops == &sampler_nvml_counter);
    assert_int_equal(counter.updates, 12);
    assert_true(counter.update_s > 0 && counter.read_s >= 0);
    recorder_close(&r);
    unsetenv("FAKE_POWER");
}

/* Every ms for 1.2 s, each reading of 0.2 ms: value changes every 100 ms. */
static void the_update_period_is_the_median_of_what_is_seen(void **state)
{
    enum { N = 1200 };
    static struct recorder_reading v[N];
    (void)state;
    for (int i = 0; i < N; i++)
        v[i] = (struct recorder_reading){i * NS_PER_MS, i * NS_PER_MS + 200000, 7 + i / 100};
    struct recorder_sensor s = recorder_learn(v, N);
    assert_int_equal(s.updates, 10); /* 11 changes */
    assert_near(s.update_s, 0.1, 1e-9);
    assert_near(s.read_s, 0.0002, 1e-9);
    assert_null(s.ops);
    for (int i = 0; i < N; i++) /* a change that is not seen, failed readings */
        v[i].value = i / 100 == 5 ? 11 : i % 7 == 3 ? (double)NAN : 7 + i / 100;
    s = recorder_learn(v, N);
    assert_int_equal(s.updates, 9);
    assert_near(s.update_s, 0.1, 0.0011);
    s = recorder_learn(v, 399); /* three changes: two gaps */
    assert_int_equal(s.updates, 2);
    assert_true(isnan(s.update_s));
    s = recorder_learn(v, 0);
    assert_true(s.updates == 0 && isnan(s.update_s) && isnan(s.read_s));
}

static void a_lone_counter_gives_power_between_its_ticks(void **state)
{
    struct test *t = *state;
    struct recorder *r;
    struct power_log log = {0};
    const struct recorder_params p = {
        .energy = &sampler_nvml_counter, .sampler = {.uuid = uuid}, .interval_s = 0.001};
    double joules = 0;
    fake_gpu_play("power_tick_ms=4");
    setenv("FAKE_POWER", "0:500 1000:500", 1);
    assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
    while (log.n < 9) { /* five ticks */
        take(r, 1);
        recorder_so_far(t->a, r, "GPU 0", &log);
    }
    assert_ok(recorder_stop(r, &t->e), t);
    recorder_log(t->a, r, "GPU 0", &log);
    assert_true(log.n >= 9);
    int64_t first_ns = 0, last_ns = 0;
    for (size_t i = 0; i < log.n; i++) {
        if (isnan(log.p[i].energy_j)) {
            assert_true(log.p[i].power_w > 0);
            continue;
        }
        first_ns = first_ns ? first_ns : log.p[i].ns;
        last_ns = log.p[i].ns;
        joules = log.p[i].energy_j;
    }
    assert_true(joules > 1); /* its start */
    assert_true(last_ns > first_ns);
    recorder_close(&r);
    unsetenv("FAKE_POWER");
}

/* Slower than the counter ticks: every reading finds it moved on. */
static void a_counter_that_moved_at_every_reading(void **state)
{
    struct test *t = *state;
    struct recorder *r;
    struct power_log log;
    const struct recorder_params p = {
        .energy = &sampler_nvml_counter, .sampler = {.uuid = uuid}, .interval_s = 0.02};
    fake_gpu_play("power_tick_ms=1");
    setenv("FAKE_POWER", "0:500 1000:500", 1);
    assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
    take(r, 5);
    assert_ok(recorder_stop(r, &t->e), t);
    recorder_log(t->a, r, "GPU 0", &log);
    assert_true(log.n >= 3 && log.n % 2 == 1); /* a tick, then power and tick in turn */
    for (size_t i = 0; i < log.n; i++) {
        const struct power_sample *s = &log.p[i];
        assert_true(i == 0 || s->ns >= log.p[i - 1].ns);
        assert_true(i % 2 ? isnan(s->energy_j) && s->power_w > 0 : s->energy_j > 0);
    }
    recorder_close(&r);
    unsetenv("FAKE_POWER");
}

static void failing_readings_are_missing_and_counted(void **state)
{
    struct test *t = *state;
    struct recorder *r;
    struct power_log log;
    const struct recorder_params p = {
        .power = &sampler_nvml_instant, .sampler = {.uuid = uuid}, .interval_s = 0.001};
    fake_gpu_play("fail field_186 3 4;fail field_186 4 4");
    assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
    take(r, 6);
    assert_ok(recorder_stop(r, &t->e), t);
    recorder_log(t->a, r, "GPU 0", &log);
    assert_int_equal(recorder_counts(r).failed, 2);
    assert_int_equal(log.missing, 2);
    assert_int_equal(recorder_counts(r).samples, (int64_t)log.n);
    recorder_close(&r);
}

/* Who shares it among batches must not take a failed reading for no power. */
static void the_newest_power_outlives_a_failed_reading(void **state)
{
    struct test *t = *state;
    struct recorder *r;
    const struct recorder_params p = {
        .power = &sampler_nvml_instant, .sampler = {.uuid = uuid}, .interval_s = 0.001};
    fake_gpu_play("fail field_186 4+ 4");
    assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
    recorder_await(r, 6, NULL);
    assert_true(recorder_counts(r).failed > 0);
    assert_true(recorder_power_now(r) > 0);
    recorder_stop(r, &t->e);
    recorder_close(&r);
}

static void a_sensor_that_went_away_is_the_recordings_end(void **state)
{
    struct test *t = *state;
    struct recorder *r;
    const struct recorder_params p = {
        .power = &sampler_nvml_instant, .sampler = {.uuid = uuid}, .interval_s = 0.001};
    fake_gpu_play("fail field_186 2+ 15");
    assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
    assert_err(recorder_stop(r, &t->e), ST_DEVICE, t,
               "no reading of the sensors came\n"
               "nvmlDeviceGetFieldValues, field 186: the GPU is lost (15)\n"
               "hint: dmesg shows the driver's messages");
    recorder_close(&r);
}

static void work_has_a_sample_before_it_and_one_behind(void **state)
{
    struct test *t = *state;
    const struct recorder_params p = {
        .power = &sampler_fake, .sampler = {.curve = "0:5"}, .interval_s = 1000};
    for (int i = 0; i < 50; i++) {
        struct recorder *r;
        struct power_log log;
        assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
        if (i % 2)
            recorder_await(r, 1, NULL);
        const int64_t end_ns = recorder_now(r);
        assert_ok(recorder_stop(r, &t->e), t);
        recorder_log(t->a, r, "GPU 0", &log);
        assert_int_equal(log.n, 2);
        assert_true(log.p[1].ns >= end_ns);
        recorder_close(&r);
    }
}

static void recordings_have_a_limit(void **state)
{
    struct test *t = *state;
    struct recorder *r;
    const struct recorder_params p = {
        .power = &sampler_fake, .sampler = {.curve = "0:1"}, .most = 10}; /* as fast as it goes */
    assert_ok(recorder_open(t->a, &p, &r, &t->e), t);
    recorder_await(r, 10, NULL); /* and one more behind the stop */
    assert_err(recorder_stop(r, &t->e), ST_REJECTED, t,
               "more than 10 samples of power\nhint: a longer interval_s");
    recorder_close(&r);
}

static void sensors_are_picked_by_what_answers(void **state)
{
    struct test *t = *state;
    struct recorder_params p = {.sampler = {.uuid = uuid}};
    fake_gpu_play("fail field_186 1+ 3");
    assert_ok(recorder_pick(t->a, "auto", &p, &t->e), t);
    assert_true(p.power == &sampler_nvml_average && p.energy == &sampler_nvml_counter);
    fake_gpu_play("fail field_186 1+ 3;fail power_mw 1+ 3");
    assert_ok(recorder_pick(t->a, "auto", &p, &t->e), t);
    assert_true(!p.power && p.energy == &sampler_nvml_counter);
    assert_ok(recorder_pick(t->a, "nvml_average", &p, &t->e), t);
    assert_true(p.power == &sampler_nvml_average && !p.energy);
    fake_gpu_play("fail nvmlInit_v2 1+ 9");
    assert_err(recorder_pick(t->a, "auto", &p, &t->e), ST_DEVICE, t,
               "no sensor of the GPU answers\nnvmlInit: error 9");
    err_clear(&t->e);
    assert_err(recorder_pick(t->a, "nvml", &p, &t->e), ST_USAGE, t,
               "energy.sampler: there is no sampler 'nvml'\n"
               "hint: auto, or one of nvml_counter, nvml_instant, nvml_average, rapl, csv, fake");
    fake_gpu_play("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(samples_and_counter_agree_with_the_curve),
        TEST(the_update_period_is_learned),
        TEST(the_update_period_is_the_median_of_what_is_seen),
        TEST(a_lone_counter_gives_power_between_its_ticks),
        TEST(a_counter_that_moved_at_every_reading),
        TEST(failing_readings_are_missing_and_counted),
        TEST(the_newest_power_outlives_a_failed_reading),
        TEST(a_sensor_that_went_away_is_the_recordings_end),
        TEST(work_has_a_sample_before_it_and_one_behind),
        TEST(recordings_have_a_limit),
        TEST(sensors_are_picked_by_what_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
