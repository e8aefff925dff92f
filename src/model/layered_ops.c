/* Operators of a model whose layers differ: rows of each kind of attention and of MLP, with the
 * work of a token beside reading the weights. T tokens, H hidden, and of a kind: q and k its heads'
 * and KV heads' elements, I its width, X experts per token.
 *
 *   row                  FLOP of a token            elements of a token, weights apart
 *   norms                4 H or 7 H                 2 H
 *   projections [m, n]   2 m n each                 n once for those that share their input, and m
 *   attn_qk_norm, rope   4 (q + k); 3 r (q + k)     2 (q + k); 2 r (q + k), r the rotated part
 *   attn_kv_cache_save   0                          read and written; of lists with several tokens
 *                                                   to an entry that part
 *   attn_prefill         2 heads (k_dim + v_dim) a pair, as prompts multiply them; q and outputs;
 *                        of latent attention 2 x kv_b_proj for each key that was cached before
 *   attn_decode          2 heads (k_dim + v_dim) a pair, of the latent vector itself
 *   attn_index_*         2 w + 3 heads + 1 a pair of query and index key, w its heads' width:
 *                        scores, ReLU and their weighted sum, the choice; a key is read with its
 *                        scale, and of keys in fp8 a score in float32 is written and read
 *   attn_state_*         state_ops.h
 *   mlp_act, moe_act     5 I and 3 I with a gate, else 9 I and 2 I; experts X times
 *   moe_router           2 E H + 4 E                E + H
 *   moe_combine          2 X H                      X H + H + X
 *   add                  2 H                        6 H, twice a layer as once; of n lanes
 *                        4 n H (2 n [+ n^2]) + 4 n H  2 (3 n + 2) H
 *
 * Latent attention as vLLM computes it (vllm/v1/attention/backends/mla): prompts make keys and
 * values of all heads from the latent vectors, decode multiplies queries by kv_b_proj's part for
 * keys instead, which costs as much a token. Behind an index prompts multiply latent vectors as
 * decode does, each query those of its own keys (flashmla_sparse.py there).
 *
 * Pairs and keys are counted by what a query sees (spans.h): of a window the last tokens, of a
 * piece those since it began, of a compressed list its entries, behind an index those that it
 * chose. These are floors: kernels read whole tiles, and tiles that a window cuts are computed
 * whole. Layers that share another's keys read and save none of their own.
 *
 *     index        DeepSeek-V3.2 (arXiv 2512.02556), 2.1; fp8_mqa_logits of DeepGEMM
 *     lanes        hyper-connections of DeepSeek V4: each part of a layer reads all n lanes for its
 *                  input and for how it mixes them, and writes them again
 *
 * Not counted: projections of a second embedding for each layer (Gemma 3n, 4 E), AltUp. */
#include <string.h>

#include "model/model.h"
#include "model/state_ops.h"

struct layered_rows {
    const struct structure *s;
    struct key_spans spans;
    struct op_list *out;
    int32_t part, repeat;
};

static struct op *add(struct layered_rows *r, enum op_kind k, enum op_axis axis,
                      enum op_where where)
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

static struct op *in_layer(struct layered_rows *r, enum op_kind k)
{
    return add(r, k, AXIS_TOKENS, OP_IN_LAYER);
}

static double hidden(const struct layered_rows *r)
{
    return (double)r->s->hidden;
}

static int64_t norm_params(const struct layered_rows *r)
{
    return (r->s->norm == NORM_LAYER ? 2 : 1) * r->s->hidden;
}

