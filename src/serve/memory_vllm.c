/* What vLLM 0.33 leaves for keys and values, per device, with T = batch_tokens, S = batch_cap, V
 * the vocabulary, e bytes an element of the model's dtype, its layers' weights and its keys and
 * values in their own formats (model/precision.h; vllm/v1/worker/gpu_worker.py,
 * determine_available_memory):
 *
 *     usable      = (memory_gb - reserved_gb) utilization
 *     weights     = parameters of the stage and shard in their formats; rotary table
 *     activations = the larger of
 *         forward   T e (2 hidden + widest pair of neighbouring tensors of a layer)
 *         sampling  14 S V on the last stage: logits in the model's type and in float32, those left
 *                   by top-k, their probabilities (v1/worker/gpu/sample/sampler.py, FlashInfer)
 *     graphs      = graphs x layers of the stage x 384 KiB
 *     other       = 0.13 GiB, 4.125 S V on the last stage (counts and marks of tokens, for
 *                   penalties), and for tp > 1 communication: 1.3 GiB over NVLink, 0.1 over PCIe
 *     blocks      = (usable - the sum) / (block_size x 2 e h ceil(kv/tp) x layers)
 *                   of models whose layers differ, / bytes of a block (serve/kv_group.h) in the
 *                   stage's layers; a request of the longest length must find room in all groups,
 *                   beside the block that holds nothing (get_kv_cache_configs)
 *
 * Graphs are captured in two modes, for sizes 1, 2, 4, multiples of 8 below 256 and of 16 from
 * there, up to 512, 2 S and T (pieces), and to S as well (whole decode batches).
 *
 * Of an opaque model (model/opaque.h) model.workspace_gb stands for activations, graphs and other.
 *
 * 14 and 4.125 follow from vLLM's source. 384 KiB, 0.13, 1.3 and 0.1 GiB were taken from logs of
 * vLLM 0.11 to 0.31, which docs/serving.md lists; tests/unit/serve/memory_vllm_test.c holds the
 * plan to the block counts in them. */
#include <math.h>

#include "model/opaque.h"
#include "model/shard.h"
#include "serve/memory.h"

static const double GIB = 1024.0 * 1024 * 1024;
static const double LOGIT_BYTES = 14, STATE_BYTES = 4.125;
static const double GRAPH_LAYER_BYTES = 384 * 1024.0;
static const double ALONE_GIB = 0.13, NVLINK_GIB = 1.3, PCIE_GIB = 0.1;
enum { VOCAB_MULTIPLE = 64, GRAPH_TOKENS = 512 };

/* A pipeline stage's part of a device's memory. */
struct memory_stage {
    const struct memory_facts *f;
    struct model shard;
    bool first, last;
    double layers;
    int64_t index;
};

static double padded_vocab(const struct model *m)
{
    return (double)((m->vocab + VOCAB_MULTIPLE - 1) / VOCAB_MULTIPLE * VOCAB_MULTIPLE);
}

/* The embedding and the LM head are cut along the vocabulary; one that is tied is held once where
 * both stand on a stage. */
static double weights(const struct memory_stage *s)
{
    const struct memory_facts *f = s->f;
    const struct model *m = f->model;
    const double groups = (double)shard_groups(f->tp, f->ep);
    const double table = padded_vocab(m) / (double)f->tp * (double)m->hidden;
    const double element = precision_bytes(m->dtype);
    struct op_list l;
    double layer = 0, tables = 0, ends = 0; /* bytes; parameters */
    double of = (double)m->layers;          /* that the rows are of */
    if (m->layered) {
        shard_stage_ops(m, f->tp, f->pp, s->index, &l);
        of = s->layers;
    } else {
        shard_ops(m, f->tp, &l);
    }
    for (int i = 0; i < l.n; i++) {
        const struct op *op = &l.ops[i];
        const double share = op->experts ? groups : 1, params = (double)op->weight_params / share;
        const double matrices =
            (double)(op->matrix_params * (op->experts ? op->experts : 1)) / share;
        if (op->where == OP_IN_LAYER)
            layer += (double)op->repeat / of *
                     ((params - matrices) * element + matrices * op_weight_bytes(m, op->kind));
        else if (op->where == OP_BEFORE_LAYERS && s->first)
            *(op->kind == OP_EMB && !m->layered ? &tables : &ends) +=
                op->kind == OP_EMB && !m->layered ? table * op_weight_bytes(m, OP_EMB) : params;
        else if (op->where == OP_AFTER_LAYERS && s->last && op->kind != OP_LM_HEAD)
            ends += params;
    }
    if (s->last && !(m->tied && s->first))
        tables += table * op_weight_bytes(m, OP_LM_HEAD);
    const double rotary =
        m->position == POSITION_ROPE
            ? (double)m->max_positions * (double)(m->rotary_dim ? m->rotary_dim : m->head_dim)
            : 0;
    return layer * s->layers + tables + element * (ends + rotary);
}

