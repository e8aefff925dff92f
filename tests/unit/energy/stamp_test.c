/* Times of power logs: what is one, and what it means. */
#include "energy/stamp.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "support/support.h"

/* 2026-11-21 16:30:05 as a clock on the wall counts; date -u -d ... +%s says so too. */
static const int64_t wall_s = 1795278605;

static void forms_of_one_time(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
        bool zoned;
    } rows[] = {
        {"2026-11-21 16:30:05.123", 123000000, false},
        {" 2026-11-21 16:30:05.123 ", 123000000, false},
        {"2026-11-21T16:30:05", 0, false},
        {"2026/11/21 16:30:05.123", 123000000, false},
        {"2026-11-21 16:30:05.000000001", 1, false},
        {"2026-11-21 16:30:05.5Z", 500000000, true},
        {"2026-11-21 18:30:05+02:00", 0, true},
        {"2026-11-21 13:00:05.25-0330", 250000000, true},
        {"2026-11-21 16:30:05,123", 123000000, false}, /* of Python's logging */
        {"2026-11-21 18:30:05+02", 0, true},
        {"2026-11-21 18:30:05.5 +0200", 500000000, true},
        {"2026-11-21 16:30:05 Z", 0, true},
        {"1795278605.5", 500000000, true},
        {"1795278605", 0, true},
        {"2026-11-21 16:30:05 UTC", 0, true},
        {"2026-11-21 16:30:05.25 +0000 UTC", 250000000, true},
        {"20261121 16:30:05", 0, false},     /* nvidia-smi dmon */
        {"11/21/2026 4:30:05 PM", 0, false}, /* Windows, en-US */
        {"11/21/2026 4:30:05.5\xe2\x80\xafpm", 500000000, false},
        {"2026-11-21 04:30:05 PM", 0, false},
        {"11/21/2026 16:30:05", 0, false},
        {"21/11/2026 16:30:05", 0, false},
        {"21.11.2026 16:30:05,5", 500000000, false},
        /* since 1970, by magnitude */
        {"1795278605123", 123000000, true},
        {"1795278605123.5", 123500000, true},
        {"1795278605123456", 123456000, true},
        {"1795278605123456789", 123456789, true},
        {"1795278605.123456789", 123456789, true},
        {"1.7952786055e9", 500000000, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stamp at;
        if (!stamp_parse(sv_of(rows[i].text), &at))
            fail_msg("'%s' is not taken", rows[i].text);
        assert_int_equal(at.ns, wall_s * NS_PER_S + rows[i].ns);
        assert_int_equal(at.zoned, rows[i].zoned);
    }
    struct stamp at;
    assert_true(stamp_parse(SV("1795278605.25"), &at));
    assert_int_equal(at.digits, 2);
    assert_true(stamp_parse(SV("1.795278605e9"), &at));
    assert_int_equal(at.digits, 0);
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "12.5",
        "0",
        "16:30:05",
        "2026-11-21",
        "2026-13-01 00:00:00",
        "2026-02-29 00:00:00",
        "2026-11-21 24:00:00",
        "2026-11-21 16:30",
        "2026-11-21 16:30:05.",
        "2026-11-21 16:30:05.1234567890",
        "2026-11-21 16:30:05 W",
        "2026-11-21 16:30:05+2",
        "2026-11-21 16:30:05+02:",
        "2026-11-21 16:30:05+02:5",
        "2026-11-21 16:30:05 ,5",
        "2026-11-21 16:30:05,",
        "2026/11-21 16:30:05",
        "1969-12-31 23:59:59",
        "2200-01-01 00:00:00",
        "1e300",
        "11/12/2026 16:30:05", /* the 11th or the 12th */
        "13/13/2026 16:30:05",
        "11/21/2026 0:30:05 PM",
        "11/21/2026 16:30:05 PM",
        "2026-11-21 16:30:05 CET",
        "12345678901", /* 2361 in seconds, April 1970 in milliseconds */
        "1795278605123456789012",
        "-1795278605",
        "nan",
    };
    struct stamp at;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (stamp_parse(sv_of(rows[i]), &at))
            fail_msg("'%s' is taken", rows[i]);
    assert_true(stamp_parse(sv_of("2028-02-29 23:59:60"), &at)); /* a leap day, a leap second */
}

static void a_unit_in_the_header_decides(void **state)
{
    struct stamp at;
    (void)state;
    assert_true(stamp_parse_unit(sv_of("1795278605123"), NS_PER_MS, &at));
    assert_int_equal(at.ns, wall_s * NS_PER_S + 123 * NS_PER_MS);
    assert_int_equal(at.digits, 3);
    assert_false(stamp_parse_unit(sv_of("1795278605123"), NS_PER_S, &at));
    assert_false(stamp_parse_unit(sv_of("1795278605"), NS_PER_MS, &at));
    /* nanoseconds since boot: without a unit they would be microseconds of 1974 */
    assert_false(stamp_parse_unit(sv_of("130000000000000"), 1, &at));
    assert_true(stamp_parse_unit(sv_of("2026-11-21 16:30:05.25"), NS_PER_MS, &at));
    assert_int_equal(at.digits, 2);
}

static void times_are_written_in_local_time_of_an_offset(void **state)
{
    char text[STAMP_MAX];
    struct stamp at;
    (void)state;
    stamp_text(wall_s * NS_PER_S + 123499999, 0, text);
    assert_string_equal(text, "2026-11-21 16:30:05.123");
    stamp_text(wall_s * NS_PER_S + 999600000, 3600, text);
    assert_string_equal(text, "2026-11-21 17:30:05.999");
    assert_true(stamp_parse(sv_of(text), &at));
    assert_int_equal(at.ns, (wall_s + 3600) * NS_PER_S + 999 * NS_PER_MS);
    assert_false(at.zoned);
}

/* Reading never asks for a zone; writing asks once, at the start. */
static void zones_of_the_machine_count_for_writing_alone(void **state)
{
    struct stamp before, after;
    (void)state;
    setenv("TZ", "EST5EDT,M3.2.0,M11.1.0", 1);
    tzset();
    assert_int_equal(stamp_utc_offset_s(wall_s * NS_PER_S), -5 * 3600);
    assert_int_equal(stamp_utc_offset_s((wall_s - 150 * 86400) * NS_PER_S), -4 * 3600);
    assert_true(stamp_parse(sv_of("2026-11-01 01:30:00"), &before)); /* which comes twice there */
    setenv("TZ", "UTC0", 1);
    tzset();
    assert_int_equal(stamp_utc_offset_s(wall_s * NS_PER_S), 0);
    assert_true(stamp_parse(sv_of("2026-11-01 01:30:00"), &after));
    assert_int_equal(before.ns, after.ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forms_of_one_time),
        TEST(what_is_no_time_is_refused),
        TEST(a_unit_in_the_header_decides),
        TEST(times_are_written_in_local_time_of_an_offset),
        TEST(zones_of_the_machine_count_for_writing_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
