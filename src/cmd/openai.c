/* bench engine=openai: settings, model and workload for src/client, and its measurements as a run.
 */
#include "cmd/openai.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "client/bench.h"
#include "client/headers.h"
#include "client/served.h"
#include "job/goodput.h"
#include "job/power.h"
#include "metrics/backlog.h"

struct openai_bench {
    struct job_context *c;
    struct job_model m;
    struct job_workload w;
    struct tokenizer *counter; /* for answers; NULL = none */
    struct client_bench_params p;
};

/* ---- settings ------------------------------------------------------------------------------ */

static double limit_ms(const struct slo *s, enum slo_metric m)
{
    return s->limit_s[m] * 1e3;
}

static enum st get_limits(struct openai_bench *b, struct err *e)
{
    struct slo s;
    TRY(job_goodput(b->c, &s, &b->p.goodput, e));
    b->p.limits = (struct outcome_limits){b->p.goodput != NULL, limit_ms(&s, SLO_TTFT),
                                          limit_ms(&s, SLO_TPOT), limit_ms(&s, SLO_E2EL)};
    return ST_OK;
}

static enum st check(const struct plan *p, struct err *e)
{
    if (!p->url) {
        err_set(e, ST_USAGE, "engine=openai needs the address of a server");
        return err_hint(e, "url=http://127.0.0.1:8000");
    }
    if (p->client.body.endpoint != BODY_COMPLETIONS && p->client.prompts_kind == CLIENT_PROMPTS_IDS)
        return err_set(e, ST_USAGE, "client.prompts=ids: the %s endpoint takes texts only",
                       p->client.body.endpoint == BODY_CHAT ? "chat" : "responses");
    if (p->client.body.endpoint == BODY_RESPONSES &&
        (p->client.body.count == BODY_COUNT_EACH || p->client.body.count == BODY_COUNT_IDS))
        return err_set(e, ST_USAGE,
                       "client.count=%s: the responses endpoint sends usage at the end",
                       p->client.body.count == BODY_COUNT_EACH ? "each" : "ids");
    if (p->chat_template == CHAT_MODEL)
        return err_set(e, ST_USAGE,
                       "chat_template=model: the server's to do: client.endpoint=chat asks for it");
    if (p->chat_template != CHAT_NONE && (p->client.body.endpoint != BODY_COMPLETIONS ||
                                          p->client.prompts_kind == CLIENT_PROMPTS_IDS))
        return err_set(e, ST_USAGE,
                       "chat_template: only texts for the completions endpoint are put "
                       "into a template here; a chat is the server's to format");
    return ST_OK;
}

static enum st get_settings(struct openai_bench *b, const char **models_url, struct err *e)
{
    const struct plan *p = b->c->plan;
    static const char *const paths[] = {"/completions", "/chat/completions", "/responses"};
    struct client_headers h;
    const char *url;
    TRY(check(p, e));
    TRY(body_url(b->c->a, p->url, paths[p->client.body.endpoint], &url, e));
    TRY(body_url(b->c->a, p->url, "/models", models_url, e));
    if (!p->client.client.tls_verify)
        log_warn("client.tls_verify=false: anybody may answer in the server's place");
    TRY(client_headers_make(b->c->a, p->client.given_headers.items, p->client.given_headers.n,
                            p->client.api_key_env, url, &h, e));
    b->p = p->client;
    b->p.client.url = url;
    b->p.client.headers = h.list;
    b->p.client.n_headers = h.n;
    b->p.client.secrets = h.secrets;
    b->p.client.n_secrets = h.n_secrets;
    b->p.body.ignore_eos = p->engine.ignore_eos;
    b->p.body.chat = (enum chat_template)p->chat_template;
    b->p.shown_headers = h.shown;
    b->p.seed = job_prompts_seed(p);
    b->p.metrics_url = body_root_url(b->c->a, p->url, "/metrics");
    b->p.warmup_requests = p->workload.warmup_requests;
    b->p.may_end_early = !p->engine.ignore_eos;
    b->p.tokens = p->output.tokens == OUTPUT_FULL;
    b->p.stop = &job_stop;
    return get_limits(b, e);
}

