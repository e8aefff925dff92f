#include <math.h>
#include <string.h>

#include "model/describe_layers.h"
#include "model/model.h"

/* One row per operator: its column stem, what its cost depends on, and where it stands. */
static const struct {
    const char *name;
    enum op_axis axis;
    enum op_where where;
} table[OP_KINDS] = {
    [OP_EMB] = {"emb", AXIS_TOKENS, OP_BEFORE_LAYERS},
    [OP_EMB_NORM] = {"emb_norm", AXIS_TOKENS, OP_BEFORE_LAYERS},
    [OP_INPUT_NORM] = {"input_layernorm", AXIS_TOKENS, OP_IN_LAYER},
    [OP_ATTN_PRE_PROJ] = {"attn_pre_proj", AXIS_TOKENS, OP_IN_LAYER},
    [OP_QK_NORM] = {"attn_qk_norm", AXIS_TOKENS, OP_IN_LAYER},
    [OP_ROPE] = {"attn_rope", AXIS_TOKENS, OP_IN_LAYER},
    [OP_KV_SAVE] = {"attn_kv_cache_save", AXIS_TOKENS, OP_IN_LAYER},
    [OP_INDEX_PREFILL] = {"attn_index_prefill", AXIS_PREFILL, OP_IN_LAYER},
    [OP_INDEX_DECODE] = {"attn_index_decode", AXIS_DECODE, OP_IN_LAYER},
    [OP_ATTN_PREFILL] = {"attn_prefill", AXIS_PREFILL, OP_IN_LAYER},
    [OP_ATTN_DECODE] = {"attn_decode", AXIS_DECODE, OP_IN_LAYER},
    [OP_STATE_PREFILL] = {"attn_state_prefill", AXIS_PREFILL, OP_IN_LAYER},
    [OP_STATE_DECODE] = {"attn_state_decode", AXIS_DECODE, OP_IN_LAYER},
    [OP_ATTN_POST_PROJ] = {"attn_post_proj", AXIS_TOKENS, OP_IN_LAYER},
    [OP_ATTN_OUT_NORM] = {"attn_output_layernorm", AXIS_TOKENS, OP_IN_LAYER},
    [OP_POST_ATTN_NORM] = {"post_attention_layernorm", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MLP_UP_PROJ] = {"mlp_up_proj", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MLP_ACT] = {"mlp_act", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MLP_DOWN_PROJ] = {"mlp_down_proj", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MOE_ROUTER] = {"moe_router", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MOE_UP_PROJ] = {"moe_up_proj", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MOE_ACT] = {"moe_act", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MOE_DOWN_PROJ] = {"moe_down_proj", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MOE_COMBINE] = {"moe_combine", AXIS_TOKENS, OP_IN_LAYER},
    [OP_MLP_OUT_NORM] = {"mlp_output_layernorm", AXIS_TOKENS, OP_IN_LAYER},
    [OP_ADD] = {"add", AXIS_TOKENS, OP_IN_LAYER},
    [OP_FINAL_NORM] = {"final_layernorm", AXIS_ROWS, OP_AFTER_LAYERS},
    [OP_LM_HEAD] = {"lm_head", AXIS_ROWS, OP_AFTER_LAYERS},
    [OP_SAMPLE] = {"sample", AXIS_ROWS, OP_AFTER_LAYERS},
    [OP_GAP] = {"gap", AXIS_TOKENS, OP_AFTER_LAYERS},
};

const char *op_name(enum op_kind k)
{
    ASSERT(k >= 0 && k < OP_KINDS);
    return table[k].name;
}

bool op_kind_from_name(struct sv name, enum op_kind *out)
{
    for (int k = 0; k < OP_KINDS; k++) {
        if (sv_eq(name, table[k].name)) {
            *out = (enum op_kind)k;
            return true;
        }
    }
    return false;
}

static int64_t q_width(const struct model *m)
{
    return m->heads * m->head_dim;
}

