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
    struct input x = {copy_at(b, phase == UP     ? AT_OUT
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

__device__ static inline bool are_of(const u64 (&w)[2], u32 epoch)
{
    return (u32)(w[0] >> 32) == epoch && (u32)(w[1] >> 32) == epoch;
}

/* Units of 4 elements: a thread has every THREADS-th of each row, and asks for several at once,
 * again only for those that were not there. With LATE_NORM a row behind a norm has the norm's
 * weights in it already, and its squares are for the warp that finishes too. */
__device__ static inline void take_rows(const struct block &b, const struct input &x,
                                        float (*squares)[ROWS])
{
    const int units = x.in / 4, all = input_stride(x.in) / 4 - 2;
    const int per_row = (all + THREADS - 1) / THREADS;
    int row = 0, pass = 0; /* of the row */
#pragma unroll 1
    while (row < b.rows) {
        const u64 *from[TOGETHER];
        u64 w[TOGETHER][2];
        uint2 norm[TOGETHER];
        u32 looks = 0;
        int r = row, j = pass;
        bool ready;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int unit = j * THREADS + threadIdx.x;
            from[i] = 0;
            w[i][0] = w[i][1] = (u64)x.epoch << 32;
            norm[i] = make_uint2(0, 0);
            if (r < b.rows && unit < units) {
                const int source = x.gather ? b.a->attention.batch.row_token[r] : r;
                if (LATE_NORM && x.norm)
                    norm[i] = ((const uint2 *)x.norm)[unit];
                else if (x.norm)
                    ptx_prefetch_L2((const uint2 *)x.norm + unit);
                if (x.words) {
                    from[i] = x.words + (i64)source * (x.in / 2) + 2 * unit;
                    w[i][0] = (u64)~x.epoch << 32;
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
                if (!are_of(w[i], x.epoch))
                    ptx_ld_relaxed_v2(from[i], w[i][0], w[i][1]);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                ready = ready && are_of(w[i], x.epoch);
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
                if (LATE_NORM && x.norm && unit < units)
                    scale_unit(to, norm[i], 1);
            }
            if (x.norm) {
                const float square = warp_sum(square_of(v));
                if (b.lane == 0)
                    squares[b.warp][row] = pass ? squares[b.warp][row] + square : square;
            }
            if (++pass == per_row)
                pass = 0, row++;
        }
    }
    if (LATE_NORM && x.norm)
        ptx_bar_sync(SQUARES, THREADS + 32);
    else
        ptx_bar_sync(COMPUTE, THREADS);
}

/* What the norm multiplies row r by. */
__device__ static inline float norm_factor(const struct block &b, const float (*squares)[ROWS],
                                           int r)
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        sum += squares[i][r];
    return ptx_rsqrt(sum * __fdividef(1, b.a->hidden) + b.a->attention.eps);
}

__device__ static inline void norm_rows(const struct block &b, const struct input &x)
{
#pragma unroll 1
    for (int r = 0; r < b.rows; r++) {
        const float by = norm_factor(b, b.s->squares[0], r);
        for (int unit = threadIdx.x; unit < x.in / 4; unit += THREADS)
            scale_unit(unit_at(b, x.in, r, unit), ((const uint2 *)x.norm)[unit], by);
    }
    ptx_bar_sync(COMPUTE, THREADS);
}

/* Each part's share of a head, to UNITS lanes of which a lane has one or two. This little is looked
 * at until it is there; then the parts are, or soon, and all of them are asked for at once. (They
 * have their own numbers: nothing says that they are seen in the order of their stores.) */
enum { UNITS = HEAD_DIM / 8, SHARES = CUDA_DECODE_STEP_PARTS / UNITS };

__device__ static inline void take_shares(const struct block &b, const u64 *words, int parts,
                                          u32 epoch, float (&share)[SHARES])
{
    float top = NONE, sum = 0;
#pragma unroll
    for (int i = 0; i < SHARES; i++) {
        const int part = i * UNITS + b.lane % UNITS;
        share[i] = part < parts ? __uint_as_float(take_word(words + part, epoch)) : NONE;
        top = fmaxf(top, share[i]);
    }
#pragma unroll
    for (int i = UNITS / 2; i > 0; i >>= 1)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
#pragma unroll
    for (int i = 0; i < SHARES; i++)
        sum += share[i] = power_of_2(share[i] - top);
#pragma unroll
    for (int i = UNITS / 2; i > 0; i >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, i);
#pragma unroll
    for (int i = 0; i < SHARES; i++)
        share[i] *= __fdividef(1, sum);
}

/* 8 elements of attention's output, in the order of shared memory. A whole warp, whose lanes have
 * the units of heads in order. */
__device__ static inline uint4 sum_parts(const struct block &b, int layer, int r, int unit)
{
    const struct cuda_attention_args &a = b.a->attention;
    const int n = b.s->parts[r];
    const u32 epoch = b.epoch + layer;
    const i64 head = ((i64)r * a.heads + unit / UNITS) * a.splits;
    const u64 *parts = words_at(b, AT_PARTS) + head * (HEAD_DIM / 2) + unit % UNITS * 4;
    float share[SHARES], v[8] = {};
    take_shares(b, copy_at(b, AT_SHARES) + head, n, epoch, share);
    for (int first = 0; first < n; first += PARTS, parts += PARTS * (HEAD_DIM / 2)) {
        u64 w[PARTS][2][2] = {}; /* or ptxas keeps registers for it through all phases */
        u32 looks = 0;
        bool ready;
        do {
            ready = true;
#pragma unroll
            for (int j = 0; j < PARTS; j++)
                if (first + j < n) {
                    ptx_ld_relaxed_v2(parts + j * (HEAD_DIM / 2), w[j][0][0], w[j][0][1]);
                    ptx_ld_relaxed_v2(parts + j * (HEAD_DIM / 2) + 2, w[j][1][0], w[j][1][1]);
                }
#pragma unroll
            for (int j = 0; j < PARTS; j++)
                ready =
                    ready && (first + j >= n || (are_of(w[j][0], epoch) && are_of(w[j][1], epoch)));
            look_again(looks);
        } while (!ready);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < PARTS; j++) {
            const int part = first + j;
            if (part >= n)
                break;
            const float by = __shfl_sync(0xffffffffu, part < UNITS ? share[0] : share[SHARES - 1],
                                         b.lane - b.lane % UNITS + part % UNITS);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float lo, hi;
                unpack((u32)w[j][e / 2][e % 2], &lo, &hi);
                v[2 * e] += lo * by;
                v[2 * e + 1] += hi * by;
            }
        }
    }
    return make_uint4(pack(v[0], v[1]), pack(v[4], v[5]), pack(v[2], v[3]), pack(v[6], v[7]));
}

/* Units of 8 elements; those behind the row, which chunks reach, are 0. */
__device__ static inline void take_parts(const struct block &b, int layer)
{
    const int in = b.a->attention.heads * HEAD_DIM, all = input_stride(in) / 8 - 1;
    static_assert(2 * SPAN / 8 % 32 == 0, "a warp has units or has none");
    for (int r = 0; r < b.rows; r++)
        for (int mine = threadIdx.x; mine < all; mine += THREADS) {
            const bool behind = mine >= in / 8;
            const uint4 v = sum_parts(b, layer, r, behind ? b.lane % UNITS : mine);
            *(uint4 *)unit_at(b, in, r, 2 * mine) = behind ? make_uint4(0, 0, 0, 0) : v;
        }
    ptx_bar_sync(COMPUTE, THREADS);
}
