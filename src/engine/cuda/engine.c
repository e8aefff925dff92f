#include "engine/cuda/engine.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/cuda/batch_range.h"
#include "engine/cuda/fault.h"
#include "engine/cuda/graphs.h"
#include "engine/cuda/op_loop.h"
#include "engine/cuda/op_times.h"
#include "engine/cuda/parts.h"
#include "engine/cuda/plan.h"
#include "engine/cuda/random.h"
#include "engine/rows.h"
#include "gpu/cache.h"
#include "gpu/library.h"
#include "gpu/stream.h"

enum { IN_FLIGHT = 2 };
/* A pass that is launched kernel by kernel and done so soon behind its last launch, in its own
 * time, was waiting for launches. */
static const double STARVED = 0.05;
static const int64_t NAP_NS = 20000; /* between looks at a batch, where sleep is wanted */

/* A batch that is out, and its memory on the host, which the next one in its place takes over. */
struct gpu_flight {
    struct row_batch rows;
    uint64_t ticket;
    int64_t iteration;
    int graph_rows;         /* of the graph; 0 = kernel by kernel */
    void *step;             /* page-locked: the arrays, */
    size_t bytes;           /* so many of them, */
    struct cuda_sizes most; /* laid out for these sizes */
    int32_t *ids;           /* page-locked, [max_rows] */
    CUevent begin, end;
    double start_s, submit_s;            /* submit_s: the host's part in submit() */
    double began_s;                      /* when the device could begin */
    double prepare_s, launch_s, given_s; /* given_s: end of submit() */
    bool op_times, split;                /* as the batch had them */
    struct cuda_pass_shape shape;
    double op_s[OP_ROWS];
    bool answered;
    struct completion done;
};

struct cuda_engine {
    struct cuda_engine_params p;
    struct gpu gpu;
    CUstream stream;
    struct cuda_programs programs;
    struct cuda_weights weights;
    struct cuda_matmul matmul;
    struct cuda_forward forward;
    struct cuda_graphs graphs;
    CUdeviceptr step;
    int64_t most_blocks;
    struct cuda_engine_counts counts;
    struct cuda_op_times times; /* of profiles */
    bool recorded;              /* a pass was, and graphs are made so that all can be */

    struct rows rows;
    struct gpu_flight flights[IN_FLIGHT];
    int first, n_out;   /* flights out: first, ... */
    uint64_t ticket;    /* of the last batch */
    double submitted_s; /* when submit() returned last */
    bool bare;          /* weights are zeros, nothing is tuned */
    bool broken;        /* nothing is open on the GPU any more */
    struct err fault;   /* broken: what every later call returns */
};

/* ---- errors ---------------------------------------------------------------------------------- */

static void close_gpu(struct cuda_engine *c);

static void name_batch(const struct cuda_engine *c, const struct gpu_flight *f, const char *gpu,
                       struct err *e)
{
    const struct row_batch *b = &f->rows;
    char graph[48] = "";
    if (f->graph_rows)
        snprintf(graph, sizeof graph, ", CUDA graph of %d rows", f->graph_rows);
    err_add(e, "batch %lld (%lld chunks, %lld tokens; %lld decode rows%s) on GPU %d, %s",
            (long long)f->iteration, (long long)b->n_chunks,
            (long long)(b->n_tokens - b->n_decodes), (long long)b->n_decodes, graph, c->p.ordinal,
            gpu);
}

/* Batches that may have faulted, those that were out longest first; f: the one that was being
 * submitted or waited for. */
static int suspects(struct cuda_engine *c, struct gpu_flight *f, struct gpu_flight *out[IN_FLIGHT])
{
    int n = 0;
    bool listed = false;
    for (int i = 0; i < c->n_out; i++) {
        struct gpu_flight *x = &c->flights[(c->first + i) % IN_FLIGHT];
        if (!x->answered)
            out[n++] = x;
        listed = listed || x == f;
    }
    if (!listed)
        out[n++] = f;
    return n;
}

