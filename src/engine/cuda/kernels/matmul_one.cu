/* Products of one row, at the speed of reading the weights.
 *
 * A warp takes two out features at a time, or gate and up of one, and reads 512 bytes of a weight
 * row by an instruction: whole lines, which memory gives faster than the halves of lines that the
 * fragments of tensor cores want (matmul.cu). The input lies in shared memory, normed.
 *
 * Registers rotate: as soon as a vector is used its register takes the next stage's, also across
 * features, so that all of a stage is in flight all the time. The first stage's weights are loaded
 * before the kernels in front are complete.
 *
 * grid = at most CUDA_MATMUL_PER_SM blocks a multiprocessor; dynamic shared memory for the row.
 * Lanes' sums are added in a fixed order: results do not depend on timing. */

/* Vectors of a stage that a lane takes of each of the two rows, and of each of two long ones: with
 * as many a short row would leave half of its stage empty. */
enum { ONE_LOADS = 4, ONE_LOADS_LONG = 8, ONE_LONG = 512 /* vectors of a row */ };

/* sum + 16 bytes of weights times their inputs */
__device__ static inline float add_products(float sum, uint4 w, const float (&x)[VEC])
{
    float e[VEC];
    load_vec((const elem *)&w, e);
#pragma unroll
    for (int i = 0; i < VEC; i++)
        sum += e[i] * x[i];
    return sum;
}

/* e * by * norm for vector i of the row */
__device__ static inline void apply_norm(const struct cuda_matmul_args &a, int i, float by,
                                         float (&e)[VEC])
{
    float w[VEC];
    load_vec((const elem *)a.norm + (i64)i * VEC, w);
#pragma unroll
    for (int j = 0; j < VEC; j++)
        e[j] = e[j] * by * w[j];
}

/* The input row into shared memory, normed where a norm is given; what is to be multiplied with the
 * sums then. All threads. bfloat16 holds a row that is not yet divided by its size, so that one
 * pass is enough; a thread sees to the same vectors in both passes of the others. */
__device__ static inline float keep_input(const struct cuda_matmul_args &a, uint4 *kept,
                                          float *squares)
{
    const uint4 *x = (const uint4 *)((const elem *)a.x + (i64)(a.gather ? a.gather[0] : 0) * a.in);
    const int vectors = a.in / VEC, step = MATMUL_WARPS * 32;
    float e[VEC], square = 0;
    for (int i = threadIdx.x; i < vectors; i += step) {
        kept[i] = x[i];
        if (!a.norm)
            continue;
        load_vec((const elem *)&kept[i], e);
#pragma unroll
        for (int j = 0; j < VEC; j++)
            square += e[j] * e[j];
#if defined(ELEM_BF16)
        apply_norm(a, i, 1, e);
        store_vec((elem *)&kept[i], e);
#endif
    }
    if (!a.norm) {
        __syncthreads();
        return 1;
    }
    square = warp_sum(square);
    if (threadIdx.x % 32 == 0)
        squares[threadIdx.x / 32] = square;
    __syncthreads();
    square = 0;
#pragma unroll
    for (int i = 0; i < MATMUL_WARPS; i++)
        square += squares[i];
    const float by = 1.0f / sqrtf(square / a.in + a.eps);
#if !defined(ELEM_BF16)
    for (int i = threadIdx.x; i < vectors; i += step) {
        load_vec((const elem *)&kept[i], e);
        apply_norm(a, i, by, e);
        store_vec((elem *)&kept[i], e);
    }
    __syncthreads();
    return 1;
#else
    return by;
#endif
}

/* This lane's first vector of a unit's two weight rows: of out features 2 unit and 2 unit + 1, or
 * gate and up of one. */
template <bool GATED>
__device__ static inline void find_rows(const struct cuda_matmul_args &a, int unit,
                                        const uint4 *(&rows)[2])
{
    const int first = GATED ? unit : 2 * unit;
    const int second = GATED ? a.outs + unit : first + 1 < a.outs ? first + 1 : first;
    const int vectors = a.in / VEC, lane = threadIdx.x % 32;
    rows[0] = (const uint4 *)a.weight + (i64)first * vectors + lane;
    rows[1] = (const uint4 *)a.weight + (i64)second * vectors + lane;
}

template <bool GATED, int LOADS>
__device__ static inline void multiply_one(const struct cuda_matmul_args &a, uint4 *kept,
                                           float *squares)
{
    enum { STAGE = LOADS * 32 };
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int vectors = a.in / VEC, stages = (vectors + STAGE - 1) / STAGE;
    const int units = GATED ? a.outs : (a.outs + 1) / 2, step = gridDim.x * MATMUL_WARPS;
    int unit = blockIdx.x * MATMUL_WARPS + warp;
    const uint4 *rows[2], none = make_uint4(0, 0, 0, 0);
    uint4 w[2][LOADS];
    find_rows<GATED>(a, unit < units ? unit : 0, rows);
#pragma unroll
    for (int u = 0; u < LOADS; u++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            w[i][u] =
                unit < units && lane + u * 32 < vectors ? load_line_early(rows[i] + u * 32) : none;
    const int n = *a.count;
    wait();
    if (n == 0)
        return;
    const float by = keep_input(a, kept, squares);
    for (; unit < units; unit += step) {
        const int o = GATED ? unit : 2 * unit + lane % 2;
        const bool finishes = lane < (GATED ? 1 : 2) && o < a.outs;
        const float residual = finishes ? residual_at(a, 0, o) : 0;
        float sum[2] = {};
        for (int stage = 0; stage < stages; stage++) {
            const bool last = stage + 1 == stages, more = !last || unit + step < units;
            const int here = stage * STAGE + lane, next = last ? 0 : (stage + 1) * STAGE;
            if (last && more)
                find_rows<GATED>(a, unit + step, rows);
#pragma unroll
            for (int u = 0; u < LOADS; u++) {
                const bool inside = more && next + lane + u * 32 < vectors;
                const uint4 v = here + u * 32 < vectors ? kept[here + u * 32] : none;
                float x[VEC];
                load_vec((const elem *)&v, x);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    sum[i] = add_products(sum[i], w[i][u], x);
                    w[i][u] = inside ? load_line(rows[i] + next + u * 32) : none;
                }
            }
        }
        sum[0] = warp_sum(sum[0]);
        sum[1] = warp_sum(sum[1]);
        if (finishes)
            finish(a, 0, o, by * (GATED || lane == 0 ? sum[0] : sum[1]), by * sum[1], residual);
    }
}

template <bool GATED> __device__ static inline void matmul_row(const struct cuda_matmul_args &a)
{
    DYNAMIC_SHARED(uint4, kept);
    __shared__ float squares[MATMUL_WARPS];
    begin();
    if (a.in / VEC >= ONE_LONG)
        multiply_one<GATED, ONE_LOADS_LONG>(a, kept, squares);
    else
        multiply_one<GATED, ONE_LOADS>(a, kept, squares);
}

#define ENTRY_ONE(name, gated)                                                          \
    extern "C" __global__ void __launch_bounds__(MATMUL_WARPS * 32, CUDA_MATMUL_PER_SM) \
        KERNEL(name)(const __grid_constant__ struct cuda_matmul_args a)                 \
    {                                                                                   \
        matmul_row<gated>(a);                                                           \
    }

ENTRY_ONE(matmul_one, false)
ENTRY_ONE(matmul_one_gated, true)
