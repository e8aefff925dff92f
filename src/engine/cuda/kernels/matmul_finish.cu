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
        if (CUDA_ACT_IS_GATED(a.act))
            up += to_float(bias[a.outs + o]);
    }
    v = activated(a.act, v, up, 0, 0);
    const i64 at = (i64)r * a.outs + o;
    v += residual;
    if (a.out_float)
        ((float *)a.out)[at] = v;
    else
        ((elem *)a.out)[at] = from_float(v);
}
