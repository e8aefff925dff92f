/* From logits to tokens: the first largest, or a draw. */

/* Order of floats as unsigned numbers; -0 is 0. */
__device__ static inline u32 ordered(float v)
{
    const u32 bits = __float_as_uint(v + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* grid = [parts, rows], 256 threads. The best of a row is the largest of (logit, -index) as one
 * number; the last block of a row writes the token. */
extern "C" __global__ void KERNEL(argmax)(const __grid_constant__ struct cuda_argmax_args a)
{
    __shared__ u64 best[32];
    begin();
    wait();
    const int r = blockIdx.y;
    if (r >= a.batch.step->n_rows)
        return;
    const float *logits = a.logits + (i64)r * a.vocab;
    u64 mine = 0;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.sample_vocab;
         i += gridDim.x * blockDim.x) {
        const float v = __ldcg(logits + i);
        const u64 key = v == v ? (u64)ordered(v) << 32 | (0xffffffffu - (u32)i) : 0;
        mine = key > mine ? key : mine;
    }
    for (int i = 16; i > 0; i >>= 1) {
        const u64 other = __shfl_xor_sync(0xffffffffu, mine, i);
        mine = other > mine ? other : mine;
    }
    if (threadIdx.x % 32 == 0)
        best[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < (int)blockDim.x / 32; i++)
        mine = best[i] > mine ? best[i] : mine;
    atomicMax(&a.partial[r], mine);
    __threadfence();
    if (atomicAdd(&a.counters[r], 1) != (int)gridDim.x - 1)
        return;
    __threadfence();
    const u64 all = atomicExch(&a.partial[r], 0ull);
    a.counters[r] = 0;
    const int id = all ? (int)(0xffffffffu - (u32)all) : 0;
    a.ids[r] = id;
    if (a.batch.last)
        a.batch.last[a.batch.row_slot[r]] = id;
}

/* ---- a draw ---------------------------------------------------------------------------------- */

enum { SAMPLE_THREADS = 1024, DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PART_BITS = 14 };

struct draw {
    const float *logits;
    int n;
    float best, temperature, min_p;
};

/* exp((logit - best) / temperature), 0 below 2^-40 and for candidates that min_p drops: Cephes'
 * polynomial for e^r, every operation rounded by itself, so that host and device agree bit by bit. */
__device__ static inline float weight_of(const struct draw &d, int i)
{
    const float logit = d.logits[i];
    float w = 1;
    if (!(logit >= d.best)) {
        const float z = __fdiv_rn(__fsub_rn(logit, d.best), d.temperature);
        if (!(z >= -30.0f))
            return 0;
        const float n = rintf(__fmul_rn(z, 1.44269504088896341f));
        float r = __fadd_rn(z, __fmul_rn(n, -0.693359375f));
        r = __fadd_rn(r, __fmul_rn(n, 2.12194440e-4f));
        float p = 1.9875691500e-4f;
        p = __fadd_rn(__fmul_rn(p, r), 1.3981999507e-3f);
        p = __fadd_rn(__fmul_rn(p, r), 8.3334519073e-3f);
        p = __fadd_rn(__fmul_rn(p, r), 4.1665795894e-2f);
        p = __fadd_rn(__fmul_rn(p, r), 1.6666665459e-1f);
        p = __fadd_rn(__fmul_rn(p, r), 5.0000001201e-1f);
        p = __fadd_rn(__fadd_rn(__fmul_rn(__fmul_rn(p, r), r), r), 1.0f);
        w = __fmul_rn(p, __int_as_float(((int)n + 127) << 23));
        w = w < 1 ? w : 1;
    }
    return w >= d.min_p && w >= 9.094947017729282e-13f ? w : 0;
}

__device__ static inline u64 fixed(float w)
{
    return (u64)__fmul_rn(w, 1099511627776.0f);
}

/* Inclusive sum over the block's threads; s has 32 numbers. */
__device__ static inline u64 block_scan(u64 v, u64 *s)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = 1; i < 32; i *= 2) {
        const u64 other = __shfl_up_sync(0xffffffffu, v, i);
        v += lane >= i ? other : 0;
    }
    __syncthreads();
    if (lane == 31)
        s[warp] = v;
    __syncthreads();
    for (int i = 0; i < warp; i++)
        v += s[i];
    return v;
}

