/* A bundle from the passes that a worker carries out on request, and from requests that it serves.
 */
#include "profile/passes.h"

#include <math.h>

#include "base/clock.h"
#include "base/vec.h"
#include "job/worker.h"

struct passes_job {
    struct job_context *c;
    struct worker *worker;
    struct arena *scratch; /* of one visit */
    int64_t vocab;
    int64_t served; /* requests so far: ids go on */
};

static enum st run_point(void *self, const struct passes_point *p, int64_t warmup, int64_t n,
                         double *total_s, double *device_s, const char **why, struct err *e)
{
    struct passes_job *j = self;
    struct worker_times t;
    const char *refusal = NULL;
    arena_reset(j->scratch);
    enum st st = worker_passes(j->worker, j->scratch,
                               (struct worker_pass){.decode_sequences = p->decodes,
                                                    .cached_tokens = p->kv,
                                                    .chunk_tokens = p->chunk,
                                                    .chunk_cached_tokens = p->chunk_kv,
                                                    .warmup = warmup,
                                                    .repeats = n},
                               &t, &refusal, e);
    if (st == ST_END)
        *why = arena_str(j->c->a, refusal);
    for (size_t i = 0; st == ST_OK && i < t.n; i++) {
        total_s[i] = ns_to_s(t.total_ns[i]);
        device_s[i] = t.device_ns ? ns_to_s(t.device_ns[i]) : -1;
    }
    return st;
}

/* ---- requests ------------------------------------------------------------------------------- */

struct pass_rows {
    struct arena *a;
    struct run_request *requests; /* by id less first_id */
    int64_t first_id;
    const char *failed; /* of a request that did not end well */
    VEC(struct run_batch) batches;
};

static void take_request(void *self, const struct run_request *r)
{
    struct pass_rows *x = self;
    x->requests[r->request_id - x->first_id] = *r;
    if (r->status != RUN_OK)
        x->failed =
            arena_printf(x->a, "a request ended with status %s%s%s", run_status_name(r->status),
                         r->error_msg ? ": " : "", r->error_msg ? r->error_msg : "");
}

static void take_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct pass_rows *x = self;
    (void)c;
    vec_push(&x->batches, *b);
}

