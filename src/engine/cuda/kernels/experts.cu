/* Grouped products: of each expert the rows of its pairs with its weights.
 *
 * grid = [out tiles, tiles]: a block takes a tile of up to ROWS pairs of one expert (kernels/route.cu
 * makes the list, on the device, so that no number goes by way of the host) and 64 rows of its
 * weights: 64 out features, or gate and up of 32. Blocks of the same weights follow each other: what
 * the second tile of an expert reads is in the L2 cache.
 *
 * 64 elements of the inner dimension at a time, of both operands, by cp.async into one of 4 stages
 * of shared memory; three are on their way while one is multiplied. Rows of shared memory are
 * swizzled in units of 16 bytes so that ldmatrix meets no bank twice. Tiles of 16 pairs: a warp has
 * a quarter of the weight rows; of 64: a quarter of the pairs. The weight rows of a gated product
 * are laid out so that gate and up of a feature meet in the same lane.
 *
 * float32 has no tensor cores: a warp takes an out feature, its lanes the inner dimension. */

enum { EXPERTS_WARPS = 4, WEIGHT_ROWS = 64 };

/* Row r of the block's weight rows: its out feature, and whether it is of up. */
__device__ static inline int feature_of(bool gated, int r, bool *is_up)
{
    *is_up = gated && r / 8 % 2 != 0;
    return gated ? blockIdx.x * (WEIGHT_ROWS / 2) + r / 16 * 8 + r % 8
                 : blockIdx.x * WEIGHT_ROWS + r;
}

__device__ static inline float bias_at(const struct cuda_experts_args &a, int expert, int o,
                                       bool is_up)
{
    if (!a.bias)
        return 0;
    const i64 at = expert * a.bias_step + (is_up ? a.outs : 0) + o;
    return to_float(((const elem *)a.bias)[at]);
}

__device__ static inline const elem *input_of(const struct cuda_experts_args &a,
                                              const struct cuda_tile &tile, int row)
{
    return (const elem *)a.x + (i64)(a.order[tile.first + row] / a.share) * a.in;
}

__device__ static inline const elem *weight_of(const struct cuda_experts_args &a, int expert, int o,
                                               bool is_up)
{
    return (const elem *)a.weight + expert * a.weight_step +
           (i64)((is_up ? a.outs : 0) + o) * a.in;
}

#if defined(ELEM_F32)

template <int ROWS> __device__ static inline void experts(const struct cuda_experts_args &a)
{
    const bool gated = CUDA_ACT_IS_GATED(a.act);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    begin();
    wait();
    if ((int)blockIdx.y >= *a.n_tiles)
        return;
    const struct cuda_tile tile = a.tiles[blockIdx.y];
    for (int r = warp; r < WEIGHT_ROWS; r += EXPERTS_WARPS) {
        bool is_up;
        const int o = feature_of(gated, r, &is_up);
        if (is_up || o >= a.outs)
            continue;
        const elem *w = weight_of(a, tile.expert, o, false), *u = w + (i64)a.outs * a.in;
        for (int i = 0; i < tile.n; i++) {
            const elem *x = input_of(a, tile, i);
            float sum = 0, up = 0;
            for (int j = lane; j < a.in; j += 32) {
                sum += w[j] * x[j];
                if (gated)
                    up += u[j] * x[j];
            }
            sum = warp_sum(sum) + bias_at(a, tile.expert, o, false);
            up = gated ? warp_sum(up) + bias_at(a, tile.expert, o, true) : 0;
            if (lane == 0)
                ((elem *)a.out)[(i64)a.order[tile.first + i] * a.outs + o] =
                    activated(a.act, sum, up, a.alpha, a.limit);
        }
    }
}

#else

enum { DEPTH = 64, STAGES = 4, UNITS = DEPTH / 8 };

__device__ static inline u32 stage_at(const elem *base, int row, int unit)
{
    return shared_address(base + row * DEPTH + ((unit ^ row % 8) * 8));
}

/* What a thread copies of a stage: unit `unit` of rows row0, row0 + 16, ... of each operand. */
template <int ROWS> struct source {
    const elem *x[ROWS / 16], *w[WEIGHT_ROWS / 16];
};

template <int ROWS>
__device__ static inline void copy_stage(const struct cuda_experts_args &a,
                                         const struct source<ROWS> &from, int k0, elem *x, elem *w)
{
    const int row0 = threadIdx.x / UNITS, unit = threadIdx.x % UNITS, k = k0 + unit * 8;
    const bool inside = k < a.in;
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++) {
        const bool valid = inside && from.x[i];
        ptx_cp_async_16(stage_at(x, row0 + 16 * i, unit), valid ? from.x[i] + k : (const elem *)a.x,
                        valid ? 16 : 0);
    }
