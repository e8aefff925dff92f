#include "engine/cuda/engine.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/cuda/graphs.h"
#include "engine/cuda/plan.h"
#include "engine/cuda/random.h"
#include "engine/rows.h"
#include "gpu/cache.h"
#include "gpu/library.h"
#include "gpu/stream.h"

enum { IN_FLIGHT = 2 };
static const int64_t NAP_NS = 20000; /* between looks at a batch, where sleep is wanted */

/* A batch that is out, and its memory on the host, which the next one in its place takes over. */
struct flight {
    struct row_batch rows;
    uint64_t ticket;
    int64_t iteration;
    int graph_rows; /* of the graph; 0 = kernel by kernel */
    void *step;     /* page-locked: the arrays */
    int32_t *ids;   /* page-locked, [max_rows] */
    CUevent begin, end;
    double start_s, submit_s; /* submit_s: the host's part in submit() */
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

    struct rows rows;
    struct flight flights[IN_FLIGHT];
    int first, n_out; /* flights out: first, ... */
    uint64_t ticket;  /* of the last batch */
    bool broken;
    struct err fault; /* broken: what every later call returns */
};

/* ---- errors ---------------------------------------------------------------------------------- */

/* Keeps an error of the GPU for all later calls, with the batch it belongs to. late: it came while
 * the batch was waited for, so what the GPU was doing is not known. */
static enum st fail(struct cuda_engine *c, const struct flight *f, bool late, struct err *e)
{
    const struct row_batch *b = &f->rows;
    char graph[48] = "";
    if (f->graph_rows)
        snprintf(graph, sizeof graph, ", CUDA graph of %d rows", f->graph_rows);
    err_add(e, "batch %lld (%lld chunks, %lld tokens; %lld decode rows%s) on GPU %d, %s",
            (long long)f->iteration, (long long)b->n_chunks,
            (long long)(b->n_tokens - b->n_decodes), (long long)b->n_decodes, graph, c->gpu.ordinal,
            c->gpu.facts.name);
    if (late && !c->p.check)
        err_add(e, "a kernel failed; engine.check=true waits behind every kernel and names it");
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

static enum st run_directly(struct cuda_engine *c, const struct cuda_step_layout *l, bool sampled,
                            struct err *e)
{
    const struct cuda_pass p = {.sizes = l->most,
                                .batch = cuda_step_at(l, c->step, c->forward.last),
                                .sampled = sampled,
                                .sampling = cuda_step_sampling(l, c->step),
                                .draw_at = cuda_step_draw_at(l, c->step)};
    c->counts.passes++;
    return cuda_forward_run(&c->forward, &p, c->stream, e);
}

static enum st launch(struct cuda_engine *c, struct flight *f, struct err *e)
{
    const struct row_batch *b = &f->rows;
    const struct cuda_sizes sizes = {.tokens = (int)b->n_tokens,
                                     .rows = (int)b->n_rows,
                                     .chunks = (int)b->n_chunks,
                                     .decodes = (int)b->n_decodes,
                                     .sms = c->forward.p.most.sms};
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
    TRY(gpu_event_record(&c->gpu, f->begin, c->stream, e));
    TRY(gpu_upload(&c->gpu, c->step, f->step, bytes, c->stream, e));
    if (graph) {
        c->counts.graphs_launched++;
        TRY(cuda_graphs_launch(&c->graphs, graph, b->sampled, e));
    } else {
        TRY(run_directly(c, l, b->sampled, e));
    }
    if (b->n_rows > 0)
        TRY(gpu_download(&c->gpu, f->ids, c->forward.ids, (size_t)b->n_rows * sizeof *f->ids,
                         c->stream, e));
    return gpu_event_record(&c->gpu, f->end, c->stream, e);
}

static enum st cuda_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct cuda_engine *c = self;
    struct flight *f = &c->flights[(c->first + c->n_out) % IN_FLIGHT];
    ASSERT(c->n_out < IN_FLIGHT);
    if (c->broken) {
        *e = c->fault;
        return e->st;
    }
    f->start_s = clock_now_s(c->p.clock);
    f->iteration = b->iteration;
    TRY(rows_resolve(&c->rows, b, &f->rows, e));
    TRY(check_sizes(c, &f->rows, e));
    if (launch(c, f, e) != ST_OK)
        return fail(c, f, false, e);
    f->ticket = *ticket = ++c->ticket;
    f->answered = false;
    f->submit_s = clock_now_s(c->p.clock) - f->start_s;
    c->n_out++;
    return ST_OK;
}

/* ---- completing ------------------------------------------------------------------------------ */

