#include "engine/worker/message.h"

#include <string.h>

#include "text/json.h"

/* ---- reading ----------------------------------------------------------------------------- */

/* Up to 73 years: sums and differences of a few of them still fit. */
static enum st get_time(const struct node *m, const char *key, int64_t *out, struct err *e)
{
    return node_get_int(m, key, 0, INT64_MAX / 4, out, e);
}

/* A member that may be missing: *out stays as it is. */
static enum st get_optional_time(const struct node *m, const char *key, int64_t *out, struct err *e)
{
    return node_find(m, key) ? get_time(m, key, out, e) : ST_OK;
}

static enum st get_info(const struct node *m, struct worker_event *out, struct err *e)
{
    struct node *info = node_find(m, "info");
    if (!info)
        return ST_OK;
    out->info = info;
    return node_get(m, "info", NODE_MAP, &info, e);
}

static enum st read_passes(const struct node *capabilities, uint32_t *out, struct err *e)
{
    static const char *const kinds[] = {"decode", "prompt", "chunk", "mixed"};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    struct node *list;
    if (!node_find(capabilities, "passes"))
        return ST_OK;
    TRY(node_get(capabilities, "passes", NODE_LIST, &list, e));
    for (uint32_t i = 0; i < list->n; i++) {
        const struct node *item = list->items[i];
        unsigned k = 0;
        while (k < KINDS && !(item->kind == NODE_STR && sv_eq(item->s, kinds[k])))
            k++;
        if (k == KINDS)
            return node_err(item, ST_INPUT, e, "passes: expected decode, prompt, chunk or mixed");
        *out |= 1U << k;
    }
    return ST_OK;
}

static enum st read_capabilities(const struct node *m, struct worker_hello *h, struct err *e)
{
    struct node *c;
    TRY(node_get(m, "capabilities", NODE_MAP, &c, e));
    h->capabilities = c;
    TRY(node_get_bool(c, "prompt_ids", &h->prompt_ids, e));
    TRY(node_get_bool(c, "prompt_text", &h->prompt_text, e));
    TRY(node_get_bool(c, "token_ids", &h->token_ids, e));
    TRY(node_get_bool(c, "batches", &h->batches, e));
    TRY(node_get_bool(c, "cancel", &h->cancel, e));
    TRY(read_passes(c, &h->passes, e));
    return node_get_int(c, "max_model_len", 0, INT32_MAX, &h->max_model_len, e);
}

static enum st read_hello(struct arena *a, const struct node *m, struct worker_event *out,
                          struct err *e)
{
    (void)a;
    struct worker_hello *h = &out->hello;
    struct node *clock;
    TRY(node_get_int(m, "protocol", 0, INT32_MAX, &h->protocol, e));
    if (h->protocol != WORKER_PROTOCOL)
        return ST_OK; /* the rest is undefined for another version */
    TRY(node_get_str(m, "name", &h->name, e));
    if (!*h->name || strlen(h->name) > WORKER_NAME_MAX)
        return node_err(node_find(m, "name"), ST_INPUT, e, "name: expected 1 to %d bytes",
                        WORKER_NAME_MAX);
    TRY(node_get_str(m, "version", &h->version, e));
    TRY(node_get(m, "clock", NODE_MAP, &clock, e));
    TRY(node_get_str(clock, "kind", &h->clock_kind, e));
    if (node_find(clock, "boot_id"))
        TRY(node_get_str(clock, "boot_id", &h->boot_id, e));
    TRY(read_capabilities(m, h, e));
    return get_info(m, out, e);
}

static enum st read_ready(struct arena *a, const struct node *m, struct worker_event *out,
                          struct err *e)
{
    (void)a;
    return get_info(m, out, e);
}

static enum st read_clock(struct arena *a, const struct node *m, struct worker_event *out,
                          struct err *e)
{
    (void)a;
    TRY(node_get_int(m, "seq", 0, INT64_MAX, &out->clock.seq, e));
    TRY(get_time(m, "recv_ns", &out->clock.recv_ns, e));
    TRY(get_time(m, "send_ns", &out->clock.send_ns, e));
    if (out->clock.send_ns < out->clock.recv_ns)
        return node_err(node_find(m, "send_ns"), ST_INPUT, e, "send_ns: is before recv_ns");
    return ST_OK;
}

static enum st read_ints(struct arena *a, const struct node *m, const char *key, int64_t **out,
                         size_t *n, struct err *e)
{
    struct node *list;
    TRY(node_get(m, key, NODE_LIST, &list, e));
    *n = list->n;
    *out = arena_array(a, int64_t, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct node *item = list->items[i];
        if (item->kind != NODE_INT || item->i < 0)
            return node_err(item, ST_INPUT, e, "%s: expected integers from 0 on", key);
        (*out)[i] = item->i;
    }
    return ST_OK;
}

