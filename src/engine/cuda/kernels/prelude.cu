/* What every program begins with, behind args.h and ptx.cu. Defined outside: ELEM_F32, ELEM_F16 or
 * ELEM_BF16, KERNEL(name) = the entry's name with its dtype, HEAD_DIM where the source wants it. */

#if defined(ELEM_F32)
typedef float elem;
#else
typedef u16 elem;
#endif

enum { VEC = 16 / sizeof(elem) };
#define NONE (-__int_as_float(0x7f800000))

__device__ static inline float to_float(elem v)
{
#if defined(ELEM_F32)
    return v;
#elif defined(ELEM_BF16)
    return __uint_as_float((u32)v << 16);
#else
    return ptx_cvt_f32_f16(v);
#endif
}

__device__ static inline elem from_float(float v)
{
#if defined(ELEM_F32)
    return v;
#elif defined(ELEM_BF16)
    return ptx_cvt_rn_bf16_f32(v);
#else
    return ptx_cvt_rn_f16_f32(v);
#endif
}

__device__ static inline float rounded(float v)
{
    return to_float(from_float(v));
}

#if !defined(ELEM_F32)
/* lo in the low half */
__device__ static inline u32 pack(float lo, float hi)
{
#if defined(ELEM_BF16)
    return ptx_cvt_rn_bf16x2_f32(hi, lo);
#else
    return ptx_cvt_rn_f16x2_f32(hi, lo);
#endif
}

__device__ static inline void unpack(u32 v, float *lo, float *hi)
{
    *lo = to_float((u16)v);
    *hi = to_float((u16)(v >> 16));
}

/* d += a b: a [16, 16] row major, b [16, 8] column major, float32 sums. Fragments as in PTX's
 * mma.m16n8k16: lane = 4 g + t holds rows g and g + 8. */
__device__ static inline void mma(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
#if defined(ELEM_BF16)
    ptx_mma_bf16(d, a0, a1, a2, a3, b0, b1);
#else
    ptx_mma_f16(d, a0, a1, a2, a3, b0, b1);
#endif
}
#endif

/* 16 bytes as floats. */
__device__ static inline void load_vec(const elem *p, float (&v)[VEC])
{
#if defined(ELEM_F32)
    const float4 r = *(const float4 *)p;
    v[0] = r.x, v[1] = r.y, v[2] = r.z, v[3] = r.w;
#else
    const uint4 r = *(const uint4 *)p;
    unpack(r.x, &v[0], &v[1]);
    unpack(r.y, &v[2], &v[3]);
    unpack(r.z, &v[4], &v[5]);
    unpack(r.w, &v[6], &v[7]);
#endif
}

__device__ static inline void store_vec(elem *p, const float (&v)[VEC])
{
#if defined(ELEM_F32)
    *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
#else
    *(uint4 *)p =
        make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7]));
#endif
}

/* Constant data read once: weights. What lies beside the bytes asked for is asked for soon. */
__device__ static inline uint4 load_once(const void *p)
{
    return ptx_ld_nc_256B_v4(p);
}

/* The same where a warp asks for whole lines. */
__device__ static inline uint4 load_line(const void *p)
{
    return ptx_ld_nc_v4(p);
}

/* In front of `wait`. The compiler moves the two above behind it where it likes, as nothing may
 * write what they read: 6 % of a decode step. */
__device__ static inline uint4 load_once_early(const void *p)
{
    return ptx_ld_256B_v4(p);
}

__device__ static inline uint4 load_line_early(const void *p)
{
    return ptx_ld_no_allocate_v4((const u16 *)p);
}

/* 2^x to 2 ulp. */
__device__ static inline float power_of_2(float x)
{
    return ptx_ex2(x);
}

__device__ static inline float warp_sum(float v)
{
    for (int i = 16; i > 0; i >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, i);
    return v;
}

__device__ static inline float warp_max(float v)
{
    for (int i = 16; i > 0; i >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, i));
    return v;
}

/* Sum over a block of whole warps, to all threads; s has a float per warp. */
__device__ static inline float block_sum(float v, float *s)
{
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    v = warp_sum(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        s[warp] = v;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < warps; i++)
        sum += s[i];
    return sum;
}

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

__device__ static inline float gelu(float x)
{
    return x * sigmoid(1.5957691216f * x * (1.0f + 0.044715f * x * x));
}

/* act(v, u) of args.h; u counts for gated ones alone. */
__device__ static inline float activated(int act, float v, float u, float alpha, float limit)
{
    if (act == CUDA_ACT_SILU_GATED)
        return v * sigmoid(v) * u;
    if (act == CUDA_ACT_GELU_TANH)
        return gelu(v);
    if (act == CUDA_ACT_GELU_GATED)
        return gelu(v) * u;
    if (act == CUDA_ACT_CLAMPED_GATED) {
        v = fminf(v, limit);
        u = fminf(fmaxf(u, -limit), limit);
        return v * sigmoid(alpha * v) * (u + 1.0f);
    }
    return v;
}

/* Programmatic dependent launch (sm_90): `begin` lets the next kernel's blocks start where there
 * is room; `wait` holds until the kernels before are complete. Before `wait` a kernel touches
 * weights, tables and the step's metadata only, never what kernels write; every block waits, also
 * one without work, so that a complete kernel means complete kernels before it. */
__device__ static inline void begin(void)
{
#if __CUDA_ARCH__ >= 900
    ptx_griddepcontrol_launch_dependents();
#endif
}

__device__ static inline void wait(void)
{
#if __CUDA_ARCH__ >= 900
    ptx_griddepcontrol_wait();
#endif
}
