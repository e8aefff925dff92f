#include "engine/worker/worker.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/worker/session.h"

/* ---- messages in and out ----------------------------------------------------------------- */

bool worker_stopped(const struct worker *w)
{
    return w->p.stop && *w->p.stop;
}

bool worker_send_line(struct worker *w)
{
    w->counters.bytes_sent += (int64_t)w->line.n;
    bool all = child_send(&w->child, w->line.p, w->line.n);
    buf_clear(&w->line);
    return all;
}

/* Adds the worker's last words on stderr to an error. Returns e->st. */
static enum st add_last_words(struct worker *w, struct err *e)
{
    const char *words = child_last_words(&w->child, w->scratch);
    return *words ? err_hint(e, "its last words: %.500s", words) : e->st;
}

enum st worker_receive(struct worker *w, int64_t until_ns, const char *moment,
                       struct worker_event *out, struct err *e)
{
    enum {
        LOOK_NS = 100000000
    }; /* longest delay of a signal that arrives between the check and the wait */
    for (bool last_look = false;;) {
        struct sv line;
        enum st st = child_line(&w->child, &line, e);
        if (st == ST_OK && sv_trim(line).n == 0)
            continue;
        if (st == ST_OK) {
            arena_reset(w->scratch);
            w->counters.messages++;
            return worker_event_read(w->scratch, line, w->child.lines, out, e);
        }
        if (st != ST_END)
            return st;
        if (w->child.ended) {
            const char *fate = child_fate(&w->child, w->scratch);
            err_set(e, ST_DEVICE, "the worker %s %s", fate, moment);
            return add_last_words(w, e);
        }
        if (last_look || worker_stopped(w))
            return ST_END;
        int64_t now_ns = clock_mono_ns();
        last_look = now_ns >= until_ns; /* this process may have slept where the worker did not */
        child_wait(&w->child, until_ns - now_ns > LOOK_NS ? now_ns + LOOK_NS : until_ns);
    }
}

enum st worker_unexpected(struct worker *w, const struct worker_event *ev, const char *moment,
                          struct err *e)
{
    if (ev->type == WORKER_ERROR && ev->error.id < 0) {
        err_set(e, ST_DEVICE, "the worker gave up %s: %.1000s", moment, ev->error.message);
        return ev->error.hint ? err_hint(e, "%.1000s", ev->error.hint) : add_last_words(w, e);
    }
    return err_at(e, ST_INPUT, "worker", ev->line, 0, "%s: not expected %s",
                  worker_event_name(ev->type), moment);
}

/* A message within a time limit. `missing`: what the worker failed to do otherwise. */
static enum st receive_within(struct worker *w, double limit_s, const char *moment,
                              const char *missing, struct worker_event *out, struct err *e)
{
    enum st st = worker_receive(w, clock_mono_ns() + ns_from_s(limit_s), moment, out, e);
    if (st != ST_END)
        return st;
    if (worker_stopped(w))
        return err_set(e, ST_INTERRUPTED, "interrupted by a signal %s", moment);
    err_set(e, ST_DEVICE, "the worker %s within %g s", missing, limit_s);
    return add_last_words(w, e);
}

static enum st expect(struct worker *w, enum worker_event_type type, double limit_s,
                      const char *moment, const char *missing, struct worker_event *out,
                      struct err *e)
{
    TRY(receive_within(w, limit_s, moment, missing, out, e));
    return out->type == type ? ST_OK : worker_unexpected(w, out, moment, e);
}

/* ---- clocks ------------------------------------------------------------------------------ */

static enum st ask_clock(struct worker *w, int64_t seq, struct clock_offset *out,
                         enum st (*other)(void *self, const struct worker_event *ev, struct err *e),
                         void *self, struct err *e)
{
    static const char moment[] = "while the clocks were compared";
    static const double answer_s = 10;
    struct worker_event ev;
    worker_put_clock(&w->line, seq);
    int64_t t0_ns = clock_mono_ns();
    worker_send_line(w);
    for (;;) {
        TRY(receive_within(w, answer_s, moment, "answered no clock message", &ev, e));
        if (ev.type == WORKER_CLOCK)
            break;
        TRY(other ? other(self, &ev, e) : worker_unexpected(w, &ev, moment, e));
    }
    if (ev.clock.seq != seq)
        return err_at(e, ST_INPUT, "worker", ev.line, 0, "clock: seq %lld answers seq %lld",
                      (long long)ev.clock.seq, (long long)seq);
    clock_offset_add(out, t0_ns, ev.clock.recv_ns, ev.clock.send_ns, w->child.read_ns);
    return ST_OK;
}

