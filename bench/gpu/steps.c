/* Whole decode steps from the rows for few sequences: what the kernels reach together, in a graph
 * as an engine captures it. The floor is the weights and keys and values once at the read
 * bandwidth. */
#include <math.h>
#include <stdio.h>
#include <string.h>

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
    dev_ptr weights, cache;
    int64_t weight_elems, layer_elems, cache_elems;
    void *x, *qkv, *att, *act;
    float *logits;
    struct cuda_attention_args attention;
    struct cuda_argmax_args argmax;
    const void *norm;
    const float *cosine, *sine;
    int launches;
    bool dependent, ahead;
};

static void put(struct step *s, enum cuda_kernel_id id, const void *args)
{
    const struct cuda_kernel *k = &cuda_kernels[id];
    char device[512];
    struct cuda_launch l;
    k->launch(args, CUDA_BF16, &s->most, &l);
    world_device_args(&s->w, args, k->args_bytes, device);
    dev_launch(s->g, dev_entry(s->g, k, CUDA_BF16, s->m->head_dim), &l, device, k->args_bytes,
               s->dependent && s->launches > 0);
    s->launches++;
}

/* Weights of a layer: qkv, out, gate and up, down; the embedding, which is lm_head's too, behind.
 */
struct layer {
    int64_t qkv, out, up, down, end;
};

static struct layer layer_at(const struct step *s, int layer)
{
    const struct dims *m = s->m;
    struct layer l = {.qkv = layer * s->layer_elems};
    l.out = l.qkv + (int64_t)(m->heads + 2 * m->kv_heads) * m->head_dim * m->hidden;
    l.up = l.out + (int64_t)m->heads * m->head_dim * m->hidden;
    l.down = l.up + 2LL * m->intermediate * m->hidden;
    l.end = l.down + (int64_t)m->intermediate * m->hidden;
    return l;
}

static const void *weight(const struct step *s, int64_t at)
{
    return (const void *)(uintptr_t)(s->weights + 2 * (uint64_t)at);
}

/* At most an eighth of L2: more pushes out what is about to be read. */
static long long ahead_bytes(const struct step *s, int64_t elems)
{
    return 2 * elems < s->g->l2_bytes / 8 ? 2 * elems : s->g->l2_bytes / 8;
}

static void matmul(struct step *s, const void *x, int64_t at, int in, int outs, int act, bool norm,
                   const void *residual, void *out, int64_t ahead, int64_t ahead_elems)
{
    const struct cuda_matmul_args a = {.count = &s->b.step->n_tokens,
                                       .x = x,
                                       .weight = weight(s, at),
                                       .norm = norm ? s->norm : NULL,
                                       .residual = residual,
                                       .out = out,
                                       .in = in,
                                       .outs = outs,
                                       .act = act,
                                       .out_float = out == s->logits,
                                       .eps = 1e-6F,
                                       .ahead = s->ahead ? weight(s, ahead) : NULL,
                                       .ahead_bytes = ahead_bytes(s, ahead_elems)};
    put(s, cuda_matmul_pick(s->rows, outs, act, s->g->sms), &a);
}

static void put_layer(struct step *s, int i)
{
    const struct dims *m = s->m;
    const struct layer l = layer_at(s, i);
    const int qkv = (m->heads + 2 * m->kv_heads) * m->head_dim, q = m->heads * m->head_dim;
    const int64_t next = l.end; /* the next layer's qkv, or the embedding */
    const int64_t next_elems = i + 1 < m->layers ? (int64_t)qkv * m->hidden : 8 << 20;
    struct cuda_attention_args a = s->attention;
    a.k = (void *)(uintptr_t)(s->cache + 2 * (uint64_t)(2 * i * s->cache_elems));
    a.v = (void *)(uintptr_t)(s->cache + 2 * (uint64_t)((2 * i + 1) * s->cache_elems));
    a.ahead = s->ahead ? weight(s, l.up) : NULL;
    a.ahead_bytes = ahead_bytes(s, l.down - l.up);
    matmul(s, s->x, l.qkv, m->hidden, qkv, CUDA_ACT_NONE, true, NULL, s->qkv, l.out, l.up - l.out);
    put(s, CUDA_ATTENTION_DECODE, &a);
    matmul(s, s->att, l.out, q, m->hidden, CUDA_ACT_NONE, false, s->x, s->x, l.down,
           (l.end - l.down) / 2);
    matmul(s, s->x, l.up, m->hidden, m->intermediate, CUDA_ACT_SILU_GATED, true, NULL, s->act,
           l.down, l.end - l.down);
    matmul(s, s->act, l.down, m->intermediate, m->hidden, CUDA_ACT_NONE, false, s->x, s->x, next,
           next_elems);
}

