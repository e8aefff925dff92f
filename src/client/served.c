#include "client/served.h"

#include <string.h>

#include "base/log.h"
#include "text/json.h"

/* Items of the list; NULL when the document has none. */
static const struct node *model_list(struct arena *a, const char *url, struct sv body)
{
    struct err ignored = {0};
    struct node *doc, *list;
    if (json_parse(a, url, body, NULL, &doc, &ignored) != ST_OK ||
        node_get(doc, "data", NODE_LIST, &list, &ignored) != ST_OK || list->n == 0)
        return NULL;
    return list;
}

static enum st choose(struct arena *a, const struct node *list, const char *const *own,
                      size_t n_own, const char **out, struct err *e)
{
    const char *names = "";
    for (uint32_t i = 0; i < list->n; i++) {
        const char *id;
        TRY(node_get_str(list->items[i], "id", &id, e));
        bool ours = list->n == 1;
        for (size_t k = 0; k < n_own; k++)
            ours = ours || strcmp(id, own[k]) == 0;
        if (ours && !*out)
            *out = id;
        names = arena_printf(a, "%s%s%s", names, i ? ", " : "", id);
    }
    if (*out)
        return ST_OK;
    err_set(e, ST_USAGE, "the server has %u models and none is called %s", list->n, own[n_own - 1]);
    return err_hint(e, "client.model= names one of: %s", names);
}

static enum st guess(const char *name, const char *why, const char **out)
{
    log_warn("%s: asking for model %s (client.model=NAME asks for another)", why, name);
    *out = name;
    return ST_OK;
}

enum st client_find_served(struct arena *a, const struct client_params *p, const char *url,
                           const char *const *own, size_t n_own, const char *key_env,
                           const char **out, struct err *e)
{
    struct sv body;
    long status = 0;
    *out = NULL;
    if (client_get(a, p, url, &body, &status, e) == ST_OK) {
        const struct node *list = model_list(a, url, body);
        return list ? choose(a, list, own, n_own, out, e)
                    : guess(own[0], arena_printf(a, "%s names no model", url), out);
    }
    if (status == 401 || status == 403) {
        err_add(e, "cannot ask the server which model it serves");
        return err_hint(
            e, "the API key is taken from the environment: %s, which client.api_key_env names",
            key_env);
    }
    if (status == 0) {
        err_add(e, "cannot ask the server which model it serves");
        return err_hint(e, "is it running? client.model=NAME skips the question");
    }
    err_clear(e);
    return guess(own[0], arena_printf(a, "%s answers with status %ld", url, status), out);
}
