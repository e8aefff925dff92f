/* PyTorch's Kineto JSON and other Chrome traces. A pipeline of three threads over a ring of pieces
 * of the file: read and unpack; parse events in place; assign ids and pass to the sink. Memory is
 * the ring, the dictionary, and operations that wait for the first call (kineto_ids.h).
 *
 * Other people's writers, killed programs and editors leave odd places: what cannot be read is
 * skipped, counted and told with the first place. A file that ends too early is read to there. */
#include <pthread.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/vec.h"
#include "text/json.h"
#include "trace/formats.h"
#include "trace/kineto_ids.h"
#include "trace/stream.h"

enum {
    SLOTS = 4,
    PIECE_BYTES = 1 << 20,
    MAX_EVENT_BYTES = 32 << 20, /* of one event, and of the text before the events */
};

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

enum slot_state { SLOT_FREE, SLOT_READ, SLOT_PARSED };

struct piece_slot {
    enum slot_state state;
    char *memory; /* [headroom + PIECE_BYTES]; an event cut by the end of a piece moves into the
                     next slot's headroom */
    size_t headroom;
    size_t bytes; /* read, behind the headroom */
    bool last;    /* nothing follows: the end, or an error */
    VEC(struct kineto_event) events;
    VEC(struct sv) header; /* top-level members, key and value by turns */
    struct err error;
};

enum parser_place { AT_START, IN_TOP, IN_EVENTS, AT_END };

struct kineto_reader {
    const char *path;
    struct trace_stream *stream;
    struct piece_slot slots[SLOTS];
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool stop;

    /* of the parser */
    enum parser_place place;
    bool bare;  /* the file is the list of events alone */
    bool first; /* no item of the current list or map yet */
    bool had_events;
    bool cut;    /* the text ends inside the trace */
    long line;   /* of the first byte not yet parsed */
    long column; /* of the same */
    uint64_t odd;
    long odd_line, odd_column; /* of the first */
    const char *odd_why;
    int resyncs;

    /* of the consumer */
    struct trace_dict *dict;
    const struct trace_sink *sink;
    struct kineto_ids ids;
    struct buf scratch;
    uint64_t odd_lists; /* shapes that are no JSON */
    bool other_base;    /* its times count from another moment than those of the file before */
};

/* ---- the ring ---- */

static bool wait_for(struct kineto_reader *r, struct piece_slot *s, enum slot_state state)
{
    pthread_mutex_lock(&r->lock);
    while (s->state != state && !r->stop)
        pthread_cond_wait(&r->moved, &r->lock);
    bool go = !r->stop;
    pthread_mutex_unlock(&r->lock);
    return go;
}

static void pass_on(struct kineto_reader *r, struct piece_slot *s, enum slot_state state)
{
    pthread_mutex_lock(&r->lock);
    s->state = state;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
}

static void *read_pieces(void *arg)
{
    struct kineto_reader *r = arg;
    for (size_t i = 0;; i = (i + 1) % SLOTS) {
        struct piece_slot *s = &r->slots[i];
        if (!wait_for(r, s, SLOT_FREE))
            return NULL;
        s->bytes = 0;
        size_t n = 1;
        enum st st = ST_OK;
        while (s->bytes < PIECE_BYTES && n && st == ST_OK) {
            st = trace_stream_read(r->stream, s->memory + s->headroom + s->bytes,
                                   PIECE_BYTES - s->bytes, &n, &s->error);
            s->bytes += n;
        }
        s->last = n == 0 || st != ST_OK;
        bool last = s->last;
        pass_on(r, s, SLOT_READ);
        if (last)
            return NULL;
    }
}

/* ---- parsing ---- */

static void count_lines(struct kineto_reader *r, const char *from, const char *to)
{
    for (const char *nl; (nl = memchr(from, '\n', (size_t)(to - from))); from = nl + 1) {
        r->line++;
        r->column = 1;
    }
    r->column += to - from;
}

