#include "base/clock.h"
#include "base/vec.h"
#include "sim/sim.h"

/* A slot's text: the prompt, over and over. */
struct echo {
    int64_t prompt, emitted; /* tokens; prompt 0 = not begun */
};

struct rows {
    int32_t *p;
    size_t n, cap;
};

/* A batch's tokens, kept until its completion was delivered. */
struct answer {
    uint64_t ticket;
    struct emitted *tokens;
    size_t n, cap;
};

struct paced {
    struct executor sim;
    const struct serve_clock *clock;
    double *late_s;
    struct slot_source source;
    struct echo *echoes;    /* [slots] */
    struct rows *lanes;     /* [n_lanes]: the decode set */
    struct answer *answers; /* [in flight], ring by ticket */
    uint64_t n_answers;
    struct completion next; /* of sim, waiting for its time */
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

static void emit(struct paced *s, struct answer *a, int32_t slot)
{
    struct echo *e = &s->echoes[slot];
    const int32_t *ids = s->source.view(s->source.self, slot).ids;
    int32_t id = ids[e->emitted++ % e->prompt];
    if (a->n == a->cap) {
        a->cap = a->cap ? 2 * a->cap : 64;
        a->tokens = mem_resize(a->tokens, a->cap * sizeof *a->tokens);
    }
    a->tokens[a->n++] = (struct emitted){slot, id};
}

static void apply(struct rows *r, const struct batch *b)
{
    for (int32_t i = 0; i < b->n_left; i++) {
        size_t k = 0;
        while (k < r->n && r->p[k] != b->left[i])
            k++;
        ASSERT(k < r->n);
        r->p[k] = r->p[--r->n];
    }
    for (int32_t i = 0; i < b->n_entered; i++)
        vec_push(r, b->entered[i]);
}

static enum st paced_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct paced *s = self;
    TRY(s->sim.ops->submit(s->sim.self, b, ticket, e));
    struct answer *a = &s->answers[*ticket % s->n_answers];
    a->ticket = *ticket;
    a->n = 0;
    apply(&s->lanes[b->lane], b);
    for (int32_t i = 0; i < b->n_chunks; i++) {
        const struct chunk *c = &b->chunks[i];
        if (!c->last)
            continue;
        if (s->echoes[c->slot].prompt == 0) /* not after a preemption */
            s->echoes[c->slot] = (struct echo){c->start + c->tokens, 0};
        emit(s, a, c->slot);
    }
    for (size_t i = 0; b->n_decodes > 0 && i < s->lanes[b->lane].n; i++)
        emit(s, a, s->lanes[b->lane].p[i]);
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
    const struct answer *a = &s->answers[s->next.ticket % s->n_answers];
    ASSERT(a->ticket == s->next.ticket);
    s->waiting = false;
    *out = s->next;
    out->tokens = a->tokens;
    out->n_tokens = (int32_t)a->n;
    return ST_OK;
}

static void paced_bind(void *self, struct slot_source source)
{
    struct paced *s = self;
    s->source = source;
    for (int32_t i = 0; i < lanes(self); i++)
        s->lanes[i].n = 0;
}

static void paced_release(void *self, int32_t slot)
{
    ((struct paced *)self)->echoes[slot] = (struct echo){0};
}

static void paced_close(void *self)
{
    struct paced *s = self;
    for (int32_t i = 0; i < lanes(self); i++)
        vec_free(&s->lanes[i]);
    for (uint64_t i = 0; i < s->n_answers; i++)
        mem_free(s->answers[i].tokens);
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
};

struct executor sim_paced_executor(struct arena *a, const struct predictor *p, int32_t slots,
                                   const struct serve_clock *clock, double *late_s)
{
    struct paced *s = arena_one(a, struct paced);
    s->sim = sim_executor(a, p);
    s->clock = clock;
    s->late_s = late_s;
    s->echoes = arena_array(a, struct echo, slots);
    s->lanes = arena_array(a, struct rows, lanes(s));
    s->n_answers = (uint64_t)in_flight(s);
    s->answers = arena_array(a, struct answer, s->n_answers);
    return (struct executor){&paced_ops, s};
}
