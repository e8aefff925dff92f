#include "engine/engine.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "engine/cpu/forward.h"
#include "engine/cpu/ready.h"
#include "engine/registry.h"
#include "engine/rows.h"

struct cpu_engine {
    struct forward f;
    const struct serve_clock *clock;
    struct rows rows;
    struct row_batch batch;

    uint64_t ticket; /* of the last batch */
    enum { IDLE, SUBMITTED, DONE } state;
    double submit_s; /* host seconds of submit() */
    struct completion done;
};

static enum st cpu_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct cpu_engine *c = self;
    ASSERT(c->state == IDLE);
    const double start_s = clock_now_s(c->clock);
    ready_busy(c->f.ready, true);
    TRY(rows_resolve(&c->rows, b, &c->batch, e));
    ready_in_use(c->f.ready, c->batch.top_block);
    c->f.timed = b->op_times;
    *ticket = ++c->ticket;
    c->state = SUBMITTED;
    c->done = (struct completion){.ticket = c->ticket, .start_s = start_s};
    c->submit_s = clock_now_s(c->clock) - start_s;
    return ST_OK;
}

static void compute(struct cpu_engine *c)
{
    struct completion *d = &c->done;
    const double begin_s = clock_now_s(c->clock);
    forward_run(&c->f);
    const double computed_s = clock_now_s(c->clock);
    rows_answer(&c->rows, &c->batch, c->f.ids_out, d);
    d->op_s = c->f.timed ? c->f.op_s : NULL;
    d->device_s = computed_s - begin_s;
    d->end_s = clock_now_s(c->clock);
    d->host_s = c->submit_s + (d->end_s - computed_s);
    c->state = DONE;
}

/* The calling thread computes, so a deadline cannot stop a batch half-way: one that ends too late
 * is kept for the next call. */
static enum st cpu_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    (void)e;
    struct cpu_engine *c = self;
    if (c->state == SUBMITTED)
        compute(c);
    if (c->state == IDLE || c->done.end_s > deadline_s)
        return ST_END;
    *out = c->done;
    c->state = IDLE;
    ready_busy(c->f.ready, false);
    return ST_OK;
}

static int32_t one_in_flight(void *self)
{
    (void)self;
    return 1;
}

static void cpu_bind(void *self, struct slot_source source)
{
    struct cpu_engine *c = self;
    ASSERT(c->state == IDLE);
    rows_bind(&c->rows, source);
}

static void cpu_close(void *self)
{
    struct cpu_engine *c = self;
    forward_free(&c->f);
    rows_close(&c->rows);
    row_batch_free(&c->batch);
    mem_free(c);
}

static const struct executor_ops cpu_ops = {
    .name = "cpu",
    .help = "float32 transformer on the host's cores",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_COMPUTES | EXEC_OP_TIMES,
    .max_in_flight = one_in_flight,
    .submit = cpu_submit,
    .next = cpu_next,
    .close = cpu_close,
    .bind = cpu_bind,
};

enum st cpu_engine_open(const struct cpu_engine_params *p, struct executor *out, struct err *e)
{
    TRY(model_check_computed(p->model, e));
    struct cpu_engine *c = mem_alloc(sizeof *c);
    if (forward_open(&c->f, p, e) != ST_OK) {
        cpu_close(c);
        return err_add(e, "cannot open the CPU engine");
    }
    if (p->threads > pool_cores())
        log_warn(
            "engine.threads=%d, but this process has %d cores: threads will wait for each other",
            p->threads, pool_cores());
    c->clock = p->clock;
    c->f.b = &c->batch;
    rows_open(&c->rows, &(struct rows_params){.model = p->model,
                                              .block_size = p->block_size,
                                              .num_blocks = p->num_blocks,
                                              .max_tokens = p->max_batch_tokens,
                                              .max_rows = p->max_rows,
                                              .max_position = c->f.max_position,
                                              .ignore_eos = p->ignore_eos});
    *out = (struct executor){&cpu_ops, c};
    return ST_OK;
}

enum st cpu_engine_start(const struct engine_job *job, struct executor *out, struct err *e)
{
    const struct cpu_engine_params p = {
        .model = job->model,
        .weights_dir = job->weights_dir,
        .weights_seed = job->weights_seed,
        .threads = (int)job->settings->threads,
        .block_size = job->block_size,
        .num_blocks = job->num_blocks,
        .busy_blocks = job->ready_blocks,
        .ready_later = job->ready_later,
        .max_batch_tokens = job->max_batch_tokens,
        .max_rows = job->max_rows,
        .sample_vocab = job->sample_vocab,
        .ignore_eos = job->ignore_eos,
        .spin = job->clock->spin,
        .clock = job->clock,
    };
    return cpu_engine_open(&p, out, e);
}

enum st cpu_engine_read_logits(const struct executor *ex, int64_t n, float *out, struct err *e)
{
    const struct cpu_engine *c = ex->self;
    (void)e;
    ASSERT(n <= c->batch.n_rows);
    memcpy(out, c->f.logits, (size_t)(n * c->f.m->vocab) * sizeof *out);
    return ST_OK;
}

const float *cpu_engine_logits(const struct executor *ex, int64_t *n_rows)
{
    const struct cpu_engine *c = ex->self;
    *n_rows = c->batch.n_rows;
    return c->f.logits;
}
