/* Decode attention of equal and of unequal lengths with as many keys together, by the plan of
 * engine/cuda/parts.h, by its two forms, by the rule before it, and by plans of more parts, in one
 * run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/parts.h"
#include "gpu/bench.h"
#include "gpu/world.h"

enum { MOST_ROWS = 128, PAGE = 16 };

struct heads {
    const char *name;
    int heads, kv_heads;
};

static const struct heads models[] = {{"16/8", 16, 8}, {"32/32", 32, 32}};
static const char *const spreads[] = {"equal", "lognormal 0.9", "one of 8x"};
enum { MODELS = 2, SPREADS = 3, HEAD_DIM = 128 };

/* Plans: the engine's; runs always; a part a block always; the rule before plans; at most 1 to 4
 * parts a row in the mean, a block each. */
enum way { NOW, RUNS, SINGLE, BEFORE, ONE, TWO, THREE, FOUR, WAYS };
static const char *const ways[WAYS] = {"now", "runs", "single", "before", "1n", "2n", "3n", "4n"};

struct unequal {
    struct dev *g;
    struct world w;
    dev_ptr pool;
    int64_t pool_bytes;
    const struct heads *m;
    int rows, keys[MOST_ROWS];
    int rounds;  /* of a graph */
    double rate; /* bytes per second of the floor; NAN = not measured */
};

/* ---- lengths --------------------------------------------------------------------------------- */

