#define _GNU_SOURCE /* POLLRDHUP */
#include "server/live.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

static const int64_t LINGER_NS = 2 * NS_PER_S;  /* time for clients to read streams to their end */
static const int64_t POLL_NS = 100 * NS_PER_MS; /* interval of polling waiting clients */

static void lock(struct server *s)
{
    pthread_mutex_lock(&s->lock);
}

static void unlock(struct server *s)
{
    pthread_mutex_unlock(&s->lock);
}

/* Either side, lock held: resumes the stream if it is suspended. */
static void wake_stream(struct live_request *l)
{
    if (!l->suspended)
        return;
    l->suspended = false;
    MHD_resume_connection(l->connection);
}

static void list_remove(struct server *s, struct live_request *l)
{
    if (l->prev)
        l->prev->next = l->next;
    else
        s->all = l->next;
    if (l->next)
        l->next->prev = l->prev;
    s->n_all--;
}

/* Lock held. */
static void drop_side(struct server *s, struct live_request *l)
{
    if (--l->sides > 0)
        return;
    s->n_gone -= l->gone && !l->gone_told;
    list_remove(s, l);
    vec_free(&l->ids);
    stops_free(&l->stops);
    detok_free(&l->detok);
    buf_free(&l->out);
    buf_free(&l->said);
    arena_free(&l->a);
    mem_free(l);
}

/* Marks a request as abandoned, for the loop to cancel. Lock held. */
static void give_up(struct server *s, struct live_request *l)
{
    if (l->gone)
        return;
    l->gone = true;
    s->n_gone++;
    pthread_cond_signal(&s->arrived);
}

/* ---- HTTP side ----------------------------------------------------------------------------- */

/* Default seed: the same for the n-th request of every run. */
static uint64_t seed_of(const struct server *s, int64_t id)
{
    char name[48];
    snprintf(name, sizeof name, "server.request.%lld", (long long)id);
    struct rng r = rng_stream(s->p->seed, name);
    return rng_u64(&r);
}

enum live_join live_join(struct server *s, struct arena *a, const struct http_request *request,
                         struct MHD_Connection *c, int fd, struct live_request **out)
{
    lock(s);
    if (s->draining || s->n_pending >= s->p->max_pending) {
        bool draining = s->draining;
        unlock(s);
        return draining ? LIVE_DRAINING : LIVE_FULL;
    }
    struct live_request *l = mem_alloc(sizeof *l);
    *l = (struct live_request){.server = s,
                               .sides = 2,
                               .id = s->ids++,
                               .a = a,
                               .request = *request,
                               .arrival_ns = clock_mono_ns(),
                               .created_s = clock_wall_ns() / NS_PER_S,
                               .connection = c,
                               .fd = fd,
                               .next = s->all,
                               .stops = {.detok = {.t = s->p->rules.tokenizer}},
                               .detok = {.t = s->p->rules.tokenizer}};
    if (!request->seeded)
        l->request.sampling.seed = seed_of(s, l->id);
    if (s->all)
        s->all->prev = l;
    s->all = l;
    s->n_all++;
    s->n_pending++;
    *s->last = l;
    s->last = &l->queued;
    pthread_cond_signal(&s->arrived);
    unlock(s);
    *out = l;
    return LIVE_JOINED;
}

void live_leave(struct server *s, struct live_request *l)
{
    lock(s);
    l->suspended = false;
    l->connection = NULL;
    if (!l->over && l->finish == FINISH_NOT)
        give_up(s, l);
    drop_side(s, l);
    unlock(s);
}

/* ---- loop side ----------------------------------------------------------------------------- */

/* Finds waiting requests whose client hung up: libmicrohttpd does not poll suspended connections.
 * Lock held. */
static void poll_waiting(struct server *s)
{
    int64_t t = clock_mono_ns();
    if (t - s->polled_ns < POLL_NS)
        return;
    s->polled_ns = t;
    for (struct live_request *l = s->all; l; l = l->next) {
        struct pollfd fd = {.fd = l->fd, .events = POLLRDHUP};
        if (l->suspended && !l->gone && !l->over && poll(&fd, 1, 0) == 1 &&
            fd.revents & (POLLRDHUP | POLLHUP | POLLERR))
            give_up(s, l);
    }
}

static void begin_drain(struct server *s)
{
    s->draining = s->gauges.draining = true;
    s->drain_until_ns = clock_mono_ns() + ns_from_s(s->p->drain_s);
}

