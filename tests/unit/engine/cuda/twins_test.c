/* The twins: whole models of tests/golden computed with them, against Hugging Face transformers'
 * logits; and each against the kernels of the CPU engine. The GPU's results are held to the twins'
 * by bench/gpu. */
#include "engine/cuda/twins.h"

#include <math.h>

#include "base/rng.h"
#include "engine/cpu/forward.h"
#include "engine/cuda/parts.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "model/random.h"
#include "model/weights.h"
#include "support/support.h"

enum { PROMPT = 40, DECODES = 32, VOCAB = 256, POSITIONS = 128, BLOCK = 16, BLOCKS = 20 };

/* ---- a model of twins ------------------------------------------------------------------------ */

struct linear {
    void *w, *b;
    int in, outs;
};

struct norm {
    void *w, *b;
};

struct layer {
    struct linear qkv, out, up, down;
    struct norm input, post;
    void *q_norm, *k_norm, *k, *v;
};

struct twin_model {
    struct arena *a;
    enum cuda_dtype t;
    struct model m;
    struct layer *layers;
    struct norm emb_norm, final_norm;
    void *embedding;
    struct linear head;
    float *cosine, *sine, *slopes;
    struct cuda_step step;
    struct cuda_batch batch;
    struct cuda_segment segments[2];
    struct cuda_part parts[5];
    int runs[5];
    float *partial;
    int *counters;
    int ids[POSITIONS], positions[POSITIONS], kv_at[POSITIONS], table[BLOCKS], row_token, row_slot;
    int last[1], out_id;
    void *x, *h, *qkv, *att, *up, *act, *y;
    float *logits;
};

static void *elems(struct twin_model *x, int64_t n)
{
    return arena_alloc(x->a, (size_t)n * 4);
}

static void *converted(struct twin_model *x, const float *from, int64_t n)
{
    void *p = from ? elems(x, n) : NULL;
    for (int64_t i = 0; from && i < n; i++)
        twin_put(x->t, p, i, from[i]);
    return p;
}

static struct norm norm_of(struct twin_model *x, const struct cpu_norm *n)
{
    return (struct norm){converted(x, n->w, x->m.hidden), converted(x, n->b, x->m.hidden)};
}

static struct linear linear_of(struct twin_model *x, const struct cpu_kernels *kn,
                               const struct matrix *w)
{
    struct linear l = {elems(x, w->m * w->k), converted(x, w->bias, w->m), (int)w->k, (int)w->m};
    float *row = arena_array(x->a, float, w->k);
    for (int64_t j = 0; j < w->m; j++) {
        gemm_get_row(kn, w, j, row);
        for (int64_t i = 0; i < w->k; i++)
            twin_put(x->t, l.w, j * w->k + i, row[i]);
    }
    return l;
}

static void take_weights(struct twin_model *x, const struct forward *f)
{
    const struct model *m = &x->m;
    const int64_t cache = (int64_t)BLOCKS * BLOCK * m->kv_heads * m->head_dim;
    x->layers = arena_array(x->a, struct layer, m->layers);
    for (int64_t i = 0; i < m->layers; i++) {
        const struct cpu_layer *from = &f->w.layers[i];
        x->layers[i] = (struct layer){.qkv = linear_of(x, f->kn, &from->qkv),
                                      .out = linear_of(x, f->kn, &from->out),
                                      .up = linear_of(x, f->kn, &from->up),
                                      .down = linear_of(x, f->kn, &from->down),
                                      .input = norm_of(x, &from->input_norm),
                                      .post = norm_of(x, &from->post_norm),
                                      .q_norm = converted(x, from->q_norm, m->head_dim),
                                      .k_norm = converted(x, from->k_norm, m->head_dim),
                                      .k = elems(x, cache),
                                      .v = elems(x, cache)};
    }
    if (m->emb_norm)
        x->emb_norm = norm_of(x, &f->w.emb_norm);
    x->final_norm = norm_of(x, &f->w.final_norm);
    x->head = linear_of(x, f->kn, &f->w.lm_head);
    x->embedding = f->w.embedding ? converted(x, f->w.embedding, m->vocab * m->hidden) : x->head.w;
}

