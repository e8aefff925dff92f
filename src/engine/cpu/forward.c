#include "engine/cpu/forward.h"

#include <string.h>

#include "base/clock.h"
#include "engine/cpu/ready.h"
#include "engine/engine.h"
#include "engine/positions.h"

static operator_fn *const operators[OP_KINDS] = {
    [OP_EMB] = op_emb,
    [OP_EMB_NORM] = op_emb_norm,
    [OP_INPUT_NORM] = op_input_norm,
    [OP_ATTN_PRE_PROJ] = op_attn_pre_proj,
    [OP_QK_NORM] = op_qk_norm,
    [OP_ROPE] = op_rope,
    [OP_KV_SAVE] = op_kv_save,
    [OP_ATTN_PREFILL] = op_attn_prefill,
    [OP_ATTN_DECODE] = op_attn_decode,
    [OP_ATTN_POST_PROJ] = op_attn_post_proj,
    [OP_ATTN_OUT_NORM] = op_attn_out_norm,
    [OP_POST_ATTN_NORM] = op_post_attn_norm,
    [OP_MLP_UP_PROJ] = op_mlp_up_proj,
    [OP_MLP_ACT] = op_mlp_act,
    [OP_MLP_DOWN_PROJ] = op_mlp_down_proj,
    [OP_MOE_ROUTER] = op_moe_router,
    [OP_MOE_UP_PROJ] = op_moe_up_proj,
    [OP_MOE_ACT] = op_moe_act,
    [OP_MOE_DOWN_PROJ] = op_moe_down_proj,
    [OP_MOE_COMBINE] = op_moe_combine,
    [OP_MLP_OUT_NORM] = op_mlp_out_norm,
    [OP_ADD] = op_add,
    [OP_FINAL_NORM] = op_final_norm,
    [OP_LM_HEAD] = op_lm_head,
    [OP_SAMPLE] = op_sample,
};

/* ---- the loop -------------------------------------------------------------------------------- */

static void run_steps(struct forward *f, const struct op_steps *s, int64_t layer)
{
    if (!f->timed) {
        for (int i = 0; i < s->n; i++)
            operators[s->kinds[i]](f, layer);
        return;
    }
    int64_t before_ns = clock_mono_ns();
    for (int i = 0; i < s->n; i++) {
        operators[s->kinds[i]](f, layer);
        const int64_t now_ns = clock_mono_ns();
        f->op_s[s->rows[i]] += ns_to_s(now_ns - before_ns);
        before_ns = now_ns;
    }
}

