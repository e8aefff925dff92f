/* Random weights. xoshiro256++ (Blackman and Vigna 2019) is linear over GF(2): the state after n
 * draws is a matrix times the state, so every thread reaches its own part of the stream. Row i of a
 * matrix is the state that bit i of the state becomes. */

__device__ static inline u64 turned(u64 x, int k)
{
    return (x << k) | (x >> (64 - k));
}

__device__ static inline u64 next_draw(u64 (&s)[4])
{
    const u64 result = turned(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = turned(s[3], 45);
    return result;
}

__device__ static inline void jump(u64 (&s)[4], const u64 *matrix)
{
    u64 to[4] = {0, 0, 0, 0};
    for (int w = 0; w < 4; w++)
        for (int b = 0; b < 64; b++) {
            const u64 mask = 0 - (s[w] >> b & 1);
            const ulonglong2 *row = (const ulonglong2 *)(matrix + (w * 64 + b) * 4);
            const ulonglong2 lo = row[0], hi = row[1];
            to[0] ^= lo.x & mask;
            to[1] ^= lo.y & mask;
            to[2] ^= hi.x & mask;
            to[3] ^= hi.y & mask;
        }
    for (int w = 0; w < 4; w++)
        s[w] = to[w];
}

extern "C" __global__ void KERNEL(random)(const __grid_constant__ struct cuda_random_args a)
{
    begin();
    wait();
    const u64 part = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const i64 first = (i64)part * CUDA_RANDOM_DRAWS * 4;
    if (first >= a.n)
        return;
    u64 s[4] = {a.state[0], a.state[1], a.state[2], a.state[3]};
    for (int b = 0; b < CUDA_RANDOM_JUMPS; b++)
        if (part >> b & 1)
            jump(s, a.jumps + (i64)b * CUDA_RANDOM_JUMP_WORDS);
    elem *out = (elem *)a.out + first;
    const i64 left = a.n - first;
    for (int i = 0; i < CUDA_RANDOM_DRAWS * 4 && i < left; i += 4) {
        const u64 draw = next_draw(s);
        for (int j = 0; j < 4 && i + j < left; j++)
            out[i + j] = from_float(a.quantiles[draw >> (16 * j) & 0xffff]);
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
