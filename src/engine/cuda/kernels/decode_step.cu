/* A decode step of a few rows in one kernel: every layer and lm_head. One block a multiprocessor,
 * all at work at the same time. Phases of a layer, and what each hands to the next:
 *
 *   qkv    norm, product (the norm's factor: with the sums)   -> qkv
 *   attend q/k norm, rotation, KV append, attention of parts  -> parts of each head's output
 *   out    sum of the parts, product, residual                -> x
 *   up     norm, product, activation                          -> act
 *   down   product, residual                                  -> x
 *   head   norm, product, once behind the last layer          -> logits
 *
 * No barrier of the grid: what is handed on are words of 8 bytes, 4 of data and the number of the
 * layer since the engine was opened. Such a word is written and read at once, so whoever reads the
 * number he waits for has the data too. A place is written once a layer; who writes it again has
 * read what all blocks computed meanwhile, and so knows that all have read what was there before:
 * the blocks of each phase read all of what the phase before wrote (those of attend read a part
 * of what blocks wrote that had read everything).
 *
 * What all blocks read is written COPIES times, and a block reads one of the copies: readers of one
 * line of L2 are served one by one.
 *
 * A block has 8 warps that compute, one that adds their sums, finishes and hands on, and two that
 * copy: weights, keys and values are one stream of chunks into a ring in shared memory (cp.async),
 * which goes on while the others wait for other blocks. In a chunk every computing thread has
 * vectors of 16 bytes, where only it reads. (Bulk copies of rows are issued one by one: 55 cycles
 * each on an H200, too slow for rows of 1 KiB.)
 *
 * Products: a vector is 8 elements of a row of weights. The tensor cores take the vectors of 8 rows
 * and 32 elements each as operand a [16, 16] as they stand in memory: pairs 0 and 2 of a vector
 * become row g, pairs 1 and 3 row g + 8. So operand b [16, 8] has the inputs' pairs 0 and 2 in
 * columns 0 .. 3, a column per input row, and pairs 1 and 3 in columns 4 .. 7; an output is the sum
 * of one of row g, columns 0 .. 3, and one of row g + 8, columns 4 .. 7. Inputs lie in shared
 * memory with the pairs of 8 elements in the order 0, 2, 1, 3. A chunk is SPAN elements of two
 * groups of 8 rows, of which a warp has two times 32 elements; a tile is
 *   WIDE    16 out features
 *   GATED   8 of gate and the same 8 of up
 *   NARROW  8 out features, the second group SPAN elements further along the same rows
 * The warps' sums are added in their order.
 *
 * Attention is that of attention_page.cu, a page of 16 keys a warp, in PAGE_CHUNKS chunks; the
 * newest key and value come from the block's own `fresh`. A block attends to one part of the keys
 * of a row's head tile. Its output is divided by its sum and rounded before it is handed on.
 *
 * In front stand attention_page.cu, step_block.cu, step_stream.cu, step_input.cu, step_product.cu.
 */

/* ---- attention --------------------------------------------------------------------------------
 */

/* One head out of qkv's words through q/k norm and rotation, by one warp: a lane holds a pair of
 * elements of each half. */
