/* decode_step.cu: inputs of products, out of what blocks have handed on into shared memory. */

__device__ static inline int input_stride(int in)
{
    return (in + 2 * SPAN - 1) / (2 * SPAN) * (2 * SPAN) + 8;
}

/* A unit of 4 elements in row r of the input, pairs at [0] and [2]; what chunks reach behind the
 * row is 0. */
__device__ static inline u32 *unit_at(const struct block &b, int in, int r, int unit)
{
    return (u32 *)(b.s->x + r * input_stride(in)) + unit / 2 * 4 + unit % 2;
}

__device__ static inline u32 scaled(u32 x, u32 norm, float by)
{
    float lo, hi, wlo, whi;
    unpack(x, &lo, &hi);
    unpack(norm, &wlo, &whi);
    return pack(lo * by * wlo, hi * by * whi);
}

__device__ static inline void scale_unit(u32 *p, uint2 norm, float by)
{
    p[0] = scaled(p[0], norm.x, by);
    p[2] = scaled(p[2], norm.y, by);
}

__device__ static inline float square_of(uint2 v)
{
    float a, b, c, d;
    unpack(v.x, &a, &b);
    unpack(v.y, &c, &d);
    return a * a + b * b + c * c + d * d;
}

/* Row r of the token embeddings. */
__device__ static inline const elem *embedding_of(const struct block &b, int r)
{
    const struct cuda_batch &batch = b.a->attention.batch;
    const int id = batch.ids[r];
    return (const elem *)b.a->table + (i64)(id < 0 ? batch.last[-1 - id] : id) * b.a->hidden;
}

/* The input of a product that is handed on as it is, or behind an RMS norm. */
struct input {
    const u64 *words; /* 0: embeddings */
    const void *norm; /* 0 = none */
    u32 epoch;
    bool gather; /* rows that emit */
    int in;
};

__device__ static inline struct input input_of(const struct block &b, int phase, int layer)
{
    struct input x = {words_at(b, phase == UP     ? AT_OUT
                                  : phase == DOWN ? AT_ACT
                                                  : AT_DOWN),
                      0, b.epoch + layer, phase == HEAD, b.a->hidden};
    if (phase == DOWN)
        x.in = b.a->intermediate;
    if (phase == UP)
        x.norm = of_layer(b, b.a->post_norm, layer);
    if (phase == QKV || phase == HEAD) {
        x.norm = phase == HEAD ? b.a->final_norm : of_layer(b, b.a->input_norm, layer);
        x.epoch--;
        if (layer == 0)
            x.words = 0;
    }
    return x;
}

/* Units of 4 elements: a thread has every THREADS-th of each row, and asks for several at once. */
__device__ static inline void take_rows(const struct block &b, const struct input &x)
{
    const int units = x.in / 4, all = input_stride(x.in) / 4 - 2;
    const int per_row = (all + THREADS - 1) / THREADS;
    int row = 0, pass = 0; /* of the row */
#pragma unroll 1
    while (row < b.rows) {
        const u64 *from[TOGETHER];
        u64 w[TOGETHER][2];
        u32 looks = 0;
        int r = row, j = pass;
        bool ready;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int unit = j * THREADS + threadIdx.x;
            from[i] = 0;
            w[i][0] = w[i][1] = (u64)x.epoch << 32;
            if (r < b.rows && unit < units) {
                const int source = x.gather ? b.a->attention.batch.row_token[r] : r;
                if (x.words) {
                    from[i] = x.words + (i64)source * (x.in / 2) + 2 * unit;
                } else {
                    const uint2 v = ((const uint2 *)embedding_of(b, source))[unit];
                    w[i][0] |= v.x, w[i][1] |= v.y;
                }
            }
            if (++j == per_row)
                j = 0, r++;
        }
        do {
            ready = true;
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                if (from[i])
                    ptx_ld_relaxed_v2(from[i], w[i][0], w[i][1]);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                ready = ready && (u32)(w[i][0] >> 32) == x.epoch && (u32)(w[i][1] >> 32) == x.epoch;
            look_again(looks);
        } while (!ready);
#pragma unroll
        for (int i = 0; i < TOGETHER && row < b.rows; i++) {
            const int unit = pass * THREADS + threadIdx.x;
            const uint2 v = make_uint2((u32)w[i][0], (u32)w[i][1]);
            if (unit < all) {
                u32 *to = unit_at(b, x.in, row, unit);
                to[0] = unit < units ? v.x : 0;
                to[2] = unit < units ? v.y : 0;
            }
            if (x.norm) {
                const float square = warp_sum(square_of(v));
                if (b.lane == 0)
                    b.s->squares[b.warp][row] = pass ? b.s->squares[b.warp][row] + square : square;
            }
            if (++pass == per_row)
                pass = 0, row++;
        }
    }
    ptx_bar_sync(COMPUTE, THREADS);
}

