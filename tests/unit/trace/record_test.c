/* Where the recorder's library is found. */
#include "trace/record.h"

#include "support/support.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(the_guest_library_is_where_a_setting_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
