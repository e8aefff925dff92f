/* Whole decode steps from the rows for few sequences: what the kernels reach together, in a graph
 * as an engine captures it. The floor is the weights and keys and values once at the read
 * bandwidth. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/parts.h"
#include "gpu/bench.h"
#include "gpu/world.h"

struct dims {
    const char *name;
    int layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
    bool qk_norm;
};

static const struct dims models[] = {
    {"qwen3_0_6b", 28, 1024, 16, 8, 128, 3072, 151936, true},
    {"llama2_7b", 32, 4096, 32, 32, 128, 11008, 32000, false},
};

struct step {
    struct dev *g;
    const struct dims *m;
    struct world w; /* metadata and activations */
    struct cuda_sizes most;
    struct cuda_batch b;
    int rows, context;
    dev_ptr weights, cache, stamps, exchange;
    size_t exchange_bytes;
    int64_t weight_elems, layer_elems, cache_elems;
    void *x, *qkv, *att, *act;
    float *logits;
    struct cuda_attention_args attention;
    struct cuda_argmax_args argmax;
    const float *cosine, *sine;
    int launches, parts, least_pages;
    const struct gpu_kernel *variant; /* of decode_step; NULL = the engine's */
    bool dependent, fused;
};

static void put(struct step *s, enum cuda_kernel_id id, const void *args)
{
    const struct cuda_kernel *k = &cuda_kernels[id];
    char device[1024];
    struct cuda_launch l;
    k->launch(args, CUDA_BF16, &s->most, &l);
    world_device_args(&s->w, args, k->args_bytes, device);
    const struct gpu_kernel *f = id == CUDA_DECODE_STEP && s->variant
                                     ? s->variant
                                     : dev_entry(s->g, k, CUDA_BF16, s->m->head_dim);
    dev_launch(s->g, f, &l, device, k->args_bytes, s->dependent && s->launches > 0);
    s->launches++;
}

/* Weights of a layer: qkv, out, gate and up, down, norms; behind the last the final norm and the
 * embedding, which is lm_head's too. */
struct layer {
    int64_t qkv, out, up, down, input_norm, post_norm, q_norm, k_norm, end;
};

static struct layer layer_at(const struct step *s, int layer)
{
    const struct dims *m = s->m;
    struct layer l = {.qkv = layer * s->layer_elems};
    l.out = l.qkv + (int64_t)(m->heads + 2 * m->kv_heads) * m->head_dim * m->hidden;
    l.up = l.out + (int64_t)m->heads * m->head_dim * m->hidden;
    l.down = l.up + 2LL * m->intermediate * m->hidden;
    l.input_norm = l.down + (int64_t)m->intermediate * m->hidden;
    l.post_norm = l.input_norm + m->hidden;
    l.q_norm = l.post_norm + m->hidden;
    l.k_norm = l.q_norm + m->head_dim;
    l.end = l.k_norm + m->head_dim;
    return l;
}

static const void *weight(const struct step *s, int64_t at)
{
    return (const void *)(uintptr_t)(s->weights + 2 * (uint64_t)at);
}

static void matmul(struct step *s, const void *x, int64_t at, int in, int outs, int act,
                   const void *norm, const void *residual, void *out)
{
    const struct cuda_matmul_args a = {.count = &s->b.step->n_tokens,
                                       .x = x,
                                       .weight = weight(s, at),
                                       .norm = norm,
                                       .residual = residual,
                                       .out = out,
                                       .in = in,
                                       .outs = outs,
                                       .act = act,
                                       .out_float = out == s->logits,
                                       .eps = 1e-6F};
    put(s, cuda_matmul_pick(&a, s->rows, CUDA_BF16, s->g->sms), &a);
}