/* Of mean `mean`, the same for all models. */
static void draw_lengths(struct unequal *x, int spread, int mean)
{
    struct rng r = rng_stream(7, "lengths");
    const int n = x->rows;
    double weight[MOST_ROWS], sum = 0;
    for (int i = 0; i < n; i++) {
        weight[i] = spread == 1 ? exp(0.9 * rng_normal(&r)) : spread == 2 && i == n / 2 ? 8 : 1;
        sum += weight[i];
    }
    int left = n * mean;
    for (int i = 0; i < n; i++) { /* what rounding leaves goes to the last */
        const int keys = (int)((double)n * mean * weight[i] / sum);
        x->keys[i] = i == n - 1 ? left : keys > 1 ? keys : 1;
        left -= x->keys[i];
    }
    x->keys[n - 1] = x->keys[n - 1] > 1 ? x->keys[n - 1] : 1;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Every row into ceil(2 multiprocessors / blocks of a part of every row) parts. */
static int plan_before(const struct unequal *x, const struct cuda_segment *rows,
                       struct cuda_part *out)
{
    const int blocks = x->rows * cuda_attention_head_tiles(x->m->heads, x->m->kv_heads),
              most = (2 * x->g->sms + blocks - 1) / blocks;
    int n = 0;
    for (int i = 0; i < x->rows; i++) {
        const int stripes = (rows[i].kv_before + CUDA_STRIPE_KEYS) / CUDA_STRIPE_KEYS,
                  capped = most < CUDA_ROW_PARTS ? most : CUDA_ROW_PARTS,
                  parts = stripes < capped ? stripes : capped;
        for (int j = 0; j < parts; j++)
            out[n + j] = (struct cuda_part){.row = rows[i].first,
                                            .position = rows[i].kv_before,
                                            .table = rows[i].table,
                                            .seq = i,
                                            .from = stripes * j / parts,
                                            .to = stripes * (j + 1) / parts,
                                            .parts = parts,
                                            .first = n};
        n += parts;
    }
    return n;
}

static struct cuda_parts_limits limits_of(const struct unequal *x, enum way way)
{
    const int heads = x->m->heads, kv = x->m->kv_heads, sms = x->g->sms;
    struct cuda_parts_limits l = {.at_once = cuda_parts_at_once(heads, kv, sms)};
    if (way < BEFORE) {
        l.deal = way == NOW ? CUDA_DEAL : way == RUNS ? CUDA_DEAL_RUNS : CUDA_DEAL_SINGLE;
        l.most = cuda_parts_most(l.deal, x->rows, heads, kv, sms);
        return l;
    }
    const int blocks = x->rows * cuda_attention_head_tiles(heads, kv);
    l.deal = CUDA_DEAL_SMALLEST;
    l.most = x->rows * (way == BEFORE ? (2 * sms + blocks - 1) / blocks : 1 + (int)way - ONE);
    return l;
}

static void plan(const struct unequal *x, enum way way, const struct cuda_parts_limits *l,
                 const struct cuda_segment *rows, struct cuda_part *parts, int *runs,
                 struct cuda_step *step)
{
    if (way != BEFORE) {
        cuda_parts_plan(rows, x->rows, l, parts, runs, step);
        return;
    }
    step->n_parts = step->n_runs = plan_before(x, rows, parts);
    for (int i = 0; i <= l->most; i++)
        runs[i] = i < step->n_parts ? i : step->n_parts;
}

/* ---- the batch ------------------------------------------------------------------------------- */

struct case_of {
    struct cuda_attention_args a;
    struct cuda_sizes most;
    int64_t cache_bytes; /* of keys, and of values */
    int64_t out_bytes;
    int runs;
    double floor_bytes;
};

static void prepare(struct unequal *x, enum way way, struct case_of *c)
{
    struct world *w = &x->w;
    const int n = x->rows, heads = x->m->heads, kv = x->m->kv_heads;
    const struct cuda_parts_limits limits = limits_of(x, way);
    const int room = cuda_parts_room(limits.most, n);
    world_begin(w, 1);
    int blocks = 0;
    for (int i = 0; i < n; i++)
        blocks += (x->keys[i] + PAGE - 1) / PAGE;
    struct cuda_step *step = world_take(w, sizeof *step);
    struct cuda_segment *rows = world_take(w, (size_t)n * sizeof *rows);
    struct cuda_part *parts = world_take(w, (size_t)room * sizeof *parts);
    int *runs = world_ints(w, limits.most + 1);
    int *table = world_ints(w, blocks);
    for (int i = 0; i < blocks; i++) /* coprime with any count of blocks: scattered */
        table[i] = (int)((int64_t)i * 7919 % blocks);
    for (int i = 0, used = 0; i < n; i++) {
        rows[i] = (struct cuda_segment){i, 1, x->keys[i] - 1, used};
        used += (x->keys[i] + PAGE - 1) / PAGE;
    }
    *step = (struct cuda_step){.n_tokens = n, .n_rows = n, .n_decodes = n};
    plan(x, way, &limits, rows, parts, runs, step);
    c->runs = step->n_runs;
    c->most = (struct cuda_sizes){.tokens = n,
                                  .rows = n,
                                  .decodes = n,
                                  .runs = limits.most,
                                  .parts = room,
                                  .parts_at_once = limits.at_once,
                                  .sms = x->g->sms};
    c->a = (struct cuda_attention_args){
        .batch = {.step = step, .segments = rows, .blocks = table, .parts = parts, .runs = runs},
        .heads = heads,
        .kv_heads = kv,
        .head_dim = HEAD_DIM,
        .block_size = PAGE,
        .scale = (float)(1 / sqrt(HEAD_DIM)),
        .eps = 1e-6F};
    c->a.qkv = world_random(w, CUDA_BF16, (int64_t)n * (heads + 2 * kv) * HEAD_DIM, 1);
    c->out_bytes = (int64_t)n * heads * HEAD_DIM * 2;
    c->a.out = world_take(w, (size_t)c->out_bytes);
    c->a.partial = world_take(w, (size_t)room * (size_t)heads * (HEAD_DIM + 2) * sizeof(float));
    c->a.counters = world_ints(w, n * cuda_attention_head_tiles(heads, kv));
    c->cache_bytes = (int64_t)blocks * kv * PAGE * HEAD_DIM * 2;
    c->floor_bytes = cuda_kernels[CUDA_ATTENTION_DECODE].floor(&c->a, CUDA_BF16).bytes;
}

/* ---- timing ---------------------------------------------------------------------------------- */

struct timed {
    double s;
    unsigned short *out; /* of the last round */
    bool same;           /* the second run of the graph gave the same bytes */
};

/* Rounds go through as many caches as the pool holds, so that L2 has nothing of them. */
static void time_case(struct unequal *x, struct case_of *c, struct timed *out)
{
    struct dev *g = x->g;
    const struct cuda_kernel *k = &cuda_kernels[CUDA_ATTENTION_DECODE];
    const struct gpu_kernel *f = dev_entry(g, k, CUDA_BF16, HEAD_DIM);
    const int64_t copies = x->pool_bytes / (2 * c->cache_bytes);
    const dev_ptr at = x->w.device + (uint64_t)((char *)c->a.out - x->w.host);
    struct cuda_launch l;
    struct cuda_attention_args device;
    ASSERT(copies > 0);
    dev_upload(g, x->w.device, x->w.host, x->w.used);
    k->launch(&c->a, CUDA_BF16, &c->most, &l);
    dev_graph_begin(g);
    for (int i = 0; i < x->rounds; i++) {
        const dev_ptr keys = x->pool + (uint64_t)(i % copies * 2 * c->cache_bytes);
        c->a.k = (void *)(uintptr_t)keys;
        c->a.v = (void *)(uintptr_t)(keys + (uint64_t)c->cache_bytes);
        world_device_args(&x->w, &c->a, sizeof device, &device);
        dev_launch(g, f, &l, &device, sizeof device, i > 0);
    }
    CUgraphExec graph = dev_graph_end(g);
    out->s = dev_graph_time(g, graph, 11, 1) / x->rounds;
    out->out = mem_alloc((size_t)c->out_bytes);
    unsigned short *again = mem_alloc((size_t)c->out_bytes);
    dev_download(g, out->out, at, (size_t)c->out_bytes);
    dev_graph_time(g, graph, 1, 1);
    dev_download(g, again, at, (size_t)c->out_bytes);
    out->same = memcmp(again, out->out, (size_t)c->out_bytes) == 0;
    mem_free(again);
    dev_graph_free(g, graph);
}

static double float_of(unsigned short bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float v;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

static double error_of(const unsigned short *got, const unsigned short *want, int64_t n)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = float_of(got[i]), b = float_of(want[i]);
        difference += (a - b) * (a - b);
        norm += b * b;
    }
    return norm > 0 ? sqrt(difference / norm) : difference > 0 ? INFINITY : 0;
}

