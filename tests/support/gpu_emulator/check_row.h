/* Rows of src/engine/cuda/kernels.h on the emulator, by the cases of `gpu_bench check`: each case
 * in rising order with copies at once and in falling order with late ones, which must give the same
 * bytes, and those of the twin within the row's tolerance. */
#ifndef SUPPORT_GPU_EMULATOR_CHECK_ROW_H
#define SUPPORT_GPU_EMULATOR_CHECK_ROW_H

#include "engine/cuda/kernels.h"
#include "gpu/bench.h"
#include "support/gpu_emulator/gpu_emulator.h"
#include "support/support.h"

enum { H200_SMS = 132 };

/* One case in `every` of those whose floor is at most `most_bytes`; at least one of each dtype. */
static inline void check_row(void **state, const char *name, int sms, double most_bytes, int every)
{
    struct dev g = {.name = "emulator", .arch = 90, .sms = sms};
    (void)state;
    for (int t = 0; t < CUDA_DTYPES; t++) {
        const struct check_scope scope = {.only = name,
                                          .dtype = cuda_dtype_name((enum cuda_dtype)t),
                                          .every = every,
                                          .most_bytes = most_bytes};
        assert_int_equal(check_all(&g, &scope), 0);
    }
}

#endif
