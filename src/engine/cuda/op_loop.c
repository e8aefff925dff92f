#include "engine/cuda/op_loop.h"

#include <math.h>

#include "base/clock.h"
#include "gpu/stream.h"

enum { MOST_NODES = 8192, EVENTS = 3 };
static const double LOOP_GRAPH_S = 1e-3; /* far above what the host takes to launch a graph */

struct looping {
    struct cuda_forward *f;
    const struct cuda_pass *pass;
    CUstream stream;
    struct cuda_charges charges; /* of one pass */
    CUgraphExec graph;
    CUevent events[EVENTS]; /* the end of the first graph, and of the last two by turns */
};

static enum st capture(struct looping *x, int64_t passes, struct err *e)
{
    const struct gpu *g = x->f->gpu;
    struct err ignored = {0};
    gpu_graph_close(g, &x->graph);
    vec_clear(&x->charges.of);
    TRY(gpu_capture_begin(g, x->stream, e));
    enum st st = ST_OK;
    for (int64_t i = 0; i < passes && st == ST_OK; i++) {
        x->f->charges = i == 0 ? &x->charges : NULL;
        st = cuda_forward_run(x->f, x->pass, x->stream, e);
    }
    x->f->charges = NULL;
    const enum st ended =
        gpu_capture_end(g, x->stream, &x->graph, NULL, st == ST_OK ? e : &ignored);
    return st == ST_OK && ended == ST_OK ? ST_OK : err_add(e, "cannot capture a loop of operators");
}

/* Of a pass's records, in the order of their starts: the time in which a kernel runs, and that from
 * the first one's start to the last one's end. */
static void busy(const struct gpu_record *r, size_t n, double *kernels_s, double *all_s)
{
    int64_t end_ns = n ? r[0].start_ns : 0;
    *kernels_s = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t begin_ns = r[i].start_ns > end_ns ? r[i].start_ns : end_ns;
        if (r[i].end_ns > begin_ns) {
            *kernels_s += (double)(r[i].end_ns - begin_ns) / 1e9;
            end_ns = r[i].end_ns;
        }
    }
    *all_s = n ? (double)(end_ns - r[0].start_ns) / 1e9 : 0;
}

/* Kernels that run now, of all rules that are wanted: without any there is nothing to capture.
 * Which is whose does not matter here, and could not be told: products of cuBLASLt follow each
 * other. */
static enum st record(struct looping *x, struct gpu_records *records, double *kernels_s,
                      double *all_s, struct err *e)
{
    const struct gpu_record *r;
    size_t n;
    *kernels_s = *all_s = 0;
    TRY(gpu_records_begin(records, e));
    enum st st = capture(x, 1, e);
    if (st == ST_OK && x->charges.of.n > 0)
        st = gpu_graph_launch(x->f->gpu, x->graph, x->stream, e);
    TRY(gpu_records_end(records, &r, &n, st == ST_OK ? e : &(struct err){0}));
    if (st != ST_OK || x->charges.of.n == 0)
        return st;
    if (n < x->charges.of.n)
        return err_set(e, ST_DEVICE, "CUPTI recorded %zu kernels of a loop that launches %zu", n,
                       x->charges.of.n);
    busy(r, n, kernels_s, all_s);
    return ST_OK;
}

/* While one graph is waited for the next one is in the queue. */
static enum st repeat(struct looping *x, const struct op_loop *l, int64_t passes,
                      struct op_loop_times *out, struct err *e)
{
    const struct gpu *g = x->f->gpu;
    CUevent last = NULL;
    const int64_t until_ns = clock_mono_ns() + ns_from_s(l->least_s);
    for (int64_t n = 0;; n++) {
        CUevent done = x->events[n == 0 ? 0 : 1 + n % 2];
        TRY(gpu_graph_launch(g, x->graph, x->stream, e));
        TRY(gpu_event_record(g, done, x->stream, e));
        if (last)
            TRY(gpu_event_wait(g, last, e));
        if (n == 1)
            out->from_ns = clock_mono_ns();
        last = done;
        out->passes = n * passes;
        if (n >= 2 && clock_mono_ns() >= until_ns)
            break;
    }
    double all_s;
    TRY(gpu_event_wait(g, last, e));
    out->to_ns = clock_mono_ns();
    TRY(gpu_event_s(g, x->events[0], last, &all_s, e));
    out->pass_s = all_s / (double)out->passes;
    return ST_OK;
}

static enum st run(struct looping *x, struct gpu_records *records, const struct op_loop *l,
                   struct op_loop_times *out, struct err *e)
{
    double recorded_s;
    TRY(record(x, records, &out->kernels_s, &recorded_s, e));
    if (x->charges.of.n == 0)
        return ST_OK;
    const int64_t most = MOST_NODES / (int64_t)x->charges.of.n + 1;
    const double wanted = recorded_s > 0 ? ceil(LOOP_GRAPH_S / recorded_s) : 1;
    const int64_t passes = wanted < (double)most ? (int64_t)wanted : most;
    TRY(capture(x, passes, e));
    for (int i = 0; i < EVENTS; i++)
        TRY(gpu_event_open(x->f->gpu, true, &x->events[i], e));
    TRY(repeat(x, l, passes, out, e));
    out->kernels_s = fmin(out->kernels_s, out->pass_s);
    return ST_OK;
}

enum st cuda_op_loop_run(struct cuda_forward *f, struct gpu_records *records,
                         const struct cuda_pass *pass, CUstream stream, const struct op_loop *l,
                         struct op_loop_times *out, struct err *e)
{
    struct looping x = {.f = f, .pass = pass, .stream = stream};
    *out = (struct op_loop_times){0};
    f->only = l->rows;
    const enum st st = run(&x, records, l, out, e);
    f->only = 0;
    for (int i = 0; i < EVENTS; i++)
        gpu_event_close(f->gpu, &x.events[i]);
    gpu_graph_close(f->gpu, &x.graph);
    vec_free(&x.charges.of);
    return st;
}
