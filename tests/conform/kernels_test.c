/* The sources of the kernels, on the emulator of a GPU, against their twins: the same cases and the
 * same checks as `gpu_bench check` makes on a GPU, of those sizes that the emulator does in time.
 * Attention and the whole step have tests of their own. */
#include "support/gpu_emulator/check_row.h"

static void every_row_is_emulated(void **state)
{
    (void)state;
    for (int i = 0; i < CUDA_KERNELS; i++)
        for (int t = 0; t < CUDA_DTYPES; t++) {
            const struct cuda_kernel *k = &cuda_kernels[i];
            if (!(k->dtypes >> t & 1))
                continue;
            for (int head_dim = 64; head_dim <= 128; head_dim += 64)
                if (!emulator_entry(k->name, t, k->head_dim ? head_dim : 0))
                    fail_msg("%s_%s is not in tests/support/gpu_emulator/programs.cpp", k->name,
                             cuda_dtype_name((enum cuda_dtype)t));
        }
}

static void rows_over_tokens(void **state)
{
    static const char *const rows[] = {"embed", "norm", "act", "bias", "random", "fill"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(state, rows[i], H200_SMS, 2e5, strcmp(rows[i], "norm") == 0 ? 7 : 0);
}

static void rope(void **state)
{
    check_row(state, "rope", H200_SMS, 1e6, 11);
}

static void experts(void **state)
{
    check_row(state, "route", H200_SMS, 1e5, 3);
    check_row(state, "group", H200_SMS, 1e5, 2);
    check_row(state, "combine", H200_SMS, 3e5, 2);
    check_row(state, "experts_few", H200_SMS, 5e5, 7);
    check_row(state, "experts_many", H200_SMS, 1e6, 7);
}

static void products(void **state)
{
    for (int id = CUDA_MATMUL_ONE; id <= CUDA_MATMUL_SOME_GATED; id++)
        check_row(state, cuda_kernels[id].name, H200_SMS, 1e6,
                  id <= CUDA_MATMUL_ONE_GATED ? 11 : 61);
}

/* A block has several tiles, a warp several features. */
static void products_on_a_small_gpu(void **state)
{
    for (int id = CUDA_MATMUL_ONE; id <= CUDA_MATMUL_SOME_GATED; id++)
        check_row(state, cuda_kernels[id].name, 3, 1e6, id <= CUDA_MATMUL_ONE_GATED ? 5 : 23);
}

static void sampling(void **state)
{
    check_row(state, "argmax", H200_SMS, 2e6, 0);
    check_row(state, "sample", H200_SMS, 3e5, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_row_is_emulated),
        TEST(rows_over_tokens),
        TEST(rope),
        TEST(experts),
        TEST(products),
        TEST(products_on_a_small_gpu),
        TEST(sampling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
