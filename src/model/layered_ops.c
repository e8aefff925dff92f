/* Operators of a model whose layers differ: rows of each kind of attention and of MLP, with the
 * work of a token beside reading the weights. T tokens, H hidden, and of a kind: q and k its heads'
 * and KV heads' elements, I its width, X experts per token.
 *
 *   row                  FLOP of a token            elements of a token, weights apart
 *   norms                4 H or 7 H                 2 H
 *   projections [m, n]   2 m n each                 n once for those that share their input, and m
 *   attn_qk_norm, rope   4 (q + k); 3 r (q + k)     2 (q + k); 2 r (q + k), r the rotated part
 *   attn_kv_cache_save   0                          read and written
 *   attn_prefill         2 heads (k_dim + v_dim) a pair, as prompts multiply them; q and outputs;
 *                        of latent attention 2 x kv_b_proj for each key that was cached before
 *   attn_decode          2 heads (k_dim + v_dim) a pair, of the latent vector itself
 *   mlp_act, moe_act     5 I and 3 I with a gate, else 9 I and 2 I; experts X times
 *   moe_router           2 E H + 4 E                E + H
 *   moe_combine          2 X H                      X H + H + X
 *   add                  2 H                        6 H, twice a layer as once
 *
 * Latent attention as vLLM computes it (vllm/v1/attention/backends/mla): prompts make keys and
 * values of all heads from the latent vectors, decode multiplies queries by kv_b_proj's part for
 * keys instead, which costs as much a token. */
#include <string.h>

#include "model/model.h"

struct rows {
    const struct structure *s;
    struct op_list *out;
    int32_t part, repeat;
};

static struct op *add(struct rows *r, enum op_kind k, enum op_axis axis, enum op_where where)
{
    ASSERT(r->out->n < OPS_MOST);
    struct op *op = &r->out->ops[r->out->n++];
    *op = (struct op){.kind = k,
                      .part = r->part,
                      .axis = axis,
                      .where = where,
                      .repeat = where == OP_IN_LAYER ? r->repeat : 1,
                      .line = {.set = true}};
    return op;
}

static struct op *in_layer(struct rows *r, enum op_kind k)
{
    return add(r, k, AXIS_TOKENS, OP_IN_LAYER);
}

static double hidden(const struct rows *r)
{
    return (double)r->s->hidden;
}

static int64_t norm_params(const struct rows *r)
{
    return (r->s->norm == NORM_LAYER ? 2 : 1) * r->s->hidden;
}

/* vectors: parameters beside the part's matrices, which the norm's row counts. */
static void add_norm(struct rows *r, enum op_kind k, enum op_axis axis, enum op_where where,
                     int64_t vectors)
{
    struct op *op = add(r, k, axis, where);
    op->line.token_flop = (r->s->norm == NORM_LAYER ? 7 : 4) * hidden(r);
    op->line.token_elements = 2 * hidden(r);
    op->line.fixed_elements = (double)norm_params(r);
    op->weight_params = vectors;
}

/* Which projections of a part make an operator. */
typedef bool takes_fn(const struct projection *p);

static bool is_router(const struct projection *p)
{
    return p->cut == CUT_NONE && strcmp(p->module, "mlp.gate") == 0;
}

static bool attention_in(const struct projection *p)
{
    return p->cut != CUT_COLUMNS;
}

static bool attention_out(const struct projection *p)
{
    return p->cut == CUT_COLUMNS;
}

static bool dense_in(const struct projection *p)
{
    return (p->cut == CUT_ROWS || p->cut == CUT_NONE) && !is_router(p);
}

static bool dense_out(const struct projection *p)
{
    return p->cut == CUT_COLUMNS;
}

static bool expert_in(const struct projection *p)
{
    return p->cut == CUT_EXPERT_ROWS;
}

static bool expert_out(const struct projection *p)
{
    return p->cut == CUT_EXPERT_COLUMNS;
}