static struct twin_model *twin_open(const char *name, enum cuda_dtype t)
{
    struct arena *a = arena_new();
    struct twin_model *x = arena_array(a, struct twin_model, 1);
    struct err e = {0};
    struct forward f;
    x->a = a;
    x->t = t;
    const char *dir = arena_printf(a, "%s/tests/golden/models/%s", TW_SOURCE_DIR, name);
    assert_ok(model_load(a, dir, &x->m, &e), &e);
    const struct cpu_engine_params p = {.model = &x->m,
                                        .weights_dir = dir,
                                        .threads = 1,
                                        .block_size = BLOCK,
                                        .num_blocks = BLOCKS,
                                        .max_batch_tokens = POSITIONS,
                                        .max_rows = 4};
    assert_ok(forward_open(&f, &p, &e), &e);
    take_weights(x, &f);
    const int64_t half = x->m.head_dim / 2;
    if (f.cosine[0]) {
        x->cosine = arena_copy(a, f.cosine[0], (size_t)(POSITIONS * half) * sizeof(float));
        x->sine = arena_copy(a, f.sine[0], (size_t)(POSITIONS * half) * sizeof(float));
    } else {
        x->slopes = arena_copy(a, f.slopes, (size_t)x->m.heads * sizeof(float));
    }
    forward_free(&f);
    for (int i = 0; i < BLOCKS; i++)
        x->table[i] = (i * 7 + 3) % BLOCKS;
    x->batch = (struct cuda_batch){.step = &x->step,
                                   .ids = x->ids,
                                   .positions = x->positions,
                                   .kv_at = x->kv_at,
                                   .row_token = &x->row_token,
                                   .row_slot = &x->row_slot,
                                   .segments = x->segments,
                                   .blocks = x->table,
                                   .parts = x->parts,
                                   .runs = x->runs,
                                   .last = x->last};
    const int64_t n = POSITIONS, q = x->m.heads * x->m.head_dim;
    x->partial = arena_array(a, float, 4 * x->m.heads * (x->m.head_dim + 2));
    x->counters = arena_array(a, int, x->m.heads);
    x->x = elems(x, n * x->m.hidden);
    x->h = elems(x, n * x->m.hidden);
    x->qkv = elems(x, n * (q + 2 * x->m.kv_heads * x->m.head_dim));
    x->att = elems(x, n * q);
    x->up = elems(x, n * 2 * x->m.intermediate);
    x->act = elems(x, n * x->m.intermediate);
    x->y = elems(x, n * x->m.hidden);
    x->logits = arena_array(a, float, x->m.vocab);
    return x;
}

static void run(enum cuda_kernel_id id, const void *args, enum cuda_dtype t)
{
    assert_true(cuda_kernels[id].dtypes >> t & 1);
    cuda_kernels[id].twin(args, t);
}

/* out[r] = x[r] w^T for every token, with the bias as a kernel of its own where `apart`. */
static void product(struct twin_model *x, const struct linear *l, const void *in, void *out,
                    bool apart)
{
    const struct cuda_matmul_args a = {.count = &x->step.n_tokens,
                                       .x = in,
                                       .weight = l->w,
                                       .bias = apart ? NULL : l->b,
                                       .out = out,
                                       .in = l->in,
                                       .outs = l->outs};
    run(CUDA_MATMUL_SOME, &a, x->t);
    const struct cuda_bias_args b = {&x->step.n_tokens, out, l->b, l->outs};
    if (apart && l->b)
        run(CUDA_BIAS, &b, x->t);
}

/* x += add (NULL = 0), h = norm(x) */
static void norm(struct twin_model *x, const struct norm *n, const void *add)
{
    const struct cuda_norm_args a = {.count = &x->step.n_tokens,
                                     .x = x->x,
                                     .add = add,
                                     .sum = add ? x->x : NULL,
                                     .weight = n->w,
                                     .bias = n->b,
                                     .out = x->h,
                                     .width = (int)x->m.hidden,
                                     .eps = (float)x->m.norm_eps};
    run(CUDA_NORM, &a, x->t);
}

