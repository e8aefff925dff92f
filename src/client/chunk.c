#include "client/chunk.h"

#include <math.h>
#include <string.h>

#include "text/json.h"

/* Position of the reader in the object. */
enum chunk_place {
    OUTSIDE,
    ROOT,
    CHOICES,
    CHOICE,
    OTHER_CHOICE,
    DELTA,
    PARTS, /* of a content, nested */
    CALLS, /* tool_calls, nested; function_call */
    TOKEN_IDS,
    USAGE,
    USAGE_DETAILS,
    RESPONSE,   /* of an event of the Responses API */
    INCOMPLETE, /* its incomplete_details */
    FAULT,      /* an error, nested */
    MAYBE,      /* a fault, nested, unless the object has a choice or usage */
    ASIDE,      /* a map of the object that is none of these */
    ELSEWHERE
};

enum chunk_field {
    NOTHING,
    TEXT,
    REASONING,
    CALL,
    FINISH,
    PROMPT_TOKENS,
    COMPLETION_TOKENS,
    TOTAL_TOKENS,
    REASONING_TOKENS,
    MESSAGE,  /* of an error */
    IS_ERROR, /* the member `error` itself, when it is a text */
    WORDS,    /* an error's, unless the object has a choice or usage */
    CODE,     /* likewise: a number or a word */
    SUCCESS,
    OBJECT,
    TYPE,
    EVENT_TEXT, /* `delta` of an event of the Responses API */
    ROLE,
};

static const struct chunk_member {
    enum chunk_place in;
    const char *key;
    enum chunk_place inside; /* when the value is a list or a map */
    enum chunk_field field;  /* when it is neither */
} members[] = {
    {ROOT, "choices", CHOICES, NOTHING},
    {ROOT, "usage", USAGE, NOTHING},
    {ROOT, "error", FAULT, IS_ERROR},
    {ROOT, "object", ELSEWHERE, OBJECT},
    {ROOT, "type", ELSEWHERE, TYPE},
    {ROOT, "event", ELSEWHERE, OBJECT},
    {ROOT, "delta", ELSEWHERE, EVENT_TEXT},
    {ROOT, "response", RESPONSE, NOTHING},
    {ROOT, "message", MAYBE, WORDS},
    {ROOT, "detail", MAYBE, WORDS},
    {ROOT, "errors", MAYBE, WORDS},
    {ROOT, "fault", MAYBE, WORDS},
    {ROOT, "exception", MAYBE, WORDS},
    {ROOT, "msg", MAYBE, WORDS},
    {ROOT, "err", MAYBE, WORDS},
    {ROOT, "error_msg", MAYBE, WORDS},
    {ROOT, "errorMessage", MAYBE, WORDS},
    {ROOT, "error_message", MAYBE, WORDS},
    {ROOT, "Message", MAYBE, WORDS},
    {ROOT, "code", ELSEWHERE, CODE},
    {ROOT, "error_code", ELSEWHERE, CODE},
    {ROOT, "errorCode", ELSEWHERE, CODE},
    {ROOT, "status", ELSEWHERE, CODE},
    {ROOT, "status_code", ELSEWHERE, CODE},
    {ROOT, "statusCode", ELSEWHERE, CODE},
    {ROOT, "success", ELSEWHERE, SUCCESS},
    {ASIDE, "error", FAULT, IS_ERROR},
    {CHOICE, "text", ELSEWHERE, TEXT},
    {CHOICE, "delta", DELTA, NOTHING},
    {CHOICE, "error", FAULT, IS_ERROR},
    {CHOICE, "finish_reason", ELSEWHERE, FINISH},
    {CHOICE, "token_ids", TOKEN_IDS, NOTHING},
    {DELTA, "content", PARTS, TEXT},
    {DELTA, "role", ELSEWHERE, ROLE},
    {DELTA, "reasoning_content", PARTS, REASONING},
    {DELTA, "reasoning", PARTS, REASONING},
    {DELTA, "refusal", ELSEWHERE, TEXT},
    {DELTA, "tool_calls", CALLS, NOTHING},
    {DELTA, "function_call", CALLS, NOTHING},
    {PARTS, "text", ELSEWHERE, TEXT},
    {PARTS, "thinking", PARTS, TEXT},
    {CALLS, "function", CALLS, NOTHING},
    {CALLS, "custom", CALLS, NOTHING},
    {CALLS, "name", ELSEWHERE, CALL},
    {CALLS, "arguments", ELSEWHERE, CALL},
    {CALLS, "input", ELSEWHERE, CALL},
    {USAGE, "prompt_tokens", ELSEWHERE, PROMPT_TOKENS},
    {USAGE, "completion_tokens", ELSEWHERE, COMPLETION_TOKENS},
    {USAGE, "input_tokens", ELSEWHERE, PROMPT_TOKENS},
    {USAGE, "output_tokens", ELSEWHERE, COMPLETION_TOKENS},
    {USAGE, "total_tokens", ELSEWHERE, TOTAL_TOKENS},
    {USAGE, "completion_tokens_details", USAGE_DETAILS, NOTHING},
    {USAGE, "output_tokens_details", USAGE_DETAILS, NOTHING},
    {USAGE_DETAILS, "reasoning_tokens", ELSEWHERE, REASONING_TOKENS},
    {RESPONSE, "usage", USAGE, NOTHING},
    {RESPONSE, "error", FAULT, IS_ERROR},
    {RESPONSE, "incomplete_details", INCOMPLETE, NOTHING},
    {INCOMPLETE, "reason", ELSEWHERE, FINISH},
    {FAULT, "message", FAULT, MESSAGE},
    {FAULT, "msg", FAULT, MESSAGE},
    {FAULT, "detail", FAULT, MESSAGE},
    {FAULT, "error", FAULT, MESSAGE},
    {FAULT, "reason", FAULT, MESSAGE},
    {FAULT, "faultstring", FAULT, MESSAGE},
};