/* A kernel failed: which one, and in which batch. */
static struct gpu_flight *find_kernel(struct cuda_engine *c, struct gpu_flight *f, struct err *e)
{
    struct gpu_flight *all[IN_FLIGHT];
    struct cuda_fault_batch batches[IN_FLIGHT];
    struct arena *a = arena_new();
    struct cuda_fault found = {.found = CUDA_FAULT_UNKNOWN};
    const int n = suspects(c, f, all);
    for (int i = 0; i < n; i++) {
        batches[i] = (struct cuda_fault_batch){
            .most = all[i]->most, .sampled = all[i]->rows.sampled, .bytes = all[i]->bytes};
        batches[i].step = arena_alloc(a, all[i]->bytes);
        memcpy(batches[i].step, all[i]->step, all[i]->bytes);
    }
    close_gpu(c); /* the other process needs the memory */
    if (c->p.rerun)
        found = cuda_fault_find(a, &c->p, batches, n);
    if (found.found == CUDA_FAULT_FOUND)
        err_add(e, "%s: the batch fails there when it is computed again, kernel by kernel",
                found.where);
    else
        err_add(e, "a kernel failed%s; engine.check=true waits behind every kernel and names it",
                found.found == CUDA_FAULT_NOT_AGAIN
                    ? ", and does not when its batch alone is computed again"
                    : "");
    if (found.found != CUDA_FAULT_FOUND && n > 1)
        err_add(e, "batch %lld was on the GPU as well", (long long)all[1]->iteration);
    arena_free(&a);
    return all[found.found == CUDA_FAULT_FOUND ? found.batch : 0];
}

/* Keeps an error of the GPU for all later calls, with the batch it belongs to, and closes what is
 * open there. */
static enum st fail(struct cuda_engine *c, struct gpu_flight *f, struct err *e)
{
    char gpu[sizeof c->gpu.facts.name];
    memcpy(gpu, c->gpu.facts.name, sizeof gpu);
    if (!c->p.check && cuda_fault_is_kernels(e))
        f = find_kernel(c, f, e);
    name_batch(c, f, gpu, e);
    close_gpu(c);
    c->broken = true;
    c->fault = *e;
    return e->st;
}

/* ---- submitting ------------------------------------------------------------------------------ */

static enum st check_sizes(const struct cuda_engine *c, const struct row_batch *b, struct err *e)
{
    if (b->n_chunks + b->n_decodes > c->p.max_rows)
        return err_set(e, ST_USAGE, "a batch of %lld sequences: the engine was opened for %lld",
                       (long long)(b->n_chunks + b->n_decodes), (long long)c->p.max_rows);
    for (int64_t r = 0; r < b->n_rows; r++)
        if (b->row_slot[r] >= c->p.max_rows)
            return err_set(e, ST_USAGE, "slot %d: the engine was opened for %lld", b->row_slot[r],
                           (long long)c->p.max_rows);
    return ST_OK;
}

static struct cuda_sizes sizes_of(const struct cuda_engine *c, const struct row_batch *b)
{
    const struct model *m = c->p.model;
    struct cuda_sizes s = {.tokens = (int)b->n_tokens,
                           .rows = (int)b->n_rows,
                           .chunks = (int)b->n_chunks,
                           .decodes = (int)b->n_decodes,
                           .sms = c->forward.p.most.sms};
    cuda_forward_spans(m, &s);
    cuda_parts_sizes(CUDA_DEAL, (int)m->heads, (int)m->kv_heads, &s);
    return s;
}

static struct cuda_pass pass_of(const struct cuda_engine *c, const struct cuda_step_layout *l,
                                bool sampled)
{
    return (struct cuda_pass){.sizes = l->most,
                              .batch = cuda_step_at(l, c->step, c->forward.last),
                              .sampled = sampled,
                              .sampling = cuda_step_sampling(l, c->step),
                              .draw_at = cuda_step_draw_at(l, c->step)};
}

static enum st run_directly(struct cuda_engine *c, const struct cuda_step_layout *l, bool sampled,
                            struct err *e)
{
    const struct cuda_pass p = pass_of(c, l, sampled);
    c->counts.passes++;
    c->forward.charges = c->p.op_times ? &c->times.direct : NULL;
    vec_clear(&c->times.direct.of);
    const enum st st = cuda_forward_run(&c->forward, &p, c->stream, e);
    c->forward.charges = NULL;
    return st;
}

