#include "sim/predictor.h"

static enum st open_bundle(struct arena *a, const struct predictor_params *p, void **self,
                           struct err *e)
{
    (void)e;
    *self = arena_copy(a, p, sizeof *p);
    return ST_OK;
}

/* Of the whole batch, on all devices. idle_s: time of its stages in which no operator runs. */
static double energy_of(const struct predictor_params *p, const struct batch *b, double scale,
                        double idle_s)
{
    const struct bundle *t = p->bundle;
    double j = predict_tokens_j(t, b->prefill_tokens + b->n_decodes) +
               predict_rows_j(t, (int64_t)b->n_decodes + b->n_last_chunks) +
               predict_decode_j(t, b->n_decodes, b->decode_kv_tokens);
    for (int32_t i = 0; i < b->n_chunks; i++)
        j += predict_prefill_j(t, b->chunks[i].start, b->chunks[i].tokens);
    return (double)p->tp * (j * scale + bundle_idle_w(t) * idle_s);
}

static enum st predict(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    const struct predictor_params *p = self;
    const struct bundle *t = p->bundle;
    int64_t tokens = b->prefill_tokens + b->n_decodes;
    int64_t rows = (int64_t)b->n_decodes + b->n_last_chunks;
    double scale = bundle_iteration_scale(t, b->n_chunks > 0, b->n_chunks ? tokens : b->n_decodes);
    double all_tokens = predict_tokens_s(t, tokens), all_rows = predict_rows_s(t, rows);
    double attention =
        predict_decode_mixed_s(t, b->n_decodes, b->decode_kv_tokens, b->decode_kv_max);
    (void)e;
    for (int32_t i = 0; i < b->n_chunks; i++)
        attention += predict_prefill_s(t, b->chunks[i].start, b->chunks[i].tokens);
    double host = 0, reduce = p->tp > 1 ? predict_all_reduce_s(t, tokens) : 0;
    if (p->host_overhead)
        host = bundle_host_s(t, (int64_t)b->n_decodes + b->n_chunks, b->n_chunks > 0);
    if (p->pp == 1) {
        stages[0] =
            (struct stage_time){host, (all_tokens + all_rows + attention) * scale + reduce, 0};
        if (bundle_has_energy(t))
            stages[0].energy_j = energy_of(p, b, scale, host + reduce);
        return ST_OK;
    }
    double once = predict_once_s(t, tokens), pass_on = predict_send_recv_s(t, tokens);
    double layers = (all_tokens - once + attention) / (double)p->pp;
    for (int64_t i = 0; i < p->pp; i++) {
        double s = layers + (i == 0 ? once : 0) + (i == p->pp - 1 ? all_rows : 0);
        stages[i] = (struct stage_time){
            i == 0 ? host : 0, s * scale + reduce / (double)p->pp + (i < p->pp - 1 ? pass_on : 0),
            0};
    }
    if (bundle_has_energy(t))
        stages[0].energy_j = energy_of(p, b, scale, host + reduce + pass_on * (double)(p->pp - 1));
    return ST_OK;
}

static int wake_batches(void *self)
{
    const struct predictor_params *p = self;
    return p->host_overhead ? bundle_wake_iterations(p->bundle) : 0;
}

static struct stage_time wake(void *self, double pause_s, int k)
{
    const struct predictor_params *p = self;
    struct stage_time t;
    bundle_wake_s(p->bundle, pause_s, k, &t.device_s, &t.host_s);
    return t;
}

const struct predictor_ops predictor_bundle = {
    .name = "bundle",
    .help = "from a profiling bundle, interpolated",
    .version = PREDICTOR_VERSION,
    .needs_bundle = true,
    .open = open_bundle,
    .predict = predict,
    .wake = wake,
    .wake_batches = wake_batches,
};