/* Results of all plans differ by roundings alone: twice what the kernel may differ from its twin.
 */
static int compare(const struct timed *t, int64_t out_bytes)
{
    const double most = 2 * cuda_kernels[CUDA_ATTENTION_DECODE].tolerance[CUDA_BF16];
    int failed = 0;
    for (int way = 0; way < WAYS; way++) {
        const double error = error_of(t[way].out, t[BEFORE].out, out_bytes / 2);
        if (t[way].same && error <= most)
            continue;
        printf("FAIL plan %s: %s, differs from before by %.3g of %.3g\n", ways[way],
               t[way].same ? "same bytes again" : "OTHER BYTES when run again", error, most);
        failed++;
    }
    return failed;
}

static int time_lengths(struct unequal *x, int spread, int mean, double *equal_s)
{
    struct timed t[WAYS];
    struct case_of c = {0};
    int longest = 0;
    char blocks[64] = "";
    draw_lengths(x, spread, mean);
    for (int i = 0; i < x->rows; i++)
        longest = x->keys[i] > longest ? x->keys[i] : longest;
    for (int way = 0; way < WAYS; way++) {
        prepare(x, (enum way)way, &c);
        time_case(x, &c, &t[way]);
        if (way <= BEFORE)
            snprintf(blocks + strlen(blocks), sizeof blocks - strlen(blocks), "%s%d",
                     way ? " " : "",
                     c.runs * cuda_attention_head_tiles(x->m->heads, x->m->kv_heads));
    }
    const int failed = compare(t, c.out_bytes);
    const double floor_s = c.floor_bytes / x->rate;
    if (spread == 0)
        *equal_s = t[NOW].s;
    printf("%-6s %4d %-14s %6d %8.1f", x->m->name, x->rows, spreads[spread], longest,
           floor_s * 1e6);
    for (int way = 0; way < WAYS; way++)
        printf(" %8.1f", t[way].s * 1e6);
    printf("   %.2f %6.2f   %s\n", floor_s / t[NOW].s, t[NOW].s / *equal_s, blocks);
    for (int way = 0; way < WAYS; way++)
        mem_free(t[way].out);
    return failed;
}

int time_unequal(struct dev *g, bool quick)
{
    static const int all[] = {16, 24, 33, 48, 64, 128}, few[] = {3};
    const int *rows = quick ? few : all;
    struct unequal x = {
        .g = g, .rounds = quick ? 2 : 16, .pool_bytes = (int64_t)(quick ? 16 : 4096) << 20};
    int failed = 0;
    x.rate = quick ? NAN : read_bandwidth(g);
    world_open(&x.w, g, (size_t)(quick ? 16 : 64) << 20);
    x.pool = dev_alloc(g, (size_t)x.pool_bytes);
    dev_fill_random(g, x.pool, x.pool_bytes / 2);
    const int mean = quick ? 100 : 1024;
    printf("attention_decode, bf16, head_dim 128, mean %d keys; us in a graph of %d\n", mean,
           x.rounds);
    printf("%-6s %4s %-14s %6s %8s", "heads", "rows", "lengths", "most", "floor");
    for (int way = 0; way < WAYS; way++)
        printf(" %8s", ways[way]);
    printf("   %s %s   %s\n", "share", "/equal", "blocks: now, runs, single, before");
    for (int m = 0; m < (quick ? 1 : MODELS); m++)
        for (size_t i = 0; i < (quick ? 1 : sizeof all / sizeof *all); i++) {
            double equal_s = 0;
            x.m = &models[m];
            x.rows = rows[i];
            for (int spread = 0; spread < SPREADS; spread++)
                failed += time_lengths(&x, spread, mean, &equal_s);
        }
    world_close(&x.w);
    dev_free(g, x.pool);
    printf("%d plans failed\n", failed);
    return failed;
}
