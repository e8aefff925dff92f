/* Attention of prefill chunks over cached context and themselves, causal: HEAD_DIM 64 or 128,
 * float16 or bfloat16, block_size a multiple of 16.
 *
 * grid = [tiles, heads]: a tile is 64 tokens of one chunk, found by the block itself, so chunks of
 * any lengths share a launch. Four warps of 16 tokens; 64 keys at a time in shared memory, two
 * buffers filled by cp.async, from those with the first key that the tile's first token sees;
 * scores and outputs in registers (Dao 2023). Rows of shared memory are
 * swizzled in units of 16 bytes so that ldmatrix meets no bank twice. */

enum {
    PREFILL_WARPS = 4,
    TOKENS = 64,
    KEYS = 64,
    UNITS = HEAD_DIM / 8, /* 16-byte units of a row */
    TILE_ELEMS = 64 * HEAD_DIM
};

__device__ static inline u32 shared_at(const elem *base, int row, int unit)
{
    return shared_address(base + row * HEAD_DIM + ((unit ^ row % 8) * 8));
}

__device__ static inline void copy16(u32 to, const elem *from, bool valid)
{
    ptx_cp_async_16(to, from, valid ? 16 : 0);
}

/* Lane j < 4: where 16 keys of step `step` stand in the cache, from its key 16 j on. Fetched a step
 * ahead of use, because the block table is in memory too. */
__device__ static inline i64 group_at(const struct cuda_attention_args &a, const int *blocks,
                                      int kv_head, int step, int end)
{
    const int key = step * KEYS + threadIdx.x % 32 * 16;
    if (threadIdx.x % 32 >= KEYS / 16 || key >= end)
        return 0;
    return (((i64)blocks[key / a.block_size] * a.kv_heads + kv_head) * a.block_size +
            key % a.block_size) *
           HEAD_DIM;
}

/* Keys and values first .. first + 63 into shared memory; those from `end` on as 0. */
__device__ static inline void copy_keys(const struct cuda_attention_args &a, i64 group, int first,
                                        int end, elem *k, elem *v)
{
    enum { PASS = PREFILL_WARPS * 32 / UNITS }; /* rows that the block copies at once: 8 or 16 */
    const int row0 = threadIdx.x / UNITS, unit = threadIdx.x % UNITS;
#pragma unroll
    for (int i = 0; i < KEYS / PASS; i++) {
        const int row = i * PASS + row0;
        const bool valid = first + row < end;
        i64 at = __shfl_sync(0xffffffffu, group, i * PASS / 16) + row % 16 * HEAD_DIM + unit * 8;
        at = valid ? at : 0;
        copy16(shared_at(k, row, unit), (const elem *)a.k + at, valid);
        copy16(shared_at(v, row, unit), (const elem *)a.v + at, valid);
    }
    ptx_cp_async_commit_group();
}

/* The chunk and the tile in it that is this block's; false = there are fewer. Later tiles have more
 * keys, and blocks are started in order: the tiles of a chunk come last first. */
__device__ static inline bool find_tile(const struct cuda_attention_args &a,
                                        struct cuda_segment *segment, int *tile)
{
    int before = 0;
    const int n = a.batch.step->n_chunks, lane = threadIdx.x % 32;
    for (int i = 0; i < n; i += 32) {
        const int at = i + lane;
        const int tiles = at < n ? (a.batch.segments[at].tokens + TOKENS - 1) / TOKENS : 0;
        int sum = tiles;
        for (int j = 1; j < 32; j *= 2) {
            const int v = __shfl_up_sync(0xffffffffu, sum, j);
            sum += lane >= j ? v : 0;
        }
        const u32 found = __ballot_sync(0xffffffffu, before + sum > (int)blockIdx.x);
        if (found) {
            const int l = __ffs(found) - 1;
            const int end = before + __shfl_sync(0xffffffffu, sum, l);
            *segment = a.batch.segments[i + l];
            *tile = end - 1 - (int)blockIdx.x;
            return true;
        }
        before += __shfl_sync(0xffffffffu, sum, 31);
    }
    return false;
}

