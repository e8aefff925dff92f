/* inject/room.c: how much memory may be taken, by the files of a machine. */
#include "inject/room.h"

#include "inject/facts.h"
#include "support/support.h"

size_t inject_facts_read(const char *path, char *out, size_t room)
{
    (void)path, (void)out, (void)room;
    return 0;
}

static void the_smaller_of_both(void **state)
{
    static const char info[] = "MemTotal:  2000 kB\nMemFree:  10 kB\nMemAvailable:    1000 kB\n";
    (void)state;
    assert_int_equal(inject_room_of(info, "", ""), 1000 * 1024);
    assert_int_equal(inject_room_of(info, "max\n", "5\n"), 1000 * 1024);
    assert_int_equal(inject_room_of(info, "500000\n", "100000\n"), 400000);
    assert_int_equal(inject_room_of(info, "5000", "6000"), 0);
    assert_int_equal(inject_room_of("", "9000", "1000"), 8000);
}

static void nothing_is_known(void **state)
{
    (void)state;
    assert_true(inject_room_of("", "", "") == UINT64_MAX);
    assert_true(inject_room_bytes() == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(the_smaller_of_both), TEST(nothing_is_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
