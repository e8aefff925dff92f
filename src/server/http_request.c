#include "server/http_request.h"

#include <string.h>

#include "server/responses.h"
#include "text/json.h"

enum { DEFAULT_COMPLETION_TOKENS = 16, MAX_DEPTH = 32 }; /* 16: OpenAI's */
/* Limit on values of a body beyond the ids of a prompt: bounds memory, since a tree is up to 30
 * times as large as its text. */
enum { MOST_VALUES = 1 << 16 };

/* Allowed values of a member, beside those read by name below. PENALTY: off, unless tokens are
 * predicted. VARIABLES: of the model's own chat template. CHOICE: none or auto, for no call is
 * forced, unless tokens are predicted. */
enum may { READ, ANYTHING, OFF, ON, UNSET, ONE, PENALTY, TEXT, VARIABLES, CHOICE };

static const struct {
    const char *name;
    enum may may;
} members[] = {
    {"model", READ},
    {"prompt", READ},
    {"messages", READ},
    {"max_tokens", READ},
    {"max_completion_tokens", READ},
    {"stream", READ},
    {"stream_options", READ},
    {"return_token_ids", READ},
    {"ignore_eos", READ},
    {"temperature", READ},
    {"top_p", READ},
    {"top_k", READ},
    {"min_p", READ},
    {"seed", READ},
    {"frequency_penalty", PENALTY},
    {"presence_penalty", PENALTY},
    {"repetition_penalty", ONE},
    {"n", ONE},
    {"best_of", ONE},
    {"user", ANYTHING},
    {"store", ANYTHING},
    {"metadata", ANYTHING},
    {"service_tier", ANYTHING},
    {"safety_identifier", ANYTHING},
    {"prompt_cache_key", ANYTHING},
    {"parallel_tool_calls", ANYTHING},
    {"tool_choice", CHOICE},
    {"skip_special_tokens", ON},
    {"add_special_tokens", ON},
    {"echo", OFF},
    {"logprobs", UNSET}, /* 0 requests those of the chosen tokens */
    {"top_logprobs", OFF},
    {"stop", READ},
    {"min_tokens", READ},
    {"stop_token_ids", OFF},
    {"suffix", OFF},
    {"logit_bias", OFF},
    {"tools", READ},
    {"functions", OFF},
    {"response_format", TEXT},
    {"chat_template_kwargs", VARIABLES},
};

/* Whether the value means "off": null, false, 0, "", [] or {}. */
static bool is_off(const struct node *v)
{
    switch (v->kind) {
    case NODE_NULL:
        return true;
    case NODE_BOOL:
        return !v->b;
    case NODE_INT:
        return v->i == 0;
    case NODE_FLOAT:
        return !(v->f > 0 || v->f < 0);
    case NODE_STR:
        return v->s.n == 0;
    case NODE_LIST:
    case NODE_MAP:
        return v->n == 0;
    }
    return false;
}

static bool is_unset(const struct node *v)
{
    return v->kind == NODE_NULL || (v->kind == NODE_BOOL && !v->b);
}

static bool is_on(const struct node *v)
{
    return v->kind == NODE_NULL || (v->kind == NODE_BOOL && v->b);
}

static bool is_one(const struct node *v)
{
    return v->kind == NODE_NULL || (v->kind == NODE_INT && v->i == 1) ||
           (v->kind == NODE_FLOAT && !(v->f > 1 || v->f < 1));
}

static bool is_text_format(const struct node *v)
{
    const struct node *type = node_find(v, "type");
    return v->kind == NODE_NULL ||
           (v->n == 1 && type && type->kind == NODE_STR && sv_eq(type->s, "text"));
}

static bool is_fine(const struct http_request_rules *rules, enum may may, const struct node *v)
{
    switch (may) {
    case READ:
    case ANYTHING:
        return true;
    case OFF:
        return is_off(v);
    case ON:
        return is_on(v);
    case UNSET:
        return is_unset(v);
    case ONE:
        return is_one(v);
    case PENALTY:
        return rules->predicted || is_off(v);
    case TEXT:
        return is_text_format(v);
    case CHOICE:
        return rules->predicted ||
               (v->kind == NODE_STR && (sv_eq(v->s, "none") || sv_eq(v->s, "auto")));
    case VARIABLES:
        return v->kind == NODE_NULL || (rules->chat.kind == CHAT_MODEL && v->kind == NODE_MAP);
    }
    return false;
}

