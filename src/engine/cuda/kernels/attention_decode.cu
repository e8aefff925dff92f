/* Attention of decode rows: HEAD_DIM 64 or 128, float16 or bfloat16, block_size a multiple of 16.
 *
 * grid = [splits, kv_heads * head tiles, rows], 4 warps. A head tile is up to 8 query heads of one
 * KV head. The keys of a sequence are cut into parts of whole pages of 16; the warps of a block
 * take every fourth page of its part, each with a running maximum and sum (Milakov and Gimelshein
 * 2018).
 *
 * Keys and values go from memory straight into tensor core fragments, without shared memory. Both
 * products are formed transposed, so that a page's 16 keys fill the 16 rows of an operand and the
 * heads its 8 columns:
 *   scores^T [16 keys, 8 heads] = K [16, d] Q^T [d, 8]     lane 4 g + t loads 16 bytes of keys g, g+8
 *   out^T    [d, 8 heads]      += V^T [d, 16 keys] P^T     lane loads keys 2t, 2t+1, 2t+8, 2t+9
 * In both the contiguous 16 bytes of a lane are a permutation of head_dim that the other operand,
 * or the reading of the result, repeats. Scores and sums have head 2t, 2t+1 in a lane, and so have
 * the outputs; P is transposed in registers (movmatrix).
 *
 * The last block of a sequence and head tile to finish adds the parts up, in their order. */

enum {
    DECODE_WARPS = 4,
    PAGE = 16,
    TILE_HEADS = 8,
    MOST_SPLITS = 64,
    CHUNKS = HEAD_DIM / 32,     /* 16-byte loads of a key per lane */
    HALVES = HEAD_DIM / 64,     /* of a value */
    VALUE_TILES = HEAD_DIM / 16 /* rows of out^T in tiles of 16 */
};

struct decode {
    int seq, row, head0, heads, kv_head, kv_len, position;
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

__device__ static inline u32 transposed(u32 v)
{
    u32 r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
    return r;
}

__device__ static inline uint4 load16(const elem *p)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

__device__ static inline void load_keys(const elem *page, uint4 (&k)[2][CHUNKS])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            k[h][i] = load16(page + (g + 8 * h) * HEAD_DIM + i * 32 + t * 8);
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
            v[i][h] = key < keys ? load16(page + key * HEAD_DIM + h * 64 + g * 8)
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
#define VALUE_HALF(j, upper) (HALVES == 2 ? (upper) : 0)
#define VALUE_ELEM(j, upper) (HALVES == 2 ? (j) : 2 * (j) + (upper))
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
        s[i] = at < d.kv_len ? s[i] * by + slope[i & 1] * (float)(at - d.position) : NONE;
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
        top = fmaxf(top, st.largest[i]); /* finite: every page has a key */
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
    const u32 b0 = transposed(pack(p[0], p[1])), b1 = transposed(pack(p[2], p[3]));
#pragma unroll
    for (int j = 0; j < VALUE_TILES; j++) {
        const u32 a0 = both(v[0][VALUE_HALF(j, 0)], v[1][VALUE_HALF(j, 0)], VALUE_ELEM(j, 0));
        const u32 a1 = both(v[0][VALUE_HALF(j, 1)], v[1][VALUE_HALF(j, 1)], VALUE_ELEM(j, 1));
        const u32 a2 = both(v[2][VALUE_HALF(j, 0)], v[3][VALUE_HALF(j, 0)], VALUE_ELEM(j, 0));
        const u32 a3 = both(v[2][VALUE_HALF(j, 1)], v[3][VALUE_HALF(j, 1)], VALUE_ELEM(j, 1));
        mma(out[j], a0, a1, a2, a3, b0, b1);
    }
}

/* One head of a token through q/k norm and rotation, by one warp: a lane holds elements lane + 32 i
 * of each half. */
__device__ static inline void prepare_head(const struct cuda_attention_args &a, const elem *x,
                                           const elem *norm, int position, elem *to, elem *to2)
{
    enum { PER = HEAD_DIM / 64 };
    const int lane = threadIdx.x % 32;
    float lo[PER], hi[PER], square = 0;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        lo[i] = to_float(x[lane + 32 * i]);
        hi[i] = to_float(x[HEAD_DIM / 2 + lane + 32 * i]);
        square += lo[i] * lo[i] + hi[i] * hi[i];
    }
    const float inv = norm ? 1.0f / sqrtf(warp_sum(square) / HEAD_DIM + a.eps) : 1;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int at = lane + 32 * i;
        if (norm) {
            lo[i] = rounded(lo[i] * inv * to_float(norm[at]));
            hi[i] = rounded(hi[i] * inv * to_float(norm[HEAD_DIM / 2 + at]));
        }
        if (a.cosine) {
            const i64 angle = (i64)position * (HEAD_DIM / 2) + at;
            const float c = a.cosine[angle], s = a.sine[angle], l = lo[i], h = hi[i];
            lo[i] = l * c - h * s;
            hi[i] = h * c + l * s;
        }
        to[at] = from_float(lo[i]);
        to[HEAD_DIM / 2 + at] = from_float(hi[i]);
        if (to2) {
            to2[at] = from_float(lo[i]);
            to2[HEAD_DIM / 2 + at] = from_float(hi[i]);
        }
    }
}

