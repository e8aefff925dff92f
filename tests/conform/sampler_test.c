/* Every row of the samplers: it opens or says why not, reads what its kind promises, and closes. */
#include "energy/sampler.h"

#include <math.h>

#include "base/clock.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static const char uuid[] = "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0";

/* What each needs to work in a test. */
static struct sampler_params params(struct test *t)
{
    test_write(t, "rapl/intel-rapl:0/energy_uj", "1500000\n");
    test_write(t, "rapl/intel-rapl:0/max_energy_range_uj", "2000000\n");
    test_write(t, "rapl/intel-rapl:0:0/energy_uj", "77\n"); /* a part of the package */
    test_write(t, "rapl/intel-rapl:1/energy_uj", "250000\n");
    test_write(t, "rapl/intel-rapl-mmio:0/energy_uj", "1500000\n");
    test_write(t, "power.csv", "time,sum\n1795278605,300\n1795278606,300\n");
    return (struct sampler_params){.uuid = uuid, .curve = "0:250 1000:250"};
}

static const char *path_of(struct test *t, const struct sampler_ops *ops)
{
    return ops == &sampler_rapl  ? test_path(t, "rapl")
           : ops == &sampler_csv ? test_path(t, "power.csv")
                                 : NULL;
}

static void every_sampler_reads(void **state)
{
    struct test *t = *state;
    struct sampler_params p = params(t);
    fake_gpu_play("power_tick_ms=5");
    setenv("FAKE_POWER", "0:400 1000:400", 1);
    for (int i = 0; samplers[i]; i++) {
        const struct sampler_ops *ops = samplers[i];
        void *self;
        double first = NAN, second = NAN;
        p.path = path_of(t, ops);
        assert_true(sampler_find(ops->name) == ops);
        assert_true(ops->what && ops->needs);
        assert_ok(ops->open(t->a, &p, &self, &t->e), t);
        assert_ok(ops->read(self, &first, &t->e), t);
        clock_sleep_until_ns(clock_mono_ns() + 10 * NS_PER_MS);
        assert_ok(ops->read(self, &second, &t->e), t);
        if (first < 0 || !isfinite(second) || (ops->kind == SAMPLER_ENERGY && second < first))
            fail_msg("%s: %g then %g", ops->name, first, second);
        if (ops->kind == SAMPLER_POWER)
            assert_true(first >= 250 && first <= 400);
        if (ops->close)
            ops->close(self);
    }
    unsetenv("FAKE_POWER");
}

static void what_is_not_there_is_a_device_error_with_its_call(void **state)
{
    static const struct {
        const struct sampler_ops *ops;
        const char *script, *error;
    } rows[] = {
        {&sampler_nvml_counter, "fail nvmlDeviceGetTotalEnergyConsumption 1+ 3",
         "nvmlDeviceGetTotalEnergyConsumption: not supported by this GPU or in this container (3)\n"
         "hint: energy.sampler= takes another one; twinfer energy probe says which answer"},
        {&sampler_nvml_counter, "fail nvmlDeviceGetTotalEnergyConsumption 1+ 4",
         "nvmlDeviceGetTotalEnergyConsumption: not permitted (4)\n"
         "hint: the container or user lacks the right: run as root, or ask for it"},
        {&sampler_nvml_instant, "fail field_186 1+ 4",
         "nvmlDeviceGetFieldValues, field 186: not permitted (4)\n"
         "hint: the container or user lacks the right: run as root, or ask for it"},
        {&sampler_nvml_instant, "fail nvmlDeviceGetFieldValues 1+ 15",
         "nvmlDeviceGetFieldValues, field 186: the GPU is lost (15)\n"
         "hint: dmesg shows the driver's messages"},
        {&sampler_nvml_average, "fail power_mw 1+ 999", "nvmlDeviceGetPowerUsage: error 999"},
        {&sampler_nvml_average, "fail nvmlInit_v2 1+ 9", "nvmlInit: error 9"},
    };
    struct test *t = *state;
    const struct sampler_params p = params(t);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *self;
        fake_gpu_play(rows[i].script);
        err_clear(&t->e);
        assert_err(rows[i].ops->open(t->a, &p, &self, &t->e), ST_DEVICE, t, rows[i].error);
    }
    struct sampler_params other = p;
    void *self;
    fake_gpu_play("");
    other.uuid = "GPU-other";
    err_clear(&t->e);
    assert_err(sampler_nvml_instant.open(t->a, &other, &self, &t->e), ST_DEVICE, t,
               "nvmlDeviceGetHandleByUUID: NVML does not know this GPU (6)");
}

static void rapl_adds_packages_and_counts_over_their_wrap(void **state)
{
    struct test *t = *state;
    struct sampler_params p = params(t);
    void *self;
    double j;
    p.path = test_path(t, "rapl");
    assert_ok(sampler_rapl.open(t->a, &p, &self, &t->e), t);
    assert_ok(sampler_rapl.read(self, &j, &t->e), t);
    assert_near(j, 1.75, 1e-12);
    test_write(t, "rapl/intel-rapl:0/energy_uj", "100000\n"); /* wrapped at 2 J */
    assert_ok(sampler_rapl.read(self, &j, &t->e), t);
    assert_near(j, 0.1 + 2 + 0.25, 1e-12);
    test_write(t, "rapl/intel-rapl:1/energy_uj", "x\n");
    assert_err(sampler_rapl.read(self, &j, &t->e), ST_DEVICE, t,
               "DIR/rapl/intel-rapl:1/energy_uj does not hold a number of microjoules");
    p.path = test_path(t, "nothing");
    err_clear(&t->e);
    assert_err(
        sampler_rapl.open(t->a, &p, &self, &t->e), ST_DEVICE, t,
        "DIR/nothing has no counter of a processor package\n"
        "hint: virtual machines and containers have none; the kernel module is intel_rapl_msr");
}

static void curves_are_linear_between_points_and_held_beyond(void **state)
{
    struct test *t = *state;
    struct power_curve c;
    assert_ok(power_curve_parse(t->a, " 0:100 1:100  1:300 3:500 ", &c, &t->e), t);
    assert_near(power_curve_at(&c, -1), 100, 0);
    assert_near(power_curve_at(&c, 0.99), 100, 1e-9);
    assert_near(power_curve_at(&c, 1), 300, 0); /* behind the step */
    assert_near(power_curve_at(&c, 2), 400, 1e-9);
    assert_near(power_curve_at(&c, 9), 500, 0);
    assert_err(power_curve_parse(t->a, "0:100 1", &c, &t->e), ST_USAGE, t,
               "'1' is no point of a curve\nhint: seconds and watts: \"0:100 1:100 1:300\"");
    err_clear(&t->e);
    assert_err(power_curve_parse(t->a, "1:100 0:1", &c, &t->e), ST_USAGE, t,
               "'0:1' comes before the point in front of it\n"
               "hint: seconds and watts: \"0:100 1:100 1:300\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_sampler_reads),
        TEST(what_is_not_there_is_a_device_error_with_its_call),
        TEST(rapl_adds_packages_and_counts_over_their_wrap),
        TEST(curves_are_linear_between_points_and_held_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
