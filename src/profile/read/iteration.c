#include "profile/read/iteration.h"

#include <math.h>

#include "model/shard.h"
#include "model/state_ops.h"

/* ---- shape ----------------------------------------------------------------------------------- */

/* Fixed part and slope of a quantity that is linear in the load: from the loads 1 and 2. */
struct load_line {
    double fixed, slope;
};

static struct load_line line_of(double one, double two)
{
    return (struct load_line){2 * one - two, two - one};
}

struct shaping {
    const struct model *m; /* one shard */
    const struct iteration_hardware *hw;
    struct iteration_work *s;
    double dtype_bytes;
};

static double moved_s(const struct shaping *x, double bytes)
{
    return bytes / x->hw->dram_bytes_per_s;
}

static double other_bytes(const struct shaping *x, const struct op_traffic *t)
{
    return t->others * x->dtype_bytes + t->id_bytes + t->own_bytes;
}

/* Of the two 16-bit formats hardware may have one alone, and engines take that. */
static double peak_of(const struct iteration_hardware *hw, enum precision p)
{
    double other = p == PRECISION_BF16   ? hw->flop_per_s[PRECISION_FP16]
                   : p == PRECISION_FP16 ? hw->flop_per_s[PRECISION_BF16]
                                         : 0;
    return hw->flop_per_s[p] > 0 ? hw->flop_per_s[p] : other;
}

static void add_attention(const struct shaping *x, const struct op *op)
{
    bool decode = op->axis == AXIS_DECODE;
    const struct op_load one = {.tokens = 1,
                                .seqs = decode,
                                .kv_tokens = decode,
                                .chunk_sq = !decode,
                                .kv_read_tokens = !decode};
    const struct op_traffic t = op_traffic(x->m, op, &one);
    double kv = moved_s(x, t.kv * precision_bytes(x->m->kv));
    double pair = t.flop / peak_of(x->hw, x->m->dtype), row = moved_s(x, other_bytes(x, &t));
    if (decode) {
        x->s->decode_kv_token_s += kv;
        x->s->decode_pair_s += pair;
        x->s->decode_row_s += row;
    } else {
        x->s->prefill_kv_token_s += kv;
        x->s->prefill_pair_s += pair;
        x->s->prefill_token_s += row;
    }
}

/* Of prompts: compute of a state as its kernels reach it, in the seconds that attention's
 * efficiency divides. */
static double add_pieces(const struct shaping *x, const struct op *op, double flop_s)
{
    const struct sequence_state *state = &x->m->structure->attention[op->part].state;
    const struct state_kernel k = state_kernel_of(state);
    const double attention = iteration_defaults(x->m->multiply).v[ITERATION_ATTENTION_EFFICIENCY];
    if (!(k.efficiency > 0))
        return flop_s;
    x->s->state_piece_token_s += op->repeat * k.piece_s / (double)state->chunk * attention;
    return flop_s / k.efficiency * attention;
}

/* The same of a row with a line of its own. Scores of an index in fp8 are multiplied in that, where
 * the hardware has it. */