void forward_run(struct forward *f)
{
    memset(f->op_s, 0, sizeof f->op_s);
    run_steps(f, &f->steps.before, 0);
    for (int64_t layer = 0; layer < f->m->layers; layer++)
        run_steps(f, model_layer_steps(&f->steps, f->m, layer), layer);
    if (f->b->n_rows > 0)
        run_steps(f, &f->steps.after, 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static double gib(double floats)
{
    return floats * sizeof(float) / (double)(1 << 30);
}

static double kv_floats(const struct forward *f)
{
    return 2.0 * (double)f->m->layers * (double)f->num_blocks * (double)f->block_size *
           (double)f->m->kv_heads * (double)f->m->head_dim;
}

/* What the layers' MLPs need at most, of a token. */
struct mlp_most {
    int64_t up, act, experts, experts_per_token;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct mlp_most mlp_most(const struct forward *f)
{
    struct mlp_most most = {0};
    for (int32_t i = 0; i < f->s->n_mlps; i++) {
        const struct mlp *p = &f->s->mlp[i];
        const int64_t rows = p->experts ? p->experts_per_token : 1;
        most.up = larger(most.up, rows * (p->gated ? 2 : 1) * p->intermediate);
        most.act = larger(most.act, rows * gemm_ld(p->intermediate));
        most.experts = larger(most.experts, p->experts);
        most.experts_per_token = larger(most.experts_per_token, p->experts_per_token);
    }
    return most;
}

static double buffer_floats(const struct forward *f)
{
    const struct model *m = f->m;
    const struct mlp_most mlp = mlp_most(f);
    const double q = (double)(m->heads * m->head_dim), kv = (double)(m->kv_heads * m->head_dim);
    const double hidden = (double)m->hidden * (double)(3 + 2 * mlp.experts_per_token);
    const double per_token = hidden + 2 * (q + kv) +
                             (double)(mlp.up + mlp.act + mlp.experts + 4 * mlp.experts_per_token);
    return (double)f->max_tokens * per_token + (double)f->max_rows * (double)(m->vocab + m->hidden);
}

/* Refuses before anything is allocated: timings on a swapping machine are worthless. */
static enum st check_fits(const struct forward *f, struct err *e)
{
    const double weights = gib((double)cpu_weights_floats(f->kn, f->m));
    const double kv = gib(kv_floats(f)), buffers = gib(buffer_floats(f));
    const double have = gib((double)pages_available_bytes() / sizeof(float));
    if (weights + kv + buffers < have)
        return ST_OK;
    err_set(
        e, ST_USAGE,
        "a KV cache of %lld blocks of %lld tokens takes %.1f GiB, the weights %.1f GiB, buffers "
        "%.1f GiB: more than the %.1f GiB of free memory",
        (long long)f->num_blocks, (long long)f->block_size, kv, weights, buffers, have);
    return err_hint(e, "lower scheduler.num_blocks or the batch limits, or take a smaller model");
}

static float *piece(float **at, int64_t floats)
{
    float *p = *at;
    *at += (floats + 15) / 16 * 16 + KERNELS_SLACK;
    return p;
}

/* With base NULL counts the floats. */
static size_t place_buffers(struct forward *f, float *base)
{
    const struct model *m = f->m;
    const int64_t t = f->max_tokens, rows = f->max_rows, q = m->heads * m->head_dim;
    const struct mlp_most mlp = mlp_most(f);
    float *at = base;
    f->h_ld = gemm_ld(m->hidden);
    f->att_ld = gemm_ld(q);
    f->x = piece(&at, t * m->hidden);
    f->h = piece(&at, (t > rows ? t : rows) * f->h_ld);
    f->qkv = piece(&at, t * (q + 2 * m->kv_heads * m->head_dim));
    f->att = piece(&at, t * f->att_ld);
    f->up = piece(&at, t * mlp.up);
    f->act = piece(&at, t * mlp.act);
    f->experts.logits = piece(&at, t * mlp.experts);
    f->experts.weights = piece(&at, t * mlp.experts_per_token);
    f->experts.in = piece(&at, t * mlp.experts_per_token * f->h_ld);
    f->experts.out = piece(&at, t * mlp.experts_per_token * m->hidden);
    f->y = piece(&at, t * m->hidden);
    f->logits = piece(&at, rows * m->vocab);
    return (size_t)(at - base);
}

static enum st alloc_cache(struct forward *f, const struct cpu_engine_params *p, struct err *e)
{
    const int64_t tokens = f->num_blocks * f->block_size;
    f->layer_floats = tokens * f->m->kv_heads * f->m->head_dim;
    TRY(pages_alloc(&f->cache, (size_t)(2 * f->m->layers * f->layer_floats), "KV cache", e));
    const int64_t busy =
        p->busy_blocks > 0 && p->busy_blocks < f->num_blocks ? p->busy_blocks : f->num_blocks;
    for (int64_t layer = 0; layer < 2 * f->m->layers; layer++)
        pages_touch_part(&f->cache, (size_t)(layer * f->layer_floats),
                         (size_t)(f->layer_floats / f->num_blocks * busy), f->pool);
    f->k = f->cache.base;
    if (p->ready_later)
        f->ready =
            ready_begin(&(struct ready_params){.base = f->k,
                                               .parts = 2 * f->m->layers,
                                               .part_floats = f->layer_floats,
                                               .block_floats = f->layer_floats / f->num_blocks,
                                               .first = busy,
                                               .blocks = f->num_blocks});
    f->v = f->k + f->m->layers * f->layer_floats;
    return ST_OK;
}

static enum st alloc_buffers(struct forward *f, struct err *e)
{
    /* counted from a real address: pointer arithmetic on NULL is undefined */
    float start[1];
    TRY(pages_alloc(&f->buffers, place_buffers(f, start), "activations", e));
    pages_touch(&f->buffers, f->pool);
    place_buffers(f, f->buffers.base);

    const struct mlp_most mlp = mlp_most(f);
    const int64_t routed = f->max_tokens * mlp.experts_per_token;
    f->experts.chosen = arena_array(f->arena, int32_t, routed);
    f->experts.at = arena_array(f->arena, int32_t, routed);
    f->experts.token = arena_array(f->arena, int32_t, routed);
    f->experts.groups = arena_array(f->arena, struct gemm_group, mlp.experts);
    f->ids_out = arena_array(f->arena, int32_t, f->max_rows);
    const int threads = pool_threads(f->pool);
    f->scratch = arena_array(f->arena, struct attention_scratch *, threads);
    f->samplers = arena_array(f->arena, struct sampler, threads);
    for (int i = 0; i < threads; i++)
        f->scratch[i] = arena_alloc(f->arena, attention_scratch_bytes(f->m));
    return ST_OK;
}

/* ---- positions ------------------------------------------------------------------------------- */

static void prepare_positions(struct forward *f)
{
    f->max_position = f->num_blocks * f->block_size;
    if (f->m->position == POSITION_ALIBI) {
        f->slopes = arena_array(f->arena, float, f->m->heads);
        positions_slopes(f->m, f->slopes);
        return;
    }
    if (f->max_position > f->m->max_positions)
        f->max_position = f->m->max_positions;
    const int64_t half = f->m->head_dim / 2;
    for (int32_t i = 0; i < f->s->n_ropes; i++) {
        f->cosine[i] = arena_array(f->arena, float, f->max_position *half);
        f->sine[i] = arena_array(f->arena, float, f->max_position *half);
        positions_rotation(&f->s->ropes[i], f->m->head_dim, f->max_position, f->cosine[i],
                           f->sine[i]);
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum st check_params(const struct cpu_engine_params *p, struct err *e)
{
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"block_size", p->block_size},
                  {"num_blocks", p->num_blocks},
                  {"max_batch_tokens", p->max_batch_tokens},
                  {"max_rows", p->max_rows}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].value < 1)
            return err_set(e, ST_USAGE, "%s: %lld is below the minimum 1", counts[i].name,
                           (long long)counts[i].value);
    if (p->sample_vocab < 0 || p->sample_vocab > p->model->vocab)
        return err_set(e, ST_USAGE,
                       "sample_vocab: %lld is not between 0 and the vocabulary of %lld",
                       (long long)p->sample_vocab, (long long)p->model->vocab);
    return ST_OK;
}

enum st forward_open(struct forward *f, const struct cpu_engine_params *p, struct err *e)
{
    size_t n;
    *f = (struct forward){.m = p->model,
                          .kn = kernels_usable(&n)[0],
                          .block_size = p->block_size,
                          .num_blocks = p->num_blocks,
                          .max_tokens = p->max_batch_tokens,
                          .max_rows = p->max_rows,
                          .sample_vocab = p->sample_vocab ? p->sample_vocab : p->model->vocab,
                          .arena = arena_new()};
    f->s = model_structure(f->arena, f->m);
    TRY(check_params(p, e));
    TRY(check_fits(f, e));
    model_steps(f->m, &f->steps);
    TRY(pool_open(p->threads, &f->pool, e));
    pool_keep_awake(f->pool, p->spin);
    TRY(cpu_weights_load(&f->w, f->kn, f->pool, f->m, p->weights_dir, p->weights_seed, e));
    TRY(alloc_cache(f, p, e));
    TRY(alloc_buffers(f, e));
    prepare_positions(f);
    return ST_OK;
}

void forward_free(struct forward *f)
{
    ready_end(&f->ready);
    for (int i = 0; f->samplers && i < pool_threads(f->pool); i++)
        sampler_free(&f->samplers[i]);
    pool_close(&f->pool);
    cpu_weights_free(&f->w);
    pages_free(&f->buffers);
    pages_free(&f->cache);
    arena_free(&f->arena);
    *f = (struct forward){0};
}