static bool live_open(void *self)
{
    struct server *s = self;
    lock(s);
    conn_expire(&s->conns, clock_mono_ns(), ns_from_s(s->p->idle_timeout_s));
    if (__atomic_load_n(s->stop, __ATOMIC_RELAXED) && !s->draining) {
        begin_drain(s);
        log_info("serve: draining, %lld requests to go", (long long)s->n_pending);
    }
    if (s->draining && s->n_pending > 0 && clock_mono_ns() > s->drain_until_ns && !*s->abort) {
        log_warn("serve: %lld requests did not end within the drain time", (long long)s->n_pending);
        *s->abort = 1;
    }
    bool more = !s->draining || s->first;
    unlock(s);
    return more;
}

static void live_wait(void *self, double deadline_s)
{
    struct server *s = self;
    int64_t until_ns = s->clock->mono0_ns + ns_from_s(deadline_s);
    struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    lock(s);
    if (!s->first)
        pthread_cond_timedwait(&s->arrived, &s->lock, &until);
    unlock(s);
}

static bool live_gone(void *self, int64_t *id)
{
    struct server *s = self;
    bool found = false;
    lock(s);
    poll_waiting(s);
    for (struct live_request *l = s->all; l && s->n_gone > 0 && !found; l = l->next)
        if (l->gone && !l->gone_told) {
            l->gone_told = true;
            s->n_gone--;
            found = !l->over;
            *id = l->id;
        }
    unlock(s);
    return found;
}

static struct live_request **place(struct server *s, int64_t id)
{
    return &s->by_id[(size_t)id & (s->by_id_cap - 1)];
}

/* Stores the request by id: ids are consecutive and few are live, so a large enough ring has no
 * collisions. */
static void remember(struct server *s, struct live_request *l)
{
    while (*place(s, l->id) != NULL) {
        struct live_request **old = s->by_id;
        size_t n = s->by_id_cap;
        s->by_id_cap *= 2;
        s->by_id = mem_alloc(s->by_id_cap * sizeof *s->by_id);
        for (size_t i = 0; i < n; i++)
            if (old[i])
                *place(s, old[i]->id) = old[i];
        mem_free(old);
    }
    *place(s, l->id) = l;
}

static enum st live_next(void *self, struct workload_request *out, struct err *e)
{
    struct server *s = self;
    (void)e;
    lock(s);
    struct live_request *l = s->first;
    if (l) {
        s->first = l->queued;
        if (!s->first)
            s->last = &s->first;
    }
    unlock(s);
    if (!l)
        return ST_END;
    int64_t at_ns = l->arrival_ns - s->clock->mono0_ns;
    remember(s, l);
    s->handed = l;
    at_ns = at_ns > 0 ? at_ns : 0; /* arrived before the loop began */
    *out = (struct workload_request){.request_id = l->id,
                                     .arrival_ns = at_ns,
                                     .arrival_s = ns_to_s(at_ns),
                                     .num_prefill_tokens = l->request.n_ids,
                                     .num_decode_tokens = l->request.max_tokens,
                                     .sampling = l->request.sampled ? &l->request.sampling : NULL};
    return ST_OK;
}

static enum st live_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    struct server *s = self;
    (void)e;
    ASSERT(s->handed && s->handed->id == r->request_id);
    memcpy(ids, s->handed->request.ids, (size_t)r->num_prefill_tokens * sizeof *ids);
    return ST_OK;
}

static bool is_eos(const struct server *s, int64_t id)
{
    for (int64_t i = 0; i < s->p->n_eos; i++)
        if (s->p->eos_ids[i] == id)
            return true;
    return false;
}

static void on_token(void *self, const struct run_token *t)
{
    struct server *s = self;
    struct live_request *l = *place(s, t->request_id);
    lock(s);
    const bool may_stop = t->token_index >= l->request.min_tokens;
    bool stop = may_stop && !l->request.ignore_eos && is_eos(s, t->token_id);
    bool last = t->token_index + 1 == l->request.max_tokens;
    if (l->request.n_stops > 0)
        stop |= stops_add(&l->stops, l->request.stops, may_stop ? l->request.n_stops : 0,
                          (int32_t)t->token_id, stop || last);
    l->finish = stop ? FINISH_STOP : last ? FINISH_LENGTH : FINISH_NOT;
    vec_push(&l->ids, (int32_t)t->token_id);
    if (t->token_index == 0)
        gauges_observe(&s->gauges.ttft, ns_to_s(clock_mono_ns() - l->arrival_ns));
    else
        gauges_observe(&s->gauges.itl, ns_to_s(t->token_latency_ns));
    s->gauges.output_tokens++;
    if (l->request.stream || l->finish != FINISH_NOT)
        wake_stream(l);
    unlock(s);
    if (s->sink.token)
        s->sink.token(s->sink.self, t);
}