static bool fault(struct kineto_reader *r, struct piece_slot *s, const char *from, const char *at,
                  const char *why)
{
    count_lines(r, from, at);
    err_at(&s->error, ST_INPUT, r->path, r->line, r->column, "%s", why);
    return false;
}

/* Notes the odd places that c met since the text at `from`, where line and column are. */
static void take_odd(struct kineto_reader *r, struct scan *c, const char *from)
{
    if (c->odd && !r->odd) {
        struct kineto_reader place = {.line = r->line, .column = r->column};
        count_lines(&place, from, c->odd_at);
        r->odd_line = place.line;
        r->odd_column = place.column;
        r->odd_why = c->odd_why;
    }
    r->odd += c->odd;
    c->odd = 0;
}

/* Moves to the next item of the list or map that c is in: past a comma. *ended: past its closing
 * bracket instead, which may follow a comma. False when the text ends first. */
static bool next_item(struct kineto_reader *r, struct scan *c, char close, bool *ended,
                      const char **why)
{
    struct scan at = *c;
    trace_scan_space(&at);
    *ended = false;
    *why = NULL;
    if (at.p == at.end)
        return false;
    if (*at.p != close && !r->first) {
        bool event = close == ']' && *at.p == '{';
        if (*at.p != ',' && !event) {
            *why = close == ']' ? "expected ',' or ']'" : "expected ',' or '}'";
            c->p = at.p;
            return false;
        }
        if (event)
            trace_scan_odd(c, at.p, "expected ','");
        at.p += !event;
        trace_scan_space(&at);
        if (at.p == at.end)
            return false;
        if (*at.p == close)
            trace_scan_odd(c, at.p, "expected a value behind ','");
    }
    if (*at.p == close) {
        *ended = true;
        at.p++;
    }
    c->p = at.p;
    return true;
}

/* Parses complete events; c stops before the first that is cut. */
static bool parse_events(struct kineto_reader *r, struct piece_slot *s, struct scan *c,
                         const char *from)
{
    bool ended;
    const char *why, *item = c->p;
    while (next_item(r, c, ']', &ended, &why)) {
        if (ended) {
            r->place = r->bare ? AT_END : IN_TOP;
            r->first = false;
            return true;
        }
        const char *event = c->p, *end;
        vec_reserve(&s->events, s->events.n + 1);
        if (*event == '{' && trace_scan_event(c, &s->events.p[s->events.n])) {
            s->events.n++;
        } else if (!(end = trace_scan_value_end(event, c->end))) { /* cut, not wrong */
            c->p = item;
            c->fault = NULL;
            return true;
        } else if (end == event) {
            return fault(r, s, from, event, "expected an event");
        } else {
            trace_scan_odd(c, c->fault ? c->fault : event, c->fault ? c->why : "expected an event");
            c->p = end;
            c->fault = NULL;
        }
        take_odd(r, c, from);
        item = c->p;
        r->first = false;
    }
    take_odd(r, c, from);
    return !why || fault(r, s, from, c->p, why);
}

/* Members of the top-level map up to "traceEvents". *more: the text goes on with events. */
static bool parse_top(struct kineto_reader *r, struct piece_slot *s, struct scan *c,
                      const char *from, bool *more)
{
    bool ended, escaped;
    const char *why;
    *more = false;
    for (;;) {
        const char *item = c->p;
        if (!next_item(r, c, '}', &ended, &why))
            return !why || fault(r, s, from, c->p, why);
        take_odd(r, c, from);
        if (ended) {
            r->place = AT_END;
            return true;
        }
        struct sv key;
        const char *start = c->p, *key_end = trace_scan_value_end(start, c->end);
        struct scan at = {.p = start, .end = c->end};
        if (*start != '"')
            return fault(r, s, from, start, "expected a key in quotes");
        c->p = item;
        if (!key_end)
            return true;
        trace_scan_string(&at, &key, &escaped);
        trace_scan_space(&at);
        if (at.p == at.end)
            return true;
        if (*at.p != ':')
            return fault(r, s, from, at.p, "expected ':'");
        at.p++;
        trace_scan_space(&at);
        if (at.p == at.end)
            return true;
        if (sv_eq(key, "traceEvents") && *at.p == '[') {
            if (r->had_events)
                return fault(r, s, from, start, "traceEvents stands here twice");
            r->had_events = true;
            r->place = IN_EVENTS;
            r->first = true;
            c->p = at.p + 1;
            *more = true;
            return true;
        }
        const char *value_end = trace_scan_value_end(at.p, c->end);
        if (!value_end)
            return true;
        if (value_end == at.p && *at.p != ',' && *at.p != '}')
            return fault(r, s, from, at.p, "expected a value");
        if (value_end == at.p) {
            trace_scan_odd(c, at.p, "expected a value");
            take_odd(r, c, from);
        }
        struct sv value = {at.p, (size_t)(value_end - at.p)};
        vec_push(&s->header, key);
        vec_push(&s->header, value);
        c->p = value_end;
        r->first = false;
    }
}

