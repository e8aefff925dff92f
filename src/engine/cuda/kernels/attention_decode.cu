/* Attention of decode rows: HEAD_DIM 64 or 128, float16 or bfloat16, block_size a multiple of 16.
 *
 * grid = [kv_heads * head tiles, runs], 4 warps. A head tile is up to 8 query heads of one KV head.
 * What a block reads the host has planned from the lengths of the batch (engine/cuda/parts.h): a
 * run of parts one after the other, each some stripes of a row's keys, of 4 pages of 16. The warps
 * take every fourth page of a part, each with a running maximum and sum (Milakov and Gimelshein
 * 2018). The first pages of the next part are on their way while a part is finished. Blocks start
 * in the order of the runs.
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
 * With a window the parts of the list begin at the stripe of the first key that is seen, and the
 * warps skip the pages in front of it; the first page's keys outside are masked.
 *
 * The last block of a sequence and head tile to finish adds the parts up, in their order, and the
 * sink once. */

enum { DECODE_WARPS = CUDA_STRIPE_KEYS / PAGE };

/* One head of a token through q/k norm and rotation, by one warp: a lane holds elements lane + 32 i
 * of each half. */
__device__ static inline void prepare_head(const struct cuda_attention_args &a, const elem *x,
                                           const elem *norm, int position, elem *to)
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
            lo[i] = rounded(lo[i] * inv * (to_float(norm[at]) + a.norm_offset));
            hi[i] = rounded(hi[i] * inv * (to_float(norm[HEAD_DIM / 2 + at]) + a.norm_offset));
        }
        if (a.cosine) {
            const i64 angle = (i64)position * (HEAD_DIM / 2) + at;
            const float c = a.cosine[angle], s = a.sine[angle], l = lo[i], h = hi[i];
            lo[i] = l * c - h * s;
            hi[i] = h * c + l * s;
        }
        to[at] = from_float(lo[i]);
        to[HEAD_DIM / 2 + at] = from_float(hi[i]);
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
            prepare_head(a, row + (d.head0 + h) * HEAD_DIM, q_norm, d.position, heads[h]);
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
                     (elem *)a.k + place);
    } else if (warp == DECODE_WARPS - 2) {
        const elem *v = row + (a.heads + a.kv_heads + d.kv_head) * HEAD_DIM;
        for (int i = threadIdx.x % 32; i < HEAD_DIM; i += 32)
            ((elem *)a.v)[place + i] = v[i];
    }
}

__device__ static inline int pages_of(const struct decode &d)
{
    return (d.kv_len + PAGE - 1) / PAGE;
}

__device__ static inline void load_page(const struct cuda_attention_args &a, const struct decode &d,
                                        int page, uint4 (&k)[2][CHUNKS], uint4 (&v)[4][HALVES])
{
    const i64 at = page_at(a, d, page);
    load_keys((const elem *)a.k + at, k);
    load_values((const elem *)a.v + at, d.kv_len - page * PAGE, v);
}

/* The page behind the part's last. */
__device__ static inline int end_of(const struct decode &d, const struct cuda_part &part)
{
    const int end = part.to * DECODE_WARPS, pages = pages_of(d);
    return end < pages ? end : pages;
}

/* Of a part and head: HEAD_DIM values, then largest score and sum. */
__device__ static inline float *part_of(const struct cuda_attention_args &a, int place, int head)
{
    return a.partial + ((i64)place * a.heads + head) * (HEAD_DIM + 2);
}

/* This warp's first page of the part: one with a key that is seen. */
__device__ static inline int begin_of(const struct decode &d, const struct cuda_part &part)
{
    const int page = part.from * DECODE_WARPS + threadIdx.x / 32;
    return page < d.first / PAGE ? page + DECODE_WARPS : page;
}

/* What the sink of a head adds to the sum of weights relative to `top`; base 2. What is far above
 * all scores is infinite and leaves 0. */
__device__ static inline float sink_of(const struct cuda_attention_args &a, int head, float top)
{
    if (!a.sinks)
        return 0;
    return power_of_2(to_float(((const elem *)a.sinks)[head]) * 1.4426950408889634f - top);
}

/* The part's row for the heads of this block's tile. */
__device__ static inline void find_row(const struct cuda_attention_args &a,
                                       const struct cuda_part &part, struct decode &d)
{
    const int group = a.heads / a.kv_heads, head_tiles = (group + TILE_HEADS - 1) / TILE_HEADS;
    d.seq = part.seq;
    d.row = part.row;
    d.position = part.position;
    d.kv_len = d.position + 1;
    d.first = a.window > 0 && a.window < d.kv_len ? d.kv_len - a.window : 0;
    d.blocks = a.batch.blocks + part.table;
    d.kv_head = blockIdx.x / head_tiles;
    d.head0 = d.kv_head * group + blockIdx.x % head_tiles * TILE_HEADS;
    d.heads = group - blockIdx.x % head_tiles * TILE_HEADS;
    d.heads = d.heads < TILE_HEADS ? d.heads : TILE_HEADS;
}

