#include "sim/sim.h"

void sim_predict(const struct sim_params *p, const struct batch *b, double *device_s,
                 double *host_s)
{
    const struct bundle *t = p->bundle;
    int64_t rows = (int64_t)b->n_decodes + b->n_last_chunks;
    double s = predict_tokens_s(t, b->prefill_tokens + b->n_decodes) + predict_rows_s(t, rows) +
               predict_decode_s(t, b->n_decodes, b->decode_kv_tokens);
    for (int32_t i = 0; i < b->n_chunks; i++)
        s += predict_prefill_s(t, b->chunks[i].start, b->chunks[i].tokens);
    *device_s = s * bundle_iteration_scale(t, b->n_chunks > 0);
    *host_s = 0;
    if (p->host_overhead)
        *host_s = bundle_host_s(t, (int64_t)b->n_decodes + b->n_chunks, b->n_chunks > 0);
}