static enum st read_tokens(struct arena *a, const struct node *m, struct worker_event *out,
                           struct err *e)
{
    struct worker_tokens *t = &out->tokens;
    size_t n;
    TRY(get_time(m, "t_ns", &t->t_ns, e));
    TRY(read_ints(a, m, "ids", &t->ids, &t->n, e));
    if (t->n == 0)
        return node_err(node_find(m, "ids"), ST_INPUT, e, "ids: the list is empty");
    if (!node_find(m, "tokens"))
        return ST_OK;
    TRY(read_ints(a, m, "tokens", &t->tokens, &n, e));
    if (n != t->n)
        return node_err(node_find(m, "tokens"), ST_INPUT, e, "tokens: %zu of them for %zu requests",
                        n, t->n);
    return ST_OK;
}

static enum st read_batch(struct arena *a, const struct node *m, struct worker_event *out,
                          struct err *e)
{
    (void)a;
    struct worker_batch *b = &out->batch;
    b->device_ns = -1;
    TRY(get_time(m, "start_ns", &b->start_ns, e));
    TRY(get_time(m, "end_ns", &b->end_ns, e));
    if (b->end_ns < b->start_ns)
        return node_err(node_find(m, "end_ns"), ST_INPUT, e, "end_ns: is before start_ns");
    TRY(get_optional_time(m, "device_ns", &b->device_ns, e));
    TRY(node_get_int(m, "num_prefill_tokens", 0, INT32_MAX, &b->num_prefill_tokens, e));
    TRY(node_get_int(m, "num_decode_tokens", 0, INT32_MAX, &b->num_decode_tokens, e));
    return node_get_int(m, "batch_size", 1, INT32_MAX, &b->batch_size, e);
}

static enum st read_finished(struct arena *a, const struct node *m, struct worker_event *out,
                             struct err *e)
{
    (void)a;
    static const char *const reasons[] = {"length", "stop", "cancelled"};
    const char *reason;
    out->finished.scheduled_ns = -1;
    TRY(node_get_int(m, "id", 0, INT64_MAX, &out->finished.id, e));
    TRY(node_get_int(m, "num_tokens", 0, INT32_MAX, &out->finished.num_tokens, e));
    TRY(get_optional_time(m, "scheduled_ns", &out->finished.scheduled_ns, e));
    TRY(node_get_str(m, "reason", &reason, e));
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strcmp(reason, reasons[i]) == 0) {
            out->finished.reason = (enum worker_reason)i;
            return ST_OK;
        }
    return node_err(node_find(m, "reason"), ST_INPUT, e,
                    "reason: expected length, stop or cancelled, got '%.40s'", reason);
}

/* Makes text safe for tables and terminals: one line, no control characters. */
static const char *plain(struct arena *a, const char *text)
{
    char *copy = arena_str(a, text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    return copy;
}

static enum st read_error(struct arena *a, const struct node *m, struct worker_event *out,
                          struct err *e)
{
    const char *text;
    out->error.id = -1;
    out->error.kind = out->error.hint = NULL;
    if (node_find(m, "id"))
        TRY(node_get_int(m, "id", 0, INT64_MAX, &out->error.id, e));
    if (node_find(m, "kind"))
        TRY(node_get_str(m, "kind", &out->error.kind, e));
    if (node_find(m, "hint"))
        TRY(node_get_str(m, "hint", &out->error.hint, e));
    TRY(node_get_str(m, "message", &text, e));
    out->error.message = plain(a, text);
    if (out->error.hint)
        out->error.hint = plain(a, out->error.hint);
    if (out->error.kind)
        out->error.kind = plain(a, out->error.kind);
    return ST_OK;
}

static enum st read_passed(struct arena *a, const struct node *m, struct worker_event *out,
                           struct err *e)
{
    struct worker_passed *p = &out->passed;
    size_t n = 0;
    p->device_ns = NULL;
    TRY(node_get_int(m, "id", 0, INT64_MAX, &p->id, e));
    TRY(read_ints(a, m, "total_ns", &p->total_ns, &p->n, e));
    for (size_t i = 0; i < p->n; i++)
        if (p->total_ns[i] == 0 || p->total_ns[i] > INT64_MAX / 4)
            return node_err(node_find(m, "total_ns"), ST_INPUT, e, "total_ns: no time of a pass");
    if (!node_find(m, "device_ns"))
        return ST_OK;
    TRY(read_ints(a, m, "device_ns", &p->device_ns, &n, e));
    if (n != p->n)
        return node_err(node_find(m, "device_ns"), ST_INPUT, e,
                        "device_ns: %zu of them for %zu passes", n, p->n);
    for (size_t i = 0; i < n; i++)
        if (p->device_ns[i] > p->total_ns[i])
            return node_err(node_find(m, "device_ns"), ST_INPUT, e, "device_ns: is above total_ns");
    return ST_OK;
}

/* In order of enum worker_event_type. */
static const struct {
    const char *name;
    enum st (*read)(struct arena *a, const struct node *m, struct worker_event *out, struct err *e);
} types[] = {
    {"hello", read_hello},   {"ready", read_ready},   {"clock", read_clock},
    {"tokens", read_tokens}, {"batch", read_batch},   {"finished", read_finished},
    {"error", read_error},   {"passed", read_passed},
};
enum { TYPES = sizeof types / sizeof *types };

const char *worker_event_name(enum worker_event_type t)
{
    return types[t].name;
}

enum st worker_event_read(struct arena *a, struct sv text, long line, struct worker_event *out,
                          struct err *e)
{
    struct json_limits limits = {.max_depth = 8,
                                 .max_string_bytes = WORKER_LINE_MAX,
                                 .max_bytes = WORKER_LINE_MAX,
                                 .first_line = line > 0 && line < UINT32_MAX ? (uint32_t)line : 0};
    struct node *m;
    const char *type;
    TRY(json_parse(a, "worker", text, &limits, &m, e));
    if (m->kind != NODE_MAP)
        return node_err(m, ST_INPUT, e, "expected an object, got %s", node_kind_name(m->kind));
    TRY(node_get_str(m, "type", &type, e));
    *out = (struct worker_event){.line = line};
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(type, types[i].name) == 0) {
            out->type = (enum worker_event_type)i;
            return types[i].read(a, m, out, e);
        }
    return node_err(node_find(m, "type"), ST_INPUT, e, "type: there is no message '%.40s'", type);
}

