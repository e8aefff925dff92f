#include "client/preflight.h"

#include <math.h>
#include <string.h>

/* ---- what a refusal may name ----------------------------------------------------------------- */

static bool swap_limit(struct body_params *b, struct preflight *p)
{
    if (b->limit != BODY_LIMIT_AUTO || b->endpoint == BODY_RESPONSES)
        return false;
    b->limit = body_limit(b) == BODY_LIMIT_MAX_TOKENS ? BODY_LIMIT_MAX_COMPLETION_TOKENS
                                                      : BODY_LIMIT_MAX_TOKENS;
    p->limit = b->limit;
    return true;
}

static bool drop_ignore_eos(struct body_params *b, struct preflight *p)
{
    p->no_ignore_eos |= b->ignore_eos;
    bool had = b->ignore_eos;
    b->ignore_eos = false;
    return had;
}

/* Drops usage unless it was configured: usage in every chunk, or ids, are no defaults. */
static bool drop_usage(struct body_params *b, struct preflight *p)
{
    if (b->count != BODY_COUNT_USAGE)
        return false;
    b->count = BODY_COUNT_TOKENIZER;
    return p->no_usage = true;
}

static bool drop_temperature(struct body_params *b, struct preflight *p)
{
    if (isnan(b->temperature))
        return false;
    b->temperature = (double)NAN;
    return p->no_temperature = true;
}

/* Members in the order of matching against an error message. */
static const struct {
    const char *name;
    bool (*change)(struct body_params *b, struct preflight *p); /* false: nothing left to change */
} members[] = {
    {"ignore_eos", drop_ignore_eos}, {"stream_options", drop_usage},
    {"include_usage", drop_usage},   {"max_completion_tokens", swap_limit},
    {"max_tokens", swap_limit},      {"temperature", drop_temperature},
};

static bool change_what_it_names(const struct client_result *r, struct body_params *b,
                                 struct preflight *p)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strstr(r->error_msg, members[i].name) && members[i].change(b, p))
            return true;
    return false;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Failures that apply to the whole run, with remedies. */
static const struct failure_hint {
    const char *type, *hint;
} causes[] = {
    {"connect", "is it running, and does url name its port?"},
    {"resolve", "does url name a host that is known here?"},
    {"tls", "client.ca_file names certificates to trust, client.tls_verify=false trusts anybody"},
    {"http_401", "client.api_key_env names the environment variable that holds the API key"},
    {"http_403", "client.api_key_env names the environment variable that holds the API key"},
    {"http_404",
     "does url name the server's root, client.endpoint an endpoint it has, and client.model a "
     "model it serves?"},
    {"http_405", "does url name the server's root, and client.endpoint an endpoint it has?"},
    {"content_type", "does it stream, and does url name the server's root?"},
};

static enum st refuse(const struct client_result *r, bool as_ids, struct err *e)
{
    err_set(e, ST_DEVICE, "%s: %s", r->error_type, r->error_msg);
    err_add(e, "the server does not serve a request of %d output tokens", PREFLIGHT_TOKENS);
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (strcmp(causes[i].type, r->error_type) == 0)
            return err_hint(e, "%s", causes[i].hint);
    if (as_ids && strstr(r->error_msg, "prompt"))
        return err_hint(e, "client.prompts=text sends prompts as texts");
    return err_hint(e, "client.preflight=false sends the run's requests nevertheless");
}

/* Refused for its content, not for authorization or load. */
static bool is_refusal(const struct client_result *r)
{
    return r->http_status >= 400 && r->http_status < 500 && r->status == RUN_ERROR &&
           r->http_status != 401 && r->http_status != 403 && r->http_status != 404 &&
           r->http_status != 405;
}

/* Counts as an answer, even with tokens without text or an immediate end. */
static bool is_answer(const struct client_result *r)
{
    return r->status == RUN_OK || strcmp(r->error_type, "no_tokens") == 0;
}

static bool is_too_long(const struct client_result *r)
{
    if (strcmp(r->error_type, "too_long") == 0)
        return true;
    int64_t n = r->completion_tokens >= 0 ? r->completion_tokens : (int64_t)r->chunks.n;
    return is_answer(r) && n > PREFLIGHT_TOKENS;
}

static void read_answer(const struct client_result *r, struct preflight *out)
{
    out->asked = true;
    out->has_usage = r->completion_tokens >= 0;
    out->has_done = r->done;
    out->has_finish = r->finish[0] != 0;
    out->prompt_tokens = r->prompt_tokens;
    out->one_chunk = r->chunks.n == 1 && r->completion_tokens > 1;
}

/* One request; results[1]. */
static enum st ask(struct arena *a, const struct client_params *client, const struct body_params *b,
                   const struct body_prompt *prompt, const volatile sig_atomic_t *stop,
                   struct client_result *r, struct err *e)
{
    struct client_params one = *client;
    struct client_request request = {.max_tokens = PREFLIGHT_TOKENS};
    struct client_health health;
    struct body_maker *maker;
    one.max_chunks = PREFLIGHT_MOST_CHUNKS;
    one.give_up_after = 0;
    one.duration_s = 0;
    one.concurrency = NULL;
    one.turns = NULL;
    TRY(body_maker_new(a, b, &maker, e));
    TRY(body_make(a, maker, prompt, PREFLIGHT_TOKENS, &request.body, e));
    return client_run(&one, &request, 1, stop, NULL, r, &health, e);
}

enum st preflight_ask(struct arena *a, const struct client_params *client, struct body_params *body,
                      const struct body_prompt *prompt, const volatile sig_atomic_t *stop,
                      struct preflight *out, struct err *e)
{
    bool again = true, swapped = false;
    enum st st = ST_OK;
    *out = (struct preflight){.limit = body_limit(body)};
    while (again && st == ST_OK) {
        struct client_result r = {0};
        again = false;
        out->requests++;
        st = ask(a, client, body, prompt, stop, &r, e);
        if (st != ST_OK) {
            /* stopped, or a local failure */
        } else if (is_too_long(&r)) {
            again = swap_limit(body, out);
            swapped |= again;
            out->unlimited = !again;
            if (!again)
                read_answer(&r, out);
        } else if (is_answer(&r)) {
            read_answer(&r, out);
        } else if (is_refusal(&r) && change_what_it_names(&r, body, out)) {
            again = true;
        } else if (r.status != RUN_REJECTED) {
            st = refuse(&r, prompt->ids != NULL, e);
        }
        client_result_free(&r);
    }
    out->changed = out->requests > 1;
    if (out->unlimited && swapped) { /* neither name took effect: restore the usual one */
        body->limit = BODY_LIMIT_AUTO;
        out->limit = body_limit(body);
    }
    return st;
}