/* The same of layers that differ: of each kind what goes into its projections and comes out. */
static double layered_forward(const struct memory_stage *s)
{
    struct op_list l;
    double widest = 0;
    shard_ops(s->f->model, s->f->tp, &l);
    for (int i = 0; i < l.n; i++)
        if (l.ops[i].where == OP_IN_LAYER && l.ops[i].m > 0)
            widest = fmax(widest, l.ops[i].line.token_elements);
    return (double)s->f->batch_tokens * precision_bytes(s->shard.dtype) *
           (2 * (double)s->shard.hidden + widest);
}

static struct memory_stage stage_of(const struct memory_facts *f, int64_t i)
{
    return (struct memory_stage){f,
                                 shard_model(f->model, f->tp),
                                 i == 0,
                                 i == f->pp - 1,
                                 (double)shard_stage_layers(f->model, f->pp, i),
                                 i};
}

double memory_weight_bytes(const struct model *m, int64_t tp, int64_t pp, int64_t ep)
{
    const struct memory_facts f = {.model = m, .tp = tp, .pp = pp, .ep = ep};
    double most = 0;
    for (int64_t i = 0; i < pp; i++) {
        const struct memory_stage s = stage_of(&f, i);
        most = fmax(most, weights(&s));
    }
    return most;
}

/* Neighbouring tensors live at once: q, k, v and attention's output; the MLP's input to its
 * activation, and the output of that, for each expert that a token goes through. */
static double forward(const struct memory_stage *s)
{
    if (s->shard.layered)
        return layered_forward(s);
    const struct model *m = &s->shard;
    const double hidden = (double)m->hidden, inner = (double)m->intermediate;
    const double q = (double)(m->heads * m->head_dim), kv = (double)(m->kv_heads * m->head_dim);
    const double up = (m->act == ACT_SILU_GATED ? 2 : 1) * inner;
    double mlp = up + inner;
    if (m->experts)
        mlp = (double)m->experts_per_token * (fmax(up, hidden) + inner);
    return (double)s->f->batch_tokens * precision_bytes(m->dtype) *
           (2 * hidden + fmax(2 * q + 2 * kv, mlp));
}

static double rows(const struct memory_facts *f)
{
    return (double)(f->batch_cap < f->batch_tokens ? f->batch_cap : f->batch_tokens);
}

/* Sizes of CUDA graphs up to most. */
static int64_t graph_sizes(int64_t most)
{
    static const struct {
        int64_t from, to, step;
    } runs[] = {{1, 1, 1}, {2, 2, 1}, {4, 4, 1}, {8, 248, 8}, {256, GRAPH_TOKENS, 16}};
    int64_t n = 0;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const int64_t to = most < runs[i].to ? most : runs[i].to;
        n += to < runs[i].from ? 0 : (to - runs[i].from) / runs[i].step + 1;
    }
    return n;
}

static double graphs(const struct memory_stage *s)
{
    const struct memory_facts *f = s->f;
    int64_t pieces = 2 * f->batch_cap < f->batch_tokens ? 2 * f->batch_cap : f->batch_tokens;
    int64_t whole = f->batch_cap < pieces ? f->batch_cap : pieces;
    return (double)(graph_sizes(pieces) + graph_sizes(whole)) * s->layers * GRAPH_LAYER_BYTES;
}

