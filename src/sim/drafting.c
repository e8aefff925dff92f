#include "sim/drafting.h"

struct drafting {
    struct predictor p;
    struct predictor_ops ops;
    double cost;
    struct stage_time *plain; /* [stages] */
};

/* The decode rows of b alone, without drafts. */
static struct batch decodes_of(const struct batch *b)
{
    struct batch plain = *b;
    plain.chunks = NULL;
    plain.n_chunks = plain.n_last_chunks = 0;
    plain.prefill_tokens = 0;
    plain.draft_tokens = 0;
    plain.load = (struct op_load){.tokens = b->n_decodes,
                                  .rows = b->n_decodes,
                                  .seqs = b->n_decodes,
                                  .kv_tokens = b->decode_kv_tokens + b->n_decodes,
                                  .n_spans = b->load.n_spans};
    for (int32_t i = 0; i < b->load.n_spans; i++) /* with the keys of the drafts */
        plain.load.spans[i].kv_tokens = b->load.spans[i].kv_tokens;
    return plain;
}

static enum st predict(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    struct drafting *d = self;
    TRY(d->p.ops->predict(d->p.self, b, stages, e));
    if (b->n_decodes == 0 || d->cost == 0)
        return ST_OK;
    struct batch plain = decodes_of(b);
    TRY(d->p.ops->predict(d->p.self, &plain, d->plain, e));
    double s = 0, j = 0;
    for (int32_t i = 0; i < d->p.stages; i++) {
        s += d->plain[i].host_s + d->plain[i].device_s;
        j += d->plain[i].energy_j + d->plain[i].wait_w * d->plain[i].host_s;
    }
    stages[0].device_s += s * d->cost * b->draft_tokens;
    stages[0].energy_j += j * d->cost * b->draft_tokens;
    return ST_OK;
}

static struct stage_time wake(void *self, double pause_s, int k)
{
    struct drafting *d = self;
    return d->p.ops->wake(d->p.self, pause_s, k);
}

static int wake_batches(void *self)
{
    struct drafting *d = self;
    return d->p.ops->wake_batches(d->p.self);
}

struct predictor predictor_drafting(struct arena *a, const struct predictor *p, double cost)
{
    struct drafting *d = arena_one(a, struct drafting);
    d->p = *p;
    d->cost = cost;
    d->plain = arena_array(a, struct stage_time, p->stages);
    d->ops = *p->ops;
    d->ops.predict = predict;
    if (p->ops->wake) {
        d->ops.wake = wake;
        d->ops.wake_batches = wake_batches;
    }
    struct predictor out = *p;
    out.ops = &d->ops;
    out.self = d;
    return out;
}
