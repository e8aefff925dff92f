#include "serve/tokens.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "workload/release.h"

static int64_t min_unwritten(struct link *head, int64_t least)
{
    for (struct link *l = head->next; l != head; l = l->next)
        if (request_of(l)->unwritten < least)
            least = request_of(l)->unwritten;
    return least;
}

/* Before the log grows, drop the ends that no request needs any more. */
static void trim_ends(struct replica *r, struct lane *lane)
{
    int64_t keep = lane->ends_from + (int64_t)lane->ends_ns.n;
    keep = min_unwritten(&lane->set.members, keep);
    for (int32_t i = 0; i < r->max_in_flight; i++)
        if (&r->lanes[r->flights[i].b.lane] == lane)
            keep = min_unwritten(&r->flights[i].finishing, keep);
    size_t drop = (size_t)(keep - lane->ends_from);
    if (drop < lane->ends_ns.n / 2)
        return;
    lane->ends_ns.n -= drop;
    memmove(lane->ends_ns.p, lane->ends_ns.p + drop, lane->ends_ns.n * sizeof *lane->ends_ns.p);
    lane->ends_from = keep;
}

void tokens_note_end(struct replica *r, struct lane *lane, int64_t end_ns)
{
    if (lane->ends_ns.n == lane->ends_ns.cap && lane->ends_ns.n > 0)
        trim_ends(r, lane);
    vec_push(&lane->ends_ns, end_ns);
}

/* Time between the engine and the client of a request, before its first token, when so many run. */
static int64_t outside_ns(const struct serve_params *p, const struct request *q, int64_t running)
{
    const struct serve_overheads *o = &p->overheads;
    const double s = o->first_token_s + o->prompt_token_s * (double)q->w.num_prefill_tokens +
                     o->stream_s * (double)running;
    return s > 0 ? ns_from_s(s) : 0;
}

void tokens_deliver(struct replica *r, struct request *q, int64_t time_ns, int64_t id)
{
    const struct serve_sink *sink = r->run->sink;
    if (q->first_token_ns == RUN_NONE) {
        q->outside_ns = outside_ns(r->run->p, q, r->active);
        q->first_token_ns = time_ns + q->outside_ns;
    }
    time_ns += q->outside_ns;
    bool asked = sink->over && r->computes;
    if (r->run->write_tokens || asked) {
        struct run_token row = {.request_id = q->w.request_id,
                                .token_index = q->delivered,
                                .token_time_ns = time_ns,
                                .token_latency_ns = q->delivered ? time_ns - q->last_token_ns : 0,
                                .token_id = id};
        enum run_status status = RUN_OK;
        if (r->run->write_tokens)
            sink->token(sink->self, &row);
        if (asked && sink->over(sink->self, &row, &status))
            vec_push(&r->over, (struct request_verdict){q, status});
    }
    q->last_token_ns = time_ns;
    q->delivered++;
}

void tokens_flush(struct replica *r, struct lane *lane, struct request *q, int64_t tick)
{
    if (r->computes || lane->set.draft_tokens) /* written on arrival */
        return;
    if (r->run->write_tokens)
        for (int64_t t = q->unwritten; t < tick; t++)
            tokens_deliver(r, q, lane->ends_ns.p[t - lane->ends_from], RUN_NONE);
    else if (tick > q->unwritten)
        q->delivered += tick - q->unwritten;
    q->unwritten = tick;
}

/* Keeps what a computing executor made of a turn, for the prompt of the next. */
static void keep_said(struct serve_run_state *run, const struct request *q)
{
    while ((int64_t)run->said.n <= q->session)
        vec_push(&run->said, (struct said){0});
    struct said *s = &run->said.p[q->session];
    s->n = 0;
    if (q->delivered == 0 || !release_goes_on(run->release, q->session))
        return;
    s->n = q->w.num_prefill_tokens + q->delivered;
    s->ids = mem_resize(s->ids, (size_t)s->n * sizeof *s->ids);
    memcpy(s->ids, q->ids, (size_t)s->n * sizeof *s->ids);
}

void tokens_request_row(struct serve_run_state *run, struct request *q, enum run_status status,
                        int64_t completion_ns, const char *error_type, const char *error_msg)
{
    struct moment end = {ns_from_s(run->event_s), run->event_s};
    q->state = REQUEST_OVER;
    run->counters->tokens += q->delivered;
    run->finished++;
    if (completion_ns != RUN_NONE) {
        int64_t outside = q->first_token_ns == RUN_NONE ? outside_ns(run->p, q, 0) : q->outside_ns;
        outside += ns_from_s(run->p->overheads.completion_s);
        completion_ns += outside;
        end = (struct moment){completion_ns, run->event_s + ns_to_s(outside)};
    }
    if (run->release && run->computes && q->session >= 0)
        keep_said(run, q);
    if (run->release)
        release_over(run->release, q->session, end);
    const struct serve_sink *sink = run->sink;
    if (!sink->request)
        return;
    struct run_request row = {.request_id = q->w.request_id,
                              .prompt_id = q->w.prompt_id,
                              .arrival_ns = q->w.arrival_ns,
                              .sent_ns = RUN_NONE,
                              .scheduled_ns = q->scheduled_ns,
                              .first_token_ns = q->first_token_ns,
                              .completion_ns = completion_ns,
                              .num_prefill_tokens = q->w.num_prefill_tokens,
                              .num_decode_tokens = q->w.num_decode_tokens,
                              .num_decode_tokens_actual = q->delivered,
                              .preemptions = q->preemptions,
                              .status = status,
                              .warmup = q->warmup,
                              .error_type = error_type,
                              .error_msg = error_msg,
                              .session_id = q->w.turn ? q->w.session_id : RUN_NONE,
                              .turn = q->w.turn ? q->w.turn : RUN_NONE,
                              .arrival_before_ns = q->arrival_before_ns,
                              .first_start_ns = q->first_start_ns,
                              .last_prefill_tokens = q->prefill,
                              .busy_s = q->spent.busy + q->spent.busy_rest,
                              .device_s = q->spent.device + q->spent.device_rest,
                              .energy_j = q->spent.energy + q->spent.energy_rest};
    sink->request(sink->self, &row);
}