static void put_layer(struct step *s, int i)
{
    const struct dims *m = s->m;
    const struct layer l = layer_at(s, i);
    const int qkv = (m->heads + 2 * m->kv_heads) * m->head_dim, q = m->heads * m->head_dim;
    struct cuda_attention_args a = s->attention;
    a.k = (void *)(uintptr_t)(s->cache + 2 * (uint64_t)(2 * i * s->cache_elems));
    a.v = (void *)(uintptr_t)(s->cache + 2 * (uint64_t)((2 * i + 1) * s->cache_elems));
    if (m->qk_norm) {
        a.q_norm = weight(s, l.q_norm);
        a.k_norm = weight(s, l.k_norm);
    }
    matmul(s, s->x, l.qkv, m->hidden, qkv, CUDA_ACT_NONE, weight(s, l.input_norm), NULL, s->qkv);
    put(s, CUDA_ATTENTION_DECODE, &a);
    matmul(s, s->att, l.out, q, m->hidden, CUDA_ACT_NONE, NULL, s->x, s->x);
    matmul(s, s->x, l.up, m->hidden, m->intermediate, CUDA_ACT_SILU_GATED, weight(s, l.post_norm),
           NULL, s->act);
    matmul(s, s->act, l.down, m->intermediate, m->hidden, CUDA_ACT_NONE, NULL, s->x, s->x);
}

static int64_t embedding_at(const struct step *s)
{
    return s->layer_elems * s->m->layers + s->m->hidden;
}

static void put_fused(struct step *s)
{
    const struct dims *m = s->m;
    const struct layer l = layer_at(s, 0);
    struct cuda_decode_step_args a = {.attention = s->attention,
                                      .table = weight(s, embedding_at(s)),
                                      .input_norm = weight(s, l.input_norm),
                                      .qkv_weight = weight(s, l.qkv),
                                      .out_weight = weight(s, l.out),
                                      .post_norm = weight(s, l.post_norm),
                                      .up_weight = weight(s, l.up),
                                      .down_weight = weight(s, l.down),
                                      .layer_bytes = 2 * s->layer_elems,
                                      .cache_bytes = 4 * s->cache_elems,
                                      .final_norm = weight(s, s->layer_elems * m->layers),
                                      .lm_head = weight(s, embedding_at(s)),
                                      .x = s->x,
                                      .qkv = s->qkv,
                                      .act = s->act,
                                      .logits = s->logits,
                                      .layers = m->layers,
                                      .hidden = m->hidden,
                                      .intermediate = m->intermediate,
                                      .vocab = m->vocab,
                                      .least_pages = s->least_pages,
                                      .exchange = (void *)(uintptr_t)s->exchange,
                                      .sync = (void *)(uintptr_t)(s->exchange + s->exchange_bytes),
                                      .stamps = (void *)(uintptr_t)s->stamps};
    a.attention.k = (void *)(uintptr_t)s->cache;
    a.attention.v = (void *)(uintptr_t)(s->cache + 2 * (uint64_t)s->cache_elems);
    a.attention.q_norm = m->qk_norm ? weight(s, l.q_norm) : NULL;
    a.attention.k_norm = m->qk_norm ? weight(s, l.k_norm) : NULL;
    a.attention.splits = s->parts;
    put(s, CUDA_DECODE_STEP, &a);
}

static CUgraphExec capture(struct step *s)
{
    const struct dims *m = s->m;
    const int64_t embedding = embedding_at(s);
    const struct cuda_embed_args e = {
        .batch = s->b, .table = weight(s, embedding), .x = s->x, .hidden = m->hidden};
    s->launches = 0;
    for (int i = 0; i < CUDA_KERNELS; i++) /* nothing is compiled during a capture */
        if (!s->fused || i == CUDA_DECODE_STEP || i == CUDA_ARGMAX)
            dev_entry(s->g, &cuda_kernels[i], CUDA_BF16, m->head_dim);
    dev_graph_begin(s->g);
    if (s->fused) {
        put_fused(s);
    } else {
        put(s, CUDA_EMBED, &e);
        for (int i = 0; i < m->layers; i++)
            put_layer(s, i);
        matmul(s, s->x, embedding, m->hidden, m->vocab, CUDA_ACT_NONE,
               weight(s, s->layer_elems * m->layers), NULL, s->logits);
    }
    put(s, CUDA_ARGMAX, &s->argmax);
    return dev_graph_end(s->g);
}