struct threshold {
    float weight; /* tokens above are kept, */
    int ties;     /* and so many of those at it, by ascending id */
    u64 mass;     /* of what is kept, fixed point */
};

/* Sums of a digit: how many, and their fixed-point weights in parts of 14 bits, whose sums over 2^18
 * tokens fit 32 bits: shared memory adds those in hardware. */
struct digit_sums {
    u32 count[DIGITS], part[3][DIGITS];
};

__device__ static inline u64 mass_of(const struct digit_sums *d, int i)
{
    return d->part[0][i] + ((u64)d->part[1][i] << PART_BITS) +
           ((u64)d->part[2][i] << (2 * PART_BITS));
}

/* The fewest tokens, likeliest first, that are `limit` in number (by_mass false) or in weight. The
 * weights' bits, which order as the weights do, are found 11 at a time. */
__device__ static struct threshold select(const struct draw &d, u64 limit, bool by_mass,
                                          struct digit_sums *sums, u64 *scan, u64 *found)
{
    u32 prefix = 0;
    u64 above_mass = 0, above_count = 0, at_count = 0;
    for (int shift = 2 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        for (int i = threadIdx.x; i < (int)sizeof *sums / 4; i += SAMPLE_THREADS)
            ((u32 *)sums)[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < d.n; i += SAMPLE_THREADS) {
            const float w = weight_of(d, i);
            const u32 bits = __float_as_uint(w);
            if (bits == 0 || (shift < 2 * DIGIT_BITS && bits >> (shift + DIGIT_BITS) != prefix))
                continue;
            const u32 digit = bits >> shift & (DIGITS - 1);
            const u64 f = fixed(w);
            atomicAdd(&sums->count[digit], 1u);
            for (int j = 0; j < 3; j++)
                atomicAdd(&sums->part[j][digit],
                          (u32)(f >> (j * PART_BITS)) & (j < 2 ? (1u << PART_BITS) - 1 : ~0u));
        }
        __syncthreads();
        /* a thread takes two digits, the largest first; the one where the limit is reached, or the
         * last, has the digit */
        const int hi = DIGITS - 1 - 2 * (int)threadIdx.x, lo = hi - 1;
        const u64 mass_hi = mass_of(sums, hi), own_mass = mass_hi + mass_of(sums, lo);
        const u64 count_hi = sums->count[hi], own_count = count_hi + sums->count[lo];
        const u64 counts = above_count + block_scan(own_count, scan) - own_count;
        const u64 masses = above_mass + block_scan(own_mass, scan) - own_mass;
        const u64 before = by_mass ? masses : counts;
        const u64 after = before + (by_mass ? own_mass : own_count);
        if (before < limit && (after >= limit || threadIdx.x == SAMPLE_THREADS - 1)) {
            const bool is_hi = before + (by_mass ? mass_hi : count_hi) >= limit;
            found[0] = is_hi ? hi : lo;
            found[1] = is_hi ? masses : masses + mass_hi;
            found[2] = is_hi ? counts : counts + count_hi;
            found[3] = sums->count[is_hi ? hi : lo];
        }
        __syncthreads();
        prefix = prefix << DIGIT_BITS | (u32)found[0];
        above_mass = found[1], above_count = found[2], at_count = found[3];
        __syncthreads();
    }
    struct threshold t = {__uint_as_float(prefix), 0, above_mass};
    const u64 each = fixed(t.weight);
    if (each > 0) {
        u64 ties = by_mass ? (limit - above_mass + each - 1) / each : limit - above_count;
        ties = ties < at_count ? ties : at_count;
        t.ties = (int)ties;
        t.mass += ties * each;
    }
    return t;
}