/* Events of the Responses API. */
static const struct responses_event {
    const char *type;
    bool text, reasoning; /* its delta is text that the model wrote */
    const char *finish;   /* it ends the stream, for this reason unless it says another */
    bool fault;
} events[] = {
    {.type = "response.output_text.delta", .text = true},
    {.type = "response.refusal.delta", .text = true},
    {.type = "response.function_call_arguments.delta", .text = true},
    {.type = "response.custom_tool_call_input.delta", .text = true},
    {.type = "response.mcp_call_arguments.delta", .text = true},
    {.type = "response.code_interpreter_call_code.delta", .text = true},
    {.type = "response.reasoning_text.delta", .text = true, .reasoning = true},
    {.type = "response.reasoning_summary_text.delta", .text = true, .reasoning = true},
    {.type = "response.completed", .finish = "stop"},
    {.type = "response.incomplete", .finish = "length"},
    {.type = "response.failed", .fault = true},
    {.type = "response.cancelled", .fault = true},
    {.type = "error", .fault = true},
};

enum { DEPTH = 32 };

struct parse {
    struct json_reader *r;
    struct stream_chunk *c;
    struct buf *text;
    struct chunk_ids *ids;
    enum chunk_place at[DEPTH];
    int depth;
    const struct chunk_member *member; /* member whose value comes next; NULL = ignored */
    int choices;
    const struct chunk_member
        *reasoned; /* member with the reasoning text: some servers send it twice */
    bool has_usage;
    bool suspect; /* it is an error if it has neither a choice nor usage */
    const struct responses_event *event;
    size_t event_text; /* bytes of its delta */
    int64_t total_tokens;
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

static const double MOST_TOKENS = 9e15; /* below it a double holds every integer */

static enum st take_number(struct parse *p, enum json_event ev, int64_t *out, struct err *e)
{
    if (ev == JSON_NULL)
        return ST_OK;
    if (ev == JSON_FLOAT && json_double(p->r) >= 0 && json_double(p->r) < MOST_TOKENS &&
        json_double(p->r) == floor(json_double(p->r))) {
        *out = (int64_t)json_double(p->r);
        return ST_OK;
    }
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
    p->c->finished = json_text(p->r).n > 0; /* some send "" with every chunk */
    copy_text(p->c->finish, sizeof p->c->finish, json_text(p->r));
    return ST_OK;
}

static void take_message(struct parse *p, enum json_event ev)
{
    if (ev == JSON_STRING && !p->c->error[0])
        copy_text(p->c->error, sizeof p->c->error, json_text(p->r));
}

static bool is_nothing(const struct parse *p, enum json_event ev)
{
    return ev == JSON_NULL || ev == JSON_FALSE || (ev == JSON_INT && json_int(p->r) == 0) ||
           (ev == JSON_STRING && json_text(p->r).n == 0);
}

static void take_words(struct parse *p, enum json_event ev)
{
    if (is_nothing(p, ev))
        return;
    p->suspect = true;
    if (ev == JSON_STRING && strcmp(p->member->key, "message") == 0)
        take_message(p, ev);
    else if (ev == JSON_STRING && !p->c->words[0])
        copy_text(p->c->words, sizeof p->c->words, json_text(p->r));
}

/* A status of HTTP or of the program's own: 0 and 200 to 299 are good ones, and so are words other
 * than those of a failure. */
static void take_code(struct parse *p, enum json_event ev)
{
    static const char *const words[] = {"error", "failed", "failure", "fail"};
    if (ev == JSON_INT)
        p->suspect |= json_int(p->r) != 0 && (json_int(p->r) < 200 || json_int(p->r) > 299);
    for (size_t i = 0; ev == JSON_STRING && i < sizeof words / sizeof *words; i++)
        p->suspect |= sv_eq(json_text(p->r), words[i]);
}

static void take_type(struct parse *p, enum json_event ev)
{
    for (size_t i = 0; ev == JSON_STRING && i < sizeof events / sizeof *events; i++)
        if (sv_eq(json_text(p->r), events[i].type))
            p->event = &events[i];
}

/* The type, which says whether it is text, may come later. */
static enum st take_event_text(struct parse *p, enum json_event ev, struct err *e)
{
    if (ev != JSON_STRING)
        return ST_OK;
    const size_t before = p->c->text_bytes;
    TRY(take_text(p, ev, e));
    p->event_text += p->c->text_bytes - before;
    return ST_OK;
}

static enum st take_reasoning(struct parse *p, enum json_event ev, struct err *e)
{
    const bool any = ev == JSON_STRING && json_text(p->r).n > 0;
    if (any && !p->reasoned)
        p->reasoned = p->member;
    if (p->reasoned && p->reasoned != p->member)
        return ST_OK;
    p->c->reasoning |= any;
    return take_text(p, ev, e);
}

/* A value that is neither list nor map. */
static enum st take_value(struct parse *p, enum json_event ev, struct err *e)
{
    const enum chunk_place in = p->depth > 0 ? p->at[p->depth - 1] : OUTSIDE;
    if (in == TOKEN_IDS && ev == JSON_INT) {
        int64_t id = json_int(p->r);
        vec_push(p->ids, id >= 0 && id <= INT32_MAX ? (int32_t)id : -1);
        p->c->n_ids++;
    }
    p->c->is_error |= in == FAULT && !is_nothing(p, ev);
    p->suspect |= in == MAYBE && !is_nothing(p, ev);
    switch (p->member ? p->member->field : NOTHING) {
    case TEXT:
        return take_text(p, ev, e);
    case REASONING:
        return take_reasoning(p, ev, e);
    case CALL:
        return ev == JSON_STRING ? take_text(p, ev, e) : ST_OK;
    case FINISH:
        return take_finish(p, ev, e);
    case PROMPT_TOKENS:
        return take_number(p, ev, &p->c->prompt_tokens, e);
    case COMPLETION_TOKENS:
        return take_number(p, ev, &p->c->completion_tokens, e);
    case TOTAL_TOKENS:
        return take_number(p, ev, &p->total_tokens, e);
    case REASONING_TOKENS:
        return take_number(p, ev, &p->c->reasoning_tokens, e);
    case MESSAGE:
        take_message(p, ev);
        return ST_OK;
    case IS_ERROR:
        p->c->is_error |= !is_nothing(p, ev);
        take_message(p, ev);
        return ST_OK;
    case WORDS:
        take_words(p, ev);
        return ST_OK;
    case CODE:
        take_code(p, ev);
        return ST_OK;
    case SUCCESS:
        p->suspect |= ev == JSON_FALSE;
        return ST_OK;
    case ROLE:
        p->c->role = true;
        return ST_OK;
    case OBJECT:
        p->c->is_error |= ev == JSON_STRING && sv_eq(json_text(p->r), "error");
        return ST_OK;
    case TYPE:
        take_type(p, ev);
        return ST_OK;
    case EVENT_TEXT:
        return take_event_text(p, ev, e);
    case NOTHING:
        break;
    }
    return ST_OK;
}

/* Where a list or map without a row of its own leads. */
static enum chunk_place inside_of(enum chunk_place in, bool map)
{
    if (in == ROOT || in == ASIDE)
        return map ? ASIDE : ELSEWHERE;
    return in == PARTS || in == CALLS || in == FAULT || in == MAYBE ? in : ELSEWHERE;
}

static void enter(struct parse *p, enum json_event ev)
{
    enum chunk_place in = p->depth ? p->at[p->depth - 1] : OUTSIDE, to;
    const bool map = ev == JSON_MAP_BEGIN;
    if (p->member)
        to = p->member->inside;
    else if (in == OUTSIDE)
        to = map ? ROOT : ELSEWHERE;
    else if (in == CHOICES)
        to = map && p->choices++ == 0 ? CHOICE : OTHER_CHOICE;
    else
        to = inside_of(in, map);
    p->c->has_choice |= to == CHOICE;
    p->has_usage |= to == USAGE;
    p->at[p->depth++] = to;
}

static const struct chunk_member *find_member(const struct parse *p)
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

void chunk_cut_text(struct buf *text, size_t n)
{
    if (n < text->n) {
        text->n = n;
        text->p[n] = 0;
    }
}

/* What an event of the Responses API is, by its type. */
static void conclude_event(struct parse *p)
{
    const struct responses_event *v = p->event;
    struct stream_chunk *c = p->c;
    if (p->event_text > 0 && !(v && v->text)) {
        chunk_cut_text(p->text, p->text->n - p->event_text);
        c->text_bytes -= p->event_text;
    }
    if (!v)
        return;
    c->is_error |= v->fault;
    c->has_choice |= v->text;
    c->reasoning |= v->reasoning && p->event_text > 0;
    c->done = v->finish != NULL;
    if (c->done && strcmp(c->finish, "max_output_tokens") == 0)
        copy_text(c->finish, sizeof c->finish, SV("length"));
    if (c->done && !c->finished)
        copy_text(c->finish, sizeof c->finish, sv_of(v->finish));
    c->finished |= c->done;
}

static void conclude(struct parse *p)
{
    struct stream_chunk *c = p->c;
    conclude_event(p);
    c->is_error |= p->suspect && !p->has_usage && !c->has_choice && !c->done;
    /* xAI counts reasoning beside the completion, OpenAI as a part of it */
    if (c->reasoning_tokens > c->completion_tokens ||
        (c->prompt_tokens >= 0 && c->reasoning_tokens > 0 &&
         p->total_tokens == c->prompt_tokens + c->completion_tokens + c->reasoning_tokens))
        c->reasoning_tokens = 0;
}

enum st chunk_parse(struct sv json, struct stream_chunk *out, struct buf *text,
                    struct chunk_ids *ids, struct err *e)
{
    const struct json_limits limits = {.max_depth = DEPTH, .lenient = true};
    *out = (struct stream_chunk){.prompt_tokens = -1, .completion_tokens = -1};
    struct parse p = {.r = json_reader_new("chunk", &limits),
                      .c = out,
                      .text = text,
                      .ids = ids,
                      .total_tokens = -1};
    enum st st = walk(&p, json, e);
    if (st == ST_OK || !out->has_choice) /* a document that was cut tells its error, too */
        conclude(&p);
    json_reader_free(&p.r);
    return st;
}
