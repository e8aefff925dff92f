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

// The same pieces over and over, of memory that fits into the L2: block b reads piece (b + round) %
// pieces, so that no SM meets the piece that it has just read.
extern "C" __global__ void __launch_bounds__(THREADS)
    roof_read_l2(const uint4 *in, unsigned *sums, unsigned pieces, unsigned rounds)
{
    unsigned sum = 0;
    for (unsigned round = 0; round < rounds; round++) {
        const unsigned piece = (blockIdx.x + round) % pieces;
        const uint4 *p = in + (unsigned long long)piece * THREADS * PER_THREAD + threadIdx.x;
        uint4 v[PER_THREAD];
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++)
            asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w)
                         : "l"(p + i * THREADS));
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++)
            sum += v[i].x + v[i].y + v[i].z + v[i].w;
    }
    atomicAdd(&sums[blockIdx.x], sum); // the host adds them up
}

// Fused multiply-adds without tensor cores: v = v / 2 + 1 ends at 2 in every type, whatever it began
// with. right[block] counts the threads whose values did.
#define LANES 16

template <typename T> static __device__ void multiply_add(unsigned *right, int rounds, T a, T b)
{
    T v[LANES]; // a and b are 1, which the compiler does not know
#pragma unroll
    for (int i = 0; i < LANES; i++)
        v[i] = (T)(i + threadIdx.x);
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int i = 0; i < LANES; i++)
            v[i] = fma(v[i], a * (T)0.5, b);
    bool all = true;
#pragma unroll
    for (int i = 0; i < LANES; i++)
        all = all && v[i] == (T)2;
    if (all)
        atomicAdd(&right[blockIdx.x], 1);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    roof_fma_f64(unsigned *right, int rounds, unsigned half, unsigned one)
{
    multiply_add<double>(right, rounds, half, one);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    roof_fma_f32(unsigned *right, int rounds, unsigned half, unsigned one)
{
    multiply_add<float>(right, rounds, (float)half, (float)one);
}

// Two halves a register: 0x3800 is 0.5, 0x3c00 is 1, 0x4000 is 2.
extern "C" __global__ void __launch_bounds__(THREADS)
    roof_fma_f16(unsigned *right, int rounds, unsigned half, unsigned one)
{
    const unsigned a = half * 0x38003800u, b = one * 0x3c003c00u;
    unsigned v[LANES];
#pragma unroll
    for (int i = 0; i < LANES; i++)
        v[i] = i % 2 ? 0x3c003800u : 0x40003c00u;
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int i = 0; i < LANES; i++)
            asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(v[i]) : "r"(a), "r"(b));
    bool all = true;
#pragma unroll
    for (int i = 0; i < LANES; i++)
        all = all && v[i] == 0x40004000u;
    if (all)
        atomicAdd(&right[blockIdx.x], 1);
}

extern "C" __global__ void roof_nothing(void) {}