/* ---- model and workload -------------------------------------------------------------------- */

/* Tries the names under which a server may have the plan's model: folder, hub, ours. */
static enum st find_model(struct openai_bench *b, const char *models_url, struct err *e)
{
    const struct plan *p = b->c->plan;
    const char *own[3];
    size_t n = 0;
    char path[PATH_MAX];
    if (b->p.body.model)
        return ST_OK;
    if (b->m.hub)
        own[n++] = b->m.hub;
    if (p->model.ref && realpath(p->model.ref, path))
        own[n++] = arena_str(b->c->a, path);
    own[n++] = b->m.m.name;
    return client_find_served(b->c->a, &b->p.client, models_url, own, n, p->client.api_key_env,
                              &b->p.body.model, e);
}

static double node_or_nan(const struct job_context *c, const char *key)
{
    const struct node *n = node_path(c->config->tree, key);
    return !n ? NAN : n->kind == NODE_INT ? (double)n->i : n->kind == NODE_FLOAT ? n->f : NAN;
}

/* Arrival settings of a generated workload. */
static enum st get_arrivals(struct openai_bench *b, struct err *e)
{
    const struct plan *p = b->c->plan;
    struct workload_params w = job_arrivals(p);
    b->p.request_rate = b->p.burstiness = NAN;
    if (p->workload.dir || p->workload.trace || b->w.w.concurrency)
        return ST_OK;
    TRY(job_stages(b->c, &w, e));
    b->p.stages = w.stages;
    b->p.n_stages = w.n_stages;
    b->p.request_rate = node_or_nan(b->c, "workload.arrival.rate");
    b->p.burstiness = p->workload.make.arrival_kind == ARRIVAL_POISSON
                          ? 1
                          : node_or_nan(b->c, "workload.arrival.burstiness");
    return ST_OK;
}

/* Texts and tokenizer where there are any; a text workload needs no tokenizer. The server's writes
 * the prompts of a model without one. */
static enum st get_workload(struct openai_bench *b, struct err *e)
{
    struct job_context *c = b->c;
    if (!b->m.tokenizer)
        b->m.tokenizer = c->plan->client.counter_id;
    TRY(job_workload(c, &b->m, b->m.tokenizer != NULL, &b->w, e));
    if (!b->w.prompts && b->w.w.prompts && !b->m.tokenizer)
        TRY(prompts_load(c->a, b->w.w.prompts, &b->w.prompts, &b->w.n_prompts, e));
    if (!b->w.tokenizer && b->m.tokenizer)
        TRY(tokenizer_load(b->m.tokenizer, &b->w.tokenizer, e));
    b->p.counter_id = job_answer_tokenizer(c, &b->m);
    if (b->p.counter_id)
        TRY(tokenizer_load(b->p.counter_id, &b->counter, e));
    b->p.w = &b->w.w;
    b->p.prompts = b->w.prompts;
    b->p.n_prompts = b->w.n_prompts;
    b->p.tokenizer = b->w.tokenizer;
    b->p.counter = b->counter;
    b->p.model = b->m.m.name;
    b->p.tokenizer_id = b->m.tokenizer;
    b->p.vocab = b->m.m.vocab;
    return get_arrivals(b, e);
}

/* ---- the run ------------------------------------------------------------------------------- */

/* What the GPU at gpu=, or those of client.server_pid, took meanwhile, into power.csv, the meta and
 * what is printed. */