static enum st check_member(const struct http_request_rules *rules, const struct node_pair *p,
                            const char **param, struct err *e)
{
    int name_n = (int)(p->key.n < 60 ? p->key.n : 60);
    if (p->value->kind == NODE_NULL)
        return ST_OK;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (!sv_eq(p->key, members[i].name))
            continue;
        *param = members[i].name;
        if (members[i].may == TEXT && !is_fine(rules, TEXT, p->value))
            return err_set(e, ST_INPUT, "%s: only {\"type\": \"text\"} is done here",
                           members[i].name);
        if (!is_fine(rules, members[i].may, p->value))
            return err_set(e, ST_INPUT, "%s: not done here: leave it out", members[i].name);
        return ST_OK;
    }
    *param = NULL;
    return err_set(e, ST_INPUT, "%.*s: unknown here", name_n, p->key.p);
}

static enum st get_bool(const struct node *m, const char *key, bool *out, struct err *e)
{
    const struct node *v = node_find(m, key);
    if (!v || v->kind == NODE_NULL)
        return ST_OK;
    return node_get_bool(m, key, out, e);
}

static enum st get_count(const struct node *m, const char *key, int64_t *out, struct err *e)
{
    const struct node *v = node_find(m, key);
    if (!v || v->kind == NODE_NULL)
        return ST_OK;
    return node_get_int(m, key, 1, INT32_MAX, out, e);
}

/* Leaves *out alone where the member is absent. */
static enum st get_number(const struct node *m, const char *key, double min, double max,
                          double *out, const char **param, struct err *e)
{
    const struct node *v = node_find(m, key);
    *param = key;
    if (!v || v->kind == NODE_NULL)
        return ST_OK;
    return node_get_double(m, key, min, max, out, e);
}

static enum st take_sampling(const struct http_request_rules *rules, const struct node *doc,
                             struct http_request *out, const char **param, struct err *e)
{
    struct sampling *s = &out->sampling;
    const struct node *seed = node_find(doc, "seed"), *top_k = node_find(doc, "top_k");
    int64_t seed_value = 0;
    *s = (struct sampling){.temperature = rules->temperature, .top_p = 1};
    TRY(get_number(doc, "temperature", 0, 100, &s->temperature, param, e));
    TRY(get_number(doc, "top_p", 0, 1, &s->top_p, param, e));
    TRY(get_number(doc, "min_p", 0, 1, &s->min_p, param, e));
    *param = "top_k";
    if (top_k && top_k->kind != NODE_NULL)
        TRY(node_get_int(doc, "top_k", -1, INT32_MAX, &s->top_k, e));
    s->top_k = s->top_k < 0 ? 0 : s->top_k;
    *param = "seed";
    out->seeded = seed && seed->kind != NODE_NULL;
    if (out->seeded)
        TRY(node_get_int(doc, "seed", INT64_MIN, INT64_MAX, &seed_value, e));
    s->seed = (uint64_t)seed_value;
    out->sampled = s->temperature > 0 && s->top_k != 1 && !rules->predicted;
    return ST_OK;
}

static enum st add_stop(struct arena *a, const struct node *v, struct http_request *out,
                        struct err *e)
{
    if (v->kind != NODE_STR)
        return err_set(e, ST_INPUT, "stop: expected a text or a list of texts");
    if (v->s.n == 0 || v->s.n > STOPS_LONGEST)
        return err_set(e, ST_INPUT, "stop: a text has 1 to %d bytes", STOPS_LONGEST);
    if (out->n_stops == STOPS_MOST)
        return err_set(e, ST_INPUT, "stop: at most %d texts", STOPS_MOST);
    out->stops[out->n_stops++] = (struct sv){arena_strn(a, v->s.p, v->s.n), v->s.n};
    return ST_OK;
}

static enum st take_stops(struct arena *a, const struct http_request_rules *rules,
                          const struct node *doc, struct http_request *out, struct err *e)
{
    const struct node *v = node_find(doc, "stop");
    if (!v || is_off(v))
        return ST_OK;
    if (!rules->tokenizer)
        return err_set(e, ST_INPUT, "stop: this model has no tokenizer, so answers have no text");
    if (v->kind != NODE_LIST)
        return add_stop(a, v, out, e);
    for (uint32_t i = 0; i < v->n; i++)
        TRY(add_stop(a, v->items[i], out, e));
    return ST_OK;
}

