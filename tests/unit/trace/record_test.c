/* Where the recorder's library is found, and which ranges it takes. */
#include "trace/record.h"

#include "support/support.h"
#include "trace/settings.h"

static void the_guest_library_is_where_a_setting_says(void **state)
{
    struct test *t = *state;
    const char *path, *file = test_write(t, "sub/guest.so", "");
    assert_ok(trace_guest_library(t->a, test_path(t, "sub/../sub/guest.so"), &path, &t->e), t);
    assert_string_equal(path, file);
    assert_err(trace_guest_library(t->a, test_path(t, "other.so"), &path, &t->e), ST_DEVICE, t,
               "DIR/other.so is not there\n"
               "hint: trace.library names the guest library, libtwinfer_inject.so");
}

static void ranges_that_the_recorder_cannot_hold_are_refused(void **state)
{
    struct test *t = *state;
    char long_one[300];
    const char *many[TRACE_RANGES + 1];
    memset(long_one, 'x', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = 0;
    for (size_t i = 0; i < TRACE_RANGES + 1; i++)
        many[i] = "decode@*";
    struct trace_record r = {.ranges = {many, TRACE_RANGES}};
    assert_ok(trace_record_check(&r, &t->e), t);
    r.ranges.n++;
    assert_err(trace_record_check(&r, &t->e), ST_USAGE, t,
               "trace.range: 9 patterns; 8 is the most\n"
               "hint: one with * may stand for several");
    const char *const bad[] = {"", "@LLM", "two\nlines"};
    for (size_t i = 0; i < 3; i++) {
        r = (struct trace_record){.ranges = {&bad[i], 1}};
        err_clear(&t->e);
        assert_int_equal(trace_record_check(&r, &t->e), ST_USAGE);
        assert_string_equal(err_hint_text(&t->e),
                            "range@domain, or *@domain for all ranges of a domain");
    }
    const char *one = long_one;
    r = (struct trace_record){.ranges = {&one, 1}};
    err_clear(&t->e);
    assert_err(trace_record_check(&r, &t->e), ST_USAGE, t,
               "trace.range: a pattern of 299 bytes; 127 is the most");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(the_guest_library_is_where_a_setting_says),
                                       TEST(ranges_that_the_recorder_cannot_hold_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