/* vectors: parameters beside the part's matrices, which the norm's row counts. */
static void add_norm(struct layered_rows *r, enum op_kind k, enum op_axis axis, enum op_where where,
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
static void add_products(struct layered_rows *r, enum op_kind k, const struct projections *w,
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

/* What a token leaves in all lists: elements, and bytes of those in a format of their own. */
static void add_save(struct layered_rows *r, const struct attention *t)
{
    double elements = 0, bytes = 0;
    for (int32_t k = 0; k < t->n_caches; k++) {
        elements += (double)t->caches[k].elements / (double)t->caches[k].ratio;
        bytes += (double)t->caches[k].bytes / (double)t->caches[k].ratio;
    }
    struct op *save = in_layer(r, OP_KV_SAVE);
    save->line.token_elements = elements;
    save->line.key_elements = elements;
    save->line.token_bytes = bytes;
}

static double latent_key_flop(const struct attention *t)
{
    double flop = 0;
    for (int32_t i = 0; t->type == ATTENTION_LATENT && t->top_k == 0 && i < t->weights.n; i++)
        if (strcmp(t->weights.w[i].module, "self_attn.kv_b_proj") == 0)
            flop += 2 * (double)(t->weights.w[i].rows * t->weights.w[i].columns);
    return flop;
}

static struct op *add_by_phase(struct layered_rows *r, enum op_kind k, bool prompts)
{
    return add(r, k, prompts ? AXIS_PREFILL : AXIS_DECODE, OP_IN_LAYER);
}

static void add_scores(struct layered_rows *r, bool prompts, const struct attention *t)
{
    const bool heads = prompts && t->prompt_k_dim && !(t->type == ATTENTION_LATENT && t->top_k);
    const int64_t k_dim = heads ? t->prompt_k_dim : t->k_dim;
    const int64_t v_dim = heads ? t->prompt_v_dim : t->v_dim;
    struct op *op = add_by_phase(r, prompts ? OP_ATTN_PREFILL : OP_ATTN_DECODE, prompts);
    op->line.spans = spans_attended(&r->spans, t);
    op->line.pair_flop = 2 * (double)(t->heads * (k_dim + v_dim));
    op->line.query_elements = (double)(t->heads * (k_dim + v_dim));
    op->line.key_elements = (double)attention_key_elements(t);
    op->line.key_flop = prompts ? latent_key_flop(t) : 0;
}

static void add_index(struct layered_rows *r, bool prompts, const struct attention *t)
{
    enum { SCORE_BYTES = 2 * sizeof(float) };
    const int32_t at = attention_index_cache(t);
    if (at < 0)
        return;
    const struct cache *keys = &t->caches[at];
    const double width = (double)attention_index_width(t);
    const int64_t dim = keys->bytes ? keys->bytes - (int64_t)sizeof(float) : keys->elements;
    struct op *op = add_by_phase(r, prompts ? OP_INDEX_PREFILL : OP_INDEX_DECODE, prompts);
    op->line.spans = spans_indexed(&r->spans, t);
    op->line.pair_flop = 2 * width + 3 * width / (double)dim + 1;
    op->line.pair_bytes = keys->bytes ? SCORE_BYTES : 0;
    op->line.query_elements = width;
    op->line.key_elements = (double)keys->elements;
    op->line.key_bytes = (double)keys->bytes;
}

static void add_state(struct layered_rows *r, bool prompts, const struct sequence_state *s)
{
    const struct state_work w = state_work_of(s);
    if (s->type == STATE_NONE)
        return;
    struct op *op = add_by_phase(r, prompts ? OP_STATE_PREFILL : OP_STATE_DECODE, prompts);
    op->line.token_flop = prompts ? w.prompt_flop : w.decode_flop;
    op->line.token_elements = w.token_elements;
    op->line.state_elements = (double)s->elements;
    op->line.state_bytes = (double)s->float32 * (double)sizeof(float);
}

/* Over keys and values: norms and positions of queries and keys, the cache, scores. */
static void add_keyed(struct layered_rows *r, const struct attention *t)
{
    const int64_t kv_heads = t->shared_cache ? 0 : t->kv_heads;
    const double q = (double)(t->heads * t->prompt_k_dim);
    const double k = (double)(kv_heads * t->k_dim);
    if (t->qk_norm) {
        struct op *op = in_layer(r, OP_QK_NORM);
        op->line.token_flop = 4 * (q + k);
        op->line.token_elements = 2 * (q + k);
        op->line.fixed_elements = (t->shared_cache ? 1 : 2) * (double)t->k_dim;
    }
    if (t->rotary_dim) {
        const double part = (double)(t->rotary_dim * (t->heads + kv_heads));
        struct op *op = in_layer(r, OP_ROPE);
        op->line.token_flop = 3 * part;
        op->line.token_elements = 2 * part;
    }
    if (!t->shared_cache)
        add_save(r, t);
    for (int decode = 0; decode < 2; decode++) {
        add_index(r, !decode, t);
        add_scores(r, !decode, t);
    }
}

static void add_attention(struct layered_rows *r, const struct attention *t)
{
    if (t->weights.n == 0 || r->repeat == 0)
        return;
    add_norm(r, OP_INPUT_NORM, AXIS_TOKENS, OP_IN_LAYER, t->weights.vectors);
    add_products(r, OP_ATTN_PRE_PROJ, &t->weights, attention_in, 0);
    if (t->n_caches || t->shared_cache)
        add_keyed(r, t);
    for (int decode = 0; decode < 2; decode++)
        add_state(r, !decode, &t->state);
    add_products(r, OP_ATTN_POST_PROJ, &t->weights, attention_out, 0);
    if (t->out_norm) /* its weights are counted with the norm before */
        add_norm(r, OP_ATTN_OUT_NORM, AXIS_TOKENS, OP_IN_LAYER, 0);
}

/* ---- MLP ------------------------------------------------------------------------------------- */

static void add_act(struct layered_rows *r, enum op_kind k, const struct mlp *p, double width)
{
    struct op *op = in_layer(r, k);
    op->line.token_flop = (p->gated ? 5 : 9) * width;
    op->line.token_elements = (p->gated ? 3 : 2) * width;
}

static void add_experts(struct layered_rows *r, const struct mlp *p)
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

static void add_mlp(struct layered_rows *r, const struct mlp *p)
{
    const int64_t dense = p->experts ? p->shared : p->intermediate;
    if (p->weights.n == 0 || r->repeat == 0)
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

static void add_ends(struct layered_rows *r)
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

static void add_residual(struct layered_rows *r)
{
    const double n = (double)r->s->lanes, h = hidden(r);
    struct op *op = in_layer(r, OP_ADD);
    op->line.token_flop = 2 * h;
    op->line.token_elements = 6 * h;
    if (n == 0)
        return;
    op->line.token_flop = 4 * n * h * (2 * n + (r->s->lanes_mix ? n * n : 0)) + 4 * n * h;
    op->line.token_elements = 2 * (3 * n + 2) * h;
}

void layered_ops(const struct structure *s, struct op_list *out)
{
    struct layered_rows r = {.s = s, .out = out, .repeat = 1};
    out->n = 0;
    (void)key_spans_of(s, &r.spans);
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
    add_residual(&r);
    add_ends(&r);
    op_list_number(out, s);
}