/* The work of `rope` for this block: its query heads into shared memory, and, in the block of the
 * newest key, that key and value into the cache. */
__device__ static inline void prepare(const struct cuda_attention_args &a, const struct decode &d,
                                      bool owns_newest, elem (*heads)[HEAD_DIM + 8])
{
    const int warp = threadIdx.x / 32, all = a.heads + 2 * a.kv_heads;
    const elem *row = (const elem *)a.qkv + (i64)d.row * all * HEAD_DIM;
    const elem *q_norm = a.fuse ? (const elem *)a.q_norm : 0;
    for (int h = warp; h < TILE_HEADS; h += DECODE_WARPS) {
        if (h < d.heads && a.fuse)
            prepare_head(a, row + (d.head0 + h) * HEAD_DIM, q_norm, d.position, heads[h], 0);
        else
            for (int i = threadIdx.x % 32; i < HEAD_DIM; i += 32)
                heads[h][i] = h < d.heads ? row[(d.head0 + h) * HEAD_DIM + i] : (elem)0;
    }
    if (!a.fuse || !owns_newest)
        return;
    const int at = d.position;
    const i64 place = (((i64)d.blocks[at / a.block_size] * a.kv_heads + d.kv_head) * a.block_size +
                       at % a.block_size) *
                      HEAD_DIM;
    if (warp == DECODE_WARPS - 1) {
        prepare_head(a, row + (a.heads + d.kv_head) * HEAD_DIM, (const elem *)a.k_norm, d.position,
                     (elem *)a.k + place, 0);
    } else if (warp == DECODE_WARPS - 2) {
        const elem *v = row + (a.heads + a.kv_heads + d.kv_head) * HEAD_DIM;
        for (int i = threadIdx.x % 32; i < HEAD_DIM; i += 32)
            ((elem *)a.v)[place + i] = v[i];
    }
}

/* Parts of a head: [splits, HEAD_DIM] values, then [splits, 2] largest score and sum. */
__device__ static inline float *part_of(const struct cuda_attention_args &a, const struct decode &d,
                                        int h)
{
    return a.partial + ((i64)d.seq * a.heads + d.head0 + h) * a.splits * (HEAD_DIM + 2);
}

