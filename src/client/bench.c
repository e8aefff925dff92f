#include "client/bench.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

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

/* Warms up the server before the clock starts; connections are not kept. */
static enum st warm_up(struct client_bench *b, struct err *e)
{
    size_t n = (size_t)b->p.warmup;
    if (n == 0)
        return ST_OK;
    struct client_request *requests = arena_array(b->a, struct client_request, n);
    struct client_result *results = arena_array(b->a, struct client_result, n);
    struct client_params client = b->p.client;
    struct client_health health;
    size_t ok = 0;
    client.duration_s = 0;
    client.concurrency = NULL;
    client.turns = NULL;
    if (client.max_concurrency == 0 || client.max_concurrency > 8)
        client.max_concurrency = 8;
    for (size_t i = 0; i < n; i++)
        requests[i] = (struct client_request){.body = b->requests[i % b->n].body,
                                              .max_tokens = b->requests[i % b->n].max_tokens};
    enum st st = client_run(&client, requests, n, b->p.stop, NULL, results, &health, e);
    for (size_t i = 0; i < n; i++)
        ok += results[i].status == RUN_OK;
    if (st == ST_OK && ok == 0)
        st = err_set(e, ST_DEVICE, "none of %zu warm-up requests ended well: %s: %s", n,
                     results[0].error_type, results[0].error_msg);
    for (size_t i = 0; i < n; i++)
        client_result_free(&results[i]);
    return st;
}

/* ---- figures and files ---- */

/* Figures of the requests planned from begin_s on and before end_s. */
static struct node *stage_node(const struct client_bench *b, const struct outcome *o,
                               double begin_s, double end_s)
{
    struct outcome *some = mem_alloc(b->n * sizeof *some);
    struct outcome_figures f;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        double planned_s = ns_to_s(o[i].r->planned_ns);
        if (planned_s >= begin_s && planned_s < end_s)
            some[n++] = o[i];
    }
    outcomes_figures(b->a, some, n, &b->p.limits, &f);
    mem_free(some);
    struct node *m = outcomes_stage_node(b->a, &f);
    node_put(b->a, m, "begin_s", node_float(b->a, begin_s));
    return m;
}

/* Of each stage of the arrival rate. */
static struct node *rate_stages(const struct client_bench *b, const struct outcome *o)
{
    struct arena *a = b->a;
    struct node *list = node_new(a, NODE_LIST);
    double begin_s = 0;
    for (size_t k = 0; k < b->p.n_stages; k++) {
        const struct rate_stage *stage = &b->p.stages[k];
        double end_s = k + 1 < b->p.n_stages ? begin_s + stage->s : INFINITY;
        struct node *m = stage_node(b, o, begin_s, end_s);
        node_put(a, m, "rate_from", node_float(a, stage->from));
        node_put(a, m, "rate_to", node_float(a, stage->to));
        node_push(a, list, m);
        begin_s = end_s;
    }
    return list;
}

/* Of each stage of a closed loop's limit. */
static struct node *limit_stages(const struct client_bench *b, const struct outcome *o)
{
    struct arena *a = b->a;
    const struct concurrency *c = b->p.w->concurrency;
    struct node *list = node_new(a, NODE_LIST);
    double begin_s = 0;
    for (size_t k = 0; k < c->n; k++) {
        double end_s = k + 1 < c->n ? begin_s + c->stages[k].s : INFINITY;
        struct node *m = stage_node(b, o, begin_s, end_s);
        node_put(a, m, "concurrency_from", node_int(a, c->stages[k].from));
        node_put(a, m, "concurrency_to", node_int(a, c->stages[k].to));
        node_push(a, list, m);
        begin_s = end_s;
    }
    return list;
}

static struct outcome_labels labels(const struct client_bench *b, const struct artifact *art)
{
    static const char *const endpoints[] = {"completions", "chat", "responses"};
    return (struct outcome_labels){
        .endpoint = endpoints[b->p.body.endpoint],
        .model_id = b->p.body.model,
        .tokenizer_id = b->p.tokenizer_id,
        .request_rate = b->p.request_rate,
        .burstiness = b->p.burstiness,
        .max_concurrency = b->p.w->concurrency ? concurrency_peak(b->p.w->concurrency)
                                               : b->p.client.max_concurrency,
        .started_wall_ns = art->started_wall_ns,
        .goodput = b->p.goodput,
    };
}

