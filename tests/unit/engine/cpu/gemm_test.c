#include "engine/cpu/gemm.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "support/support.h"

struct data {
    struct arena *a;
    int64_t m, k, rows, ldx;
    float *w, *bias, *x; /* [m, k], [m], [rows, ldx] */
};

static struct data data_new(int64_t m, int64_t k, int64_t rows)
{
    struct data d = {arena_new(), m, k, rows, gemm_ld(k), NULL, NULL, NULL};
    struct rng rng = rng_stream(5, "gemm");
    d.w = arena_array(d.a, float, m *k);
    d.bias = arena_array(d.a, float, m);
    d.x = arena_array(d.a, float, rows *d.ldx + KERNELS_SLACK);
    for (int64_t i = 0; i < m * k; i++)
        d.w[i] = (float)rng_normal(&rng);
    for (int64_t i = 0; i < m; i++)
        d.bias[i] = (float)rng_normal(&rng);
    for (int64_t i = 0; i < rows * d.ldx; i++)
        d.x[i] = (float)rng_normal(&rng);
    return d;
}

static struct matrix pack(struct data *d, const struct cpu_kernels *kn, bool bias)
{
    struct matrix w = {.m = d->m, .k = d->k};
    w.data = arena_array(d->a, float, gemm_data_floats(kn, d->m, d->k) + KERNELS_SLACK);
    for (int64_t j = 0; j < d->m; j++)
        gemm_put_row(kn, &w, j, d->w + j * d->k);
    if (bias) {
        w.bias = arena_array(d->a, float, gemm_bias_floats(kn, d->m));
        memcpy(w.bias, d->bias, (size_t)d->m * sizeof *w.bias);
    }
    return w;
}

static double expected(const struct data *d, int64_t r, int64_t j, bool bias)
{
    double sum = bias ? (double)d->bias[j] : 0;
    for (int64_t i = 0; i < d->k; i++)
        sum += (double)d->x[r * d->ldx + i] * (double)d->w[j * d->k + i];
    return sum;
}

static void check_product(const struct cpu_kernels *kn, struct pool *pool, int64_t m, int64_t k,
                          int64_t rows, bool bias)
{
    struct data d = data_new(m, k, rows);
    const struct matrix w = pack(&d, kn, bias);
    float *y = arena_array(d.a, float, rows *m + 1);
    float *one = arena_array(d.a, float, m);
    y[rows * m] = 12345;
    gemm_run(pool, kn, &w, rows, d.x, d.ldx, y);
    assert_true(y[rows * m] == 12345); /* nothing is written behind y */
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < m; j++)
            assert_near((double)y[r * m + j], expected(&d, r, j, bias),
                        2e-5 * sqrt((double)k) + 1e-5);
    for (int64_t r = 0; r < rows; r++) { /* a row alone has the same bits */
        gemm_run(pool, kn, &w, 1, d.x + r * d.ldx, d.ldx, one);
        assert_memory_equal(one, y + r * m, (size_t)m * sizeof *one);
    }
    arena_free(&d.a);
}

/* Odd sizes, every height of a tile, both ways of cutting the depth; each instruction set here. */
static void test_sizes(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {31, 7}, {32, 16}, {33, 48}, {100, 65}, {257, 129}};
    struct err e = {0};
    struct pool *pool;
    size_t n;
    const struct cpu_kernels *const *sets = kernels_usable(&n);
    assert_ok(pool_open(2, &pool, &e), &e);
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int64_t rows = 1; rows <= 30; rows++)
                check_product(sets[s], pool, sizes[i][0], sizes[i][1], rows, rows % 2);
        check_product(sets[s], pool, 130, 2500, 45, true);
        check_product(sets[s], pool, 96, 1024, 29, false);
    }
    pool_close(&pool);
}

/* Several matrices of one shape: the bits of each alone, whether few or many rows are theirs. */
static void check_groups(const struct cpu_kernels *kn, struct pool *pool, int64_t m, int64_t k,
                         int64_t most)
{
    enum { GROUPS = 5 };
    struct data d[GROUPS];
    struct matrix w[GROUPS];
    struct gemm_group groups[GROUPS];
    int64_t rows = 0;
    for (int i = 0; i < GROUPS; i++) {
        const int64_t own = 1 + i * most / GROUPS;
        d[i] = data_new(m, k, own);
        for (int64_t j = 0; j < m * k; j++)
            d[i].w[j] += (float)i;
        w[i] = pack(&d[i], kn, i % 2);
        groups[i] = (struct gemm_group){&w[i], rows, own};
        rows += own;
    }
    float *x = arena_array(d[0].a, float, rows *d[0].ldx + KERNELS_SLACK);
    float *y = arena_array(d[0].a, float, rows *m + 1), *want = arena_array(d[0].a, float, rows *m);
    for (int i = 0; i < GROUPS; i++)
        memcpy(x + groups[i].first * d[i].ldx, d[i].x, (size_t)(d[i].rows * d[i].ldx) * sizeof *x);
    y[rows * m] = 12345;
    gemm_run_groups(pool, kn, groups, GROUPS, x, d[0].ldx, y);
    assert_true(y[rows * m] == 12345);
    for (int i = 0; i < GROUPS; i++)
        gemm_run(pool, kn, &w[i], d[i].rows, x + groups[i].first * d[i].ldx, d[i].ldx,
                 want + groups[i].first * m);
    assert_memory_equal(y, want, (size_t)(rows * m) * sizeof *y);
    for (int i = GROUPS - 1; i >= 0; i--)
        arena_free(&d[i].a);
}

static void test_groups(void **state)
{
    (void)state;
    struct err e = {0};
    struct pool *pool;
    size_t n;
    const struct cpu_kernels *const *sets = kernels_usable(&n);
    assert_ok(pool_open(2, &pool, &e), &e);
    for (size_t s = 0; s < n; s++) {
        check_groups(sets[s], pool, 33, 7, 3);    /* on the caller */
        check_groups(sets[s], pool, 130, 65, 40); /* by the threads */
    }
    gemm_run_groups(pool, sets[0], NULL, 0, NULL, 0, NULL);
    pool_close(&pool);
}

static void test_rows_come_back(void **state)
{
    (void)state;
    size_t n;
    const struct cpu_kernels *const *sets = kernels_usable(&n);
    for (size_t s = 0; s < n; s++) {
        struct data d = data_new(37, 19, 1);
        const struct matrix w = pack(&d, sets[s], false);
        float row[19];
        for (int64_t j = 0; j < d.m; j++) {
            gemm_get_row(sets[s], &w, j, row);
            assert_memory_equal(row, d.w + j * d.k, sizeof row);
        }
        arena_free(&d.a);
    }
}

static void test_distance_of_rows(void **state)
{
    (void)state;
    assert_int_equal(gemm_ld(1), 32);
    assert_int_equal(gemm_ld(48), 64);
    assert_int_equal(gemm_ld(3072), 3088);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_rows_come_back),
        cmocka_unit_test(test_distance_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