/* Decode rows go through the fused kernel where it has the dtype: in float32 that is its twin
 * alone, which is what the fake device would run. */
static void attention(struct twin_model *x, const struct layer *l)
{
    const struct model *m = &x->m;
    const bool decode = x->step.n_decodes > 0;
    const struct cuda_rope_args r = {.batch = x->batch,
                                     .qkv = x->qkv,
                                     .q_norm = l->q_norm,
                                     .k_norm = l->k_norm,
                                     .cosine = x->cosine,
                                     .sine = x->sine,
                                     .k = l->k,
                                     .v = l->v,
                                     .heads = (int)m->heads,
                                     .kv_heads = (int)m->kv_heads,
                                     .head_dim = (int)m->head_dim,
                                     .block_size = BLOCK,
                                     .eps = (float)m->norm_eps};
    const struct cuda_attention_args a = {.batch = x->batch,
                                          .qkv = x->qkv,
                                          .out = x->att,
                                          .k = l->k,
                                          .v = l->v,
                                          .slopes = x->slopes,
                                          .heads = r.heads,
                                          .kv_heads = r.kv_heads,
                                          .head_dim = r.head_dim,
                                          .block_size = BLOCK,
                                          .scale = (float)(1 / sqrt((double)m->head_dim)),
                                          .fuse = 1,
                                          .q_norm = l->q_norm,
                                          .k_norm = l->k_norm,
                                          .cosine = x->cosine,
                                          .sine = x->sine,
                                          .eps = r.eps,
                                          .partial = x->partial,
                                          .counters = x->counters};
    if (decode) {
        twin_attention_decode(&a, x->t);
    } else {
        run(CUDA_ROPE, &r, x->t);
        if (x->step.n_tokens % 2) /* both say the same of a chunk */
            run(CUDA_ATTENTION_ANY, &a, x->t);
        else
            twin_attention_prefill(&a, x->t);
    }
}

static void forward(struct twin_model *x, int start, int tokens, bool decode)
{
    const struct model *m = &x->m;
    const bool gated = m->act == ACT_SILU_GATED;
    x->step = (struct cuda_step){
        .n_tokens = tokens, .n_rows = 1, .n_chunks = !decode, .n_decodes = decode};
    x->segments[0] = (struct cuda_segment){0, tokens, start, 0};
    for (int i = 0; i < tokens; i++) {
        x->positions[i] = start + i;
        x->kv_at[i] = x->table[(start + i) / BLOCK] * BLOCK + (start + i) % BLOCK;
    }
    const struct cuda_parts_limits limits = {CUDA_DEAL_SMALLEST, 4, 1, 0};
    if (decode) /* cut where it has more than 64 keys */
        cuda_parts_plan(x->segments, 1, &limits, x->parts, x->runs, &x->step);
    x->row_token = tokens - 1;
    run(CUDA_EMBED, &(struct cuda_embed_args){x->batch, x->embedding, x->x, (int)m->hidden, 0},
        x->t);
    if (m->emb_norm)
        run(CUDA_NORM,
            &(struct cuda_norm_args){.count = &x->step.n_tokens,
                                     .x = x->x,
                                     .weight = x->emb_norm.w,
                                     .bias = x->emb_norm.b,
                                     .out = x->x,
                                     .width = (int)m->hidden,
                                     .eps = (float)m->norm_eps},
            x->t);
    for (int64_t i = 0; i < m->layers; i++) {
        const struct layer *l = &x->layers[i];
        norm(x, &l->input, i ? x->y : NULL);
        product(x, &l->qkv, x->h, x->qkv, i % 2);
        attention(x, l);
        product(x, &l->out, x->att, x->y, i % 2);
        norm(x, &l->post, x->y);
        product(x, &l->up, x->h, x->up, true);
        const struct cuda_act_args act = {.count = &x->step.n_tokens,
                                          .up = x->up,
                                          .out = x->act,
                                          .width = (int)m->intermediate,
                                          .act = gated ? CUDA_ACT_SILU_GATED : CUDA_ACT_GELU_TANH};
        run(CUDA_ACT, &act, x->t);
        product(x, &l->down, x->act, x->y, false);
    }
    const struct cuda_norm_args last = {.count = &x->step.n_rows,
                                        .gather = &x->row_token,
                                        .x = x->x,
                                        .add = x->y,
                                        .weight = x->final_norm.w,
                                        .bias = x->final_norm.b,
                                        .out = x->h,
                                        .width = (int)m->hidden,
                                        .eps = (float)m->norm_eps};
    const struct cuda_matmul_args head = {.count = &x->step.n_rows,
                                          .x = x->h,
                                          .weight = x->head.w,
                                          .out = x->logits,
                                          .in = (int)m->hidden,
                                          .outs = (int)m->vocab,
                                          .out_float = 1};
    const struct cuda_argmax_args best = {.batch = x->batch,
                                          .logits = x->logits,
                                          .vocab = (int)m->vocab,
                                          .sample_vocab = (int)m->vocab,
                                          .ids = &x->out_id};
    run(CUDA_NORM, &last, x->t);
    run(CUDA_MATMUL_FEW_WIDE, &head, x->t);
    run(CUDA_ARGMAX, &best, x->t);
}

