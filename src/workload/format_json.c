#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "text/gz.h"
#include "text/json.h"
#include "workload/format.h"
#include "workload/make.h"

/* ---- Mooncake ---------------------------------------------------------------------------- */

enum st format_mooncake_read(struct arena *a, const struct format_params *p,
                             struct format_result *out, struct err *e)
{
    *out = (struct format_result){0};
    TRY(mooncake_import(a, p->path, &out->w, &out->left_out, e));
    if (p->max_requests && (int64_t)out->w.n > p->max_requests)
        out->w.n = (size_t)p->max_requests;
    return format_settle(p->path, out, false, e);
}

enum st format_mooncake_write(struct buf *out, const struct workload *w, const char *const *texts,
                              struct err *e)
{
    (void)texts, (void)e;
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *q = &w->requests[i];
        buf_printf(out, "{\"timestamp\": %lld, \"input_length\": %lld, \"output_length\": %lld",
                   (long long)(q->arrival_ns / NS_PER_MS), (long long)q->num_prefill_tokens,
                   (long long)q->num_decode_tokens);
        if (q->hash_ids && q->hash_tokens == MOONCAKE_BLOCK) {
            buf_puts(out, ", \"hash_ids\": [");
            for (int64_t k = 0; k * MOONCAKE_BLOCK < q->num_prefill_tokens; k++)
                buf_printf(out, "%s%lld", k ? ", " : "", (long long)q->hash_ids[k]);
            buf_putc(out, ']');
        }
        buf_puts(out, "}\n");
    }
    return ST_OK;
}

/* ---- events of a whole file: these documents have hundreds of megabytes ------------------- */

struct events {
    const char *path;
    struct gz_file file;
    struct json_reader *r;
};

static enum st events_open(struct events *v, const char *path, struct err *e)
{
    *v = (struct events){.path = path};
    TRY(gz_open(path, &v->file, e));
    v->r = json_reader_new(path, &(struct json_limits){.python = true});
    json_feed(v->r, v->file.text.p, v->file.text.n);
    return ST_OK;
}

static void events_close(struct events *v)
{
    json_reader_free(&v->r);
    gz_close(&v->file);
}

/* The next event, never JSON_MORE. */
static enum json_event events_next(struct events *v, struct err *e)
{
    enum json_event ev = json_next(v->r, e);
    if (ev == JSON_MORE) {
        json_finish(v->r);
        ev = json_next(v->r, e);
    }
    return ev;
}

static enum st events_bad(const struct events *v, struct err *e, const char *text)
{
    uint32_t line, column;
    json_place(v->r, &line, &column);
    return err_at(e, ST_INPUT, v->path, line, column, "%s", text);
}

static bool opens(enum json_event ev)
{
    return ev == JSON_LIST_BEGIN || ev == JSON_MAP_BEGIN;
}

static bool closes(enum json_event ev)
{
    return ev == JSON_LIST_END || ev == JSON_MAP_END;
}

/* Skips the rest of a value whose first event was `first`. */
static enum st skip_value(struct events *v, enum json_event first, struct err *e)
{
    for (int depth = opens(first); depth > 0;) {
        enum json_event ev = events_next(v, e);
        if (ev == JSON_ERROR)
            return e->st;
        depth += opens(ev) - closes(ev);
    }
    return ST_OK;
}

/* ---- vLLM: the result of `vllm bench serve --save-result --save-detailed` ----------------- */

typedef VEC(double) number_vec;
typedef VEC(bool) flag_vec;

struct vllm_lists {
    number_vec input, output, start;
    flag_vec failed;
};

/* A list of numbers from 0 to max; of whole ones unless max is above INT32_MAX. */
static enum st read_numbers(struct events *v, const char *key, double max, number_vec *out,
                            struct err *e)
{
    char text[100];
    if (events_next(v, e) != JSON_LIST_BEGIN) {
        snprintf(text, sizeof text, "%s: expected a list of numbers", key);
        return e->st != ST_OK ? e->st : events_bad(v, e, text);
    }
    vec_clear(out);
    for (enum json_event ev; (ev = events_next(v, e)) != JSON_LIST_END;) {
        if (ev == JSON_ERROR)
            return e->st;
        bool number = ev == JSON_INT || (ev == JSON_FLOAT && max > INT32_MAX);
        double x = number ? json_double(v->r) : -1;
        if (!(x >= 0 && x <= max)) {
            snprintf(text, sizeof text, "%s: expected numbers from 0 to %.10g", key, max);
            return events_bad(v, e, text);
        }
        vec_push(out, x);
    }
    return ST_OK;
}

