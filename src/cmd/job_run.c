#include <math.h>
#include <string.h>

#include "artifact/vidur_metrics.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/job.h"
#include "metrics/metrics.h"

/* ---- requests from the workload ---- */

struct feed {
    const struct job_workload *w;
    int32_t **ids; /* [n]: prompt ids of each request; NULL when nothing computes */
    size_t next;
};

static enum st feed_next(void *self, struct workload_request *out, struct err *e)
{
    (void)e;
    struct feed *f = self;
    if (f->next == f->w->w.n)
        return ST_END;
    *out = f->w->w.requests[f->next++];
    return ST_OK;
}

static enum st feed_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)e;
    struct feed *f = self;
    memcpy(ids, f->ids[f->next - 1], (size_t)r->num_prefill_tokens * sizeof *ids);
    return ST_OK;
}

/* Every prompt as ids before the clock starts: tokenizing is not what is measured. */
static enum st make_ids(struct arena *a, const struct job_model *m, struct feed *f, uint64_t seed,
                        struct err *e)
{
    const struct job_workload *w = f->w;
    const char **texts;
    TRY(workload_texts(a, &w->w, w->prompts, w->n_prompts, &texts, e));
    f->ids = arena_array(a, int32_t *, w->w.n);
    struct arena *scratch = arena_new();
    enum st st = ST_OK;
    for (size_t i = 0; i < w->w.n && st == ST_OK; i++) {
        const struct workload_request *r = &w->w.requests[i];
        f->ids[i] = arena_array(a, int32_t, r->num_prefill_tokens);
        st =
            workload_prompt_ids(scratch, r, texts[i], w->tokenizer, m->m.vocab, seed, f->ids[i], e);
        arena_reset(scratch);
    }
    arena_free(&scratch);
    return st;
}

/* ---- results into the run directory ---- */

struct record {
    struct run_writer *writer;
    struct vidur_metrics *vidur; /* NULL unless asked for */
    struct progress progress;
    const char *backend;
    double now_s;
};

static void record_request(void *self, const struct run_request *r)
{
    struct record *rec = self;
    struct run_request row = *r;
    row.backend = rec->backend;
    run_write_request(rec->writer, &row);
    if (rec->vidur)
        vidur_metrics_write(rec->vidur, r);
}

static void record_token(void *self, const struct run_token *t)
{
    run_write_token(((struct record *)self)->writer, t);
}

static void record_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    (void)c;
    run_write_batch(((struct record *)self)->writer, b);
}

static void record_progress(void *self, int64_t finished, double now_s)
{
    struct record *rec = self;
    rec->now_s = now_s;
    progress_at(&rec->progress, finished, NULL);
}

/* ---- the run ---- */

/* A run of refused requests is whole, and its figures are of the others: nobody should miss it. */
static void tell_not_ok(const struct run *run, size_t n_not_ok)
{
    for (size_t i = 0; i < run->n_requests; i++) {
        const struct run_request *q = &run->requests[i];
        if (q->status == RUN_OK || q->warmup)
            continue;
        log_warn("%zu of %zu requests did not end well; the first is request %lld: %s", n_not_ok,
                 run->n_requests, (long long)q->request_id, q->error_msg ? q->error_msg : "");
        return;
    }
}

static struct node *counters_node(struct arena *a, const struct serve_counters *n, double setup_s)
{
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("iterations"), node_int(a, n->iterations));
    node_set(a, m, SV("events"), node_int(a, n->events));
    node_set(a, m, SV("requests"), node_int(a, n->requests));
    node_set(a, m, SV("rejected"), node_int(a, n->rejected));
    node_set(a, m, SV("tokens"), node_int(a, n->tokens));
    node_set(a, m, SV("prefill_tokens"), node_int(a, n->prefill_tokens));
    node_set(a, m, SV("preemptions"), node_int(a, n->preemptions));
    node_set(a, m, SV("kv_blocks_peak"), node_int(a, n->kv_blocks_peak));
    node_set(a, m, SV("loop_seconds"), node_float(a, n->loop_seconds));
    node_set(a, m, SV("setup_seconds"), node_float(a, setup_s));
    node_set(a, m, SV("end_seconds"), node_float(a, n->end_s));
    return m;
}