/* ---- against transformers -------------------------------------------------------------------- */

static double error_of(const float *got, const float *want)
{
    double worst = 0, top = 0;
    for (int i = 0; i < VOCAB; i++) {
        const double d = fabs((double)got[i] - (double)want[i]);
        worst = d > worst ? d : worst;
        top = fabs((double)want[i]) > top ? fabs((double)want[i]) : top;
    }
    return worst / top;
}

static int64_t id_at(const struct weights *w, const char *name, int i)
{
    int64_t id;
    memcpy(&id, (const char *)weights_find(w, name)->data + (size_t)i * sizeof id, sizeof id);
    return id;
}

/* Largest error of the logits at the prompt's end and of 32 decode steps. The tokens fed are the
 * reference's; in float32 the twins' own are the same ones. */
static double golden_error(const char *name, enum cuda_dtype t)
{
    static const int chunks[] = {7, 1, 16, 4, 12}; /* 40 */
    static float prefill[PROMPT * VOCAB], decode[DECODES * VOCAB];
    struct twin_model *x = twin_open(name, t);
    struct weights *w = NULL;
    struct err e = {0};
    const char *path =
        arena_printf(x->a, "%s/tests/golden/models/%s/reference.safetensors", TW_SOURCE_DIR, name);
    assert_ok(weights_open(path, &w, &e), &e);
    tensor_to_f32(weights_find(w, "prefill_logits"), 0, PROMPT * VOCAB, prefill);
    tensor_to_f32(weights_find(w, "decode_logits"), 0, DECODES * VOCAB, decode);
    int start = 0;
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; start += chunks[c++]) {
        for (int i = 0; i < chunks[c]; i++)
            x->ids[i] = (int)id_at(w, "input_ids", start + i);
        forward(x, start, chunks[c], false);
    }
    assert_int_equal(start, PROMPT);
    double worst = error_of(x->logits, prefill + (PROMPT - 1) * VOCAB);
    for (int i = 0; i < DECODES; i++) {
        const int id = (int)id_at(w, "decode_ids", i);
        if (t == CUDA_F32) {
            assert_int_equal(x->out_id, id);
            assert_int_equal(x->last[0], id);
            x->ids[0] = -1; /* the token that slot 0 emitted */
        } else {
            x->ids[0] = id;
        }
        forward(x, PROMPT + i, 1, true);
        const double error = error_of(x->logits, decode + i * VOCAB);
        worst = error > worst ? error : worst;
    }
    weights_close(&w);
    struct arena *a = x->a; /* x lives in it */
    arena_free(&a);
    return worst;
}

/* float32: as the CPU engine. 16 bit: the dtype's own rounding of weights and activations through
 * all layers; seen are at most 0.009 and 0.034, the bounds are twice that. */
static void check_golden(const char *name)
{
    assert_near(golden_error(name, CUDA_F32), 0, 1e-4);
    assert_near(golden_error(name, CUDA_F16), 0, 0.018);
    assert_near(golden_error(name, CUDA_BF16), 0, 0.07);
}

