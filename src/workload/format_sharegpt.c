/* ShareGPT: [{"id": ..., "conversations": [{"from": ..., "value": ...}, ...]}, ...]
 *
 * Or the same objects one a line; LMSYS-Chat-1M and WildChat have conversation_id or
 * conversation_hash, and conversation: [{"role": ..., "content": ...}, ...]. Turns from "system"
 * are passed over: the first of the others is the question, the one after it the answer. */
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "workload/events.h"
#include "workload/format.h"

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
    /* A conversation has a list of turns, the list has some, and one of them has a text. */
    bool has_list, has_turns, has_text;
    struct map members; /* the names that were there instead, of the first of either */
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
    return events_skip(&s->v, ev, e);
}

struct sharegpt_turn {
    const char *from, *value;
};

/* Names of members, for an error; a few of them. */
static void note_member(struct sharegpt *s, struct sv key)
{
    enum { FEW = 12, MOST_BYTES = 40 };
    if (s->members.n < FEW && key.n < MOST_BYTES)
        map_put(&s->members, arena_strn(s->a, key.p, key.n), key.n, NULL);
}

static enum st read_turn(struct sharegpt *s, struct sharegpt_turn *t, struct err *e)
{
    for (enum json_event ev; (ev = events_next(&s->v, e)) != JSON_MAP_END;) {
        const char *ignored, **to = &ignored;
        if (ev == JSON_ERROR)
            return e->st;
        struct sv key = json_text(s->v.r);
        if (sv_eq(key, "value") || sv_eq(key, "content")) {
            to = &t->value;
            s->has_text = true;
        } else if (sv_eq(key, "from") || sv_eq(key, "role")) {
            to = &t->from;
        } else if (!s->has_text) {
            note_member(s, key);
        }
        TRY(read_text(s, to, e));
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
        struct sharegpt_turn t = {0};
        if (ev != JSON_MAP_BEGIN)
            return ev == JSON_ERROR ? e->st
                                    : events_bad(&s->v, e, "expected a turn: an object with value");
        s->has_turns = true;
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
        if (sv_eq(key, "conversations") || sv_eq(key, "conversation")) {
            if (!s->has_list)
                map_init(&s->members, s->a);
            s->has_list = true;
            TRY(read_turns(s, c, e));
        } else if (sv_eq(key, "id") || sv_eq(key, "conversation_id") ||
                   sv_eq(key, "conversation_hash")) {
            if (!s->has_list)
                note_member(s, key);
            TRY(read_text(s, &c->id, e));
        } else {
            const char *ignored;
            if (!s->has_list)
                note_member(s, key);
            TRY(read_text(s, &ignored, e));
        }
    }
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
    TRY(format_count(s->scratch, s->p->tokenizer, c->question, &q.num_prefill_tokens, e));
    TRY(format_count(s->scratch, s->p->tokenizer, c->answer, &q.num_decode_tokens, e));
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
        s->v.r =
            json_reader_new(s->v.path, &(struct json_limits){.first_line = line, .python = true});
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

/* All conversations were left out: the member that is missing, among those that are there. */
static enum st missing_member(const struct sharegpt *s, struct err *e)
{
    struct buf names = {0};
    for (uint32_t i = 0; i < s->members.n; i++)
        buf_printf(&names, "%s%.*s", i ? ", " : "", (int)s->members.entries[i].key_len,
                   s->members.entries[i].key);
    if (!s->has_list)
        err_at(e, ST_INPUT, s->p->path, 0, 0,
               "no conversation has the member conversations, or conversation, among: %s",
               names.n ? buf_str(&names) : "nothing");
    else
        err_at(e, ST_INPUT, s->p->path, 0, 0, "no turn has the member value, or content, among: %s",
               names.n ? buf_str(&names) : "nothing");
    buf_free(&names);
    return ST_INPUT;
}

enum st format_sharegpt_read(struct arena *a, const struct format_params *p,
                             struct format_result *out, struct err *e)
{
    struct sharegpt s = {.a = a, .scratch = arena_new(), .p = p};
    *out = (struct format_result){0};
    map_init(&s.ids, a);
    map_init(&s.members, a);
    enum st st = events_open(&s.v, p->path, e);
    if (st == ST_OK)
        st = read_sharegpt(&s, e);
    if (st == ST_OK && s.requests.n == 0 && s.left_out > 0 &&
        (!s.has_list || (s.has_turns && !s.has_text)))
        st = missing_member(&s, e);
    if (st == ST_OK) {
        out->w.requests = arena_copy(a, s.requests.p, s.requests.n * sizeof *s.requests.p);
        out->w.n = s.requests.n;
        out->prompts = arena_copy(a, s.prompts.p, s.prompts.n * sizeof *s.prompts.p);
        out->n_prompts = s.prompts.n;
        out->left_out = s.left_out;
        st = format_arrive(p, &out->w, e);
    }
    if (st == ST_OK)
        st = format_settle(p->path, out, false, e);
    events_close(&s.v);
    arena_free(&s.scratch);
    vec_free(&s.requests);
    vec_free(&s.prompts);
    return st;
}
