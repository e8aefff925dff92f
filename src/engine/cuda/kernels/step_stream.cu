/* decode_step.cu: the stream of weights, keys and values into the ring in shared memory. */

/* A place in the ring, and how often it was gone through. */
struct cursor {
    int slot;
    u32 round;
};

__device__ static inline void go_on(struct cursor &c)
{
    if (++c.slot == RING) {
        c.slot = 0;
        c.round++;
    }
}

/* 16 bytes from memory into shared memory, or zeros. */
__device__ static inline void copy(uint4 *to, const elem *from, bool inside)
{
    ptx_cp_async_16_256B(shared_address(to), from, inside ? 16 : 0);
}

/* The first vector of this lane in a free chunk, for the first of its computing warps. */
__device__ static inline uint4 *open_chunk(const struct block &b, const struct cursor &c)
{
    chunk_wait(&b.s->empty[c.slot], (c.round + 1) & 1);
    return &b.s->ring[c.slot][0][(b.warp - WARPS - 1) * (SHARE * 32) + b.lane];
}

__device__ static inline void close_chunk(const struct block &b, struct cursor &c)
{
    chunk_arrive_copied(&b.s->full[c.slot]);
    go_on(c);
}

/* How the lanes of a warp copy its share of a chunk, in SHARE rounds: the first vector of this lane
 * and what a round adds. `place` is where the lane that computes with it looks. */
struct lanes {
    int row, col, place;
    int rows, cols, places;
};

/* Rounds over columns, 64 bytes of 8 rows at once; or, of rows of LINES and more, over rows, 256
 * bytes of 2 rows at once: whole lines. Those take 5 % off Llama's step and add 2 % to Qwen3's. */
__device__ static inline struct lanes find_lanes(const struct block &b, int in)
{
    enum { LINES = 4096, WIDTH = 16 }; /* elements; lanes of a row */
    const int lane = b.lane, at = lane % WIDTH;
    if (in < LINES)
        return {lane / 4, lane % 4 * 8, lane, 0, 32, 32};
    return {lane / WIDTH, at * 8, at / 4 * 32 + lane / WIDTH * 4 + at % 4, 2, 0, 8};
}

__device__ static inline void copy_product(const struct block &b, int phase, int layer,
                                           struct cursor &c)
{
    const struct product p = b.s->products[phase];
    const struct lanes l = find_lanes(b, p.in);
    const int further = p.mode == NARROW ? SPAN : 0, step = p.mode == NARROW ? 2 * SPAN : SPAN;
    const int k0 = (b.warp - WARPS - 1) * (SHARE * 32) + l.col, below = p.mode == WIDE ? 8 : 0;
    const i64 to_second = (i64)(below + (p.mode == GATED ? p.outs : 0)) * p.in + further;
    const i64 round = (i64)l.rows * p.in + l.cols;
    const elem *weight = of_layer(b, p.weight, phase == HEAD ? 0 : layer) + k0;
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const int row = tile * (p.mode == WIDE ? 16 : 8) + l.row;
        const elem *a = weight + (i64)row * p.in;
        for (int i = 0, left = p.in - k0; i < p.chunks; i++, a += step, left -= step) {
            uint4 *to = open_chunk(b, c) - b.lane + l.place;
            const elem *first = a;
#pragma unroll
            for (int j = 0; j < SHARE; j++, first += round) {
                const int there = p.outs - row - j * l.rows, more = left - j * l.cols;
#pragma unroll
                for (int u = 0; u < CHUNK / 2; u++) {
                    const int at = u * (SPAN / 2);
                    uint4 *place = to + 2 * u * THREADS + j * l.places;
                    copy(place, first + at, at < more && there > 0);
                    copy(place + THREADS, first + to_second + at,
                         at < more - further && there > below);
                }
            }
            close_chunk(b, c);
        }
    }
}

__device__ static inline i64 page_elems(const struct block &b, int page)
{
    const int i = page - b.s->item.from;
    return i < PAGES ? (i64)b.s->pages[i] * (PAGE * HEAD_DIM)
                     : page_at(b.a->attention, b.s->item.d, page);
}

/* Keys of earlier tokens, vectors [2][CHUNKS], then values [4][HALVES], of a page for each warp.
 * All that differs between copies of a round is a constant: a warp that copies has no other to hide
 * the latency of its arithmetic (670 instructions a chunk took 1.5 us). */
__device__ static inline void copy_pages(const struct block &b, int layer, struct cursor &c)
{
    const struct cuda_attention_args &x = b.a->attention;
    const int g = b.lane / 4, t = b.lane % 4, first = (b.warp - WARPS - 1) * SHARE;
    const int position = b.s->item.d.position, end = b.s->item.to;
    const i64 behind = layer * b.a->cache_bytes;
    const elem *const keys = (const elem *)((const char *)x.k + behind) + g * HEAD_DIM + t * 8;
    const elem *const values =
        (const elem *)((const char *)x.v + behind) + 2 * t * HEAD_DIM + g * 8;
    for (int round = b.s->item.from + first; round - first < end; round += WARPS) {
        const elem *key[SHARE], *value[SHARE]; /* of this lane */
#pragma unroll
        for (int j = 0; j < SHARE; j++) {
            const i64 page = page_elems(b, round + j < end ? round + j : end - 1);
            key[j] = keys + page;
            value[j] = values + page;
        }
#pragma unroll
        for (int i = 0; i < PAGE_CHUNKS; i++) {
            uint4 *to = open_chunk(b, c);
#pragma unroll
            for (int j = 0; j < SHARE; j++) {
                if (round + j >= end)
                    break;
                const int old = position - (round + j) * PAGE; /* keys of the page */
#pragma unroll
                for (int u = 0; u < CHUNK; u++) {
                    const int n = i * CHUNK + u, v = n - 2 * CHUNKS;
                    if (v < 0)
                        copy(to + u * THREADS + j * 32,
                             key[j] + n / CHUNKS * 8 * HEAD_DIM + n % CHUNKS * 32,
                             g + n / CHUNKS * 8 < old);
                    else
                        copy(to + u * THREADS + j * 32,
                             value[j] + ((v / HALVES & 1) + (v / HALVES >> 1) * 8) * HEAD_DIM +
                                 v % HALVES * 64,
                             2 * t + (v / HALVES & 1) + (v / HALVES >> 1) * 8 < old);
                }
            }
            close_chunk(b, c);
        }
    }
}

__device__ static inline void copy_all(const struct block &b)
{
    struct cursor c = {};
#pragma unroll 1
    for (int layer = 0, phase = QKV; phase != END;) {
        if (phase == ATTEND)
            copy_pages(b, layer, c);
        else
            copy_product(b, phase, layer, c);
        phase++;
        if (phase == HEAD && ++layer < b.a->layers)
            phase = QKV;
    }
}