static void qwen3_is_transformers(void **state)
{
    (void)state;
    check_golden("qwen3");
}

static void llama_is_transformers(void **state)
{
    (void)state;
    check_golden("llama");
}

static void bloom_is_transformers(void **state)
{
    (void)state;
    check_golden("bloom");
    check_golden("bloom_h6");
}

/* ---- elements -------------------------------------------------------------------------------- */

static void sixteen_bits_round_to_nearest_even(void **state)
{
    (void)state;
    /* every finite value comes back */
    for (int t = CUDA_F16; t <= CUDA_BF16; t++)
        for (uint32_t i = 0; i < 65536; i++) {
            const uint16_t in = (uint16_t)i;
            uint16_t out = 0;
            const float v = twin_get((enum cuda_dtype)t, &in, 0);
            twin_put((enum cuda_dtype)t, &out, 0, v);
            if (isnan(v))
                assert_int_equal(out, 0x7fff);
            else
                assert_int_equal(in, out);
        }
    assert_near((double)twin_rounded(CUDA_F16, 1 + 0x1p-11F), 1, 0); /* tie to even */
    assert_near((double)twin_rounded(CUDA_F16, 1 + 3 * 0x1p-11F), 1 + 0x1p-9, 0);
    assert_near((double)twin_rounded(CUDA_F16, 1 + 0x1.8p-11F), 1 + 0x1p-10, 0);
    assert_near((double)twin_rounded(CUDA_F16, 65519), 65504, 0);
    assert_true(isinf(twin_rounded(CUDA_F16, 65520)));
    assert_near((double)twin_rounded(CUDA_F16, 0x1p-25F), 0, 0);
    assert_near((double)twin_rounded(CUDA_F16, 0x1.8p-24F), 0x1p-23, 0);
    assert_near((double)twin_rounded(CUDA_BF16, 1 + 0x1p-8F), 1, 0);
    assert_near((double)twin_rounded(CUDA_BF16, 1 + 3 * 0x1p-8F), 1 + 0x1p-6, 0);
    assert_true(isinf(twin_rounded(CUDA_BF16, 0x1.ffp127F)));
}

/* ---- fused rows say what their parts say ----------------------------------------------------- */

