/* What a probe makes of a step of the load, by hand, and a probe of the fake GPU. */
#include "energy/probe.h"

#include <math.h>

#include "base/clock.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

enum { EVERY_MS = 10, N = 700 };

/* Power every 10 ms: 100 W, and 500 W from 2 s on, as a sensor shows it that averages over width_ms
 * and is updated every tick_ms, with a scatter of +-1 W. */
static struct power_log step(struct test *t, int width_ms, int tick_ms)
{
    struct power_sample *p = arena_array(t->a, struct power_sample, N);
    for (int i = 0; i < N; i++) {
        const int at_ms = i * EVERY_MS / tick_ms * tick_ms, since = at_ms - 2000;
        const double part = since <= 0 ? 0 : since >= width_ms ? 1 : (double)since / width_ms;
        const double scatter = at_ms / tick_ms % 2 ? 1 : -1;
        p[i] = (struct power_sample){(int64_t)i * EVERY_MS * NS_PER_MS, 100 + 400 * part + scatter,
                                     NAN};
    }
    return (struct power_log){.p = p, .n = N, .source = "x", .what = "GPU 0"};
}

static void the_ramp_of_an_average_is_as_wide_as_its_window(void **state)
{
    struct test *t = *state;
    const struct power_log average = step(t, 1000, 100), now = step(t, 1, 100);
    struct probe_step s = probe_step_of(&average, 0, 2 * NS_PER_S, 7 * NS_PER_S - 1);
    assert_near(s.base_w, 100, 1);
    assert_near(s.top_w, 500, 1);
    assert_near(s.averages_s, 1, 0.1);
    assert_near(s.lag_s, 0.5, 0.1);
    s = probe_step_of(&now, 0, 2 * NS_PER_S, 7 * NS_PER_S - 1);
    assert_true(s.averages_s < 0.02); /* below the update period: no average */
    assert_near(s.lag_s, 0.1, 0.02);
}

static void a_step_within_the_scatter_says_nothing(void **state)
{
    struct test *t = *state;
    struct power_log flat = step(t, 1, 100);
    const struct probe_step s = probe_step_of(&flat, 0, NS_PER_S, 19 * NS_PER_S / 10);
    assert_near(s.base_w, 100, 1);
    assert_true(isnan(s.averages_s) && isnan(s.lag_s));
}

static void the_window_follows_from_scatter_and_updates(void **state)
{
    struct power_mean p = {.mean_w = 500, .spread_w = 10}; /* 2 % of a reading */
    (void)state;
    /* 1 %: (1.96 x 2)^2 = 15.4 and a little more for Student: 18 updates. */
    assert_near(probe_window_s(&p, 0.1, 0, 1), 1.8, 0.11);
    assert_near(probe_window_s(&p, 0.1, 1, 1), 2.8, 0.11); /* an average comes into its own first */
    assert_near(probe_window_s(&p, 0.1, 0, 0.1), 154, 2);
    p.correlation = 0.5; /* three times as many are worth as much */
    assert_near(probe_window_s(&p, 0.1, 0, 0.1), 461, 6);
    p.spread_w = 0.1; /* ten at least */
    assert_near(probe_window_s(&p, 0.1, 0, 1), 1, 0.11);
    assert_true(isnan(probe_window_s(&p, NAN, 0, 1)));
    p.spread_w = NAN;
    assert_true(isnan(probe_window_s(&p, 0.1, 0, 1)));
}

/* Power that goes on rising, so that every tick of the sensors can be seen. */
static void a_board_is_probed(void **state)
{
    struct test *t = *state;
    const struct probe_params p = {.idle_s = 0.05, .load_s = 0.1, .learn_s = 1000, .percent = 1};
    struct probe out;
    struct buf text = {0};
    fake_gpu_play("memory=1;power_tick_ms=4;average_ms=40;fail power_mw 1+ 3");
    setenv("FAKE_POWER", "0:100 1000:1100", 1);
    assert_ok(probe_run(t->a, &p, &out, &t->e), t);
    assert_int_equal(out.n, 3);
    assert_string_equal(out.sensors[0].name, "nvml_counter");
    assert_null(out.sensors[0].missing);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(out.sensors[i].updates, 12);
        assert_true(out.sensors[i].update_s > 0);
    }
    assert_string_equal(out.sensors[2].missing, "nvmlDeviceGetPowerUsage: not supported by this "
                                                "GPU or in this container (3)");
    const double idle_w = out.sensors[1].idle_w; /* as read */
    assert_true(idle_w >= 100 && idle_w <= 1100);
    assert_true(out.idle_w == idle_w || out.idle_w == out.sensors[0].idle_w);
    assert_true(out.idle_under.samples > 0);
    probe_text(t->a, &text, &out);
    assert_non_null(
        strstr(buf_str(&text), "nvml_average does not answer: nvmlDeviceGetPowerUsage"));
    assert_null(strstr(buf_str(&text), "nan"));
    assert_non_null(node_path(probe_node(t->a, &out), "idle_under.celsius_high"));
    buf_free(&text);
    unsetenv("FAKE_POWER");
}

