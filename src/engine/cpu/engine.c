#include "engine/engine.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "engine/cpu/forward.h"
#include "engine/cpu/ready.h"
#include "engine/decode_set.h"

struct cpu_engine {
    struct forward f;
    const struct serve_clock *clock;
    struct slot_source source;
    struct decode_set decodes;
    bool ignore_eos;

    uint64_t ticket; /* of the last batch */
    enum { IDLE, SUBMITTED, DONE } state;
    int32_t *row_slot; /* [max_rows] */
    double submit_s;   /* host seconds of submit() */
    struct completion done;
    struct emitted *tokens; /* [max_rows] */
    int32_t *ended;         /* [max_rows] */
};

/* ---- a batch to rows ----------------------------------------------------------------------- */

static enum st add_segment(struct cpu_engine *c, int32_t slot, int64_t start, int64_t tokens,
                           bool emits, struct err *e)
{
    struct forward *f = &c->f;
    const struct slot_view view = c->source.view(c->source.self, slot);
    const int64_t first = f->n_tokens;
    if (start + tokens > f->max_position)
        return err_set(e, ST_USAGE,
                       "a sequence of %lld tokens: the model and its KV cache hold %lld at most",
                       (long long)(start + tokens), (long long)f->max_position);
    f->segments[f->n_chunks + f->n_decodes] = (struct segment){first, tokens, start, view.blocks};
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t position = start + i;
        const int32_t id = view.ids[position], block = view.blocks[position / f->block_size];
        if (id < 0 || id >= f->m->vocab)
            return err_set(e, ST_USAGE, "token id %d: the model has %lld", id,
                           (long long)f->m->vocab);
        ASSERT(block >= 0 && block < f->num_blocks);
        ready_in_use(f->ready, block);
        f->ids[first + i] = id;
        f->positions[first + i] = position;
        f->kv_at[first + i] = block * f->block_size + position % f->block_size;
    }
    f->n_tokens += tokens;
    if (emits) {
        c->row_slot[f->n_rows] = slot;
        f->row_sampling[f->n_rows] = view.sampling;
        f->sampled |= view.sampling != NULL;
        f->row_token[f->n_rows++] = f->n_tokens - 1;
    }
    return ST_OK;
}

static enum st check_size(const struct cpu_engine *c, const struct batch *b, struct err *e)
{
    const int64_t tokens = b->prefill_tokens + b->n_decodes, rows = b->n_last_chunks + b->n_decodes;
    if (tokens > c->f.max_tokens)
        return err_set(e, ST_USAGE, "a batch of %lld tokens: the engine was opened for %lld",
                       (long long)tokens, (long long)c->f.max_tokens);
    if (rows > c->f.max_rows)
        return err_set(e, ST_USAGE, "a batch of %lld emitting rows: the engine was opened for %lld",
                       (long long)rows, (long long)c->f.max_rows);
    return ST_OK;
}

static enum st cpu_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct cpu_engine *c = self;
    struct forward *f = &c->f;
    ASSERT(c->state == IDLE && c->source.view);
    const double start_s = clock_now_s(c->clock);
    TRY(check_size(c, b, e));
    ready_busy(f->ready, true);
    decode_set_apply(&c->decodes, b);

    const size_t segments = (size_t)(b->n_chunks + b->n_decodes);
    if (segments > f->segments_cap) {
        f->segments_cap = 2 * segments;
        f->segments = mem_resize(f->segments, f->segments_cap * sizeof *f->segments);
    }
    f->timed = b->op_times;
    f->n_tokens = f->n_rows = f->n_chunks = f->n_decodes = 0;
    f->sampled = false;
    for (int32_t i = 0; i < b->n_chunks; i++, f->n_chunks++) {
        const struct chunk *k = &b->chunks[i];
        TRY(add_segment(c, k->slot, k->start, k->tokens, k->last, e));
    }
    for (int32_t i = 0; i < b->n_decodes; i++, f->n_decodes++) {
        const int32_t slot = c->decodes.slots[i];
        const int64_t at = c->source.view(c->source.self, slot).kv_tokens;
        TRY(add_segment(c, slot, at, 1, true, e));
    }
    ASSERT(f->n_tokens == b->prefill_tokens + b->n_decodes);
    *ticket = ++c->ticket;
    c->state = SUBMITTED;
    c->done = (struct completion){.ticket = c->ticket, .start_s = start_s};
    c->submit_s = clock_now_s(c->clock) - start_s;
    return ST_OK;
}

/* ---- the completion ------------------------------------------------------------------------ */

static bool ends_sequence(const struct cpu_engine *c, int32_t id)
{
    for (int64_t i = 0; i < c->f.m->n_eos; i++)
        if (c->f.m->eos_ids[i] == id)
            return !c->ignore_eos;
    return false;
}

static void compute(struct cpu_engine *c)
{
    struct completion *d = &c->done;
    const double begin_s = clock_now_s(c->clock);
    forward_run(&c->f);
    const double computed_s = clock_now_s(c->clock);
    for (int64_t r = 0; r < c->f.n_rows; r++) {
        const int32_t slot = c->row_slot[r], id = c->f.ids_out[r];
        c->tokens[d->n_tokens++] = (struct emitted){slot, id};
        if (ends_sequence(c, id))
            c->ended[d->n_ended++] = slot;
    }
    d->tokens = c->tokens;
    d->ended = c->ended;
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
    c->source = source;
    c->decodes.n = 0;
}

static void cpu_close(void *self)
{
    struct cpu_engine *c = self;
    forward_free(&c->f);
    decode_set_free(&c->decodes);
    mem_free(c->row_slot);
    mem_free(c->tokens);
    mem_free(c->ended);
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
    c->ignore_eos = p->ignore_eos;
    c->row_slot = mem_alloc((size_t)p->max_rows * sizeof *c->row_slot);
    c->tokens = mem_alloc((size_t)p->max_rows * sizeof *c->tokens);
    c->ended = mem_alloc((size_t)p->max_rows * sizeof *c->ended);
    *out = (struct executor){&cpu_ops, c};
    return ST_OK;
}

const float *cpu_engine_logits(const struct executor *ex, int64_t *n_rows)
{
    const struct cpu_engine *c = ex->self;
    *n_rows = c->f.n_rows;
    return c->f.logits;
}
