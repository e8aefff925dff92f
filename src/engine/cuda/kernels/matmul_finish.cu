/* matmul.cu, matmul_one.cu: what follows the sums of a product. */

enum { MATMUL_WARPS = CUDA_MATMUL_WARPS };

__device__ static inline float residual_at(const struct cuda_matmul_args &a, int r, int o)
{
    return a.residual ? to_float(((const elem *)a.residual)[(i64)r * a.outs + o]) : 0;
}

/* Applies what follows the sum of row r, out feature o, and stores. */
__device__ static inline void finish(const struct cuda_matmul_args &a, int r, int o, float v,
                                     float up, float residual)
{
    const elem *bias = (const elem *)a.bias;
    if (bias) {
        v += to_float(bias[o]);
        if (a.act == CUDA_ACT_SILU_GATED)
            up += to_float(bias[a.outs + o]);
    }
    if (a.act == CUDA_ACT_SILU_GATED)
        v = v * sigmoid(v) * up;
    else if (a.act == CUDA_ACT_GELU_TANH)
        v = gelu(v);
    const i64 at = (i64)r * a.outs + o;
    v += residual;
    if (a.out_float)
        ((float *)a.out)[at] = v;
    else
        ((elem *)a.out)[at] = from_float(v);
}