/* The norm's weights for the first units of this thread. */
__device__ static inline void load_norm(const struct input &x, uint2 (&kept)[TOGETHER])
{
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        const int unit = threadIdx.x + i * THREADS;
        kept[i] = unit < x.in / 4 ? ((const uint2 *)x.norm)[unit] : make_uint2(0, 0);
    }
}

__device__ static inline void norm_rows(const struct block &b, const struct input &x,
                                        const uint2 (&kept)[TOGETHER])
{
    const int units = x.in / 4;
    const float inverse = __fdividef(1, x.in);
#pragma unroll 1
    for (int r = 0; r < b.rows; r++) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i++)
            sum += b.s->squares[i][r];
        const float by = ptx_rsqrt(sum * inverse + b.a->attention.eps);
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int unit = threadIdx.x + i * THREADS;
            if (unit < units)
                scale_unit(unit_at(b, x.in, r, unit), kept[i], by);
        }
        for (int unit = threadIdx.x + TOGETHER * THREADS; unit < units; unit += THREADS) {
            scale_unit(unit_at(b, x.in, r, unit), ((const uint2 *)x.norm)[unit], by);
        }
    }
    ptx_bar_sync(COMPUTE, THREADS);
}

/* 8 elements of attention's output, in the order of shared memory. */
__device__ static inline uint4 sum_parts(const struct block &b, int layer, int r, int at)
{
    const struct cuda_attention_args &a = b.a->attention;
    const int n = b.s->parts[r];
    const u32 epoch = b.epoch + layer;
    const i64 head = ((i64)r * a.heads + at / HEAD_DIM) * a.splits;
    const u64 *parts = words_at(b, AT_PARTS) + head * (HEAD_DIM / 2) + at % HEAD_DIM / 2;
    const u64 *stats = words_at(b, AT_STATS) + head * 2;
    float top = NONE, sum = 0, v[8] = {};
    for (int i = 0; i < n; i += PARTS, parts += PARTS * (HEAD_DIM / 2), stats += 2 * PARTS) {
        u64 w[PARTS][6];
        u32 looks = 0;
        bool ready;
        do {
            ready = true;
#pragma unroll
            for (int j = 0; j < PARTS; j++)
                if (i + j < n) {
                    ptx_ld_relaxed_v2(stats + j * 2, w[j][0], w[j][1]);
                    ptx_ld_relaxed_v2(parts + j * (HEAD_DIM / 2), w[j][2], w[j][3]);
                    ptx_ld_relaxed_v2(parts + j * (HEAD_DIM / 2) + 2, w[j][4], w[j][5]);
                }
#pragma unroll
            for (int j = 0; j < PARTS; j++)
#pragma unroll
                for (int e = 0; e < 6; e++)
                    ready = ready && (i + j >= n || (u32)(w[j][e] >> 32) == epoch);
            look_again(looks);
        } while (!ready);
        float larger = top;
#pragma unroll
        for (int j = 0; j < PARTS; j++)
            if (i + j < n)
                larger = fmaxf(larger, __uint_as_float((u32)w[j][0]));
        const float shrink = power_of_2(top - larger);
        top = larger;
        sum *= shrink;
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] *= shrink;
#pragma unroll
        for (int j = 0; j < PARTS; j++) {
            if (i + j >= n)
                continue;
            const float by =
                __uint_as_float((u32)w[j][1]) * power_of_2(__uint_as_float((u32)w[j][0]) - top);
            sum += by;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float lo, hi;
                unpack((u32)w[j][2 + e], &lo, &hi);
                v[2 * e] += lo * by;
                v[2 * e + 1] += hi * by;
            }
        }
    }
    const float inv = __fdividef(1, sum);
    return make_uint4(pack(v[0] * inv, v[1] * inv), pack(v[4] * inv, v[5] * inv),
                      pack(v[2] * inv, v[3] * inv), pack(v[6] * inv, v[7] * inv));
}

__device__ static inline void take_parts(const struct block &b, int layer)
{
    const int in = b.a->attention.heads * HEAD_DIM, all = input_stride(in) / 8 - 1;
    for (int r = 0; r < b.rows; r++)
        for (int first = 0; first < all; first += THREADS) {
            const int mine = first + threadIdx.x;
            if (mine < all)
                *(uint4 *)unit_at(b, in, r, 2 * mine) =
                    mine < in / 8 ? sum_parts(b, layer, r, mine * 8) : make_uint4(0, 0, 0, 0);
        }
    ptx_bar_sync(COMPUTE, THREADS);
}
