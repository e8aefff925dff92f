/* decode_step.cu: products, and what follows their sums. */

/* This thread's vectors of the next chunk, when they are there. */
__device__ static inline const uint4 *wait_chunk(const struct block &b, const struct cursor &c)
{
    chunk_wait(&b.s->full[c.slot], c.round & 1);
    return &b.s->ring[c.slot][0][threadIdx.x];
}

/* All lanes have read them. */
__device__ static inline void leave_chunk(const struct block &b, struct cursor &c)
{
    __syncwarp();
    if (b.lane == 0)
        chunk_arrive(&b.s->empty[c.slot]);
    go_on(c);
}

/* Several chunks at once wait for one latency of shared memory. */
template <int N>
__device__ static inline void multiply_chunks(const struct block &b, const elem *x, int step,
                                              int further, struct cursor &c, float (&acc)[2][4])
{
    uint2 in[N][CHUNK];
    uint4 w[N][CHUNK];
    struct cursor taken = c;
#pragma unroll
    for (int i = 0; i < N; i++, go_on(taken)) {
#pragma unroll
        for (int u = 0; u < CHUNK; u++)
            in[i][u] = *(const uint2 *)(x + i * step + u / 2 * (SPAN / 2) + (u % 2 ? further : 0));
        const uint4 *from = wait_chunk(b, taken);
#pragma unroll
        for (int u = 0; u < CHUNK; u++)
            w[i][u] = from[u * THREADS];
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int u = 0; u < CHUNK; u++)
            mma(acc[u % 2], w[i][u].x, w[i][u].y, w[i][u].z, w[i][u].w, in[i][u].x, in[i][u].y);
        leave_chunk(b, c);
    }
}

/* The tiles of this block: sums of this warp's share, in groups. */
__device__ static inline void multiply(const struct block &b, int phase, struct cursor &c,
                                       struct turns &turns)
{
    const struct product p = b.s->products[phase];
    const int g = b.lane / 4, t = b.lane % 4;
    const bool narrow = p.mode == NARROW;
    const int further = narrow ? SPAN : 0, step = SPAN + further;
    const int row = g % 4 < b.rows ? g % 4 : b.rows - 1;
    const elem *x = b.s->x + row * input_stride(p.in) + b.warp * 32 + t * 8 + g / 4 * 4;
    int in_group = 0;
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        float acc[2][4] = {};
        const elem *at = x;
        if (in_group == 0)
            chunk_wait(&b.s->sums_empty[turns.groups % 2], (turns.groups / 2 + 1) & 1);
        int left = p.chunks;
#pragma unroll 1
        for (; left >= CHUNKS_AT_ONCE; left -= CHUNKS_AT_ONCE, at += CHUNKS_AT_ONCE * step)
            multiply_chunks<CHUNKS_AT_ONCE>(b, at, step, further, c, acc);
        if (left > 0)
            multiply_chunks<1>(b, at, step, further, c, acc);
        float(*to)[ROWS] = b.s->sums[turns.groups % 2][in_group][b.warp];
        if (narrow)
#pragma unroll
            for (int i = 0; i < 4; i++)
                acc[0][i] += acc[1][i];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float v = acc[i][0] + __shfl_down_sync(0xffffffffu, acc[i][2], 2);
            const float w = acc[i][1] + __shfl_down_sync(0xffffffffu, acc[i][3], 2);
            if (t < 2)
                *(float2 *)&to[8 * i + g][2 * t] = make_float2(v, w);
        }
        if (++in_group == GROUP || tile + (int)gridDim.x >= p.tiles) {
            __syncwarp();
            if (b.lane == 0)
                chunk_arrive(&b.s->sums_full[turns.groups % 2]);
            turns.groups++;
            in_group = 0;
        }
    }
}

/* The residual of row r, out feature o. */
__device__ static inline float residual_at(const struct block &b, int phase, int layer, int r,
                                           int o)
{
    if (phase == OUT && layer == 0)
        return to_float(embedding_of(b, r)[o]);
    const u64 *words = copy_at(b, phase == OUT ? AT_DOWN : AT_OUT);
    const u32 pair =
        take_word(words + r * (b.a->hidden / 2) + o / 2, b.epoch + layer - (phase == OUT));
    return to_float((u16)(o % 2 ? pair >> 16 : pair));
}

/* The ninth warp's part in a product: lanes have neighbouring out features, and pairs of lanes
 * hand on a word. */
__device__ static inline void finish_product(const struct block &b, int phase, int layer,
                                             struct turns &turns)
{
    enum { PER_LANE = GROUP * 16 * ROWS / 32 };
    const struct product p = b.s->products[phase];
    const int bits = p.mode == WIDE ? 4 : 3, grid = gridDim.x;
    const int which = phase == QKV   ? AT_QKV
                      : phase == UP  ? AT_ACT
                      : phase == OUT ? AT_OUT
                                     : AT_DOWN;
    u64 *const words = words_at(b, which);
    const int copies = phase == QKV ? 1 : COPIES, copy_words = b.s->copy_words[which];
    float factor = 1; /* of the row of this lane's number */
    if (has_late_norm(phase) && (int)blockIdx.x < p.tiles) {
        ptx_bar_sync(SQUARES, THREADS + 32);
        factor = norm_factor(b, b.s->squares[turns.norms++ % 2], b.lane % ROWS);
    }
    for (int tile = blockIdx.x; tile < p.tiles; tile += GROUP * grid, turns.groups++) {
        const int tiles = GROUP > 1 && tile + grid < p.tiles ? 2 : 1, row_bits = bits + tiles - 1;
        float residual[PER_LANE];
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            const int i = b.lane + 32 * j, r = i >> row_bits, out = i & ((1 << row_bits) - 1);
            const int o = ((tile + (out >> bits) * grid) << bits) + (out & ((1 << bits) - 1));
            residual[j] = 0;
            if ((phase == OUT || phase == DOWN) && r < b.rows && o < p.outs)
                residual[j] = residual_at(b, phase, layer, r, o);
        }
        chunk_wait(&b.s->sums_full[turns.groups % 2], turns.groups / 2 & 1);
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            const int i = b.lane + 32 * j, r = i >> row_bits, out = i & ((1 << row_bits) - 1);
            const int o = ((tile + (out >> bits) * grid) << bits) + (out & ((1 << bits) - 1));
            if ((32 * j >> row_bits) >= b.rows)
                break;
            float v = 0, up = 0;
            if (r < b.rows) {
                const float *sums =
                    &b.s->sums[turns.groups % 2][out >> bits][0][out & ((1 << bits) - 1)][r];
#pragma unroll
                for (int w = 0; w < WARPS; w++) {
                    v += sums[w * 16 * ROWS];
                    if (phase == UP)
                        up += sums[w * 16 * ROWS + 8 * ROWS];
                }
            }
            const float by = LATE_NORM ? __shfl_sync(0xffffffffu, factor, r % ROWS) : 1;
            v *= by;
            up *= by;
            v = phase == UP ? __fdividef(v * up, 1 + __expf(-v)) : v + residual[j];
            const float right = __shfl_down_sync(0xffffffffu, v, 1);
            if (r >= b.rows || o >= p.outs)
                continue;
            if (phase == HEAD)
                b.a->logits[(i64)r * p.outs + o] = v;
            else if (o % 2 == 0)
                for (int copy = 0; copy < copies; copy++)
                    store_word(words + copy * copy_words + r * (p.outs / 2) + o / 2, pack(v, right),
                               b.epoch + layer);
        }
        __syncwarp();
        if (b.lane == 0)
            chunk_arrive(&b.s->sums_empty[turns.groups % 2]);
    }
}
