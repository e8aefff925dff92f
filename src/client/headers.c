#include "client/headers.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* Values under such names are secrets: they must come from the environment. */
static bool is_secret_name(struct sv name)
{
    static const char *const words[] = {"auth", "key", "token", "secret", "cookie", "password"};
    char lower[64];
    size_t n = name.n < sizeof lower - 1 ? name.n : sizeof lower - 1;
    for (size_t i = 0; i < n; i++)
        lower[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] | 0x20 : name.p[i]);
    lower[n] = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(lower, words[i]))
            return true;
    return false;
}

static bool one_line(const char *s)
{
    return !strpbrk(s, "\r\n");
}

/* Adds a secret header value, and its part after the scheme: "Bearer x". */
static void add_secret(struct client_headers *h, const char *value)
{
    const char *last = strrchr(value, ' ');
    h->secrets[h->n_secrets++] = value;
    if (last && last[1])
        h->secrets[h->n_secrets++] = last + 1;
}

static enum st add_header(struct arena *a, struct client_headers *h, const char *text,
                          struct err *e)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || !one_line(text))
        return err_set(e, ST_USAGE, "client.headers: '%s': expected Name: value", text);
    struct sv name = {text, (size_t)(colon - text)}, value = sv_trim(sv_of(colon + 1));
    const char *shown = arena_strn(a, value.p, value.n);
    if (value.n > 1 && *value.p == '$') {
        const char *from = getenv(shown + 1);
        if (!from || !*from || !one_line(from))
            return err_set(e, ST_USAGE, "client.headers: %.*s: the environment has no %s",
                           (int)name.n, name.p, shown + 1);
        h->list[h->n++] = arena_printf(a, "%.*s: %s", (int)name.n, name.p, from);
        add_secret(h, from);
        shown = "redacted";
    } else if (is_secret_name(name)) {
        err_set(e, ST_USAGE, "client.headers: %.*s: a secret here would end up in every artifact",
                (int)name.n, name.p);
        return err_hint(e, "client.headers=[\"%.*s: $VARIABLE\"] takes it from the environment",
                        (int)name.n, name.p);
    } else {
        h->list[h->n++] = text;
    }
    node_set(a, h->shown, (struct sv){arena_strn(a, name.p, name.n), name.n}, node_str(a, shown));
    return ST_OK;
}

bool client_stays_here(const char *url)
{
    return strstr(url, "//127.") || strstr(url, "//localhost") || strstr(url, "//[::1]");
}

enum st client_headers_make(struct arena *a, const char *const *given, size_t n,
                            const char *key_env, const char *url, struct client_headers *out,
                            struct err *e)
{
    *out = (struct client_headers){.list = arena_array(a, const char *, n + 1),
                                   .secrets = arena_array(a, const char *, 2 * (n + 1)),
                                   .shown = node_new(a, NODE_MAP)};
    const char *key = key_env ? getenv(key_env) : NULL;
    if (key && *key) {
        if (!one_line(key))
            return err_set(e, ST_USAGE, "client.api_key_env: %s holds more than one line", key_env);
        out->list[out->n++] = arena_printf(a, "Authorization: Bearer %s", key);
        add_secret(out, key);
        node_set(a, out->shown, SV("Authorization"), node_str(a, "redacted"));
        if (strncmp(url, "http://", 7) == 0 && !client_stays_here(url))
            log_warn("the API key goes over the network unencrypted: url is not https");
    }
    for (size_t i = 0; i < n; i++)
        TRY(add_header(a, out, given[i], e));
    return ST_OK;
}
