/* Random weights: Philox4x32-10 of base/philox.h, a block of 8 elements a thread. */

__device__ static inline void draw(u32 (&x)[4], u32 k0, u32 k1)
{
#pragma unroll
    for (int r = 0; r < 10; r++) {
        const u64 a = (u64)x[0] * 0xd2511f53u, b = (u64)x[2] * 0xcd9e8d57u;
        x[0] = (u32)(b >> 32) ^ x[1] ^ k0;
        x[1] = (u32)b;
        x[2] = (u32)(a >> 32) ^ x[3] ^ k1;
        x[3] = (u32)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

/* Where element i goes. */
__device__ static inline i64 place_of(const struct cuda_random_args &a, i64 i)
{
    if (a.width == 0)
        return i;
    const int column = (int)(i % a.width);
    const int row = a.pairs ? column % 2 * (a.width / 2) + column / 2 : column;
    return row * (a.n / a.width) + i / a.width;
}

extern "C" __global__ void KERNEL(random)(const __grid_constant__ struct cuda_random_args a)
{
    begin();
    wait();
    const i64 end = (a.first + a.n + CUDA_RANDOM_PER_BLOCK - 1) / CUDA_RANDOM_PER_BLOCK;
    const i64 step = (i64)gridDim.x * blockDim.x;
    i64 b = a.first / CUDA_RANDOM_PER_BLOCK + (i64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; b < end; b += step) {
        u32 x[4] = {(u32)b, (u32)(b >> 32), a.stream[0], a.stream[1]};
        draw(x, a.key[0], a.key[1]);
        const i64 first = b * CUDA_RANDOM_PER_BLOCK - a.first;
#pragma unroll
        for (int j = 0; j < CUDA_RANDOM_PER_BLOCK; j++)
            if (first + j >= 0 && first + j < a.n)
                ((elem *)a.out)[place_of(a, first + j)] =
                    from_float(a.quantiles[x[j / 2] >> (j % 2 * 16) & 0xffff]);
    }
}

extern "C" __global__ void KERNEL(fill)(const __grid_constant__ struct cuda_fill_args a)
{
    begin();
    wait();
    const elem v = from_float(a.value);
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step)
        ((elem *)a.out)[i] = v;
}