static void prepare_batch(struct step *s)
{
    struct world *w = &s->w;
    const int n = s->rows, blocks = (s->context + 15) / 16;
    s->most = (struct cuda_sizes){.tokens = n, .rows = n, .decodes = n, .sms = s->g->sms};
    cuda_parts_sizes(CUDA_DEAL, s->m->heads, s->m->kv_heads, &s->most);
    struct cuda_step *step = world_take(w, sizeof *step);
    struct cuda_segment *segments = world_take(w, (size_t)n * sizeof *segments);
    int *ids = world_ints(w, n), *positions = world_ints(w, n), *kv_at = world_ints(w, n);
    int *table = world_ints(w, n * blocks), *row = world_ints(w, n);
    struct cuda_part *parts = world_take(w, (size_t)s->most.parts * sizeof *parts);
    int *runs = world_ints(w, s->most.runs + 1);
    *step = (struct cuda_step){.n_tokens = n, .n_rows = n, .n_decodes = n};
    for (int i = 0; i < n * blocks; i++)
        table[i] = (int)((int64_t)i * 7919 % (n * blocks));
    for (int i = 0; i < n; i++) {
        segments[i] = (struct cuda_segment){i, 1, s->context - 1, i * blocks};
        ids[i] = 17 * i + 3;
        positions[i] = s->context - 1;
        kv_at[i] = table[i * blocks + (s->context - 1) / 16] * 16 + (s->context - 1) % 16;
        row[i] = i;
    }
    s->b = (struct cuda_batch){.step = step,
                               .ids = ids,
                               .positions = positions,
                               .kv_at = kv_at,
                               .row_token = row,
                               .row_slot = row,
                               .segments = segments,
                               .blocks = table,
                               .parts = parts,
                               .runs = runs,
                               .last = world_ints(w, n)};
    const struct cuda_parts_limits limits = {CUDA_DEAL, s->most.runs, s->most.parts_at_once, 0};
    cuda_parts_plan(segments, n, &limits, parts, runs, step);
}

static void prepare_activations(struct step *s)
{
    struct world *w = &s->w;
    const struct dims *m = s->m;
    const size_t n = (size_t)s->rows, half = (size_t)m->head_dim / 2;
    const size_t q = (size_t)(m->heads * m->head_dim), kv = (size_t)(m->kv_heads * m->head_dim);
    float *cosine = world_floats(w, (int64_t)(s->context * (int)half));
    float *sine = world_floats(w, (int64_t)(s->context * (int)half));
    for (size_t i = 0; i < (size_t)s->context * half; i++) {
        const double angle = (double)(i / half) * pow(10000, -(double)(i % half) / (double)half);
        cosine[i] = (float)cos(angle);
        sine[i] = (float)sin(angle);
    }
    s->x = world_take(w, n * (size_t)m->hidden * 2);
    s->qkv = world_take(w, n * (q + 2 * kv) * 2);
    s->att = world_take(w, n * q * 2);
    s->act = world_take(w, n * (size_t)m->intermediate * 2);
    s->logits = world_floats(w, (int64_t)n * m->vocab);
    s->attention = (struct cuda_attention_args){
        .batch = s->b,
        .qkv = s->qkv,
        .out = s->att,
        .heads = m->heads,
        .kv_heads = m->kv_heads,
        .head_dim = m->head_dim,
        .block_size = 16,
        .scale = (float)(1 / sqrt((double)m->head_dim)),
        .fuse = 1,
        .cosine = cosine,
        .sine = sine,
        .eps = 1e-6F,
        .partial = world_floats(w, (int64_t)s->most.parts * m->heads * (m->head_dim + 2)),
        .counters = world_ints(w, s->rows * cuda_attention_head_tiles(m->heads, m->kv_heads))};
    s->argmax = (struct cuda_argmax_args){.batch = s->b,
                                          .logits = s->logits,
                                          .vocab = m->vocab,
                                          .sample_vocab = m->vocab,
                                          .ids = world_ints(w, s->rows),
                                          .partial = world_take(w, n * 8),
                                          .counters = world_ints(w, s->rows)};
}

/* Norms are about 1, as models have them. */
static void fill_norms(struct step *s)
{
    const struct dims *m = s->m;
    const int64_t n = 2 * m->hidden + 2 * m->head_dim;
    const void *norms = world_random(&s->w, CUDA_BF16, n, 1);
    for (int i = 0; i < m->layers; i++)
        dev_upload(s->g, s->weights + 2 * (uint64_t)layer_at(s, i).input_norm, norms,
                   2 * (size_t)n);
    dev_upload(s->g, s->weights + 2 * (uint64_t)(s->layer_elems * m->layers), norms,
               2 * (size_t)m->hidden);
}

