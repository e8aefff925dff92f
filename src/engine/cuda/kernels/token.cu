/* Kernels over tokens: embedding, norms, activation, bias. A block takes one row. */

extern "C" __global__ void KERNEL(embed)(const __grid_constant__ struct cuda_embed_args a)
{
    begin();
    wait();
    const int t = blockIdx.x;
    if (t >= a.batch.step->n_tokens)
        return;
    int id = a.batch.ids[t];
    if (id < 0)
        id = a.batch.last[-1 - id];
    const uint4 *from = (const uint4 *)((const elem *)a.table + (i64)id * a.hidden);
    uint4 *to = (uint4 *)((elem *)a.x + (i64)t * a.hidden);
    for (int i = threadIdx.x; i < a.hidden / VEC; i += blockDim.x) {
        uint4 row = from[i];
        if (a.scale != 0) {
            float v[VEC];
            load_vec((const elem *)&row, v);
            for (int j = 0; j < VEC; j++)
                v[j] *= a.scale;
            store_vec((elem *)&row, v);
        }
        to[i] = row;
    }
}

/* Each thread handles the same elements in every pass, so a pass may read what the one before
 * stored. */
extern "C" __global__ void KERNEL(norm)(const __grid_constant__ struct cuda_norm_args a)
{
    __shared__ float s[32];
    begin();
    wait();
    const int r = blockIdx.x;
    if (r >= *a.count)
        return;
    const i64 from = (i64)(a.gather ? a.gather[r] : r) * a.width;
    const elem *x = (const elem *)a.x + from;
    const elem *add = a.add ? (const elem *)a.add + from : 0;
    elem *sum = a.sum ? (elem *)a.sum + from : 0;
    const elem *residual = a.residual ? (const elem *)a.residual + (i64)r * a.width : 0;
    elem *out = (elem *)a.out + (i64)r * a.width;
    const int step = blockDim.x * VEC, first = threadIdx.x * VEC;
    float total = 0;
    for (int i = first; i < a.width; i += step) {
        float v[VEC], w[VEC];
        load_vec(x + i, v);
        if (add) {
            load_vec(add + i, w);
            for (int j = 0; j < VEC; j++)
                v[j] = rounded(v[j] + w[j]);
        }
        if (sum)
            store_vec(sum + i, v);
        for (int j = 0; j < VEC; j++)
            total += a.bias ? v[j] : v[j] * v[j];
    }
    /* Without sum the addition is done again: cheaper than keeping rows of any width. */
    const elem *again = sum ? sum : x;
    const elem *add_again = sum ? 0 : add;
    const float mean = a.bias ? block_sum(total, s) / a.width : 0;
    if (a.bias) {
        total = 0;
        for (int i = first; i < a.width; i += step) {
            float v[VEC], w[VEC];
            load_vec(again + i, v);
            if (add_again)
                load_vec(add_again + i, w);
            for (int j = 0; j < VEC; j++) {
                const float d = (add_again ? rounded(v[j] + w[j]) : v[j]) - mean;
                total += d * d;
            }
        }
    }
    const float inv = 1.0f / sqrtf(block_sum(total, s) / a.width + a.eps);
    for (int i = first; i < a.width; i += step) {
        float v[VEC], w[VEC], b[VEC];
        load_vec(again + i, v);
        if (add_again) {
            load_vec(add_again + i, w);
            for (int j = 0; j < VEC; j++)
                v[j] = rounded(v[j] + w[j]);
        }
        load_vec((const elem *)a.weight + i, w);
        if (a.bias)
            load_vec((const elem *)a.bias + i, b);
        for (int j = 0; j < VEC; j++)
            v[j] = a.bias ? (v[j] - mean) * inv * w[j] + b[j] : v[j] * inv * (w[j] + a.offset);
        if (residual) {
            load_vec(residual + i, w);
            for (int j = 0; j < VEC; j++)
                v[j] = w[j] + rounded(v[j]);
        }
        store_vec(out + i, v);
    }
}

extern "C" __global__ void KERNEL(act)(const __grid_constant__ struct cuda_act_args a)
{
    begin();
    wait();
    const int t = blockIdx.y;
    if (t >= *a.count)
        return;
    const bool gated = CUDA_ACT_IS_GATED(a.act);
    const elem *up = (const elem *)a.up + (i64)t * a.width * (gated ? 2 : 1);
    const elem *bias = (const elem *)a.bias;
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    if (i >= a.width)
        return;
    float v[VEC], w[VEC];
    load_vec(up + i, v);
    if (bias) {
        load_vec(bias + i, w);
        for (int j = 0; j < VEC; j++)
            v[j] += w[j];
    }
    if (gated) {
        float b[VEC];
        load_vec(up + a.width + i, w);
        if (bias)
            load_vec(bias + a.width + i, b);
        for (int j = 0; j < VEC; j++)
            v[j] = activated(a.act, v[j], bias ? w[j] + b[j] : w[j], 0, 0);
    } else {
        for (int j = 0; j < VEC; j++)
            v[j] = gelu(v[j]);
    }
    store_vec((elem *)a.out + (i64)t * a.width + i, v);
}

extern "C" __global__ void KERNEL(bias)(const __grid_constant__ struct cuda_bias_args a)
{
    begin();
    wait();
    const int t = blockIdx.y, i = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    if (t >= *a.count || i >= a.width)
        return;
    elem *x = (elem *)a.x + (i64)t * a.width + i;
    float v[VEC], w[VEC];
    load_vec(x, v);
    load_vec((const elem *)a.bias + i, w);
    for (int j = 0; j < VEC; j++)
        v[j] += w[j];
    store_vec(x, v);
}