/* What a closed loop, or one with sessions, kept in flight. */
static struct node *concurrency_figures(const struct client_bench *b)
{
    struct arena *a = b->a;
    struct node *m = node_new(a, NODE_MAP);
    const struct concurrency *asked = b->p.w->concurrency;
    node_put(a, m, "mean", node_number(a, b->health.concurrency_mean));
    node_put(a, m, "sessions", node_int(a, b->health.sessions));
    node_put(a, m, "stages", asked ? concurrency_node(a, asked) : node_new(a, NODE_NULL));
    return m;
}

static void sum_up(struct client_bench *b, const struct artifact *art, struct outcome *o)
{
    struct workload w = *b->p.w;
    struct outcome_labels l = labels(b, art);
    w.n = b->n;
    outcomes_make(b->a, &w, b->results, b->p.counter, b->p.warmup_requests, &b->p_prompts, o);
    outcomes_figures(b->a, o, b->n, &b->p.limits, &b->figures);
    b->json = outcomes_bench_json(b->a, o, b->n, &b->figures, &b->health, &l);
    if (b->health.follows)
        node_set(b->a, b->json, SV("concurrency"), concurrency_figures(b));
    if (b->p.n_stages > 0)
        node_set(b->a, b->json, SV("stages"), rate_stages(b, o));
    else if (b->p.w->concurrency && b->p.w->concurrency->n > 1)
        node_set(b->a, b->json, SV("stages"), limit_stages(b, o));
}

static enum st write_files(const struct client_bench *b, const struct artifact *art,
                           const struct outcome *o, struct err *e)
{
    struct run_writer *writer;
    unsigned with = (b->p.tokens ? RUN_WITH_TOKENS : 0) |
                    (workload_has_sessions(b->p.w) ? RUN_WITH_SESSIONS : 0);
    TRY(run_writer_open_with(art, with, &writer, e));
    outcomes_write(writer, o, b->n, "openai", b->p.tokens);
    TRY(run_writer_close(&writer, e));
    if (b->p.answers) {
        struct buf text = {0};
        outcomes_answers(&text, o, b->n);
        enum st st = artifact_write(art, "answers.jsonl", &text, e);
        buf_free(&text);
        if (st != ST_OK)
            return st;
    }
    if (!b->scrape.why)
        TRY(artifact_write_json(art, SERVER_METRICS, server_metrics_node(b->a, &b->server), e));
    return artifact_write_json(art, "bench.json", b->json, e);
}

static enum st begin_scrape(struct client_bench *b, struct err *e)
{
    b->scrape = (struct scrape){.a = b->a,
                                .client = &b->p.client,
                                .url = b->p.metrics_url,
                                .mode = b->p.metrics_mode,
                                .stop = b->p.stop};
    return scrape_begin(&b->scrape, e);
}

static void end_scrape(struct client_bench *b, bool whole)
{
    const struct client_side sent = scrape_client_side(b->results, b->n);
    if (whole)
        scrape_end(&b->scrape, &sent, &b->server);
    else
        b->scrape.why = "the run was cut short";
}

enum st client_bench_run(struct client_bench *b, const struct artifact *art, struct err *e)
{
    struct progress progress;
    struct client_watch watch = {&progress, show};
    TRY(warm_up(b, e));
    TRY(begin_scrape(b, e));
    progress_begin(&progress, "bench", "requests", (int64_t)b->n);
    const struct contention_mark quiet = contention_mark();
    enum st st =
        client_run(&b->p.client, b->requests, b->n, b->p.stop, &watch, b->results, &b->health, e);
    b->busy = contention_since(&quiet);
    progress_end(&progress);
    b->n -= (size_t)b->health.left_out;
    if (st != ST_OK && st != ST_INTERRUPTED && !b->health.gave_up)
        return st;
    struct err write_err = {0};
    end_scrape(b, st == ST_OK);
    struct outcome *o = arena_array(b->a, struct outcome, b->n);
    sum_up(b, art, o);
    enum st write_st = write_files(b, art, o, &write_err);
    if (st != ST_OK || write_st == ST_OK)
        return st;
    *e = write_err;
    return write_st;
}

void client_bench_free(struct client_bench *b)
{
    for (size_t i = 0; b->results && i < b->p.w->n; i++)
        client_result_free(&b->results[i]);
    b->results = NULL;
}
