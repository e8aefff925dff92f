#include "cmd/openai.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/contention.h"
#include "base/log.h"
#include "client/body.h"
#include "client/outcome.h"
#include "cmd/job.h"
#include "search/slo.h"
#include "text/json.h"

struct bench {
    struct cmd_context *c;
    struct job_model m;
    struct job_workload w;
    struct client_params client;
    struct client_request *requests; /* [w.w.n] */
    struct client_result *results;
    struct outcome_limits limits;
    const char *goodput; /* as given, or NULL */
    const char *url, *models_url, *served_model;
    const char **secrets;       /* of client.secrets */
    struct node *shown_headers; /* what run_meta.json says of the headers */
    struct client_health health;
    struct contention busy;
};

/* ---- settings ------------------------------------------------------------------------------ */

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

/* "ttft:200 tpot:50" comes as one item, ttft:200,tpot:50 as two. */
static enum st make_limits(struct bench *b, struct err *e)
{
    const struct option_list *given = &b->c->plan->goodput;
    struct arena *a = b->c->a;
    const char *words[8];
    size_t n = 0;
    b->limits = (struct outcome_limits){false, INFINITY, INFINITY, INFINITY};
    for (size_t i = 0; i < given->n; i++)
        for (const char *p = given->items[i]; *p;) {
            size_t len = strcspn(p, " ");
            if (len > 0 && n == sizeof words / sizeof *words)
                return err_set(e, ST_USAGE, "goodput: too many limits");
            if (len > 0) {
                words[n] = arena_strn(a, p, len);
                b->goodput = arena_printf(a, "%s%s%s", n ? b->goodput : "", n ? " " : "", words[n]);
                n++;
            }
            p += len + (p[len] != 0);
        }
    if (n == 0)
        return ST_OK;
    struct slo s;
    struct err bad = {0};
    if (slo_parse(words, n, 1, &s, &bad) != ST_OK) {
        const char *why = err_cause(&bad, 0);
        err_set(e, ST_USAGE, "goodput: %s", strncmp(why, "slo: ", 5) == 0 ? why + 5 : why);
        return err_hint(e, "limits are in ms, as goodput=\"ttft:500 tpot:50 e2el:2000\"");
    }
    if (s.limit_s[SLO_DELAY] < INFINITY)
        return err_set(e, ST_USAGE,
                       "goodput: a client does not see when a batch begins: delay is "
                       "no limit here");
    b->limits = (struct outcome_limits){true, limit_ms(&s, SLO_TTFT), limit_ms(&s, SLO_TPOT),
                                        limit_ms(&s, SLO_E2EL)};
    return ST_OK;
}

static enum st make_client(struct bench *b, struct err *e)
{
    const struct plan *p = b->c->plan;
    static const char *const paths[] = {"/completions", "/chat/completions"};
    if (!p->url) {
        err_set(e, ST_USAGE, "engine=openai needs the address of a server");
        return err_hint(e, "url=http://127.0.0.1:8000");
    }
    if (p->client.endpoint == BODY_CHAT && p->client.prompts == 1)
        return err_set(e, ST_USAGE, "client.prompts=ids: the chat endpoint takes texts only");
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
        .tls_insecure = !p->client.tls_verify,
        .ca_file = p->client.ca_file,
    };
    if (b->client.tls_insecure)
        log_warn("client.tls_verify=false: anybody may answer in the server's place");
    TRY(make_headers(b, e));
    return make_limits(b, e);
}

/* The name under which the server knows the model: the plan's, or the only one it serves. */
static enum st find_model(struct bench *b, struct err *e)
{
    struct arena *a = b->c->a;
    struct sv body;
    struct node *doc, *list;
    if ((b->served_model = b->c->plan->client.model) != NULL)
        return ST_OK;
    long status = 0;
    if (client_get(a, &b->client, b->models_url, &body, &status, e) != ST_OK) {
        err_add(e, "cannot ask the server which model it serves");
        if (status == 401 || status == 403)
            return err_hint(
                e, "the API key is taken from the environment: %s, which client.api_key_env names",
                b->c->plan->client.api_key_env);
        if (status != 0)
            return err_hint(e, "client.model=NAME skips the question");
        return err_hint(e, "is it running? client.model=NAME skips the question");
    }
    TRY(json_parse(a, b->models_url, body, NULL, &doc, e));
    TRY(node_get(doc, "data", NODE_LIST, &list, e));
    const char *names = "";
    for (uint32_t i = 0; i < list->n; i++) {
        const char *id;
        TRY(node_get_str(list->items[i], "id", &id, e));
        if (list->n == 1 || strcmp(id, b->m.m.name) == 0)
            b->served_model = id;
        names = arena_printf(a, "%s%s%s", names, i ? ", " : "", id);
    }
    if (b->served_model)
        return ST_OK;
    err_set(e, ST_USAGE, "the server has %u models and none is called %s", list->n, b->m.m.name);
    return err_hint(e, "client.model= names one of: %s", names);
}

