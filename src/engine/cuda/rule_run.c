#include <math.h>
#include <stddef.h>

#include "engine/cuda/rules.h"
#include "engine/cuda/twins.h"
#include "gpu/stream.h"

/* ---- addresses ------------------------------------------------------------------------------- */

void *rule_pointer(CUdeviceptr p)
{
    return (void *)(uintptr_t)p;
}

static void *at(CUdeviceptr p)
{
    return rule_pointer(p);
}

/* A number of the step, in device memory. */
static const int *count_at(const struct rule_use *u, size_t member)
{
    return (const int *)((uintptr_t)u->p->batch.step + member);
}

const int *rule_tokens(const struct rule_use *u)
{
    return count_at(u, offsetof(struct cuda_step, n_tokens));
}

static const int *rows_of(const struct rule_use *u)
{
    return count_at(u, offsetof(struct cuda_step, n_rows));
}

static const struct weight_layer *layer_of(const struct rule_use *u)
{
    return &u->f->w->layers[u->layer];
}

/* ---- launching ------------------------------------------------------------------------------- */

static void charge(const struct rule_use *u, const char *kernel)
{
    if (u->f->charges)
        vec_push(&u->f->charges->of, ((struct cuda_charge){rule_row(u), kernel}));
}

enum st rule_launch(const struct rule_use *u, enum cuda_kernel_id id, const void *args,
                    struct err *e)
{
    const struct cuda_forward *f = u->f;
    TRY(cuda_programs_launch(f->programs, id, args, &u->p->sizes, *u->begun && !f->p.check,
                             u->stream, e));
    *u->begun = true;
    charge(u, f->programs->kernel[id].name);
    if (f->p.check && gpu_stream_wait(f->gpu, u->stream, e) != ST_OK)
        return err_add(e, "kernel %s", f->programs->kernel[id].name);
    return ST_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

enum st rule_embed(const struct rule_use *u, struct err *e)
{
    const struct cuda_embed_args a = {
        .batch = u->p->batch,
        .table = at(u->f->w->embedding),
        .x = at(u->f->x),
        .hidden = (int)u->f->m->hidden,
        .scale = twin_rounded(u->f->programs->dtype, (float)u->f->s->embedding_scale)};
    return rule_launch(u, CUDA_EMBED, &a, e);
}

static const struct weight_norm *norm_of(const struct rule_use *u)
{
    switch ((int)u->rule->ops[0]) {
    case OP_EMB_NORM:
        return &u->f->w->emb_norm;
    case OP_INPUT_NORM:
        return &layer_of(u)->input_norm;
    case OP_POST_ATTN_NORM:
        return &layer_of(u)->post_norm;
    case OP_ATTN_OUT_NORM:
        return &layer_of(u)->attn_out_norm;
    case OP_MLP_OUT_NORM:
        return &layer_of(u)->mlp_out_norm;
    case OP_FINAL_NORM:
        return &u->f->w->final_norm;
    default:
        return NULL;
    }
}

enum st rule_norm(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const struct weight_norm *n = norm_of(u);
    const bool last = rule_has(u->rule, OP_FINAL_NORM), first = rule_has(u->rule, OP_EMB_NORM),
               behind = rule_has(u->rule, OP_ADD); /* a projection */
    const struct cuda_norm_args a = {.count = last ? rows_of(u) : rule_tokens(u),
                                     .gather = last ? u->p->batch.row_token : NULL,
                                     .x = at(behind ? f->y : f->x),
                                     .weight = at(n->w),
                                     .bias = at(n->b),
                                     .residual = behind ? at(f->x) : NULL,
                                     .out = at(first || behind ? f->x : f->h),
                                     .width = (int)f->m->hidden,
                                     .eps = (float)f->m->norm_eps,
                                     .offset = (float)f->s->norm_offset};
    return rule_launch(u, CUDA_NORM, &a, e);
}

int rule_act_of(const struct mlp *p)
{
    switch (p->act) {
    case MLP_ACT_SILU:
        return CUDA_ACT_SILU_GATED;
    case MLP_ACT_GELU_TANH:
        return p->gated ? CUDA_ACT_GELU_GATED : CUDA_ACT_GELU_TANH;
    case MLP_ACT_CLAMPED:
        return CUDA_ACT_CLAMPED_GATED;
    case MLP_ACT_OTHER:
        break;
    }
    err_bug("an activation that cuda_forward_check takes", __FILE__, __LINE__);
}

enum st rule_act(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const struct cuda_act_args a = {.count = rule_tokens(u),
                                    .up = at(f->up),
                                    .out = at(f->act),
                                    .width = (int)model_intermediate(f->m, u->layer),
                                    .act = rule_act_of(u->mlp)};
    return rule_launch(u, CUDA_ACT, &a, e);
}

/* ---- products -------------------------------------------------------------------------------- */

struct cuda_product rule_product_of(const struct cuda_forward *f, enum op_kind op, int64_t layer)
{
    const struct weight_layer *l = &f->w->layers[layer];
    const bool attn_norm = f->s->attention[model_attention_of(f->m, layer)].out_norm,
               mlp_norm = f->s->mlp[model_mlp_of(f->m, layer)].out_norm;
    switch ((int)op) {
    case OP_ATTN_PRE_PROJ:
        return (struct cuda_product){.weight = l->qkv, .x = f->h, .out = f->qkv};
    case OP_ATTN_POST_PROJ:
        return (struct cuda_product){
            .weight = l->out, .x = f->att, .out = attn_norm ? f->y : f->x, .add = !attn_norm};
    case OP_MLP_UP_PROJ:
        return (struct cuda_product){.weight = l->up, .x = f->h, .out = f->up};
    case OP_MLP_DOWN_PROJ:
        return (struct cuda_product){
            .weight = l->down, .x = f->act, .out = mlp_norm ? f->y : f->x, .add = !mlp_norm};
    case OP_MOE_ROUTER: /* its bias is added where experts are chosen: it is not float32 */
        return (struct cuda_product){
            .weight = {.data = l->router.data, .m = l->router.m, .k = l->router.k},
            .x = f->h,
            .out = f->gate,
            .out_float = true};
    case OP_LM_HEAD:
        return (struct cuda_product){
            .weight = f->w->lm_head, .x = f->h, .out = f->logits, .out_float = true};
    default:
        err_bug("an operator that is no product", __FILE__, __LINE__);
    }
}

static enum op_kind product_in(const struct rule *r)
{
    static const enum op_kind all[] = {OP_ATTN_PRE_PROJ, OP_ATTN_POST_PROJ, OP_MLP_UP_PROJ,
                                       OP_MLP_DOWN_PROJ, OP_MOE_ROUTER,     OP_LM_HEAD};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (rule_has(r, all[i]))
            return all[i];
    return OP_KINDS;
}

enum st rule_product(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const enum op_kind op = product_in(u->rule);
    const struct cuda_product p = rule_product_of(f, op, u->layer);
    TRY(cuda_matmul_run(f->matmul, &p, op == OP_LM_HEAD ? u->p->sizes.rows : u->p->sizes.tokens,
                        u->stream, e));
    *u->begun = true;
    charge(u, NULL);
    if (f->p.check && gpu_stream_wait(f->gpu, u->stream, e) != ST_OK)
        return err_add(e, "a matrix product of cuBLASLt");
    return ST_OK;
}

enum st rule_few(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const enum op_kind op = product_in(u->rule);
    const struct cuda_product p = rule_product_of(f, op, u->layer);
    const struct weight_norm *norm = norm_of(u);
    const bool head = op == OP_LM_HEAD, act = rule_has(u->rule, OP_MLP_ACT);
    const int how = act ? rule_act_of(u->mlp) : CUDA_ACT_NONE;
    const bool gated = CUDA_ACT_IS_GATED(how);
    const struct cuda_matmul_args a = {.count = head ? rows_of(u) : rule_tokens(u),
                                       .gather = head && norm ? u->p->batch.row_token : NULL,
                                       .x = at(norm ? f->x : p.x),
                                       .weight = at(p.weight.data),
                                       .bias = at(p.weight.bias),
                                       .norm = norm ? at(norm->w) : NULL,
                                       .residual = p.add ? at(f->x) : NULL,
                                       .out = at(act ? f->act : p.out),
                                       .in = (int)p.weight.k,
                                       .outs = (int)(gated ? p.weight.m / 2 : p.weight.m),
                                       .act = how,
                                       .out_float = p.out_float,
                                       .eps = (float)f->m->norm_eps};
    return rule_launch(u,
                       cuda_matmul_pick(&a, head ? u->p->sizes.rows : u->p->sizes.tokens,
                                        f->programs->dtype, u->p->sizes.sms),
                       &a, e);
}

/* ---- attention ------------------------------------------------------------------------------- */

enum st rule_rope(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const struct cuda_rope_args a = {.batch = u->p->batch,
                                     .qkv = at(f->qkv),
                                     .q_norm = at(layer_of(u)->q_norm),
                                     .k_norm = at(layer_of(u)->k_norm),
                                     .cosine = at(f->cosine[u->attention->rope]),
                                     .sine = at(f->sine[u->attention->rope]),
                                     .k = at(cuda_kv_keys(&f->kv, u->layer)),
                                     .v = at(cuda_kv_values(&f->kv, u->layer)),
                                     .heads = (int)f->m->heads,
                                     .kv_heads = (int)f->m->kv_heads,
                                     .head_dim = (int)f->m->head_dim,
                                     .block_size = (int)f->p.block_size,
                                     .eps = (float)f->m->norm_eps,
                                     .norm_offset = (float)f->s->norm_offset};
    return rule_launch(u, CUDA_ROPE, &a, e);
}

static struct cuda_attention_args attention_of(const struct rule_use *u, bool fuse)
{
    const struct cuda_forward *f = u->f;
    const struct weight_layer *l = layer_of(u);
    const struct attention *t = u->attention;
    const int span = cuda_forward_span(f->s, model_attention_of(f->m, u->layer));
    const double scale = t->score_scale > 0 ? t->score_scale : 1.0 / sqrt((double)f->m->head_dim);
    return (struct cuda_attention_args){.batch = cuda_step_span(&u->p->batch, &u->p->sizes, span),
                                        .qkv = at(f->qkv),
                                        .out = at(f->att),
                                        .k = at(cuda_kv_keys(&f->kv, u->layer)),
                                        .v = at(cuda_kv_values(&f->kv, u->layer)),
                                        .slopes = at(f->slopes),
                                        .sinks = at(l->sinks),
                                        .heads = (int)f->m->heads,
                                        .kv_heads = (int)f->m->kv_heads,
                                        .head_dim = (int)f->m->head_dim,
                                        .block_size = (int)f->p.block_size,
                                        .scale = (float)scale,
                                        .window = u->p->sizes.windows[span],
                                        .fuse = fuse,
                                        .q_norm = at(l->q_norm),
                                        .k_norm = at(l->k_norm),
                                        .cosine = at(f->cosine[t->rope]),
                                        .sine = at(f->sine[t->rope]),
                                        .eps = (float)f->m->norm_eps,
                                        .norm_offset = (float)f->s->norm_offset,
                                        .partial = at(f->partial),
                                        .counters = at(f->counters)};
}

enum st rule_decode_fused(const struct rule_use *u, struct err *e)
{
    const struct cuda_attention_args a = attention_of(u, true);
    return rule_launch(u, CUDA_ATTENTION_DECODE, &a, e);
}

enum st rule_decode(const struct rule_use *u, struct err *e)
{
    const struct cuda_attention_args a = attention_of(u, false);
    return rule_launch(u, CUDA_ATTENTION_DECODE, &a, e);
}

enum st rule_prefill(const struct rule_use *u, struct err *e)
{
    const struct cuda_attention_args a = attention_of(u, false);
    return rule_launch(u, CUDA_ATTENTION_PREFILL, &a, e);
}

enum st rule_any(const struct rule_use *u, struct err *e)
{
    const struct cuda_attention_args a = attention_of(u, false);
    return rule_launch(u, CUDA_ATTENTION_ANY, &a, e);
}

/* ---- the whole step -------------------------------------------------------------------------- */

static CUdeviceptr stride_of(CUdeviceptr first, CUdeviceptr second, int64_t layers)
{
    return layers > 1 ? second - first : 0;
}

struct cuda_decode_step_args rule_step_args(const struct cuda_forward *f, int rows)
{
    const struct model *m = f->m;
    const struct weight_layer *l = f->w->layers, *next = m->layers > 1 ? l + 1 : l;
    enum { LEAST_PAGES = 8 }; /* a page for each warp that computes */
    return (struct cuda_decode_step_args){
        .attention = {.qkv = at(f->qkv),
                      .k = at(cuda_kv_keys(&f->kv, 0)),
                      .v = at(cuda_kv_values(&f->kv, 0)),
                      .slopes = at(f->slopes),
                      .heads = (int)m->heads,
                      .kv_heads = (int)m->kv_heads,
                      .head_dim = (int)m->head_dim,
                      .block_size = (int)f->p.block_size,
                      .scale = (float)(1.0 / sqrt((double)m->head_dim)),
                      .fuse = 1,
                      .q_norm = at(l->q_norm),
                      .k_norm = at(l->k_norm),
                      .cosine = at(f->cosine[0]),
                      .sine = at(f->sine[0]),
                      .eps = (float)m->norm_eps,
                      .splits = cuda_decode_step_parts(rows, (int)m->heads, (int)m->kv_heads,
                                                       f->p.most.sms)},
        .table = at(f->w->embedding),
        .input_norm = at(l->input_norm.w),
        .qkv_weight = at(l->qkv.data),
        .out_weight = at(l->out.data),
        .post_norm = at(l->post_norm.w),
        .up_weight = at(l->up.data),
        .down_weight = at(l->down.data),
        .layer_bytes = (long long)stride_of(l->qkv.data, next->qkv.data, m->layers),
        .cache_bytes = (long long)(cuda_kv_keys(&f->kv, 1) - cuda_kv_keys(&f->kv, 0)),
        .final_norm = at(f->w->final_norm.w),
        .lm_head = at(f->w->lm_head.data),
        .x = at(f->x),
        .qkv = at(f->qkv),
        .act = at(f->act),
        .logits = at(f->logits),
        .layers = (int)m->layers,
        .hidden = (int)m->hidden,
        .intermediate = (int)m->intermediate,
        .vocab = (int)m->vocab,
        .least_pages = LEAST_PAGES,
        .exchange = at(f->exchange),
        .sync = at(f->sync),
        .stamps = at(f->stamps)};
}

enum st rule_decode_step(const struct rule_use *u, struct err *e)
{
    struct cuda_decode_step_args a = rule_step_args(u->f, u->p->sizes.decodes);
    a.attention.batch = u->p->batch;
    return rule_launch(u, CUDA_DECODE_STEP, &a, e);
}

/* ---- sampling -------------------------------------------------------------------------------- */

enum st rule_greedy(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const struct cuda_argmax_args a = {.batch = u->p->batch,
                                       .logits = at(f->logits),
                                       .vocab = (int)f->m->vocab,
                                       .sample_vocab = (int)f->p.sample_vocab,
                                       .ids = at(f->ids),
                                       .partial = at(f->best),
                                       .counters = at(f->best_counters)};
    return rule_launch(u, CUDA_ARGMAX, &a, e);
}

enum st rule_draw(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const struct cuda_sample_args a = {.batch = u->p->batch,
                                       .logits = at(f->logits),
                                       .vocab = (int)f->m->vocab,
                                       .sample_vocab = (int)f->p.sample_vocab,
                                       .sampling = u->p->sampling,
                                       .positions = u->p->draw_at,
                                       .ids = at(f->ids)};
    TRY(rule_greedy(u, e));
    return rule_launch(u, CUDA_SAMPLE, &a, e);
}