static int64_t kv_width(const struct model *m)
{
    return m->kv_heads * m->head_dim;
}

static int64_t norm_params(const struct model *m)
{
    return m->norm == NORM_LAYER ? 2 * m->hidden : m->hidden;
}

static void add_op(struct op_list *l, const struct model *m, enum op_kind k, int64_t params)
{
    l->ops[l->n++] = (struct op){.kind = k,
                                 .row = (int32_t)k,
                                 .axis = table[k].axis,
                                 .where = table[k].where,
                                 .repeat = table[k].where == OP_IN_LAYER ? (int32_t)m->layers : 1,
                                 .weight_params = params};
    stpcpy(l->ops[l->n - 1].name, table[k].name);
}

/* weight [rows, cols], and rows biases */
static void add_gemm(struct op_list *l, const struct model *m, enum op_kind k, int64_t rows,
                     int64_t cols, bool bias)
{
    add_op(l, m, k, rows * cols + (bias ? rows : 0));
    l->ops[l->n - 1].m = rows;
    l->ops[l->n - 1].k = cols;
    l->ops[l->n - 1].matrix_params = rows * cols;
}

bool op_is_expert(enum op_kind k)
{
    return k == OP_MOE_UP_PROJ || k == OP_MOE_ACT || k == OP_MOE_DOWN_PROJ;
}

double model_experts_hit(const struct model *m, double tokens)
{
    double all = (double)m->experts, missed = 1 - (double)m->experts_per_token / all;
    return all * (1 - pow(missed, tokens));
}

static void add_experts(struct op_list *l, const struct model *m, enum op_kind k, int64_t rows,
                        int64_t cols)
{
    add_gemm(l, m, k, rows, cols, false);
    l->ops[l->n - 1].experts = m->experts;
    l->ops[l->n - 1].weight_params *= m->experts;
}

static void add_mlp(struct op_list *l, const struct model *m)
{
    int64_t up = (m->act == ACT_SILU_GATED ? 2 : 1) * m->intermediate;
    if (m->experts == 0) {
        add_gemm(l, m, OP_MLP_UP_PROJ, up, m->hidden, m->mlp_bias);
        add_op(l, m, OP_MLP_ACT, 0);
        add_gemm(l, m, OP_MLP_DOWN_PROJ, m->hidden, m->intermediate, m->mlp_bias);
        return;
    }
    add_gemm(l, m, OP_MOE_ROUTER, m->experts, m->hidden, false);
    add_experts(l, m, OP_MOE_UP_PROJ, up, m->hidden);
    add_op(l, m, OP_MOE_ACT, 0);
    add_experts(l, m, OP_MOE_DOWN_PROJ, m->hidden, m->intermediate);
    add_op(l, m, OP_MOE_COMBINE, 0);
}

void model_ops(const struct model *m, struct op_list *out)
{
    if (m->layered) {
        layered_ops(m->structure, out);
        return;
    }
    out->n = 0;
    out->rows = OP_KINDS;
    add_op(out, m, OP_EMB, m->vocab * m->hidden);
    if (m->emb_norm)
        add_op(out, m, OP_EMB_NORM, norm_params(m));
    add_op(out, m, OP_INPUT_NORM, norm_params(m));
    add_gemm(out, m, OP_ATTN_PRE_PROJ, q_width(m) + 2 * kv_width(m), m->hidden,
             m->attn_bias || m->qkv_bias);
    if (m->qk_norm)
        add_op(out, m, OP_QK_NORM, 2 * m->head_dim);
    if (m->position == POSITION_ROPE)
        add_op(out, m, OP_ROPE, 0);
    add_op(out, m, OP_KV_SAVE, 0);
    add_op(out, m, OP_ATTN_PREFILL, 0);
    add_op(out, m, OP_ATTN_DECODE, 0);
    add_gemm(out, m, OP_ATTN_POST_PROJ, m->hidden, q_width(m), m->attn_bias);
    if (!m->parallel_block)
        add_op(out, m, OP_POST_ATTN_NORM, norm_params(m));
    add_mlp(out, m);
    add_op(out, m, OP_ADD, 0);
    add_op(out, m, OP_FINAL_NORM, norm_params(m));
    add_gemm(out, m, OP_LM_HEAD, m->vocab, m->hidden, m->head_bias);
    add_op(out, m, OP_SAMPLE, 0);
}

