/* Times of single rows beside their floors. A row runs in a graph, on as many copies of its large
 * operand in turn as the L2 cache does not hold. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/parts.h"
#include "engine/cuda/twins.h"
#include "gpu/bench.h"
#include "gpu/world.h"
#include "model/random.h"

/* ---- the roof -------------------------------------------------------------------------------- */

struct stream_args {
    dev_ptr p, out;
    long long n;
};

static const char stream_text[] =
    "struct stream_args { const uint4 *p; unsigned *out; long long n; };\n"
    "extern \"C\" __global__ void __launch_bounds__(512)\n"
    "    stream(const __grid_constant__ struct stream_args a)\n"
    "{\n"
    "    unsigned sum = 0;\n"
    "    const long long step = (long long)gridDim.x * 512;\n"
    "    for (long long i = (long long)blockIdx.x * 512 + threadIdx.x; i + 7 * step < a.n;\n"
    "         i += 8 * step) {\n"
    "        uint4 v[8];\n"
    "#pragma unroll\n"
    "        for (int j = 0; j < 8; j++)\n"
    "            asm volatile(\"ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];\"\n"
    "                         : \"=r\"(v[j].x), \"=r\"(v[j].y), \"=r\"(v[j].z), \"=r\"(v[j].w)\n"
    "                         : \"l\"(a.p + i + j * step));\n"
    "#pragma unroll\n"
    "        for (int j = 0; j < 8; j++)\n"
    "            sum += v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;\n"
    "    }\n"
    "    if (sum == 12345)\n"
    "        *a.out = sum;\n"
    "}\n";

double read_bandwidth(struct dev *g)
{
    static double known;
    if (known > 0)
        return known;
    const struct gpu_kernel *f = dev_entry_of(g, stream_text, "stream");
    const struct stream_args a = {dev_alloc(g, (size_t)8 << 30), dev_alloc(g, 256),
                                  (8LL << 30) / 16};
    dev_fill_random(g, a.p, (int64_t)4 << 30);
    for (int per_sm = 2; per_sm <= 4; per_sm++) {
        const struct cuda_launch l = {{(unsigned)(g->sms * per_sm), 1, 1}, 512, 0};
        dev_graph_begin(g);
        dev_launch(g, f, &l, &a, sizeof a, false);
        CUgraphExec graph = dev_graph_end(g);
        const double rate = (double)a.n * 16 / dev_graph_time(g, graph, 9, 1);
        known = rate > known ? rate : known;
        dev_graph_free(g, graph);
    }
    dev_free(g, a.p);
    dev_free(g, a.out);
    printf("read-only stream of 8 GiB: %.2f TB/s\n", known / 1e12);
    return known;
}