#pragma unroll
    for (int i = 0; i < WEIGHT_ROWS / 16; i++) {
        const bool valid = inside && from.w[i];
        ptx_cp_async_16(stage_at(w, row0 + 16 * i, unit),
                        valid ? from.w[i] + k : (const elem *)a.weight, valid ? 16 : 0);
    }
}

template <int ROWS> __device__ static inline void experts(const struct cuda_experts_args &a)
{
    /* of a warp: the pairs are shared out, or the weight rows */
    enum {
        PAIR_WARPS = ROWS / 16,
        WARP_WEIGHTS = WEIGHT_ROWS * PAIR_WARPS / EXPERTS_WARPS,
        FRAGMENTS = WARP_WEIGHTS / 8,
        STAGE_ELEMS = (ROWS + WEIGHT_ROWS) * DEPTH
    };
    DYNAMIC_SHARED(uint4, shared);
    const bool gated = CUDA_ACT_IS_GATED(a.act);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    begin();
    wait();
    if ((int)blockIdx.y >= *a.n_tiles)
        return;
    const struct cuda_tile tile = a.tiles[blockIdx.y];
    struct source<ROWS> from;
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++) {
        const int row = threadIdx.x / UNITS + 16 * i;
        from.x[i] = row < tile.n ? input_of(a, tile, row) : 0;
    }
#pragma unroll
    for (int i = 0; i < WEIGHT_ROWS / 16; i++) {
        bool is_up;
        const int o = feature_of(gated, threadIdx.x / UNITS + 16 * i, &is_up);
        from.w[i] = o < a.outs ? weight_of(a, tile.expert, o, is_up) : 0;
    }
    elem *const x_stages = (elem *)shared, *const w_stages = x_stages + ROWS * DEPTH;
    const int steps = (a.in + DEPTH - 1) / DEPTH;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            copy_stage<ROWS>(a, from, s * DEPTH, x_stages + s * STAGE_ELEMS,
                             w_stages + s * STAGE_ELEMS);
        ptx_cp_async_commit_group();
    }
    const int pair0 = ROWS == 16 ? 0 : warp * 16, weight0 = ROWS == 16 ? warp * WARP_WEIGHTS : 0;
    const int m = lane / 8, r8 = lane % 8;
    float sum[FRAGMENTS][4] = {};
    for (int step = 0; step < steps; step++) {
        ptx_cp_async_wait_group_2(); /* this stage is here */
        __syncthreads();             /* for all threads, and the one before is free */
        const int next = step + STAGES - 1;
        if (next < steps)
            copy_stage<ROWS>(a, from, next * DEPTH, x_stages + next % STAGES * STAGE_ELEMS,
                             w_stages + next % STAGES * STAGE_ELEMS);
        ptx_cp_async_commit_group();
        const elem *x = x_stages + step % STAGES * STAGE_ELEMS,
                   *w = w_stages + step % STAGES * STAGE_ELEMS;
#pragma unroll
        for (int i = 0; i < DEPTH / 16; i++) {
            u32 p[4];
            ptx_ldmatrix_x4(p, stage_at(x, pair0 + (m & 1) * 8 + r8, 2 * i + (m >> 1)));
#pragma unroll
            for (int n = 0; n < FRAGMENTS / 2; n++) {
                u32 b[4];
                ptx_ldmatrix_x4(
                    b, stage_at(w, weight0 + n * 16 + (m >> 1) * 8 + r8, 2 * i + (m & 1)));
                mma(sum[2 * n], p[0], p[1], p[2], p[3], b[0], b[1]);
                mma(sum[2 * n + 1], p[0], p[1], p[2], p[3], b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = pair0 + g + 8 * half;
        if (row >= tile.n)
            continue;
        elem *out = (elem *)a.out + (i64)a.order[tile.first + row] * a.outs;
#pragma unroll
        for (int n = 0; n < FRAGMENTS; n++) {
            bool is_up;
            const int o = feature_of(gated, weight0 + n * 8, &is_up) + 2 * t;
            if (is_up || o >= a.outs)
                continue;
            float v[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float u = gated ? sum[(n + 1) % FRAGMENTS][2 * half + i] +
                                            bias_at(a, tile.expert, o + i, true)
                                      : 0;
                v[i] = activated(a.act,
                                 sum[n][2 * half + i] + bias_at(a, tile.expert, o + i, false),
                                 u, a.alpha, a.limit);
            }
            *(u32 *)(out + o) = pack(v[0], v[1]);
        }
    }
}

#endif

#define ENTRY_EXPERTS(name, rows)                                        \
    extern "C" __global__ void __launch_bounds__(EXPERTS_WARPS * 32)     \
        KERNEL(name)(const __grid_constant__ struct cuda_experts_args a) \
    {                                                                    \
        experts<rows>(a);                                                \
    }

ENTRY_EXPERTS(experts_few, CUDA_TILE_FEW)
ENTRY_EXPERTS(experts_many, CUDA_TILE_MANY)