/* special: the tokenizer adds its begin tokens. */
static enum st encode(struct arena *a, const struct http_request_rules *rules, struct sv text,
                      bool special, struct http_request *out, struct err *e)
{
    size_t n = 0;
    if (!rules->tokenizer)
        return err_set(e, ST_INPUT, "this model has no tokenizer: send the prompt as token ids");
    TRY(tokenizer_encode(a, rules->tokenizer, text, special, &out->ids, &n, e));
    out->n_ids = (int64_t)n;
    if (n == 0)
        return err_set(e, ST_INPUT, "prompt: the text gives no tokens");
    for (size_t i = 0; i < n; i++)
        if (out->ids[i] >= rules->vocab)
            return err_set(e, ST_INPUT, "the tokenizer gives id %d, the model has %lld",
                           out->ids[i], (long long)rules->vocab);
    return ST_OK;
}

static enum st take_ids(struct arena *a, const struct http_request_rules *rules,
                        const struct node *list, struct http_request *out, struct err *e)
{
    out->ids = arena_array(a, int32_t, list->n);
    out->n_ids = list->n;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct node *v = list->items[i];
        if (v->kind != NODE_INT || v->i < 0 || v->i >= rules->vocab)
            return node_err(v, ST_INPUT, e, "prompt: expected token ids from 0 to %lld",
                            (long long)rules->vocab - 1);
        out->ids[i] = (int32_t)v->i;
    }
    return ST_OK;
}

static enum st take_prompt(struct arena *a, const struct http_request_rules *rules,
                           const struct node *doc, struct http_request *out, struct err *e)
{
    const struct node *p = node_find(doc, "prompt");
    if (p && p->kind == NODE_LIST && p->n == 1 && p->items[0]->kind != NODE_INT)
        p = p->items[0];
    if (p && p->kind == NODE_STR)
        return encode(a, rules, p->s, true, out, e);
    if (p && p->kind == NODE_LIST && p->n > 1 && p->items[0]->kind != NODE_INT)
        return err_set(e, ST_INPUT, "prompt: %u prompts: send one with each request", p->n);
    if (p && p->kind == NODE_LIST && p->n > 0)
        return take_ids(a, rules, p, out, e);
    return err_set(e, ST_INPUT, "prompt: expected one text or one list of token ids");
}

/* What a named template does not write: calls and tools, as their JSON. */
static void add_json(struct arena *a, const struct node *v, struct sv *text)
{
    struct buf all = {0};
    buf_add(&all, text->p, text->n);
    if (text->n > 0)
        buf_putc(&all, '\n');
    json_write(&all, v, 0, false);
    *text = (struct sv){arena_strn(a, buf_str(&all), all.n), all.n};
    buf_free(&all);
}

/* The text of a message: a string, parts of type text, or nothing, as beside calls of tools. */
static enum st content(struct arena *a, const struct node *m, struct sv *out, struct err *e)
{
    const struct node *c = node_find(m, "content");
    struct buf text = {0};
    if (c && c->kind == NODE_STR) {
        *out = c->s;
        return ST_OK;
    }
    if (c ? c->kind == NODE_NULL : node_find(m, "tool_calls") != NULL) {
        *out = SV("");
        return ST_OK;
    }
    for (uint32_t i = 0; c && c->kind == NODE_LIST && i < c->n; i++) {
        const struct node *part = node_find(c->items[i], "text");
        if (!part || part->kind != NODE_STR) {
            buf_free(&text);
            return err_set(e, ST_INPUT, "messages: only parts with text are read");
        }
        buf_add(&text, part->s.p, part->s.n);
    }
    if (!c || c->kind != NODE_LIST)
        return err_set(e, ST_INPUT, "messages: content: expected a text");
    *out = (struct sv){arena_strn(a, buf_str(&text), text.n), text.n};
    buf_free(&text);
    return ST_OK;
}

/* NULL = none. Of a completion they are refused. */
static enum st get_tools(const struct node *doc, bool chat, const struct node **out, struct err *e)
{
    const struct node *v = node_find(doc, "tools");
    *out = NULL;
    if (!v || is_off(v))
        return ST_OK;
    if (!chat)
        return err_set(e, ST_INPUT, "tools: not done here: leave it out");
    if (v->kind != NODE_LIST)
        return err_set(e, ST_INPUT, "tools: expected a list of tools");
    *out = v;
    return ST_OK;
}

