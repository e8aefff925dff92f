/* Matrix products of few rows, at the speed of reading the weights.
 *
 * A tile is 8 out features, or two or gate and up 8 each. The block's 8 warps divide the inner
 * dimension; a stage is 4 or 8 vectors of 16 bytes per lane, 1,024 or 2,048 elements of each weight
 * row. Weights go from memory into registers and from there into the tensor cores as operand b
 * [16, 8]; the rows of x are operand a. The order of the inner dimension inside a product is free
 * as long as both operands have the same: lane 4 g + t takes elements 8 t .. 8 t + 7 of every 32,
 * which are contiguous.
 *
 * Registers rotate: as soon as a vector is used its registers take the next stage's, also across
 * tiles, so that all of a stage is in flight all the time. The first stage's weights are loaded
 * before the kernels in front are complete.
 *
 * Sums of warps are added in the order of the warps: results do not depend on timing. */

enum { NORM_KEPT = 4096 };

__device__ static inline const elem *input_row(const struct cuda_matmul_args &a, int r, int n)
{
    r = r < n ? r : n > 0 ? n - 1 : 0;
    return (const elem *)a.x + (i64)(a.gather ? a.gather[r] : r) * a.in;
}

#if !defined(ELEM_F32)

/* First weight row of tile i of this block's tiles; gated, tile 1 is the up part of tile 0. */
template <int TILES, bool GATED>
__device__ static inline i64 weight_row(const struct cuda_matmul_args &a, int tile, int i, int g)
{
    if (GATED) {
        const int o = tile * 8 + g;
        return (o < a.outs ? o : a.outs - 1) + (i64)i * a.outs;
    }
    const int o = (tile * TILES + i) * 8 + g;
    return o < a.outs ? o : a.outs - 1;
}

/* Where this lane's vectors of a stage begin, per tile; they are 32 elements apart. */
template <int TILES, bool GATED>
__device__ static inline void stage_at(const struct cuda_matmul_args &a, int tile, int k,
                                       const elem *(&p)[TILES])
{
#pragma unroll
    for (int i = 0; i < TILES; i++)
        p[i] = (const elem *)a.weight +
               weight_row<TILES, GATED>(a, tile, i, threadIdx.x % 32 / 4) * a.in + k;
}

/* x * norm, packed again; *square += the squares of x. */
__device__ static inline u32 normed(u32 x, u32 norm, float scale, float *square)
{
    float lo, hi, wlo, whi;
    unpack(x, &lo, &hi);
    unpack(norm, &wlo, &whi);
    *square += lo * lo + hi * hi;
    return pack(lo * scale * wlo, hi * scale * whi);
}

__device__ static inline uint4 no_vector(void)
{
    return make_uint4(0, 0, 0, 0);
}

template <int TILES, int HALVES> struct shared_memory {
    float sums[2 * MATMUL_WARPS * TILES * HALVES * 64], squares[MATMUL_WARPS * HALVES * 8];
    uint4 norm[NORM_KEPT / 8]; /* the norm's weights, where they fit */
};