static void print_result(struct cmd_context *c, const char *dir, const struct serve_counters *n,
                         const struct run_metrics *m)
{
    struct arena *a = c->a;
    struct node *out = node_new(a, NODE_MAP);
    node_set(a, out, SV("run_dir"), node_str(a, dir));
    node_set(a, out, SV("requests"), node_int(a, (int64_t)m->n_requests));
    node_set(a, out, SV("not_ok"), node_int(a, (int64_t)m->n_not_ok));
    node_set(a, out, SV("warmup"), node_int(a, (int64_t)m->n_warmup));
    node_set(a, out, SV("duration_s"), node_float(a, m->duration_s));
    node_set(a, out, SV("requests_per_s"), node_float(a, m->requests_per_s));
    node_set(a, out, SV("output_tokens_per_s"), node_float(a, m->output_tokens_per_s));
    node_set(a, out, SV("iterations"), node_int(a, n->iterations));
    static const enum metric shown[] = {METRIC_TTFT, METRIC_TPOT, METRIC_E2E};
    static const double quantiles[] = {50, 90};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        for (size_t k = 0; k < 2 && m->of[shown[i]].n > 0; k++) {
            const struct series *s = &m->of[shown[i]];
            const char *key = arena_printf(a, "%s_p%.0f_ms", metric_name(shown[i]), quantiles[k]);
            double ms = metrics_percentile(s->ns, s->n, quantiles[k]) / 1e6;
            node_set(a, out, sv_of(key), node_float(a, round(ms * 1e4) / 1e4));
        }
    job_print(c, out);
}

enum st job_run(struct cmd_context *c, const struct job_model *m, const struct job_workload *w,
                const struct job_run *r, struct err *e)
{
    const struct plan *p = c->plan;
    struct arena *a = c->a;
    struct serve_params params;
    TRY(job_serve_params(p, &m->m, &params, e));
    TRY(serve_check_params(&params, e));
    struct feed feed = {.w = w};
    if (r->executors->ops->caps & EXEC_COMPUTES)
        TRY(make_ids(a, m, &feed, (uint64_t)p->seed, e));

    cmd_catch_signals(); /* from here on an interrupted run leaves a folder that says so */
    struct artifact art;
    const char *id, *dir = job_out_dir(c, r->kind, &id);
    TRY(artifact_begin(a, dir, "run_meta.json", &art, e));
    struct record rec = {.backend = r->backend};
    enum st st = run_writer_open(&art, p->output.tokens == OUTPUT_FULL,
                                 p->output.batches == OUTPUT_FULL, &rec.writer, e);
    if (st == ST_OK && p->output.vidur_metrics)
        st = vidur_metrics_open(&art, &rec.vidur, e);
    if (st != ST_OK) {
        run_writer_discard(&rec.writer);
        artifact_discard(&art);
        return st;
    }

    struct request_source source = {&feed, feed_next, feed_ids};
    struct serve_sink sink = {.self = &rec,
                              .request = record_request,
                              .token = record_token,
                              .batch = record_batch,
                              .progress = record_progress};
    struct serve_counters counters = {0};
    struct err close_err = {0};

    progress_begin(&rec.progress, strcmp(r->type, "real") == 0 ? "bench" : "simulate", "requests",
                   (int64_t)w->w.n);
    int64_t begin_ns = clock_mono_ns();
    double setup_s = ns_to_s(clock_cpu_ns());
    st = serve_run(&params, r->clock, r->executors, &source, &sink, &cmd_stop, &counters, e);
    progress_end(&rec.progress);
    log_debug("the loop took %.3f s", ns_to_s(clock_mono_ns() - begin_ns));
    enum st close_st = run_writer_close(&rec.writer, &close_err);
    struct err ignored_err = {0};
    enum st vidur_st =
        vidur_metrics_close(&rec.vidur, close_st == ST_OK ? &close_err : &ignored_err);
    if (close_st == ST_OK)
        close_st = vidur_st;
    if (st == ST_INTERRUPTED) {
        struct err ignored = {0};
        if (artifact_abandon(&art, "interrupted by a signal", &ignored) == ST_OK)
            err_hint(e, "%s holds what was measured; it is incomplete and no stage accepts it",
                     dir);
        return st;
    }
    if (st == ST_OK && close_st != ST_OK) {
        *e = close_err;
        st = close_st;
    }
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }

    struct node *extra = node_new(a, NODE_MAP);
    for (uint32_t i = 0; r->extra && i < r->extra->n; i++)
        node_set(a, extra, r->extra->pairs[i].key, r->extra->pairs[i].value);
    node_set(a, extra, SV("workload_dir"),
             w->w.dir ? node_str(a, w->w.dir) : node_new(a, NODE_NULL));
    node_set(a, extra, SV("counters"), counters_node(a, &counters, setup_s));
    struct run_meta meta = {
        .run_id = id,
        .run_type = r->type,
        .model = m->m.name,
        .hardware_id = p->hardware.id,
        .device = p->device,
        .started_wall_ns = art.started_wall_ns,
        .ended_wall_ns = clock_wall_ns(),
        .params = c->config->tree,
        .hydra_config_path = c->config->config_path,
        .hydra_config_name = c->config->config_name,
        .extra = extra,
    };
    st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, run_meta_node(a, &meta), e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    struct run run;
    struct run_metrics metrics;
    struct metrics_params mp = {0};
    TRY(run_load(a, dir, NULL, &run, e));
    TRY(metrics_from_run(a, &run, &mp, &metrics, e));
    if (metrics.n_not_ok > 0)
        tell_not_ok(&run, metrics.n_not_ok);
    print_result(c, dir, &counters, &metrics);
    return ST_OK;
}