/* errors: "" for a successful request. */
static enum st read_errors(struct events *v, flag_vec *out, struct err *e)
{
    if (events_next(v, e) != JSON_LIST_BEGIN)
        return e->st != ST_OK ? e->st : events_bad(v, e, "errors: expected a list");
    vec_clear(out);
    for (enum json_event ev; (ev = events_next(v, e)) != JSON_LIST_END;) {
        if (ev == JSON_ERROR)
            return e->st;
        vec_push(out, ev == JSON_STRING ? json_text(v->r).n > 0 : ev != JSON_NULL);
        TRY(skip_value(v, ev, e));
    }
    return ST_OK;
}

static enum st read_vllm(struct events *v, struct vllm_lists *l, struct err *e)
{
    static const double max_seconds = 9.2e9;
    if (events_next(v, e) != JSON_MAP_BEGIN)
        return e->st != ST_OK ? e->st : events_bad(v, e, "expected an object: a benchmark result");
    for (enum json_event ev; (ev = events_next(v, e)) != JSON_MAP_END;) {
        if (ev == JSON_ERROR)
            return e->st;
        struct sv key = json_text(v->r);
        if (sv_eq(key, "input_lens"))
            TRY(read_numbers(v, "input_lens", INT32_MAX, &l->input, e));
        else if (sv_eq(key, "output_lens"))
            TRY(read_numbers(v, "output_lens", INT32_MAX, &l->output, e));
        else if (sv_eq(key, "start_times"))
            TRY(read_numbers(v, "start_times", max_seconds, &l->start, e));
        else if (sv_eq(key, "errors"))
            TRY(read_errors(v, &l->failed, e));
        else if ((ev = events_next(v, e)) == JSON_ERROR)
            return e->st;
        else
            TRY(skip_value(v, ev, e));
    }
    return events_next(v, e) == JSON_ERROR ? e->st : ST_OK;
}

static enum st take_vllm(struct arena *a, const struct format_params *p, const struct vllm_lists *l,
                         struct format_result *out, struct err *e)
{
    const struct {
        const char *name;
        size_t n;
    } lists[] = {{"output_lens", l->output.n}, {"start_times", l->start.n}};
    for (size_t i = 0; i < 2; i++) {
        if (lists[i].n == l->input.n)
            continue;
        err_at(e, ST_INPUT, p->path, 0, 0, "%s has %zu values, input_lens %zu", lists[i].name,
               lists[i].n, l->input.n);
        return err_hint(e, "vllm bench serve writes them all with --save-result --save-detailed");
    }
    out->w.requests = arena_array(a, struct workload_request, l->input.n);
    for (size_t i = 0; i < l->input.n; i++) {
        bool failed = i < l->failed.n && l->failed.p[i];
        if (failed || l->input.p[i] < 1 || l->output.p[i] < 1)
            out->left_out++;
        else if (!p->max_requests || (int64_t)out->w.n < p->max_requests)
            out->w.requests[out->w.n++] =
                (struct workload_request){.arrival_ns = ns_from_s(l->start.p[i]),
                                          .arrival_s = l->start.p[i],
                                          .num_prefill_tokens = (int64_t)l->input.p[i],
                                          .num_decode_tokens = (int64_t)l->output.p[i]};
    }
    return format_settle(p->path, out, true, e);
}

enum st format_vllm_read(struct arena *a, const struct format_params *p, struct format_result *out,
                         struct err *e)
{
    struct events v;
    struct vllm_lists l = {0};
    *out = (struct format_result){0};
    TRY(events_open(&v, p->path, e));
    enum st st = read_vllm(&v, &l, e);
    if (st == ST_OK)
        st = take_vllm(a, p, &l, out, e);
    events_close(&v);
    vec_free(&l.input);
    vec_free(&l.output);
    vec_free(&l.start);
    vec_free(&l.failed);
    return st;
}

enum st format_vllm_write(struct buf *out, const struct workload *w, const char *const *texts,
                          struct err *e)
{
    for (size_t i = 0; i < w->n; i++) {
        if (!texts[i]) {
            err_set(e, ST_USAGE, "vLLM's custom dataset holds texts, and request %lld has none",
                    (long long)w->requests[i].request_id);
            return err_hint(e, "export=vidur and export=mooncake hold lengths alone");
        }
        buf_puts(out, "{\"prompt\": ");
        json_quote(out, sv_of(texts[i]));
        buf_printf(out, ", \"output_tokens\": %lld}\n",
                   (long long)w->requests[i].num_decode_tokens);
    }
    return ST_OK;
}

