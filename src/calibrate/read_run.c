/* Run directories of twinfer. With batches.csv the load of each batch is known
 * (metrics/batch_load.h). */
#include <math.h>
#include <string.h>

#include "artifact/run.h"
#include "base/clock.h"
#include "calibrate/log_replay.h"
#include "metrics/server_metrics.h"

bool observed_is_run(struct arena *a, const char *path)
{
    return fs_is_dir(path) && fs_exists(fs_join(a, path, "run_meta.json"));
}

static double seconds(int64_t ns)
{
    return ns == RUN_NONE ? (double)NAN : ns_to_s(ns);
}

/* Gaps between the messages of a server's answer; tokens of one message have one time. */
static int64_t gaps_of(const struct run *r, size_t request)
{
    int64_t gaps = 0;
    for (size_t k = r->first_token[request] + 1; k < r->first_token[request + 1]; k++)
        gaps += r->tokens[k].token_time_ns > r->tokens[k - 1].token_time_ns;
    return gaps;
}

static struct observed_row *rows_of(struct arena *a, const struct run *r, size_t *n)
{
    struct observed_row *rows = arena_array(a, struct observed_row, r->n_requests);
    const struct node *kind = node_path(r->meta, "params.engine.kind");
    const bool server = kind && kind->kind == NODE_STR && sv_eq(kind->s, "openai");
    *n = 0;
    for (size_t i = 0; i < r->n_requests; i++) {
        const struct run_request *q = &r->requests[i];
        if (q->warmup)
            continue;
        rows[(*n)++] = (struct observed_row){
            .arrival_s = seconds(q->arrival_ns),
            .first_token_s = seconds(q->first_token_ns),
            .end_s = seconds(q->completion_ns),
            .prompt_tokens = q->num_prefill_tokens,
            .output_tokens = q->num_decode_tokens_actual,
            .cached_tokens = -1,
            .gaps = server && r->tokens ? gaps_of(r, i) : 0,
            .ok = q->status == RUN_OK,
        };
    }
    return rows;
}

/* ---- what the run states of the server ------------------------------------------------------- */

static const char *text_at(const struct node *meta, const char *path)
{
    const struct node *n = node_path(meta, path);
    return n && n->kind == NODE_STR ? n->s.p : NULL;
}

static int64_t count_at(const struct node *meta, const char *path)
{
    const struct node *n = node_path(meta, path);
    return n && n->kind == NODE_INT && n->i > 0 ? n->i : 0;
}

/* A worker says who it is, and on which GPU. */
static void worker_of(struct arena *a, const struct node *meta, struct observed_settings *s)
{
    const char *name = text_at(meta, "worker.hello.name");
    const char *batching = text_at(meta, "worker.hello.capabilities.batching");
    s->gpu = text_at(meta, "worker.hello.info.gpu");
    if (name)
        s->engine = batching ? arena_printf(a, "%s, %s batching", name, batching) : name;
}

/* A run of our own engines has the scheduler it ran with; that of a server that batches by itself
 * (openai, worker) has our defaults, which say nothing of it. */
static void settings_of(struct arena *a, const struct node *meta, struct observed_settings *s)
{
    const char *kind = text_at(meta, "params.engine.kind");
    s->model = text_at(meta, "params.model.hub");
    s->gpu = text_at(meta, "params.hardware.id");
    if (!kind || strcmp(kind, "openai") == 0 || strcmp(kind, "worker") == 0) {
        s->gpu = NULL;
        if (kind && strcmp(kind, "openai") == 0)
            s->model = NULL;
        else if (kind)
            worker_of(a, meta, s);
        return;
    }
    const struct node *caching = node_path(meta, "params.scheduler.prefix_caching");
    s->tp = count_at(meta, "params.parallel.tp");
    s->token_budget = count_at(meta, "params.scheduler.token_budget");
    s->batch_cap = count_at(meta, "params.scheduler.batch_cap");
    s->max_model_len = count_at(meta, "params.scheduler.max_model_len");
    s->prefix_caching = caching && caching->kind == NODE_BOOL ? caching->b : -1;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void read_batches(struct arena *a, const struct run *r, struct observed *out)
{
    struct batch_load *loads = batch_loads(a, r, out->spans);
    for (size_t i = 0; loads && i < r->n_batches; i++)
        if (loads[i].known)
            loads[out->n_batches++] = loads[i];
    if (!r->tokens &&
        2 * out->n_batches < r->n_batches) /* prompts in chunks, preemptions, several replicas */
        out->n_batches = 0;
    out->batches = out->n_batches ? loads : NULL;
    if (out->batches)
        out->first_token_lag_s = batch_first_token_lag_s(a, r);
}

enum st observed_read_run(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    struct run r;
    size_t n;
    TRY(run_load(a, path, "real", &r, e));
    struct observed_row *rows = rows_of(a, &r, &n);
    out->n_stages = 1;
    out->stages = arena_one(a, struct observed_stage);
    out->stages->name = "0";
    settings_of(a, r.meta, &out->settings);
    read_batches(a, &r, out);
    TRY(server_metrics_load(a, path, &out->server, e));
    return observed_from_rows(a, path, rows, n, out->stages, e);
}

enum st observed_take_log(struct arena *a, const char *log, struct observed *x, struct err *e)
{
    const bool can = !x->n_batches && observed_is_run(a, x->path);
    struct logged_run *r;
    if (log && !can) {
        err_set(e, ST_USAGE, "%s: an iteration log was given for %s, which %s", log, x->path,
                x->n_batches ? "has its batches in batches.csv" : "is no run directory");
        return err_hint(e, "calibrate.iteration_log names logs of run directories, in the order of "
                           "from; none where a run has no log");
    }
    log = log || !can ? log : iteration_log_beside(a, x->path);
    if (!log)
        return ST_OK;
    x->logged = r = arena_one(a, struct logged_run);
    return logged_run_read(a, x->path, log, x->spans, r, e);
}
