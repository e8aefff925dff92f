#include "trace/kineto_scan.h"

#include <math.h>
#include <string.h>

#include "trace/dict.h"

/* ---- passing over ---- */

#define EVERY(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The closing quote or a backslash at or behind p, eight bytes at a time; end when there is none.
 */
static const char *find_special(const char *p, const char *end)
{
    while (end - p >= 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        uint64_t quote = x ^ EVERY(0x22), slash = x ^ EVERY(0x5c);
        uint64_t hit =
            (((quote - EVERY(1)) & ~quote) | ((slash - EVERY(1)) & ~slash)) & EVERY(0x80);
        if (hit)
            return p + (__builtin_ctzll(hit) >> 3);
        p += 8;
    }
    while (p < end && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* p behind the opening quote; the closing one, or NULL. */
static const char *close_quote(const char *p, const char *end, bool *escaped)
{
    for (;;) {
        p = find_special(p, end);
        if (p >= end)
            return NULL;
        if (*p == '"')
            return p;
        *escaped = true;
        p += 2;
    }
}

/* Class of a byte in the scan for the end of a list or map. */
enum { PLAIN, QUOTE, OPEN, CLOSE };
static const unsigned char meaning[256] = {
    ['"'] = QUOTE, ['{'] = OPEN, ['['] = OPEN, ['}'] = CLOSE, [']'] = CLOSE};

static const char *container_end(const char *p, const char *end)
{
    long depth = 0;
    bool escaped = false;
    while (p < end) {
        unsigned char m = meaning[(unsigned char)*p];
        if (m == PLAIN) {
            p++;
            continue;
        }
        if (m == QUOTE) {
            p = close_quote(p + 1, end, &escaped);
            if (!p)
                return NULL;
        } else {
            depth += m == OPEN ? 1 : -1;
            if (depth == 0)
                return p + 1;
        }
        p++;
    }
    return NULL;
}

static bool scalar_byte(char c)
{
    return c != ',' && c != '}' && c != ']' && c != ':' && c != '"' && (unsigned char)c > ' ';
}

const char *trace_scan_value_end(const char *p, const char *end)
{
    if (p >= end)
        return NULL;
    if (*p == '{' || *p == '[')
        return container_end(p, end);
    if (*p == '"') {
        bool escaped = false;
        p = close_quote(p + 1, end, &escaped);
        return p ? p + 1 : NULL;
    }
    while (p < end && scalar_byte(*p))
        p++;
    return p < end ? p : NULL;
}

/* ---- reading ---- */

static bool fail(struct scan *s, const char *at, const char *why)
{
    if (!s->fault) {
        s->fault = at;
        s->why = why;
    }
    return false;
}

void trace_scan_odd(struct scan *s, const char *at, const char *why)
{
    if (s->odd++ == 0) {
        s->odd_at = at;
        s->odd_why = why;
    }
}

void trace_scan_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
        s->p++;
}

static bool take(struct scan *s, char c)
{
    trace_scan_space(s);
    if (s->p >= s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

bool trace_scan_string(struct scan *s, struct sv *text, bool *escaped)
{
    if (!take(s, '"'))
        return fail(s, s->p, "expected a string");
    bool has_escape = false;
    const char *q = close_quote(s->p, s->end, &has_escape);
    if (!q)
        return fail(s, s->p, "the string does not end");
    *text = (struct sv){s->p, (size_t)(q - s->p)};
    *escaped = has_escape;
    s->p = q + 1;
    return true;
}

static bool skip_value(struct scan *s)
{
    trace_scan_space(s);
    const char *q = trace_scan_value_end(s->p, s->end);
    if (!q || q == s->p)
        return fail(s, s->p, "expected a value");
    s->p = q;
    return true;
}

/* Passes over a value that could not be read, or that is missing: the next byte ends it. */
static bool skip_odd(struct scan *s, const char *from)
{
    const char *at = s->fault ? s->fault : from, *why = s->fault ? s->why : "expected a value";
    s->p = from;
    s->fault = s->why = NULL;
    trace_scan_space(s);
    if (s->p >= s->end)
        return fail(s, s->p, "expected a value");
    if (*s->p != ',' && *s->p != '}' && *s->p != ']' && !skip_value(s))
        return false;
    trace_scan_odd(s, at, why);
    return true;
}

/* Past a comma to the next member; false at the closing bracket, which may follow a comma. */
static bool next_member(struct scan *s, char close)
{
    if (!take(s, ','))
        return false;
    trace_scan_space(s);
    if (s->p >= s->end || *s->p != close)
        return true;
    trace_scan_odd(s, s->p, "expected a value behind ','");
    return false;
}

static bool at_word(const struct scan *s, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(s->end - s->p) > n && memcmp(s->p, word, n) == 0 && !scalar_byte(s->p[n]);
}

/* Whether the value stands for none: null, or Python's texts for NaN and infinities. */
static bool is_absent(struct scan *s)
{
    trace_scan_space(s);
    if (s->p >= s->end || (*s->p != 'n' && *s->p != 'N' && *s->p != 'I' && *s->p != '-'))
        return false;
    return at_word(s, "null") || at_word(s, "NaN") || at_word(s, "Infinity") ||
           at_word(s, "-Infinity");
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool slow_number(struct scan *s, const char *from, double scale, int64_t *out)
{
    const char *q = trace_scan_value_end(from, s->end);
    double v;
    if (!q || !str_double((struct sv){from, (size_t)(q - from)}, &v) || !(fabs(v * scale) < 9e18))
        return fail(s, from, "expected a number");
    *out = (int64_t)llround(v * scale);
    s->p = q;
    return true;
}

/* A decimal number times 10^places, rounded; exact for everything without an exponent. Accepts a
 * number in quotes, as some writers put 64-bit ones. */
static bool number(struct scan *s, int places, int64_t *out)
{
    trace_scan_space(s);
    bool quoted = s->p < s->end && *s->p == '"';
    const char *p = s->p + quoted, *from = p;
    bool negative = p < s->end && *p == '-';
    p += negative;
    const char *first = p;
    uint64_t v = 0;
    while (p < s->end && digit(*p) && p - first < 16)
        v = v * 10 + (uint64_t)(*p++ - '0');
    bool any = p > first;
    int wanted = places;
    bool up = false;
    if (p < s->end && *p == '.') {
        p++;
        for (; p < s->end && digit(*p); p++, wanted--) {
            if (wanted > 0)
                v = v * 10 + (uint64_t)(*p - '0');
            else if (wanted == 0)
                up = *p >= '5';
        }
    }
    if (!any || (p < s->end && (digit(*p) || *p == 'e' || *p == 'E'))) {
        int64_t scale = 1;
        for (int i = 0; i < places; i++)
            scale *= 10;
        if (!slow_number(s, from, (double)scale, out))
            return false;
    } else {
        for (; wanted > 0; wanted--)
            v *= 10;
        v += up;
        if (v > INT64_MAX)
            return fail(s, from, "expected a number of 64 bits");
        *out = negative ? -(int64_t)v : (int64_t)v;
        s->p = p;
    }
    if (quoted && !take(s, '"'))
        return fail(s, s->p, "expected a number");
    return true;
}

/* A 64-bit integer, exact beyond the precision of a double. */
static bool whole64(struct scan *s, uint64_t *out)
{
    trace_scan_space(s);
    const char *q = trace_scan_value_end(s->p, s->end);
    int64_t v;
    if (!q)
        return fail(s, s->p, "expected a number");
    struct sv text = {s->p, (size_t)(q - s->p)};
    if (text.n >= 2 && text.p[0] == '"')
        text = (struct sv){text.p + 1, text.n - 2};
    if (text.n > 2 && text.p[text.n - 2] == '.' && text.p[text.n - 1] == '0')
        text.n -= 2; /* pandas makes floats of whole columns */
    if (!str_int64(text, &v))
        return fail(s, s->p, "expected an integer");
    *out = (uint64_t)v;
    s->p = q;
    return true;
}

static bool whole32(struct scan *s, uint32_t *out)
{
    int64_t v;
    const char *at = s->p;
    if (!number(s, 0, &v))
        return false;
    if (v < INT32_MIN || v > UINT32_MAX)
        return fail(s, at, "expected a number of 32 bits");
    *out = (uint32_t)v;
    return true;
}

/* A count of 32 bits: a negative one says nothing. */
static bool count32(struct scan *s, uint32_t *out)
{
    int64_t v;
    const char *at = s->p;
    if (!number(s, 0, &v))
        return false;
    if (v < 0 || v > UINT32_MAX)
        return fail(s, at, "expected a number of 32 bits from 0 on");
    *out = (uint32_t)v;
    return true;
}

/* A pid or tid: a number, or *text where it is more. Of that the number at its end ("stream 7",
 * "[TP01] 2000"), else at its begin ("2000 (rank 1)"), with *rest beside it; "Spans" has none. */
static bool number_or_text(struct scan *s, int64_t *out, struct sv *text, struct sv *rest)
{
    enum { MOST_DIGITS = 18 };
    bool escaped;
    *out = -1;
    *text = *rest = (struct sv){0};
    trace_scan_space(s);
    if (s->p < s->end && *s->p != '"')
        return number(s, 0, out);
    if (!trace_scan_string(s, text, &escaped))
        return false;
    size_t n = text->n, first = 0;
    while (n > 0 && text->n - n < MOST_DIGITS && digit(text->p[n - 1]))
        n--;
    while (n == text->n && first < n && first < MOST_DIGITS && digit(text->p[first]))
        first++;
    if (n < text->n)
        str_int64((struct sv){text->p + n, text->n - n}, out);
    else if (first > 0)
        str_int64((struct sv){text->p, first}, out);
    *rest = (struct sv){text->p + first, n - first};
    if (n == 0)
        *text = (struct sv){0};
    return true;
}

/* "[8, 1, 1]" in quotes too. An empty list is unknown. */
static bool triple(struct scan *s, uint32_t out[3])
{
    static const char why[] = "expected a list of three numbers";
    uint32_t v[3] = {0};
    const char *from = s->p;
    bool quoted = take(s, '"');
    if (!take(s, '['))
        return fail(s, from, why);
    bool empty = take(s, ']');
    for (int i = 0; i < 3 && !empty; i++)
        if ((i && !take(s, ',')) || !count32(s, &v[i]))
            return fail(s, from, why);
    if ((!empty && !take(s, ']')) || (quoted && !take(s, '"')))
        return fail(s, from, why);
    memcpy(out, v, sizeof v);
    return true;
}

/* A GPU's number; a negative one says none. */
static bool device_number(struct scan *s, uint32_t *out)
{
    int64_t v;
    const char *at = s->p;
    if (!number(s, 0, &v))
        return false;
    if (v < 0 || v >= KINETO_DEVICES)
        return fail(s, at, "expected the number of a GPU");
    *out = (uint32_t)v;
    return true;
}

/* The number of a stream, or a handle: text, or a number of more bits. */
static bool stream_of(struct scan *s, struct kineto_event *v)
{
    trace_scan_space(s);
    const char *from = s->p;
    struct scan number_only = *s;
    v->has_stream = true;
    if (*from != '-' && whole32(&number_only, &v->stream)) {
        *s = number_only;
        return true;
    }
    if (!skip_value(s) || *from == '[' || *from == '{')
        return fail(s, from, "expected a stream");
    v->stream = 0;
    v->stream_handle = (struct sv){from, (size_t)(s->p - from)};
    return true;
}

/* Counted from 1, up to 64 bits; a negative one is unknown. */
static bool correlation(struct scan *s, uint64_t *out)
{
    uint64_t v;
    if (!whole64(s, &v))
        return false;
    *out = (int64_t)v > 0 ? v : 0;
    return true;
}

static bool list_text(struct scan *s, struct sv *out)
{
    trace_scan_space(s);
    const char *from = s->p;
    if (!skip_value(s))
        return false;
    *out = *from == '[' ? (struct sv){from, (size_t)(s->p - from)} : (struct sv){0};
    return true;
}

/* ---- arguments ---- */

enum event_arg {
    ARG_NONE,
    ARG_DEVICE,
    ARG_CONTEXT,
    ARG_STREAM,
    ARG_CORRELATION,
    ARG_REGISTERS,
    ARG_SHARED,
    ARG_GRID,
    ARG_BLOCK,
    ARG_BYTES,
    ARG_NODE,
    ARG_SHAPES,
    ARG_TYPES,
    ARG_NAME,
    ARG_PROCESS,
    ARG_EXTERNAL,
};

/* Types of events for which an argument is read. */
#define OF(type) (1u << (type))
enum {
    GPU = OF(KINETO_KERNEL) | OF(KINETO_COPY) | OF(KINETO_SET),
    CALL = OF(KINETO_RUNTIME) | OF(KINETO_DRIVER),
    NAMES = OF(KINETO_PROCESS_NAME) | OF(KINETO_THREAD_NAME),
};

static const struct {
    struct sv key;
    enum event_arg arg;
    unsigned types;
} args[] = {
    {{"device", 6}, ARG_DEVICE, GPU},
    {{"context", 7}, ARG_CONTEXT, GPU},
    {{"stream", 6}, ARG_STREAM, GPU},
    {{"correlation", 11}, ARG_CORRELATION, GPU | CALL},
    {{"registers per thread", 20}, ARG_REGISTERS, OF(KINETO_KERNEL)},
    {{"shared memory", 13}, ARG_SHARED, OF(KINETO_KERNEL)},
    {{"grid", 4}, ARG_GRID, OF(KINETO_KERNEL)},
    {{"block", 5}, ARG_BLOCK, OF(KINETO_KERNEL)},
    {{"bytes", 5}, ARG_BYTES, OF(KINETO_COPY) | OF(KINETO_SET)},
    {{"graph node id", 13}, ARG_NODE, GPU},
    {{"Input Dims", 10}, ARG_SHAPES, OF(KINETO_OPERATOR)},
    {{"Input dims", 10}, ARG_SHAPES, OF(KINETO_OPERATOR)},
    {{"Input type", 10}, ARG_TYPES, OF(KINETO_OPERATOR)},
    {{"name", 4}, ARG_NAME, NAMES},
    {{"process", 7}, ARG_PROCESS, GPU},
    {{"External id", 11}, ARG_EXTERNAL, GPU | OF(KINETO_OPERATOR)},
    {{"external id", 11}, ARG_EXTERNAL, GPU | OF(KINETO_OPERATOR)},
};

#define LEN(x) (sizeof(x) / sizeof *(x))

static bool same(struct sv a, struct sv b)
{
    return a.n == b.n && memcmp(a.p, b.p, b.n) == 0;
}

static enum event_arg arg_of(struct sv key, unsigned type)
{
    for (size_t i = 0; i < LEN(args); i++)
        if ((args[i].types & OF(type)) && args[i].key.n == key.n && same(key, args[i].key))
            return args[i].arg;
    return ARG_NONE;
}

static bool read_arg(struct scan *s, enum event_arg arg, struct kineto_event *v)
{
    bool escaped;
    if (is_absent(s))
        return skip_value(s);
    switch (arg) {
    case ARG_DEVICE:
        return device_number(s, &v->device);
    case ARG_CONTEXT:
        return whole32(s, &v->context);
    case ARG_STREAM:
        return stream_of(s, v);
    case ARG_CORRELATION:
        return correlation(s, &v->correlation);
    case ARG_REGISTERS:
        return count32(s, &v->registers);
    case ARG_SHARED:
        return count32(s, &v->shared);
    case ARG_GRID:
        return triple(s, v->grid);
    case ARG_BLOCK:
        return triple(s, v->block);
    case ARG_BYTES:
        return number(s, 0, &v->bytes);
    case ARG_NODE:
        return whole64(s, &v->graph_node);
    case ARG_SHAPES:
        return list_text(s, &v->shapes);
    case ARG_TYPES:
        return list_text(s, &v->types);
    case ARG_PROCESS:
        return count32(s, &v->process);
    case ARG_EXTERNAL:
        return count32(s, &v->external);
    case ARG_NAME:
        return trace_scan_string(s, &v->label, &escaped);
    case ARG_NONE:
        break;
    }
    return skip_value(s);
}

static bool read_args(struct scan *s, struct kineto_event *v)
{
    struct sv key;
    bool escaped;
    if (!take(s, '{'))
        return skip_value(s);
    if (take(s, '}'))
        return true;
    do {
        if (!trace_scan_string(s, &key, &escaped))
            return false;
        if (!take(s, ':'))
            return fail(s, s->p, "expected ':'");
        const char *from = s->p;
        if (!read_arg(s, arg_of(key, (unsigned)v->type), v) && !skip_odd(s, from))
            return false;
    } while (next_member(s, '}'));
    return take(s, '}') || fail(s, s->p, "expected ',' or '}'");
}

/* The external id alone, which is the first of an operator's arguments; the others are skipped. */
static bool read_external(struct scan *s, struct kineto_event *v)
{
    trace_scan_space(s);
    struct scan inner = {.p = s->p, .end = s->end};
    struct sv key;
    bool escaped;
    if (!skip_value(s))
        return false;
    inner.end = s->p;
    if (!take(&inner, '{'))
        return true;
    do {
        if (!trace_scan_string(&inner, &key, &escaped) || !take(&inner, ':'))
            return true;
        if (arg_of(key, KINETO_OPERATOR) == ARG_EXTERNAL) {
            (void)count32(&inner, &v->external); /* an odd one is none */
            return true;
        }
    } while (skip_value(&inner) && take(&inner, ','));
    return true;
}

/* ---- events ---- */

static const struct {
    struct sv cat;
    enum kineto_type type;
} categories[] = {
    /* as PyTorch 1.8 to 2.x have written them */
    {{"cpu_op", 6}, KINETO_OPERATOR},
    {{"kernel", 6}, KINETO_KERNEL},
    {{"cuda_runtime", 12}, KINETO_RUNTIME},
    {{"cuda_driver", 11}, KINETO_DRIVER},
    {{"gpu_memcpy", 10}, KINETO_COPY},
    {{"gpu_memset", 10}, KINETO_SET},
    {{"user_annotation", 15}, KINETO_ANNOTATION},
    {{"Kernel", 6}, KINETO_KERNEL},
    {{"Memcpy", 6}, KINETO_COPY},
    {{"Memset", 6}, KINETO_SET},
    {{"Runtime", 7}, KINETO_RUNTIME},
    {{"Operator", 8}, KINETO_OPERATOR},
};

static bool ends_with(struct sv text, struct sv end)
{
    return text.n >= end.n && memcmp(text.p + text.n - end.n, end.p, end.n) == 0;
}

static enum kineto_type type_of(struct sv ph, struct sv cat, struct sv name)
{
    if (ph.n != 1)
        return KINETO_IGNORED;
    if (ph.p[0] == 'M')
        return sv_eq(name, "process_name")  ? KINETO_PROCESS_NAME
               : sv_eq(name, "thread_name") ? KINETO_THREAD_NAME
                                            : KINETO_IGNORED;
    if (ph.p[0] != 'X') /* separate begin and end events are not supported */
        return strchr("BEbe", ph.p[0]) && ph.p[0] ? KINETO_SKIPPED : KINETO_IGNORED;
    for (size_t i = 0; i < LEN(categories); i++)
        if (same(cat, categories[i].cat))
            return categories[i].type;
    /* hip_runtime, xpu_runtime, privateuse1_runtime, mtia_runtime, ... */
    return ends_with(cat, SV("_runtime"))  ? KINETO_RUNTIME
           : ends_with(cat, SV("_driver")) ? KINETO_DRIVER
                                           : KINETO_SKIPPED;
}

/* Whether an operator multiplies matrices: only their shapes are kept. */
static bool multiplies(struct sv name)
{
    static const char *const parts[] = {"mm", "linear", "matmul", "conv", "gemm"};
    if (name.n > 64)
        return false;
    for (size_t i = 0; i < LEN(parts); i++) {
        size_t n = strlen(parts[i]);
        for (size_t at = 0; at + n <= name.n; at++)
            if (memcmp(name.p + at, parts[i], n) == 0)
                return true;
    }
    return false;
}

static bool take_args(struct scan *s, struct kineto_event *v)
{
    if (v->type == KINETO_OPERATOR && !multiplies(v->name))
        return read_external(s, v);
    bool wanted =
        v->type != KINETO_IGNORED && v->type != KINETO_SKIPPED && v->type != KINETO_ANNOTATION;
    return wanted ? read_args(s, v) : skip_value(s);
}

/* Keys of an event, by their first byte and length. */
struct event_text {
    struct sv ph, cat;
    struct sv args; /* arguments that came before the type */
    bool typed;
};

static bool read_member(struct scan *s, struct sv key, struct event_text *t, struct kineto_event *v)
{
    struct sv text;
    bool escaped;
    if (is_absent(s))
        return skip_value(s);
    if (sv_eq(key, "ts"))
        return v->has_ts = number(s, 3, &v->ts_ns);
    if (sv_eq(key, "dur"))
        return number(s, 3, &v->dur_ns);
    if (sv_eq(key, "ph"))
        return trace_scan_string(s, &t->ph, &escaped);
    if (sv_eq(key, "cat"))
        return trace_scan_string(s, &t->cat, &escaped);
    if (sv_eq(key, "name"))
        return trace_scan_string(s, &v->name, &v->escaped);
    if (sv_eq(key, "pid"))
        return number_or_text(s, &v->pid, &text, &v->pid_prefix);
    if (sv_eq(key, "tid"))
        return number_or_text(s, &v->tid, &v->tid_text, &text);
    if (!sv_eq(key, "args"))
        return skip_value(s);
    /* PyTorch writes ph, cat and name before args; read in place then. */
    if (t->ph.n && v->name.n && (t->cat.n || t->ph.p[0] == 'M')) {
        v->type = type_of(t->ph, t->cat, v->name);
        t->typed = true;
        return take_args(s, v);
    }
    trace_scan_space(s);
    t->args.p = s->p;
    if (!skip_value(s))
        return false;
    t->args.n = (size_t)(s->p - t->args.p);
    return true;
}

static bool late_args(struct scan *s, const struct event_text *t, struct kineto_event *v)
{
    if (t->typed)
        return true;
    v->type = type_of(t->ph, t->cat, v->name);
    if (!t->args.n)
        return true;
    struct scan inner = {.p = t->args.p, .end = t->args.p + t->args.n};
    bool ok = take_args(&inner, v);
    if (inner.odd && !s->odd) {
        s->odd_at = inner.odd_at;
        s->odd_why = inner.odd_why;
    }
    s->odd += inner.odd;
    return ok || fail(s, inner.fault, inner.why);
}

bool trace_scan_event(struct scan *s, struct kineto_event *v)
{
    struct event_text t = {0};
    struct sv key;
    bool escaped;
    *v = (struct kineto_event){.device = TRACE_NONE,
                               .dur_ns = -1 /* counted as impossible where none is read */};
    if (!take(s, '{'))
        return fail(s, s->p, "expected an event");
    if (!take(s, '}')) {
        do {
            if (!trace_scan_string(s, &key, &escaped))
                return false;
            if (!take(s, ':'))
                return fail(s, s->p, "expected ':'");
            const char *from = s->p;
            if (!read_member(s, key, &t, v) && !skip_odd(s, from))
                return false;
        } while (next_member(s, '}'));
        if (!take(s, '}'))
            return fail(s, s->p, "expected ',' or '}'");
    }
    return late_args(s, &t, v);
}