extern "C" __global__ void __launch_bounds__(PREFILL_WARPS * 32, 2)
    KERNEL(attention_prefill)(const __grid_constant__ struct cuda_attention_args a)
{
    DYNAMIC_SHARED(uint4, shared);
    elem *q_tile = (elem *)shared, *k_tile = q_tile + TILE_ELEMS, *v_tile = k_tile + 2 * TILE_ELEMS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    struct cuda_segment segment;
    int tile;
    begin();
    const bool found = find_tile(a, &segment, &tile);
    wait();
    if (!found)
        return;
    const int head = blockIdx.y, kv_head = head / (a.heads / a.kv_heads);
    const int *blocks = a.batch.blocks + segment.table;
    const int token0 = tile * TOKENS;
    const int tokens = segment.tokens - token0 < TOKENS ? segment.tokens - token0 : TOKENS;
    const int end = segment.kv_before + token0 + tokens; /* keys of the last token */
    const i64 row = (i64)(a.heads + 2 * a.kv_heads) * HEAD_DIM;
    const elem *q = (const elem *)a.qkv + (segment.first + token0) * row + head * HEAD_DIM;
    for (int i = threadIdx.x; i < TOKENS * UNITS; i += PREFILL_WARPS * 32) {
        const int r = i / UNITS, unit = i % UNITS;
        const bool valid = r < tokens;
        copy16(shared_at(q_tile, r, unit), q + (valid ? r * row + unit * 8 : 0), valid);
    }
    const int window = a.window > 0 ? a.window : 1 << 30;
    const int seen = segment.kv_before + token0 + 1 - window; /* first key of the first token */
    const int first_step = seen > 0 ? seen / KEYS : 0;
    copy_keys(a, group_at(a, blocks, kv_head, first_step, end), first_step * KEYS, end,
              k_tile + first_step % 2 * TILE_ELEMS, v_tile + first_step % 2 * TILE_ELEMS);
    i64 group = group_at(a, blocks, kv_head, first_step + 1, end);

    const float by = a.scale * 1.4426950408889634f;
    const float slope = a.slopes ? a.slopes[head] / a.scale : 0; /* of scores before scaling */
    const int position = segment.kv_before + token0 + warp * 16 + g; /* of row g; row g + 8: + 8 */
    u32 qf[HEAD_DIM / 16][4];
    float out[HEAD_DIM / 8][4] = {};
    float largest[2] = {NONE, NONE}, sum[2] = {0, 0};
    const int steps = (end + KEYS - 1) / KEYS;
    const int m = lane / 8, r8 = lane % 8;
    for (int step = first_step; step < steps; step++) {
        const elem *k = k_tile + step % 2 * TILE_ELEMS, *v = v_tile + step % 2 * TILE_ELEMS;
        ptx_cp_async_wait_group_0();
        __syncthreads(); /* this buffer is full, and the other is free */
        if (step + 1 < steps) {
            copy_keys(a, group, (step + 1) * KEYS, end, k_tile + (step + 1) % 2 * TILE_ELEMS,
                      v_tile + (step + 1) % 2 * TILE_ELEMS);
            group = group_at(a, blocks, kv_head, step + 2, end);
        }
        if (step == first_step) {
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 16; i++)
                ptx_ldmatrix_x4(qf[i], shared_at(q_tile, warp * 16 + (m & 1) * 8 + r8, 2 * i + (m >> 1)));
        }
        float s[KEYS / 8][4] = {};
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; i++) {
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                u32 b[4];
                ptx_ldmatrix_x4(b, shared_at(k, n * 16 + (m >> 1) * 8 + r8, 2 * i + (m & 1)));
                mma(s[2 * n], qf[i][0], qf[i][1], qf[i][2], qf[i][3], b[0], b[1]);
                mma(s[2 * n + 1], qf[i][0], qf[i][1], qf[i][2], qf[i][3], b[2], b[3]);
            }
        }
        /* key of s[n][i] - token of row g, for n = i = 0 */
        const int distance = step * KEYS + 2 * t - position;
        const int lowest = segment.kv_before + token0 + warp * 16; /* position of the warp */
        const bool whole =
            step * KEYS + KEYS - 1 <= lowest && step * KEYS > lowest + 15 - window;
        if (a.slopes) {
            const float first = (float)distance;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[n][i] += slope * (first + (float)(n * 8 + (i & 1) - 8 * (i >> 1)));
        }
        if (!whole) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int ahead = distance + n * 8 + (i & 1) - 8 * (i >> 1);
                    if (ahead > 0 || ahead <= -window)
                        s[n][i] = NONE;
                }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float top = largest[i];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                top = fmaxf(top, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            const float base = top == NONE ? 0 : top; /* a later token's window begins later */
            const float shrink = power_of_2((largest[i] - base) * by);
            const float shift = base * by;
            largest[i] = top;
            float total = 0;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                s[n][2 * i] = power_of_2(s[n][2 * i] * by - shift);
                s[n][2 * i + 1] = power_of_2(s[n][2 * i + 1] * by - shift);
                total += s[n][2 * i] + s[n][2 * i + 1];
            }
            sum[i] = sum[i] * shrink + total;
#pragma unroll
            for (int j = 0; j < HEAD_DIM / 8; j++) {
                out[j][2 * i] *= shrink;
                out[j][2 * i + 1] *= shrink;
            }
        }
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            const u32 a0 = pack(s[2 * n][0], s[2 * n][1]), a1 = pack(s[2 * n][2], s[2 * n][3]);
            const u32 a2 = pack(s[2 * n + 1][0], s[2 * n + 1][1]);
            const u32 a3 = pack(s[2 * n + 1][2], s[2 * n + 1][3]);
#pragma unroll
            for (int j = 0; j < HEAD_DIM / 16; j++) {
                u32 b[4];
                ptx_ldmatrix_x4_trans(b, shared_at(v, n * 16 + (m & 1) * 8 + r8, 2 * j + (m >> 1)));
                mma(out[2 * j], a0, a1, a2, a3, b[0], b[1]);
                mma(out[2 * j + 1], a0, a1, a2, a3, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 1);
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 2);
        const int r = warp * 16 + g + 8 * i;
        if (r >= tokens)
            continue;
        if (a.sinks) /* infinite where it is far above all scores: leaves 0 */
            sum[i] += power_of_2(to_float(((const elem *)a.sinks)[head]) * 1.4426950408889634f -
                                 largest[i] * by);
        const float inv = 1.0f / sum[i];
        elem *to = (elem *)a.out + ((i64)(segment.first + token0 + r) * a.heads + head) * HEAD_DIM;
#pragma unroll
        for (int j = 0; j < HEAD_DIM / 8; j++)
            *(u32 *)(to + j * 8 + 2 * t) = pack(out[j][2 * i] * inv, out[j][2 * i + 1] * inv);
    }
}
