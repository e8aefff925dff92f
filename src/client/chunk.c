#include "client/chunk.h"

#include <string.h>

#include "text/json.h"

/* Position of the reader in the object. */
enum place {
    OUTSIDE,
    ROOT,
    CHOICES,
    CHOICE,
    OTHER_CHOICE,
    DELTA,
    TOKEN_IDS,
    USAGE,
    FAULT,
    ELSEWHERE
};

enum field {
    NOTHING,
    TEXT,
    REASONING,
    FINISH,
    PROMPT_TOKENS,
    COMPLETION_TOKENS,
    MESSAGE,  /* of an error */
    IS_ERROR, /* the member `error` itself, when it is a text */
    OBJECT,
    ROLE,
};

static const struct member {
    enum place in;
    const char *key;
    enum place inside; /* when the value is a list or a map */
    enum field field;  /* when it is neither */
} members[] = {
    {ROOT, "choices", CHOICES, NOTHING},
    {ROOT, "usage", USAGE, NOTHING},
    {ROOT, "error", FAULT, IS_ERROR},
    {ROOT, "object", ELSEWHERE, OBJECT},
    {ROOT, "message", ELSEWHERE, MESSAGE},
    {CHOICE, "text", ELSEWHERE, TEXT},
    {CHOICE, "delta", DELTA, NOTHING},
    {CHOICE, "finish_reason", ELSEWHERE, FINISH},
    {CHOICE, "token_ids", TOKEN_IDS, NOTHING},
    {DELTA, "content", ELSEWHERE, TEXT},
    {DELTA, "role", ELSEWHERE, ROLE},
    {DELTA, "reasoning_content", ELSEWHERE, REASONING},
    {DELTA, "reasoning", ELSEWHERE, REASONING},
    {USAGE, "prompt_tokens", ELSEWHERE, PROMPT_TOKENS},
    {USAGE, "completion_tokens", ELSEWHERE, COMPLETION_TOKENS},
    {FAULT, "message", ELSEWHERE, MESSAGE},
};

enum { DEPTH = 16 };

struct parse {
    struct json_reader *r;
    struct stream_chunk *c;
    struct buf *text;
    struct chunk_ids *ids;
    enum place at[DEPTH];
    int depth;
    const struct member *member; /* member whose value comes next; NULL = ignored */
    int choices;
    const struct member *reasoned; /* member with the reasoning text: some servers send it twice */
};

static void copy_text(char *to, size_t size, struct sv s)
{
    size_t n = s.n < size - 1 ? s.n : size - 1;
    n = str_utf8_valid(s.p, n);
    memcpy(to, s.p, n);
    to[n] = 0;
}

static enum st wrong_kind(struct parse *p, const char *want, struct err *e)
{
    uint32_t line, column;
    json_place(p->r, &line, &column);
    return err_at(e, ST_INPUT, "chunk", (long)line, (long)column, "%s: expected %s", p->member->key,
                  want);
}

static enum st take_number(struct parse *p, enum json_event ev, int64_t *out, struct err *e)
{
    if (ev == JSON_NULL)
        return ST_OK;
    if (ev != JSON_INT || json_int(p->r) < 0)
        return wrong_kind(p, "a count", e);
    *out = json_int(p->r);
    return ST_OK;
}

static enum st take_text(struct parse *p, enum json_event ev, struct err *e)
{
    if (ev == JSON_NULL)
        return ST_OK;
    if (ev != JSON_STRING)
        return wrong_kind(p, "a text", e);
    struct sv s = json_text(p->r);
    buf_add(p->text, s.p, s.n);
    p->c->text_bytes += s.n;
    return ST_OK;
}

static enum st take_finish(struct parse *p, enum json_event ev, struct err *e)
{
    if (ev == JSON_NULL)
        return ST_OK;
    if (ev != JSON_STRING)
        return wrong_kind(p, "a text or null", e);
    p->c->finished = true;
    copy_text(p->c->finish, sizeof p->c->finish, json_text(p->r));
    return ST_OK;
}