static void *randoms(struct arena *a, struct rng *r, enum cuda_dtype t, int64_t n)
{
    void *p = arena_alloc(a, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        twin_put(t, p, i, (float)rng_normal(r));
    return p;
}

/* norm, product, bias, act and residual in one row against the rows one by one; tolerance: the
 * intermediate results, which the fused row does not round. */
static void check_fused(struct arena *a, enum cuda_dtype t, enum cuda_kernel_id id, int act,
                        double tolerance)
{
    enum { ROWS = 5, IN = 96, OUTS = 40 };
    struct rng r = rng_stream((uint64_t)id, "fused");
    const int n = ROWS, gather[ROWS] = {4, 0, 3, 1, 2}, parts = act == CUDA_ACT_SILU_GATED ? 2 : 1;
    void *x = randoms(a, &r, t, ROWS * IN), *w = randoms(a, &r, t, parts * OUTS * IN);
    void *scale = randoms(a, &r, t, IN), *bias = randoms(a, &r, t, parts * OUTS);
    void *residual = randoms(a, &r, t, ROWS * OUTS);
    float *out = arena_alloc(a, ROWS * OUTS * 4);
    void *h = arena_alloc(a, ROWS * IN * 4), *up = arena_alloc(a, ROWS * OUTS * 2 * 4);
    void *y = arena_alloc(a, ROWS * OUTS * 4);
    const struct cuda_matmul_args fused = {.count = &n,
                                           .gather = gather,
                                           .x = x,
                                           .weight = w,
                                           .bias = bias,
                                           .norm = scale,
                                           .residual = residual,
                                           .out = out,
                                           .in = IN,
                                           .outs = OUTS,
                                           .act = act,
                                           .out_float = 1,
                                           .eps = 1e-5F};
    run(id, &fused, t);
    run(CUDA_NORM,
        &(struct cuda_norm_args){.count = &n,
                                 .gather = gather,
                                 .x = x,
                                 .weight = scale,
                                 .out = h,
                                 .width = IN,
                                 .eps = 1e-5F},
        t);
    run(CUDA_MATMUL_SOME,
        &(struct cuda_matmul_args){
            .count = &n, .x = h, .weight = w, .out = up, .in = IN, .outs = parts * OUTS},
        t);
    run(CUDA_ACT,
        &(struct cuda_act_args){
            .count = &n, .up = up, .bias = bias, .out = y, .width = OUTS, .act = act},
        t);
    double difference = 0, all = 0;
    for (int i = 0; i < ROWS * OUTS; i++) {
        const double want = (double)twin_get(t, y, i) + (double)twin_get(t, residual, i);
        difference += ((double)out[i] - want) * ((double)out[i] - want);
        all += want * want;
    }
    assert_near(sqrt(difference / all), 0, tolerance);
}

static void fused_products_are_their_parts(void **state)
{
    struct test *t = *state;
    check_fused(t->a, CUDA_F32, CUDA_MATMUL_FEW, CUDA_ACT_GELU_TANH, 1e-6);
    check_fused(t->a, CUDA_F32, CUDA_MATMUL_FEW_GATED, CUDA_ACT_SILU_GATED, 1e-6);
    check_fused(t->a, CUDA_F16, CUDA_MATMUL_FEW_GATED, CUDA_ACT_SILU_GATED, 1e-3);
    check_fused(t->a, CUDA_BF16, CUDA_MATMUL_SOME_GATED, CUDA_ACT_SILU_GATED, 8e-3);
    check_fused(t->a, CUDA_BF16, CUDA_MATMUL_FEW_WIDE, CUDA_ACT_GELU_TANH, 8e-3);
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* The token of one row, and the CPU engine's. */
static int drawn(const struct cuda_sampling *how, int position, const float *logits, int n)
{
    const struct cuda_step step = {.n_tokens = 1, .n_rows = 1, .n_decodes = 1};
    int id = -1;
    const struct cuda_sample_args a = {.batch = {.step = &step},
                                       .logits = logits,
                                       .vocab = n,
                                       .sample_vocab = n,
                                       .sampling = how,
                                       .positions = &position,
                                       .ids = &id};
    run(CUDA_SAMPLE, &a, CUDA_BF16);
    return id;
}

/* Tokens that leave the same candidates: the draw goes through them by id in both, so the token is
 * the same but where the CPU engine's partition has moved them. */
static void draws_are_the_cpu_engines(void **state)
{
    (void)state;
    enum { N = 1000, TIMES = 2000 };
    struct rng r = rng_stream(3, "logits");
    struct sampler cpu = {0};
    float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = (float)(2 * rng_normal(&r));
    int same = 0;
    for (int i = 0; i < TIMES; i++) {
        const struct sampling s = {.temperature = 0.7, .top_p = 1, .min_p = 0.01, .seed = 5};
        const struct cuda_sampling c = {.temperature = 0.7F, .top_p = 1, .min_p = 0.01F, .seed = 5};
        same += drawn(&c, i, logits, N) == sampler_draw(&cpu, &s, i, N, logits);
    }
    assert_true(same >= TIMES - 2); /* a goal within rounding of a border */
    sampler_free(&cpu);
}

static void shares_are_right(const struct cuda_sampling *how, const double *want, int n)
{
    enum { TIMES = 20000 };
    const double p[] = {0.1, 0.3, 0, 0.4, 0.05, 0, 0.15, 0};
    int counts[8] = {0};
    float logits[8];
    double sum = 0;
    for (int i = 0; i < 8; i++) {
        logits[i] = p[i] > 0 ? (float)log(p[i]) : i == 7 ? NAN : -INFINITY;
        sum += want[i];
    }
    for (int i = 0; i < TIMES; i++)
        counts[drawn(how, i, logits, n)]++;
    for (int i = 0; i < 8; i++) {
        const double share = want[i] / sum;
        assert_near(counts[i], TIMES * share, 6 * sqrt(TIMES * share * (1 - share)));
    }
}

static void candidates_are_left_out(void **state)
{
    (void)state;
    const double all[] = {0.1, 0.3, 0, 0.4, 0.05, 0, 0.15, 0};
    const double two[] = {0, 0.3, 0, 0.4, 0, 0, 0, 0}, three[] = {0, 0.3, 0, 0.4, 0, 0, 0.15, 0};
    const double four[] = {0.1, 0.3, 0, 0.4, 0, 0, 0.15, 0};
    shares_are_right(&(struct cuda_sampling){.temperature = 1, .top_p = 1, .seed = 1}, all, 8);
    shares_are_right(&(struct cuda_sampling){.temperature = 1, .top_p = 1, .top_k = 2}, two, 8);
    shares_are_right(&(struct cuda_sampling){.temperature = 1, .top_p = 0.8F}, three, 8);
    shares_are_right(&(struct cuda_sampling){.temperature = 1, .top_p = 1, .min_p = 0.2F}, four, 8);
    shares_are_right(&(struct cuda_sampling){.temperature = 1, .top_p = 0.9F, .top_k = 2}, two, 8);
}

static void without_numbers_it_is_token_0(void **state)
{
    (void)state;
    const float none[] = {NAN, NAN}, infinite[] = {-INFINITY, INFINITY, INFINITY};
    const struct cuda_sampling how = {.temperature = 1, .top_p = 1};
    assert_int_equal(drawn(&how, 0, none, 2), 0);
    for (int i = 0; i < 20; i++)
        assert_true(drawn(&how, i, infinite, 3) != 0);
}

static void the_first_of_equal_logits_wins(void **state)
{
    (void)state;
    size_t n;
    const struct cpu_kernels *kn = kernels_usable(&n)[0];
    const float rows[][6] = {{1, 3, 3, 2, 3, 0},
                             {NAN, -1, -INFINITY, -1, NAN, -2},
                             {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
                             {-0.0F, 0, 0, -0.0F, -1, -1}};
    for (int i = 0; i < 4; i++) {
        const struct cuda_step step = {.n_tokens = 1, .n_rows = 1, .n_decodes = 1};
        int id = -1;
        const struct cuda_argmax_args a = {
            .batch = {.step = &step}, .logits = rows[i], .vocab = 6, .sample_vocab = 5, .ids = &id};
        run(CUDA_ARGMAX, &a, CUDA_F32);
        assert_int_equal(id, kn->argmax(5, rows[i]));
    }
}

/* ---- random weights -------------------------------------------------------------------------- */

static void random_weights_are_model_inits(void **state)
{
    struct test *t = *state;
    enum { N = 10003 };
    const struct tensor tensor = {.name = "model.layers.3.mlp.down_proj.weight",
                                  .dtype = DTYPE_F32,
                                  .n_dims = 2,
                                  .dims = {7, 1429}};
    float *want = arena_array(t->a, float, N), *got = arena_array(t->a, float, N);
    uint16_t *half = arena_array(t->a, uint16_t, N);
    model_random_tensor(&tensor, 42, want);
    const struct random_weights w = random_weights_of(&tensor, 42);
    struct cuda_random_args a = {.out = got,
                                 .n = N,
                                 .key = {w.key[0], w.key[1]},
                                 .stream = {w.stream[0], w.stream[1]},
                                 .quantiles = random_weights_quantiles()};
    run(CUDA_RANDOM, &a, CUDA_F32);
    assert_memory_equal(got, want, N * sizeof(float));
    a.out = half;
    run(CUDA_RANDOM, &a, CUDA_BF16);
    for (int i = 0; i < N; i++)
        assert_near((double)twin_get(CUDA_BF16, half, i), (double)twin_rounded(CUDA_BF16, want[i]),
                    0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(qwen3_is_transformers),          TEST(llama_is_transformers),
        TEST(bloom_is_transformers),          TEST(sixteen_bits_round_to_nearest_even),
        TEST(fused_products_are_their_parts), TEST(draws_are_the_cpu_engines),
        TEST(candidates_are_left_out),        TEST(without_numbers_it_is_token_0),
        TEST(the_first_of_equal_logits_wins), TEST(random_weights_are_model_inits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