static bool parse_start(struct kineto_reader *r, struct piece_slot *s, struct scan *c,
                        const char *from)
{
    if (c->end - c->p >= 3 && memcmp(c->p, BYTE_ORDER_MARK, 3) == 0)
        c->p += 3;
    trace_scan_space(c);
    if (c->p == c->end)
        return true;
    if (*c->p != '{' && *c->p != '[')
        return fault(r, s, from, c->p, "expected '{' or '[': this is no trace");
    r->bare = *c->p == '[';
    r->had_events = r->bare;
    r->place = r->bare ? IN_EVENTS : IN_TOP;
    r->first = true;
    c->p++;
    return true;
}

/* Parses everything complete in [c->p, c->end). */
static bool parse_piece(struct kineto_reader *r, struct piece_slot *s, struct scan *c)
{
    const char *from = c->p;
    bool ok = true, more = true;
    if (r->place == AT_START)
        ok = parse_start(r, s, c, from);
    while (ok && more && (r->place == IN_TOP || r->place == IN_EVENTS)) {
        more = false;
        if (r->place == IN_TOP)
            ok = parse_top(r, s, c, from, &more);
        if (ok && r->place == IN_EVENTS) {
            ok = parse_events(r, s, c, from);
            more = ok && r->place == IN_TOP;
        }
    }
    if (ok && r->place == AT_END) {
        trace_scan_space(c);
        if (c->p < c->end)
            return fault(r, s, from, c->p, "expected nothing more");
    }
    if (ok)
        count_lines(r, from, c->p);
    return ok;
}

/* The next event behind one that does not end, as where two writers shared a file: its brackets
 * are no measure. False: there is none, or there were many such. */
static bool resync(struct kineto_reader *r, struct scan *c)
{
    enum { MOST = 1000 }; /* each searches all of the text that is left */
    if (r->place != IN_EVENTS || r->resyncs++ == MOST)
        return false;
    const char *from = c->p;
    struct scan at = *c;
    trace_scan_space(&at);
    at.p += at.p < at.end && *at.p == ',';
    trace_scan_space(&at);
    for (const char *p = at.p + 1; p < c->end; p++) {
        struct scan key = {.p = p + 1, .end = c->end};
        if (*p != '{')
            continue;
        trace_scan_space(&key);
        if (key.end - key.p < 4 || memcmp(key.p, "\"ph\"", 4) != 0)
            continue;
        trace_scan_odd(c, at.p, "the event does not end");
        take_odd(r, c, from);
        count_lines(r, from, p);
        c->p = p;
        r->first = true;
        return true;
    }
    return false;
}

/* Chrome leaves the list open when it is killed; so do full disks and copies that were broken off.
 */
static bool finish_parse(struct kineto_reader *r, struct piece_slot *s, struct scan *c)
{
    while (c->p < c->end && resync(r, c))
        if (!parse_piece(r, s, c))
            return false;
    count_lines(r, c->p, c->end);
    r->cut = r->place != AT_END;
    if (!r->had_events && r->cut && r->place != AT_START) {
        err_at(&s->error, ST_INPUT, r->path, r->line, r->column, "the text ends inside the trace");
        return false;
    }
    return r->had_events ||
           (err_set(&s->error, ST_INPUT, "%s: has no traceEvents", r->path), false);
}