static void take_message(struct parse *p, enum json_event ev)
{
    if (ev == JSON_STRING)
        copy_text(p->c->error, sizeof p->c->error, json_text(p->r));
}

/* A value that is neither list nor map. */
static enum st take_value(struct parse *p, enum json_event ev, struct err *e)
{
    if (p->depth > 0 && p->at[p->depth - 1] == TOKEN_IDS && ev == JSON_INT) {
        int64_t id = json_int(p->r);
        vec_push(p->ids, id >= 0 && id <= INT32_MAX ? (int32_t)id : -1);
        p->c->n_ids++;
    }
    switch (p->member ? p->member->field : NOTHING) {
    case TEXT:
        return take_text(p, ev, e);
    case REASONING:
        if (ev == JSON_STRING && json_text(p->r).n > 0 && !p->reasoned)
            p->reasoned = p->member;
        return p->reasoned && p->reasoned != p->member ? ST_OK : take_text(p, ev, e);
    case FINISH:
        return take_finish(p, ev, e);
    case PROMPT_TOKENS:
        return take_number(p, ev, &p->c->prompt_tokens, e);
    case COMPLETION_TOKENS:
        return take_number(p, ev, &p->c->completion_tokens, e);
    case MESSAGE:
        take_message(p, ev);
        return ST_OK;
    case IS_ERROR:
        p->c->is_error = ev != JSON_NULL && ev != JSON_FALSE;
        take_message(p, ev);
        return ST_OK;
    case ROLE:
        p->c->role = true;
        return ST_OK;
    case OBJECT:
        p->c->is_error |= ev == JSON_STRING && sv_eq(json_text(p->r), "error");
        return ST_OK;
    case NOTHING:
        break;
    }
    return ST_OK;
}

static void enter(struct parse *p, enum json_event ev)
{
    enum place in = p->depth ? p->at[p->depth - 1] : OUTSIDE, to = ELSEWHERE;
    if (p->member)
        to = p->member->inside;
    else if (in == OUTSIDE)
        to = ev == JSON_MAP_BEGIN ? ROOT : ELSEWHERE;
    else if (in == CHOICES)
        to = ev == JSON_MAP_BEGIN && p->choices++ == 0 ? CHOICE : OTHER_CHOICE;
    p->c->has_choice |= to == CHOICE;
    p->c->is_error |= to == FAULT;
    p->at[p->depth++] = to;
}

static const struct member *find_member(const struct parse *p)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].in == p->at[p->depth - 1] && sv_eq(json_text(p->r), members[i].key))
            return &members[i];
    return NULL;
}

static enum st walk(struct parse *p, struct sv json, struct err *e)
{
    json_feed(p->r, json.p, json.n);
    for (;;) {
        enum json_event ev = json_next(p->r, e);
        if (ev == JSON_ERROR)
            return e->st;
        if (ev == JSON_END)
            break;
        if (ev == JSON_MORE) {
            json_finish(p->r);
            continue;
        }
        if (ev == JSON_KEY) {
            p->member = find_member(p);
            continue;
        }
        if (ev == JSON_LIST_BEGIN || ev == JSON_MAP_BEGIN)
            enter(p, ev);
        else if (ev == JSON_LIST_END || ev == JSON_MAP_END)
            p->depth--;
        else
            TRY(take_value(p, ev, e));
        p->member = NULL;
        if (p->depth == 0 && (ev != JSON_MAP_END))
            return err_set(e, ST_INPUT, "chunk: expected a JSON object");
    }
    return ST_OK;
}

enum st chunk_parse(struct sv json, struct stream_chunk *out, struct buf *text,
                    struct chunk_ids *ids, struct err *e)
{
    const struct json_limits limits = {.max_depth = DEPTH};
    *out = (struct stream_chunk){.prompt_tokens = -1, .completion_tokens = -1};
    struct parse p = {.r = json_reader_new("chunk", &limits), .c = out, .text = text, .ids = ids};
    enum st st = walk(&p, json, e);
    json_reader_free(&p.r);
    return st;
}
