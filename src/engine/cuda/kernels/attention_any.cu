/* Attention of every token, of any head_dim up to 256, block size and dtype: the plain kernel, for
 * float32 and for shapes that the others do not take.
 *
 * grid = [tokens, heads], 128 threads: each takes one of 128 keys at a time, then the threads take
 * dimensions. */

enum { ANY_THREADS = 128, ANY_MOST_DIM = 256 };

/* The segment of token t; segments stand in the order of their tokens. */
__device__ static inline struct cuda_segment segment_of(const struct cuda_batch &b, int t)
{
    int lo = 0, hi = b.step->n_chunks + b.step->n_decodes - 1;
    while (lo < hi) {
        const int middle = (lo + hi + 1) / 2;
        if (b.segments[middle].first <= t)
            lo = middle;
        else
            hi = middle - 1;
    }
    return b.segments[lo];
}

__device__ static inline float block_max(float v, float *s)
{
    v = warp_max(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        s[threadIdx.x / 32] = v;
    __syncthreads();
    return fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
}

extern "C" __global__ void __launch_bounds__(ANY_THREADS)
    KERNEL(attention_any)(const __grid_constant__ struct cuda_attention_args a)
{
    __shared__ float q[ANY_MOST_DIM], p[ANY_THREADS], s[32];
    __shared__ i64 place[ANY_THREADS];
    begin();
    wait();
    const int t = blockIdx.x, head = blockIdx.y, d = a.head_dim, id = threadIdx.x;
    if (t >= a.batch.step->n_tokens)
        return;
    const struct cuda_segment segment = segment_of(a.batch, t);
    const int kv_head = head / (a.heads / a.kv_heads);
    const int position = segment.kv_before + t - segment.first;
    const int *blocks = a.batch.blocks + segment.table;
    for (int i = id; i < d; i += ANY_THREADS)
        q[i] = to_float(((const elem *)a.qkv)[((i64)t * (a.heads + 2 * a.kv_heads) + head) * d + i]);
    const float slope = a.slopes ? a.slopes[head] : 0;
    float largest = NONE, sum = 0, out[ANY_MOST_DIM / ANY_THREADS] = {0, 0};
    const int seen = a.window > 0 && a.window <= position ? position + 1 - a.window : 0;
    for (int first = seen; first <= position; first += ANY_THREADS) {
        const int key = first + id;
        const int keys = position + 1 - first < ANY_THREADS ? position + 1 - first : ANY_THREADS;
        float score = NONE;
        __syncthreads();
        if (id < keys) {
            place[id] = (((i64)blocks[key / a.block_size] * a.kv_heads + kv_head) * a.block_size +
                         key % a.block_size) *
                        d;
            const elem *k = (const elem *)a.k + place[id];
            score = 0;
            for (int i = 0; i < d; i++)
                score += q[i] * to_float(k[i]);
            score = score * a.scale + slope * (float)(key - position);
        }
        const float top = fmaxf(largest, block_max(score, s));
        const float shrink = expf(largest - top);
        largest = top;
        p[id] = id < keys ? expf(score - top) : 0;
        sum = sum * shrink + block_sum(p[id], s);
        for (int j = 0; j < ANY_MOST_DIM / ANY_THREADS; j++) {
            const int i = id + j * ANY_THREADS;
            if (i >= d)
                continue;
            float v = out[j] * shrink;
            for (int k = 0; k < keys; k++)
                v += p[k] * to_float(((const elem *)a.v)[place[k] + i]);
            out[j] = v;
        }
    }
    if (a.sinks) /* infinite where it is far above all scores: leaves 0 */
        sum += expf(to_float(((const elem *)a.sinks)[head]) - largest);
    for (int j = 0; j < ANY_MOST_DIM / ANY_THREADS; j++)
        if (id + j * ANY_THREADS < d)
            ((elem *)a.out)[((i64)t * a.heads + head) * d + id + j * ANY_THREADS] =
                from_float(out[j] / sum);
}
