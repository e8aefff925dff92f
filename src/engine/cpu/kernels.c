#include "engine/cpu/kernels.h"

const struct cpu_kernels *const *kernels_usable(size_t *n)
{
#if defined(__x86_64__)
    static const struct cpu_kernels *const all[] = {&kernels_avx512, &kernels_avx2,
                                                    &kernels_portable};
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl");
    const size_t first = avx512 ? 0 : avx2 ? 1 : 2;
#else
    static const struct cpu_kernels *const all[] = {&kernels_portable};
    const size_t first = 0;
#endif
    *n = sizeof all / sizeof all[0] - first;
    return all + first;
}
