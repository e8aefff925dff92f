#include "support/logged_server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

/* By order: seconds of a batch, of a pause. */
static const double STEP_S = 1, PAUSE_S = 100;

struct arriving {
    double at_s;
    size_t place; /* in the queue of the log */
    size_t request;
};

struct replay {
    struct logged_server *s;
    struct arriving *arriving; /* [n] */
    size_t n, next;
    size_t k; /* logged iteration of the next batch */
    struct completion out[2];
    int32_t n_out;
    uint64_t tickets;
};

static int by_arrival(const void *pa, const void *pb)
{
    const struct arriving *a = pa, *b = pb;
    if (a->at_s != b->at_s)
        return a->at_s < b->at_s ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

/* When each iteration begins, by order. */
static double *starts_by_order(struct arena *a, const struct iteration_match *m)
{
    double *start = arena_array(a, double, m->n), now = 0;
    for (size_t i = 0; i < m->n; i++) {
        now += m->of[i].idle_before ? PAUSE_S : STEP_S;
        start[i] = now;
    }
    return start;
}

static void make_arrivals(struct arena *a, struct replay *r)
{
    const struct iteration_match *m = r->s->match;
    const double *start = starts_by_order(a, m);
    r->arriving = arena_array(a, struct arriving, r->s->run->n_requests);
    for (size_t i = 0; i < m->n; i++)
        for (size_t c = m->of[i].chunk; c < m->of[i].chunk + (size_t)m->of[i].is.chunks; c++) {
            const struct matched_chunk *x = &m->chunks[c];
            const double sent_s = ns_to_s(r->s->run->requests[x->request].arrival_ns);
            if (x->start > 0)
                continue;
            r->arriving[r->n] = (struct arriving){r->s->times            ? sent_s + r->s->delay_s
                                                  : m->of[i].idle_before ? start[i]
                                                                         : start[i] - STEP_S / 2,
                                                  c, x->request};
            r->n++;
        }
    qsort(r->arriving, r->n, sizeof *r->arriving, by_arrival);
}

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct replay *r = self;
    (void)e;
    if (r->next == r->n)
        return ST_END;
    const struct arriving *x = &r->arriving[r->next];
    const struct run_request *q = &r->s->run->requests[x->request];
    *out = (struct workload_request){.request_id = (int64_t)r->next,
                                     .row = (int64_t)r->next,
                                     .arrival_ns = llround(1e9 * x->at_s),
                                     .arrival_s = x->at_s,
                                     .num_prefill_tokens = q->num_prefill_tokens,
                                     .num_decode_tokens = q->num_decode_tokens_actual};
    r->next++;
    return ST_OK;
}

static void compare_batch(struct replay *r, const struct batch *b)
{
    struct logged_server *s = r->s;
    s->batches++;
    if (r->k >= s->match->n)
        return;
    const struct logged_iteration *x = s->match->of[r->k].log;
    if (x->context_requests == b->n_chunks && x->context_tokens == b->prefill_tokens &&
        x->generation_requests == b->n_decodes)
        s->equal++;
    else if (!s->first[0])
        snprintf(s->first, sizeof s->first,
                 "line %ld: %lld context requests with %lld tokens, %lld that generate; the "
                 "policy's batch has %d with %lld, %d",
                 x->line, (long long)x->context_requests, (long long)x->context_tokens,
                 (long long)x->generation_requests, (int)b->n_chunks, (long long)b->prefill_tokens,
                 (int)b->n_decodes);
}

/* After a pause the logged one that begins then. */
static void find_place(struct replay *r, double submit_s)
{
    const struct iteration_match *m = r->s->match;
    size_t k = r->k;
    if (!r->s->times || r->n_out)
        return;
    while (k < m->n && !(m->of[k].idle_before && r->s->times->start_s[k] > submit_s - 0.02))
        k++;
    r->k = k < m->n ? k : r->k;
}

static enum st submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct replay *r = self;
    const struct iteration_times *t = r->s->times;
    const size_t n = r->s->match->n;
    (void)e;
    find_place(r, b->submit_s);
    compare_batch(r, b);
    double until_s = b->submit_s + STEP_S, end_s = b->submit_s + 1.5 * STEP_S;
    if (t) {
        const double next_s = r->k + 1 < n ? t->start_s[r->k + 1] : INFINITY;
        const double after_s = r->k + 2 < n ? t->start_s[r->k + 2] : INFINITY;
        const double own_s = r->k < n ? t->duration_s[r->k] : 0.001;
        until_s = fmax(fmin(next_s, b->submit_s + own_s), b->submit_s + 1e-5);
        end_s = fmin((until_s + after_s) / 2, until_s + own_s / 2);
        end_s = fmax(end_s, until_s + 1e-6);
    }
    r->k++;
    r->out[r->n_out++] = (struct completion){.ticket = ++r->tickets,
                                             .start_s = b->submit_s,
                                             .end_s = end_s,
                                             .device_s = end_s - b->submit_s,
                                             .host_until_s = until_s};
    *ticket = r->tickets;
    return ST_OK;
}

static enum st next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct replay *r = self;
    (void)e;
    if (r->n_out == 0 || r->out[0].end_s > deadline_s)
        return ST_END;
    *out = r->out[0];
    r->out[0] = r->out[1];
    r->n_out--;
    return ST_OK;
}

static int32_t max_in_flight(void *self)
{
    (void)self;
    return 2;
}

static void close_nothing(void *self)
{
    (void)self;
}

static void take_row(void *self, const struct run_request *row)
{
    (void)self;
    (void)row;
}

static const struct executor_ops ops = {
    .name = "logged",
    .help = "batches as a server logged them",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_VIRTUAL,
    .max_in_flight = max_in_flight,
    .submit = submit,
    .next = next,
    .close = close_nothing,
};

enum st logged_server_run(struct arena *a, struct logged_server *s, struct err *e)
{
    struct replay r = {.s = s};
    struct executor x = {&ops, &r};
    struct serve_clock clock = clock_virtual();
    struct serve_counters n;
    const struct request_source source = {.self = &r, .next = next_request};
    const struct serve_sink sink = {.self = &r, .request = take_row};
    s->equal = s->batches = 0;
    s->first[0] = '\0';
    make_arrivals(a, &r);
    return serve_run(&s->params, &clock, &x, &source, &sink, NULL, &n, e);
}