__device__ static inline void prepare_head(const struct block &b, const u64 *words, u32 epoch,
                                           const elem *norm, bool rotate, u32 *to, u32 *to2)
{
    enum { PAIRS = HEAD_DIM / 4 };
    const struct cuda_attention_args &a = b.a->attention;
    const int at = b.lane % PAIRS;
    float lo[2], hi[2], wlo[2] = {1, 1}, whi[2] = {1, 1};
    u64 first, second;
    u32 looks = 0;
    if (norm) {
        unpack(((const u32 *)norm)[at], &wlo[0], &wlo[1]);
        unpack(((const u32 *)norm)[PAIRS + at], &whi[0], &whi[1]);
    }
    do {
        first = ptx_ld_relaxed(words + at);
        second = ptx_ld_relaxed(words + PAIRS + at);
        look_again(looks);
    } while ((u32)(first >> 32) != epoch || (u32)(second >> 32) != epoch);
    unpack((u32)first, &lo[0], &lo[1]);
    unpack((u32)second, &hi[0], &hi[1]);
    if (norm) {
        const float square = lo[0] * lo[0] + lo[1] * lo[1] + hi[0] * hi[0] + hi[1] * hi[1];
        const float inv =
            ptx_rsqrt(warp_sum(b.lane < PAIRS ? square : 0) * (1.0f / HEAD_DIM) + a.eps);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            lo[i] = rounded(lo[i] * inv * wlo[i]);
            hi[i] = rounded(hi[i] * inv * whi[i]);
        }
    }
    if (rotate && a.cosine) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float l = lo[i], h = hi[i];
            const float cosine = b.s->cosine[2 * at + i], sine = b.s->sine[2 * at + i];
            lo[i] = l * cosine - h * sine;
            hi[i] = h * cosine + l * sine;
        }
    }
    if (b.lane >= PAIRS)
        return;
    to[at] = pack(lo[0], lo[1]);
    to[PAIRS + at] = pack(hi[0], hi[1]);
    if (to2) {
        to2[at] = to[at];
        to2[PAIRS + at] = to[PAIRS + at];
    }
}

/* The block's query heads into shared memory; with the newest key also that key and value, there
 * and into the cache. */
__device__ static inline void prepare(const struct block &b, int layer)
{
    const struct cuda_attention_args &a = b.a->attention;
    const struct decode &d = b.s->item.d;
    const u64 *words = words_at(b, AT_QKV) + d.row * ((a.heads + 2 * a.kv_heads) * (HEAD_DIM / 2));
    const u32 epoch = b.epoch + layer;
    const i64 place = b.s->item.newest;
    if (b.warp < d.heads)
        prepare_head(b, words + (d.head0 + b.warp) * (HEAD_DIM / 2), epoch,
                     a.q_norm ? of_layer(b, a.q_norm, layer) : 0, true, (u32 *)b.s->heads[b.warp],
                     0);
    else
        for (int i = b.lane; i < HEAD_DIM; i += 32)
            b.s->heads[b.warp][i] = 0;
    if (b.s->item.to * PAGE > d.position) {
        if (b.warp == WARPS - 1)
            prepare_head(b, words + (a.heads + d.kv_head) * (HEAD_DIM / 2), epoch,
                         a.k_norm ? of_layer(b, a.k_norm, layer) : 0, true, (u32 *)b.s->fresh[0],
                         (u32 *)((elem *)((char *)a.k + layer * b.a->cache_bytes) + place));
        else if (b.warp == WARPS - 2)
            prepare_head(b, words + (a.heads + a.kv_heads + d.kv_head) * (HEAD_DIM / 2), epoch, 0,
                         false, (u32 *)b.s->fresh[1],
                         (u32 *)((elem *)((char *)a.v + layer * b.a->cache_bytes) + place));
    }
    ptx_bar_sync(COMPUTE, THREADS);
}

/* This warp's keys of a page out of the ring; the newest comes from `fresh`. */
__device__ static inline void take_keys(const struct block &b, int page, struct cursor &c,
                                        uint4 (&k)[2][CHUNKS])
{
    const int g = b.lane / 4, t = b.lane % 4, newest = b.s->item.d.position - page * PAGE;
#pragma unroll
    for (int i = 0; i < PAGE_CHUNKS / 2; i++) {
        const uint4 *from = wait_chunk(b, c);
#pragma unroll
        for (int u = 0; u < CHUNK; u++) {
            const int n = i * CHUNK + u, h = n / CHUNKS, part = n % CHUNKS;
            k[h][part] = g + 8 * h == newest ? *(const uint4 *)&b.s->fresh[0][part * 32 + t * 8]
                                             : from[u * THREADS];
        }
        leave_chunk(b, c);
    }
}