void dev_fill_random(struct dev *g, dev_ptr p, int64_t n)
{
    static dev_ptr quantiles;
    if (!quantiles) {
        quantiles = dev_alloc(g, RANDOM_WEIGHTS_QUANTILES * sizeof(float));
        dev_upload(g, quantiles, random_weights_quantiles(),
                   RANDOM_WEIGHTS_QUANTILES * sizeof(float));
    }
    struct cuda_random_args a = {.out = (void *)(uintptr_t)p,
                                 .n = n,
                                 .key = {(unsigned)n, 17},
                                 .quantiles = (const float *)(uintptr_t)quantiles};
    struct cuda_launch l;
    const struct cuda_kernel *k = &cuda_kernels[CUDA_RANDOM];
    k->launch(&a, CUDA_BF16, &(struct cuda_sizes){.sms = g->sms}, &l);
    dev_launch(g, dev_entry(g, k, CUDA_BF16, 0), &l, &a, sizeof a, false);
    dev_sync(g);
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum { COPIES = 64, MOST_ARGS = 512 };

struct timing {
    struct dev *g;
    struct world w;
    dev_ptr pool; /* weights and caches */
    int64_t pool_bytes;
    struct cuda_sizes most;
};

/* One row: the members at the offsets `pointers` move by `bytes` through the pool, launch by
 * launch.
 */
static void time_row(struct timing *x, enum cuda_kernel_id id, int head_dim, void *args,
                     int n_pointers, const size_t *pointers, int64_t bytes, const char *what)
{
    const struct cuda_kernel *k = &cuda_kernels[id];
    const enum cuda_dtype t = CUDA_BF16;
    char device[MOST_ARGS];
    struct cuda_launch l;
    const struct gpu_kernel *f = dev_entry(x->g, k, t, head_dim);
    double seconds[2];
    k->launch(args, t, &x->most, &l);
    dev_upload(x->g, x->w.device, x->w.host, x->w.used);
    for (int dependent = 0; dependent < 2; dependent++) {
        const int64_t copies = bytes > 0 ? x->pool_bytes / (bytes * n_pointers) : 1;
        dev_graph_begin(x->g);
        for (int i = 0; i < COPIES; i++) {
            for (int j = 0; j < n_pointers; j++) {
                const uint64_t at =
                    x->pool + (uint64_t)((i % copies) * n_pointers + j) * (uint64_t)bytes;
                memcpy((char *)args + pointers[j], &at, sizeof at);
            }
            world_device_args(&x->w, args, k->args_bytes, device);
            dev_launch(x->g, f, &l, device, k->args_bytes, dependent && i > 0);
        }
        CUgraphExec graph = dev_graph_end(x->g);
        seconds[dependent] = dev_graph_time(x->g, graph, 11, 1) / COPIES;
        dev_graph_free(x->g, graph);
    }
    const struct cuda_floor least =
        k->floor(args, t); /* the pointers that moved are not followed */
    const double best = seconds[1] < seconds[0] ? seconds[1] : seconds[0];
    printf("%-18s %-34s %8.2f %8.2f %8.2f %6.2f %7.0f %4d %5d %6d\n", k->name, what,
           seconds[0] * 1e6, seconds[1] * 1e6, least.bytes / read_bandwidth(x->g) * 1e6,
           least.bytes / best / read_bandwidth(x->g), least.flop / best / 1e12, f->registers,
           f->local_bytes, (int)l.grid[0] * (int)l.grid[1] * (int)l.grid[2]);
}

static void time_matmul(struct timing *x, int n, int in, int outs, int act, bool norm)
{
    char what[96];
    const int parts = act == CUDA_ACT_SILU_GATED ? 2 : 1;
    world_begin(&x->w, 1);
    int *count = world_ints(&x->w, 1);
    *count = n;
    x->most = (struct cuda_sizes){.tokens = n, .rows = n, .decodes = n, .sms = x->g->sms};
    struct cuda_matmul_args a = {.count = count, .in = in, .outs = outs, .act = act, .eps = 1e-6F};
    a.x = world_random(&x->w, CUDA_BF16, (int64_t)n * in, 1);
    a.norm = norm ? world_random(&x->w, CUDA_BF16, in, 1) : NULL;
    a.out = world_take(&x->w, (size_t)n * (size_t)outs * 4);
    a.residual = norm ? NULL : world_random(&x->w, CUDA_BF16, (int64_t)n * outs, 1);
    a.out_float = outs > 100000;
    snprintf(what, sizeof what, "%d x %d -> %d%s", n, in, outs * parts, norm ? ", norm" : "");
    const size_t pointers[] = {offsetof(struct cuda_matmul_args, weight)};
    const enum cuda_kernel_id picked = cuda_matmul_pick(&a, n, CUDA_BF16, x->g->sms);
    static const enum cuda_kernel_id all[2][2][2] = {
        {{CUDA_MATMUL_FEW, CUDA_MATMUL_FEW_WIDE}, {CUDA_MATMUL_SOME, CUDA_MATMUL_SOME_WIDE}},
        {{CUDA_MATMUL_FEW_GATED, CUDA_MATMUL_FEW_GATED},
         {CUDA_MATMUL_SOME_GATED, CUDA_MATMUL_SOME_GATED}}};
    const enum cuda_kernel_id *others = all[parts - 1][n > 8];
    const int64_t bytes = (int64_t)in * outs * parts * 2;
    time_row(x, picked, 0, &a, 1, pointers, bytes, what);
    for (int i = 0; i < 3 - parts; i++) /* those that were not picked */
        if (others[i] != picked)
            time_row(x, others[i], 0, &a, 1, pointers, bytes, what);
}

/* A batch of equal sequences whose tables run through the cache. */
static struct cuda_batch equal_batch(struct timing *x, int n_chunks, int n_decodes, int before,
                                     int tokens)
{
    struct world *w = &x->w;
    const int n = n_chunks + n_decodes, blocks = (before + tokens + 15) / 16, all = n * tokens;
    struct cuda_step *step = world_take(w, sizeof *step);
    struct cuda_segment *segments = world_take(w, (size_t)n * sizeof *segments);
    int *table = world_ints(w, n * blocks), *positions = world_ints(w, all);
    int *kv_at = world_ints(w, all), *ids = world_ints(w, all), *rows = world_ints(w, n);
    *step = (struct cuda_step){
        .n_tokens = all, .n_rows = n, .n_chunks = n_chunks, .n_decodes = n_decodes};
    for (int i = 0; i < n * blocks; i++) /* coprime with any count of blocks: scattered */
        table[i] = (int)((int64_t)i * 7919 % (n * blocks));
    for (int i = 0; i < n; i++) {
        segments[i] = (struct cuda_segment){i * tokens, tokens, before, i * blocks};
        rows[i] = (i + 1) * tokens - 1;
        for (int j = 0; j < tokens; j++) {
            positions[i * tokens + j] = before + j;
            ids[i * tokens + j] = (i * 977 + j * 31) % 1000;
            kv_at[i * tokens + j] = table[i * blocks + (before + j) / 16] * 16 + (before + j) % 16;
        }
    }
    x->most = (struct cuda_sizes){
        .tokens = all, .rows = n, .chunks = n_chunks, .decodes = n_decodes, .sms = x->g->sms};
    return (struct cuda_batch){.step = step,
                               .ids = ids,
                               .positions = positions,
                               .kv_at = kv_at,
                               .row_token = rows,
                               .row_slot = world_ints(w, n),
                               .segments = segments,
                               .blocks = table,
                               .last = world_ints(w, n)};
}

static void time_attention(struct timing *x, int n_chunks, int n_decodes, int before, int tokens,
                           int heads, int kv_heads, int d, bool fuse, int window)
{
    char what[96];
    world_begin(&x->w, 1);
    struct cuda_attention_args a = {.batch = equal_batch(x, n_chunks, n_decodes, before, tokens),
                                    .heads = heads,
                                    .kv_heads = kv_heads,
                                    .head_dim = d,
                                    .block_size = 16,
                                    .window = window,
                                    .fuse = fuse,
                                    .eps = 1e-6F,
                                    .scale = (float)(1 / sqrt(d))};
    const int all = (n_chunks + n_decodes) * tokens;
    const int blocks = (n_chunks + n_decodes) * ((before + tokens + 15) / 16);
    a.qkv = world_random(&x->w, CUDA_BF16, (int64_t)all * (heads + 2 * kv_heads) * d, 1);
    a.out = world_take(&x->w, (size_t)all * (size_t)heads * (size_t)d * 2);
    if (fuse) {
        a.q_norm = a.k_norm = world_random(&x->w, CUDA_BF16, d, 1);
        a.cosine = a.sine = world_floats(&x->w, (int64_t)(before + tokens) * d / 2);
    }
    if (n_decodes) {
        x->most.decodes = n_decodes;
        x->most.sms = x->g->sms;
        cuda_parts_sizes(CUDA_DEAL, heads, kv_heads, &x->most);
        const struct cuda_parts_limits limits = {CUDA_DEAL, x->most.runs, x->most.parts_at_once,
                                                 window};
        struct cuda_part *parts = world_take(&x->w, (size_t)x->most.parts * sizeof *parts);
        int *runs = world_ints(&x->w, x->most.runs + 1);
        struct cuda_step *step = (void *)(uintptr_t)a.batch.step;
        cuda_parts_plan(a.batch.segments + n_chunks, n_decodes, &limits, parts, runs, step);
        a.batch.parts = parts;
        a.batch.runs = runs;
        a.partial = world_take(&x->w, (size_t)(x->most.parts * heads * (d + 2)) * 4);
        a.counters = world_ints(&x->w, n_decodes * cuda_attention_head_tiles(heads, kv_heads));
    }
    if (window) {
        void *sinks = world_random(&x->w, CUDA_BF16, heads, 1);
        a.sinks = sinks;
    }
    snprintf(what, sizeof what, "%d of %d behind %d, %d/%d of %d%s%s", n_chunks + n_decodes, tokens,
             before, heads, kv_heads, d, fuse ? ", fused" : "", window ? ", window" : "");
    const size_t pointers[] = {offsetof(struct cuda_attention_args, k),
                               offsetof(struct cuda_attention_args, v)};
    time_row(x, n_decodes ? CUDA_ATTENTION_DECODE : CUDA_ATTENTION_PREFILL, d, &a, 2, pointers,
             (int64_t)blocks * kv_heads * 16 * d * 2, what);
}

static void time_tokens(struct timing *x, int n, int width, int heads, int kv_heads, int d)
{
    struct world *w = &x->w;
    char what[96];
    snprintf(what, sizeof what, "%d x %d", n, width);
    world_begin(w, 1);
    struct cuda_batch b = equal_batch(x, 1, 0, 0, n);
    struct cuda_embed_args e = {.batch = b, .hidden = width};
    e.x = world_take(w, (size_t)n * (size_t)width * 2);
    const size_t table[] = {offsetof(struct cuda_embed_args, table)};
    time_row(x, CUDA_EMBED, 0, &e, 1, table, (int64_t)width * 2000, what);

    world_begin(w, 1);
    b = equal_batch(x, 1, 0, 0, n);
    struct cuda_norm_args m = {.count = &b.step->n_tokens, .width = width, .eps = 1e-6F};
    m.weight = world_random(w, CUDA_BF16, width, 1);
    m.out = world_take(w, (size_t)n * (size_t)width * 2);
    const size_t in[] = {offsetof(struct cuda_norm_args, x), offsetof(struct cuda_norm_args, add),
                         offsetof(struct cuda_norm_args, sum)};
    time_row(x, CUDA_NORM, 0, &m, 3, in, (int64_t)n * width * 2, what);

    world_begin(w, 1);
    b = equal_batch(x, 1, 0, 0, n);
    struct cuda_act_args c = {
        .count = &b.step->n_tokens, .width = 3 * width, .act = CUDA_ACT_SILU_GATED};
    const size_t up[] = {offsetof(struct cuda_act_args, up), offsetof(struct cuda_act_args, out)};
    time_row(x, CUDA_ACT, 0, &c, 2, up, (int64_t)n * 6 * width * 2, what);

    world_begin(w, 1);
    b = equal_batch(x, 1, 0, 0, n);
    struct cuda_rope_args r = {.batch = b,
                               .heads = heads,
                               .kv_heads = kv_heads,
                               .head_dim = d,
                               .block_size = 16,
                               .eps = 1e-6F};
    r.q_norm = r.k_norm = world_random(w, CUDA_BF16, d, 1);
    r.cosine = r.sine = world_floats(w, (int64_t)n * d / 2);
    const size_t qkv[] = {offsetof(struct cuda_rope_args, qkv), offsetof(struct cuda_rope_args, k),
                          offsetof(struct cuda_rope_args, v)};
    time_row(x, CUDA_ROPE, 0, &r, 3, qkv, (int64_t)(n + 16) * (heads + 2 * kv_heads) * d * 2, what);
}

static void time_sampling(struct timing *x, int n, int vocab)
{
    struct world *w = &x->w;
    char what[96];
    world_begin(w, 1);
    const struct cuda_batch b = equal_batch(x, 0, n, 0, 1);
    struct cuda_argmax_args a = {.batch = b, .vocab = vocab, .sample_vocab = vocab};
    a.logits = world_random(w, CUDA_F32, (int64_t)n * vocab, 3);
    a.ids = world_ints(w, n);
    a.partial = world_take(w, (size_t)n * 8);
    a.counters = world_ints(w, n);
    snprintf(what, sizeof what, "%d x %d", n, vocab);
    time_row(x, CUDA_ARGMAX, 0, &a, 0, NULL, 0, what);
    struct cuda_sampling *how = world_take(w, (size_t)n * sizeof *how);
    for (int i = 0; i < n; i++)
        how[i] = (struct cuda_sampling){0.8F, 0, 0.95F, 50, (unsigned)i};
    const struct cuda_sample_args s = {b, a.logits, vocab, vocab, how, b.positions, a.ids};
    struct cuda_sample_args copy = s;
    time_row(x, CUDA_SAMPLE, 0, &copy, 0, NULL, 0, what);
}

/* ---- experts --------------------------------------------------------------------------------- */

struct experts {
    const char *name;
    int experts, k, hidden, intermediate, act;
};

/* k experts of each token, all with equal chance. */
static int *choose(struct timing *x, int n, const struct experts *m)
{
    int *expert = world_ints(&x->w, n * m->k);
    for (int i = 0; i < n * m->k; i++)
        for (bool again = true; again;) {
            expert[i] = (int)rng_below(&x->w.rng, (uint64_t)m->experts);
            again = false;
            for (int j = i / m->k * m->k; j < i; j++)
                again = again || expert[j] == expert[i];
        }
    return expert;
}

/* Both products of a layer, by both kernels, and what stands around them. */
static void time_experts(struct timing *x, int n, const struct experts *m)
{
    for (int kernel = 0; kernel < 4; kernel++) {
        const enum cuda_kernel_id id = kernel % 2 ? CUDA_EXPERTS_MANY : CUDA_EXPERTS_FEW;
        const bool down = kernel / 2;
        const int rows = cuda_experts_rows(id), pairs = n * m->k,
                  in = down ? m->intermediate : m->hidden,
                  outs = down ? m->hidden : m->intermediate;
        char what[96];
        world_begin(&x->w, 1);
        int *count = world_ints(&x->w, 1), *order = world_ints(&x->w, pairs),
            *n_tiles = world_ints(&x->w, 1);
        struct cuda_tile *tiles =
            world_take(&x->w, (size_t)cuda_experts_tiles(pairs, m->experts, rows) * sizeof *tiles);
        *count = n;
        x->most = (struct cuda_sizes){.tokens = n, .rows = n, .decodes = n, .sms = x->g->sms};
        struct cuda_group_args g = {.count = count,
                                    .expert = choose(x, n, m),
                                    .order = order,
                                    .tiles = tiles,
                                    .n_tiles = n_tiles,
                                    .experts = m->experts,
                                    .k = m->k,
                                    .rows = rows};
        twin_group(&g, CUDA_BF16);
        struct cuda_experts_args a = {.n_tiles = n_tiles,
                                      .tiles = tiles,
                                      .order = order,
                                      .experts = m->experts,
                                      .k = m->k,
                                      .share = down ? 1 : m->k,
                                      .in = in,
                                      .outs = outs,
                                      .act = down ? CUDA_ACT_NONE : m->act,
                                      .alpha = 1.702F,
                                      .limit = 7};
        a.weight_step = (long long)in * outs * (down ? 1 : 2);
        a.x = world_random(&x->w, CUDA_BF16, (int64_t)(down ? pairs : n) * in, 1);
        a.out = world_take(&x->w, (size_t)pairs * (size_t)outs * 2);
        snprintf(what, sizeof what, "%s, %d tokens, %d -> %d", m->name, n, in, outs);
        const size_t weight[] = {offsetof(struct cuda_experts_args, weight)};
        time_row(x, id, 0, &a, 1, weight, a.weight_step * m->experts * 2, what);
        if (kernel == 0)
            time_row(x, CUDA_GROUP, 0, &g, 0, NULL, 0, what);
    }
}

static void time_around_experts(struct timing *x, int n, const struct experts *m)
{
    char what[96];
    world_begin(&x->w, 1);
    int *count = world_ints(&x->w, 1);
    *count = n;
    snprintf(what, sizeof what, "%s, %d tokens", m->name, n);
    x->most = (struct cuda_sizes){.tokens = n, .rows = n, .decodes = n, .sms = x->g->sms};
    struct cuda_route_args r = {.count = count, .experts = m->experts, .k = m->k};
    r.logits = world_random(&x->w, CUDA_F32, (int64_t)n * m->experts, 1);
    r.expert = world_ints(&x->w, n * m->k);
    r.weight = world_floats(&x->w, (int64_t)n * m->k);
    time_row(x, CUDA_ROUTE, 0, &r, 0, NULL, 0, what);
    struct cuda_combine_args c = {
        .count = count, .weight = r.weight, .width = m->hidden, .k = m->k};
    c.x = world_random(&x->w, CUDA_BF16, (int64_t)n * m->hidden, 1);
    const size_t y[] = {offsetof(struct cuda_combine_args, y)};
    time_row(x, CUDA_COMBINE, 0, &c, 1, y, (int64_t)n * m->k * m->hidden * 2, what);
}

static void time_all_experts(struct timing *x)
{
    static const struct experts models[] = {
        {"Qwen3-30B-A3B", 128, 8, 2048, 768, CUDA_ACT_SILU_GATED},
        {"gpt-oss-20b", 32, 4, 2880, 2880, CUDA_ACT_CLAMPED_GATED}};
    static const int tokens[] = {1, 8, 64, 256, 1024, 2048};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t j = 0; j < sizeof tokens / sizeof *tokens; j++) {
            time_experts(x, tokens[j], &models[i]);
            time_around_experts(x, tokens[j], &models[i]);
        }
}