static enum st launch(struct cuda_engine *c, struct gpu_flight *f, struct err *e)
{
    const struct row_batch *b = &f->rows;
    const struct cuda_sizes sizes = sizes_of(c, b);
    struct cuda_graph *graph = NULL;
    struct cuda_step_layout own;
    if (b->n_chunks == 0 && !c->p.check)
        graph = cuda_graphs_for(&c->graphs, b->n_decodes);
    else
        cuda_step_lay_out(&sizes, c->most_blocks, &own);
    const struct cuda_step_layout *l = graph ? &graph->layout : &own;
    f->graph_rows = graph ? graph->rows : 0;
    const size_t bytes = cuda_step_write(l, b, c->p.block_size, f->step);
    ASSERT(bytes > 0);
    f->bytes = bytes;
    f->most = l->most;
    TRY(gpu_event_record(&c->gpu, f->begin, c->stream, e));
    TRY(gpu_upload(&c->gpu, c->step, f->step, bytes, c->stream, e));
    f->began_s = clock_now_s(c->p.clock);
    if (graph) {
        c->counts.graphs_launched++;
        TRY(cuda_graphs_launch(&c->graphs, graph, b->sampled, e));
        f->began_s = clock_now_s(c->p.clock);
    } else {
        TRY(run_directly(c, l, b->sampled, e));
    }
    if (b->n_rows > 0)
        TRY(gpu_download(&c->gpu, f->ids, c->forward.ids, (size_t)b->n_rows * sizeof *f->ids,
                         c->stream, e));
    return gpu_event_record(&c->gpu, f->end, c->stream, e);
}

/* Those there are make way: CUPTI knows the kernels only of graphs that it has seen being made. */
static enum st capture_graphs(struct cuda_engine *c, struct err *e)
{
    const struct cuda_engine_params *p = &c->p;
    if (p->check)
        return ST_OK;
    cuda_graphs_close(&c->graphs);
    TRY(cuda_graphs_open(&c->graphs, &c->forward, c->stream, c->step, c->most_blocks,
                         (int)p->max_rows, p->op_times, e));
    c->counts.graphs_captured = c->graphs.captured;
    return ST_OK;
}

static enum st begin_records(struct cuda_engine *c, struct err *e)
{
    ASSERT(c->n_out == 0);
    TRY(cuda_op_times_begin(&c->times, e));
    if (!c->recorded)
        TRY(capture_graphs(c, e));
    c->recorded = true;
    return ST_OK;
}

/* The pass alone on the device, with records of its kernels. */
static enum st launch_recorded(struct cuda_engine *c, struct gpu_flight *f, const struct batch *b,
                               struct err *e)
{
    TRY(launch(c, f, e));
    const struct cuda_charges *charges =
        f->graph_rows ? &cuda_graphs_for(&c->graphs, f->rows.n_decodes)->charges : &c->times.direct;
    return cuda_op_times_end(&c->times, b, charges, e);
}

static enum st submit(struct cuda_engine *c, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct gpu_flight *f = &c->flights[(c->first + c->n_out) % IN_FLIGHT];
    ASSERT(c->n_out < IN_FLIGHT);
    if (c->broken) {
        *e = c->fault;
        return e->st;
    }
    f->start_s = clock_now_s(c->p.clock);
    f->iteration = b->iteration;
    f->op_times = c->p.op_times && b->op_times;
    f->split = f->op_times && b->op_split;
    f->shape = cuda_pass_shape_of(b);
    TRY(rows_resolve(&c->rows, b, &f->rows, e));
    TRY(check_sizes(c, &f->rows, e));
    if (f->split)
        TRY(begin_records(c, e));
    if ((f->split ? launch_recorded(c, f, b, e) : launch(c, f, e)) != ST_OK)
        return fail(c, f, e);
    f->ticket = *ticket = ++c->ticket;
    f->answered = false;
    const double now_s = clock_now_s(c->p.clock);
    f->submit_s = now_s - f->start_s;
    f->prepare_s = f->began_s - fmax(b->submit_s, c->submitted_s);
    f->launch_s = now_s - f->began_s;
    f->given_s = now_s;
    c->submitted_s = now_s;
    c->n_out++;
    return ST_OK;
}

