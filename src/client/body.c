#include "client/body.h"

#include <math.h>
#include <string.h>

#include "text/json.h"

struct body_maker {
    struct body_params p;
    struct sv head; /* "{...fixed members", without the closing brace */
};

enum body_limit body_limit(const struct body_params *p)
{
    if (p->endpoint == BODY_RESPONSES)
        return BODY_LIMIT_MAX_OUTPUT_TOKENS;
    return p->limit == BODY_LIMIT_AUTO ? BODY_LIMIT_MAX_TOKENS : p->limit;
}

const char *body_limit_name(enum body_limit l)
{
    static const char *const names[] = {"auto", "max_tokens", "max_completion_tokens",
                                        "max_output_tokens"};
    return names[l];
}

static struct node *fixed_members(struct arena *a, const struct body_params *p)
{
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("model"), node_str(a, p->model));
    if (!isnan(p->temperature))
        node_set(a, m, SV("temperature"), node_float(a, p->temperature));
    node_set(a, m, SV("stream"), node_bool(a, true));
    if (p->count != BODY_COUNT_TOKENIZER && p->endpoint != BODY_RESPONSES) {
        struct node *options = node_new(a, NODE_MAP);
        node_set(a, options, SV("include_usage"), node_bool(a, true));
        if (p->count == BODY_COUNT_EACH)
            node_set(a, options, SV("continuous_usage_stats"), node_bool(a, true));
        node_set(a, m, SV("stream_options"), options);
    }
    if (p->count == BODY_COUNT_IDS)
        node_set(a, m, SV("return_token_ids"), node_bool(a, true));
    if (p->ignore_eos)
        node_set(a, m, SV("ignore_eos"), node_bool(a, true));
    return m;
}

enum st body_maker_new(struct arena *a, const struct body_params *p, struct body_maker **out,
                       struct err *e)
{
    static const char *const own[] = {"prompt",
                                      "messages",
                                      "input",
                                      "stream",
                                      "max_tokens",
                                      "max_completion_tokens",
                                      "max_output_tokens",
                                      "n",
                                      "best_of"};
    struct node *m = fixed_members(a, p);
    for (uint32_t i = 0; p->extra && i < p->extra->n; i++) {
        const struct node_pair *pair = &p->extra->pairs[i];
        for (size_t k = 0; k < sizeof own / sizeof *own; k++)
            if (sv_eq(pair->key, own[k]))
                return err_set(e, ST_USAGE, "client.body.%s: the benchmark sets it itself", own[k]);
        node_set(a, m, pair->key, pair->value);
    }
    struct buf text = {0};
    json_write(&text, m, 0, true);
    struct body_maker *b = *out = arena_one(a, struct body_maker);
    size_t n = text.n;
    while (n > 0 && text.p[n - 1] != '}')
        n--;
    b->p = *p;
    b->head = (struct sv){arena_strn(a, text.p, n - 1), n - 1};
    buf_free(&text);
    return ST_OK;
}

static void add_prompt(struct buf *b, const struct body_prompt *prompt)
{
    if (!prompt->ids) {
        json_quote(b, prompt->text);
        return;
    }
    for (size_t i = 0; i < prompt->n_ids; i++)
        buf_printf(b, "%c%d", i ? ',' : '[', prompt->ids[i]);
    buf_putc(b, ']');
}

enum st body_make(struct arena *a, struct body_maker *m, const struct body_prompt *prompt,
                  int64_t max_tokens, struct sv *out, struct err *e)
{
    struct buf b = {0}, text = {0};
    struct body_prompt q = *prompt;
    enum st st = ST_OK;
    static const char *const texts[] = {"\"prompt\":", "\"messages\":[", "\"input\":["};
    const bool chat = m->p.endpoint != BODY_COMPLETIONS; /* messages, whatever they are called */
    if (!chat && !q.ids && m->p.chat != CHAT_NONE) {
        struct chat_message *turns = mem_alloc((q.n_earlier + 1) * sizeof *turns);
        for (size_t i = 0; i < q.n_earlier; i++)
            turns[i] = (struct chat_message){i % 2 ? SV("assistant") : SV("user"), q.earlier[i]};
        turns[q.n_earlier] = (struct chat_message){SV("user"), q.text};
        st = chat_template_apply(&text, m->p.chat, turns, q.n_earlier + 1, e);
        q.text = (struct sv){buf_str(&text), text.n};
        mem_free(turns);
    } else if (!chat && !q.ids && q.n_earlier) {
        for (size_t i = 0; i < q.n_earlier; i++)
            buf_add(&text, q.earlier[i].p, q.earlier[i].n);
        buf_add(&text, q.text.p, q.text.n);
        q.text = (struct sv){buf_str(&text), text.n};
    }
    buf_add(&b, m->head.p, m->head.n);
    buf_printf(&b, ",\"%s\":%lld,", body_limit_name(body_limit(&m->p)), (long long)max_tokens);
    buf_puts(&b, texts[m->p.endpoint]);
    for (size_t i = 0; chat && i < q.n_earlier; i++) {
        buf_printf(&b, "{\"role\":\"%s\",\"content\":", i % 2 ? "assistant" : "user");
        json_quote(&b, q.earlier[i]);
        buf_puts(&b, "},");
    }
    if (chat)
        buf_puts(&b, "{\"role\":\"user\",\"content\":");
    add_prompt(&b, &q);
    buf_puts(&b, chat ? "}]}" : "}");
    *out = (struct sv){arena_strn(a, b.p, b.n), b.n};
    buf_free(&b);
    buf_free(&text);
    return st;
}

/* Length of url without "/" and "/v1" at its end. */
static size_t root_length(const char *url)
{
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/')
        n--;
    if (n > 3 && memcmp(url + n - 3, "/v1", 3) == 0)
        n -= 3;
    return n;
}

const char *body_root_url(struct arena *a, const char *url, const char *path)
{
    return arena_printf(a, "%.*s%s", (int)root_length(url), url, path);
}

enum st body_url(struct arena *a, const char *url, const char *path, const char **out,
                 struct err *e)
{
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    if (memchr(url + scheme, '@', strcspn(url + scheme, "/"))) {
        err_set(e, ST_USAGE, "url: a name or password in it would end up in every artifact");
        return err_hint(e, "client.headers=[\"Authorization: $VARIABLE\"] takes it from the "
                           "environment");
    }
    if (scheme == 0 || !url[scheme] || url[scheme] == '/') {
        err_set(e, ST_USAGE, "url: '%s' is no address of a server", url);
        return err_hint(e, "url=http://127.0.0.1:8000");
    }
    if (strpbrk(url, "?# \t\r\n"))
        return err_set(e, ST_USAGE, "url: '%s': expected no query, fragment or space", url);
    *out = arena_printf(a, "%.*s/v1%s", (int)root_length(url), url, path);
    return ST_OK;
}