/* Likewise its values; those behind the newest are 0. */
__device__ static inline void take_values(const struct block &b, int page, struct cursor &c,
                                          uint4 (&v)[4][HALVES])
{
    const int g = b.lane / 4, t = b.lane % 4, newest = b.s->item.d.position - page * PAGE;
#pragma unroll
    for (int i = 0; i < PAGE_CHUNKS / 2; i++) {
        const uint4 *from = wait_chunk(b, c);
#pragma unroll
        for (int u = 0; u < CHUNK; u++) {
            const int n = i * CHUNK + u, which = n / HALVES, half = n % HALVES;
            v[which][half] = 2 * t + (which & 1) + 8 * (which >> 1) == newest
                                 ? *(const uint4 *)&b.s->fresh[1][half * 64 + g * 8]
                                 : from[u * THREADS];
        }
        leave_chunk(b, c);
    }
}

/* The warps' parts together, for the block's heads. */
__device__ static inline void hand_on_part(const struct block &b, int layer,
                                           const struct partial_stats &st,
                                           const float (&out)[VALUE_TILES][4])
{
    const struct cuda_attention_args &a = b.a->attention;
    const int g = b.lane / 4, t = b.lane % 4;
    const u32 epoch = b.epoch + layer;
    struct shared &s = *b.s;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float sum = st.sum[i];
        sum += __shfl_xor_sync(0xffffffffu, sum, 4);
        sum += __shfl_xor_sync(0xffffffffu, sum, 8);
        sum += __shfl_xor_sync(0xffffffffu, sum, 16);
        if (2 * t + i >= b.s->item.d.heads)
            continue;
        if (g == 0) {
            s.tops[b.warp][2 * t + i] = st.largest[i];
            s.totals[b.warp][2 * t + i] = sum;
        }
#pragma unroll
        for (int j = 0; j < VALUE_TILES; j++) {
            s.outs[b.warp][2 * t + i][VALUE_DIM(j, 0, g)] = out[j][i];
            s.outs[b.warp][2 * t + i][VALUE_DIM(j, 1, g)] = out[j][i + 2];
        }
    }
    ptx_bar_sync(COMPUTE, THREADS);
    for (int i = threadIdx.x; i < b.s->item.d.heads * (HEAD_DIM / 2); i += THREADS) {
        const int h = i / (HEAD_DIM / 2), pair = i % (HEAD_DIM / 2);
        float top = s.tops[0][h], sum = 0, lo = 0, hi = 0; /* warp 0 has a page */
#pragma unroll
        for (int w = 1; w < WARPS; w++)
            top = fmaxf(top, s.tops[w][h]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float by = power_of_2(s.tops[w][h] - top);
            const float2 value = *(const float2 *)&s.outs[w][h][2 * pair];
            sum += s.totals[w][h] * by;
            lo += value.x * by;
            hi += value.y * by;
        }
        const float inv = __fdividef(1, sum);
        const i64 part =
            ((i64)b.s->item.d.row * a.heads + b.s->item.d.head0 + h) * a.splits + b.s->item.part;
        store_word(words_at(b, AT_PARTS) + part * (HEAD_DIM / 2) + pair, pack(lo * inv, hi * inv),
                   epoch);
        if (pair < COPIES)
            store_word(words_at(b, AT_SHARES) + pair * s.copy_words[AT_SHARES] + part,
                       __float_as_uint(top + ptx_lg2(sum)), epoch);
    }
}

