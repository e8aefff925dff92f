#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/openai_parts.h"
#include "text/json.h"

/* ---- the model's name ------------------------------------------------------------------------ */

/* Under which names a server may know the plan's model: as a folder, on the hub, as ours. */
struct names {
    const char *name[3];
    int n;
};

static struct names own_names(const struct bench *b)
{
    const struct plan *p = b->c->plan;
    struct names x = {0};
    char path[PATH_MAX];
    if (p->model.hub)
        x.name[x.n++] = p->model.hub;
    if (p->model.ref && realpath(p->model.ref, path))
        x.name[x.n++] = arena_str(b->c->a, path);
    x.name[x.n++] = b->m.m.name;
    return x;
}

/* The server does not say what it serves, as many do. */
static enum st guess_model(struct bench *b, const char *why)
{
    b->served_model = own_names(b).name[0];
    log_warn("%s: asking for model %s (client.model=NAME asks for another)", why, b->served_model);
    return ST_OK;
}

/* What the list holds; NULL when there is none in the document. */
static const struct node *model_list(struct bench *b, struct sv body)
{
    struct err ignored = {0};
    struct node *doc, *list;
    if (json_parse(b->c->a, b->models_url, body, NULL, &doc, &ignored) != ST_OK ||
        node_get(doc, "data", NODE_LIST, &list, &ignored) != ST_OK || list->n == 0)
        return NULL;
    return list;
}

static enum st choose_model(struct bench *b, const struct node *list, struct err *e)
{
    const struct names own = own_names(b);
    const char *names = "";
    for (uint32_t i = 0; i < list->n; i++) {
        const char *id;
        TRY(node_get_str(list->items[i], "id", &id, e));
        bool ours = list->n == 1;
        for (int k = 0; k < own.n; k++)
            ours = ours || strcmp(id, own.name[k]) == 0;
        if (ours && !b->served_model)
            b->served_model = id;
        names = arena_printf(b->c->a, "%s%s%s", names, i ? ", " : "", id);
    }
    if (b->served_model)
        return ST_OK;
    err_set(e, ST_USAGE, "the server has %u models and none is called %s", list->n, b->m.m.name);
    return err_hint(e, "client.model= names one of: %s", names);
}

enum st openai_find_model(struct bench *b, struct err *e)
{
    struct arena *a = b->c->a;
    struct sv body;
    long status = 0;
    if ((b->served_model = b->c->plan->client.model) != NULL)
        return ST_OK;
    if (client_get(a, &b->client, b->models_url, &body, &status, e) == ST_OK) {
        const struct node *list = model_list(b, body);
        return list ? choose_model(b, list, e)
                    : guess_model(b, arena_printf(a, "%s names no model", b->models_url));
    }
    if (status == 401 || status == 403) {
        err_add(e, "cannot ask the server which model it serves");
        return err_hint(
            e, "the API key is taken from the environment: %s, which client.api_key_env names",
            b->c->plan->client.api_key_env);
    }
    if (status == 0) {
        err_add(e, "cannot ask the server which model it serves");
        return err_hint(e, "is it running? client.model=NAME skips the question");
    }
    err_clear(e);
    return guess_model(b, arena_printf(a, "%s answers with status %ld", b->models_url, status));
}

/* ---- what it takes --------------------------------------------------------------------------- */

/* The model of a shipped configuration is nobody's word on what the server runs. */
const char *openai_tokenizer(const struct cmd_context *c, const struct job_model *m)
{
    static const char group[] = "model=";
    if (c->plan->client.tokenizer)
        return c->plan->client.tokenizer;
    bool named = config_origin(c->config, "model.tokenizer") == ORIGIN_COMMAND_LINE ||
                 config_origin(c->config, "model.ref") == ORIGIN_COMMAND_LINE;
    for (size_t i = 0; i < c->config->n_overrides; i++)
        named = named || strncmp(c->config->overrides[i], group, sizeof group - 1) == 0;
    return named ? m->tokenizer : NULL;
}

static void tell_preflight(const struct bench *b)
{
    const struct preflight *f = &b->preflight;
    const char *limit = body_limit_name(f->limit);
    if (!f->asked) {
        log_warn("the server is busy: it was not asked which settings of a request it takes");
        return;
    }
    if (f->no_ignore_eos)
        log_warn("the server does not take ignore_eos: answers may end before they have the "
                 "workload's lengths");
    if (f->no_temperature)
        log_warn("the server does not take temperature=%g: its own is used",
                 b->c->plan->client.temperature);
    if (f->limit != BODY_LIMIT_MAX_TOKENS)
        log_info("the limit on output tokens is sent as %s", limit);
    if (f->unlimited)
        log_warn("the server's answer is longer than %s allows", limit);
    if (f->one_chunk)
        log_warn("the server sends an answer's text in one piece: such answers have no TPOT");
}

static void tell_count(const struct bench *b)
{
    bool usage = b->preflight.has_usage && !b->preflight.no_usage;
    if (!b->preflight.asked || (usage && b->body.count != BODY_COUNT_TOKENIZER))
        return;
    if (b->counter)
        log_info("output tokens are counted by %s%s", openai_tokenizer(b->c, &b->m),
                 usage ? "" : ": the server sends no usage");
    else
        log_warn("the server sends no usage and no tokenizer was named: each chunk is counted as "
                 "one output token (client.tokenizer=FILE, of the model that the server runs, "
                 "counts them)");
}

enum st openai_preflight(struct bench *b, struct err *e)
{
    static const int32_t ids[] = {1, 2, 3, 4};
    const bool as_ids = b->c->plan->client.prompts == 1;
    struct body_prompt prompt = {.text = SV("Say hello.")};
    if (b->body.count == BODY_COUNT_TOKENIZER && !b->counter) {
        err_set(e, ST_USAGE, "client.count=tokenizer: no tokenizer was named");
        return err_hint(e, "client.tokenizer=FILE names that of the model which the server runs");
    }
    if (!b->c->plan->client.preflight)
        return ST_OK;
    if (as_ids)
        prompt = (struct body_prompt){.ids = ids, .n_ids = sizeof ids / sizeof *ids};
    TRY(preflight_ask(b->c->a, &b->client, &b->body, &prompt, &cmd_stop, &b->preflight, e));
    tell_preflight(b);
    tell_count(b);
    return ST_OK;
}

struct node *openai_http_node(const struct bench *b)
{
    struct arena *a = b->c->a;
    struct node *m = node_new(a, NODE_MAP), *sent = node_new(a, NODE_MAP);
    node_set(a, m, SV("url"), node_str(a, b->url));
    node_set(a, m, SV("served_model"), node_str(a, b->served_model));
    node_set(a, m, SV("headers"), b->shown_headers);
    node_set(a, sent, SV("limit"), node_str(a, body_limit_name(body_limit(&b->body))));
    node_set(a, sent, SV("ignore_eos"), node_bool(a, b->body.ignore_eos));
    node_set(a, sent, SV("usage"), node_bool(a, b->body.count != BODY_COUNT_TOKENIZER));
    node_set(a, sent, SV("temperature"),
             isnan(b->body.temperature) ? node_new(a, NODE_NULL)
                                        : node_float(a, b->body.temperature));
    node_set(a, m, SV("sent"), sent);
    node_set(a, m, SV("preflight"), node_bool(a, b->preflight.asked));
    return m;
}