static enum st cuda_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    cuda_batch_range_begin(b);
    const enum st st = submit(self, b, ticket, e);
    cuda_batch_range_end();
    return st;
}

/* ---- completing ------------------------------------------------------------------------------ */

/* Until the batch is done or the time has come. */
static enum st wait_for(struct cuda_engine *c, const struct gpu_flight *f, double deadline_s,
                        bool *done, struct err *e)
{
    for (;;) {
        TRY(gpu_event_query(&c->gpu, f->end, done, e));
        if (*done || clock_now_s(c->p.clock) >= deadline_s)
            return ST_OK;
        if (!c->p.clock->spin)
            clock_sleep_until_ns(clock_mono_ns() + NAP_NS);
    }
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static enum st answer(struct cuda_engine *c, struct gpu_flight *f, struct err *e)
{
    struct completion *d = &f->done;
    const double seen_s = clock_now_s(c->p.clock);
    double device_s;
    TRY(gpu_event_s(&c->gpu, f->begin, f->end, &device_s, e));
    *d = (struct completion){.ticket = f->ticket, .start_s = f->start_s};
    rows_answer(&c->rows, &f->rows, f->ids, d);
    d->end_s = clock_now_s(c->p.clock);
    const double all_s = d->end_s - d->start_s;
    /* profiles take the device's word, also where its clock is not the host's (the fake GPU) */
    d->device_s = c->p.op_times ? device_s : least(device_s, all_s);
    d->host_s = least(f->submit_s + (d->end_s - seen_s), fmax(all_s - d->device_s, 0));
    d->prepare_s = f->prepare_s;
    d->launch_s = f->launch_s;
    d->answer_s = d->end_s - seen_s;
    d->starved = !f->graph_rows && seen_s - f->given_s < STARVED * device_s;
    if (f->op_times && cuda_op_times_of(&c->times, &f->shape, f->split, d->device_s, f->op_s))
        d->op_s = f->op_s;
    f->answered = true;
    return ST_OK;
}

static enum st cuda_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct cuda_engine *c = self;
    struct gpu_flight *f = &c->flights[c->first];
    bool done = true;
    if (c->n_out == 0)
        return ST_END;
    if (c->broken) {
        *e = c->fault;
        return e->st;
    }
    if (!f->answered && wait_for(c, f, deadline_s, &done, e) != ST_OK)
        return fail(c, f, e);
    if (!done)
        return ST_END;
    if (!f->answered && answer(c, f, e) != ST_OK)
        return fail(c, f, e);
    if (f->done.end_s > deadline_s)
        return ST_END;
    *out = f->done;
    c->first = (c->first + 1) % IN_FLIGHT;
    c->n_out--;
    return ST_OK;
}

static int32_t two_in_flight(void *self)
{
    (void)self;
    return IN_FLIGHT;
}