/* ---- requests ------------------------------------------------------------------------------ */

static enum st decode_prompt(struct bench *b, struct arena *scratch, const int32_t *ids, int64_t n,
                             struct sv *text, struct err *e)
{
    struct buf out = {0};
    if (!b->w.tokenizer) {
        err_set(e, ST_USAGE,
                "the workload has lengths without texts, and model %s has no tokenizer",
                b->m.m.name);
        if (b->c->plan->client.endpoint == BODY_CHAT)
            return err_hint(e, "model.tokenizer=FILE names one, workload.prompts=FILE has texts");
        return err_hint(e, "client.prompts=ids needs none");
    }
    enum st st = tokenizer_decode(b->w.tokenizer, ids, (size_t)n, true, &out, e);
    *text = (struct sv){arena_strn(scratch, buf_str(&out), out.n), out.n};
    buf_free(&out);
    return st;
}

/* Whether the text has exactly the workload's length: not so when lengths are drawn. */
static bool text_fits(struct bench *b, struct arena *scratch, const char *text, int64_t tokens)
{
    struct err ignored = {0};
    int32_t *ids;
    size_t n;
    if (!b->w.tokenizer)
        return true;
    return tokenizer_encode(scratch, b->w.tokenizer, sv_of(text), true, &ids, &n, &ignored) ==
               ST_OK &&
           (int64_t)n == tokens;
}

static enum st make_prompt(struct bench *b, struct arena *scratch, const struct workload_request *r,
                           const char *text, struct body_prompt *out, struct err *e)
{
    bool as_ids = b->c->plan->client.prompts == 1;
    *out = (struct body_prompt){0};
    if (!as_ids && text && text_fits(b, scratch, text, r->num_prefill_tokens)) {
        out->text = sv_of(text);
        return ST_OK;
    }
    int64_t vocab = b->m.m.vocab;
    if (!as_ids && b->w.tokenizer && tokenizer_vocab(b->w.tokenizer) < vocab)
        vocab = tokenizer_vocab(b->w.tokenizer);
    int32_t *ids = arena_array(scratch, int32_t, r->num_prefill_tokens);
    TRY(workload_prompt_ids(scratch, r, text, b->w.tokenizer, vocab, (uint64_t)b->c->plan->seed,
                            ids, e));
    if (!as_ids)
        return decode_prompt(b, scratch, ids, r->num_prefill_tokens, &out->text, e);
    out->ids = ids;
    out->n_ids = (size_t)r->num_prefill_tokens;
    return ST_OK;
}

static enum st make_requests(struct bench *b, struct err *e)
{
    const struct plan *p = b->c->plan;
    struct arena *a = b->c->a, *scratch = arena_new();
    const struct body_params bp = {
        .endpoint = (enum body_endpoint)p->client.endpoint,
        .model = b->served_model,
        .count = (enum body_count)p->client.count,
        .temperature = p->client.temperature,
        .ignore_eos = p->engine.ignore_eos,
        .extra = p->client.body,
        .chat = (enum chat_template)p->chat_template,
    };
    struct body_maker *maker;
    const char **texts;
    enum st st = body_maker_new(a, &bp, &maker, e);
    if (st == ST_OK)
        st = workload_texts(a, &b->w.w, b->w.prompts, b->w.n_prompts, &texts, e);
    b->requests = arena_array(a, struct client_request, b->w.w.n);
    b->results = arena_array(a, struct client_result, b->w.w.n);
    for (size_t i = 0; i < b->w.w.n && st == ST_OK; i++) {
        const struct workload_request *r = &b->w.w.requests[i];
        struct body_prompt prompt;
        b->requests[i].at_ns = r->arrival_ns;
        st = make_prompt(b, scratch, r, texts[i], &prompt, e);
        if (st == ST_OK)
            st = body_make(a, maker, &prompt, r->num_decode_tokens, &b->requests[i].body, e);
        arena_reset(scratch);
    }
    arena_free(&scratch);
    return st;
}

