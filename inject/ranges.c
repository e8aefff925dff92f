#include "inject/guest.h"

/* Ranges that may start on one thread and end on another. The rings are emptied one after the
 * other, so an end may come before its start. */
struct span {
    struct event start;
    uint32_t nvtx_id, id;
    uint16_t thread, end_thread;
    bool started, stopped, written;
    int64_t end_ns;
};
enum { SPANS = 4096 };
static struct span spans[SPANS];
static int n_spans;
static uint32_t last_id;

void ranges_reset(void)
{
    n_spans = 0;
    last_id = 0;
}

static void write_range(const struct event *e, uint32_t id, enum spool_range_kind kind, int depth,
                        uint16_t thread, uint16_t end_thread, int64_t end_ns)
{
    if (!guest.settings.nvtx ||
        !gate_overlaps(e->at_ns, end_ns == SPOOL_OPEN_NS ? INT64_MAX : end_ns))
        return;
    spool_add(&guest.spool, SPOOL_RANGES,
              &(struct spool_range){.start_ns = e->at_ns,
                                    .end_ns = end_ns,
                                    .payload = e->payload,
                                    .id = id,
                                    .text = writer_string(e->text),
                                    .domain = writer_string(e->domain),
                                    .category = e->category,
                                    .color = e->color,
                                    .thread = thread,
                                    .end_thread = end_thread,
                                    .kind = (uint8_t)kind,
                                    .payload_type = e->payload_type,
                                    .depth = (uint16_t)depth});
}

/* Ranges of the same domain around open[i]. */
static int depth_of(const struct ring *r, int i)
{
    int depth = 0;
    for (int k = 0; k < i; k++)
        depth += r->open[k].push.domain == r->open[i].push.domain;
    return depth;
}

static void push(struct ring *r, const struct event *e)
{
    if (r->n_open < RING_STACK)
        r->open[r->n_open++] = (struct open_range){.push = *e, .id = ++last_id};
}

static void pop(struct ring *r, const struct event *e)
{
    int i = r->n_open - 1;
    while (i >= 0 && r->open[i].push.domain != e->domain)
        i--;
    if (i < 0)
        return;
    const struct open_range *o = &r->open[i];
    write_range(&o->push, o->id, SPOOL_PUSH_POP, depth_of(r, i), r->thread, r->thread, e->at_ns);
    for (r->n_open--; i < r->n_open; i++)
        r->open[i] = r->open[i + 1];
}

/* An end whose start was lost waits for ever: room for another when there is none. */
static void forget_unstarted(void)
{
    for (int i = 0; i < n_spans; i++)
        if (!spans[i].started) {
            spans[i] = spans[--n_spans];
            return;
        }
}

static struct span *span(uint32_t nvtx_id)
{
    for (int i = n_spans - 1; i >= 0; i--)
        if (spans[i].nvtx_id == nvtx_id)
            return &spans[i];
    if (n_spans == SPANS)
        forget_unstarted();
    if (n_spans == SPANS)
        return NULL;
    spans[n_spans] = (struct span){.nvtx_id = nvtx_id, .id = ++last_id};
    return &spans[n_spans++];
}

static void start_or_stop(struct ring *r, const struct event *e)
{
    struct span *s = span(e->id);
    if (!s) {
        atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
        return;
    }
    if (e->type == EVENT_START) {
        s->start = *e;
        s->thread = r->thread;
        s->started = true;
    } else {
        s->end_ns = e->at_ns;
        s->end_thread = r->thread;
        s->stopped = true;
    }
    if (!s->started || !s->stopped)
        return;
    write_range(&s->start, s->id, SPOOL_START_END, 0, s->thread, s->end_thread, s->end_ns);
    *s = spans[--n_spans];
}

void ranges_event(struct ring *r, const struct event *e)
{
    switch (e->type) {
    case EVENT_PUSH:
        push(r, e);
        break;
    case EVENT_POP:
        pop(r, e);
        break;
    case EVENT_START:
    case EVENT_STOP:
        start_or_stop(r, e);
        break;
    case EVENT_MARK:
        write_range(e, ++last_id, SPOOL_MARK, r->n_open, r->thread, r->thread, e->at_ns);
        break;
    default:
        break;
    }
}

static void write_open(struct ring *r, int64_t since_ns)
{
    for (int i = 0; i < r->n_open; i++) {
        struct open_range *o = &r->open[i];
        if (o->written || o->push.at_ns > since_ns)
            continue;
        write_range(&o->push, o->id, SPOOL_PUSH_POP, depth_of(r, i), r->thread, 0, SPOOL_OPEN_NS);
        o->written = true;
    }
}

void ranges_write_open(int64_t now_ns, bool end)
{
    int64_t since_ns = end ? INT64_MAX : now_ns - guest.settings.flush_ns;
    for (struct ring *r = ring_first(); r; r = r->next)
        write_open(r, since_ns);
    for (int i = 0; i < n_spans; i++) {
        struct span *s = &spans[i];
        if (s->written || !s->started || s->start.at_ns > since_ns)
            continue;
        write_range(&s->start, s->id, SPOOL_START_END, 0, s->thread, 0, SPOOL_OPEN_NS);
        s->written = true;
    }
}

void ranges_thread_gone(struct ring *r)
{
    write_open(r, INT64_MAX);
    r->n_open = 0;
}
