// What `twinfer doctor doctor.measure=true` runs on a GPU (roofs_gpu.c). No includes: NVRTC alone
// compiles it.
//
// Both streams move 16 bytes a thread and step, PER_THREAD steps in flight, a contiguous piece of
// memory a block: blocks * THREADS * PER_THREAD * 16 bytes in all.

#define THREADS    512
#define PER_THREAD 8

extern "C" __global__ void __launch_bounds__(THREADS) roof_read(const uint4 *in, unsigned *sums)
{
    const uint4 *p = in + (unsigned long long)blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
    uint4 v[PER_THREAD];
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w)
                     : "l"(p + i * THREADS));
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
        sum += v[i].x + v[i].y + v[i].z + v[i].w;
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    __shared__ unsigned of_warp[THREADS / 32];
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < THREADS / 32; i++)
            sum += of_warp[i];
        sums[blockIdx.x] = sum; // the host adds them up
    }
}

// Word i becomes i * factor.
extern "C" __global__ void __launch_bounds__(THREADS) roof_write(uint4 *out, unsigned factor)
{
    const unsigned long long first =
        (unsigned long long)blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        const unsigned long long at = first + i * THREADS;
        const unsigned word = (unsigned)at * 4 * factor;
        out[at] = make_uint4(word, word + factor, word + 2 * factor, word + 3 * factor);
    }
}

// Values of [-1, 1) in steps of 2^-7, exact in every type: type 0 float32, 1 float16, 2 bfloat16.
// n is at most gridDim.x * THREADS.
extern "C" __global__ void __launch_bounds__(THREADS)
    roof_random(void *out, unsigned long long n, unsigned seed, int type)
{
    const unsigned long long i = (unsigned long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    unsigned h = (unsigned)i * 0x9e3779b9u + seed;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    const float value = (float)(int)(h >> 24) / 128.0f - 1.0f;
    if (type == 0) {
        ((float *)out)[i] = value;
    } else if (type == 1) {
        unsigned short half;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
        ((unsigned short *)out)[i] = half;
    } else {
        ((unsigned short *)out)[i] = (unsigned short)(__float_as_uint(value) >> 16);
    }
}

extern "C" __global__ void roof_nothing(void) {}
