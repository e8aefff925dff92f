#include "cmd/openai.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/openai_parts.h"
#include "text/json.h"

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
    struct arena *a = b->c->a, *scratch = arena_new();
    struct body_maker *maker;
    const char **texts;
    enum st st = body_maker_new(a, &b->body, &maker, e);
    if (st == ST_OK)
        st = workload_texts(a, &b->w.w, b->w.prompts, b->w.n_prompts, &texts, e);
    b->requests = arena_array(a, struct client_request, b->w.w.n);
    b->results = arena_array(a, struct client_result, b->w.w.n);
    for (size_t i = 0; i < b->w.w.n && st == ST_OK; i++) {
        const struct workload_request *r = &b->w.w.requests[i];
        struct body_prompt prompt;
        b->requests[i].at_ns = r->arrival_ns;
        b->requests[i].max_tokens = r->num_decode_tokens;
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
    const char *counter = openai_tokenizer(c, &b->m);
    return counter ? tokenizer_load(counter, &b->counter, e) : ST_OK;
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
    client.duration_s = 0;
    if (client.max_concurrency == 0 || client.max_concurrency > 8)
        client.max_concurrency = 8;
    for (size_t i = 0; i < n; i++)
        requests[i] = (struct client_request){.body = b->requests[i % b->w.w.n].body};
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

/* The bytes are freed. */
static enum st write_file(const struct artifact *art, const char *name, struct buf *bytes,
                          struct err *e)
{
    FILE *f;
    enum st st = artifact_create_file(art, name, &f, e);
    if (st == ST_OK) {
        fwrite(buf_str(bytes), 1, bytes->n, f);
        st = artifact_close_file(art, name, &f, e);
    }
    buf_free(bytes);
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
    struct buf text = {0};
    if (p->client.save_answers) {
        outcomes_answers(&text, o, b->w.w.n);
        TRY(write_file(art, "answers.jsonl", &text, e));
    }
    json_write(&text, bench_json, 2, true);
    return write_file(art, "bench.json", &text, e);
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

/* Why the lengths of the answers make the run no measurement of the workload; NULL = they do not.
 */
static const char *wrong_lengths(const struct bench *b, const struct outcome_figures *f)
{
    const double limit = b->c->plan->client.max_wrong_lengths;
    const bool early = !b->c->plan->engine.ignore_eos;
    if (!(outcomes_wrong_lengths(f, early) > limit))
        return NULL;
    return arena_printf(b->c->a,
                        "of %lld answers %lld have fewer output tokens than were asked for and "
                        "%lld have more; the limit is %g %%",
                        (long long)f->completed, (long long)(early ? 0 : f->lengths[LENGTH_SHORT]),
                        (long long)f->lengths[LENGTH_LONG], 100 * limit);
}

static struct node *lengths_node(const struct bench *b, const struct outcome_figures *f)
{
    struct arena *a = b->c->a;
    const char *why = wrong_lengths(b, f);
    struct node *m = node_new(a, NODE_MAP);
    for (int i = 0; i < LENGTHS; i++)
        node_set(a, m, sv_of(length_name((enum length)i)), node_int(a, f->lengths[i]));
    node_set(a, m, SV("limit"), node_float(a, b->c->plan->client.max_wrong_lengths));
    node_set(a, m, SV("verdict"), node_str(a, why ? "rejected" : "ok"));
    node_set(a, m, SV("why"), node_str_or_null(a, why));
    return m;
}

static enum st commit(struct bench *b, struct artifact *art, const struct outcome_figures *f,
                      const char *id, struct err *e)
{
    struct cmd_context *c = b->c;
    struct arena *a = c->a;
    struct node *extra = node_new(a, NODE_MAP);
    node_set(a, extra, SV("backend"), node_str(a, "openai"));
    node_set(a, extra, SV("http"), openai_http_node(b));
    /* Not as the run's own `contention`: a client that sleeps most of the time waits a large share
     * of the little that it runs. Whether that mattered is what its schedule delay says. */
    struct node *client = client_health_node(a, &b->health);
    node_set(a, client, SV("contention"), contention_node(a, &b->busy));
    node_set(a, extra, SV("client"), client);
    node_set(a, extra, SV("output_lengths"), lengths_node(b, f));
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
    struct node *m = node_new(a, NODE_MAP); /* bench.json without its lists */
    node_set(a, m, SV("out"), node_str(a, dir));
    for (uint32_t i = 0; i < bench_json->n; i++)
        if (bench_json->pairs[i].value->kind != NODE_LIST)
            node_set(a, m, bench_json->pairs[i].key, bench_json->pairs[i].value);
    if (f->failed > 0)
        buf_printf(&text, "failed          %lld of %lld requests: no figure is of them\n",
                   (long long)f->failed, (long long)(f->failed + f->completed));
    buf_printf(&text, "out             %s\n", dir);
    outcomes_print(&text, a, f, &b->health);
    job_result(b->c, m, buf_str(&text));
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
    if (!h->healthy) {
        err_set(e, ST_REJECTED,
                "the client did not keep its schedule: p99 of the delay is %.1f ms, the limit %.0f "
                "ms; %lld of %lld requests went out late",
                (double)h->delay_p99_ns / 1e6, CLIENT_MAX_DELAY_NS / 1e6, (long long)h->late,
                (long long)h->sent);
        return err_hint(e, "latencies of this run are the client's too: lower the rate, or give it "
                           "a core of its own");
    }
    TRY(job_measured(f->completed, f->failed, f->warmup, e));
    const char *why = wrong_lengths(b, f);
    if (!why)
        return ST_OK;
    err_set(e, ST_REJECTED, "%s", why);
    err_add(e, "the server did not do the workload's work");
    if (f->lengths[LENGTH_LONG] == 0)
        return err_hint(e, "engine.ignore_eos=false lets answers end early; "
                           "client.max_wrong_lengths sets the limit");
    return err_hint(e, "client.max_tokens_name= says what the server calls its limit; "
                       "client.max_wrong_lengths sets the limit on wrong answers");
}

static void warn_of_answers(const struct bench *b, const struct outcome_figures *f)
{
    const double wrong = outcomes_wrong_lengths(f, !b->c->plan->engine.ignore_eos);
    const double duration_s = b->client.duration_s;
    if (wrong > 0 && !wrong_lengths(b, f))
        log_warn("%.3g %% of the answers have another number of output tokens than was asked for",
                 100 * wrong);
    if (f->at_once > 0)
        log_warn("%lld of %lld answers came at once: they have no TPOT and meet any limit on it",
                 (long long)f->at_once, (long long)f->completed);
    if (duration_s > 0 && b->health.left_out == 0)
        log_warn("the workload has no requests for client.duration_s=%g: all were sent before",
                 duration_s);
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
    b->w.w.n -= (size_t)b->health.left_out;
    if (st != ST_OK && st != ST_INTERRUPTED && !b->health.gave_up)
        return st;

    struct outcome *o = arena_array(a, struct outcome, b->w.w.n);
    struct outcome_figures f;
    struct outcome_labels l = labels(b, art);
    struct err write_err = {0};
    outcomes_make(a, &b->w.w, b->results, b->counter, p->workload.warmup_requests, o);
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
    TRY(commit(b, art, &f, id, e));
    print_result(b, dir, &f, json);
    tell_failures(b, &f);
    warn_of_answers(b, &f);
    return judge(b, &f, e);
}

enum st openai_bench(struct cmd_context *c, struct err *e)
{
    struct bench b = {.c = c};
    struct artifact art;
    const char *id, *dir = job_out_dir(c, "real", &id);
    TRY(openai_settings(&b, e));
    TRY(job_model(c, false, &b.m, e));
    TRY(openai_find_model(&b, e));
    enum st st = get_workload(&b, e);
    cmd_catch_signals(); /* a server may take its time with the first request */
    b.body.model = b.served_model;
    if (st == ST_OK)
        st = make_requests(&b, e);
    if (st == ST_OK)
        st = openai_preflight(&b, e);
    if (st == ST_OK && b.preflight.changed)
        st = make_requests(&b, e);
    if (st == ST_OK) /* from here on an interrupted run leaves a folder that says so */
        st = artifact_begin(c->a, dir, "run_meta.json", &art, e);
    if (st == ST_OK) {
        st = run_and_write(&b, &art, dir, id, e);
        struct err ignored = {0};
        const char *why = st == ST_INTERRUPTED ? "interrupted by a signal" : "the server is gone";
        if ((st == ST_INTERRUPTED || b.health.gave_up) &&
            artifact_abandon(&art, why, &ignored) == ST_OK)
            err_hint(e, "%s holds what was measured; it is incomplete and no stage accepts it",
                     dir);
        artifact_discard(&art); /* nothing is left of it after commit or abandon */
    }
    for (size_t i = 0; b.results && i < b.w.w.n; i++)
        client_result_free(&b.results[i]);
    job_workload_close(&b.w);
    tokenizer_free(&b.counter);
    return st;
}