struct result {
    double rate, bytes;
    float *first, *logits; /* of the first way, of this one */
    int64_t n;
};

static void time_way(struct step *s, const char *name, struct result *r)
{
    dev_upload(s->g, s->w.device, s->w.host, s->w.used);
    CUgraphExec graph = capture(s);
    const double t = dev_graph_time(s->g, graph, 21, 4);
    double difference = 0, norm = 0;
    dev_download(s->g, r->logits, s->w.device + (uint64_t)((char *)s->logits - s->w.host),
                 (size_t)r->n * sizeof(float));
    for (int64_t i = 0; i < r->n; i++) {
        const double a = (double)r->logits[i], b = (double)r->first[i];
        difference += (a - b) * (a - b);
        norm += b * b;
    }
    printf("%-12s batch %2d, context %5d, %-19s %8.4f ms, floor %7.4f ms, share %.2f, %d launches",
           s->m->name, s->rows, s->context, name, t * 1e3, r->bytes / r->rate * 1e3,
           r->bytes / r->rate / t, s->launches);
    if (r->first == r->logits)
        printf(", logits %s\n", r->logits[0] == r->logits[0] ? "numbers" : "NOT NUMBERS");
    else
        printf(", logits differ by %.2g\n", sqrt(difference / norm));
    fflush(stdout);
    dev_graph_free(s->g, graph);
}

/* The phases of one step, each summed over the layers. */
static void print_phases(struct step *s)
{
    const int n = cuda_decode_step_stamps(s->m->layers);
    uint64_t *stamps = mem_alloc((size_t)n * 8);
    const char *names[] = {"qkv", "attend", "out", "up", "down", "head"};
    double sums[6] = {0};
    s->stamps = dev_alloc(s->g, (size_t)n * 8);
    CUgraphExec graph = capture(s);
    dev_graph_time(s->g, graph, 3, 2);
    dev_download(s->g, stamps, s->stamps, (size_t)n * 8);
    for (int i = 0; i + 1 < n; i++)
        for (int j = 0; j < 6; j++)
            if (!strcmp(cuda_decode_step_phase(s->m->layers, i), names[j]))
                sums[j] += (double)(stamps[i + 1] - stamps[i]) / 1e3;
    printf("  us:");
    for (int j = 0; j < 6; j++)
        printf(" %s %.1f", names[j], sums[j]);
    printf("; all %.1f\n", (double)(stamps[n - 1] - stamps[0]) / 1e3);
    dev_graph_free(s->g, graph);
    dev_free(s->g, s->stamps);
    s->stamps = 0;
    mem_free(stamps);
}

/* decode_step as the engine has it with parts of so many pages, and of other sizes
 * (kernels/step_block.cu); bench/gpu/README.md says what each shows. */
static const struct variant {
    const char *name, *defines;
    int least_pages;
} variants[] = {
    {"fused, 8", NULL, 8},
    {"fused, 16", NULL, 16},
    {"fused, 4", NULL, 4},
    {"4, 16 parts at once", "#define STEP_PARTS 16\n", 4},
    {"8 parts at once", "#define STEP_PARTS 8\n", 8},
    {"4 parts at once", "#define STEP_PARTS 4\n", 8},
    {"copies 2", "#define STEP_COPIES 2\n", 8},
    {"copies 1", "#define STEP_COPIES 1\n", 8},
    {"out narrow", "#define STEP_OUT_WIDE 0\n", 8},
    {"16, out narrow", "#define STEP_OUT_WIDE 0\n", 16},
    {"norm first", "#define STEP_LATE_NORM 0\n", 8},
    {"chunks 2", "#define STEP_CHUNKS 2\n", 8},
    {"group 2", "#define STEP_GROUP 2\n", 8},
    {"all as before",
     "#define STEP_PARTS 3\n#define STEP_COPIES 1\n#define STEP_OUT_WIDE 0\n"
     "#define STEP_LATE_NORM 0\n#define STEP_CHUNKS 1\n#define STEP_GROUP 2\n",
     8},
};