/* experts_per_token: 0 = not of experts. */
static void add_products(struct rows *r, enum op_kind k, const struct projections *w,
                         takes_fn *takes, int64_t experts_per_token)
{
    struct op *op = in_layer(r, k);
    const double times = experts_per_token ? (double)experts_per_token : 1;
    int64_t widest = 0;
    for (int32_t i = 0; i < w->n; i++) {
        const struct projection *p = &w->w[i];
        if (!takes(p))
            continue;
        const int64_t copies = experts_per_token ? 1 : p->copies, one = p->rows * p->columns;
        op->matrix_params += copies * one;
        op->weight_params += p->copies * p->rows * (p->columns + p->bias);
        op->m += copies * p->rows;
        op->experts = experts_per_token ? p->copies : 0;
        op->line.token_flop += times * (double)(copies * (2 * one + (p->bias ? p->rows : 0)));
        op->line.token_elements += times * (double)(copies * p->rows);
        op->line.fixed_elements += p->bias ? (double)(copies * p->rows) : 0;
        widest = p->columns > widest ? p->columns : widest;
    }
    op->k = widest;
    op->line.token_elements += times * (double)widest;
    if (op->matrix_params == 0)
        r->out->n--;
}

/* ---- attention ------------------------------------------------------------------------------- */

static int64_t cached(const struct attention *t)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < t->n_caches; k++)
        sum += t->caches[k].elements;
    return sum;
}

static double latent_key_flop(const struct attention *t)
{
    double flop = 0;
    for (int32_t i = 0; t->type == ATTENTION_LATENT && i < t->weights.n; i++)
        if (strcmp(t->weights.w[i].module, "self_attn.kv_b_proj") == 0)
            flop += 2 * (double)(t->weights.w[i].rows * t->weights.w[i].columns);
    return flop;
}

static void add_scores(struct rows *r, enum op_kind k, const struct attention *t, int64_t k_dim,
                       int64_t v_dim)
{
    struct op *op = add(r, k, k == OP_ATTN_PREFILL ? AXIS_PREFILL : AXIS_DECODE, OP_IN_LAYER);
    op->line.pair_flop = 2 * (double)(t->heads * (k_dim + v_dim));
    op->line.query_elements = (double)(t->heads * (k_dim + v_dim));
    op->line.key_elements = (double)cached(t);
}

static void add_attention(struct rows *r, const struct attention *t)
{
    if (t->weights.n == 0)
        return;
    const double q = (double)(t->heads * t->prompt_k_dim);
    const double k = (double)(t->kv_heads * t->k_dim);
    add_norm(r, OP_INPUT_NORM, AXIS_TOKENS, OP_IN_LAYER, t->weights.vectors);
    add_products(r, OP_ATTN_PRE_PROJ, &t->weights, attention_in, 0);
    if (t->n_caches == 0)
        return;
    if (t->qk_norm) {
        struct op *op = in_layer(r, OP_QK_NORM);
        op->line.token_flop = 4 * (q + k);
        op->line.token_elements = 2 * (q + k);
        op->line.fixed_elements = 2 * (double)t->k_dim;
    }
    if (t->rotary_dim) {
        const double part = (double)(t->rotary_dim * (t->heads + t->kv_heads));
        struct op *op = in_layer(r, OP_ROPE);
        op->line.token_flop = 3 * part;
        op->line.token_elements = 2 * part;
    }
    struct op *save = in_layer(r, OP_KV_SAVE);
    save->line.token_elements = (double)cached(t);
    save->line.key_elements = (double)cached(t);
    add_scores(r, OP_ATTN_PREFILL, t, t->prompt_k_dim, t->prompt_v_dim);
    r->out->ops[r->out->n - 1].line.key_flop = latent_key_flop(t);
    add_scores(r, OP_ATTN_DECODE, t, t->k_dim, t->v_dim);
    add_products(r, OP_ATTN_POST_PROJ, &t->weights, attention_out, 0);
    if (t->out_norm) /* its weights are counted with the norm before */
        add_norm(r, OP_ATTN_OUT_NORM, AXIS_TOKENS, OP_IN_LAYER, 0);
}

/* ---- MLP ------------------------------------------------------------------------------------- */

static void add_act(struct rows *r, enum op_kind k, const struct mlp *p, double width)
{
    struct op *op = in_layer(r, k);
    op->line.token_flop = (p->gated ? 5 : 9) * width;
    op->line.token_elements = (p->gated ? 3 : 2) * width;
}