enum st worker_exchange_clocks(struct worker *w,
                               enum st (*other)(void *self, const struct worker_event *ev,
                                                struct err *e),
                               void *self, struct clock_offset *out, struct err *e)
{
    *out = (struct clock_offset){0};
    for (int64_t seq = 0; seq < w->p.clock_rounds; seq++)
        TRY(ask_clock(w, seq, out, other, self, e));
    if (out->low_ns > out->high_ns) {
        err_set(e, ST_INPUT,
                "the worker's clock times contradict each other: its offset to ours would be above "
                "%lld ns and below %lld ns",
                (long long)out->low_ns, (long long)out->high_ns);
        return err_hint(e,
                        "is its clock monotonic, and recv_ns and send_ns taken around the line?");
    }
    return ST_OK;
}

/* The same clock of the same boot of the same kernel: measured offsets are delays. */
static bool is_our_clock(const struct worker_hello *h)
{
    struct err ignored = {0};
    struct arena *a = arena_new();
    struct sv ours;
    bool same = h->boot_id && strcmp(h->clock_kind, "CLOCK_MONOTONIC") == 0 &&
                fs_read(a, "/proc/sys/kernel/random/boot_id", 100, &ours, &ignored) == ST_OK &&
                sv_eq(sv_trim(ours), h->boot_id);
    arena_free(&a);
    return same;
}

/* Messages about batches may come behind all else of the run before. */
static enum st ignore_batches(void *self, const struct worker_event *ev, struct err *e)
{
    return ev->type == WORKER_BATCH ? ST_OK
                                    : worker_unexpected(self, ev, "before its first request", e);
}

enum st worker_set_offset(struct worker *w, struct err *e)
{
    TRY(worker_exchange_clocks(w, ignore_batches, w, &w->before, e));
    w->same_clock = is_our_clock(&w->hello) && clock_offset_contains(&w->before, 0);
    w->offset_ns = w->same_clock ? 0 : clock_offset_ns(&w->before);
    w->slack_ns = clock_uncertainty_ns(&w->before) + NS_PER_MS;
    return ST_OK;
}

/* ---- open and close ---------------------------------------------------------------------- */

static enum st check_hello(struct worker *w, struct err *e)
{
    const struct worker_hello *h = &w->hello;
    if (h->protocol != WORKER_PROTOCOL) {
        err_set(e, ST_DEVICE, "the worker speaks protocol %lld, this is version %d",
                (long long)h->protocol, WORKER_PROTOCOL);
        return err_hint(e, "take worker and twinfer of one release; docs/worker-protocol.md");
    }
    if (w->p.only_passes)
        return ST_OK;
    if (w->p.prompt == WORKER_TEXT && !h->prompt_text)
        return err_hint((err_set(e, ST_USAGE, "the worker %s takes no texts", h->name), e),
                        "worker.prompt=ids");
    if (w->p.prompt == WORKER_IDS && !h->prompt_ids)
        return err_hint((err_set(e, ST_USAGE, "the worker %s takes no token ids", h->name), e),
                        "worker.prompt=text");
    return ST_OK;
}

/* Copies hello into the session's arena. */
static void keep_hello(struct worker *w, const struct worker_event *ev)
{
    w->hello = ev->hello;
    if (w->hello.protocol != WORKER_PROTOCOL)
        return;
    w->hello.name = arena_str(w->a, ev->hello.name);
    w->hello.version = arena_str(w->a, ev->hello.version);
    w->hello.clock_kind = arena_str(w->a, ev->hello.clock_kind);
    w->hello.boot_id = ev->hello.boot_id ? arena_str(w->a, ev->hello.boot_id) : NULL;
    w->hello.capabilities = node_copy(w->a, ev->hello.capabilities);
    w->info = ev->info ? node_copy(w->a, ev->info) : NULL;
}

static enum st greet(struct worker *w, struct err *e)
{
    struct worker_event ev;
    worker_put_hello(&w->line, w->scratch, &w->p.greeting);
    worker_send_line(w);
    TRY(expect(w, WORKER_HELLO, w->p.start_timeout_s, "before it said hello", "said no hello", &ev,
               e));
    keep_hello(w, &ev);
    TRY(check_hello(w, e));
    log_debug("worker: %s %s", w->hello.name, w->hello.version);
    TRY(expect(w, WORKER_READY, w->p.load_timeout_s, "while it loaded its model", "was not ready",
               &ev, e));
    w->ready_info = ev.info ? node_copy(w->a, ev.info) : NULL;
    return worker_set_offset(w, e);
}

enum st worker_open(const struct worker_params *p, struct worker **out, struct err *e)
{
    *out = NULL;
    if (p->command.n == 0)
        return err_hint((err_set(e, ST_USAGE, "worker.command is not set"), e),
                        "worker.command=[program,argument,...]");
    struct arena *a = arena_new();
    struct worker *w = arena_one(a, struct worker);
    *w = (struct worker){.p = *p, .a = a, .scratch = arena_new()};
    const char **argv = arena_array(a, const char *, p->command.n + 1);
    for (size_t i = 0; i < p->command.n; i++)
        argv[i] = p->command.items[i];
    enum st st = child_start(&w->child, argv, WORKER_LINE_MAX, e);
    if (st != ST_OK)
        err_add(e, "worker.command");
    else
        st = greet(w, e);
    if (st != ST_OK) {
        w->p.stop_timeout_s = 0; /* its time is up */
        worker_close(&w);
        return st;
    }
    *out = w;
    return ST_OK;
}