void op_list_add_gap(struct op_list *l)
{
    l->ops[l->n++] = (struct op){.kind = OP_GAP,
                                 .row = OP_GAP,
                                 .name = "gap",
                                 .axis = table[OP_GAP].axis,
                                 .where = table[OP_GAP].where,
                                 .repeat = 1};
}

static void add_step(struct op_steps *s, const struct op_list *l, int row)
{
    ASSERT(s->n <= OP_KINDS);
    s->kinds[s->n] = l->ops[row].kind;
    s->rows[s->n++] = l->ops[row].row;
}

static int row_of(const struct op_list *l, enum op_kind k)
{
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].kind == k)
            return i;
    err_bug("an operator that every model has", __FILE__, __LINE__);
}

/* Whether an operator of a layer is the attention's; the others are the MLP's. */
static bool is_of_attention(enum op_kind k)
{
    return k >= OP_INPUT_NORM && k <= OP_ATTN_OUT_NORM;
}

/* The steps of one part, and the addition of its output. */
static void add_part(struct op_steps *s, const struct op_list *l, bool attention, int32_t part)
{
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].where == OP_IN_LAYER && l->ops[i].kind != OP_ADD &&
            is_of_attention(l->ops[i].kind) == attention && l->ops[i].part == part)
            add_step(s, l, i);
    add_step(s, l, row_of(l, OP_ADD));
}

static int32_t find_pair(const struct model_steps *s, int32_t attention, int32_t mlp)
{
    for (int32_t i = 0; i < s->n_layers; i++)
        if (s->attentions[i] == attention && s->mlps[i] == mlp)
            return i;
    return s->n_layers;
}

void model_steps(const struct model *m, struct model_steps *out)
{
    struct op_list *l = mem_alloc(sizeof *l);
    *out = (struct model_steps){0};
    model_ops(m, l);
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].where != OP_IN_LAYER)
            add_step(l->ops[i].where == OP_BEFORE_LAYERS ? &out->before : &out->after, l, i);
    for (int64_t layer = 0; layer < m->layers; layer++) {
        const int32_t attention = model_attention_of(m, layer), mlp = model_mlp_of(m, layer);
        const int32_t at = find_pair(out, attention, mlp);
        if (at < out->n_layers)
            continue;
        ASSERT(at < LAYER_KINDS_MOST);
        out->attentions[at] = attention;
        out->mlps[at] = mlp;
        out->n_layers++;
        add_part(&out->layers[at], l, true, attention);
        add_part(&out->layers[at], l, false, mlp);
    }
    mem_free(l);
}

const struct op_steps *model_layer_steps(const struct model_steps *s, const struct model *m,
                                         int64_t layer)
{
    return &s->layers[find_pair(s, model_attention_of(m, layer), model_mlp_of(m, layer))];
}