/* Texts and tokenizer where there are any; a text workload needs no tokenizer of ours. */
static enum st get_workload(struct bench *b, struct err *e)
{
    struct cmd_context *c = b->c;
    TRY(job_workload(c, &b->m, b->m.tokenizer != NULL, &b->w, e));
    if (!b->w.prompts && b->w.w.prompts && !b->m.tokenizer)
        TRY(prompts_load(c->a, b->w.w.prompts, &b->w.prompts, &b->w.n_prompts, e));
    if (!b->w.tokenizer && b->m.tokenizer)
        TRY(tokenizer_load(b->m.tokenizer, &b->w.tokenizer, e));
    return ST_OK;
}

/* ---- the run ------------------------------------------------------------------------------- */

static void show(void *self, const struct client_so_far *s)
{
    char note[160] = "";
    if (!isnan(s->ttft_p50_ms))
        snprintf(note, sizeof note, "%lld running, %lld failed, TTFT p50 %.1f p99 %.1f ms",
                 (long long)s->running, (long long)s->failed, s->ttft_p50_ms, s->ttft_p99_ms);
    size_t n = strlen(note);
    if (!isnan(s->itl_p50_ms))
        snprintf(note + n, sizeof note - n, ", ITL p50 %.2f p99 %.2f ms", s->itl_p50_ms,
                 s->itl_p99_ms);
    progress_at(self, s->finished, note[0] ? note : NULL);
}

/* The server's first steps and its caches are warm when the clock starts; connections are not kept.
 */
static enum st warm_up(struct bench *b, struct err *e)
{
    size_t n = (size_t)b->c->plan->client.warmup;
    if (n == 0)
        return ST_OK;
    struct client_request *requests = arena_array(b->c->a, struct client_request, n);
    struct client_result *results = arena_array(b->c->a, struct client_result, n);
    struct client_params client = b->client;
    struct client_health health;
    size_t ok = 0;
    if (client.max_concurrency == 0 || client.max_concurrency > 8)
        client.max_concurrency = 8;
    for (size_t i = 0; i < n; i++)
        requests[i].body = b->requests[i % b->w.w.n].body;
    enum st st = client_run(&client, requests, n, &cmd_stop, NULL, results, &health, e);
    for (size_t i = 0; i < n; i++)
        ok += results[i].status == RUN_OK;
    if (st == ST_OK && ok == 0)
        st = err_set(e, ST_DEVICE, "none of %zu warm-up requests ended well: %s: %s", n,
                     results[0].error_type, results[0].error_msg);
    for (size_t i = 0; i < n; i++)
        client_result_free(&results[i]);
    return st;
}

static enum st write_files(struct bench *b, const struct artifact *art, const struct outcome *o,
                           struct node *bench_json, struct err *e)
{
    const struct plan *p = b->c->plan;
    bool tokens = p->output.tokens == OUTPUT_FULL;
    struct run_writer *writer;
    TRY(run_writer_open(art, tokens, false, &writer, e));
    outcomes_write(writer, o, b->w.w.n, "openai", tokens);
    TRY(run_writer_close(&writer, e));
    FILE *f;
    struct buf text = {0};
    TRY(artifact_create_file(art, "bench.json", &f, e));
    json_write(&text, bench_json, 2, true);
    fwrite(text.p, 1, text.n, f);
    buf_free(&text);
    return artifact_close_file(art, "bench.json", &f, e);
}

