#include "model/chat_format.h"

#include "base/fs.h"
#include "text/json.h"

enum { MAX_BYTES = 64 << 20 }; /* of tokenizer_config.json, which may list every added token */

/* A special token: a text, or a map with the text as content. */
static struct node *token_text(struct node *v)
{
    if (v && v->kind == NODE_MAP)
        v = node_find(v, "content");
    return v && v->kind == NODE_STR ? v : NULL;
}

static struct node *tokens_of(struct arena *a, const struct node *config)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                        "sep_token", "cls_token", "mask_token"};
    struct node *all = node_new(a, NODE_MAP);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct node *text = token_text(node_find(config, names[i]));
        if (text)
            node_set(a, all, sv_of(names[i]), text);
    }
    return all;
}

/* chat_template: a text, or a list of maps with name and template. */
static const struct node *template_of(const struct node *config)
{
    const struct node *v = node_find(config, "chat_template");
    for (uint32_t i = 0; v && v->kind == NODE_LIST && i < v->n; i++) {
        const struct node *name = node_find(v->items[i], "name");
        if (name && name->kind == NODE_STR && sv_eq(name->s, "default"))
            v = node_find(v->items[i], "template");
    }
    return v && v->kind == NODE_STR ? v : NULL;
}

/* Renders a minimal chat: a template that fails on it is unusable. */
static enum st try_it(const struct chat_format *f, struct err *e)
{
    struct arena *a = arena_new();
    struct buf text = {0};
    struct node *messages = node_new(a, NODE_LIST), *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("role"), node_str(a, "user"));
    node_set(a, m, SV("content"), node_str(a, "Hello"));
    node_push(a, messages, m);
    const enum st st = chat_format_apply(a, f, messages, NULL, &text, e);
    buf_free(&text);
    arena_free(&a);
    return st;
}

enum st chat_format_load(struct arena *a, const char *dir, struct chat_format *out, bool *found,
                         struct err *e)
{
    const struct json_limits limits = {.max_bytes = MAX_BYTES};
    const char *config_path = fs_join(a, dir, "tokenizer_config.json");
    const char *path = fs_join(a, dir, "chat_template.jinja");
    struct node *config = NULL;
    struct sv text = {NULL, 0};
    struct jinja *program;
    *out = (struct chat_format){.kind = CHAT_MODEL};
    *found = false;
    if (fs_exists(config_path))
        TRY(json_load(a, config_path, &limits, &config, e));
    const struct node *inside = template_of(config);
    if (fs_exists(path)) {
        TRY(fs_read(a, path, MAX_BYTES, &text, e));
    } else if (inside) {
        path = arena_printf(a, "%s: chat_template", config_path);
        text = inside->s;
    } else {
        return ST_OK;
    }
    *found = true;
    out->tokens = tokens_of(a, config);
    TRY(jinja_parse(a, path, text, &program, e));
    out->program = program;
    return try_it(out, e);
}

static enum st by_name(struct arena *scratch, const struct chat_format *f,
                       const struct node *messages, struct buf *out, struct err *e)
{
    struct chat_message *m = arena_array(scratch, struct chat_message, messages->n);
    for (uint32_t i = 0; i < messages->n; i++) {
        const struct node *role = node_find(messages->items[i], "role");
        const struct node *content = node_find(messages->items[i], "content");
        m[i] = (struct chat_message){role->s, content->s};
    }
    return chat_template_apply(out, f->kind, m, messages->n, e);
}

enum st chat_format_apply(struct arena *scratch, const struct chat_format *f,
                          const struct node *messages, const struct node *kwargs, struct buf *out,
                          struct err *e)
{
    if (f->kind != CHAT_MODEL)
        return by_name(scratch, f, messages, out, e);
    struct node *all = node_new(scratch, NODE_MAP);
    for (uint32_t i = 0; kwargs && i < kwargs->n; i++)
        node_set(scratch, all, kwargs->pairs[i].key, kwargs->pairs[i].value);
    for (uint32_t i = 0; i < f->tokens->n; i++)
        node_set(scratch, all, f->tokens->pairs[i].key, f->tokens->pairs[i].value);
    node_set(scratch, all, SV("messages"), node_copy(scratch, messages));
    node_set(scratch, all, SV("add_generation_prompt"), node_bool(scratch, true));
    if (!node_find(all, "tools"))
        node_set(scratch, all, SV("tools"), node_new(scratch, NODE_NULL));
    node_set(scratch, all, SV("documents"), node_new(scratch, NODE_NULL));
    return jinja_render(scratch, f->program, all, out, e);
}