/* ---- ShareGPT: [{"id": ..., "conversations": [{"from": ..., "value": ...}, ...]}, ...] ----
 *
 * Or the same objects one a line. Turns from "system" are passed over: the first of the others is
 * the question, the one after it the answer. */

typedef VEC(struct workload_request) request_vec;
typedef VEC(struct prompt) prompt_vec;

struct sharegpt {
    struct arena *a, *scratch;
    const struct format_params *p;
    struct events v;
    request_vec requests;
    prompt_vec prompts;
    struct map ids;
    int64_t left_out;
};

struct conversation {
    const char *id, *question, *answer; /* in the scratch arena; NULL = none */
};

/* Reads a string or a numeric id; skips anything else and leaves *out alone. */
static enum st read_text(struct sharegpt *s, const char **out, struct err *e)
{
    enum json_event ev = events_next(&s->v, e);
    if (ev == JSON_ERROR)
        return e->st;
    if (ev == JSON_STRING) {
        struct sv text = json_text(s->v.r);
        *out = memchr(text.p, 0, text.n) ? NULL : arena_strn(s->scratch, text.p, text.n);
    } else if (ev == JSON_INT) {
        *out = arena_printf(s->scratch, "%lld", (long long)json_int(s->v.r));
    }
    return skip_value(&s->v, ev, e);
}

struct turn {
    const char *from, *value;
};

static enum st read_turn(struct sharegpt *s, struct turn *t, struct err *e)
{
    for (enum json_event ev; (ev = events_next(&s->v, e)) != JSON_MAP_END;) {
        const char *ignored;
        if (ev == JSON_ERROR)
            return e->st;
        struct sv key = json_text(s->v.r);
        TRY(read_text(s,
                      sv_eq(key, "value")  ? &t->value
                      : sv_eq(key, "from") ? &t->from
                                           : &ignored,
                      e));
    }
    return ST_OK;
}

static enum st read_turns(struct sharegpt *s, struct conversation *c, struct err *e)
{
    enum json_event ev = events_next(&s->v, e);
    if (ev != JSON_LIST_BEGIN)
        return ev == JSON_ERROR ? e->st
                                : events_bad(&s->v, e, "conversations: expected a list of turns");
    for (int turn = 0; (ev = events_next(&s->v, e)) != JSON_LIST_END;) {
        struct turn t = {0};
        if (ev != JSON_MAP_BEGIN)
            return ev == JSON_ERROR ? e->st
                                    : events_bad(&s->v, e, "expected a turn: an object with value");
        TRY(read_turn(s, &t, e));
        if (t.from && strcmp(t.from, "system") == 0)
            continue;
        if (turn < 2)
            *(turn == 0 ? &c->question : &c->answer) = t.value;
        turn++;
    }
    return ST_OK;
}

static enum st read_conversation(struct sharegpt *s, struct conversation *c, struct err *e)
{
    for (enum json_event ev; (ev = events_next(&s->v, e)) != JSON_MAP_END;) {
        if (ev == JSON_ERROR)
            return e->st;
        struct sv key = json_text(s->v.r);
        if (sv_eq(key, "conversations")) {
            TRY(read_turns(s, c, e));
        } else if (sv_eq(key, "id")) {
            TRY(read_text(s, &c->id, e));
        } else {
            const char *ignored;
            TRY(read_text(s, &ignored, e));
        }
    }
    return ST_OK;
}

static enum st count(struct sharegpt *s, const char *text, int64_t *n, struct err *e)
{
    struct prompt p = {"", text};
    int64_t *counts;
    TRY(workload_count_tokens(s->scratch, s->p->tokenizer, &p, 1, &counts, e));
    *n = counts[0];
    return ST_OK;
}

/* The id of the conversation, made unique. */
static const char *unique_id(struct sharegpt *s, const char *id)
{
    bool is_new;
    const char *name = id && *id ? arena_str(s->a, id) : arena_printf(s->a, "%zu", s->prompts.n);
    map_put(&s->ids, name, strlen(name), &is_new);
    while (!is_new) {
        name = arena_printf(s->a, "%s#%zu", name, s->prompts.n);
        map_put(&s->ids, name, strlen(name), &is_new);
    }
    return name;
}

