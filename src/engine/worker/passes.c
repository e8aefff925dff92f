/* Passes of a given composition, on request. */
#include "base/clock.h"
#include "engine/worker/session.h"

static const char moment[] = "while passes were measured";

static enum st bad(const struct worker_event *ev, const char *text, struct err *e)
{
    return err_at(e, ST_INPUT, "worker", ev->line, 0, "%s: %s", worker_event_name(ev->type), text);
}

/* Times that cannot be: other than were asked for, or more than went by. */
static enum st check(const struct worker_event *ev, const struct worker_pass *p, int64_t went_ns,
                     struct err *e)
{
    int64_t left_ns = went_ns + NS_PER_MS;
    if (ev->passed.id != p->id)
        return bad(ev, "another pass than was asked for", e);
    if (ev->passed.n != (size_t)p->repeats)
        return bad(ev, "total_ns: another number of passes than was asked for", e);
    for (size_t i = 0; i < ev->passed.n; i++) {
        if (ev->passed.total_ns[i] > left_ns)
            return bad(ev, "total_ns: more time than went by", e);
        left_ns -= ev->passed.total_ns[i];
    }
    return ST_OK;
}

static int64_t *copy(struct arena *a, const int64_t *v, size_t n)
{
    return v ? arena_copy(a, v, n * sizeof *v) : NULL;
}

static enum st take(struct worker *w, struct arena *a, const struct worker_event *ev,
                    const struct worker_pass *p, int64_t sent_ns, struct worker_times *out,
                    const char **why, struct err *e)
{
    if (ev->type == WORKER_ERROR && ev->error.id == p->id) {
        *why = arena_str(a, ev->error.message);
        return ST_END;
    }
    if (ev->type != WORKER_PASSED)
        return worker_unexpected(w, ev, moment, e);
    TRY(check(ev, p, w->child.read_ns - sent_ns, e));
    *out = (struct worker_times){.n = ev->passed.n,
                                 .total_ns = copy(a, ev->passed.total_ns, ev->passed.n),
                                 .device_ns = copy(a, ev->passed.device_ns, ev->passed.n)};
    return ST_OK;
}

enum st worker_passes(struct worker *w, struct arena *a, struct worker_pass p,
                      struct worker_times *out, const char **why, struct err *e)
{
    struct worker_event ev;
    const double limit_s = w->p.silence_timeout_s;
    p.id = w->passes++;
    worker_put_pass(&w->line, &p);
    const int64_t sent_ns = clock_mono_ns();
    worker_send_line(w);
    enum st st = worker_receive(w, sent_ns + ns_from_s(limit_s), moment, &ev, e);
    if (st == ST_OK)
        return take(w, a, &ev, &p, sent_ns, out, why, e);
    if (st != ST_END)
        return st;
    if (worker_stopped(w))
        return err_set(e, ST_INTERRUPTED, "interrupted by a signal");
    err_set(e, ST_DEVICE, "the worker said nothing for %g s %s", limit_s, moment);
    return err_hint(e, "worker.silence_timeout_s sets the limit");
}
