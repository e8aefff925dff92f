/* What NVRTC declares and kernels/ptx.cu defines, for the host's compiler. Read by programs.cpp in
 * front of the sources; gpu_emulator.h says what is modelled. */
#pragma once
#include <math.h>
#include <string.h>

#include "support/gpu_emulator/gpu_emulator.h"

#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define threadIdx                  (emulator_place->thread)
#define blockIdx                   (emulator_place->block)
#define blockDim                   (emulator_place->block_dim)
#define gridDim                    (emulator_place->grid_dim)
#define DYNAMIC_SHARED(type, name) type *const name = (type *)emulator_shared()

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct alignas(8) uint2 {
    u32 x, y;
};
struct alignas(16) uint4 {
    u32 x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

/* Where a function is called, as its last parameter. */
#define SOURCE emulator_source at = {__builtin_FILE(), __builtin_LINE()}

namespace
{

/* ---- functions of CUDA ---- */

inline uint2 make_uint2(u32 x, u32 y)
{
    return {x, y};
}
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w)
{
    return {x, y, z, w};
}
inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

template <class To, class From> inline To same_bits(From v)
{
    static_assert(sizeof(To) >= sizeof(From), "bits are lost");
    To r = {};
    memcpy(&r, &v, sizeof v);
    return r;
}
inline float __int_as_float(int v)
{
    return same_bits<float>(v);
}
inline float __uint_as_float(u32 v)
{
    return same_bits<float>(v);
}
inline u32 __float_as_uint(float v)
{
    return same_bits<u32>(v);
}

inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __fdividef(float a, float b) /* 0 for divisors from 2^126 on, as documented */
{
    return fabsf(b) > 0x1p126f && fabsf(b) <= 0x1.fffffep127f ? a * 0 : a / b;
}
inline float __expf(float x)
{
    return expf(x);
}
inline u64 __umul64hi(u64 a, u64 b)
{
    return (u64)((unsigned __int128)a * b >> 64);
}
inline int __ffs(u32 v)
{
    return __builtin_ffs((int)v);
}
inline u32 __byte_perm(u32 a, u32 b, u32 selector)
{
    const u64 both = (u64)b << 32 | a;
    u32 r = 0;
    for (int i = 0; i < 4; i++)
        r |= (u32)(both >> (selector >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
    return r;
}

inline void __syncthreads(SOURCE)
{
    emulator_barrier(0, emulator_block_threads(), at);
}
inline void __threadfence(SOURCE)
{
    emulator_fence(at);
}
template <class T> inline T __ldcg(const T *p)
{
    return *p;
}
template <class T> inline T atomicAdd(T *p, T v)
{
    return (T)emulator_atomic(EMULATOR_ADD, p, sizeof v, (u64)v);
}
inline u32 atomicAdd(u32 *p, int v)
{
    return atomicAdd(p, (u32)v);
}
inline u64 atomicMax(u64 *p, u64 v)
{
    return emulator_atomic(EMULATOR_MAX, p, sizeof v, v);
}
inline u64 atomicExch(u64 *p, u64 v)
{
    return emulator_atomic(EMULATOR_EXCHANGE, p, sizeof v, v);
}

inline void __syncwarp(SOURCE)
{
    emulator_lane l = {};
    l.at = at;
    emulator_warp(EMULATOR_SYNCWARP, 0xffffffffu, &l);
}
template <class T> inline T shuffle(u32 mask, T v, int source)
{
    emulator_lane l = {};
    l.value = same_bits<u64>(v);
    l.source = source;
    emulator_warp(EMULATOR_SHUFFLE, mask, &l);
    memcpy(&v, &l.result, sizeof v);
    return v;
}
template <class T> inline T __shfl_sync(u32 mask, T v, int lane)
{
    return shuffle(mask, v, lane & 31);
}
template <class T> inline T __shfl_xor_sync(u32 mask, T v, int bits)
{
    return shuffle(mask, v, emulator_lane_id() ^ bits);
}
template <class T> inline T __shfl_up_sync(u32 mask, T v, int by)
{
    const int from = emulator_lane_id() - by;
    return shuffle(mask, v, from < 0 ? from + by : from);
}
template <class T> inline T __shfl_down_sync(u32 mask, T v, int by)
{
    const int from = emulator_lane_id() + by;
    return shuffle(mask, v, from > 31 ? from - by : from);
}
inline u32 __ballot_sync(u32 mask, bool v)
{
    emulator_lane l = {};
    l.value = v;
    emulator_warp(EMULATOR_BALLOT, mask, &l);
    return (u32)l.result;
}

/* ---- kernels/ptx.cu ---- */

inline u32 shared_address(const void *p)
{
    return emulator_shared_address(p);
}
inline float ptx_cvt_f32_f16(u16 v)
{
    return emulator_f32_of_f16(v);
}
inline u16 ptx_cvt_rn_f16_f32(float v)
{
    return emulator_f16_of_f32(v);
}
inline u16 ptx_cvt_rn_bf16_f32(float v)
{
    return emulator_bf16_of_f32(v);
}
inline u32 ptx_cvt_rn_f16x2_f32(float hi, float lo)
{
    return (u32)emulator_f16_of_f32(hi) << 16 | emulator_f16_of_f32(lo);
}
inline u32 ptx_cvt_rn_bf16x2_f32(float hi, float lo)
{
    return (u32)emulator_bf16_of_f32(hi) << 16 | emulator_bf16_of_f32(lo);
}
inline float flushed(float v) /* .ftz */
{
    return fabsf(v) < 0x1p-126f ? copysignf(0, v) : v;
}
inline float ptx_ex2(float x)
{
    return flushed(exp2f(flushed(x)));
}
inline float ptx_lg2(float x)
{
    return flushed(log2f(flushed(x)));
}
inline float ptx_rsqrt(float x)
{
    return 1 / sqrtf(flushed(x));
}

inline void mma_as(emulator_op op, float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    emulator_lane l;
    l.d = d;
    l.a[0] = a0, l.a[1] = a1, l.a[2] = a2, l.a[3] = a3;
    l.b[0] = b0, l.b[1] = b1;
    emulator_warp(op, 0xffffffffu, &l);
}
inline void ptx_mma_f16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    mma_as(EMULATOR_MMA_F16, d, a0, a1, a2, a3, b0, b1);
}
inline void ptx_mma_bf16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    mma_as(EMULATOR_MMA_BF16, d, a0, a1, a2, a3, b0, b1);
}
inline void ldmatrix_as(emulator_op op, u32 (&r)[4], u32 at)
{
    emulator_lane l;
    l.row = emulator_shared_at(at, 16, 16);
    l.out = r;
    emulator_warp(op, 0xffffffffu, &l);
}
inline void ptx_ldmatrix_x4(u32 (&r)[4], u32 at)
{
    ldmatrix_as(EMULATOR_LDMATRIX, r, at);
}
inline void ptx_ldmatrix_x4_trans(u32 (&r)[4], u32 at)
{
    ldmatrix_as(EMULATOR_LDMATRIX_TRANS, r, at);
}
inline u32 ptx_movmatrix_trans(u32 v)
{
    emulator_lane l;
    l.value = v;
    emulator_warp(EMULATOR_MOVMATRIX, 0xffffffffu, &l);
    return (u32)l.result;
}

inline uint4 ptx_ld_nc_256B_v4(const void *p)
{
    return *(const uint4 *)emulator_aligned(p, 16);
}
inline uint4 ptx_ld_256B_v4(const void *p)
{
    return *(const uint4 *)emulator_aligned(p, 16);
}
inline uint4 ptx_ld_nc_v4(const void *p)
{
    return *(const uint4 *)emulator_aligned(p, 16);
}
inline uint4 ptx_ld_no_allocate_v4(const void *p)
{
    return *(const uint4 *)emulator_aligned(p, 16);
}
inline void ptx_prefetch_L2(const void *) {}
inline u64 ptx_ld_relaxed(const u64 *p)
{
    emulator_turn();
    return emulator_atomic(EMULATOR_LOAD, (u64 *)emulator_aligned(p, 8), 8, 0);
}
inline void ptx_ld_relaxed_v2(const u64 *p, u64 &a, u64 &b)
{
    emulator_turn();
    u64 *const words = (u64 *)emulator_aligned(p, 16);
    a = emulator_atomic(EMULATOR_LOAD, words, 8, 0);
    b = emulator_atomic(EMULATOR_LOAD, words + 1, 8, 0);
}
inline void ptx_st_relaxed(u64 *p, u64 v)
{
    emulator_atomic(EMULATOR_STORE, (u64 *)emulator_aligned(p, 8), 8, v);
}
inline void ptx_cp_async_16(u32 to, const void *from, int bytes)
{
    emulator_copy(to, from, bytes);
}
inline void ptx_cp_async_16_256B(u32 to, const void *from, int bytes)
{
    emulator_copy(to, from, bytes);
}
inline void ptx_cp_async_commit_group()
{
    emulator_copy_commit();
}
inline void ptx_cp_async_wait_group_2(SOURCE)
{
    emulator_copy_wait_groups(2, at);
}
inline void
ptx_cp_async_wait_group_0(SOURCE) /* all groups; a copy behind the last commit may wait on */
{
    emulator_copy_wait(at);
}
inline void ptx_cp_async_wait_all(SOURCE)
{
    emulator_copy_wait(at);
}

inline void ptx_bar_sync(int id, int threads, SOURCE)
{
    emulator_barrier(id, (unsigned)threads, at);
}
inline void ptx_mbarrier_init(u32 mbarrier, int arrivals)
{
    emulator_mbarrier_init(mbarrier, arrivals);
}
inline void ptx_fence_mbarrier_init() {}
inline void ptx_mbarrier_arrive(u32 mbarrier, SOURCE)
{
    emulator_mbarrier_arrive(mbarrier, at);
}
inline void ptx_cp_async_mbarrier_arrive_noinc(u32 mbarrier, SOURCE)
{
    emulator_copy_arrive(mbarrier, at);
}
inline u32 ptx_mbarrier_try_wait_parity(u32 mbarrier, u32 parity, SOURCE)
{
    return emulator_mbarrier_test(mbarrier, parity, at);
}
inline void ptx_griddepcontrol_launch_dependents() {}
inline void ptx_griddepcontrol_wait() {}
inline u64 ptx_globaltimer() /* no clock: the number of times it was asked */
{
    return emulator_clock();
}
inline void ptx_trap()
{
    emulator_fault("trap");
}

} // namespace
