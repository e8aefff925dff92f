/* Clocks, power and their limits, from the fake NVML. */
#include "gpu/watch.h"

#include <math.h>

#include "base/clock.h"
#include "gpu/cuda.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static const char uuid[] = "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0";

static void conditions_are_those_since_the_last_look(void **state)
{
    struct gpu_watch *w;
    struct gpu_conditions c = {0};
    (void)state;
    fake_gpu_play("");
    gpu_watch_open(uuid, 1, &w);
    for (int i = 0; i < 10000 && c.samples < 2; i++) { /* a look takes one; the thread others */
        clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS);
        c = gpu_watch_take(w);
    }
    assert_true(c.samples >= 2);
    assert_near(c.sm_mhz, 1755, 0);
    assert_near(c.sm_mhz_low, 1755, 0);
    assert_near(c.memory_mhz, 3201, 0);
    assert_near(c.power_w, 650, 0);
    assert_near(c.celsius_high, 55, 0);
    assert_int_equal(c.reasons, NVML_REASON_POWER_CAP);
    fake_gpu_play("sm_mhz=1200;power_mw=300000;reasons=0x44");
    c.samples = 0;
    for (int i = 0; i < 10000 && (c.samples == 0 || c.sm_mhz > 1200 || c.power_w_high > 300 ||
                                  c.reasons == NVML_REASON_POWER_CAP);
         i++) /* the first looks may hold samples from before, or one taken in between */
        c = gpu_watch_take(w);
    assert_true(c.samples >= 1);
    assert_near(c.sm_mhz, 1200, 0);
    assert_near(c.power_w_high, 300, 0);
    assert_int_equal(c.reasons, NVML_REASON_POWER_CAP | NVML_REASON_HW_THERMAL);
    const struct gpu_limits l = gpu_watch_limits(w);
    assert_string_equal(l.driver, "580.00.01");
    assert_near(l.power_limit_w, 700, 0);
    assert_near(l.max_sm_mhz, 1980, 0);
    assert_int_equal(l.pcie_generation, 5);
    assert_int_equal(l.pcie_lanes, 16);
    assert_false(l.mig);
    gpu_watch_close(&w);
    assert_null(w);
    gpu_watch_close(&w);
}

static void older_gpus_have_the_averaged_power(void **state)
{
    struct gpu_watch *w;
    (void)state;
    fake_gpu_play("fail nvmlDeviceGetFieldValues 1+ 3;fail limit_mw 1+ 3;"
                  "fail nvmlDeviceGetCurrentClocksThrottleReasons 1+ 3");
    gpu_watch_open(uuid, 1000, &w);
    const struct gpu_conditions c = gpu_watch_take(w);
    assert_near(c.power_w, 650, 0);
    assert_int_equal(c.reasons, 0);
    assert_true(isnan(gpu_watch_limits(w).power_limit_w));
    gpu_watch_close(&w);
}

static void what_nvml_does_not_know_is_unknown(void **state)
{
    static const char *const scripts[] = {"fail nvmlInit_v2 1+ 9", ""};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct gpu_watch *w;
        fake_gpu_play(scripts[i]);
        gpu_watch_open(i ? "GPU-other" : uuid, 1, &w);
        const struct gpu_conditions c = gpu_watch_take(w);
        assert_int_equal(c.samples, 0);
        assert_true(isnan(c.sm_mhz) && isnan(c.power_w) && isnan(c.celsius_high));
        assert_true(isnan(gpu_watch_limits(w).power_limit_w));
        assert_int_equal(gpu_watch_limits(w).driver[0], 0);
        gpu_watch_close(&w);
    }
}

static void heat_and_hardware_reject_and_the_power_cap_does_not(void **state)
{
    struct test *t = *state;
    assert_false(gpu_reasons_reject(0));
    assert_false(
        gpu_reasons_reject(NVML_REASON_POWER_CAP | NVML_REASON_GPU_IDLE | NVML_REASON_SETTING));
    assert_true(gpu_reasons_reject(NVML_REASON_SW_THERMAL));
    assert_true(gpu_reasons_reject(NVML_REASON_HW_SLOWDOWN | NVML_REASON_POWER_CAP));
    assert_string_equal(gpu_reason_words(t->a, 0), "");
    assert_string_equal(gpu_reason_words(t->a, 0x44), "power cap, hardware thermal slowdown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(conditions_are_those_since_the_last_look),
        TEST(older_gpus_have_the_averaged_power),
        TEST(what_nvml_does_not_know_is_unknown),
        TEST(heat_and_hardware_reject_and_the_power_cap_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
