/* A run by a program with the protocol of docs/worker-protocol.md. */
#include "job/worker.h"

struct worker_job {
    struct job_context *c;
    const struct job_workload *w;
    struct worker *worker;
    struct worker_work work;
};

static enum st serve(void *self, const struct serve_sink *sink, struct serve_counters *n,
                     struct node *extra, struct err *e)
{
    struct worker_job *j = self;
    struct worker_counters counters = {0};
    enum st st = worker_run(j->worker, &j->work, sink, &counters, e);
    n->requests = counters.requests;
    n->rejected = counters.rejected;
    n->tokens = counters.tokens;
    n->events = counters.messages;
    n->iterations = counters.batches;
    n->loop_seconds = n->end_s = counters.loop_seconds;
    n->follows = counters.follows;
    n->concurrency_mean = counters.concurrency_mean;
    n->concurrency_peak = counters.concurrency_peak;
    n->sessions = counters.sessions;
    struct arena *a = j->c->a;
    node_set(a, extra, SV("backend"), node_str(a, worker_facts(j->worker)->name));
    node_set(a, extra, SV("worker"), worker_meta(a, j->worker));
    return st;
}

static int64_t longest(const struct workload *w)
{
    int64_t most = 0;
    for (size_t i = 0; i < w->n; i++) {
        int64_t tokens = w->requests[i].num_prefill_tokens + w->requests[i].num_decode_tokens;
        most = tokens > most ? tokens : most;
    }
    return most;
}

static enum st get_prompts(struct job_context *c, const struct job_model *m, struct worker_job *j,
                           struct err *e)
{
    const struct job_workload *w = j->w;
    int32_t **ids;
    const char **texts;
    if (c->plan->worker.prompt == WORKER_IDS) {
        TRY(job_prompt_ids(c, m, w, &ids, e));
        j->work.ids = ids;
        return ST_OK;
    }
    TRY(workload_texts(c->a, &w->w, w->prompts, w->n_prompts, &texts, e));
    for (size_t i = 0; i < w->w.n; i++)
        if (!texts[i]) {
            err_set(e, ST_USAGE, "worker.prompt=text: request %lld has no prompt",
                    (long long)w->w.requests[i].request_id);
            return err_hint(e, "worker.prompt=ids sends random ids of the right number");
        }
    j->work.texts = texts;
    return ST_OK;
}

struct worker_params job_worker_params(const struct job_context *c, const struct job_model *m,
                                       int64_t max_tokens)
{
    const struct plan *p = c->plan;
    struct worker_params w = p->worker;
    w.greeting.model_name = m->m.name;
    w.greeting.model_dir = m->dir;
    w.greeting.model_config = m->config;
    w.greeting.weights = p->model.weights;
    w.greeting.device = p->engine.device;
    w.greeting.seed = (uint64_t)p->seed;
    w.greeting.max_tokens = max_tokens;
    w.ignore_eos = p->engine.ignore_eos;
    w.stop = &job_stop;
    return w;
}

static enum st run_on(struct job_context *c, const struct job_model *m,
                      const struct job_workload *w, struct err *e)
{
    const struct plan *p = c->plan;
    struct worker_job j = {.c = c, .w = w};
    j.work = (struct worker_work){.requests = w->w.requests,
                                  .n = w->w.n,
                                  .concurrency = w->w.concurrency,
                                  .warmup_requests = p->workload.warmup_requests};
    TRY(get_prompts(c, m, &j, e));
    const struct worker_params wp = job_worker_params(c, m, longest(&w->w));
    /* Checks for an existing folder before a model is loaded for minutes. */
    struct artifact probe;
    const char *id;
    TRY(artifact_begin(c->a, job_out_dir(c, "real", &id), "run_meta.json", &probe, e));
    artifact_discard(&probe);
    job_catch_signals();
    TRY(worker_open(&wp, &j.worker, e));
    struct serve_clock clock = clock_real();
    struct job_run r = {.type = "real",
                        .kind = "real",
                        .clock = &clock,
                        .backend = worker_facts(j.worker)->name,
                        .serve = serve,
                        .self = &j};
    enum st st = job_run(c, m, w, &r, e);
    worker_close(&j.worker);
    return st;
}

enum st job_worker(struct job_context *c, struct err *e)
{
    struct job_model m;
    struct job_workload w;
    TRY(job_model(c, false, &m, e));
    TRY(job_workload(c, &m, c->plan->worker.prompt == WORKER_IDS, &w, e));
    if (!w.prompts && w.w.prompts && c->plan->worker.prompt == WORKER_TEXT)
        if (prompts_load(c->a, w.w.prompts, &w.prompts, &w.n_prompts, e) != ST_OK) {
            job_workload_close(&w);
            return e->st;
        }
    enum st st = run_on(c, &m, &w, e);
    job_workload_close(&w);
    return st;
}