/* Until the batch is done or the time has come. */
static enum st wait_for(struct cuda_engine *c, const struct flight *f, double deadline_s,
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

static enum st answer(struct cuda_engine *c, struct flight *f, struct err *e)
{
    struct completion *d = &f->done;
    const double seen_s = clock_now_s(c->p.clock);
    double device_s;
    TRY(gpu_event_s(&c->gpu, f->begin, f->end, &device_s, e));
    *d = (struct completion){.ticket = f->ticket, .start_s = f->start_s};
    rows_answer(&c->rows, &f->rows, f->ids, d);
    d->end_s = clock_now_s(c->p.clock);
    const double all_s = d->end_s - d->start_s;
    d->device_s = least(device_s, all_s);
    d->host_s = least(f->submit_s + (d->end_s - seen_s), all_s - d->device_s);
    f->answered = true;
    return ST_OK;
}

static enum st cuda_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct cuda_engine *c = self;
    struct flight *f = &c->flights[c->first];
    bool done = true;
    if (c->n_out == 0)
        return ST_END;
    if (c->broken) {
        *e = c->fault;
        return e->st;
    }
    if (!f->answered && wait_for(c, f, deadline_s, &done, e) != ST_OK)
        return fail(c, f, true, e);
    if (!done)
        return ST_END;
    if (!f->answered && answer(c, f, e) != ST_OK)
        return fail(c, f, true, e);
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
    rows_bind(&c->rows, source);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void close_flight(struct cuda_engine *c, struct flight *f)
{
    void *ids = f->ids;
    row_batch_free(&f->rows);
    gpu_host_free(&c->gpu, &f->step);
    gpu_host_free(&c->gpu, &ids);
    gpu_event_close(&c->gpu, &f->begin);
    gpu_event_close(&c->gpu, &f->end);
}

static void cuda_close(void *self)
{
    struct cuda_engine *c = self;
    struct err ignored = {0};
    if (c->gpu.context) {
        if (c->stream)
            gpu_stream_wait(&c->gpu, c->stream, &ignored);
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

/* Refuses before anything is allocated. */
static enum st check_fits(const struct cuda_engine *c, const struct cuda_memory *m, struct err *e)
{
    char sum[STR_BYTES_MAX], have[STR_BYTES_MAX], total[STR_BYTES_MAX];
    if (cuda_memory_sum(m) < c->gpu.free_bytes)
        return ST_OK;
    str_from_bytes(sum, (int64_t)cuda_memory_sum(m));
    str_from_bytes(have, (int64_t)c->gpu.free_bytes);
    str_from_bytes(total, (int64_t)c->gpu.total_bytes);
    err_set(e, ST_USAGE, "%s are needed, and %s of %s are free on GPU %d, %s", sum, have, total,
            c->gpu.ordinal, c->gpu.facts.name);
    return cuda_memory_add(m, &c->p, e);
}

static enum st open_flights(struct cuda_engine *c, size_t step_bytes, struct err *e)
{
    for (int i = 0; i < IN_FLIGHT; i++) {
        struct flight *f = &c->flights[i];
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
    if (!c->p.weights_dir)
        TRY(cuda_random_open(&c->programs, &maker, e));
    random = cuda_random_of(&maker);
    const struct cuda_weights_params p = {.g = &c->gpu,
                                          .model = c->p.model,
                                          .dtype = cuda_plain_dtype(c->p.dtype),
                                          .dir = c->p.weights_dir,
                                          .seed = c->p.weights_seed,
                                          .random = &random};
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
    TRY(cuda_forward_prepare(&c->forward, c->stream, e));
    if (!p->check)
        TRY(cuda_graphs_open(&c->graphs, &c->forward, c->stream, c->step, c->most_blocks,
                             (int)p->max_rows, e));
    c->counts.graphs_captured = c->graphs.captured;
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
    TRY(check_fits(c, &m, e));
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
    *out = (struct executor){&cuda_ops, c};
    return ST_OK;
}

/* ---- for tests ------------------------------------------------------------------------------- */

struct cuda_engine_counts cuda_engine_counts(const struct executor *ex)
{
    const struct cuda_engine *c = ex->self;
    struct cuda_engine_counts n = c->counts;
    n.graphs_captured = c->graphs.captured;
    return n;
}

enum st cuda_engine_logits(const struct executor *ex, int64_t n, float *out, struct err *e)
{
    const struct cuda_engine *c = ex->self;
    ASSERT(c->n_out == 0 && n <= c->p.max_rows);
    TRY(gpu_download(&c->gpu, out, c->forward.logits, (size_t)(n * c->p.model->vocab) * sizeof *out,
                     c->stream, e));
    return gpu_stream_wait(&c->gpu, c->stream, e);
}