static void what_is_not_known_is_not_a_number(void **state)
{
    struct test *t = *state;
    const struct gpu_conditions none = {.sm_mhz = NAN, .celsius_high = NAN};
    const struct probe p = {.board = {.name = "X", .uuid = "GPU-1"},
                            .percent = 1,
                            .idle_w = 75,
                            .idle_low_w = NAN,
                            .idle_high_w = NAN,
                            .load_w = NAN,
                            .idle_under = none,
                            .load_under = none};
    const struct idle i = {.board = p.board,
                           .power_w = 75,
                           .low_w = NAN,
                           .high_w = NAN,
                           .spread_w = NAN,
                           .readings = 2,
                           .duration_s = 3,
                           .under = none};
    struct buf text = {0};
    probe_text(t->a, &text, &p);
    assert_non_null(strstr(buf_str(&text), "idle power, a context open: 75.0 W, at n/a MHz, n/a C\n"
                                           "under load: n/a W at n/a MHz, n/a C\n"));
    buf_clear(&text);
    idle_text(t->a, &text, &i);
    assert_string_equal(
        buf_str(&text),
        "GPU 0: X, no context of this program\n"
        "idle_power 75.00 W; 2 readings in 3.0 s, spread n/a W\n"
        "at n/a MHz, n/a C\n"
        "next: twinfer energy report idle_power=75.00 power=... full=... isolated=...\n");
    buf_free(&text);
}

static void a_probe_that_does_not_count_is_rejected(void **state)
{
    struct test *t = *state;
    const struct probe_params p = {.idle_s = 0.02, .load_s = 0.02, .learn_s = 1000, .percent = 1};
    struct probe out;
    fake_gpu_play("memory=1;processes=1");
    assert_err(probe_run(t->a, &p, &out, &t->e), ST_REJECTED, t,
               "1 other process is on GPU 0: what they draw cannot be told apart\n"
               "hint: nvidia-smi lists them; measure when they have ended");
    fake_gpu_play("memory=1;reasons=0x40;power_tick_ms=4");
    setenv("FAKE_POWER", "0:100 1000:1100", 1);
    err_clear(&t->e);
    assert_err(probe_run(t->a, &p, &out, &t->e), ST_REJECTED, t,
               "the clocks were held down: hardware thermal slowdown");
    unsetenv("FAKE_POWER");
}

static void idle_power_is_that_of_the_curve(void **state)
{
    struct test *t = *state;
    const struct idle_params p = {.duration_s = 0.1, .context = true, .sampler = "auto"};
    struct idle out;
    struct buf text = {0};
    fake_gpu_play("memory=1;power_tick_ms=4");
    setenv("FAKE_POWER", "0:126 1000:126", 1);
    assert_ok(idle_run(t->a, &p, &out, &t->e), t);
    assert_near(out.power_w, 126, 1e-9);
    assert_true(out.duration_s >= 0.1);
    assert_near(out.under.celsius_high, 55, 0);
    idle_text(t->a, &text, &out);
    assert_non_null(strstr(buf_str(&text), "idle_power "));
    buf_free(&text);
    fake_gpu_play("memory=1;processes=1");
    assert_int_equal(idle_run(t->a, &p, &out, &t->e), ST_REJECTED);
    unsetenv("FAKE_POWER");
    fake_gpu_play("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_ramp_of_an_average_is_as_wide_as_its_window),
        TEST(a_step_within_the_scatter_says_nothing),
        TEST(the_window_follows_from_scatter_and_updates),
        TEST(a_board_is_probed),
        TEST(what_is_not_known_is_not_a_number),
        TEST(a_probe_that_does_not_count_is_rejected),
        TEST(idle_power_is_that_of_the_curve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
