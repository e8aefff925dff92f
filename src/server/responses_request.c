#include <string.h>

#include "server/responses.h"

/* Members with another name in a chat, or none: NULL. Others keep theirs. */
static const struct {
    const char *name, *chat;
    bool off; /* has an effect that is not done here */
} members[] = {
    {"input", NULL, false},          {"instructions", NULL, false},
    {"text", NULL, false},           {"max_output_tokens", "max_tokens", false},
    {"stream_options", NULL, false}, /* include_obfuscation */
    {"truncation", NULL, false},     /* a prompt that is too long is refused */
    {"include", NULL, false},        {"reasoning", NULL, false},
    {"max_tool_calls", NULL, false}, {"previous_response_id", NULL, true},
    {"conversation", NULL, true},    {"background", NULL, true},
    {"prompt", NULL, true},
};

static struct node *text_of(struct arena *a, struct sv text)
{
    struct node *n = node_new(a, NODE_STR);
    n->s = text;
    return n;
}

static struct node *add_message(struct arena *a, struct node *list, struct sv role,
                                struct node *content)
{
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("role"), text_of(a, role));
    if (content)
        node_set(a, m, SV("content"), content);
    node_push(a, list, m);
    return m;
}

/* A call that the assistant made. */
static void add_call(struct arena *a, struct node *list, const struct node *item)
{
    struct node *call = node_new(a, NODE_MAP), *function = node_new(a, NODE_MAP);
    struct node *calls = node_new(a, NODE_LIST);
    static const char *const kept[] = {"name", "arguments"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (node_find(item, kept[i]))
            node_set(a, function, sv_of(kept[i]), node_copy(a, node_find(item, kept[i])));
    node_set(a, call, SV("type"), node_str(a, "function"));
    node_set(a, call, SV("function"), function);
    node_push(a, calls, call);
    node_set(a, add_message(a, list, SV("assistant"), NULL), SV("tool_calls"), calls);
}

static bool is(const struct node *v, const char *text)
{
    return v && v->kind == NODE_STR && sv_eq(v->s, text);
}

static enum st add_item(struct arena *a, struct node *list, struct node *item, struct err *e)
{
    const struct node *type = node_find(item, "type"), *role = node_find(item, "role");
    if (item->kind != NODE_MAP)
        return err_set(e, ST_INPUT, "input: expected a text or a list of messages");
    if (is(type, "reasoning"))
        return ST_OK;
    if (is(type, "function_call")) {
        add_call(a, list, item);
        return ST_OK;
    }
    struct node *content = node_find(item, "content");
    if (is(type, "function_call_output")) {
        content = node_find(item, "output");
        add_message(a, list, SV("tool"), content);
        return ST_OK;
    }
    if (type && type->kind != NODE_NULL && !is(type, "message"))
        return err_set(e, ST_INPUT,
                       "input: only messages, function calls and their outputs are "
                       "read");
    if (!role || role->kind != NODE_STR)
        return err_set(e, ST_INPUT, "input: role: expected a text");
    add_message(a, list, is(role, "developer") ? SV("system") : role->s, content);
    return ST_OK;
}

static enum st get_messages(struct arena *a, const struct node *doc, struct node *list,
                            struct err *e)
{
    const struct node *instructions = node_find(doc, "instructions");
    const struct node *input = node_find(doc, "input");
    if (instructions && instructions->kind == NODE_STR)
        add_message(a, list, SV("system"), text_of(a, instructions->s));
    else if (instructions && instructions->kind != NODE_NULL)
        return err_set(e, ST_INPUT, "instructions: expected a text");
    if (input && input->kind == NODE_STR) {
        add_message(a, list, SV("user"), text_of(a, input->s));
        return ST_OK;
    }
    if (!input || input->kind != NODE_LIST || input->n == 0)
        return err_set(e, ST_INPUT, "input: expected a text or a list of messages");
    for (uint32_t i = 0; i < input->n; i++)
        TRY(add_item(a, list, input->items[i], e));
    return ST_OK;
}

static bool says_nothing(const struct node *v)
{
    return v->kind == NODE_NULL || (v->kind == NODE_BOOL && !v->b);
}

enum st responses_as_chat(struct arena *a, const struct node *doc, struct node **out,
                          const char **param, struct err *e)
{
    struct node *chat = *out = node_new(a, NODE_MAP), *messages = node_new(a, NODE_LIST);
    struct node *format = node_find(node_find(doc, "text"), "format");
    for (uint32_t i = 0; i < doc->n; i++) {
        const struct node_pair *p = &doc->pairs[i];
        struct sv name = p->key;
        for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
            if (!sv_eq(p->key, members[k].name))
                continue;
            *param = members[k].name;
            if (members[k].off && !says_nothing(p->value))
                return err_set(e, ST_INPUT, "%s: not done here: leave it out", members[k].name);
            name = members[k].chat ? sv_of(members[k].chat) : (struct sv){NULL, 0};
        }
        if (name.p)
            node_set(a, chat, name, p->value);
    }
    *param = "input";
    TRY(get_messages(a, doc, messages, e));
    node_set(a, chat, SV("messages"), messages);
    if (format)
        node_set(a, chat, SV("response_format"), format);
    return ST_OK;
}
