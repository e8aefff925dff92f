#include "support/support.h"

#include "base/clock.h"

static void dates(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {INT64_C(1795278605123456789), "2026-11-21T16:30:05.123Z"},
        {INT64_C(951782399999999999), "2000-02-28T23:59:59.999Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[CLOCK_ISO_MAX];
        clock_iso8601(cases[i].ns, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void seconds_are_rounded_to_nanoseconds(void **state)
{
    (void)state;
    assert_int_equal(ns_from_s(1.5), 1500000000);
    assert_int_equal(ns_from_s(-0.1e-9), 0);
    assert_int_equal(ns_from_s(0.5e-9), 1);
    assert_int_equal(ns_from_s(-0.5e-9), -1);
    assert_near(ns_to_s(1500000000), 1.5, 0);
}

static void the_monotonic_clock_sleeps(void **state)
{
    (void)state;
    int64_t until = clock_mono_ns() + 2 * NS_PER_MS;
    clock_sleep_until_ns(until);
    assert_true(clock_mono_ns() >= until);
    clock_sleep_until_ns(0);
    assert_true(clock_cpu_ns() > 0);
    assert_true(clock_wall_ns() > INT64_C(1600000000) * NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(dates),
        TEST(seconds_are_rounded_to_nanoseconds),
        TEST(the_monotonic_clock_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