static enum st keep(struct sharegpt *s, const struct conversation *c, struct err *e)
{
    struct workload_request q = {0};
    if (!c->question || !*c->question || !c->answer || !*c->answer) {
        s->left_out++;
        return ST_OK;
    }
    TRY(count(s, c->question, &q.num_prefill_tokens, e));
    TRY(count(s, c->answer, &q.num_decode_tokens, e));
    q.prompt_id = unique_id(s, c->id);
    struct prompt p = {q.prompt_id, arena_str(s->a, c->question)};
    vec_push(&s->prompts, p);
    vec_push(&s->requests, q);
    return ST_OK;
}

/* One conversation, of which `first` is the first event. */
static enum st take_conversation(struct sharegpt *s, enum json_event first, struct err *e)
{
    struct conversation c = {0};
    if (first != JSON_MAP_BEGIN)
        return first == JSON_ERROR ? e->st
                                   : events_bad(&s->v, e, "expected a conversation: an object");
    arena_reset(s->scratch);
    TRY(read_conversation(s, &c, e));
    return keep(s, &c, e);
}

static bool has_enough(const struct sharegpt *s)
{
    return s->p->max_requests && (int64_t)s->requests.n == s->p->max_requests;
}

static enum st read_list(struct sharegpt *s, struct err *e)
{
    enum json_event ev = events_next(&s->v, e);
    if (ev != JSON_LIST_BEGIN)
        return ev == JSON_ERROR ? e->st : events_bad(&s->v, e, "expected a list of conversations");
    while ((ev = events_next(&s->v, e)) != JSON_LIST_END) {
        TRY(take_conversation(s, ev, e));
        if (has_enough(s))
            return ST_OK;
    }
    return events_next(&s->v, e) == JSON_ERROR ? e->st : ST_OK;
}

static enum st read_lines(struct sharegpt *s, struct err *e)
{
    struct sv left = s->v.file.text;
    for (uint32_t line = 1; left.n && !has_enough(s); line++) {
        const char *end = memchr(left.p, '\n', left.n);
        struct sv text = {left.p, end ? (size_t)(end - left.p) : left.n};
        size_t used = text.n + (end ? 1 : 0);
        left = (struct sv){left.p + used, left.n - used};
        if (sv_trim(text).n == 0)
            continue;
        json_reader_free(&s->v.r);
        s->v.r = json_reader_new(s->v.path, &(struct json_limits){.first_line = line});
        json_feed(s->v.r, text.p, text.n);
        TRY(take_conversation(s, events_next(&s->v, e), e));
        if (events_next(&s->v, e) == JSON_ERROR)
            return e->st;
    }
    return ST_OK;
}

static enum st read_sharegpt(struct sharegpt *s, struct err *e)
{
    struct sv text = sv_trim(s->v.file.text);
    return text.n && text.p[0] == '{' ? read_lines(s, e) : read_list(s, e);
}

static enum st set_arrivals(const struct format_params *p, struct workload *w, struct err *e)
{
    struct arrivals g;
    TRY(arrivals_begin(p->arrivals, &g, e));
    enum st st = ST_OK;
    for (size_t i = 0; i < w->n && st == ST_OK; i++)
        st = arrivals_next(&g, &w->requests[i], e);
    arrivals_end(&g);
    if (st == ST_END)
        return err_set(e, ST_USAGE, "%s has fewer rows than %s has requests",
                       p->arrivals->arrival_trace, p->path);
    return st;
}

enum st format_sharegpt_read(struct arena *a, const struct format_params *p,
                             struct format_result *out, struct err *e)
{
    struct sharegpt s = {.a = a, .scratch = arena_new(), .p = p};
    *out = (struct format_result){0};
    map_init(&s.ids, a);
    enum st st = events_open(&s.v, p->path, e);
    if (st == ST_OK)
        st = read_sharegpt(&s, e);
    if (st == ST_OK) {
        out->w.requests = arena_copy(a, s.requests.p, s.requests.n * sizeof *s.requests.p);
        out->w.n = s.requests.n;
        out->prompts = arena_copy(a, s.prompts.p, s.prompts.n * sizeof *s.prompts.p);
        out->n_prompts = s.prompts.n;
        out->left_out = s.left_out;
        st = set_arrivals(p, &out->w, e);
    }
    if (st == ST_OK)
        st = format_settle(p->path, out, false, e);
    events_close(&s.v);
    arena_free(&s.scratch);
    vec_free(&s.requests);
    vec_free(&s.prompts);
    return st;
}