/* Of a row's parts, in their order: the outputs of the tile's heads. All threads; `by` is free. */
__device__ static inline void add_parts(const struct cuda_attention_args &a, const struct decode &d,
                                        int first, int parts, float (*by)[CUDA_ROW_PARTS + 1])
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const i64 stride = (i64)a.heads * (HEAD_DIM + 2);
    /* the factor of each part, and 1 / sum of each head */
    for (int h = warp; h < d.heads; h += DECODE_WARPS) {
        const float *stats = part_of(a, first, d.head0 + h) + HEAD_DIM;
        float2 mine[CUDA_ROW_PARTS / 32];
        float top = NONE, sum = 0;
#pragma unroll
        for (int i = 0; i < CUDA_ROW_PARTS / 32; i++) {
            const int p = lane + 32 * i;
            mine[i] =
                p < parts ? __ldcg((const float2 *)(stats + p * stride)) : make_float2(NONE, 0);
            top = fmaxf(top, mine[i].x);
        }
        top = warp_max(top);
#pragma unroll
        for (int i = 0; i < CUDA_ROW_PARTS / 32; i++) {
            const float factor = power_of_2(mine[i].x - top);
            by[h][lane + 32 * i] = factor;
            sum += mine[i].y * factor;
        }
        sum = warp_sum(sum);
        if (lane == 0)
            by[h][CUDA_ROW_PARTS] = 1.0f / (sum + sink_of(a, d.head0 + h, top));
    }
    __syncthreads();
    for (int i = 2 * threadIdx.x; i < d.heads * HEAD_DIM; i += 2 * DECODE_WARPS * 32) {
        const int h = i / HEAD_DIM, dim = i % HEAD_DIM;
        const float *values = part_of(a, first, d.head0 + h) + dim;
        float lo = 0, hi = 0;
#pragma unroll 16
        for (int p = 0; p < parts; p++) {
            const float2 value = __ldcg((const float2 *)(values + p * stride));
            lo += value.x * by[h][p];
            hi += value.y * by[h][p];
        }
        const float inv = by[h][CUDA_ROW_PARTS];
        const i64 head = (i64)d.row * a.heads + d.head0 + h;
        *(u32 *)((elem *)a.out + head * HEAD_DIM + dim) = pack(lo * inv, hi * inv);
    }
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
    int at = a.batch.runs[blockIdx.y];
    const int run_end = a.batch.runs[blockIdx.y + 1];
    if (at >= run_end) {
        wait();
        return;
    }
    struct decode d;
    struct cuda_part part = a.batch.parts[at];
    find_row(a, part, d);
    /* Older keys and values are complete: the first page is loaded while the kernel in front runs,
     * or the part in front is finished. The newest key's page waits for it. */
    uint4 k[2][CHUNKS], v[4][HALVES];
    int page = begin_of(d, part);
    int to = end_of(d, part);
    bool early = page < to && page < pages_of(d) - 1;
    if (early)
        load_page(a, d, page, k, v);
    wait();
    for (;;) {
        prepare(a, d, to == pages_of(d), heads);
        __syncthreads();
        if (page < to && !early)
            load_page(a, d, page, k, v);

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
            const i64 place = next < to ? page_at(a, d, next) : 0;
            float s[4];
            score_page(a, d, page, slope, q, k, s);
            if (next < to)
                load_keys((const elem *)a.k + place, k);
            add_page(s, v, st, out);
            if (next < to)
                load_values((const elem *)a.v + place, d.kv_len - next * PAGE, v);
        }
        const struct decode here = d;
        const int first = part.first, parts = part.parts, mine_at = at;
        if (++at < run_end) {
            part = a.batch.parts[at];
            find_row(a, part, d);
            page = begin_of(d, part);
            to = end_of(d, part);
            early = page < to && page < pages_of(d) - 1;
            if (early)
                load_page(a, d, page, k, v);
        }

        /* the warps' shares together */
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
        for (int i = threadIdx.x; i < here.heads * HEAD_DIM; i += DECODE_WARPS * 32) {
            const int h = i / HEAD_DIM, dim = i % HEAD_DIM;
            float top = tops[0][h], sum = 0, value = 0; /* some warp has a page */
#pragma unroll
            for (int w = 1; w < DECODE_WARPS; w++)
                top = fmaxf(top, tops[w][h]);
#pragma unroll
            for (int w = 0; w < DECODE_WARPS; w++) {
                const float by = power_of_2(tops[w][h] - top);
                sum += totals[w][h] * by;
                value += outs[w][h][dim] * by;
            }
            const i64 head = (i64)here.row * a.heads + here.head0 + h;
            if (parts == 1) {
                sum += sink_of(a, here.head0 + h, top);
                ((elem *)a.out)[head * HEAD_DIM + dim] = from_float(value / sum);
                continue;
            }
            float *mine = part_of(a, mine_at, here.head0 + h);
            mine[dim] = value;
            if (dim == 0)
                *(float2 *)(mine + HEAD_DIM) = make_float2(top, sum);
        }
        if (parts > 1) {
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) {
                int *counter = a.counters + here.seq * gridDim.x + blockIdx.x;
                is_last = atomicAdd(counter, 1) == parts - 1;
                if (is_last)
                    *counter = 0;
            }
            __syncthreads();
            if (is_last) {
                __threadfence();
                /* outs is free again */
                add_parts(a, here, first, parts, (float(*)[CUDA_ROW_PARTS + 1]) outs);
            }
        }
        if (at >= run_end)
            return;
    }
}