/* Figures of the requests planned in each stage of a workload that was made with stages. */
static enum st stages_node(const struct bench *b, const struct outcome *o, struct node **out,
                           struct err *e)
{
    struct arena *a = b->c->a;
    const struct plan *p = b->c->plan;
    struct workload_params w = job_arrivals(p);
    *out = node_new(a, NODE_LIST);
    if (p->workload.dir || p->workload.trace)
        return ST_OK;
    TRY(job_stages(b->c, &w, e));
    double begin_s = 0;
    for (size_t k = 0, i = 0; k < w.n_stages; k++) {
        double end_s = k + 1 < w.n_stages ? begin_s + w.stages[k].s : INFINITY;
        size_t first = i;
        struct outcome_figures f;
        while (i < b->w.w.n && o[i].w->arrival_s < end_s)
            i++;
        outcomes_figures(a, o + first, i - first, &b->limits, &f);
        struct node *m = outcomes_stage_node(a, &f);
        node_set(a, m, SV("begin_s"), node_float(a, begin_s));
        node_set(a, m, SV("rate_from"), node_float(a, w.stages[k].from));
        node_set(a, m, SV("rate_to"), node_float(a, w.stages[k].to));
        node_push(a, *out, m);
        begin_s = end_s;
    }
    return ST_OK;
}

static double node_or_nan(const struct cmd_context *c, const char *key)
{
    const struct node *n = node_path(c->config->tree, key);
    return !n ? NAN : n->kind == NODE_INT ? (double)n->i : n->kind == NODE_FLOAT ? n->f : NAN;
}

static struct outcome_labels labels(const struct bench *b, const struct artifact *art)
{
    const struct plan *p = b->c->plan;
    static const char *const endpoints[] = {"completions", "chat"};
    bool made = !p->workload.dir && !p->workload.trace;
    return (struct outcome_labels){
        .endpoint = endpoints[p->client.endpoint],
        .model_id = b->served_model,
        .tokenizer_id = b->m.tokenizer,
        .request_rate = made ? node_or_nan(b->c, "workload.arrival.rate") : NAN,
        .burstiness = !made ? NAN
                      : p->workload.arrival.kind == ARRIVAL_POISSON
                          ? 1
                          : node_or_nan(b->c, "workload.arrival.burstiness"),
        .max_concurrency = p->client.max_concurrency,
        .started_wall_ns = art->started_wall_ns,
        .goodput = b->goodput,
    };
}

static struct node *http_node(const struct bench *b)
{
    struct arena *a = b->c->a;
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("url"), node_str(a, b->url));
    node_set(a, m, SV("served_model"), node_str(a, b->served_model));
    node_set(a, m, SV("headers"), b->shown_headers);
    return m;
}

static enum st commit(struct bench *b, struct artifact *art, const char *id, struct err *e)
{
    struct cmd_context *c = b->c;
    struct arena *a = c->a;
    struct node *extra = node_new(a, NODE_MAP);
    node_set(a, extra, SV("backend"), node_str(a, "openai"));
    node_set(a, extra, SV("http"), http_node(b));
    /* Not as the run's own `contention`: a client that sleeps most of the time waits a large share
     * of the little that it runs. Whether that mattered is what its schedule delay says. */
    struct node *client = client_health_node(a, &b->health);
    node_set(a, client, SV("contention"), contention_node(a, &b->busy));
    node_set(a, extra, SV("client"), client);
    node_set(a, extra, SV("workload_dir"),
             b->w.w.dir ? node_str(a, b->w.w.dir) : node_new(a, NODE_NULL));
    struct run_meta meta = job_meta(c, art, id, "real");
    meta.model = b->m.m.name;
    meta.extra = extra;
    TRY(job_snapshot(c, art, e));
    return artifact_commit(art, run_meta_node(a, &meta), e);
}

static void print_result(const struct bench *b, const char *dir, const struct outcome_figures *f,
                         const struct node *bench_json)
{
    struct arena *a = b->c->a;
    struct buf text = {0};
    if (b->c->json) { /* bench.json without its lists */
        struct node *m = node_new(a, NODE_MAP);
        node_set(a, m, SV("run_dir"), node_str(a, dir));
        for (uint32_t i = 0; i < bench_json->n; i++)
            if (bench_json->pairs[i].value->kind != NODE_LIST)
                node_set(a, m, bench_json->pairs[i].key, bench_json->pairs[i].value);
        json_write(&text, m, 2, true);
    } else {
        buf_printf(&text, "run_dir         %s\n", dir);
        outcomes_print(&text, a, f, &b->health);
    }
    fputs(buf_str(&text), stdout);
    buf_free(&text);
}

