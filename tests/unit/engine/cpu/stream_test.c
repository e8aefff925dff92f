#include "engine/cpu/stream.h"

#include "engine/cpu/pages.h"
#include "engine/engine.h"
#include "support/support.h"

static void test_bandwidth(void **state)
{
    (void)state;
    const double bytes_per_s = cpu_stream_bandwidth(2, 3000001, 3);
    assert_true(bytes_per_s > 1e6); /* a floppy disk is slower, memory is not */
    assert_true(cpu_stream_bandwidth(1, 0, 1) == 0);
    assert_true(cpu_stream_bandwidth(1, SIZE_MAX / 2, 1) == 0);
}

static void test_pages(void **state)
{
    (void)state;
    struct err e = {0};
    struct pages p = {0};
    assert_ok(pages_alloc(&p, 1000, "test", &e), &e);
    const float *f = p.base;
    for (int i = 0; i < 1000; i++)
        assert_true(f[i] == 0);
    pages_free(&p);
    pages_free(&p);
    assert_null(p.base);
    assert_int_equal(pages_alloc(&p, (size_t)1 << 58, "the test's memory", &e), ST_USAGE);
    assert_cause(&e, "the test's memory: the system refuses 1073741824.0 GiB of memory");
    assert_true(pages_available_bytes() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bandwidth),
        cmocka_unit_test(test_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