static struct node *text_node(struct arena *a, struct sv text)
{
    struct node *n = node_new(a, NODE_STR);
    n->s = text;
    return n;
}

/* A named template has no place for tools: they stand in the system message. */
static void put_tools(struct arena *a, const struct node *tools, struct node *messages)
{
    struct node *first = messages->items[0];
    const struct node *role = node_find(first, "role");
    struct sv text = SV("");
    if (role && role->kind == NODE_STR && sv_eq(role->s, "system")) {
        text = node_find(first, "content")->s;
        add_json(a, tools, &text);
        node_set(a, first, SV("content"), text_node(a, text));
        return;
    }
    struct node *system = node_new(a, NODE_MAP);
    add_json(a, tools, &text);
    node_set(a, system, SV("role"), node_str(a, "system"));
    node_set(a, system, SV("content"), text_node(a, text));
    node_push(a, messages, system);
    memmove(messages->items + 1, messages->items, (messages->n - 1) * sizeof *messages->items);
    messages->items[0] = system;
}

/* Of the model's own template; NULL = none. */
static const struct node *variables(struct arena *a, const struct node *doc,
                                    const struct node *tools)
{
    const struct node *given = node_find(doc, "chat_template_kwargs");
    if (!tools)
        return given;
    struct node *all =
        given && given->kind == NODE_MAP ? node_copy(a, given) : node_new(a, NODE_MAP);
    node_set(a, all, SV("tools"), node_copy(a, tools));
    return all;
}

/* Messages and their texts are in the scratch arena. */
static enum st take_messages(struct arena *a, struct arena *scratch,
                             const struct http_request_rules *rules, const struct node *doc,
                             struct http_request *out, struct err *e)
{
    const struct node *list = node_find(doc, "messages"), *tools;
    const bool named = rules->chat.kind != CHAT_MODEL;
    if (!list || list->kind != NODE_LIST || list->n == 0)
        return err_set(e, ST_INPUT, "messages: expected a list of messages");
    TRY(get_tools(doc, true, &tools, e));
    struct node *all = node_new(scratch, NODE_LIST);
    for (uint32_t i = 0; i < list->n; i++) {
        const char *role;
        struct sv text;
        TRY(node_get_str(list->items[i], "role", &role, e));
        TRY(content(scratch, list->items[i], &text, e));
        const struct node *calls = node_find(list->items[i], "tool_calls");
        if (named && calls && !is_off(calls))
            add_json(scratch, calls, &text);
        struct node *m = node_copy(scratch, list->items[i]);
        node_set(scratch, m, SV("content"), text_node(scratch, text));
        node_push(scratch, all, m);
    }
    if (named && tools)
        put_tools(scratch, tools, all);
    struct buf text = {0};
    enum st st =
        chat_format_apply(scratch, &rules->chat, all, variables(scratch, doc, tools), &text, e);
    if (st == ST_OK)
        st = encode(a, rules, (struct sv){buf_str(&text), text.n}, rules->chat.kind != CHAT_MODEL,
                    out, e);
    buf_free(&text);
    return st;
}

static enum st take_length(const struct http_request_rules *rules, const struct node *doc,
                           struct http_request *out, struct http_refusal *refusal, struct err *e)
{
    int64_t room = rules->max_model_len - out->n_ids, min = 0;
    out->max_tokens = 0;
    TRY(get_count(doc, "max_tokens", &out->max_tokens, e));
    TRY(get_count(doc, "max_completion_tokens", &out->max_tokens, e));
    if (out->max_tokens == 0)
        out->max_tokens = out->chat || room < DEFAULT_COMPLETION_TOKENS
                              ? room
                              : (int64_t)DEFAULT_COMPLETION_TOKENS;
    if (room < 1 || out->max_tokens > room)
        refusal->code = "context_length_exceeded";
    if (room < 1) {
        refusal->param = out->chat ? "messages" : "prompt";
        return err_set(e, ST_INPUT,
                       "the prompt has %lld tokens: the model takes %lld in all, output included",
                       (long long)out->n_ids, (long long)rules->max_model_len);
    }
    if (out->max_tokens > room)
        return err_set(e, ST_INPUT,
                       "the prompt has %lld tokens, and %lld of output are asked for: the model "
                       "takes %lld in all",
                       (long long)out->n_ids, (long long)out->max_tokens,
                       (long long)rules->max_model_len);
    const struct node *v = node_find(doc, "min_tokens");
    if (v && v->kind != NODE_NULL)
        TRY(node_get_int(doc, "min_tokens", 0, INT32_MAX, &min, e));
    if (min > out->max_tokens)
        return err_set(e, ST_INPUT, "min_tokens: %lld, and at most %lld are asked for",
                       (long long)min, (long long)out->max_tokens);
    out->min_tokens = min;
    return ST_OK;
}