static void tell_failures(const struct bench *b, const struct outcome_figures *f)
{
    for (size_t i = 0; i < b->w.w.n; i++) {
        const struct client_result *r = &b->results[i];
        if (r->status == RUN_OK)
            continue;
        log_warn("%lld of %zu requests did not end well; the first is request %lld: %s: %s",
                 (long long)f->failed, b->w.w.n, (long long)b->w.w.requests[i].request_id,
                 r->error_type, r->error_msg);
        return;
    }
}

/* A late client first: it may be why nothing ended well. */
static enum st judge(const struct bench *b, const struct outcome_figures *f, struct err *e)
{
    const struct client_health *h = &b->health;
    if (h->healthy)
        return job_measured(f->completed, f->failed, f->warmup, e);
    err_set(e, ST_REJECTED,
            "the client did not keep its schedule: p99 of the delay is %.1f ms, the limit %.0f ms; "
            "%lld of %lld requests went out late",
            (double)h->delay_p99_ns / 1e6, CLIENT_MAX_DELAY_NS / 1e6, (long long)h->late,
            (long long)h->sent);
    return err_hint(e, "latencies of this run are the client's too: lower the rate, or give it a "
                       "core of its own");
}

static enum st run_and_write(struct bench *b, struct artifact *art, const char *dir, const char *id,
                             struct err *e)
{
    struct arena *a = b->c->a;
    const struct plan *p = b->c->plan;
    struct progress progress;
    struct client_watch watch = {&progress, show};
    TRY(warm_up(b, e));
    progress_begin(&progress, "bench", "requests", (int64_t)b->w.w.n);
    const struct contention_mark quiet = contention_mark();
    enum st st =
        client_run(&b->client, b->requests, b->w.w.n, &cmd_stop, &watch, b->results, &b->health, e);
    b->busy = contention_since(&quiet);
    progress_end(&progress);
    if (st != ST_OK && st != ST_INTERRUPTED)
        return st;

    struct outcome *o = arena_array(a, struct outcome, b->w.w.n);
    struct outcome_figures f;
    struct outcome_labels l = labels(b, art);
    struct err write_err = {0};
    outcomes_make(a, &b->w.w, b->results, b->w.tokenizer, p->workload.warmup_requests, o);
    outcomes_figures(a, o, b->w.w.n, &b->limits, &f);
    struct node *json = outcomes_bench_json(a, o, b->w.w.n, &f, &b->health, &l), *stages;
    TRY(stages_node(b, o, &stages, e));
    if (stages->n > 0)
        node_set(a, json, SV("stages"), stages);
    enum st write_st = write_files(b, art, o, json, &write_err);
    if (st == ST_OK && write_st != ST_OK) {
        *e = write_err;
        return write_st;
    }
    TRY(st);
    TRY(commit(b, art, id, e));
    print_result(b, dir, &f, json);
    tell_failures(b, &f);
    return judge(b, &f, e);
}

enum st openai_bench(struct cmd_context *c, struct err *e)
{
    struct bench b = {.c = c};
    struct artifact art;
    const char *id, *dir = job_out_dir(c, "real", &id);
    TRY(make_client(&b, e));
    TRY(job_model(c, false, &b.m, e));
    TRY(find_model(&b, e));
    enum st st = get_workload(&b, e);
    if (st == ST_OK)
        st = make_requests(&b, e);
    cmd_catch_signals(); /* from here on an interrupted run leaves a folder that says so */
    if (st == ST_OK)
        st = artifact_begin(c->a, dir, "run_meta.json", &art, e);
    if (st == ST_OK) {
        st = run_and_write(&b, &art, dir, id, e);
        struct err ignored = {0};
        if (st == ST_INTERRUPTED &&
            artifact_abandon(&art, "interrupted by a signal", &ignored) == ST_OK)
            err_hint(e, "%s holds what was measured; it is incomplete and no stage accepts it",
                     dir);
        artifact_discard(&art); /* nothing is left of it after commit or abandon */
    }
    for (size_t i = 0; b.results && i < b.w.w.n; i++)
        client_result_free(&b.results[i]);
    job_workload_close(&b.w);
    return st;
}