static void *parse_pieces(void *arg)
{
    struct kineto_reader *r = arg;
    struct buf tail = {0}; /* of a cut event; its slot is reused meanwhile */
    for (size_t i = 0;; i = (i + 1) % SLOTS) {
        struct piece_slot *s = &r->slots[i];
        if (!wait_for(r, s, SLOT_READ))
            break;
        bool ok = s->error.st == ST_OK;
        if (tail.n > s->headroom) {
            char *larger = mem_alloc(2 * tail.n + PIECE_BYTES);
            memcpy(larger + 2 * tail.n, s->memory + s->headroom, s->bytes);
            mem_free(s->memory);
            s->memory = larger;
            s->headroom = 2 * tail.n;
        }
        char *text = s->memory + s->headroom - tail.n;
        if (tail.n)
            memcpy(text, tail.p, tail.n);
        struct scan c = {.p = text, .end = s->memory + s->headroom + s->bytes};
        vec_clear(&s->events);
        vec_clear(&s->header);
        ok = ok && parse_piece(r, s, &c);
        while (ok && c.end - c.p > MAX_EVENT_BYTES && resync(r, &c))
            ok = parse_piece(r, s, &c);
        buf_clear(&tail);
        buf_add(&tail, c.p, (size_t)(c.end - c.p));
        if (ok && tail.n > MAX_EVENT_BYTES)
            ok = fault(r, s, c.p, c.p, "an event of more than 32 MiB");
        if (ok && s->last)
            finish_parse(r, s, &c);
        s->last = s->last || s->error.st != ST_OK;
        bool last = s->last;
        pass_on(r, s, SLOT_PARSED);
        if (last)
            break;
    }
    buf_free(&tail);
    return NULL;
}

/* ---- giving ids ---- */

static uint32_t string_of(struct kineto_reader *r, struct sv raw, bool escaped)
{
    return trace_string(r->dict, escaped ? trace_scan_unescape(&r->scratch, raw) : raw);
}

/* A list of shapes or types, 0 where it cannot be one. */
static uint32_t list_of(struct kineto_reader *r, struct sv raw)
{
    if (!raw.n)
        return 0;
    if (trace_scan_list(&r->scratch, raw))
        return trace_string(r->dict, (struct sv){buf_str(&r->scratch), r->scratch.n});
    r->odd_lists++;
    return 0;
}

/* "Memcpy HtoD (Pageable -> Device)" to kinds. */
static void memory_kinds(struct sv name, struct trace_sig *sig)
{
    if (name.n == 0 || name.p[name.n - 1] != ')')
        return;
    const char *open = memchr(name.p, '(', name.n), *end = name.p + name.n;
    const char *arrow = NULL;
    if (!open)
        return;
    for (const char *p = open; p + 4 <= end; p++)
        if (memcmp(p, " -> ", 4) == 0)
            arrow = p;
    if (sig->kind == TRACE_SET) {
        sig->target_kind = trace_memory_kind((struct sv){open + 1, (size_t)(end - open) - 2});
        return;
    }
    if (name.n > 7 && open - name.p > 8)
        sig->copy_kind = trace_copy_kind((struct sv){name.p + 7, (size_t)(open - name.p) - 8});
    if (arrow) {
        sig->source_kind = trace_memory_kind((struct sv){open + 1, (size_t)(arrow - open) - 1});
        sig->target_kind = trace_memory_kind((struct sv){arrow + 4, (size_t)(end - arrow) - 5});
    }
}

