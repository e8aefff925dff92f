#include "base/cpu_cache.h"

#include <sys/stat.h>

#include "support/support.h"

/* One of the kernel's folders for a cache, with its three files. */
static void cache(struct test *t, int index, const char *level, const char *type, const char *size)
{
    const struct {
        const char *name, *text;
    } files[] = {{"level", level}, {"type", type}, {"size", size}};
    const char *dir = arena_printf(t->a, "devices/system/cpu/cpu0/cache/index%d", index);
    for (const char *at = dir; (at = strchr(at, '/')); at++)
        mkdir(test_path(t, arena_printf(t->a, "%.*s", (int)(at - dir), dir)), 0777);
    mkdir(test_path(t, dir), 0777);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        test_write(t, arena_printf(t->a, "%s/%s", dir, files[i].name),
                   arena_printf(t->a, "%s\n", files[i].text));
}

static void as_the_kernel_says(void **state)
{
    struct test *t = *state;
    const char *sys = test_path(t, "");
    assert_int_equal(cpu_cache_bytes_below(sys, 2), 0); /* it says nothing */
    cache(t, 0, "1", "Data", "32K");
    cache(t, 1, "2", "Instruction", "64K");
    cache(t, 2, "2", "Unified", "1024K");
    cache(t, 3, "3", "Unified", "480M");
    assert_int_equal(cpu_cache_bytes_below(sys, 2), 1 << 20);
    assert_int_equal(cpu_cache_bytes_below(sys, 3), 480 << 20);
    assert_int_equal(cpu_cache_bytes_below(sys, 4), 0);
    cache(t, 3, "3", "Unified", "much");
    assert_int_equal(cpu_cache_bytes_below(sys, 3), 0);
    assert_true(cpu_cache_bytes(3) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(as_the_kernel_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