/* ---- cost ------------------------------------------------------------------------------------
 *
 * T tokens, R rows, S decode sequences, H hidden, Q = heads * head_dim, K = kv_heads * head_dim, I
 * intermediate, V vocab. An add, a multiply, a division, an exp, a tanh and a comparison are one
 * FLOP each; a multiply-add is two. Bytes are element bytes b times the elements moved, when every
 * operator reads its inputs from memory and writes its outputs to it once; ids are 4 bytes each.
 *
 *   operator            FLOP of one repeat                       elements of one repeat
 *   emb                 0                                        2 T H, and 4 T bytes of ids
 *   norms (RMS)         4 T H: square, sum, scale, weight        2 T H + H
 *   norms (layer)       7 T H: and mean, subtract, bias          2 T H + 2 H
 *   GEMM [m, k]         2 T m k (+ T m with biases)              m k (+ m) + T k + T m
 *   attn_qk_norm        4 T (Q + K)                              2 T (Q + K) + 2 head_dim
 *   attn_rope           3 T (Q + K) r: x cos + rotated sin       2 T (Q + K) r; angles cached;
 *                       r = the part of a head that is rotated
 *   attn_kv_cache_save  0                                        4 T K
 *   attn_prefill        4 Q P, P = query-key pairs seen =        2 (T - S) Q + 2 K (keys read)
 *                       sum over chunks of c kv_before + c (c + 1) / 2
 *   attn_decode         4 Q (keys read)                          2 S Q + 2 K (keys read)
 *   mlp_act (gated)     5 T I: negate, exp, add, divide, gate    3 T I
 *   mlp_act (gelu)      9 T I                                    2 T I
 *   moe_router          as GEMM, and 4 T E: softmax, top k       as GEMM
 *   expert GEMM [m, k]  2 T X m k                                D m k + T X (k + m)
 *   moe_act             that of mlp_act for T X tokens           the same
 *   moe_combine         2 T X H                                  T X H + T H + T X
 *                       E experts, X per token, D hit (model_experts_hit)
 *   add                 2 T H                                    6 T H
 *   sample              R V                                      R V, and 4 R bytes of ids
 *
 * Softmax and ALiBi add a few operations per query-key pair and head to attention, against 4
 * head_dim of the two products; they are left out, as is usual. */

struct op_work {
    double flop, elements, id_bytes;
};

static struct op_work norm_work(const struct model *m, double rows)
{
    double n = rows * (double)m->hidden;
    return (struct op_work){(m->norm == NORM_LAYER ? 7 : 4) * n, 2 * n + (double)norm_params(m), 0};
}

static struct op_work gemm_work(const struct op *op, double rows)
{
    double m = (double)op->m, k = (double)op->k, params = (double)op->weight_params;
    bool bias = op->weight_params > op->m * op->k;
    return (struct op_work){2 * rows * m * k + (bias ? rows * m : 0), params + rows * (m + k), 0};
}

static struct op_work expert_work(const struct model *m, const struct op *op, double tokens)
{
    double rows = tokens * (double)m->experts_per_token;
    double a = (double)op->m, b = (double)op->k;
    return (struct op_work){2 * rows * a * b, model_experts_hit(m, tokens) * a * b + rows * (a + b),
                            0};
}

/* Elements of weight matrices that one repeat reads. */
static double weights_read(const struct model *m, const struct op *op, const struct op_load *load)
{
    double one = (double)op->matrix_params;
    return op->experts ? model_experts_hit(m, (double)load->tokens) * one : one;
}

/* Sums over the spans of a row. */
static struct span_load keys_of(const struct op *op, const struct op_load *l)
{
    struct span_load sum = {0};
    if (op->line.spans & UINT32_C(1) << SPAN_ALL)
        sum =
            (struct span_load){l->kv_tokens, l->kv_tokens_prefill + l->chunk_sq, l->kv_read_tokens};
    ASSERT(op->line.spans >> 1 >> l->n_spans == 0); /* else the load says nothing of them */
    for (int32_t i = 0; i < l->n_spans; i++) {
        if (!(op->line.spans & UINT32_C(2) << i))
            continue;
        sum.kv_tokens += l->spans[i].kv_tokens;
        sum.pairs += l->spans[i].pairs;
        sum.keys += l->spans[i].keys;
    }
    return sum;
}

/* What a row with a line of its own is multiplied by: tokens or rows, pairs and keys of attention,
 * states read and written. */
struct counts {
    double n, pairs, keys, states;
};

