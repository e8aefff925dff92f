#include "support/gpu_emulator/faulty.h"

#include "support/gpu_emulator/device.hpp"

namespace
{
void hand_round(const faulty_args &a, bool wait, bool barrier)
{
    DYNAMIC_SHARED(uint4, shared);
    const u32 next = (threadIdx.x + 1) % blockDim.x;
    ptx_cp_async_16(shared_address(shared + threadIdx.x), a.in + 4 * threadIdx.x, 16);
    if (wait)
        ptx_cp_async_wait_all();
    if (barrier)
        __syncthreads();
    a.out[threadIdx.x] = shared[next].x;
    ptx_cp_async_wait_all();
}

const faulty_args &of(const void *args)
{
    return *static_cast<const faulty_args *>(args);
}
} // namespace

void faulty_none(const void *args)
{
    hand_round(of(args), true, true);
}

void faulty_barrier(const void *)
{
    if (threadIdx.x >= 32)
        __syncthreads();
}

void faulty_barrier_counts(const void *)
{
    ptx_bar_sync(3, threadIdx.x < 32 ? 64 : 32);
}

void faulty_lane_left(const void *args)
{
    if (threadIdx.x == 5)
        return;
    of(args).out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
}

void faulty_lanes_differ(const void *args)
{
    of(args).out[threadIdx.x] = threadIdx.x % 2 ? __ballot_sync(0xffffffffu, true)
                                                : __shfl_sync(0xffffffffu, threadIdx.x, 0);
}

void faulty_word(const void *args)
{
    while (ptx_ld_relaxed(of(args).word) != 1)
        ;
}

void faulty_race(const void *args)
{
    hand_round(of(args), true, false);
}

void faulty_wait(const void *args)
{
    hand_round(of(args), false, true);
}

void faulty_mbarrier(const void *)
{
    DYNAMIC_SHARED(u64, shared);
    ptx_mbarrier_arrive(shared_address(shared));
}

void faulty_shared(const void *args)
{
    DYNAMIC_SHARED(uint4, shared);
    ptx_cp_async_16(shared_address(shared + blockDim.x), of(args).in, 16);
}

void faulty_alignment(const void *args)
{
    DYNAMIC_SHARED(uint4, shared);
    ptx_cp_async_16(shared_address(shared), of(args).in + 1, 16);
}

void faulty_orders(const void *args)
{
    const faulty_args &a = of(args);
    const u32 me = threadIdx.x, n = blockDim.x, next = (me + 1) % n;
    DYNAMIC_SHARED(uint4, shared);
    __shared__ bool last;
    u32 *const words = (u32 *)shared;
    const u32 mbarrier = shared_address(shared + n), mine = shared_address(shared + me);
    if (me == 0)
        ptx_mbarrier_init(mbarrier, (int)n);
    ptx_cp_async_16(mine, a.in + 4 * me, 16);
    ptx_cp_async_wait_all();
    __syncthreads();
    u32 v = shared[next].x;
    ptx_bar_sync(3, (int)n); /* all have read */
    words[me] = v;
    __syncwarp();
    v += words[me ^ 1];
    ptx_mbarrier_arrive(mbarrier);
    while (!ptx_mbarrier_try_wait_parity(mbarrier, 0)) /* all have read again */
        ;
    ptx_cp_async_16(mine, a.in + 4 * me, 16);
    ptx_cp_async_mbarrier_arrive_noinc(mbarrier);
    while (!ptx_mbarrier_try_wait_parity(mbarrier, 1))
        ;
    a.out[blockIdx.x * n + me] = v + shared[next].x;
    __threadfence();
    __syncthreads();
    if (me == 0)
        last = atomicAdd(a.counter, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    u32 sum = 0;
    for (u32 i = 0; i < gridDim.x; i++)
        sum += a.out[i * n + next];
    a.sums[me] = sum;
}

void faulty_shuffle(const void *args)
{
    DYNAMIC_SHARED(u32, shared);
    shared[threadIdx.x] = threadIdx.x;
    __shfl_sync(0xffffffffu, threadIdx.x, 0);
    of(args).out[threadIdx.x] = shared[threadIdx.x ^ 1];
}

void faulty_blocks(const void *args)
{
    if (threadIdx.x == 0)
        of(args).out[0] = blockIdx.x;
}

void faulty_same(const void *args)
{
    if (threadIdx.x == 0)
        of(args).out[0] = 7;
}

void faulty_plain(const void *args)
{
    int *const counter = of(args).counter;
    if (threadIdx.x == 0)
        atomicAdd(counter, 1);
    else if (threadIdx.x == 32)
        *counter += 1;
}