static bool on_over(void *self, const struct run_token *t, enum run_status *status)
{
    struct server *s = self;
    struct live_request *l = *place(s, t->request_id);
    lock(s);
    bool stop = l->finish == FINISH_STOP;
    if (!l->gone && l->request.stream && (int64_t)l->ids.n - l->n_taken > s->p->max_unread_tokens) {
        give_up(s, l);
        s->gauges.slow_clients++;
        if (l->connection) /* a daemon that waits for room in the socket would keep the connection
                            */
            shutdown(l->fd, SHUT_RDWR);
    }
    if (l->gone)
        *status = RUN_CANCELLED;
    bool over = stop || l->gone;
    unlock(s);
    return over;
}

static void observe_span(struct gauge_histogram *h, int64_t from_ns, int64_t to_ns)
{
    if (from_ns != RUN_NONE && to_ns != RUN_NONE)
        gauges_observe(h, ns_to_s(to_ns - from_ns));
}

/* A request that ended well, by the loop's clock. */
static void observe_parts(struct gauges *g, const struct run_request *r)
{
    observe_span(&g->queue, r->arrival_ns, r->scheduled_ns);
    observe_span(&g->prefill, r->scheduled_ns, r->first_token_ns);
    observe_span(&g->decode, r->first_token_ns, r->completion_ns);
}

static void on_request(void *self, const struct run_request *r)
{
    struct server *s = self;
    struct live_request **at = place(s, r->request_id), *l = *at;
    *at = NULL;
    lock(s);
    l->over = true;
    l->status = r->status;
    snprintf(l->error_type, sizeof l->error_type, "%s", r->error_type ? r->error_type : "");
    snprintf(l->error, sizeof l->error, "%s", r->error_msg ? r->error_msg : "");
    s->n_pending--;
    s->gauges.requests[r->status]++;
    s->gauges.prompt_tokens += r->num_prefill_tokens;
    if (r->status == RUN_OK) {
        gauges_observe(&s->gauges.e2e, ns_to_s(clock_mono_ns() - l->arrival_ns));
        observe_parts(&s->gauges, r);
    }
    wake_stream(l);
    drop_side(s, l);
    unlock(s);
    if (s->sink.request)
        s->sink.request(s->sink.self, r);
}

static void on_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct server *s = self;
    if (s->sink.batch)
        s->sink.batch(s->sink.self, b, c);
}

static void on_iteration(void *self, const struct serve_iteration *i)
{
    static const struct gauge_replica none;
    struct server *s = self;
    lock(s);
    while (s->replicas.n <= (size_t)i->b->replica)
        vec_push(&s->replicas, none);
    s->replicas.p[i->b->replica] = (struct gauge_replica){
        .kv_blocks_used = i->kv_blocks_after,
        .preemptions = i->preemptions,
        .prefix_looked_tokens = i->prefix_looked_tokens,
        .prefix_hit_tokens = i->prefix_hit_tokens,
    };
    unlock(s);
    if (s->sink.iteration)
        s->sink.iteration(s->sink.self, i);
}

static void on_progress(void *self, int64_t finished, double now_s)
{
    struct server *s = self;
    if (s->sink.progress)
        s->sink.progress(s->sink.self, finished, now_s);
}

/* Ends a request that never got a row from the loop. Lock held. */
static void end_one(struct server *s, struct live_request *l)
{
    l->over = true;
    l->status = RUN_CANCELLED;
    snprintf(l->error, sizeof l->error, "the server is going down");
    s->n_pending--;
    s->gauges.requests[RUN_CANCELLED]++;
    wake_stream(l);
    drop_side(s, l);
}

void live_refuse_new(struct server *s)
{
    lock(s);
    s->draining = true;
    unlock(s);
}

void live_end_all(struct server *s)
{
    int64_t until_ns = clock_mono_ns() + LINGER_NS;
    lock(s);
    for (struct live_request *l = s->all, *next; l; l = next) {
        next = l->next;
        if (!l->over)
            end_one(s, l);
    }
    while ((s->all || s->n_read_aside > 0) && clock_mono_ns() < until_ns) {
        unlock(s);
        clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS);
        lock(s);
    }
    for (struct live_request *l = s->all; l;
         l = l->next) /* no connection may be suspended when the daemon stops */
        wake_stream(l);
    unlock(s);
}

struct request_source server_source(struct server *s, const struct serve_clock *clock,
                                    const volatile sig_atomic_t *stop, volatile sig_atomic_t *abort)
{
    static const struct request_live live = {live_open, live_wait, live_gone};
    s->clock = clock;
    s->stop = stop;
    s->abort = abort;
    return (struct request_source){
        .self = s, .next = live_next, .prompt_ids = live_ids, .live = &live};
}

struct serve_sink server_sink(struct server *s, const struct serve_sink *sink)
{
    s->sink = sink ? *sink : (struct serve_sink){0};
    return (struct serve_sink){.self = s,
                               .request = on_request,
                               .token = on_token,
                               .over = on_over,
                               .batch = on_batch,
                               .progress = on_progress,
                               .iteration = on_iteration};
}