static void plan_stage(const struct memory_stage *s, struct memory_plan *out)
{
    const struct memory_facts *f = s->f;
    const double logits = s->last ? rows(f) * padded_vocab(f->model) : 0;
    const double together = f->tp == 1 ? 0 : f->nvlink ? NVLINK_GIB : PCIE_GIB;
    *out = (struct memory_plan){
        .usable_bytes = (f->memory_gb - f->reserved_gb) * GIB * f->utilization,
        .weight_bytes = weights(s),
        .activation_bytes = fmax(forward(s), LOGIT_BYTES * logits),
        .graph_bytes = graphs(s),
        .other_bytes = (ALONE_GIB + together) * GIB + STATE_BYTES * logits,
    };
    if (f->model->opaque) { /* what its sizes say of all of it */
        out->activation_bytes = f->model->opaque->workspace_bytes;
        out->graph_bytes = out->other_bytes = 0;
    }
    out->cache_bytes = out->usable_bytes - out->weight_bytes - out->activation_bytes -
                       out->graph_bytes - out->other_bytes;
}

static enum st no_room(const struct memory_facts *f, const struct memory_plan *p, struct err *e)
{
    err_set(e, ST_USAGE,
            "model %s: of %.1f GiB that vLLM may use of a device, weights take %.1f, activations "
            "%.1f, CUDA graphs %.1f and the rest %.1f GiB: no room is left for keys and values of "
            "%.1f GiB for a request of %lld tokens",
            f->model->name, p->usable_bytes / GIB, p->weight_bytes / GIB, p->activation_bytes / GIB,
            p->graph_bytes / GIB, p->other_bytes / GIB, p->request_bytes / GIB,
            (long long)f->request_tokens);
    return err_hint(e, "raise parallel.tp or parallel.pp, lower scheduler.max_model_len, or set "
                       "scheduler.num_blocks");
}

/* Blocks of the longest request. */
static int64_t request_blocks_of(const struct memory_facts *f)
{
    return f->groups ? kv_groups_needed(f->groups, f->request_tokens, f->in_flight)
                     : (f->request_tokens + f->block_size - 1) / f->block_size;
}

/* Bytes of a block on a device of the stage. */
static double block_bytes(const struct memory_stage *s)
{
    const struct memory_facts *f = s->f;
    const int64_t first = shard_first_layer(f->model, f->pp, s->index);
    if (f->groups)
        return (double)kv_groups_stage_bytes(f->groups, first, first + (int64_t)s->layers);
    const double block = (double)f->block_size;
    if (f->model->layered)
        return shard_kv_bytes(f->model, f->tp, f->pp, s->index) * block;
    return model_kv_bytes(&s->shard) / (double)s->shard.layers * s->layers * block;
}

enum st memory_plan_vllm(const struct memory_facts *f, struct memory_plan *out, struct err *e)
{
    if (f->model->opaque && !(f->model->opaque->workspace_bytes > 0)) {
        err_set(e, ST_USAGE,
                "model.workspace_gb: what %s takes of a GPU beside weights, keys and values is not "
                "known",
                f->model->name);
        return err_hint(e,
                        "vLLM's log says it at start; scheduler.num_blocks gives the blocks, and "
                        "scheduler.memory_plan=vidur leaves it to hardware.memory_margin");
    }
    const int64_t request_blocks = request_blocks_of(f), null_blocks = f->groups ? 1 : 0;
    double blocks = INFINITY;
    for (int64_t i = 0; i < f->pp; i++) {
        const struct memory_stage s = stage_of(f, i);
        const double bytes = block_bytes(&s);
        struct memory_plan x;
        plan_stage(&s, &x);
        x.request_bytes = bytes * (double)request_blocks;
        const double fit = bytes > 0 ? floor(x.cache_bytes / bytes) : INT32_MAX;
        if (fit >= blocks)
            continue;
        blocks = fit;
        *out = x;
    }
    if (!(blocks >= (double)(request_blocks + null_blocks)))
        return no_room(f, out, e);
    const double all = blocks * (double)shard_groups(f->tp, f->ep);
    out->num_blocks = all < INT32_MAX ? (int64_t)all : INT32_MAX;
    out->max_batch = (int64_t)(blocks / (double)request_blocks);
    return ST_OK;
}