/* ---- writing ----------------------------------------------------------------------------- */

static struct node *map_or_empty(struct arena *a, const struct node *m)
{
    return m ? node_copy(a, m) : node_new(a, NODE_MAP);
}

void worker_put_hello(struct buf *out, struct arena *a, const struct worker_greeting *g)
{
    struct node *m = node_new(a, NODE_MAP), *model = node_new(a, NODE_MAP);
    node_set(a, model, SV("name"), node_str_or_null(a, g->model_name));
    node_set(a, model, SV("config"), map_or_empty(a, g->model_config));
    node_set(a, model, SV("dir"), node_str_or_null(a, g->model_dir));
    node_set(a, model, SV("weights"), node_str_or_null(a, g->weights));
    node_set(a, m, SV("type"), node_str(a, "hello"));
    node_set(a, m, SV("protocol"), node_int(a, WORKER_PROTOCOL));
    node_set(a, m, SV("model"), model);
    node_set(a, m, SV("device"), node_str_or_null(a, g->device));
    node_set(a, m, SV("seed"), node_int(a, (int64_t)g->seed));
    node_set(a, m, SV("max_tokens"), node_int(a, g->max_tokens));
    node_set(a, m, SV("options"), map_or_empty(a, g->options));
    json_write(out, m, 0, false);
    buf_putc(out, '\n');
}

void worker_put_clock(struct buf *out, int64_t seq)
{
    buf_printf(out, "{\"type\":\"clock\",\"seq\":%lld}\n", (long long)seq);
}

static void put_id(struct buf *out, int32_t id)
{
    char tmp[12], *p = tmp + sizeof tmp;
    uint32_t u = (uint32_t)id;
    do
        *--p = (char)('0' + u % 10);
    while (u /= 10);
    buf_add(out, p, (size_t)(tmp + sizeof tmp - p));
}

void worker_put_submit(struct buf *out, const struct worker_submit *s)
{
    buf_printf(out,
               "{\"type\":\"submit\",\"id\":%lld,\"planned_ns\":%lld,"
               "\"num_prefill_tokens\":%lld,\"max_tokens\":%lld,\"ignore_eos\":%s,",
               (long long)s->id, (long long)s->planned_ns, (long long)s->num_prefill_tokens,
               (long long)s->max_tokens, s->ignore_eos ? "true" : "false");
    if (s->prompt) {
        buf_puts(out, "\"prompt\":");
        json_quote(out, sv_of(s->prompt));
    } else {
        buf_puts(out, "\"prompt_ids\":[");
        for (int64_t i = 0; i < s->num_prefill_tokens; i++) {
            if (i > 0)
                buf_putc(out, ',');
            put_id(out, s->prompt_ids[i]);
        }
        buf_putc(out, ']');
    }
    buf_puts(out, "}\n");
}

void worker_put_pass(struct buf *out, const struct worker_pass *p)
{
    buf_printf(out,
               "{\"type\":\"pass\",\"id\":%lld,\"decode_sequences\":%lld,\"cached_tokens\":%lld,"
               "\"chunk_tokens\":%lld,\"chunk_cached_tokens\":%lld,\"warmup\":%lld,"
               "\"repeats\":%lld}\n",
               (long long)p->id, (long long)p->decode_sequences, (long long)p->cached_tokens,
               (long long)p->chunk_tokens, (long long)p->chunk_cached_tokens, (long long)p->warmup,
               (long long)p->repeats);
}

void worker_put_cancel(struct buf *out, int64_t id)
{
    buf_printf(out, "{\"type\":\"cancel\",\"id\":%lld}\n", (long long)id);
}

void worker_put_plain(struct buf *out, const char *type)
{
    buf_printf(out, "{\"type\":\"%s\"}\n", type);
}