static struct counts counts_of(const struct op *op, const struct op_load *l)
{
    const struct span_load all = keys_of(op, l);
    switch (op->axis) {
    case AXIS_PREFILL:
        return (struct counts){(double)(l->tokens - l->seqs), (double)all.pairs, (double)all.keys,
                               2 * (double)l->chunks};
    case AXIS_DECODE:
        return (struct counts){(double)l->seqs, (double)all.kv_tokens, (double)all.kv_tokens,
                               2 * (double)l->seqs};
    case AXIS_ROWS:
        return (struct counts){(double)l->rows, 0, 0, 0};
    case AXIS_TOKENS:
        break;
    }
    return (struct counts){(double)l->tokens, 0, 0, 0};
}

static struct op_work line_work(const struct model *m, const struct op *op, const struct op_load *l)
{
    const struct op_line *x = &op->line;
    const struct counts c = counts_of(op, l);
    struct op_work w = {x->token_flop * c.n + x->pair_flop * c.pairs,
                        (x->token_elements + x->query_elements) * c.n + x->key_elements * c.keys +
                            x->state_elements * c.states,
                        0};
    if (op->axis == AXIS_PREFILL)
        w.flop += x->key_flop * (c.keys - c.n);
    if (op->axis == AXIS_PREFILL || op->axis == AXIS_DECODE)
        return w;
    w.elements += weights_read(m, op, l) + x->fixed_elements + x->key_elements * c.n;
    w.id_bytes = op->kind == OP_EMB || op->kind == OP_SAMPLE ? 4 * c.n : 0;
    return w;
}

/* In formats of their own. */
static double own_bytes(const struct op *op, const struct op_load *l)
{
    const struct op_line *x = &op->line;
    if (!x->set)
        return 0;
    const struct counts c = counts_of(op, l);
    return x->token_bytes * c.n + x->pair_bytes * c.pairs + x->key_bytes * c.keys +
           x->state_bytes * c.states;
}

static struct op_work op_work(const struct model *m, const struct op *op,
                              const struct op_load *load)
{
    if (op->line.set)
        return line_work(m, op, load);
    double t = (double)load->tokens, r = (double)load->rows, s = (double)load->seqs;
    double h = (double)m->hidden, i = (double)m->intermediate, v = (double)m->vocab;
    double q = (double)q_width(m), k = (double)kv_width(m);
    double pairs_x = t * (double)m->experts_per_token; /* tokens times experts */
    double pairs = (double)load->kv_tokens_prefill + (double)load->chunk_sq, rotated;
    switch (op->kind) {
    case OP_EMB:
        return (struct op_work){0, 2 * t * h, 4 * t};
    case OP_EMB_NORM:
    case OP_INPUT_NORM:
    case OP_POST_ATTN_NORM:
    case OP_ATTN_OUT_NORM:
    case OP_MLP_OUT_NORM:
        return norm_work(m, t);
    case OP_FINAL_NORM:
        return norm_work(m, r);
    case OP_ATTN_PRE_PROJ:
    case OP_ATTN_POST_PROJ:
    case OP_MLP_UP_PROJ:
    case OP_MLP_DOWN_PROJ:
        return gemm_work(op, t);
    case OP_LM_HEAD:
        return gemm_work(op, r);
    case OP_QK_NORM:
        return (struct op_work){4 * t * (q + k), 2 * t * (q + k) + (double)op->weight_params, 0};
    case OP_ROPE:
        rotated = m->rotary_dim ? (double)m->rotary_dim / (double)m->head_dim : 1;
        return (struct op_work){3 * t * (q + k) * rotated, 2 * t * (q + k) * rotated, 0};
    case OP_KV_SAVE:
        return (struct op_work){0, 4 * t * k, 0};
    case OP_ATTN_PREFILL:
        return (struct op_work){4 * q * pairs,
                                2 * (t - s) * q + 2 * k * (double)load->kv_read_tokens, 0};
    case OP_ATTN_DECODE:
        return (struct op_work){4 * q * (double)load->kv_tokens,
                                2 * s * q + 2 * k * (double)load->kv_tokens, 0};
    case OP_MLP_ACT:
        return m->act == ACT_SILU_GATED ? (struct op_work){5 * t * i, 3 * t * i, 0}
                                        : (struct op_work){9 * t * i, 2 * t * i, 0};
    case OP_MOE_ROUTER:
        return (struct op_work){gemm_work(op, t).flop + 4 * t * (double)m->experts,
                                gemm_work(op, t).elements, 0};
    case OP_MOE_UP_PROJ:
    case OP_MOE_DOWN_PROJ:
        return expert_work(m, op, t);
    case OP_MOE_COMBINE:
        return (struct op_work){2 * pairs_x * h, (pairs_x + t) * h + pairs_x, 0};
    case OP_MOE_ACT:
        t = pairs_x;
        return m->act == ACT_SILU_GATED ? (struct op_work){5 * t * i, 3 * t * i, 0}
                                        : (struct op_work){9 * t * i, 2 * t * i, 0};
    case OP_ADD:
        return (struct op_work){2 * t * h, 6 * t * h, 0};
    case OP_SAMPLE:
        return (struct op_work){r * v, r * v, 4 * r};
    case OP_GAP:
    case OP_INDEX_PREFILL: /* only in lists whose rows have lines */
    case OP_INDEX_DECODE:
    case OP_STATE_PREFILL:
    case OP_STATE_DECODE:
        return (struct op_work){0};
    case OP_KINDS:
        break;
    }
    err_bug("operator kind", __FILE__, __LINE__);
}