static enum st keep_power(const struct openai_bench *b, const struct client_bench *run,
                          struct job_power *power, const struct artifact *art, struct node *extra,
                          struct node *shown, struct err *e)
{
    struct job_context *c = b->c;
    if (!power->on)
        return ST_OK;
    TRY(job_power_stop(c, power, art, e));
    const struct job_energy drawn = job_power_energy(c, power);
    const struct run_energy x = {.measured = true,
                                 .energy_j = drawn.energy_j,
                                 .idle_energy_j = (double)NAN,
                                 .duration_s = drawn.duration_s,
                                 .requests = run->figures.completed,
                                 .tokens = run->figures.output_tokens,
                                 .why = drawn.why};
    if (drawn.why)
        log_warn("the energy of the run is unknown: %s", drawn.why);
    struct node *energy = run_energy_node(c->a, &x);
    node_set(c->a, extra, SV("power"), job_power_node(c, power));
    node_set(c->a, extra, SV("energy"), energy);
    static const char *const figures[][2] = {{"energy_j", "total_j"},
                                             {"j_per_request", "j_per_request"},
                                             {"j_per_token", "j_per_token"},
                                             {"average_power_w", "mean_power_w"}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        node_put(c->a, shown, figures[i][0], node_copy(c->a, node_find(energy, figures[i][1])));
    return ST_OK;
}

/* Whether the server had more to do than it carries; NULL = no. */
static const char *saturated(const struct openai_bench *b, const struct client_bench *run)
{
    struct backlog backlog = {0};
    if (b->w.w.concurrency || workload_has_sessions(&b->w.w))
        return NULL;
    for (size_t i = 0; i < run->n; i++) {
        const struct client_result *r = &run->results[i];
        backlog_add(&backlog, &(struct run_request){
                                  .arrival_ns = r->planned_ns,
                                  .scheduled_ns = RUN_NONE,
                                  .first_token_ns = r->chunks.n ? r->chunks.p[0].time_ns : RUN_NONE,
                                  .status = r->status,
                                  .warmup = (int64_t)i < run->p.warmup_requests});
    }
    const struct backlog_trend t = backlog_trend(&backlog);
    return t.grew ? backlog_words(b->c->a, &t) : NULL;
}

/* What the server counted meanwhile; its words for the terminal. */
static void show_server(const struct openai_bench *b, const struct client_bench *run,
                        struct node *shown)
{
    struct arena *a = b->c->a;
    const struct server_metrics *m = &run->server;
    struct first_token_split split;
    const char *why = run->scrape.why;
    if (b->p.metrics_mode == SCRAPE_NONE)
        return;
    node_set(a, shown, SV("server_metrics"),
             node_str(a, why ? arena_printf(a, "none: %s", why)
                             : arena_printf(a, "%s: %s", m->server,
                                            m->alone ? "of this run alone" : m->why)));
    if (why)
        return;
    const bool known = first_token_split(a, m, &split, &why);
    node_set(a, shown, SV("first_token"),
             node_str(a, known ? first_token_words(a, &split) : arena_printf(a, "n/a: %s", why)));
}

/* The model is what the server calls it. */
static struct job_setup setup_of(const struct openai_bench *b)
{
    return job_setup_outside(b->c, b->p.body.model);
}

static enum st commit(const struct openai_bench *b, const struct client_bench *run,
                      struct job_power *power, struct artifact *art, const char *id,
                      struct node *shown, struct err *e)
{
    struct job_context *c = b->c;
    struct arena *a = c->a;
    struct node *extra = node_new(a, NODE_MAP);
    node_set(a, extra, SV("backend"), node_str(a, "openai"));
    client_bench_meta(run, extra);
    TRY(keep_power(b, run, power, art, extra, shown, e));
    if (b->w.w.concurrency)
        node_set(a, extra, SV("concurrency"), concurrency_node(a, b->w.w.concurrency));
    node_set(a, extra, SV("workload_dir"),
             b->w.w.dir ? node_str(a, b->w.w.dir) : node_new(a, NODE_NULL));
    struct run_meta meta = job_meta(c, art, id, "real");
    meta.model = b->m.m.name;
    const struct job_setup setup = setup_of(b);
    node_set(a, extra, SV("setup"), job_setup_node(a, &setup));
    meta.extra = extra;
    const char *too_much = saturated(b, run);
    if (too_much) {
        log_warn("%s", too_much);
        node_set(a, extra, SV("saturated"), node_bool(a, true));
        node_set(a, shown, SV("saturated"), node_str(a, too_much));
    }
    TRY(job_snapshot(c, art, e));
    return artifact_commit(art, run_meta_node(a, &meta), e);
}

/* bench.json without its lists. */
static void print_result(const struct openai_bench *b, const struct client_bench *run,
                         const char *dir, const struct node *shown)
{
    struct arena *a = b->c->a;
    const struct outcome_figures *f = &run->figures;
    struct buf text = {0};
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("out"), node_str(a, dir));
    for (uint32_t i = 0; i < run->json->n; i++)
        if (run->json->pairs[i].value->kind != NODE_LIST)
            node_set(a, m, run->json->pairs[i].key, run->json->pairs[i].value);
    if (f->failed > 0)
        buf_printf(&text, "failed          %lld of %lld requests: no figure is of them\n",
                   (long long)f->failed, (long long)(f->failed + f->completed));
    const struct job_setup setup = setup_of(b);
    node_set(a, m, SV("setup"), job_setup_node(a, &setup));
    buf_printf(&text, "setup           %s\n", job_setup_words(a, &setup));
    buf_printf(&text, "out             %s\n", dir);
    outcomes_print(&text, a, f, &run->health);
    for (uint32_t i = 0; i < shown->n; i++)
        node_set(a, m, shown->pairs[i].key, shown->pairs[i].value);
    job_lines(&text, shown);
    job_result(b->c, m, buf_str(&text));
    buf_free(&text);
}

