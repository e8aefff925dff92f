/* q/k norm, rotation and append to the paged cache: one warp per token and four heads, whose loads
 * are out together. A lane holds neighbouring pairs (i, i + head_dim / 2), (i + 1, ...), so head_dim
 * is a multiple of 4, at most 256. */

enum { ROPE_WARPS = 4, ROPE_HEADS = 4 };

__device__ static inline void load2(const elem *p, float *a, float *b)
{
#if defined(ELEM_F32)
    const float2 v = *(const float2 *)p;
    *a = v.x, *b = v.y;
#else
    unpack(*(const u32 *)p, a, b);
#endif
}

__device__ static inline void store2(elem *p, float a, float b)
{
#if defined(ELEM_F32)
    *(float2 *)p = make_float2(a, b);
#else
    *(u32 *)p = pack(a, b);
#endif
}

/* PAIRS = 1: head_dim up to 128. */
template <int PAIRS> __device__ static inline void rope(const struct cuda_rope_args &a)
{
    const int t = blockIdx.x, lane = threadIdx.x % 32, all = a.heads + 2 * a.kv_heads;
    const int head0 = (blockIdx.y * ROPE_WARPS + threadIdx.x / 32) * ROPE_HEADS;
    if (t >= a.batch.step->n_tokens || head0 >= all)
        return;
    const int d = a.head_dim, half = d / 2;
    elem *const row = (elem *)a.qkv + (i64)t * all * d;
    float lo[ROPE_HEADS][PAIRS][2], hi[ROPE_HEADS][PAIRS][2], c[PAIRS][2], s[PAIRS][2];
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
        const int i = 2 * lane + 64 * p;
#pragma unroll
        for (int h = 0; h < ROPE_HEADS; h++)
            if (i < half && head0 + h < all) {
                load2(row + (head0 + h) * d + i, &lo[h][p][0], &lo[h][p][1]);
                load2(row + (head0 + h) * d + half + i, &hi[h][p][0], &hi[h][p][1]);
            }
        if (a.cosine && i < half) {
            const i64 angle = (i64)a.batch.positions[t] * half + i;
            for (int j = 0; j < 2; j++)
                c[p][j] = a.cosine[angle + j], s[p][j] = a.sine[angle + j];
        }
    }
    const int at = a.batch.kv_at[t], block = at / a.block_size, offset = at % a.block_size;
#pragma unroll
    for (int h = 0; h < ROPE_HEADS; h++) {
        const int head = head0 + h;
        if (head >= all)
            break;
        const bool is_q = head < a.heads, is_v = head >= a.heads + a.kv_heads;
        const int kv_head = head - a.heads - (is_v ? a.kv_heads : 0);
        const i64 place = (((i64)block * a.kv_heads + kv_head) * a.block_size + offset) * d;
        elem *to = is_q ? row + head * d : (elem *)(is_v ? a.v : a.k) + place;
        const elem *norm = (const elem *)(is_v ? 0 : is_q ? a.q_norm : a.k_norm);
        float square = 0, inv = 1;
        if (norm) {
#pragma unroll
            for (int p = 0; p < PAIRS; p++)
                for (int j = 0; j < 2 && 2 * lane + 64 * p < half; j++)
                    square += lo[h][p][j] * lo[h][p][j] + hi[h][p][j] * hi[h][p][j];
            inv = 1.0f / sqrtf(warp_sum(square) / d + a.eps);
        }
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            const int i = 2 * lane + 64 * p;
            if (i >= half)
                continue;
            float l[2], u[2], wl[2], wu[2];
            if (norm) {
                load2(norm + i, &wl[0], &wl[1]);
                load2(norm + half + i, &wu[0], &wu[1]);
            }
            for (int j = 0; j < 2; j++) {
                l[j] = norm ? rounded(lo[h][p][j] * inv * (wl[j] + a.norm_offset)) : lo[h][p][j];
                u[j] = norm ? rounded(hi[h][p][j] * inv * (wu[j] + a.norm_offset)) : hi[h][p][j];
                if (a.cosine && !is_v) {
                    const float low = l[j];
                    l[j] = low * c[p][j] - u[j] * s[p][j];
                    u[j] = u[j] * c[p][j] + low * s[p][j];
                }
            }
            store2(to + i, l[0], l[1]);
            store2(to + half + i, u[0], u[1]);
        }
    }
}

extern "C" __global__ void KERNEL(rope)(const __grid_constant__ struct cuda_rope_args a)
{
    begin();
    wait();
    if (a.head_dim <= 128)
        rope<1>(a);
    else
        rope<2>(a);
}