static enum st take_op(struct kineto_reader *r, const struct kineto_event *v, struct err *e)
{
    static const enum trace_kind kinds[] = {
        [KINETO_KERNEL] = TRACE_KERNEL, [KINETO_COPY] = TRACE_COPY, [KINETO_SET] = TRACE_SET};
    if (!r->sink->op)
        return ST_OK;
    struct trace_sig sig = {
        .kind = kinds[v->type],
        .name = string_of(r, v->name, v->escaped),
        .context = v->context,
        .stream = kineto_ids_stream(&r->ids, v),
        .green_context = TRACE_NONE,
        .source_device = TRACE_NONE,
        .target_device = TRACE_NONE,
        .grid = {v->grid[0], v->grid[1], v->grid[2]},
        .block = {v->block[0], v->block[1], v->block[2]},
        .dynamic_shared = v->shared, /* static and dynamic together: the file has one figure */
        .registers = v->registers,
        .bytes = v->bytes,
    };
    if (v->type != KINETO_KERNEL)
        memory_kinds(v->name, &sig);
    struct trace_op op = {.start_ns = v->ts_ns,
                          .end_ns = v->ts_ns + v->dur_ns,
                          .correlation = kineto_ids_correlation(&r->ids, v->correlation),
                          .external = v->external,
                          .graph_node = v->graph_node};
    return kineto_ids_op(&r->ids, v, &sig, &op, e);
}

static enum st take_call(struct kineto_reader *r, const struct kineto_event *v, struct err *e)
{
    struct trace_call call = {.start_ns = v->ts_ns,
                              .end_ns = v->ts_ns + v->dur_ns,
                              .correlation = kineto_ids_correlation(&r->ids, v->correlation),
                              .name = string_of(r, v->name, v->escaped),
                              .driver = v->type == KINETO_DRIVER};
    TRY(kineto_ids_thread(&r->ids, v, &call.thread, e));
    if (!r->sink->call)
        return ST_OK;
    return r->sink->call(r->sink->self, &call, e);
}

static enum st take_range(struct kineto_reader *r, const struct kineto_event *v, struct err *e)
{
    struct trace_range range = {
        .start_ns = v->ts_ns,
        .end_ns = v->ts_ns + v->dur_ns,
        .text = string_of(r, v->name, v->escaped),
        .shapes = list_of(r, v->shapes),
        .types = list_of(r, v->types),
        .external = v->external,
        .style = v->type == KINETO_OPERATOR ? TRACE_OPERATOR : TRACE_ANNOTATION,
    };
    TRY(kineto_ids_thread(&r->ids, v, &range.thread, e));
    range.end_thread = range.thread;
    if (!r->sink->range)
        return ST_OK;
    return r->sink->range(r->sink->self, &range, e);
}

static enum st take_name(struct kineto_reader *r, const struct kineto_event *v, struct err *e)
{
    (void)e;
    uint32_t process = kineto_ids_known(&r->ids, v);
    if (process != TRACE_NONE)
        r->dict->processes[process].name = string_of(r, v->label, true);
    return ST_OK;
}

static enum st take_skipped(struct kineto_reader *r, const struct kineto_event *v, struct err *e)
{
    (void)v;
    (void)e;
    r->dict->skipped++;
    return ST_OK;
}

static enum st (*const takers[])(struct kineto_reader *, const struct kineto_event *,
                                 struct err *) = {
    [KINETO_KERNEL] = take_op,        [KINETO_COPY] = take_op,
    [KINETO_SET] = take_op,           [KINETO_RUNTIME] = take_call,
    [KINETO_DRIVER] = take_call,      [KINETO_OPERATOR] = take_range,
    [KINETO_ANNOTATION] = take_range, [KINETO_PROCESS_NAME] = take_name,
    [KINETO_THREAD_NAME] = NULL,      [KINETO_SKIPPED] = take_skipped,
};

static uint32_t member32(const struct node *map, const char *key)
{
    const struct node *n = node_find(map, key);
    return n && n->kind == NODE_INT && n->i >= 0 && n->i < UINT32_MAX ? (uint32_t)n->i : 0;
}

