/* Decode attention over one page of 16 keys by one warp: what attention_decode.cu and
 * decode_step.cu share. HEAD_DIM 64 or 128, float16 or bfloat16. */

enum {
    PAGE = 16,
    TILE_HEADS = CUDA_TILE_HEADS,
    CHUNKS = HEAD_DIM / 32,     /* 16-byte loads of a key per lane */
    HALVES = HEAD_DIM / 64,     /* of a value */
    VALUE_TILES = HEAD_DIM / 16 /* rows of out^T in tiles of 16 */
};

struct decode {
    int seq, row, head0, heads, kv_head, kv_len, position;
    int first; /* key that the window begins with */
    const int *blocks;
};

struct partial_stats {
    float largest[2], sum[2]; /* of heads 2t, 2t + 1 */
};

__device__ static inline i64 page_at(const struct cuda_attention_args &a, const struct decode &d,
                                     int page)
{
    const int key = page * PAGE;
    return (((i64)d.blocks[key / a.block_size] * a.kv_heads + d.kv_head) * a.block_size +
            key % a.block_size) *
           HEAD_DIM;
}

__device__ static inline void load_keys(const elem *page, uint4 (&k)[2][CHUNKS])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            k[h][i] = ptx_ld_no_allocate_v4(page + (g + 8 * h) * HEAD_DIM + i * 32 + t * 8);
}

/* Values of keys past the end are 0, not what the memory holds: 0 * NaN is NaN. */
__device__ static inline void load_values(const elem *page, int keys, uint4 (&v)[4][HALVES])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int key = 2 * t + (i & 1) + 8 * (i >> 1);
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            v[i][h] = key < keys ? ptx_ld_no_allocate_v4(page + key * HEAD_DIM + h * 64 + g * 8)
                                 : make_uint4(0, 0, 0, 0);
    }
}

__device__ static inline u32 word(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Element e of two vectors, a's in the low half. */
__device__ static inline u32 both(const uint4 &a, const uint4 &b, int e)
{
    return __byte_perm(word(a, e / 2), word(b, e / 2), e % 2 ? 0x7632 : 0x5410);
}

/* Which vector and element of a lane's values stand in row g (0) or g + 8 (1) of tile j; the
 * dimension of that element. */
#define VALUE_HALF(j, upper)   (HALVES == 2 ? (upper) : 0)
#define VALUE_ELEM(j, upper)   (HALVES == 2 ? (j) : 2 * (j) + (upper))
#define VALUE_DIM(j, upper, g) (VALUE_HALF(j, upper) * 64 + (g)*8 + VALUE_ELEM(j, upper))

/* Scores of a page, base 2: rows are keys g, g + 8, columns heads 2t, 2t + 1. */
__device__ static inline void score_page(const struct cuda_attention_args &a,
                                         const struct decode &d, int page, const float (&slope)[2],
                                         const uint4 (&q)[CHUNKS], const uint4 (&k)[2][CHUNKS],
                                         float (&s)[4])
{
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 4; i++)
        s[i] = 0;
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        mma(s, k[0][i].x, k[1][i].x, k[0][i].y, k[1][i].y, q[i].x, q[i].y);
        mma(s, k[0][i].z, k[1][i].z, k[0][i].w, k[1][i].w, q[i].z, q[i].w);
    }
    const float by = a.scale * 1.4426950408889634f;
    const int key = page * PAGE + g;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = key + 8 * (i >> 1);
        s[i] = at < d.kv_len && at >= d.first ? s[i] * by + slope[i & 1] * (float)(at - d.position) : NONE;
    }
}

/* Adds the page's values with the weights exp2(score - largest). */
__device__ static inline void add_page(const float (&s)[4], const uint4 (&v)[4][HALVES],
                                       struct partial_stats &st, float (&out)[VALUE_TILES][4])
{
    float p[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float top = fmaxf(s[i], s[i + 2]);
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 4));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 8));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 16));
        top = fmaxf(top, st.largest[i]); /* finite: every page has a key that is seen */
        const float shrink = power_of_2(st.largest[i] - top);
        st.largest[i] = top;
        p[i] = power_of_2(s[i] - top);
        p[i + 2] = power_of_2(s[i + 2] - top);
        st.sum[i] = st.sum[i] * shrink + (p[i] + p[i + 2]);
#pragma unroll
        for (int j = 0; j < VALUE_TILES; j++) {
            out[j][i] *= shrink;
            out[j][i + 2] *= shrink;
        }
    }
    const u32 b0 = ptx_movmatrix_trans(pack(p[0], p[1]));
    const u32 b1 = ptx_movmatrix_trans(pack(p[2], p[3]));
#pragma unroll
    for (int j = 0; j < VALUE_TILES; j++) {
        const u32 a0 = both(v[0][VALUE_HALF(j, 0)], v[1][VALUE_HALF(j, 0)], VALUE_ELEM(j, 0));
        const u32 a1 = both(v[0][VALUE_HALF(j, 1)], v[1][VALUE_HALF(j, 1)], VALUE_ELEM(j, 1));
        const u32 a2 = both(v[2][VALUE_HALF(j, 0)], v[3][VALUE_HALF(j, 0)], VALUE_ELEM(j, 0));
        const u32 a3 = both(v[2][VALUE_HALF(j, 1)], v[3][VALUE_HALF(j, 1)], VALUE_ELEM(j, 1));
        mma(out[j], a0, a1, a2, a3, b0, b1);
    }
}
