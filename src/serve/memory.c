#include "serve/memory.h"

#include <math.h>

#include "model/shard.h"

static const double GIB = 1024.0 * 1024 * 1024;

static double matrix_bytes(const struct model *m, double groups, const struct op_list *l)
{
    double all = 0;
    for (int i = 0; i < l->n; i++) {
        const struct op *op = &l->ops[i];
        if (op->where != OP_IN_LAYER || op->kind == OP_MOE_ROUTER)
            continue;
        const double copies = op->experts ? (double)op->experts / groups : 1;
        all += op->repeat * copies * (double)op->matrix_params * op_weight_bytes(m, op->kind);
    }
    return all;
}

/* Bytes of the projections of a shard's layers. Counts are exact in doubles: they stay far below
 * 2^53. */
static double weight_bytes(const struct memory_facts *f)
{
    const double groups = (double)shard_groups(f->tp, f->ep), layers = (double)f->model->layers;
    struct op_list l;
    double most = 0;
    shard_ops(f->model, f->tp, &l);
    if (!f->model->layered)
        return matrix_bytes(f->model, groups, &l) / layers *
               (double)shard_most_layers(f->model, f->pp);
    for (int64_t i = 0; i < f->pp; i++) { /* stages differ */
        shard_stage_ops(f->model, f->tp, f->pp, i, &l);
        most = fmax(most, matrix_bytes(f->model, groups, &l));
    }
    return most;
}

/* What the stage with most of it keeps of a request; charged once for each stage, as Vidur's
 * planner does. `states`: some of it is there however short the request is. */
static double layered_request_bytes(const struct memory_facts *f, bool *states)
{
    double most = 0;
    *states = false;
    for (int64_t i = 0; i < f->pp; i++) {
        const struct shard_kept kept = shard_kept(f->model, f->tp, f->pp, i);
        most = fmax(most, kept.token * (double)f->request_tokens + kept.sequence);
        *states |= kept.sequence > 0;
    }
    return most * (double)f->pp;
}

/* Keys and values of a request, of the layers of all stages. */
static double request_bytes(const struct memory_facts *f)
{
    const struct model *m = f->model;
    const struct model shard = shard_model(m, f->tp);
    const double charged = (double)(shard_most_layers(m, f->pp) * f->pp) / (double)m->layers;
    return model_kv_bytes(&shard) * (double)f->request_tokens * charged;
}

enum st memory_plan(const struct memory_facts *f, struct memory_plan *out, struct err *e)
{
    return f->rule == MEMORY_VLLM ? memory_plan_vllm(f, out, e) : memory_plan_vidur(f, out, e);
}

enum st memory_plan_vidur(const struct memory_facts *f, struct memory_plan *out, struct err *e)
{
    const struct model *m = f->model;
    const double avail = f->memory_gb * GIB * (1 - f->margin);
    bool states = false;
    *out = (struct memory_plan){0};
    out->weight_bytes = weight_bytes(f);
    out->request_bytes = m->layered ? layered_request_bytes(f, &states) : request_bytes(f);
    double fit = floor((avail - out->weight_bytes) / out->request_bytes);
    if (!(fit >= 1)) {
        err_set(e, ST_USAGE,
                "model %s: a device of %g GiB has %.1f GiB for weights of %.1f GiB and keys and "
                "values of %.1f GiB for a request of %lld tokens",
                m->name, f->memory_gb, avail / GIB, out->weight_bytes / GIB,
                out->request_bytes / GIB, (long long)f->request_tokens);
        return err_hint(e,
                        "raise parallel.tp or parallel.pp, lower scheduler.max_model_len, or set "
                        "scheduler.num_blocks");
    }
    const double requests = fit * (double)(f->pp * shard_groups(f->tp, f->ep));
    const double blocks = requests * (double)(f->request_tokens / f->block_size);
    out->max_batch = fit < INT32_MAX ? (int64_t)fit : INT32_MAX;
    out->num_blocks = blocks < INT32_MAX ? (int64_t)blocks : INT32_MAX;
    if (states)
        out->most_requests = requests < INT32_MAX ? (int64_t)requests : INT32_MAX;
    return ST_OK;
}

void memory_plan_host(const struct memory_facts *f, int element_bytes, struct memory_plan *out)
{
    const int64_t cache_bytes = f->cache_bytes ? f->cache_bytes : INT64_C(2) << 30;
    const bool groups = f->groups && !kv_groups_plain(f->groups);
    const int64_t request = groups ? kv_groups_needed(f->groups, f->request_tokens, f->in_flight)
                                   : (f->request_tokens + f->block_size - 1) / f->block_size;
    int64_t blocks =
        cache_bytes / (groups ? f->groups->block_bytes
                              : f->block_size * model_kv_bytes_held(f->model, element_bytes));
    if (blocks > f->batch_cap * request)
        blocks = f->batch_cap * request;
    *out = (struct memory_plan){.max_batch = INT64_MAX,
                                .num_blocks = blocks > request ? blocks : request};
}