__device__ static inline u64 splitmix(u64 *x)
{
    u64 z = (*x += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* The first number of rng_stream(seed + position * 2^64 / phi, "sampler"), see base/rng.h. */
__device__ static inline u64 random_bits(u64 seed, int position)
{
    const char name[] = "sampler";
    u64 h = 0xcbf29ce484222325ull;
    for (int i = 0; i < 7; i++)
        h = (h ^ (u64)name[i]) * 0x100000001b3ull;
    u64 x = (seed + (u64)position * 0x9e3779b97f4a7c15ull) ^ splitmix(&h);
    u64 s[4];
    for (int i = 0; i < 4; i++)
        s[i] = splitmix(&x);
    const u64 sum = s[0] + s[3];
    return (sum << 23 | sum >> 41) + s[0];
}

/* grid = [rows]. A thread takes neighbouring ids, so the draw goes through the kept tokens by id. */
extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS)
    KERNEL(sample)(const __grid_constant__ struct cuda_sample_args a)
{
    __shared__ struct digit_sums sums;
    __shared__ u64 scan[32], found[4];
    __shared__ float tops[32];
    begin();
    wait();
    const int r = blockIdx.x;
    if (r >= a.batch.step->n_rows || !(a.sampling[r].temperature > 0))
        return;
    const struct cuda_sampling how = a.sampling[r];
    struct draw d = {a.logits + (i64)r * a.vocab, a.sample_vocab, NONE, how.temperature, how.min_p};
    float top = NONE;
    for (int i = threadIdx.x; i < d.n; i += SAMPLE_THREADS)
        top = fmaxf(top, d.logits[i]);
    top = warp_max(top);
    if (threadIdx.x % 32 == 0)
        tops[threadIdx.x / 32] = top;
    __syncthreads();
    for (int i = 0; i < 32; i++)
        d.best = fmaxf(d.best, tops[i]);

    /* all: every token of any weight */
    const int per = (d.n + SAMPLE_THREADS - 1) / SAMPLE_THREADS;
    const int first = threadIdx.x * per, end = first + per < d.n ? first + per : d.n;
    struct threshold keep = {0, 0, 0};
    if (how.top_k > 0 && how.top_k < d.n)
        keep = select(d, (u64)how.top_k, false, &sums, scan, found);
    if (keep.mass == 0) {
        u64 all = 0;
        for (int i = threadIdx.x; i < d.n; i += SAMPLE_THREADS)
            all += fixed(weight_of(d, i));
        all = block_scan(all, scan);
        if (threadIdx.x == SAMPLE_THREADS - 1)
            found[0] = all;
        __syncthreads();
        keep.mass = found[0];
        __syncthreads();
    }
    if (how.top_p < 1) {
        const u64 limit = (u64)((double)how.top_p * (double)keep.mass);
        const struct threshold k = select(d, limit > 0 ? limit : 1, true, &sums, scan, found);
        if (k.weight > keep.weight || (k.weight == keep.weight && k.ties < keep.ties))
            keep = k;
    }

    u64 above = 0;
    int ties = 0;
    for (int i = first; i < end; i++) {
        const float w = weight_of(d, i);
        above += w > keep.weight ? fixed(w) : 0;
        ties += w > 0 && w == keep.weight;
    }
    const int ties_before = (int)block_scan((u64)ties, scan) - ties;
    int left = keep.ties - ties_before;
    left = left < 0 ? 0 : left;
    const u64 own = above + (u64)(ties < left ? ties : left) * fixed(keep.weight);
    const u64 after = block_scan(own, scan);
    const u64 unit = random_bits(how.seed, a.positions[r]) >> 11 << 11;
    const u64 goal = __umul64hi(unit, keep.mass);
    int id = -1;
    if (after > goal && after - own <= goal) {
        u64 sum = after - own;
        for (int i = first; i < end && id < 0; i++) {
            const float w = weight_of(d, i);
            if (w > keep.weight || (w > 0 && w == keep.weight && left-- > 0)) {
                sum += fixed(w);
                id = sum > goal ? i : -1;
            }
        }
    } else if (keep.mass == 0 && threadIdx.x == 0) {
        id = 0;
    }
    if (id >= 0) {
        a.ids[r] = id;
        if (a.batch.last)
            a.batch.last[a.batch.row_slot[r]] = id;
    }
}
