/* Routing: each token's experts, the pairs in the order of their experts, and the sum of what the
 * experts made. */

enum {
    ROUTE_WARPS = 4,
    ROUTE_PER_LANE = CUDA_EXPERTS_MOST / 32,
    ROUTE_SMALL = 4, /* up to 128 experts */
    GROUP_THREADS = 256,
    GROUP_WARPS = GROUP_THREADS / 32
};

/* A warp takes a token. Lane l holds the logits of experts l, l + 32, ... */
template <int PER_LANE> __device__ static inline void route(const struct cuda_route_args &a)
{
    const int t = blockIdx.x * ROUTE_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (t >= *a.count)
        return;
    const float *logits = a.logits + (i64)t * a.experts;
    float v[PER_LANE], best = NONE, sum = 0;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        const int e = lane + 32 * i;
        v[i] = e < a.experts ? logits[e] : NONE;
        if (a.bias && e < a.experts)
            v[i] += to_float(((const elem *)a.bias)[e]);
        best = fmaxf(best, v[i]);
    }
    best = warp_max(best);
    if (a.over_all) {
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            sum += expf(v[i] - best);
        sum = warp_sum(sum);
    }
    float mine = 0; /* lane j: the j-th expert's weight before it is divided */
    for (int j = 0; j < a.k; j++) {
        float top = NONE;
        int at = CUDA_EXPERTS_MOST;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            if (v[i] > top) {
                top = v[i];
                at = lane + 32 * i;
            }
        for (int i = 16; i > 0; i >>= 1) {
            const float other = __shfl_xor_sync(0xffffffffu, top, i);
            const int other_at = __shfl_xor_sync(0xffffffffu, at, i);
            if (other > top || (other == top && other_at < at)) {
                top = other;
                at = other_at;
            }
        }
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) /* it is taken */
            if (lane + 32 * i == at)
                v[i] = NONE;
        const float e = expf(top - best);
        mine = lane == j ? e : mine;
        if (lane == 0)
            a.expert[(i64)t * a.k + j] = at < a.experts ? at : j; /* no number left: NaN */
    }
    if (!a.over_all)
        sum = warp_sum(mine);
    if (lane < a.k)
        a.weight[(i64)t * a.k + lane] = mine / sum;
}

/* grid = tokens / 4 */
extern "C" __global__ void KERNEL(route)(const __grid_constant__ struct cuda_route_args a)
{
    begin();
    wait();
    if (a.experts <= 32 * ROUTE_SMALL)
        route<ROUTE_SMALL>(a);
    else
        route<ROUTE_PER_LANE>(a);
}

/* Sum of v over the threads before this one; *all: over the block. s has a place per warp. */
__device__ static inline int before(int v, int *s, int *all)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = v;
    for (int i = 1; i < 32; i *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, i);
        sum += lane >= i ? other : 0;
    }
    __syncthreads();
    if (lane == 31)
        s[warp] = sum;
    __syncthreads();
    int total = 0, earlier = 0;
    for (int i = 0; i < GROUP_WARPS; i++) {
        earlier += i < warp ? s[i] : 0;
        total += s[i];
    }
    *all = total;
    return earlier + sum - v;
}

/* grid = experts: every block counts all pairs, and puts those of its own expert. */
extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
    KERNEL(group)(const __grid_constant__ struct cuda_group_args a)
{
    __shared__ int counts[CUDA_EXPERTS_MOST], s[GROUP_WARPS];
    begin();
    const int mine = blockIdx.x, id = threadIdx.x;
    for (int e = id; e < a.experts; e += GROUP_THREADS)
        counts[e] = 0;
    __syncthreads();
    wait();
    const int pairs = *a.count * a.k;
    for (int p = id; p < pairs; p += GROUP_THREADS)
        atomicAdd(&counts[a.expert[p]], 1);
    __syncthreads();
    int first = 0, first_tile = 0, all;
    for (int e = id; e < mine; e += GROUP_THREADS) {
        first += counts[e];
        first_tile += (counts[e] + a.rows - 1) / a.rows;
    }
    before(first, s, &first);
    before(first_tile, s, &first_tile);
    const int n = counts[mine], tiles = (n + a.rows - 1) / a.rows;
    for (int i = id; i < tiles; i += GROUP_THREADS) {
        const int left = n - i * a.rows;
        a.tiles[first_tile + i] =
            cuda_tile{mine, first + i * a.rows, left < a.rows ? left : a.rows};
    }
    if (mine == a.experts - 1 && id == 0)
        *a.n_tiles = first_tile + tiles;
    if (n == 0)
        return;
    for (int p0 = 0; p0 < pairs; p0 += GROUP_THREADS) {
        const int p = p0 + id;
        const bool is = p < pairs && a.expert[p] == mine;
        const int at = before(is, s, &all);
        if (is)
            a.order[first + at] = p;
        first += all;
    }
}

/* grid = [parts of a row, tokens] */
extern "C" __global__ void KERNEL(combine)(const __grid_constant__ struct cuda_combine_args a)
{
    begin();
    wait();
    const int t = blockIdx.y, i = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    if (t >= *a.count || i >= a.width)
        return;
    elem *x = (elem *)a.x + (i64)t * a.width + i;
    float sum[VEC] = {}, v[VEC];
    for (int j = 0; j < a.k; j++) {
        const i64 p = (i64)t * a.k + j;
        const float by = a.weight[p];
        load_vec((const elem *)a.y + p * a.width + i, v);
        for (int l = 0; l < VEC; l++)
            sum[l] += by * v[l];
    }
    load_vec(x, v);
    for (int l = 0; l < VEC; l++)
        v[l] += sum[l];
    store_vec(x, v);
}