static void add_keyed(const struct shaping *x, const struct op *op)
{
    const struct op_line *l = &op->line;
    const bool decode = op->axis == AXIS_DECODE;
    const double times = (double)op->repeat, own_peak = peak_of(x->hw, x->m->dtype);
    const double fp8_peak = peak_of(x->hw, PRECISION_FP8);
    const double peak = l->key_bytes > 0 && fp8_peak > 0 ? fp8_peak : own_peak;
    const double kv =
        moved_s(x, times * (l->key_elements * precision_bytes(x->m->kv) + l->key_bytes));
    const double pair = times * l->pair_flop / peak, score = moved_s(x, times * l->pair_bytes);
    struct iteration_work *s = x->s;
    const double queries =
        moved_s(x, times * (l->query_elements + l->token_elements) * x->dtype_bytes);
    double flop = times * l->token_flop / own_peak;
    if (op->kind == OP_STATE_PREFILL)
        flop = add_pieces(x, op, flop);
    *(decode ? &s->decode_row_s : &s->prefill_token_s) += queries;
    *(decode ? &s->state_decode_token_s : &s->state_prompt_token_s) += flop;
    if (decode) /* as much for a chunk of a prompt */
        s->state_s += moved_s(x, times * (l->state_elements * x->dtype_bytes + l->state_bytes));
    if (!decode)
        s->prefill_key_s +=
            times * l->key_flop / peak_of(x->hw, op_multiply(x->m, OP_ATTN_PRE_PROJ));
    if (l->spans & UINT32_C(1) << SPAN_ALL) {
        *(decode ? &s->decode_kv_token_s : &s->prefill_kv_token_s) += kv;
        *(decode ? &s->decode_pair_s : &s->prefill_pair_s) += pair;
        s->score_s += decode ? score : 0; /* of a prompt's pair the same */
    }
    for (int32_t i = 0; i < s->n_spans; i++) {
        struct iteration_span *y = &s->spans[i];
        if (!(l->spans & UINT32_C(2) << i))
            continue;
        *(decode ? &y->decode_kv_s : &y->prefill_kv_s) += kv;
        *(decode ? &y->decode_pair_s : &y->prefill_pair_s) += pair;
        y->score_s += decode ? score : 0;
    }
}

static void add_gemm(const struct shaping *x, const struct op *op, const struct op_traffic *one,
                     struct load_line flop)
{
    struct iteration_work *s = x->s;
    double weights = one->weights * op_weight_bytes(x->m, op->kind);
    double compute = flop.slope / peak_of(x->hw, op_multiply(x->m, op->kind));
    if (op_is_expert(op->kind)) { /* one token hits experts_per_token of them */
        s->expert_weights_s += moved_s(x, weights) / (double)x->m->experts_per_token;
        s->expert_token_s += compute;
    } else if (op->where == OP_AFTER_LAYERS) {
        s->head_weights_s += moved_s(x, weights);
        s->head_row_s += compute;
    } else {
        s->gemm_weights_s += moved_s(x, weights);
        s->gemm_token_s += compute;
    }
}

static void add_op(const struct shaping *x, const struct op *op)
{
    struct iteration_work *s = x->s;
    if (op->axis == AXIS_PREFILL || op->axis == AXIS_DECODE) {
        (op->line.set ? add_keyed : add_attention)(x, op);
        return;
    }
    const struct op_load loads[2] = {{.tokens = 1, .rows = 1}, {.tokens = 2, .rows = 2}};
    const struct op_traffic one = op_traffic(x->m, op, &loads[0]);
    const struct op_traffic two = op_traffic(x->m, op, &loads[1]);
    struct load_line bytes = line_of(other_bytes(x, &one), other_bytes(x, &two));
    double kv = (two.kv - one.kv) * precision_bytes(x->m->kv); /* KV save */
    double fixed_s = moved_s(x, bytes.fixed), slope_s = moved_s(x, bytes.slope + kv);
    if (op->m > 0) {
        add_gemm(x, op, &one, line_of(one.flop, two.flop));
        return;
    }
    if (op->where == OP_BEFORE_LAYERS)
        s->first_token_s += slope_s;
    else if (op->where == OP_AFTER_LAYERS)
        s->last_row_s += slope_s;
    else if (op_is_expert(op->kind))
        s->layer_expert_token_s += slope_s;
    else
        s->layer_token_s += slope_s;
    if (op->where == OP_IN_LAYER)
        s->layer_fixed_s += fixed_s;
}

/* Of the layers of the work, of which expert_layers is known. */
static void add_network(const struct iteration_shape *s, double all_reduces,
                        struct iteration_work *w)
{
    const struct model *m = s->model;
    const double activation = (double)m->hidden * precision_bytes(m->dtype), n = (double)s->tp;
    const double per_byte = s->links.reduce_s;
    if (s->tp > 1) {
        w->layer_collectives = all_reduces;
        w->layer_link_token_s = w->layer_collectives * activation * 2 * (n - 1) / n * per_byte;
        w->head_collectives = 1;
        w->head_link_row_s = (double)m->vocab * precision_bytes(m->dtype) * (n - 1) / n * per_byte;
    }
    if (s->groups > 1) {
        w->all_to_alls = 2 * w->expert_layers;
        w->all_to_all_pair_s = w->all_to_alls * activation * s->links.exchange_s;
    }
}