static enum st measure(const struct openai_bench *b, struct client_bench *run, const char *id,
                       const char *dir, struct err *e)
{
    struct artifact art;
    struct job_power power;
    struct node *shown = node_new(b->c->a, NODE_MAP);
    TRY(artifact_begin(b->c->a, dir, "run_meta.json", &art, e));
    enum st st = job_power_open(b->c, JOB_POWER_SERVER, &power, e);
    job_power_begin(&power);
    if (st == ST_OK)
        st = client_bench_run(run, &art, e);
    job_power_end(&power);
    if (st == ST_OK)
        st = commit(b, run, &power, &art, id, shown, e);
    if (st == ST_OK) {
        show_server(b, run, shown);
        print_result(b, run, dir, shown);
        client_bench_tell(run);
        st = client_bench_judge(run, e);
        st = st == ST_OK ? job_power_alone(&power, e) : st;
        job_power_close(&power);
        return st;
    }
    job_power_close(&power);
    struct err ignored = {0};
    const char *why = st == ST_INTERRUPTED ? "interrupted by a signal" : "the server is gone";
    if ((st == ST_INTERRUPTED || run->health.gave_up) &&
        artifact_abandon(&art, why, &ignored) == ST_OK)
        err_hint(e, "%s holds what was measured; it is incomplete and no stage accepts it", dir);
    artifact_discard(&art); /* nothing is left of it after abandon */
    return st;
}

enum st openai_bench(struct job_context *c, struct err *e)
{
    struct openai_bench b = {.c = c};
    struct client_bench run = {0};
    const char *id, *dir = job_out_dir(c, "real", &id), *models_url;
    TRY(get_settings(&b, &models_url, e));
    TRY(job_model(c, false, &b.m, e));
    TRY(find_model(&b, models_url, e));
    enum st st = get_workload(&b, e);
    job_catch_signals(); /* the first request may take long */
    if (st == ST_OK)
        st = client_bench_prepare(c->a, &b.p, &run, e);
    if (st == ST_OK) /* from here on an interrupted run leaves an incomplete folder */
        st = measure(&b, &run, id, dir, e);
    client_bench_free(&run);
    job_workload_close(&b.w);
    tokenizer_free(&b.counter);
    return st;
}