/* Tokens or rows that the operator processes; 0 = it does not run in this batch. */
static int64_t active(const struct op *op, const struct op_load *load)
{
    switch (op->axis) {
    case AXIS_ROWS:
        return load->rows;
    case AXIS_DECODE:
        return load->seqs;
    case AXIS_PREFILL:
        return load->chunk_sq;
    case AXIS_TOKENS:
        return load->tokens;
    }
    return 0;
}

struct op_cost op_cost(const struct model *m, const struct op *op, const struct op_load *load,
                       int element_bytes)
{
    if (active(op, load) == 0)
        return (struct op_cost){0};
    struct op_work w = op_work(m, op, load);
    double repeat = (double)op->repeat;
    return (struct op_cost){
        repeat * w.flop, repeat * (w.elements * element_bytes + w.id_bytes + own_bytes(op, load))};
}

/* Elements of keys and values that one repeat reads or saves. */
static double kv_moved(const struct model *m, const struct op *op, const struct op_load *load)
{
    double one = op->line.set ? op->line.key_elements : 2 * (double)kv_width(m);
    if (op->kind == OP_KV_SAVE)
        return one * (double)load->tokens;
    if (op->line.set && op->line.spans) {
        const struct span_load all = keys_of(op, load);
        return one * (double)(op->axis == AXIS_PREFILL ? all.keys : all.kv_tokens);
    }
    if (op->kind == OP_ATTN_PREFILL)
        return one * (double)load->kv_read_tokens;
    return op->kind == OP_ATTN_DECODE ? one * (double)load->kv_tokens : 0;
}

struct op_traffic op_traffic(const struct model *m, const struct op *op, const struct op_load *load)
{
    if (active(op, load) == 0)
        return (struct op_traffic){0};
    struct op_work w = op_work(m, op, load);
    double repeat = (double)op->repeat;
    double weights = weights_read(m, op, load), kv = kv_moved(m, op, load);
    return (struct op_traffic){.flop = repeat * w.flop,
                               .weights = repeat * weights,
                               .kv = repeat * kv,
                               .others = repeat * (w.elements - weights - kv),
                               .id_bytes = repeat * w.id_bytes,
                               .own_bytes = repeat * own_bytes(op, load)};
}

/* Squares of absurd prompts, a billion tokens and more, end at the largest number. */
static void add_up_to_most(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = INT64_MAX;
}