static enum st need(double peak, const char *key, const char *what, struct err *e)
{
    if (peak > 0)
        return ST_OK;
    err_set(e, ST_USAGE, "%s: %s of this hardware is unknown", key, what);
    return err_hint(e, "%s= sets it; hardware= takes a group that has it", key);
}

static enum st need_flop(const struct iteration_hardware *hw, enum precision p, struct err *e)
{
    char key[64];
    snprintf(key, sizeof key, "hardware.peak_tflops.%s", precision_name(p));
    if (peak_of(hw, p) > 0)
        return ST_OK;
    err_set(e, ST_USAGE, "%s: the arithmetic peak in that format of this hardware is unknown", key);
    return err_hint(e,
                    "%s= sets it; a GPU without such units has the peak of the format that servers "
                    "multiply in there, bf16 for fp8 and fp4; hardware= takes a group that has it",
                    key);
}

static void add_ops(const struct iteration_hardware *hw, const struct model *shard,
                    const struct op_list *ops, struct iteration_work *out)
{
    const struct shaping x = {
        .m = shard, .hw = hw, .s = out, .dtype_bytes = precision_bytes(shard->dtype)};
    out->n_spans = model_spans(shard).n;
    for (int i = 0; i < ops->n; i++)
        add_op(&x, &ops->ops[i]);
}

/* Layers that differ: each stage has its own. */
static void add_stages(struct arena *a, const struct iteration_hardware *hw,
                       const struct model *shard, struct iteration_shape *s)
{
    const struct model *m = s->model;
    s->by_stage = arena_array(a, struct iteration_work, s->stages);
    for (int64_t i = 0; i < s->stages; i++) {
        struct op_list ops;
        shard_stage_ops(m, s->tp, s->stages, i, &ops);
        add_ops(hw, shard, &ops, &s->by_stage[i]);
        s->by_stage[i].expert_layers = (double)shard_stage_expert_layers(m, s->stages, i);
        add_network(s, (double)shard_stage_all_reduces(m, s->stages, i), &s->by_stage[i]);
    }
}

