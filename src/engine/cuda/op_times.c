#include "engine/cuda/op_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/order.h"

enum { WATCH_MS = 50 };

enum st cuda_op_times_open(struct cuda_op_times *t, const struct gpu *g, struct err *e)
{
    char uuid[GPU_UUID_TEXT];
    *t = (struct cuda_op_times){.sm_mhz_low = INFINITY};
    TRY(gpu_records_open(g, &t->records, e));
    gpu_uuid_text(g->facts.uuid, uuid);
    gpu_watch_open(uuid, WATCH_MS, &t->watch);
    return ST_OK;
}

void cuda_op_times_close(struct cuda_op_times *t)
{
    gpu_records_close(&t->records);
    gpu_watch_close(&t->watch);
    vec_free(&t->direct.of);
    vec_free(&t->slowdown);
    vec_free(&t->sm_mhz);
    vec_free(&t->power_w);
    vec_free(&t->celsius);
}

/* ---- the division of a pass ------------------------------------------------------------------ */

struct cuda_pass_shape cuda_pass_shape_of(const struct batch *b)
{
    return (struct cuda_pass_shape){.chunks = b->n_chunks,
                                    .prefill_tokens = b->prefill_tokens,
                                    .prefill_kv = b->load.kv_tokens_prefill,
                                    .decodes = b->n_decodes,
                                    .decode_kv = b->decode_kv_tokens};
}

enum st cuda_op_times_begin(struct cuda_op_times *t, struct err *e)
{
    vec_clear(&t->direct.of);
    t->known = false;
    return gpu_records_begin(t->records, e);
}

enum st cuda_op_times_end(struct cuda_op_times *t, const struct batch *b,
                          const struct cuda_charges *charges, struct err *e)
{
    const struct gpu_record *records;
    size_t n;
    TRY(gpu_records_end(t->records, &records, &n, e));
    TRY(cuda_charges_divide(charges, records, n, t->kernel_s, e));
    t->shape = cuda_pass_shape_of(b);
    return ST_OK;
}

/* Kernels as recorded, scaled down where the pass is shorter than they are; the rest is gap. */
static void divide(const struct cuda_op_times *t, double device_s, double op_s[OP_ROWS])
{
    double kernels_s = 0;
    for (int k = 0; k < OP_ROWS; k++)
        kernels_s += k == OP_GAP ? 0 : t->kernel_s[k];
    const double scale = kernels_s > device_s ? device_s / kernels_s : 1;
    for (int k = 0; k < OP_ROWS; k++)
        op_s[k] = t->kernel_s[k] * scale;
    op_s[OP_GAP] = fmax(device_s - kernels_s * scale, 0); /* rounded, not below 0 */
}

bool cuda_op_times_of(struct cuda_op_times *t, const struct cuda_pass_shape *shape, bool split,
                      double device_s, double op_s[OP_ROWS])
{
    if (split) {
        t->recorded_s = device_s;
        t->known = true;
    }
    if (!t->known || memcmp(shape, &t->shape, sizeof *shape) != 0)
        return false;
    if (!split && device_s > 0)
        vec_push(&t->slowdown, t->recorded_s / device_s);
    divide(t, device_s, op_s);
    log_debug("%lld chunks of %lld tokens, %lld decode rows of %lld tokens: %.1f us%s, gap %.1f us",
              (long long)shape->chunks, (long long)shape->prefill_tokens, (long long)shape->decodes,
              (long long)shape->decode_kv, device_s * 1e6, split ? ", recorded" : "",
              op_s[OP_GAP] * 1e6);
    return true;
}

/* ---- clocks and power ------------------------------------------------------------------------ */

bool cuda_op_times_undisturbed(struct cuda_op_times *t)
{
    const struct gpu_conditions c = gpu_watch_take(t->watch);
    const bool rejected = gpu_reasons_reject(c.reasons);
    t->stretches++;
    t->rejected += rejected;
    t->reasons |= c.reasons;
    if (c.samples == 0)
        return true;
    vec_push(&t->sm_mhz, c.sm_mhz);
    vec_push(&t->power_w, c.power_w);
    vec_push(&t->celsius, c.celsius_high);
    t->sm_mhz_low = fmin(t->sm_mhz_low, c.sm_mhz_low);
    t->power_w_high = fmax(t->power_w_high, c.power_w_high);
    return !rejected;
}

static struct node *number(struct arena *a, double v)
{
    return isfinite(v) ? node_float(a, v) : node_new(a, NODE_NULL);
}

static struct node *middle(struct arena *a, const double *v, size_t n)
{
    double *sorted = arena_copy(a, v, n * sizeof *v);
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(sorted[i]))
            sorted[known++] = sorted[i];
    if (known == 0)
        return node_new(a, NODE_NULL);
    qsort(sorted, known, sizeof *sorted, order_double);
    return node_float(a, (sorted[(known - 1) / 2] + sorted[known / 2]) / 2);
}

void cuda_op_times_facts(struct cuda_op_times *t, struct arena *a, struct node *facts)
{
    const struct gpu_limits limits = gpu_watch_limits(t->watch);
    struct node *watched = node_new(a, NODE_MAP), *records = node_new(a, NODE_MAP);
    uint32_t version;
    const char *library = gpu_records_library(t->records, &version);
    node_set(a, watched, SV("sm_mhz"), middle(a, t->sm_mhz.p, t->sm_mhz.n));
    node_set(a, watched, SV("sm_mhz_low"), number(a, t->sm_mhz_low));
    node_set(a, watched, SV("sm_mhz_max"), number(a, limits.max_sm_mhz));
    node_set(a, watched, SV("power_w"), middle(a, t->power_w.p, t->power_w.n));
    node_set(a, watched, SV("power_w_high"),
             t->power_w.n ? number(a, t->power_w_high) : node_new(a, NODE_NULL));
    node_set(a, watched, SV("power_limit_w"), number(a, limits.power_limit_w));
    node_set(a, watched, SV("celsius"), middle(a, t->celsius.p, t->celsius.n));
    node_set(a, watched, SV("clocks_held_by"), node_str(a, gpu_reason_words(a, t->reasons)));
    node_set(a, watched, SV("stretches"), node_int(a, t->stretches));
    node_set(a, watched, SV("rejected"), node_int(a, t->rejected));
    node_set(a, facts, SV("driver"), node_str(a, arena_str(a, limits.driver)));
    node_set(a, facts, SV("conditions"), watched);
    node_set(a, records, SV("library"), node_str(a, library ? library : "libcupti"));
    node_set(a, records, SV("interface"), node_int(a, version));
    node_set(a, records, SV("slowdown"), middle(a, t->slowdown.p, t->slowdown.n));
    node_set(a, records, SV("passes"), node_int(a, (int64_t)t->slowdown.n));
    node_set(a, facts, SV("kernel_records"), records);
}