static void time_others(struct timing *x)
{
    time_attention(x, 0, 1, 1023, 1, 16, 8, 128, false, 0);
    time_attention(x, 0, 1, 1023, 1, 16, 8, 128, true, 0);
    time_attention(x, 0, 1, 8191, 1, 16, 8, 128, true, 0);
    time_attention(x, 0, 8, 1023, 1, 16, 8, 128, true, 0);
    time_attention(x, 0, 64, 1023, 1, 16, 8, 128, true, 0);
    time_attention(x, 0, 1, 1023, 1, 32, 32, 128, true, 0);
    time_attention(x, 0, 64, 1023, 1, 32, 32, 128, true, 0);
    time_attention(x, 0, 64, 1023, 1, 16, 16, 64, false, 0);
    time_attention(x, 0, 16, 1023, 1, 64, 8, 128, true, 0);
    time_attention(x, 1, 0, 0, 2048, 16, 8, 128, false, 0);
    time_attention(x, 1, 0, 0, 2048, 32, 32, 128, false, 0);
    time_attention(x, 1, 0, 1536, 512, 32, 32, 128, false, 0);
    time_attention(x, 8, 0, 0, 256, 32, 32, 128, false, 0);
    time_attention(x, 1, 0, 0, 2048, 16, 16, 64, false, 0);
    time_attention(x, 0, 1, 8191, 1, 64, 8, 64, true, 128); /* gpt-oss, beside its full layers */
    time_attention(x, 0, 1, 8191, 1, 64, 8, 64, true, 0);
    time_attention(x, 0, 64, 8191, 1, 64, 8, 64, true, 128);
    time_attention(x, 0, 64, 2047, 1, 64, 8, 64, true, 0);
    time_attention(x, 1, 0, 0, 4096, 64, 8, 64, false, 128);
    time_attention(x, 1, 0, 0, 4096, 64, 8, 64, false, 0);
    time_attention(x, 1, 0, 0, 4096, 32, 16, 128, false, 1024); /* Gemma 3 27B */
    time_all_experts(x);
    time_tokens(x, 2048, 1024, 16, 8, 128);
    time_tokens(x, 2048, 4096, 32, 32, 128);
    time_sampling(x, 1, 151936);
    time_sampling(x, 64, 151936);
}