static void cuda_bind(void *self, struct slot_source source)
{
    struct cuda_engine *c = self;
    ASSERT(c->n_out == 0);
    c->submitted_s = -INFINITY; /* a new run's clock may begin anew */
    rows_bind(&c->rows, source);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void close_flight(struct cuda_engine *c, struct gpu_flight *f)
{
    void *ids = f->ids;
    gpu_host_free(&c->gpu, &f->step);
    gpu_host_free(&c->gpu, &ids);
    f->ids = NULL;
    gpu_event_close(&c->gpu, &f->begin);
    gpu_event_close(&c->gpu, &f->end);
}

static void log_phases(const struct cuda_engine *c)
{
    double s[CUDA_STEP_PHASES];
    char text[160] = "";
    if (!cuda_forward_phases(&c->forward, c->stream, s))
        return;
    for (int i = 0; i < CUDA_STEP_PHASES; i++) {
        const size_t n = strlen(text);
        const int interval = i < CUDA_STEP_PHASES - 1 ? i : i * (int)c->p.model->layers;
        snprintf(text + n, sizeof text - n, "%s%s %.1f", i ? ", " : "",
                 cuda_decode_step_phase((int)c->p.model->layers, interval), s[i] * 1e6);
    }
    log_debug("last step in one kernel, us of its phases over all layers: %s", text);
}

/* All that is on the GPU; what was closed stays so. */
static void close_gpu(struct cuda_engine *c)
{
    struct err ignored = {0};
    if (!c->gpu.context)
        return;
    if (c->stream)
        gpu_stream_wait(&c->gpu, c->stream, &ignored);
    log_phases(c);
    cuda_op_times_close(&c->times);
    cuda_graphs_close(&c->graphs);
    for (int i = 0; i < IN_FLIGHT; i++)
        close_flight(c, &c->flights[i]);
    gpu_free(&c->gpu, &c->step);
    cuda_forward_close(&c->forward);
    cuda_matmul_close(&c->matmul);
    cuda_weights_free(&c->gpu, &c->weights);
    cuda_programs_close(&c->programs);
    gpu_stream_close(&c->gpu, &c->stream);
    gpu_close(&c->gpu);
}

static void cuda_close(void *self)
{
    struct cuda_engine *c = self;
    close_gpu(c);
    for (int i = 0; i < IN_FLIGHT; i++)
        row_batch_free(&c->flights[i].rows);
    rows_close(&c->rows);
    mem_free(c);
}

static const struct executor_ops cuda_ops = {
    .name = "cuda",
    .help = "transformer on a GPU",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_COMPUTES,
    .max_in_flight = two_in_flight,
    .submit = cuda_submit,
    .next = cuda_next,
    .close = cuda_close,
    .bind = cuda_bind,
};

/* ---- for profiles ---------------------------------------------------------------------------- */

static int64_t padded_rows(void *self, int64_t rows)
{
    const struct cuda_engine *c = self;
    return rows < c->p.max_rows ? cuda_graph_bucket((int)rows, (int)c->p.max_rows) : rows;
}

static bool undisturbed(void *self)
{
    struct cuda_engine *c = self;
    return cuda_op_times_undisturbed(&c->times);
}

/* {operator: {kernel, time_in}} of a pass of that many prompt tokens or decode rows. */
static struct node *kernels_of(struct cuda_engine *c, struct arena *a, int tokens, int decodes)
{
    const struct cuda_pass p = {.sizes = {.tokens = tokens + decodes,
                                          .rows = decodes + (tokens > 0),
                                          .chunks = tokens > 0,
                                          .decodes = decodes}};
    struct node *map = node_new(a, NODE_MAP);
    struct op_list ops;
    model_ops(c->p.model, &ops);
    for (int i = 0; i < ops.n; i++) {
        enum op_kind charged;
        const char *carrier = cuda_forward_carrier(&c->forward, &p, ops.ops[i].kind, &charged);
        struct node *one = node_new(a, NODE_MAP);
        if (!carrier)
            continue;
        node_set(a, one, SV("kernel"), node_str(a, carrier));
        const struct op *in = op_list_at(&ops, op_list_row(&ops, charged, ops.ops[i].part));
        node_set(a, one, SV("time_in"), node_str(a, in ? in->name : op_name(charged)));
        node_set(a, map, sv_of(ops.ops[i].name), one);
    }
    return map;
}

static struct node *facts(void *self, struct arena *a)
{
    struct cuda_engine *c = self;
    struct node *map = node_new(a, NODE_MAP), *kernels = node_new(a, NODE_MAP);
    char uuid[GPU_UUID_TEXT];
    gpu_uuid_text(c->gpu.facts.uuid, uuid);
    node_set(a, map, SV("gpu"), node_str(a, arena_str(a, c->gpu.facts.name)));
    node_set(a, map, SV("uuid"), node_str(a, arena_str(a, uuid)));
    node_set(a, map, SV("cuda"), node_int(a, c->gpu.driver_version));
    node_set(a, map, SV("cublaslt"), node_int(a, (int64_t)c->matmul.blas.lt.version));
    node_set(a, map, SV("dtype"), node_str(a, dtype_name(cuda_plain_dtype(c->p.dtype))));
    cuda_op_times_facts(&c->times, a, map);
    node_set(a, kernels, SV("decode_1"), kernels_of(c, a, 0, 1));
    node_set(a, kernels, SV("decode_most"), kernels_of(c, a, 0, (int)c->p.max_rows));
    node_set(a, kernels, SV("prompt"), kernels_of(c, a, (int)c->p.max_batch_tokens, 0));
    node_set(a, map, SV("kernels"), kernels);
    return map;
}

/* The arrays of the batch are written as for a launch; what launches is the loop's. */
static enum st loop_batch(struct cuda_engine *c, struct gpu_flight *f, const struct op_loop *l,
                          struct op_loop_times *out, struct err *e)
{
    const struct row_batch *b = &f->rows;
    const bool decodes = b->n_chunks == 0 && !c->p.check;
    const struct cuda_graph *graph = decodes ? cuda_graphs_for(&c->graphs, b->n_decodes) : NULL;
    struct cuda_step_layout own;
    if (!graph) {
        const struct cuda_sizes sizes = sizes_of(c, b);
        cuda_step_lay_out(&sizes, c->most_blocks, &own);
    }
    const struct cuda_step_layout *layout = graph ? &graph->layout : &own;
    const size_t bytes = cuda_step_write(layout, b, c->p.block_size, f->step);
    ASSERT(bytes > 0);
    f->bytes = bytes;
    f->most = layout->most;
    f->graph_rows = graph ? graph->rows : 0;
    TRY(gpu_upload(&c->gpu, c->step, f->step, bytes, c->stream, e));
    const struct cuda_pass pass = pass_of(c, layout, b->sampled);
    TRY(cuda_op_loop_run(&c->forward, c->times.records, &pass, c->stream, l, out, e));
    TRY(gpu_download(&c->gpu, f->ids, c->forward.ids, (size_t)b->n_rows * sizeof *f->ids, c->stream,
                     e));
    return gpu_stream_wait(&c->gpu, c->stream, e);
}

static enum st cuda_loop(void *self, const struct batch *b, const struct op_loop *l,
                         struct op_loop_times *out, struct err *e)
{
    struct cuda_engine *c = self;
    struct gpu_flight *f = &c->flights[c->first];
    struct completion ignored = {0};
    ASSERT(c->n_out == 0);
    if (c->broken) {
        *e = c->fault;
        return e->st;
    }
    f->iteration = b->iteration;
    TRY(rows_resolve(&c->rows, b, &f->rows, e));
    TRY(check_sizes(c, &f->rows, e));
    if (loop_batch(c, f, l, out, e) != ST_OK)
        return fail(c, f, e);
    rows_answer(&c->rows, &f->rows, f->ids, &ignored);
    return ST_OK;
}

static const struct executor_ops cuda_profiled_ops = {
    .name = "cuda",
    .help = "transformer on a GPU, with operator times",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_COMPUTES | EXEC_OP_TIMES | EXEC_OP_SPLIT,
    .max_in_flight = two_in_flight,
    .submit = cuda_submit,
    .next = cuda_next,
    .close = cuda_close,
    .bind = cuda_bind,
    .padded_rows = padded_rows,
    .undisturbed = undisturbed,
    .facts = facts,
    .loop = cuda_loop,
};

static enum st check_params(const struct cuda_engine_params *p, struct err *e)
{
    const struct {
        const char *name;
        int64_t value, least, most;
    } rows[] = {{"block_size", p->block_size, 1, 1 << 16},
                {"num_blocks", p->num_blocks, 1, INT32_MAX / (p->block_size ? p->block_size : 1)},
                {"max_batch_tokens", p->max_batch_tokens, 1, 1 << 22},
                {"max_rows", p->max_rows, 1, 1 << 15},
                {"sample_vocab", p->sample_vocab, 0, p->model->vocab}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return err_set(e, ST_USAGE, "%s: %lld is not between %lld and %lld", rows[i].name,
                           (long long)rows[i].value, (long long)rows[i].least,
                           (long long)rows[i].most);
    return cuda_forward_check(p->model, p->dtype, e);
}

static enum st open_flights(struct cuda_engine *c, size_t step_bytes, struct err *e)
{
    for (int i = 0; i < IN_FLIGHT; i++) {
        struct gpu_flight *f = &c->flights[i];
        void *ids = NULL;
        TRY(gpu_host_alloc(&c->gpu, step_bytes, "the arrays of a batch", &f->step, e));
        TRY(gpu_host_alloc(&c->gpu, (size_t)c->p.max_rows * sizeof *f->ids, "the tokens of a batch",
                           &ids, e));
        f->ids = ids;
        TRY(gpu_event_open(&c->gpu, true, &f->begin, e));
        TRY(gpu_event_open(&c->gpu, true, &f->end, e));
    }
    return ST_OK;
}

static enum st open_programs(struct cuda_engine *c, struct err *e)
{
    const struct gpu_device *d = &c->gpu.facts;
    struct arena *a = arena_new();
    struct gpu_compiler *compiler = NULL;
    struct gpu_nvrtc nvrtc;
    enum st st = gpu_nvrtc_open(a, c->gpu.driver_version, &nvrtc, e);
    if (st == ST_OK) {
        gpu_compiler_open(&nvrtc, gpu_cache_dir(a, "kernels"), &compiler);
        st = cuda_programs_open(&c->gpu, compiler, c->p.dtype, (int)c->p.model->head_dim, 0,
                                &c->programs, e);
    }
    if (st == ST_OK)
        log_debug("kernels for %s ready in %.1f s", d->name, c->programs.ready_s);
    gpu_compiler_close(&compiler);
    arena_free(&a);
    return st;
}

static enum st load_weights(struct cuda_engine *c, struct err *e)
{
    struct cuda_random_maker maker = {0};
    struct cuda_random random;
    if (!c->p.weights_dir && !c->bare)
        TRY(cuda_random_open(&c->programs, &maker, e));
    random = cuda_random_of(&maker);
    const struct cuda_weights_params p = {.g = &c->gpu,
                                          .model = c->p.model,
                                          .dtype = cuda_plain_dtype(c->p.dtype),
                                          .dir = c->p.weights_dir,
                                          .seed = c->p.weights_seed,
                                          .random = c->bare ? NULL : &random};
    const enum st st = cuda_weights_load(&p, &c->weights, e);
    cuda_random_close(&maker);
    return st;
}

static enum st open_pieces(struct cuda_engine *c, struct err *e)
{
    const struct cuda_engine_params *p = &c->p;
    const int sms = (int)c->gpu.facts.sms;
    const struct cuda_forward_params f = {.model = p->model,
                                          .most = cuda_memory_sizes(p, sms),
                                          .block_size = p->block_size,
                                          .num_blocks = p->num_blocks,
                                          .slots = p->max_rows,
                                          .sample_vocab =
                                              p->sample_vocab ? p->sample_vocab : p->model->vocab,
                                          .fused = p->fused,
                                          .stamps = p->fused && p->stamps,
                                          .check = p->check};
    struct cuda_step_layout step;
    c->most_blocks = cuda_memory_blocks(p);
    cuda_step_lay_out(&f.most, c->most_blocks, &step);
    TRY(gpu_stream_open(&c->gpu, &c->stream, e));
    TRY(open_programs(c, e));
    TRY(load_weights(c, e));
    TRY(cuda_matmul_open(&c->matmul, &c->gpu, p->dtype, e));
    TRY(cuda_forward_open(&c->forward, &f, &c->programs, &c->matmul, &c->weights, c->stream, e));
    TRY(gpu_alloc(&c->gpu, step.bytes, "the arrays of a batch", &c->step, e));
    TRY(open_flights(c, step.bytes, e));
    if (!c->bare)
        TRY(cuda_forward_prepare(&c->forward, c->stream, e));
    if (p->op_times && !c->bare)
        TRY(cuda_op_times_open(&c->times, &c->gpu, e));
    TRY(capture_graphs(c, e));
    return gpu_stream_wait(&c->gpu, c->stream, e);
}

/* Taken by others since check_fits looked, or by libraries. */
static bool is_out_of_memory(const struct err *e)
{
    for (int i = 0; err_cause(e, i); i++)
        if (strstr(err_cause(e, i), "CUDA_ERROR_OUT_OF_MEMORY"))
            return true;
    return false;
}

static enum st open_engine(struct cuda_engine *c, struct err *e)
{
    const struct cuda_engine_params *p = &c->p;
    TRY(check_params(p, e));
    TRY(gpu_open(p->ordinal, &c->gpu, e));
    if (c->gpu.facts.major < 8) {
        err_set(e, ST_DEVICE, "%s has compute capability %u.%u", c->gpu.facts.name,
                c->gpu.facts.major, c->gpu.facts.minor);
        return err_hint(e, "engine=cuda wants 8.0 (A100, RTX 30) or newer");
    }
    const struct cuda_memory m = cuda_memory_of(p, (int)c->gpu.facts.sms);
    TRY(cuda_memory_fits(&m, &c->gpu, p, e));
    cuda_batch_range_open();
    const int64_t begin_ns = clock_mono_ns();
    if (open_pieces(c, e) != ST_OK)
        return is_out_of_memory(e) ? cuda_memory_add(&m, p, e) : e->st;
    const struct cuda_forward_params *f = &c->forward.p;
    rows_open(&c->rows, &(struct rows_params){.model = p->model,
                                              .block_size = p->block_size,
                                              .num_blocks = p->num_blocks,
                                              .max_tokens = p->max_batch_tokens,
                                              .max_rows = p->max_rows,
                                              .max_position = c->forward.max_position,
                                              .ignore_eos = p->ignore_eos});
    log_debug("%s: %s weights %.2f GB, KV cache %.2f GB, %lld graphs, %d tokens at most; open in "
              "%.1f s",
              c->gpu.facts.name, cuda_dtype_name(p->dtype), (double)m.weights / 1e9,
              (double)m.cache / 1e9, (long long)c->counts.graphs_captured, f->most.tokens,
              ns_to_s(clock_mono_ns() - begin_ns));
    return ST_OK;
}

enum st cuda_engine_open(const struct cuda_engine_params *p, struct executor *out, struct err *e)
{
    struct cuda_engine *c = mem_alloc(sizeof *c);
    c->p = *p;
    if (open_engine(c, e) != ST_OK) {
        cuda_close(c);
        return err_add(e, "cannot open the CUDA engine");
    }
    *out = (struct executor){p->op_times ? &cuda_profiled_ops : &cuda_ops, c};
    return ST_OK;
}

/* ---- again, kernel by kernel ------------------------------------------------------------------
 */

static enum st run_again(struct cuda_engine *c, const struct cuda_fault_batch *b, struct err *e)
{
    struct cuda_step_layout l;
    cuda_step_lay_out(&b->most, c->most_blocks, &l);
    ASSERT(b->bytes <= l.bytes);
    TRY(gpu_upload(&c->gpu, c->step, b->step, b->bytes, c->stream, e));
    TRY(run_directly(c, &l, b->sampled, e));
    return gpu_stream_wait(&c->gpu, c->stream, e);
}

enum st cuda_engine_rerun(const struct cuda_engine_params *p,
                          const struct cuda_fault_batch *batches, int n, int *failed, struct err *e)
{
    struct cuda_engine *c = mem_alloc(sizeof *c);
    *failed = -1;
    c->p = *p;
    c->p.check = c->bare = true;
    enum st st = open_engine(c, e);
    for (int i = 0; st == ST_OK && i < n; i++) {
        st = run_again(c, &batches[i], e);
        if (st != ST_OK)
            *failed = i;
    }
    cuda_close(c);
    return st;
}

/* ---- for tests ------------------------------------------------------------------------------- */

struct cuda_engine_counts cuda_engine_counts(const struct executor *ex)
{
    const struct cuda_engine *c = ex->self;
    struct cuda_engine_counts n = c->counts;
    n.graphs_captured = c->graphs.captured;
    return n;
}

bool cuda_engine_phases(const struct executor *ex, double s[CUDA_STEP_PHASES])
{
    const struct cuda_engine *c = ex->self;
    ASSERT(c->n_out == 0);
    return cuda_forward_phases(&c->forward, c->stream, s);
}

enum st cuda_engine_logits(const struct executor *ex, int64_t n, float *out, struct err *e)
{
    const struct cuda_engine *c = ex->self;
    ASSERT(c->n_out == 0 && n <= c->p.max_rows);
    if (c->broken) {
        *e = c->fault;
        return e->st;
    }
    TRY(gpu_download(&c->gpu, out, c->forward.logits, (size_t)(n * c->p.model->vocab) * sizeof *out,
                     c->stream, e));
    return gpu_stream_wait(&c->gpu, c->stream, e);
}