static void take_device(struct kineto_reader *r, const struct node *d)
{
    const struct node *name = node_find(d, "name"), *memory = node_find(d, "totalGlobalMem");
    trace_device_of(
        r->dict, &(struct trace_device){
                     .number = member32(d, "id"),
                     .name = name && name->kind == NODE_STR ? trace_string(r->dict, name->s) : 0,
                     .major = member32(d, "computeMajor"),
                     .minor = member32(d, "computeMinor"),
                     .sms = member32(d, "numSms"),
                     .max_threads_per_sm = member32(d, "maxThreadsPerMultiprocessor"),
                     .memory_bytes = memory && memory->kind == NODE_INT ? (uint64_t)memory->i : 0,
                 });
}

/* True when the member is one of the versions of CUDA, which are no lists and no maps. */
static bool take_version(struct kineto_reader *r, struct sv key, struct sv value)
{
    int64_t version;
    for (int i = 0; i < TRACE_FACTS; i++)
        if (trace_fact_names[i].kineto && sv_eq(key, trace_fact_names[i].kineto)) {
            if (str_int64(value, &version) && version > 0)
                trace_fact(r->dict, (enum trace_fact_kind)i, value);
            return true;
        }
    return false;
}

/* Newer PyTorch counts from the begin of a quarter of a year. Files of one trace must agree. */
static void take_time_base(struct kineto_reader *r, struct sv value)
{
    int64_t base;
    if (!str_int64(value, &base))
        return;
    r->other_base = r->dict->has_time_base && r->dict->time_base_ns != base;
    r->dict->has_time_base = true;
    r->dict->time_base_ns = base;
}

/* Facts from the top-level members; skips malformed ones. */
static void take_header(struct kineto_reader *r, struct sv key, struct sv value)
{
    if (take_version(r, key, value))
        return;
    if (sv_eq(key, "baseTimeNanoseconds")) {
        take_time_base(r, value);
        return;
    }
    bool devices = sv_eq(key, "deviceProperties"), ranks = sv_eq(key, "distributedInfo");
    if (!devices && !ranks)
        return;
    struct arena *a = arena_new();
    struct node *n;
    struct err e = {0};
    if (json_parse(a, r->path, value, NULL, &n, &e) == ST_OK) {
        if (devices && n->kind == NODE_LIST)
            for (uint32_t i = 0; i < n->n && i < 4096; i++)
                take_device(r, n->items[i]);
        const struct node *rank = ranks ? node_find(n, "rank") : NULL;
        if (rank && rank->kind == NODE_INT && rank->i >= 0 && rank->i < INT32_MAX)
            r->ids.rank = (int32_t)rank->i;
    }
    arena_free(&a);
}

static bool times_ok(struct kineto_reader *r, const struct kineto_event *v)
{
    enum trace_record_kind kind;
    if (v->type == KINETO_KERNEL || v->type == KINETO_COPY || v->type == KINETO_SET)
        kind = TRACE_OP;
    else if (v->type == KINETO_RUNTIME || v->type == KINETO_DRIVER)
        kind = TRACE_CALL;
    else if (v->type == KINETO_OPERATOR || v->type == KINETO_ANNOTATION)
        kind = TRACE_RANGE;
    else
        return true;
    bool far = v->ts_ns > INT64_MAX / 4 || v->ts_ns < INT64_MIN / 4 || v->dur_ns > INT64_MAX / 4 ||
               v->dur_ns < 0;
    return trace_times_ok(r->dict, kind, far ? 1 : v->ts_ns, far ? 0 : v->ts_ns + v->dur_ns);
}

static enum st consume(struct kineto_reader *r, struct err *e)
{
    for (size_t i = 0;; i = (i + 1) % SLOTS) {
        struct piece_slot *s = &r->slots[i];
        wait_for(r, s, SLOT_PARSED);
        for (size_t k = 0; k + 1 < s->header.n; k += 2)
            take_header(r, s->header.p[k], s->header.p[k + 1]);
        for (size_t k = 0; k < s->events.n; k++) {
            const struct kineto_event *v = &s->events.p[k];
            if (v->type == KINETO_IGNORED || !takers[v->type])
                continue;
            if (!v->has_ts && v->type != KINETO_PROCESS_NAME)
                r->dict->skipped++;
            else if (times_ok(r, v))
                TRY(takers[v->type](r, v, e));
        }
        if (s->error.st != ST_OK) {
            *e = s->error;
            return e->st;
        }
        if (s->last)
            return kineto_ids_finish(&r->ids, e);
        pass_on(r, s, SLOT_FREE);
    }
}

