#include "base/clock.h"
#include "engine/engine.h"
#include "engine/registry.h"
#include "engine/rows.h"
#include "sim/sim.h"

/* A slot's text: the prompt, over and over. */
struct echo {
    int64_t prompt;  /* tokens of the prompt; 0 = not begun */
    int64_t emitted; /* tokens emitted so far */
};

/* A batch whose completion was not delivered yet. */
struct held_answer {
    uint64_t ticket;
    struct row_batch batch;
    int32_t *ids; /* [cap] of its rows */
    int64_t cap;
};

struct paced {
    struct executor sim;
    const struct serve_clock *clock;
    double *late_s;
    struct rows rows;
    struct echo *echoes;         /* [slots] */
    struct held_answer *answers; /* [in flight], ring by ticket */
    uint64_t n_answers;
    struct completion next; /* from sim, waiting for its end */
    bool waiting;
};

static int32_t in_flight(void *self)
{
    struct paced *s = self;
    return s->sim.ops->max_in_flight(s->sim.self);
}

static int32_t lanes(void *self)
{
    struct paced *s = self;
    return s->sim.ops->lanes(s->sim.self);
}

static bool turns(void *self)
{
    struct paced *s = self;
    return s->sim.ops->turns(s->sim.self);
}

static enum st paced_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct paced *s = self;
    TRY(s->sim.ops->submit(s->sim.self, b, ticket, e));
    struct held_answer *a = &s->answers[*ticket % s->n_answers];
    a->ticket = *ticket;
    TRY(rows_resolve(&s->rows, b, &a->batch, e));
    if (a->batch.n_rows > a->cap) {
        a->cap = 2 * a->batch.n_rows;
        a->ids = mem_resize(a->ids, (size_t)a->cap * sizeof *a->ids);
    }
    for (int32_t i = 0; i < b->n_chunks; i++) {
        const struct chunk *c = &b->chunks[i];
        if (c->last && s->echoes[c->slot].prompt == 0) /* not after a preemption */
            s->echoes[c->slot] = (struct echo){c->start + c->tokens, 0};
    }
    for (int64_t i = 0; i < a->batch.n_rows; i++) {
        const int32_t slot = a->batch.row_slot[i];
        struct echo *echo = &s->echoes[slot];
        const struct slot_source *from = &s->rows.source;
        a->ids[i] = from->view(from->self, slot).ids[echo->emitted++ % echo->prompt];
    }
    return ST_OK;
}

static enum st paced_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct paced *s = self;
    if (!s->waiting) {
        TRY(s->sim.ops->next(s->sim.self, 1e300, &s->next, e));
        s->waiting = true;
    }
    double end_s = s->next.end_s, until_s = end_s < deadline_s ? end_s : deadline_s, now_s;
    while ((now_s = clock_now_s(s->clock)) < until_s)
        clock_sleep_until_ns(s->clock->mono0_ns + ns_from_s(until_s));
    if (end_s > deadline_s)
        return ST_END;
    if (s->late_s && now_s - end_s > *s->late_s)
        *s->late_s = now_s - end_s;
    struct held_answer *a = &s->answers[s->next.ticket % s->n_answers];
    ASSERT(a->ticket == s->next.ticket);
    s->waiting = false;
    *out = s->next;
    rows_answer(&s->rows, &a->batch, a->ids, out);
    return ST_OK;
}

static void paced_bind(void *self, struct slot_source source)
{
    rows_bind(&((struct paced *)self)->rows, source);
}

static void paced_release(void *self, int32_t slot)
{
    ((struct paced *)self)->echoes[slot] = (struct echo){0};
}

static void paced_close(void *self)
{
    struct paced *s = self;
    rows_close(&s->rows);
    for (uint64_t i = 0; i < s->n_answers; i++) {
        row_batch_free(&s->answers[i].batch);
        mem_free(s->answers[i].ids);
    }
    s->sim.ops->close(s->sim.self);
}

static const struct executor_ops paced_ops = {
    .name = "sim",
    .help = "predicts how long each batch takes, and takes that long",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_COMPUTES,
    .max_in_flight = in_flight,
    .submit = paced_submit,
    .next = paced_next,
    .close = paced_close,
    .bind = paced_bind,
    .release = paced_release,
    .lanes = lanes,
    .turns = turns,
};

struct executor paced_executor(struct arena *a, const struct predictor *p, int32_t slots,
                               enum serve_async async, const struct serve_clock *clock,
                               double *late_s)
{
    struct paced *s = arena_one(a, struct paced);
    s->sim = sim_executor(a, p, async);
    s->clock = clock;
    s->late_s = late_s;
    s->echoes = arena_array(a, struct echo, slots);
    rows_open(&s->rows, &(struct rows_params){.lanes = lanes(s)});
    s->n_answers = (uint64_t)in_flight(s);
    s->answers = arena_array(a, struct held_answer, s->n_answers);
    return (struct executor){&paced_ops, s};
}

enum st paced_engine_start(const struct engine_job *job, struct executor *out, struct err *e)
{
    (void)e;
    *out = paced_executor(job->a, job->predictor, (int32_t)job->max_rows, job->async, job->clock,
                          job->late_s);
    return ST_OK;
}
