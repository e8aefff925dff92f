#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/openai_parts.h"
#include "job/goodput.h"

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

/* The value of a header that must not be told, and what stands after its scheme: "Bearer x". */
static void add_secret(struct bench *b, const char *value)
{
    const char *last = strrchr(value, ' ');
    b->secrets[b->client.n_secrets++] = value;
    if (last && last[1])
        b->secrets[b->client.n_secrets++] = last + 1;
}

static enum st add_header(struct bench *b, const char **list, size_t *n, const char *text,
                          struct err *e)
{
    struct arena *a = b->c->a;
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
        list[(*n)++] = arena_printf(a, "%.*s: %s", (int)name.n, name.p, from);
        add_secret(b, from);
        shown = "redacted";
    } else if (is_secret_name(name)) {
        err_set(e, ST_USAGE, "client.headers: %.*s: a secret here would end up in every artifact",
                (int)name.n, name.p);
        return err_hint(e, "client.headers=[\"%.*s: $VARIABLE\"] takes it from the environment",
                        (int)name.n, name.p);
    } else {
        list[(*n)++] = text;
    }
    node_set(a, b->shown_headers, (struct sv){arena_strn(a, name.p, name.n), name.n},
             node_str(a, shown));
    return ST_OK;
}

static enum st make_headers(struct bench *b, struct err *e)
{
    const struct plan *p = b->c->plan;
    struct arena *a = b->c->a;
    const char **list = arena_array(a, const char *, p->client.headers.n + 1);
    size_t n = 0;
    b->secrets = arena_array(a, const char *, 2 * (p->client.headers.n + 1));
    b->client.secrets = b->secrets;
    b->shown_headers = node_new(a, NODE_MAP);
    const char *key = p->client.api_key_env ? getenv(p->client.api_key_env) : NULL;
    if (key && *key) {
        if (!one_line(key))
            return err_set(e, ST_USAGE, "client.api_key_env: %s holds more than one line",
                           p->client.api_key_env);
        list[n++] = arena_printf(a, "Authorization: Bearer %s", key);
        add_secret(b, key);
        node_set(a, b->shown_headers, SV("Authorization"), node_str(a, "redacted"));
        if (strncmp(b->url, "http://", 7) == 0 && !strstr(b->url, "//127.") &&
            !strstr(b->url, "//localhost") && !strstr(b->url, "//[::1]"))
            log_warn("the API key goes over the network unencrypted: url is not https");
    }
    for (size_t i = 0; i < p->client.headers.n; i++)
        TRY(add_header(b, list, &n, p->client.headers.items[i], e));
    b->client.headers = list;
    b->client.n_headers = n;
    return ST_OK;
}

static double limit_ms(const struct slo *s, enum slo_metric m)
{
    return s->limit_s[m] * 1e3;
}

static enum st make_limits(struct bench *b, struct err *e)
{
    struct slo s;
    TRY(job_goodput(b->c, &s, &b->goodput, e));
    b->limits = (struct outcome_limits){b->goodput != NULL, limit_ms(&s, SLO_TTFT),
                                        limit_ms(&s, SLO_TPOT), limit_ms(&s, SLO_E2EL)};
    return ST_OK;
}

enum st openai_settings(struct bench *b, struct err *e)
{
    const struct plan *p = b->c->plan;
    static const char *const paths[] = {"/completions", "/chat/completions"};
    if (!p->url) {
        err_set(e, ST_USAGE, "engine=openai needs the address of a server");
        return err_hint(e, "url=http://127.0.0.1:8000");
    }
    if (p->client.endpoint == BODY_CHAT && p->client.prompts == 1)
        return err_set(e, ST_USAGE, "client.prompts=ids: the chat endpoint takes texts only");
    if (p->chat_template == CHAT_MODEL)
        return err_set(e, ST_USAGE,
                       "chat_template=model: the server's to do: client.endpoint=chat asks for it");
    if (p->chat_template != CHAT_NONE && (p->client.endpoint == BODY_CHAT || p->client.prompts))
        return err_set(e, ST_USAGE,
                       "chat_template: only texts for the completions endpoint are put "
                       "into a template here; a chat is the server's to format");
    TRY(body_url(b->c->a, p->url, paths[p->client.endpoint], &b->url, e));
    TRY(body_url(b->c->a, p->url, "/models", &b->models_url, e));
    b->client = (struct client_params){
        .url = b->url,
        .max_concurrency = p->client.max_concurrency,
        .timeout_s = p->client.timeout_s,
        .stall_timeout_s = p->client.stall_timeout_s,
        .connect_timeout_s = p->client.connect_timeout_s,
        .retries = p->client.retries,
        .retry_delay_s = p->client.retry_delay_s,
        .duration_s = p->client.duration_s,
        .give_up_after = p->client.give_up_after,
        .tls_insecure = !p->client.tls_verify,
        .ca_file = p->client.ca_file,
    };
    b->body = (struct body_params){
        .endpoint = (enum body_endpoint)p->client.endpoint,
        .count = (enum body_count)p->client.count,
        .temperature = p->client.temperature,
        .limit = (enum body_limit)p->client.max_tokens_name,
        .ignore_eos = p->engine.ignore_eos,
        .extra = p->client.body,
        .chat = (enum chat_template)p->chat_template,
    };
    if (b->client.tls_insecure)
        log_warn("client.tls_verify=false: anybody may answer in the server's place");
    TRY(make_headers(b, e));
    return make_limits(b, e);
}