static enum st take_all(struct arena *a, struct arena *scratch,
                        const struct http_request_rules *rules, const struct node *doc,
                        struct http_request *out, struct http_refusal *refusal, struct err *e)
{
    const char **param = &refusal->param;
    const struct node *options = node_find(doc, "stream_options");
    for (uint32_t i = 0; i < doc->n; i++)
        TRY(check_member(rules, &doc->pairs[i], param, e));
    *param = NULL;
    TRY(get_bool(doc, "stream", &out->stream, e));
    TRY(get_bool(doc, "return_token_ids", &out->return_ids, e));
    TRY(get_bool(doc, "ignore_eos", &out->ignore_eos, e));
    TRY(take_sampling(rules, doc, out, param, e));
    *param = "stream_options";
    if (options && options->kind != NODE_NULL && options->kind != NODE_MAP)
        return err_set(e, ST_INPUT, "stream_options: expected a map");
    TRY(get_bool(options, "include_usage", &out->include_usage, e));
    TRY(get_bool(options, "continuous_usage_stats", &out->each_usage, e));
    const struct node *tools;
    *param = "tools";
    TRY(get_tools(doc, out->chat, &tools, e));
    *param = out->chat ? "messages" : "prompt";
    TRY(out->chat ? take_messages(a, scratch, rules, doc, out, e)
                  : take_prompt(a, rules, doc, out, e));
    *param = "stop";
    TRY(take_stops(a, rules, doc, out, e));
    *param = "max_tokens";
    return take_length(rules, doc, out, refusal, e);
}

/* Counts commas outside strings: one less than the values of a flat body. */
static size_t count_values(struct sv body)
{
    size_t n = 1;
    bool text = false;
    for (size_t i = 0; i < body.n; i++) {
        const char c = body.p[i];
        if (text && c == '\\')
            i++;
        else if (c == '"')
            text = !text;
        n += !text && c == ',';
    }
    return n;
}

static enum st parse(struct arena *a, struct arena *scratch, const struct http_request_rules *rules,
                     struct sv body, struct http_request *out, struct http_refusal *refusal,
                     struct err *e)
{
    const struct json_limits limits = {
        .max_depth = MAX_DEPTH, .max_bytes = body.n + 1, .max_string_bytes = body.n + 1};
    const size_t most = (size_t)rules->max_model_len + MOST_VALUES, values = count_values(body);
    struct node *doc;
    const char *model;
    if (values > most)
        return err_set(e, ST_INPUT, "body: %zu values, of which %zu are read at most", values,
                       most);
    TRY(json_parse(scratch, "body", body, &limits, &doc, e));
    if (doc->kind != NODE_MAP)
        return err_set(e, ST_INPUT, "body: expected a JSON object");
    if (out->api == HTTP_RESPONSES)
        TRY(responses_as_chat(scratch, doc, &doc, &refusal->param, e));
    refusal->param = "model";
    TRY(node_get_str(doc, "model", &model, e));
    if (strcmp(model, rules->model) != 0) {
        *refusal = (struct http_refusal){404, "model", "model_not_found"};
        return err_set(e, ST_INPUT, "the model '%.100s' does not exist; this is %s", model,
                       rules->model);
    }
    return take_all(a, scratch, rules, doc, out, refusal, e);
}

enum st http_request_parse(struct arena *a, const struct http_request_rules *rules,
                           enum http_api api, struct sv body, struct http_request *out,
                           struct http_refusal *refusal, struct err *e)
{
    struct arena *scratch = arena_new();
    *out = (struct http_request){
        .api = api, .chat = api != HTTP_COMPLETIONS, .ignore_eos = rules->ignore_eos};
    *refusal = (struct http_refusal){.status = 400};
    const enum st st = parse(a, scratch, rules, body, out, refusal, e);
    arena_free(&scratch);
    return st;
}
