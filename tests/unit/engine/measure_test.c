/* What the CPU engine's kernels reach, for roofs. */
#include <math.h>

#include "engine/engine.h"
#include "support/support.h"

static void every_pass_takes_its_time(void **state)
{
    struct test *t = *state;
    double s[4];
    for (int threads = 0; threads < 3; threads++) {
        memset(s, 0, sizeof s);
        assert_ok(cpu_measure_read(threads, 8 << 20, 3, s, &t->e), t);
        for (int i = 0; i < 3; i++)
            assert_true(s[i] > 1e-6 && s[i] < 60); /* 8 TB/s is not memory */
        assert_near(s[3], 0, 0);
        assert_ok(cpu_measure_gemm(threads, 16, 256, 3, s, &t->e), t);
        for (int i = 0; i < 3; i++)
            assert_true(s[i] > 1e-8 && s[i] < 60);
        assert_near(s[3], 0, 0);
    }
}

static void what_cannot_be_had_is_an_error(void **state)
{
    struct test *t = *state;
    double s[1];
    assert_int_equal(cpu_measure_read(1, (size_t)1 << 60, 1, s, &t->e), ST_USAGE);
    err_clear(&t->e);
    assert_int_equal(cpu_measure_gemm(1, 1, 1 << 24, 1, s, &t->e), ST_USAGE);
    err_clear(&t->e);
    assert_int_equal(cpu_measure_read(1 << 30, 1 << 20, 1, s, &t->e), ST_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_pass_takes_its_time),
        TEST(what_cannot_be_had_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