static void *capture(struct step *s)
{
    const struct dims *m = s->m;
    const int64_t embedding = s->layer_elems * m->layers;
    const struct cuda_embed_args e = {
        .batch = s->b, .table = weight(s, embedding), .x = s->x, .hidden = m->hidden};
    s->launches = 0;
    for (int i = 0; i < CUDA_KERNELS; i++) /* nothing is compiled during a capture */
        dev_entry(s->g, &cuda_kernels[i], CUDA_BF16, m->head_dim);
    dev_graph_begin(s->g);
    put(s, CUDA_EMBED, &e);
    for (int i = 0; i < m->layers; i++)
        put_layer(s, i);
    matmul(s, s->x, embedding, m->hidden, m->vocab, CUDA_ACT_NONE, true, NULL, s->logits, 0, 0);
    put(s, CUDA_ARGMAX, &s->argmax);
    return dev_graph_end(s->g);
}

static void prepare_batch(struct step *s)
{
    struct world *w = &s->w;
    const int n = s->rows, blocks = (s->context + 15) / 16;
    struct cuda_step *step = world_take(w, sizeof *step);
    struct cuda_segment *segments = world_take(w, (size_t)n * sizeof *segments);
    int *ids = world_ints(w, n), *positions = world_ints(w, n), *kv_at = world_ints(w, n);
    int *table = world_ints(w, n * blocks), *row = world_ints(w, n);
    *step = (struct cuda_step){n, n, 0, n};
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
                               .last = world_ints(w, n)};
    s->most = (struct cuda_sizes){n, n, 0, n, s->g->sms};
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
    s->norm = world_random(w, CUDA_BF16, m->intermediate, 1);
    const int splits = cuda_attention_splits(s->rows, m->heads, m->kv_heads, s->g->sms);
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
        .q_norm = m->qk_norm ? s->norm : NULL,
        .k_norm = m->qk_norm ? s->norm : NULL,
        .cosine = cosine,
        .sine = sine,
        .eps = 1e-6F,
        .splits = splits,
        .partial = world_floats(w, (int64_t)n * m->heads * splits * (m->head_dim + 2)),
        .counters = world_ints(w, s->rows * cuda_attention_head_tiles(m->heads, m->kv_heads))};
    s->argmax = (struct cuda_argmax_args){.batch = s->b,
                                          .logits = s->logits,
                                          .vocab = m->vocab,
                                          .sample_vocab = m->vocab,
                                          .ids = world_ints(w, s->rows),
                                          .partial = world_take(w, n * 8),
                                          .counters = world_ints(w, s->rows)};
}

static void time_step(struct dev *g, const struct dims *m, int rows, int context)
{
    struct step s = {.g = g, .m = m, .rows = rows, .context = context};
    const double rate = read_bandwidth(g);
    s.layer_elems = layer_at(&s, 0).end;
    s.weight_elems = s.layer_elems * m->layers + (int64_t)m->vocab * m->hidden;
    const int64_t tokens = (int64_t)rows * ((context + 15) / 16) * 16;
    s.cache_elems = tokens * m->kv_heads * m->head_dim;
    world_open(&s.w, g, (size_t)64 << 20);
    world_begin(&s.w, 1);
    prepare_batch(&s);
    prepare_activations(&s);
    s.weights = dev_alloc((size_t)s.weight_elems * 2);
    s.cache = dev_alloc((size_t)(2 * m->layers * s.cache_elems) * 2);
    dev_fill_random(g, s.weights, s.weight_elems);
    dev_fill_random(g, s.cache, 2 * m->layers * s.cache_elems);
    const double bytes = 2.0 * (double)s.weight_elems +
                         4.0 * m->layers * (double)rows * context * m->kv_heads * m->head_dim;
    float *logits[2];
    for (int i = 0; i < 2; i++)
        logits[i] = mem_alloc((size_t)rows * (size_t)m->vocab * sizeof(float));
    for (int way = 0; way < 3; way++) {
        static const char *const ways[] = {"plain", "overlap", "overlap, ahead"};
        s.dependent = way > 0;
        s.ahead = way > 1;
        dev_upload(s.w.device, s.w.host, s.w.used);
        void *graph = capture(&s);
        const double t = dev_graph_time(g, graph, 21, 4);
        dev_download(logits[way > 0], s.w.device + (uint64_t)((char *)s.logits - s.w.host),
                     (size_t)rows * (size_t)m->vocab * sizeof(float));
        const bool same = way == 0 || !memcmp(logits[0], logits[1],
                                              (size_t)rows * (size_t)m->vocab * sizeof(float));
        const bool number = logits[0][0] == logits[0][0];
        printf("%-12s batch %2d, context %5d, %-15s %8.4f ms, floor %7.4f ms, share %.2f, %d "
               "launches, logits %s\n",
               m->name, rows, context, ways[way], t * 1e3, bytes / rate * 1e3, bytes / rate / t,
               s.launches,
               !number ? "NOT NUMBERS"
               : same  ? "the same"
                       : "DIFFERENT");
        dev_graph_free(graph);
    }
    mem_free(logits[0]);
    mem_free(logits[1]);
    dev_free(s.weights);
    dev_free(s.cache);
    world_close(&s.w);
}

void time_steps(struct dev *g, bool quick)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        time_step(g, &models[i], 1, 1024);
        if (!quick)
            time_step(g, &models[i], 8, 1024);
    }
    if (!quick)
        time_step(g, &models[0], 1, 8192);
}