void time_rows(struct dev *g, bool quick)
{
    struct timing x = {.g = g, .pool_bytes = (int64_t)2 << 30};
    const double rate = read_bandwidth(g);
    world_open(&x.w, g, (size_t)192 << 20);
    x.pool = dev_alloc(g, (size_t)x.pool_bytes);
    dev_fill_random(g, x.pool, x.pool_bytes / 2);
    printf("us per launch in a graph of %d; floor: bytes at %.2f TB/s\n", COPIES, rate / 1e12);
    printf("%-18s %-34s %8s %8s %8s %6s %7s %4s %5s %6s\n", "kernel", "size", "plain", "overlap",
           "floor", "share", "TFLOP/s", "regs", "local", "blocks");
    const int batches[] = {1, 8, 16};
    for (int i = 0; i < (quick ? 1 : 3); i++) {
        const int n = batches[i];
        time_matmul(&x, n, 1024, 4096, CUDA_ACT_NONE, true);
        time_matmul(&x, n, 2048, 1024, CUDA_ACT_NONE, false);
        time_matmul(&x, n, 1024, 3072, CUDA_ACT_SILU_GATED, true);
        time_matmul(&x, n, 3072, 1024, CUDA_ACT_NONE, false);
        time_matmul(&x, n, 1024, 151936, CUDA_ACT_NONE, true);
        time_matmul(&x, n, 4096, 32000, CUDA_ACT_NONE, true);
        time_matmul(&x, n, 4096, 12288, CUDA_ACT_NONE, true);
        time_matmul(&x, n, 4096, 4096, CUDA_ACT_NONE, false);
        time_matmul(&x, n, 4096, 11008, CUDA_ACT_SILU_GATED, true);
        time_matmul(&x, n, 11008, 4096, CUDA_ACT_NONE, false);
    }
    if (!quick)
        time_others(&x);
    world_close(&x.w);
    dev_free(g, x.pool);
}
