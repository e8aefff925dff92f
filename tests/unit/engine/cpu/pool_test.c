#include "engine/cpu/pool.h"

#include <stdatomic.h>

#include "base/arena.h"
#include "base/rng.h"
#include "support/support.h"

enum { MOST = 500 };

struct job {
    int64_t input[MOST], output[MOST];
    int times[MOST];
    int threads;
    atomic_int bad;
};

static void square(void *ctx, int64_t item, int thread)
{
    struct job *j = ctx;
    if (thread < 0 || thread >= j->threads)
        atomic_fetch_add(&j->bad, 1);
    j->times[item]++; /* two threads on one item are a race: TSan sees it, and so does the count */
    j->output[item] = j->input[item] * j->input[item];
}

/* Jobs of any size in a row: every item once, inputs seen by the threads, outputs by the caller. */
static void stress(int threads, int jobs)
{
    struct err e = {0};
    struct pool *p;
    struct job *j = mem_alloc(sizeof *j);
    struct rng rng = rng_stream(3, "pool");
    assert_ok(pool_open(threads, &p, &e), &e);
    assert_int_equal(pool_threads(p), threads);
    j->threads = threads;
    for (int i = 0; i < jobs; i++) {
        const int64_t n = (int64_t)rng_below(&rng, i % 7 ? 20 : MOST + 1);
        for (int64_t k = 0; k < n; k++) {
            j->input[k] = i + k;
            j->times[k] = 0;
        }
        pool_run(p, n, square, j);
        for (int64_t k = 0; k < n; k++) {
            assert_int_equal(j->times[k], 1);
            assert_int_equal(j->output[k], (i + k) * (i + k));
        }
    }
    assert_int_equal(j->bad, 0);
    pool_close(&p);
    assert_null(p);
    pool_close(&p);
    mem_free(j);
}

static void test_stress(void **state)
{
    (void)state;
    stress(1, 200);
    stress(2, 5000);
    stress(3, 1000);
    stress(8, 300);
}

/* Threads that fell asleep come back. */
static void test_idle_between_jobs(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        stress(4, 3);
}

static void test_bad_counts(void **state)
{
    (void)state;
    struct err e = {0};
    struct pool *p;
    assert_int_equal(pool_open(-1, &p, &e), ST_USAGE);
    assert_cause(&e, "threads: -1 is not between 0 and 1024");
    assert_null(p);
    err_clear(&e);
    assert_int_equal(pool_open(1025, &p, &e), ST_USAGE);
    assert_cause(&e, "threads: 1025 is not between 0 and 1024");
}

static void test_all_cores(void **state)
{
    (void)state;
    struct err e = {0};
    struct pool *p;
    assert_ok(pool_open(0, &p, &e), &e);
    assert_true(pool_threads(p) >= 1);
    pool_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stress),
        cmocka_unit_test(test_idle_between_jobs),
        cmocka_unit_test(test_bad_counts),
        cmocka_unit_test(test_all_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