extern "C" __global__ void __launch_bounds__(DECODE_WARPS * 32, 3)
    KERNEL(attention_decode)(const __grid_constant__ struct cuda_attention_args a)
{
    __shared__ elem heads[TILE_HEADS][HEAD_DIM + 8];
    __shared__ float outs[DECODE_WARPS][TILE_HEADS][HEAD_DIM + 4];
    __shared__ float tops[DECODE_WARPS][TILE_HEADS], totals[DECODE_WARPS][TILE_HEADS];
    __shared__ int is_last;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    begin();
    const struct cuda_step *step = a.batch.step;
    const int group = a.heads / a.kv_heads, head_tiles = (group + TILE_HEADS - 1) / TILE_HEADS;
    struct decode d;
    d.seq = blockIdx.z;
    if (d.seq >= step->n_decodes) {
        fetch_ahead(a.ahead, a.ahead_bytes);
        wait();
        return;
    }
    const struct cuda_segment segment = a.batch.segments[step->n_chunks + d.seq];
    d.row = segment.first;
    d.position = segment.kv_before;
    d.kv_len = d.position + 1;
    d.blocks = a.batch.blocks + segment.table;
    d.kv_head = blockIdx.y / head_tiles;
    d.head0 = d.kv_head * group + blockIdx.y % head_tiles * TILE_HEADS;
    d.heads = group - blockIdx.y % head_tiles * TILE_HEADS;
    d.heads = d.heads < TILE_HEADS ? d.heads : TILE_HEADS;

    const int pages = (d.kv_len + PAGE - 1) / PAGE;
    int per_split = (pages + a.splits - 1) / a.splits;
    per_split = per_split < DECODE_WARPS ? DECODE_WARPS : per_split;
    const int n_splits = (pages + per_split - 1) / per_split;
    const int from = blockIdx.x * per_split;
    const int to = from + per_split < pages ? from + per_split : pages;
    /* Older keys and values are complete: the first page is loaded while the kernel in front runs.
     * The newest key's page waits for it. */
    uint4 k[2][CHUNKS], v[4][HALVES];
    int page = from + warp;
    const bool early = page < to && page < pages - 1;
    if (early) {
        const i64 at = page_at(a, d, page);
        load_keys((const elem *)a.k + at, k);
        load_values((const elem *)a.v + at, PAGE, v);
    }
    fetch_ahead(a.ahead, a.ahead_bytes);
    wait();
    if (from >= pages)
        return;
    prepare(a, d, to == pages, heads);
    __syncthreads();
    if (page < to && !early) {
        const i64 at = page_at(a, d, page);
        load_keys((const elem *)a.k + at, k);
        load_values((const elem *)a.v + at, d.kv_len - page * PAGE, v);
    }

    uint4 q[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; i++)
        q[i] = *(const uint4 *)&heads[g][i * 32 + t * 8];
    float slope[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (a.slopes && 2 * t + i < d.heads)
            slope[i] = a.slopes[d.head0 + 2 * t + i] * 1.4426950408889634f;
    struct partial_stats st = {{NONE, NONE}, {0, 0}};
    float out[VALUE_TILES][4] = {};
    for (; page < to; page += DECODE_WARPS) {
        const int next = page + DECODE_WARPS;
        const i64 at = next < to ? page_at(a, d, next) : 0;
        float s[4];
        score_page(a, d, page, slope, q, k, s);
        if (next < to)
            load_keys((const elem *)a.k + at, k);
        add_page(s, v, st, out);
        if (next < to)
            load_values((const elem *)a.v + at, d.kv_len - next * PAGE, v);
    }

    /* the warps' parts together */
#pragma unroll
    for (int i = 0; i < 2; i++) {
        st.sum[i] += __shfl_xor_sync(0xffffffffu, st.sum[i], 4);
        st.sum[i] += __shfl_xor_sync(0xffffffffu, st.sum[i], 8);
        st.sum[i] += __shfl_xor_sync(0xffffffffu, st.sum[i], 16);
        if (g == 0) {
            tops[warp][2 * t + i] = st.largest[i];
            totals[warp][2 * t + i] = st.sum[i];
        }
#pragma unroll
        for (int j = 0; j < VALUE_TILES; j++) {
            outs[warp][2 * t + i][VALUE_DIM(j, 0, g)] = out[j][i];
            outs[warp][2 * t + i][VALUE_DIM(j, 1, g)] = out[j][i + 2];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < d.heads * HEAD_DIM; i += DECODE_WARPS * 32) {
        const int h = i / HEAD_DIM, dim = i % HEAD_DIM;
        float top = tops[0][h], sum = 0, value = 0; /* warp 0 has a page */
#pragma unroll
        for (int w = 1; w < DECODE_WARPS; w++)
            top = fmaxf(top, tops[w][h]);
#pragma unroll
        for (int w = 0; w < DECODE_WARPS; w++) {
            const float by = power_of_2(tops[w][h] - top);
            sum += totals[w][h] * by;
            value += outs[w][h][dim] * by;
        }
        const i64 head = (i64)d.row * a.heads + d.head0 + h;
        if (n_splits == 1) {
            ((elem *)a.out)[head * HEAD_DIM + dim] = from_float(value / sum);
            continue;
        }
        float *part = part_of(a, d, h);
        part[blockIdx.x * HEAD_DIM + dim] = value;
        if (dim == 0)
            *(float2 *)(part + a.splits * HEAD_DIM + 2 * blockIdx.x) = make_float2(top, sum);
    }
    if (n_splits == 1)
        return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        int *counter = a.counters + d.seq * gridDim.y + blockIdx.y;
        is_last = atomicAdd(counter, 1) == n_splits - 1;
        if (is_last)
            *counter = 0;
    }
    __syncthreads();
    if (!is_last)
        return;
    __threadfence();
    /* outs is free again: the factor of each part, and 1 / sum of each head */
    float(*by)[MOST_SPLITS + 1] = (float(*)[MOST_SPLITS + 1])outs;
    for (int h = warp; h < d.heads; h += DECODE_WARPS) {
        const float *stats = part_of(a, d, h) + a.splits * HEAD_DIM;
        float2 mine[MOST_SPLITS / 32];
        float top = NONE, sum = 0;
#pragma unroll
        for (int i = 0; i < MOST_SPLITS / 32; i++) {
            const int split = lane + 32 * i;
            mine[i] = split < n_splits ? __ldcg((const float2 *)stats + split)
                                       : make_float2(NONE, 0);
            top = fmaxf(top, mine[i].x);
        }
        top = warp_max(top);
#pragma unroll
        for (int i = 0; i < MOST_SPLITS / 32; i++) {
            const float factor = power_of_2(mine[i].x - top);
            by[h][lane + 32 * i] = factor;
            sum += mine[i].y * factor;
        }
        sum = warp_sum(sum);
        if (lane == 0)
            by[h][MOST_SPLITS] = 1.0f / sum;
    }
    __syncthreads();
    for (int i = 2 * threadIdx.x; i < d.heads * HEAD_DIM; i += 2 * DECODE_WARPS * 32) {
        const int h = i / HEAD_DIM, dim = i % HEAD_DIM;
        const float *part = part_of(a, d, h) + dim;
        float lo = 0, hi = 0;
#pragma unroll 16
        for (int split = 0; split < n_splits; split++) {
            const float2 value = __ldcg((const float2 *)(part + split * HEAD_DIM));
            lo += value.x * by[h][split];
            hi += value.y * by[h][split];
        }
        const float inv = by[h][MOST_SPLITS];
        const i64 head = (i64)d.row * a.heads + d.head0 + h;
        *(u32 *)((elem *)a.out + head * HEAD_DIM + dim) = pack(lo * inv, hi * inv);
    }
}