static const struct gpu_kernel *variant_of(struct step *s, const struct variant *v)
{
    const struct cuda_kernel *k = &cuda_kernels[CUDA_DECODE_STEP];
    static const struct gpu_kernel *known[sizeof variants / sizeof *variants];
    const struct gpu_kernel **one = &known[v - variants]; /* all models have one head_dim */
    struct arena *a = arena_new();
    if (v->defines && !*one)
        *one = dev_entry_of(s->g,
                            arena_printf(a, "%s%s", v->defines,
                                         cuda_program(a, k->source, CUDA_BF16, s->m->head_dim)),
                            cuda_kernel_entry(a, k, CUDA_BF16));
    arena_free(&a);
    return *one;
}

static void time_fused(struct step *s, struct result *r)
{
    const struct dims *m = s->m;
    const struct cuda_decode_step_args sizes = {
        .attention = s->attention, .hidden = m->hidden, .intermediate = m->intermediate};
    if (s->g->arch < cuda_kernels[CUDA_DECODE_STEP].min_arch ||
        s->rows > cuda_decode_step_rows(&sizes, CUDA_BF16, s->g->sms))
        return;
    const int most = cuda_decode_step_parts(s->rows, m->heads, m->kv_heads, s->g->sms);
    s->exchange_bytes = (size_t)cuda_decode_step_words(&sizes, s->rows, s->g->sms) * 8;
    s->exchange = dev_alloc(s->g, s->exchange_bytes + 8);
    void *zeros = mem_alloc(s->exchange_bytes + 8);
    dev_upload(s->g, s->exchange, zeros, s->exchange_bytes + 8);
    mem_free(zeros);
    s->fused = true;
    s->parts = most;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        s->least_pages = variants[i].least_pages;
        s->variant = variant_of(s, &variants[i]);
        time_way(s, variants[i].name, r);
        print_phases(s);
    }
    s->variant = NULL;
    s->fused = false;
    dev_free(s->g, s->exchange);
}

static void time_step(struct dev *g, const struct dims *m, int rows, int context, bool fused)
{
    static const char *const ways[] = {"plain", "overlap"};
    struct step s = {.g = g, .m = m, .rows = rows, .context = context};
    s.layer_elems = layer_at(&s, 0).end;
    s.weight_elems = embedding_at(&s) + (int64_t)m->vocab * m->hidden;
    const int64_t tokens = (int64_t)rows * ((context + 15) / 16) * 16;
    s.cache_elems = tokens * m->kv_heads * m->head_dim;
    world_open(&s.w, g, (size_t)64 << 20);
    world_begin(&s.w, 1);
    prepare_batch(&s);
    prepare_activations(&s);
    s.weights = dev_alloc(g, (size_t)s.weight_elems * 2);
    s.cache = dev_alloc(g, (size_t)(2 * m->layers * s.cache_elems) * 2);
    dev_fill_random(g, s.weights, s.weight_elems);
    dev_fill_random(g, s.cache, 2 * m->layers * s.cache_elems);
    fill_norms(&s);
    struct result r = {.rate = read_bandwidth(g),
                       .bytes = 2.0 * (double)s.weight_elems + 4.0 * m->layers * (double)rows *
                                                                   context * m->kv_heads *
                                                                   m->head_dim,
                       .n = (int64_t)rows * m->vocab};
    float *first = mem_alloc((size_t)r.n * sizeof(float));
    float *logits = mem_alloc((size_t)r.n * sizeof(float));
    for (int way = fused ? 1 : 0; way < 2; way++) {
        s.dependent = way > 0;
        r.first = first;
        r.logits = way == (fused ? 1 : 0) ? first : logits;
        time_way(&s, ways[way], &r);
    }
    r.logits = logits;
    time_fused(&s, &r);
    mem_free(first);
    mem_free(logits);
    dev_free(g, s.weights);
    dev_free(g, s.cache);
    world_close(&s.w);
}

void time_steps(struct dev *g, bool quick, bool fused)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        time_step(g, &models[i], 1, 1024, fused);
        if (fused && !quick)
            for (int n = 2; n <= 4; n *= 2)
                time_step(g, &models[i], n, 1024, true);
        if (!quick && !fused)
            time_step(g, &models[i], 8, 1024, false);
    }
    if (!quick && fused)
        time_step(g, &models[0], 1, 1088, true); /* a ninth part of 8 pages */
    if (!quick)
        time_step(g, &models[0], 1, 8192, fused);
}