enum st iteration_shape(struct arena *a, const struct model *m, const struct iteration_hardware *hw,
                        const struct iteration_degrees *d, struct iteration_shape *out,
                        struct err *e)
{
    *out = (struct iteration_shape){
        .stages = d->pp,
        .groups = shard_groups(d->tp, d->ep),
        .tp = d->tp,
        .host_speed = hw->host_speed > 0 ? hw->host_speed : 1,
        .launching = d->launching,
        .model = m,
    };
    TRY(shard_check(m, d->tp, d->pp, d->ep, e));
    TRY(need(hw->dram_bytes_per_s, "hardware.dram_gb_per_s", "the memory bandwidth", e));
    TRY(need_flop(hw, m->multiply, e));
    TRY(need_flop(hw, m->dtype, e));
    TRY(links_of(&hw->links, d->tp, d->pp, out->groups, &out->links, e));
    const struct model shard = shard_model(m, d->tp);
    out->experts = (double)m->experts;
    out->experts_per_token = (double)m->experts_per_token;
    out->skewed = m->experts > 0 && d->expert_skew > 0;
    if (out->groups > 1 || out->skewed)
        expert_load_make(m, out->groups > 1 ? d->ep : 1, d->expert_skew, &out->load);
    if (d->pp > 1)
        out->send_token_bytes = (double)m->hidden * precision_bytes(m->dtype) / (double)d->tp;
    if (m->layered) {
        add_stages(a, hw, &shard, out);
        return ST_OK;
    }
    struct op_list ops;
    shard_ops(m, d->tp, &ops);
    add_ops(hw, &shard, &ops, &out->work);
    out->work.expert_layers = m->experts > 0 ? (double)m->layers : 0;
    add_network(out, (double)shard_all_reduces(m), &out->work);
    return ST_OK;
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* Experts hit in the mean, as model_experts_hit. */
static double experts_hit(const struct iteration_shape *s, double tokens)
{
    return s->experts * (1 - pow(1 - s->experts_per_token / s->experts, tokens));
}

static int64_t share(int64_t n, int64_t groups)
{
    return (n + groups - 1) / groups;
}

static int64_t scaled(int64_t n, double part)
{
    return part < 1 ? (int64_t)((double)n * part) : n;
}

static void part_of_spans(const struct op_load *l, double prompts, double decodes,
                          struct op_load *out)
{
    out->n_spans = l->n_spans;
    for (int32_t i = 0; i < l->n_spans; i++)
        out->spans[i] = (struct span_load){
            .kv_tokens = (int64_t)ceil((double)l->spans[i].kv_tokens * decodes),
            .pairs = scaled(l->spans[i].pairs, prompts),
            .keys = scaled(l->spans[i].keys, prompts),
        };
}

/* What a group of many does where a part of the prompts and so many of the decode rows are its. */
static struct op_load part_of(const struct op_load *l, double prompts, int64_t seqs,
                              int64_t queries)
{
    const int64_t rows = l->seqs * queries, own = seqs * queries;
    const double decodes = l->seqs > 0 ? (double)seqs / (double)l->seqs : 0;
    struct op_load out = {
        .tokens = own + (int64_t)ceil((double)(l->tokens - rows) * prompts),
        .rows = own + (int64_t)ceil((double)(l->rows - rows) * prompts),
        .seqs = seqs,
        .kv_tokens = (int64_t)ceil((double)l->kv_tokens * decodes),
        .kv_tokens_prefill = scaled(l->kv_tokens_prefill, prompts),
        .chunk_sq = scaled(l->chunk_sq, prompts),
        .kv_read_tokens = scaled(l->kv_read_tokens, prompts),
        .chunks = (int64_t)ceil((double)l->chunks * prompts),
        .longest_chunk = l->longest_chunk,
    };
    part_of_spans(l, prompts, decodes, &out);
    return out;
}

/* Of the group that has most to do, where a batch does not say. */
static struct op_load even_part(const struct iteration_shape *s, const struct iteration_batch *b,
                                int64_t queries)
{
    const struct op_load *l = &b->load;
    const int64_t g = s->groups;
    if (b->chunks == 0)
        return part_of(l, 1 / (double)g, share(l->seqs, g), queries);
    const int64_t chunks = share(b->chunks, g), seqs = share(b->chunks + l->seqs, g) - chunks;
    return part_of(l, (double)chunks / (double)b->chunks, seqs < l->seqs ? seqs : l->seqs, queries);
}

/* What queries see of fewer keys than all, and states. */
static void add_layered(const struct iteration_work *w, const struct op_load *own, double queries,
                        struct iteration_terms *out)
{
    const double seqs = (double)own->seqs, prompt = (double)own->tokens - seqs * queries;
    out->activations += w->score_s * ((double)own->kv_tokens * queries +
                                      (double)(own->kv_tokens_prefill + own->chunk_sq));
    ASSERT(own->n_spans >= w->n_spans); /* else the load says nothing of them */
    for (int32_t i = 0; i < w->n_spans; i++) {
        const struct iteration_span *x = &w->spans[i];
        const struct span_load *l = &own->spans[i];
        const double kv = (double)l->kv_tokens, pairs = (double)l->pairs;
        out->decode_kv += x->decode_kv_s * kv;
        out->decode_compute += x->decode_pair_s * kv * queries;
        out->prefill_kv += x->prefill_kv_s * (double)l->keys;
        out->prefill_compute += x->prefill_pair_s * pairs;
        out->activations += x->score_s * (kv * queries + pairs);
    }
    /* drafts leave a state behind each of them: one may be the last that is accepted */
    out->decode_kv += w->state_s * seqs * (1 + queries);
    out->decode_compute += w->state_decode_token_s * seqs * queries;
    out->prefill_kv += w->state_s * 2 * (double)own->chunks;
    out->prefill_compute +=
        fmax(w->state_prompt_token_s * prompt, w->state_piece_token_s * (double)own->longest_chunk);
}

/* Layers of a stage that the host launches piece by piece, or kernel by kernel. */
static void add_launch(enum launch how, struct iteration_terms *out)
{
    switch (how) {
    case LAUNCH_PIECES:
        out->piece_layers = out->layers;
        break;
    case LAUNCH_KERNELS:
        out->kernel_layers = out->layers;
        out->kernel_experts = out->expert_layers;
        break;
    case LAUNCH_UNTOLD:
    case LAUNCH_GRAPH:
        break;
    }
}

void iteration_terms(const struct iteration_shape *s, const struct iteration_batch *b,
                     int64_t stage, struct iteration_terms *out)
{
    const int64_t queries = b->queries > 0 ? b->queries : 1;
    const struct op_load *l = &b->load, *own = s->groups == 1 ? l : b->group;
    struct op_load even;
    if (!own) {
        even = even_part(s, b, queries);
        own = &even;
    }
    const bool first = stage == 0, last = stage == s->stages - 1;
    const double layers = (double)shard_stage_layers(s->model, s->stages, stage);
    const struct iteration_work *w = s->by_stage ? &s->by_stage[stage] : &s->work;
    const double part = s->by_stage ? 1 : layers / (double)s->model->layers;
    const bool decodes = l->tokens <= l->seqs * queries;
    const int64_t padded = launching_padded(&s->launching, own->tokens, decodes);
    const double padding = (double)(padded - own->tokens), tokens = (double)padded;
    const double all = (double)l->tokens + padding * (double)s->groups, rows = (double)own->rows;
    const double seqs = (double)own->seqs, q = (double)queries, kv = (double)own->kv_tokens;
    const double prompt = (double)own->tokens - seqs * q; /* tokens of chunks */
    const double pairs = (double)(own->kv_tokens_prefill + own->chunk_sq);
    *out = (struct iteration_terms){.layers = layers, .expert_layers = w->expert_layers * part};
    if (l->tokens <= 0)
        return;
    add_launch(launching_of(&s->launching, own->tokens, decodes), out);
    out->gemm_weights = w->gemm_weights_s * part;
    out->gemm_compute = w->gemm_token_s * tokens * part;
    double pairs_sent = 0;
    if (s->experts > 0) {
        struct expert_pairs x = {all * s->experts_per_token, experts_hit(s, all)};
        double whole = 1; /* shards of an expert on a device */
        if (s->groups > 1) {
            x = expert_load_at(&s->load, all);
            whole = (double)s->tp;
            pairs_sent = fmax(x.pairs, tokens * s->experts_per_token / whole);
        } else if (s->skewed) {
            x.hit = expert_load_at(&s->load, all).hit;
        }
        double token = x.pairs / s->experts_per_token * whole * part;
        out->expert_weights = w->expert_weights_s * x.hit * whole * part;
        out->expert_compute = w->expert_token_s * token;
        out->activations = w->layer_expert_token_s * token;
    }
    out->row_layers = seqs * layers;
    out->decode_kv = w->decode_kv_token_s * kv * part;
    out->decode_compute = w->decode_pair_s * kv * q * part;
    out->prefill_kv = w->prefill_kv_token_s * (double)own->kv_read_tokens * part;
    out->prefill_compute =
        (w->prefill_pair_s * pairs + w->prefill_key_s * ((double)own->kv_read_tokens - prompt)) *
        part;
    out->activations += (w->layer_fixed_s + w->layer_token_s * tokens + w->decode_row_s * seqs * q +
                         w->prefill_token_s * prompt) *
                        part;
    if (s->by_stage)
        add_layered(w, own, q, out);
    out->collectives = (w->layer_collectives + w->all_to_alls) * part + (last ? 0 : s->stages > 1);
    out->link = (w->layer_link_token_s * tokens + w->all_to_all_pair_s * pairs_sent) * part +
                (last ? 0 : s->send_token_bytes * links_send_s(&s->links, stage) * tokens);
    if (first) {
        out->activations += w->first_token_s * tokens;
        out->iterations = 1;
        out->sequences = (double)(l->seqs + b->chunks);
        out->chunks = (double)b->chunks;
        out->tokens = (double)l->tokens;
        out->answers = s->launching.mode != LAUNCHING_UNTOLD;
    }
    if (last && l->rows > 0) {
        out->head_weights = w->head_weights_s;
        out->head_compute = w->head_row_s * rows;
        out->activations += w->last_row_s * rows;
        out->collectives += w->head_collectives;
        out->link += w->head_link_row_s * rows;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* L(a / ea, b / eb), and its derivatives by ea and eb added to those of the two parameters. */
static double larger(const struct iteration_params *p, double a, enum iteration_param pa, double b,
                     enum iteration_param pb, double *gradient)
{
    double x = a / p->v[pa], y = b / p->v[pb];
    double x2 = x * x, y2 = y * y, t = sqrt(sqrt(x2 * x2 + y2 * y2));
    if (gradient && t > 0) {
        double cube = t * t * t;
        gradient[pa] -= x2 * x2 / cube / p->v[pa];
        gradient[pb] -= y2 * y2 / cube / p->v[pb];
    }
    return t;
}

static double over(const struct iteration_params *p, double a, enum iteration_param pa,
                   double *gradient)
{
    double x = a / p->v[pa];
    if (gradient)
        gradient[pa] -= x / p->v[pa];
    return x;
}

static double times(const struct iteration_params *p, double n, enum iteration_param pn,
                    double *gradient)
{
    if (gradient)
        gradient[pn] += n;
    return n * p->v[pn];
}

struct iteration_time iteration_time(const struct iteration_params *p,
                                     const struct iteration_terms *t, double *g)
{
    struct iteration_time s = {.answer_s = p->v[ITERATION_ANSWER_S] * t->answers};
    for (int i = 0; g && i < ITERATION_PARAMS; i++)
        g[i] = 0;
    s.launch_s = times(p, t->piece_layers, ITERATION_PIECE_LAYER_S, g) +
                 times(p, t->kernel_layers, ITERATION_KERNEL_LAYER_S, g) +
                 times(p, t->kernel_experts, ITERATION_KERNEL_EXPERTS_S, g);
    if (t->kernel_layers > 0)
        s.cold_s = s.launch_s * p->v[ITERATION_COLD_LAUNCH];
    s.host_s = times(p, t->iterations, ITERATION_ITERATION_S, g) +
               times(p, t->sequences, ITERATION_SEQUENCE_S, g) +
               times(p, t->chunks, ITERATION_CHUNK_S, g) +
               times(p, t->tokens, ITERATION_TOKEN_S, g) + s.launch_s;
    s.device_s = larger(p, t->gemm_weights, ITERATION_WEIGHTS_EFFICIENCY, t->gemm_compute,
                        ITERATION_COMPUTE_EFFICIENCY, g) +
                 larger(p, t->expert_weights, ITERATION_EXPERTS_WEIGHTS_EFFICIENCY,
                        t->expert_compute, ITERATION_EXPERTS_EFFICIENCY, g) +
                 larger(p, t->head_weights, ITERATION_WEIGHTS_EFFICIENCY, t->head_compute,
                        ITERATION_COMPUTE_EFFICIENCY, g) +
                 larger(p, t->decode_kv, ITERATION_KV_EFFICIENCY, t->decode_compute,
                        ITERATION_ATTENTION_EFFICIENCY, g) +
                 larger(p, t->prefill_kv, ITERATION_KV_EFFICIENCY, t->prefill_compute,
                        ITERATION_ATTENTION_EFFICIENCY, g) +
                 over(p, t->activations, ITERATION_ACTIVATION_EFFICIENCY, g) +
                 over(p, t->link, ITERATION_LINK_EFFICIENCY, g) +
                 times(p, t->collectives, ITERATION_COLLECTIVE_S, g) +
                 times(p, t->layers, ITERATION_LAYER_S, g) +
                 times(p, t->expert_layers, ITERATION_EXPERTS_LAYER_S, g) +
                 times(p, t->row_layers, ITERATION_ROW_LAYER_S, g);
    return s;
}