/* ---- all of it ---- */

static enum st run(struct kineto_reader *r, struct err *e)
{
    pthread_t reads, parses;
    if (pthread_create(&reads, NULL, read_pieces, r) != 0)
        return err_set(e, ST_IO, "%s: no thread to read it", r->path);
    if (pthread_create(&parses, NULL, parse_pieces, r) != 0) {
        pthread_mutex_lock(&r->lock);
        r->stop = true;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
        pthread_join(reads, NULL);
        return err_set(e, ST_IO, "%s: no thread to parse it", r->path);
    }
    enum st st = consume(r, e);
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    pthread_join(reads, NULL);
    pthread_join(parses, NULL);
    return st;
}

static void tell_odd(struct kineto_reader *r)
{
    const char *name = fs_base(r->path);
    if (r->odd)
        trace_note(r->dict, LOG_WARN,
                   "%s: %llu odd place%s skipped, the first at line %ld, column %ld: %s", name,
                   (unsigned long long)r->odd, r->odd == 1 ? " was" : "s were", r->odd_line,
                   r->odd_column, r->odd_why);
    if (r->odd_lists)
        trace_note(r->dict, LOG_WARN, "%s: %llu shapes or types are no JSON lists: left out", name,
                   (unsigned long long)r->odd_lists);
    if (r->cut) {
        r->dict->incomplete = true;
        trace_note(r->dict, LOG_WARN,
                   "%s: the text ends inside the trace, at line %ld, column %ld: what follows is "
                   "missing",
                   name, r->line, r->column);
    }
}

enum st trace_kineto_read(const char *path, struct trace_dict *d, const struct trace_sink *sink,
                          struct err *e)
{
    struct kineto_reader *r = mem_alloc(sizeof *r);
    r->path = path;
    r->dict = d;
    r->sink = sink;
    r->line = r->column = 1;
    kineto_ids_open(&r->ids, path, d, sink);
    enum st st = trace_stream_open(&r->stream, path, e);
    if (st == ST_OK) {
        pthread_mutex_init(&r->lock, NULL);
        pthread_cond_init(&r->moved, NULL);
        for (size_t i = 0; i < SLOTS; i++) {
            r->slots[i].headroom = 1 << 16;
            r->slots[i].memory = mem_alloc(r->slots[i].headroom + PIECE_BYTES);
        }
        st = run(r, e);
        for (size_t i = 0; i < SLOTS; i++) {
            mem_free(r->slots[i].memory);
            vec_free(&r->slots[i].events);
            vec_free(&r->slots[i].header);
        }
        pthread_mutex_destroy(&r->lock);
        pthread_cond_destroy(&r->moved);
        trace_stream_close(&r->stream);
    }
    if (st == ST_OK && d->skipped)
        trace_note(d, LOG_INFO, "%llu events of kinds that are not read were passed over",
                   (unsigned long long)d->skipped);
    if (st == ST_OK && r->other_base)
        st = err_set(e, ST_INPUT,
                     "%s: its times count from another moment (baseTimeNanoseconds) than those of "
                     "the other files",
                     path);
    if (st == ST_OK)
        tell_odd(r);
    kineto_ids_close(&r->ids);
    buf_free(&r->scratch);
    mem_free(r);
    return st;
}

bool trace_kineto_recognises(struct sv head)
{
    size_t mark = head.n >= 3 && memcmp(head.p, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    for (size_t i = mark; i < head.n; i++) {
        char c = head.p[i];
        if (c == '{' || c == '[')
            return true;
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return false;
    }
    return false;
}