/* Any ids: the times are wanted, not the words. */
static int32_t *some_ids(struct arena *a, const struct passes_job *j, int64_t request, int64_t n)
{
    int32_t *ids = arena_array(a, int32_t, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((request * 13 + i * 11) % j->vocab);
    return ids;
}

static struct worker_work work_of(struct arena *a, struct passes_job *j,
                                  const struct rehearsal_request *q, size_t n, int64_t sequences)
{
    struct workload_request *requests = arena_array(a, struct workload_request, n);
    int32_t **ids = arena_array(a, int32_t *, n);
    for (size_t i = 0; i < n; i++) {
        requests[i] = (struct workload_request){.request_id = j->served + (int64_t)i,
                                                .arrival_s = q[i].arrival_s,
                                                .arrival_ns = ns_from_s(q[i].arrival_s),
                                                .num_prefill_tokens = q[i].prompt,
                                                .num_decode_tokens = q[i].output};
        ids[i] = some_ids(a, j, requests[i].request_id, q[i].prompt);
    }
    return (struct worker_work){.requests = requests,
                                .n = n,
                                .concurrency = sequences ? concurrency_of(a, sequences, 0) : NULL,
                                .ids = ids,
                                .more_follows = true};
}

static enum st rest(double s, struct err *e)
{
    const int64_t until_ns = clock_mono_ns() + ns_from_s(s);
    while (!job_stop && clock_mono_ns() < until_ns)
        clock_sleep_until_ns(until_ns); /* a signal ends it early */
    return job_stop ? err_set(e, ST_INTERRUPTED, "interrupted by a signal") : ST_OK;
}

static enum st serve(void *self, struct arena *a, const struct rehearsal_request *q, size_t n,
                     int64_t sequences, double pause_s, struct run *out, const char **why,
                     struct err *e)
{
    struct passes_job *j = self;
    struct pass_rows rows = {
        .a = j->c->a, .requests = arena_array(a, struct run_request, n), .first_id = j->served};
    const struct worker_work work = work_of(a, j, q, n, sequences);
    const struct serve_sink sink = {.self = &rows, .request = take_request, .batch = take_batch};
    struct worker_counters counters;
    TRY(rest(pause_s, e));
    j->served += (int64_t)n;
    enum st st = worker_run(j->worker, &work, &sink, &counters, e);
    *out = (struct run){.requests = rows.requests, .n_requests = n, .n_batches = rows.batches.n};
    out->batches = arena_copy(a, rows.batches.p, rows.batches.n * sizeof *rows.batches.p);
    vec_free(&rows.batches);
    if (st == ST_OK && rows.failed) {
        *why = rows.failed;
        return ST_END;
    }
    return st;
}

static const char *why_no_requests(struct arena *a, const struct worker_hello *h)
{
    const struct node *batching = node_find(h->capabilities, "batching");
    const bool waits = batching && batching->kind == NODE_STR && sv_eq(batching->s, "static");
    const char *why = !h->batches      ? "sends no batch messages"
                      : !h->prompt_ids ? "takes no token ids"
                      : waits          ? "waits until a batch is full"
                                       : NULL;
    return why ? arena_printf(a, "the worker %s %s", h->name, why) : NULL;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static uint32_t kinds_of(const struct worker_hello *h)
{
    static const struct {
        uint32_t worker, passes;
    } rows[] = {{WORKER_PASS_DECODE, PASSES_DECODE},
                {WORKER_PASS_PROMPT, PASSES_PROMPT},
                {WORKER_PASS_CHUNK, PASSES_CHUNK},
                {WORKER_PASS_MIXED, PASSES_MIXED}};
    uint32_t kinds = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (h->passes & rows[i].worker)
            kinds |= rows[i].passes;
    return kinds;
}

static enum st check_able(const struct worker_hello *h, struct err *e)
{
    if (h->passes)
        return ST_OK;
    err_set(e, ST_USAGE, "the worker %s carries out no passes on request", h->name);
    return err_hint(e, "docs/worker-protocol.md describes the message `pass`; without it measure "
                       "a run (twinfer bench engine=worker ... out=RUN) and fit a bundle to that: "
                       "twinfer calibrate from=[RUN]");
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Limits of the settings, within the model's. */
static struct passes_limits limits_of(const struct plan *p, const struct model *m)
{
    struct passes_limits l = {p->profile.max_tokens, p->profile.max_batch, p->profile.max_kv};
    if (m->max_positions > 0)
        l.max_kv = least(l.max_kv, m->max_positions);
    return l;
}

static struct node *meta_node(struct passes_job *j)
{
    struct job_context *c = j->c;
    struct node *m = node_new(c->a, NODE_MAP);
    struct run_meta facts = job_meta(c, NULL, c->plan->hardware.id, "vidur_profile");
    facts.params = NULL;
    node_put(c->a, m, "device", node_str(c->a, c->plan->engine.device));
    node_put(c->a, m, "worker", worker_meta(c->a, j->worker));
    node_put(c->a, m, "provenance", run_meta_node(c->a, &facts));
    node_put(c->a, m, "config", node_copy(c->a, c->config->tree));
    return m;
}

static void show(struct job_context *c, const struct passes_result *r)
{
    struct node *n = node_new(c->a, NODE_MAP);
    const struct holdout *h = &r->bundle.error;
    node_put(c->a, n, "batches", node_int(c->a, (int64_t)r->points));
    node_put(c->a, n, "left_out", node_int(c->a, (int64_t)r->left_out));
    node_put(c->a, n, "passes", node_int(c->a, (int64_t)r->samples));
    node_put(c->a, n, "loo_error_percent",
             node_number(c->a, h->tested ? round(h->mean * 1e4) / 1e2 : (double)NAN));
    for (int prompt = 0; prompt < 2; prompt++)
        if (r->first_use_s[prompt] > 0)
            node_put(c->a, n, prompt ? "first_prompt_ms" : "first_decode_ms",
                     node_float(c->a, round(r->first_use_s[prompt] * 1e5) / 1e2));
    for (int prompt = 0; prompt < 2; prompt++)
        if (isfinite(r->bundle.factor[prompt]))
            node_put(c->a, n, prompt ? "prompt_factor" : "decode_factor",
                     node_float(c->a, round(r->bundle.factor[prompt] * 1e3) / 1e3));
    node_put(c->a, n, "out", node_str(c->a, r->bundle.dir));
    job_result(c, n, NULL);
}

static enum st measure(struct passes_job *j, const struct passes_params *params, struct err *e)
{
    struct passes_params p = *params;
    struct passes_result r;
    const struct worker_hello *h = worker_facts(j->worker);
    const struct rehearsal_engine loop = {j, serve};
    struct passes_engine engine = {j, run_point, NULL, why_no_requests(j->c->a, h)};
    if (!engine.why_no_loop)
        engine.loop = &loop;
    TRY(check_able(h, e));
    p.kinds = kinds_of(h);
    if (h->max_model_len > 0)
        p.limits.max_kv = least(p.limits.max_kv, h->max_model_len);
    p.to.meta = meta_node(j);
    TRY(passes_profile(j->c->a, &p, &engine, &r, e));
    show(j->c, &r);
    return ST_OK;
}

enum st job_passes(struct job_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    struct job_model m;
    struct passes_job j = {.c = c};
    const char *dir;
    TRY(job_model(c, false, &m, e));
    const struct passes_params params = {
        .to = {.root = p->profile.root,
               .hardware = p->hardware.id,
               .model_name = m.m.name,
               .tp = p->parallel.tp,
               .method = "passes"},
        .limits = limits_of(p, &m.m),
        .samples = p->profile.samples,
        .warmup = p->profile.warmup,
        .time_budget_s = p->profile.time_budget_s,
        .seed = (uint64_t)p->seed,
        .stop = &job_stop,
    };
    TRY(whole_check(c->a, &params.to, &dir, e)); /* before a model is loaded for minutes */
    struct worker_params wp = job_worker_params(c, &m, params.limits.max_kv);
    wp.only_passes = wp.ignore_eos = true;
    job_catch_signals();
    TRY(worker_open(&wp, &j.worker, e));
    j.scratch = arena_new();
    j.vocab = m.m.vocab;
    enum st st = measure(&j, &params, e);
    arena_free(&j.scratch);
    worker_close(&j.worker);
    return st;
}