const struct worker_hello *worker_facts(const struct worker *w)
{
    return &w->hello;
}

void worker_close(struct worker **worker)
{
    struct worker *w = *worker;
    if (!w)
        return;
    worker_put_plain(&w->line, "shutdown");
    worker_send_line(w);
    int64_t until_ns = clock_mono_ns() + ns_from_s(w->p.stop_timeout_s);
    while (w->child.unsent.n > 0 && !w->child.ended && clock_mono_ns() < until_ns)
        child_wait(&w->child, until_ns);
    child_stop(&w->child, until_ns);
    if (w->orderly && w->child.p.status != 0)
        log_warn("the worker %s when it was asked to stop", child_fate(&w->child, w->scratch));
    child_free(&w->child);
    buf_free(&w->line);
    mem_free(w->delays_ns);
    arena_free(&w->scratch);
    struct arena *a = w->a;
    arena_free(&a);
    *worker = NULL;
}

/* ---- the record -------------------------------------------------------------------------- */

static struct node *copy_or_null(struct arena *a, const struct node *n)
{
    return n ? node_copy(a, n) : node_new(a, NODE_NULL);
}

static struct node *hello_node(struct arena *a, const struct worker *w)
{
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("protocol"), node_int(a, w->hello.protocol));
    node_set(a, m, SV("name"), node_str(a, arena_str(a, w->hello.name)));
    node_set(a, m, SV("version"), node_str(a, arena_str(a, w->hello.version)));
    node_set(a, m, SV("clock"), node_str(a, arena_str(a, w->hello.clock_kind)));
    node_set(a, m, SV("capabilities"), copy_or_null(a, w->hello.capabilities));
    node_set(a, m, SV("info"), copy_or_null(a, w->info));
    node_set(a, m, SV("ready_info"), copy_or_null(a, w->ready_info));
    return m;
}

static struct node *clock_node(struct arena *a, const struct worker *w)
{
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("before"), clock_offset_node(a, &w->before));
    node_set(a, m, SV("after"), clock_offset_node(a, &w->after));
    node_set(a, m, SV("drift_ns"), node_int(a, clock_offset_drift_ns(&w->before, &w->after)));
    node_set(a, m, SV("same_clock"), node_bool(a, w->same_clock));
    node_set(a, m, SV("used_offset_ns"), node_int(a, w->offset_ns));
    return m;
}

static struct node *delay_node(struct arena *a, const struct worker *w)
{
    static const struct {
        const char *name;
        double q;
    } rows[] = {{"p50", 0.5}, {"p99", 0.99}, {"max", 1}};
    if (w->n_delays == 0)
        return node_new(a, NODE_NULL);
    struct node *m = node_new(a, NODE_MAP);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t at = (size_t)(rows[i].q * (double)(w->n_delays - 1) + 0.5);
        node_set(a, m, sv_of(rows[i].name), node_int(a, w->delays_ns[at]));
    }
    return m;
}

static struct node *counters_node(struct arena *a, const struct worker_counters *n)
{
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("requests"), node_int(a, n->requests));
    node_set(a, m, SV("rejected"), node_int(a, n->rejected));
    node_set(a, m, SV("failed"), node_int(a, n->failed));
    node_set(a, m, SV("timeouts"), node_int(a, n->timeouts));
    node_set(a, m, SV("tokens"), node_int(a, n->tokens));
    node_set(a, m, SV("batches"), node_int(a, n->batches));
    node_set(a, m, SV("messages"), node_int(a, n->messages));
    node_set(a, m, SV("moved_times"), node_int(a, n->moved_times));
    node_set(a, m, SV("bytes_sent"), node_int(a, n->bytes_sent));
    node_set(a, m, SV("loop_seconds"), node_float(a, n->loop_seconds));
    return m;
}

struct node *worker_meta(struct arena *a, const struct worker *w)
{
    struct node *m = node_new(a, NODE_MAP), *command = node_new(a, NODE_LIST);
    for (size_t i = 0; i < w->p.command.n; i++)
        node_push(a, command, node_str(a, w->p.command.items[i]));
    node_set(a, m, SV("command"), command);
    node_set(a, m, SV("hello"), hello_node(a, w));
    node_set(a, m, SV("clock"), clock_node(a, w));
    node_set(a, m, SV("send_delay_ns"), delay_node(a, w));
    node_set(a, m, SV("counters"), counters_node(a, &w->counters));
    return m;
}