__device__ static inline void attend(const struct block &b, int layer, struct cursor &c)
{
    const struct cuda_attention_args &a = b.a->attention;
    const int g = b.lane / 4, t = b.lane % 4;
    uint4 q[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; i++)
        q[i] = *(const uint4 *)&b.s->heads[g][i * 32 + t * 8];
    float slope[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (a.slopes && 2 * t + i < b.s->item.d.heads)
            slope[i] = a.slopes[b.s->item.d.head0 + 2 * t + i] * 1.4426950408889634f;
    struct partial_stats st = {{NONE, NONE}, {0, 0}};
    float out[VALUE_TILES][4] = {};
    for (int page = b.s->item.from + b.warp; page - b.warp < b.s->item.to; page += WARPS) {
        uint4 k[2][CHUNKS], v[4][HALVES];
        float s[4];
        take_keys(b, page, c, k);
        score_page(a, b.s->item.d, page, slope, q, k, s);
        take_values(b, page, c, v);
        if (page < b.s->item.to)
            add_page(s, v, st, out);
    }
    hand_on_part(b, layer, st, out);
}

/* ---- the step ---------------------------------------------------------------------------------
 */

__device__ static inline void fill_product(const struct block &b, int phase, const void *weight,
                                           int in, int outs)
{
    const int grid = gridDim.x, wide = (outs + 15) / 16, narrow = (outs + 7) / 8;
    struct product p = {(const char *)weight, in, outs, narrow, 0, NARROW};
    if (phase == UP)
        p.mode = GATED;
    else if (16 * ((wide + grid - 1) / grid) <= 8 * ((narrow + grid - 1) / grid) ||
             (OUT_WIDE && phase == OUT && wide <= grid))
        p.mode = WIDE, p.tiles = wide;
    const int span = p.mode == NARROW ? 2 * SPAN : SPAN;
    p.chunks = (in + span - 1) / span;
    b.s->products[phase] = p;
}

/* Finds what the block attends to; all threads. */
__device__ static inline void find_item(const struct block &b)
{
    const struct cuda_attention_args &a = b.a->attention;
    const struct cuda_step *step = a.batch.step;
    const int group = a.heads / a.kv_heads, head_tiles = (group + TILE_HEADS - 1) / TILE_HEADS;
    const int tile = blockIdx.x / a.splits % (a.kv_heads * head_tiles);
    struct item x = {};
    x.d.seq = blockIdx.x / (a.splits * a.kv_heads * head_tiles);
    x.part = blockIdx.x % a.splits;
    for (int r = 0; r < b.rows; r++) {
        const int pages = a.batch.segments[step->n_chunks + r].kv_before / PAGE + 1;
        int per_part = (pages + a.splits - 1) / a.splits;
        per_part = per_part < b.a->least_pages ? b.a->least_pages : per_part;
        if (threadIdx.x == 0)
            b.s->parts[r] = (pages + per_part - 1) / per_part;
        if (r == x.d.seq && x.part * per_part < pages) {
            x.from = x.part * per_part;
            x.to = x.from + per_part < pages ? x.from + per_part : pages;
        }
    }
    if (x.from < x.to) {
        const struct cuda_segment segment = a.batch.segments[step->n_chunks + x.d.seq];
        x.d.row = segment.first;
        x.d.position = segment.kv_before;
        x.d.kv_len = segment.kv_before + 1;
        x.d.first = 0;
        x.d.blocks = a.batch.blocks + segment.table;
        x.d.kv_head = tile / head_tiles;
        x.d.head0 = x.d.kv_head * group + tile % head_tiles * TILE_HEADS;
        x.d.heads = group - tile % head_tiles * TILE_HEADS;
        x.d.heads = x.d.heads < TILE_HEADS ? x.d.heads : TILE_HEADS;
        x.newest = page_at(a, x.d, x.d.position / PAGE) + x.d.position % PAGE * HEAD_DIM;
        for (int i = threadIdx.x; i < x.to - x.from && i < PAGES; i += blockDim.x)
            b.s->pages[i] = (u32)(page_at(a, x.d, x.from + i) / (PAGE * HEAD_DIM));
        for (int i = threadIdx.x; a.cosine && i < HEAD_DIM / 2; i += blockDim.x) {
            b.s->cosine[i] = a.cosine[(i64)x.d.position * (HEAD_DIM / 2) + i];
            b.s->sine[i] = a.sine[(i64)x.d.position * (HEAD_DIM / 2) + i];
        }
    }
    if (threadIdx.x == 0)
        b.s->item = x;
}

/* Where the words are. */
__device__ static inline void find_words(const struct block &b)
{
    const struct cuda_decode_step_args &a = *b.a;
    const struct cuda_attention_args &x = a.attention;
    const i64 counts[WORDS] = {(x.heads + 2 * x.kv_heads) * (HEAD_DIM / 2),
                               a.hidden / 2,
                               a.intermediate / 2,
                               a.hidden / 2,
                               (i64)x.heads * x.splits * (HEAD_DIM / 2),
                               (i64)x.heads * x.splits};
    u64 *p = a.exchange;
    for (int i = 0; i < WORDS; i++) {
        const bool once = i == AT_QKV || i == AT_PARTS; /* no block reads all, or spread over L2 */
        b.s->words[i] = p;
        b.s->copy_words[i] = once ? 0 : (int)(b.rows * counts[i]);
        p += b.rows * counts[i] * (once ? 1 : COPIES);
    }
}

/* Block 0 has work in every phase: when it has all that a phase reads, the one before has ended. */
__device__ static inline void stamp(const struct block &b, int i)
{
    if (b.a->stamps && blockIdx.x == 0 && b.lane == 0)
        b.a->stamps[i] = ptx_globaltimer();
}

__device__ static inline void compute(const struct block &b)
{
    struct cursor c = {};
    struct turns turns = {};
#pragma unroll 1
    for (int layer = 0, phase = QKV; phase != END;) {
        const bool works = phase == ATTEND ? b.s->item.from < b.s->item.to
                                           : (int)blockIdx.x < b.s->products[phase].tiles;
        if (works) {
            ptx_bar_sync(COMPUTE, THREADS); /* what the last phase read is no longer read */
            if (phase == ATTEND) {
                prepare(b, layer);
            } else if (phase == OUT) {
                take_parts(b, layer);
            } else {
                const struct input x = input_of(b, phase, layer);
                take_rows(b, x, b.s->squares[turns.norms % 2]);
                turns.norms += has_late_norm(phase);
                if (x.norm && !LATE_NORM)
                    norm_rows(b, x);
            }
            if (b.warp == 0)
                stamp(b, 5 * layer + phase % HEAD);
            if (phase == ATTEND)
                attend(b, layer, c);
            else
                multiply(b, phase, c, turns);
        }
        phase++;
        if (phase == HEAD && ++layer < b.a->layers)
            phase = QKV;
    }
}

/* The ninth warp. */
__device__ static inline void finish(const struct block &b)
{
    struct turns turns = {};
#pragma unroll 1
    for (int layer = 0, phase = QKV; phase != END;) {
        if (phase != ATTEND)
            finish_product(b, phase, layer, turns);
        phase++;
        if (phase == HEAD && ++layer < b.a->layers)
            phase = QKV;
    }
    stamp(b, 5 * b.a->layers + 1);
    if (b.lane == 0 && atomicAdd(b.a->sync + 1, 1) == gridDim.x - 1) { /* all have begun */
        *(volatile unsigned *)b.a->sync = b.epoch + b.a->layers - 1;
        b.a->sync[1] = 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS + 32 + COPIERS * 32, 1)
    KERNEL(decode_step)(const __grid_constant__ struct cuda_decode_step_args a)
{
    DYNAMIC_SHARED(uint4, memory);
    struct block b = {&a, (struct shared *)memory};
    begin();
    b.rows = a.attention.batch.step->n_decodes;
    b.warp = threadIdx.x / 32;
    b.lane = threadIdx.x % 32;
    if (b.rows == 0) {
        wait();
        return;
    }
    find_item(b);
    if (threadIdx.x == 0) {
        find_words(b);
        const int q = a.attention.heads * HEAD_DIM, kv = a.attention.kv_heads * HEAD_DIM;
        fill_product(b, QKV, a.qkv_weight, a.hidden, q + 2 * kv);
        fill_product(b, OUT, a.out_weight, q, a.hidden);
        fill_product(b, UP, a.up_weight, a.hidden, a.intermediate);
        fill_product(b, DOWN, a.down_weight, a.intermediate, a.hidden);
        fill_product(b, HEAD, a.lm_head, a.hidden, a.vocab);
        for (int i = 0; i < RING; i++) {
            chunk_init(&b.s->full[i], COPIERS * 32);
            chunk_init(&b.s->empty[i], WARPS);
        }
        for (int i = 0; i < 2; i++) {
            chunk_init(&b.s->sums_full[i], WARPS);
            chunk_init(&b.s->sums_empty[i], 1);
        }
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    if (b.warp > WARPS) {
        copy_all(b);
        ptx_cp_async_wait_all();
        wait();
        return;
    }
    wait();
    b.epoch = *(volatile unsigned *)a.sync + 1;
    if (b.warp < WARPS)
        compute(b);
    else
        finish(b);
}