template <int TILES, int HALVES, bool GATED, bool NORM>
__device__ static inline void multiply(const struct cuda_matmul_args &a,
                                       struct shared_memory<TILES, HALVES> &s)
{
    enum {
        ROWS = HALVES * 8,
        SUMS = TILES * ROWS * 8,
        STAGE = TILES == 1 && HALVES == 1 && !NORM ? 8 : 4,
        STAGE_ELEMS = MATMUL_WARPS * STAGE * 32
    };
    float(*const sums)[MATMUL_WARPS][SUMS] = (float(*)[MATMUL_WARPS][SUMS])s.sums;
    float(*const squares)[ROWS] = (float(*)[ROWS])s.squares; /* float16: [0] holds scales */
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int per_tile = GATED ? 8 : TILES * 8;
    const int tiles = (a.outs + per_tile - 1) / per_tile;
    const int stages = (a.in + STAGE_ELEMS - 1) / STAGE_ELEMS;
    const int k0 = warp * (STAGE * 32) + t * 8; /* of stage 0 */
    const uint4 *norm = a.in <= NORM_KEPT ? s.norm : (const uint4 *)a.norm;
    int tile = blockIdx.x;
    uint4 w[TILES][STAGE], v[HALVES][STAGE];
    const elem *p[TILES];
    if (tile < tiles)
        stage_at<TILES, GATED>(a, tile, k0, p);
#pragma unroll
    for (int u = 0; u < STAGE; u++) {
        const bool inside = tile < tiles && k0 + u * 32 < a.in;
#pragma unroll
        for (int i = 0; i < TILES; i++)
            w[i][u] = inside ? load_once_early(p[i] + u * 32) : no_vector();
    }
    for (int i = threadIdx.x; NORM && a.in <= NORM_KEPT && i < a.in / 8; i += MATMUL_WARPS * 32)
        s.norm[i] = ((const uint4 *)a.norm)[i];
    const int n = *a.count;
    const elem *x[HALVES];
    float scale[HALVES];
#pragma unroll
    for (int h = 0; h < HALVES; h++)
        x[h] = input_row(a, g + 8 * h, n), scale[h] = 1;
    wait();
    if (n == 0)
        return;
#pragma unroll
    for (int u = 0; u < STAGE; u++)
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            v[h][u] = k0 + u * 32 < a.in ? *(const uint4 *)(x[h] + k0 + u * 32) : no_vector();
    if (NORM)
        __syncthreads();
#if defined(ELEM_F16)
    /* float16 cannot hold an input that is not yet divided by its size: that comes first here */
    if (NORM) {
        for (int r = warp; r < ROWS; r += MATMUL_WARPS) {
            const elem *row = input_row(a, r, n);
            float square = 0;
            for (int i = threadIdx.x % 32 * VEC; i < a.in; i += 32 * VEC) {
                float e[VEC];
                load_vec(row + i, e);
                for (int j = 0; j < VEC; j++)
                    square += e[j] * e[j];
            }
            square = warp_sum(square);
            if (threadIdx.x % 32 == 0)
                squares[0][r] = 1.0f / sqrtf(square / a.in + a.eps);
        }
        __syncthreads();
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            scale[h] = squares[0][g + 8 * h];
    }
#endif
    /* The sum that this thread finishes in every tile. */
    static_assert((GATED ? ROWS * 8 : SUMS) <= MATMUL_WARPS * 32, "a thread finishes one sum");
    const int id = threadIdx.x, r = id / 8 % ROWS, col = id % 8;
    const bool finishes = id < (GATED ? ROWS * 8 : SUMS) && r < n;
    bool first = true;
    for (int buffer = 0; tile < tiles; tile += gridDim.x, buffer ^= 1, first = false) {
        const int o = GATED ? tile * 8 + col : (tile * TILES + id / (ROWS * 8)) * 8 + col;
        const float residual = finishes && o < a.outs ? residual_at(a, r, o) : 0;
        float acc[TILES][4] = {};
        float square[HALVES] = {};
        for (int stage = 0; stage < stages; stage++) {
            const bool last = stage + 1 == stages;
            const int k = stage * STAGE_ELEMS + k0, k_next = last ? k0 : k + STAGE_ELEMS;
            const int tile_next = last ? tile + (int)gridDim.x : tile;
            const bool more = tile_next < tiles;
            if (more)
                stage_at<TILES, GATED>(a, tile_next, k_next, p);
#pragma unroll
            for (int u = 0; u < STAGE; u++) {
                uint4 b[2] = {no_vector(), no_vector()}, m = no_vector();
                if (NORM && k + u * 32 < a.in)
                    m = norm[(k + u * 32) / 8];
#pragma unroll
                for (int h = 0; h < HALVES; h++) {
                    b[h] = v[h][u];
                    if (NORM) {
                        b[h].x = normed(b[h].x, m.x, scale[h], &square[h]);
                        b[h].y = normed(b[h].y, m.y, scale[h], &square[h]);
                        b[h].z = normed(b[h].z, m.z, scale[h], &square[h]);
                        b[h].w = normed(b[h].w, m.w, scale[h], &square[h]);
                    }
                }
                const bool inside = more && k_next + u * 32 < a.in;
#pragma unroll
                for (int i = 0; i < TILES; i++) {
                    mma(acc[i], b[0].x, b[1].x, b[0].y, b[1].y, w[i][u].x, w[i][u].y);
                    mma(acc[i], b[0].z, b[1].z, b[0].w, b[1].w, w[i][u].z, w[i][u].w);
                    w[i][u] = inside ? load_once(p[i] + u * 32) : no_vector();
                }
                if (stages > 1) { /* else they stay */
#pragma unroll
                    for (int h = 0; h < HALVES; h++)
                        v[h][u] = inside ? *(const uint4 *)(x[h] + k_next + u * 32) : no_vector();
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int h = 0; h < HALVES; h++) {
                float *to = &sums[buffer][warp][(i * ROWS + h * 8 + g) * 8 + 2 * t];
                to[0] = acc[i][2 * h];
                to[1] = acc[i][2 * h + 1];
            }
#if !defined(ELEM_F16)
        if (NORM && first) {
#pragma unroll
            for (int h = 0; h < HALVES; h++) {
                square[h] += __shfl_xor_sync(0xffffffffu, square[h], 1);
                square[h] += __shfl_xor_sync(0xffffffffu, square[h], 2);
                if (t == 0)
                    squares[warp][h * 8 + g] = square[h];
            }
        }
#endif
        __syncthreads();
        if (!finishes || o >= a.outs)
            continue;
        float sum = 0, up = 0, by = 1;
#pragma unroll
        for (int i = 0; i < MATMUL_WARPS; i++) {
            sum += sums[buffer][i][id];
            if (GATED)
                up += sums[buffer][i][ROWS * 8 + id];
        }
#if !defined(ELEM_F16)
        if (NORM) {
            float square_sum = 0;
#pragma unroll
            for (int i = 0; i < MATMUL_WARPS; i++)
                square_sum += squares[i][r];
            by = 1.0f / sqrtf(square_sum / a.in + a.eps);
        }
#endif
        finish(a, r, o, sum * by, up * by, residual);
    }
}

template <int TILES, int HALVES, bool GATED>
__device__ static inline void matmul(const struct cuda_matmul_args &a)
{
    __shared__ struct shared_memory<TILES, HALVES> s;
    begin();
    if (a.norm)
        multiply<TILES, HALVES, GATED, true>(a, s);
    else
        multiply<TILES, HALVES, GATED, false>(a, s);
}

#else

/* float32: a warp per out feature, plain sums. */
template <int TILES, int HALVES, bool GATED>
__device__ static inline void matmul(const struct cuda_matmul_args &a)
{
    enum { ROWS = HALVES * 8 };
    __shared__ float scales[ROWS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    begin();
    wait();
    const int n = *a.count;
    for (int r = warp; a.norm && r < n; r += MATMUL_WARPS) {
        const elem *row = input_row(a, r, n);
        float square = 0;
        for (int i = lane; i < a.in; i += 32)
            square += row[i] * row[i];
        square = warp_sum(square);
        if (lane == 0)
            scales[r] = 1.0f / sqrtf(square / a.in + a.eps);
    }
    __syncthreads();
    for (int o = blockIdx.x * MATMUL_WARPS + warp; o < a.outs; o += gridDim.x * MATMUL_WARPS) {
        float acc[ROWS] = {}, up[ROWS] = {};
        for (int k = lane * VEC; k < a.in; k += 32 * VEC) {
            float w[VEC], u[VEC], m[VEC];
            load_vec((const elem *)a.weight + (i64)o * a.in + k, w);
            if (GATED)
                load_vec((const elem *)a.weight + (i64)(a.outs + o) * a.in + k, u);
            if (a.norm)
                load_vec((const elem *)a.norm + k, m);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float x[VEC];
                if (r >= n)
                    continue;
                load_vec(input_row(a, r, n) + k, x);
                for (int j = 0; j < VEC; j++) {
                    const float v = a.norm ? x[j] * scales[r] * m[j] : x[j];
                    acc[r] += v * w[j];
                    if (GATED)
                        up[r] += v * u[j];
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float v = warp_sum(acc[r]), u = GATED ? warp_sum(up[r]) : 0;
            if (lane == 0 && r < n)
                finish(a, r, o, v, u, residual_at(a, r, o));
        }
    }
}

#endif

#define ENTRY(name, tiles, halves, gated)                                               \
    extern "C" __global__ void __launch_bounds__(MATMUL_WARPS * 32, CUDA_MATMUL_PER_SM) \
        KERNEL(name)(const __grid_constant__ struct cuda_matmul_args a)                 \
    {                                                                                   \
        matmul<tiles, halves, gated>(a);                                                \
    }

ENTRY(matmul_few, 1, 1, false)
ENTRY(matmul_few_wide, 2, 1, false)
ENTRY(matmul_few_gated, 2, 1, true)
ENTRY(matmul_some, 1, 2, false)
ENTRY(matmul_some_wide, 2, 2, false)
ENTRY(matmul_some_gated, 2, 2, true)
