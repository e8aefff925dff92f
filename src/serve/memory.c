#include "serve/memory.h"

#include <math.h>

static const double GIB = 1024.0 * 1024 * 1024;

/* Of devices that each attend to their own part of a batch. */
static int64_t groups(const struct memory_facts *f)
{
    return f->ep > f->tp ? f->ep / f->tp : 1;
}

/* Counts are exact in doubles: they stay far below 2^53. */
static double weight_params(const struct memory_facts *f)
{
    const struct model *m = f->model;
    int64_t q = m->heads / f->tp, kv = (m->kv_heads + f->tp - 1) / f->tp;
    int64_t gemms = m->act == ACT_SILU_GATED ? 3 : 2;
    double spread = (double)groups(f); /* experts: over all groups, whole */
    double layer =
        (double)(m->hidden * m->head_dim * (2 * q + 2 * kv)) +
        (double)(gemms * m->hidden * (m->intermediate / f->tp) * (m->experts ? m->experts : 1)) /
            spread;
    return layer * (double)(m->layers / f->pp);
}

enum st memory_plan(const struct memory_facts *f, struct memory_plan *out, struct err *e)
{
    const struct model *m = f->model;
    double avail = f->memory_gb * GIB * (1 - f->margin);
    int64_t kv = (m->kv_heads + f->tp - 1) / f->tp;
    out->weight_bytes = 2 * weight_params(f);
    out->request_bytes = 4 * (double)(m->head_dim * kv * f->request_tokens) * (double)m->layers;
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
    double blocks = fit * (double)(f->pp * groups(f)) * (double)(f->request_tokens / f->block_size);
    out->max_batch = fit < INT32_MAX ? (int64_t)fit : INT32_MAX;
    out->num_blocks = blocks < INT32_MAX ? (int64_t)blocks : INT32_MAX;
    return ST_OK;
}