void op_load_add_chunk(struct op_load *load, const struct key_spans *spans, int64_t before,
                       int64_t tokens)
{
    add_up_to_most(&load->kv_tokens_prefill, tokens * before);
    add_up_to_most(&load->chunk_sq, tokens * (tokens + 1) / 2);
    load->kv_read_tokens += before + tokens;
    load->chunks++;
    load->longest_chunk = tokens > load->longest_chunk ? tokens : load->longest_chunk;
    if (!spans || spans->n == 0)
        return;
    load->n_spans = spans->n;
    for (int32_t i = 0; i < spans->n; i++) {
        const struct span_chunk c = span_chunk(&spans->of[i], before, tokens);
        add_up_to_most(&load->spans[i].pairs, c.pairs);
        load->spans[i].keys += c.keys;
    }
}

void op_load_add_keys(struct op_load *load, const struct key_spans *spans, int64_t tokens)
{
    load->kv_tokens += tokens;
    load->n_spans = spans ? spans->n : 0;
    for (int32_t i = 0; i < load->n_spans; i++)
        load->spans[i].kv_tokens += span_seen(&spans->of[i], tokens);
}

struct key_spans model_spans(const struct model *m)
{
    struct key_spans out = {0};
    if (m->layered)
        (void)key_spans_of(m->structure,
                           &out); /* more than there is room for: model_check_modelled */
    return out;
}

/* GEMMs of the layers but the router: quantised where the model's are. */
static bool is_layer_gemm(enum op_kind k)
{
    return k == OP_ATTN_PRE_PROJ || k == OP_ATTN_POST_PROJ || k == OP_MLP_UP_PROJ ||
           k == OP_MLP_DOWN_PROJ || k == OP_MOE_UP_PROJ || k == OP_MOE_DOWN_PROJ;
}

double op_weight_bytes(const struct model *m, enum op_kind k)
{
    if (m->op_formats && m->op_formats[k].bytes > 0)
        return m->op_formats[k].bytes;
    return is_layer_gemm(k) ? precision_bytes(m->weights) + m->scale_bytes
                            : precision_bytes(m->dtype);
}

enum precision op_multiply(const struct model *m, enum op_kind k)
{
    if (m->op_formats && m->op_formats[k].bytes > 0)
        return m->op_formats[k].multiply;
    return is_layer_gemm(k) ? m->multiply : m->dtype;
}

int64_t model_params(const struct model *m)
{
    if (m->layered)
        return structure_params(m->structure);
    struct op_list l;
    int64_t sum = 0;
    model_ops(m, &l);
    for (int i = 0; i < l.n; i++)
        sum += l.ops[i].repeat * l.ops[i].weight_params;
    return sum - (m->tied ? m->vocab * m->hidden : 0);
}

int64_t model_kv_bytes_per_token(const struct model *m, int element_bytes)
{
    if (m->layered)
        return (int64_t)layer_bytes_of(m->structure, element_bytes, 0).token;
    return 2 * m->layers * kv_width(m) * element_bytes;
}

int64_t model_kv_bytes_held(const struct model *m, int element_bytes)
{
    int64_t sum = 0;
    if (!m->layered)
        return model_kv_bytes_per_token(m, element_bytes);
    for (int64_t i = 0; i < m->layers; i++) {
        const struct attention *t = &m->structure->attention[m->structure->attention_of[i]];
        for (int32_t k = 0; k < t->n_caches; k++)
            sum += (int64_t)cache_entry_bytes(&t->caches[k], element_bytes) / t->caches[k].ratio;
    }
    return sum > 0 ? sum : element_bytes;
}

double model_kv_bytes(const struct model *m)
{
    if (m->layered)
        return layer_bytes_of(m->structure, precision_bytes(m->kv), 0).token;
    return 2 * (double)(m->layers * kv_width(m)) * precision_bytes(m->kv);
}