static void add_experts(struct rows *r, const struct mlp *p)
{
    const double experts = (double)p->experts, times = (double)p->experts_per_token;
    add_products(r, OP_MOE_ROUTER, &p->weights, is_router, 0);
    r->out->ops[r->out->n - 1].line.token_flop += 4 * experts;
    add_products(r, OP_MOE_UP_PROJ, &p->weights, expert_in, p->experts_per_token);
    add_act(r, OP_MOE_ACT, p, times * (double)p->intermediate);
    add_products(r, OP_MOE_DOWN_PROJ, &p->weights, expert_out, p->experts_per_token);
    struct op *combine = in_layer(r, OP_MOE_COMBINE);
    combine->line.token_flop = 2 * times * hidden(r);
    combine->line.token_elements = (times + 1) * hidden(r) + times;
}

static void add_mlp(struct rows *r, const struct mlp *p)
{
    const int64_t dense = p->experts ? p->shared : p->intermediate;
    if (p->weights.n == 0)
        return;
    add_norm(r, OP_POST_ATTN_NORM, AXIS_TOKENS, OP_IN_LAYER, p->weights.vectors);
    if (r->s->one_norm)
        r->out->ops[r->out->n - 1].line = (struct op_line){.set = true};
    if (p->experts)
        add_experts(r, p);
    add_products(r, OP_MLP_UP_PROJ, &p->weights, dense_in, 0);
    if (dense)
        add_act(r, OP_MLP_ACT, p, (double)dense);
    add_products(r, OP_MLP_DOWN_PROJ, &p->weights, dense_out, 0);
    if (p->out_norm)
        add_norm(r, OP_MLP_OUT_NORM, AXIS_TOKENS, OP_IN_LAYER, 0);
}

/* ---- the list -------------------------------------------------------------------------------- */

static const struct projection *outside(const struct structure *s, const char *module)
{
    for (int32_t i = 0; i < s->outside.n; i++)
        if (strcmp(s->outside.w[i].module, module) == 0)
            return &s->outside.w[i];
    return NULL;
}

static void add_ends(struct rows *r)
{
    const struct projection *head = outside(r->s, "lm_head"),
                            *table = outside(r->s, "embed_tokens");
    head = head ? head : table;
    add_norm(r, OP_FINAL_NORM, AXIS_ROWS, OP_AFTER_LAYERS, r->s->outside.vectors);
    struct op *op = add(r, OP_LM_HEAD, AXIS_ROWS, OP_AFTER_LAYERS);
    op->m = head->rows;
    op->k = head->columns;
    op->matrix_params = head->rows * head->columns;
    op->weight_params = op->matrix_params + (head->bias ? head->rows : 0);
    op->line.token_flop = 2 * (double)op->matrix_params;
    op->line.token_elements = (double)(op->m + op->k);
    struct op *sample = add(r, OP_SAMPLE, AXIS_ROWS, OP_AFTER_LAYERS);
    sample->line.token_flop = sample->line.token_elements = (double)r->s->vocab;
}

void layered_ops(const struct structure *s, struct op_list *out)
{
    struct rows r = {.s = s, .out = out, .repeat = 1};
    out->n = 0;
    struct op *emb = add(&r, OP_EMB, AXIS_TOKENS, OP_BEFORE_LAYERS);
    emb->line.token_elements = 2 * hidden(&r);
    for (int32_t i = 0; i < s->outside.n; i++)
        if (strcmp(s->outside.w[i].module, "lm_head") != 0)
            emb->weight_params +=
                s->outside.w[i].copies * s->outside.w[i].rows * s->outside.w[i].columns;
    if (s->emb_norm) /* its weights are counted with the final norm's */
        add_norm(&r, OP_EMB_NORM, AXIS_TOKENS, OP_BEFORE_LAYERS, 0);
    for (r.part = 0; r.part < s->n_attentions; r.part++) {
        r.repeat = (int32_t)structure_layers_of_attention(s, r.part);
        add_attention(&r, &s->attention[r.part]);
    }
    for (r.part = 0; r.part < s->n_mlps; r.part++) {
        r.repeat = (int32_t)structure_layers_of_mlp(s, r.part);
        add_mlp(&r, &s->mlp[r.part]);
    }
    r.part = 0;
    r.repeat = (int32_t)s->layers;
    struct op *residual = in_layer(&r, OP_ADD);
    residual->line.token_flop = 2 * hidden(&r);
    residual->line.token_elements = 6 * hidden(&r);
    add_ends(&r);
    op_list_number(out, s);
}
