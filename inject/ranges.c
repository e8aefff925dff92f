#include "inject/ranges.h"

#include <stdio.h>
#include <string.h>

#include "inject/gate.h"
#include "inject/names.h"
#include "inject/writer.h"

/* Ranges that may start on one thread and end on another. The rings are emptied one after the
 * other, so an end may come before its start. */
struct open_span {
    struct event start;
    struct payload payload;
    uint32_t nvtx_id, id;
    uint16_t thread, end_thread;
    bool started, stopped, written;
    int64_t end_ns;
};
enum { SPANS = 4096 };
static struct open_span spans[SPANS];
static int n_spans;
static uint32_t last_id;

void inject_ranges_reset(void)
{
    n_spans = 0;
    last_id = 0;
}

/* ---- values of payloads ---- */

struct text {
    char s[1024];
    size_t n;
};

static void put_char(struct text *t, char c)
{
    if (t->n < sizeof t->s)
        t->s[t->n++] = c;
}

/* Writes a JSON string; control characters become blanks. */
static void put_quoted(struct text *t, const char *s)
{
    put_char(t, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            put_char(t, '\\');
        put_char(t, (unsigned char)*s < ' ' ? ' ' : *s);
    }
    put_char(t, '"');
}

/* Formats as in the C locale: the program's may have another decimal point. */
static void put_number(struct text *t, const struct payload_value *v)
{
    char s[40];
    double real;
    memcpy(&real, &v->bits, sizeof real);
    if (v->type == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64)
        snprintf(s, sizeof s, "%llu", (unsigned long long)v->bits);
    else if (v->type == NVTX_PAYLOAD_TYPE_INT64)
        snprintf(s, sizeof s, "%lld", (long long)v->bits);
    else if (real != real || real - real != 0)
        memcpy(s, "null", 5);
    else
        snprintf(s, sizeof s, "%.17g", real);
    bool point = false;
    for (const char *p = s; *p; p++) {
        bool part = strchr("0123456789+-enul", *p) != NULL;
        if (part || !point)
            put_char(t, part ? *p : '.');
        point |= !part;
    }
}

/* The JSON object's text, 0 = none. Limited, since texts that differ with every range must leave
 * room for names. */
static uint32_t values_text(const struct payload *p)
{
    struct text t = {.n = 0};
    if (p->n == 0 || inject_names_count() > NAMES_MAX / 2)
        return 0;
    for (int i = 0; i < p->n; i++) {
        put_char(&t, i ? ',' : '{');
        put_quoted(&t, inject_names_get(p->values[i].name)->text);
        put_char(&t, ':');
        put_number(&t, &p->values[i]);
    }
    put_char(&t, '}');
    return t.n < sizeof t.s ? inject_writer_string(inject_names_intern(t.s, t.n)) : 0;
}

static void keep_value(struct ring *r, const struct event *e)
{
    if (r->payload_at_ns != e->at_ns)
        r->payload.n = 0;
    r->payload_at_ns = e->at_ns;
    if (r->payload.n < PAYLOAD_VALUES)
        r->payload.values[r->payload.n++] =
            (struct payload_value){e->payload, e->text, e->payload_type};
}

/* Adds the values that belong to this event. */
static void take_values(struct ring *r, const struct event *e, struct payload *to)
{
    for (int i = 0; r->payload_at_ns == e->at_ns && i < r->payload.n && to->n < PAYLOAD_VALUES; i++)
        to->values[to->n++] = r->payload.values[i];
    r->payload.n = 0;
}

static void write_range(const struct event *e, const struct payload *payload, uint32_t id,
                        enum spool_range_kind kind, int depth, uint16_t thread, uint16_t end_thread,
                        int64_t end_ns)
{
    if (!guest.settings.nvtx ||
        !inject_gate_overlaps(e->at_ns, end_ns == SPOOL_OPEN_NS ? INT64_MAX : end_ns))
        return;
    trace_spool_add(&guest.spool, SPOOL_RANGES,
                    &(struct spool_range){.start_ns = e->at_ns,
                                          .end_ns = end_ns,
                                          .payload = e->payload,
                                          .id = id,
                                          .text = inject_writer_string(e->text),
                                          .domain = inject_writer_string(e->domain),
                                          .category = e->category,
                                          .color = e->color,
                                          .thread = thread,
                                          .end_thread = end_thread,
                                          .kind = (uint8_t)kind,
                                          .payload_type = e->payload_type,
                                          .depth = (uint16_t)depth,
                                          .values = values_text(payload)});
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
    if (r->n_open == RING_STACK)
        return;
    struct open_range *o = &r->open[r->n_open++];
    *o = (struct open_range){.push = *e, .id = ++last_id};
    take_values(r, e, &o->payload);
}

static void pop(struct ring *r, const struct event *e)
{
    int i = r->n_open - 1;
    while (i >= 0 && r->open[i].push.domain != e->domain)
        i--;
    if (i < 0)
        return;
    struct open_range *o = &r->open[i];
    take_values(r, e, &o->payload);
    write_range(&o->push, &o->payload, o->id, SPOOL_PUSH_POP, depth_of(r, i), r->thread, r->thread,
                e->at_ns);
    for (r->n_open--; i < r->n_open; i++)
        r->open[i] = r->open[i + 1];
}

/* Drops an end whose start was lost, which would wait for ever, when the table is full. */
static void forget_unstarted(void)
{
    for (int i = 0; i < n_spans; i++)
        if (!spans[i].started) {
            spans[i] = spans[--n_spans];
            return;
        }
}

static struct open_span *span(uint32_t nvtx_id)
{
    for (int i = n_spans - 1; i >= 0; i--)
        if (spans[i].nvtx_id == nvtx_id)
            return &spans[i];
    if (n_spans == SPANS)
        forget_unstarted();
    if (n_spans == SPANS)
        return NULL;
    spans[n_spans] = (struct open_span){.nvtx_id = nvtx_id, .id = ++last_id};
    return &spans[n_spans++];
}

static void start_or_stop(struct ring *r, const struct event *e)
{
    struct open_span *s = span(e->id);
    if (!s) {
        atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
        return;
    }
    take_values(r, e, &s->payload);
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
    write_range(&s->start, &s->payload, s->id, SPOOL_START_END, 0, s->thread, s->end_thread,
                s->end_ns);
    *s = spans[--n_spans];
}

void inject_ranges_event(struct ring *r, const struct event *e)
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
    case EVENT_MARK: {
        struct payload values = {.n = 0};
        take_values(r, e, &values);
        write_range(e, &values, ++last_id, SPOOL_MARK, r->n_open, r->thread, r->thread, e->at_ns);
        break;
    }
    case EVENT_VALUE:
        keep_value(r, e);
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
        write_range(&o->push, &o->payload, o->id, SPOOL_PUSH_POP, depth_of(r, i), r->thread, 0,
                    SPOOL_OPEN_NS);
        o->written = true;
    }
}

void inject_ranges_write_open(int64_t now_ns, bool end)
{
    int64_t since_ns = end ? INT64_MAX : now_ns - guest.settings.flush_ns;
    for (struct ring *r = inject_ring_first(); r; r = r->next)
        write_open(r, since_ns);
    for (int i = 0; i < n_spans; i++) {
        struct open_span *s = &spans[i];
        if (s->written || !s->started || s->start.at_ns > since_ns)
            continue;
        write_range(&s->start, &s->payload, s->id, SPOOL_START_END, 0, s->thread, 0, SPOOL_OPEN_NS);
        s->written = true;
    }
}

void inject_ranges_thread_gone(struct ring *r)
{
    write_open(r, INT64_MAX);
    r->n_open = 0;
}
