#include "job/calibrate.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "calibrate/forward.h"
#include "calibrate/settle.h"
#include "calibrate/tell.h"
#include "job/sim.h"
#include "model/formats.h"
#include "model/structure.h"
#include "profile/read/launching.h"
#include "text/csv.h"

static const double BETWEEN_MODELS = 0.5; /* of what the prior leaves open */

/* ---- settings -------------------------------------------------------------------------------- */

static bool typed(const struct job_context *c, const char *key)
{
    return config_origin(c->config, key) == ORIGIN_COMMAND_LINE;
}

static enum st contradicts(const char *path, const char *key, const char *stated, const char *given,
                           struct err *e)
{
    err_set(e, ST_INPUT, "%s states %s, and %s=%s was given", path, stated, key, given);
    return err_hint(e, "leave %s out, or calibrate from runs of that setting%s", key,
                    strcmp(key, "model") == 0
                        ? "; prior=[ROOT] takes what a calibration of another model found"
                        : "");
}

/* *have becomes what the record states, unless another value was typed. */
static enum st take(const struct job_context *c, const char *path, const char *key, int64_t stated,
                    int64_t *have, struct err *e)
{
    char one[32], other[32];
    if (stated <= 0 || stated == *have)
        return ST_OK;
    snprintf(one, sizeof one, "%lld", (long long)stated);
    snprintf(other, sizeof other, "%lld", (long long)*have);
    if (typed(c, key))
        return contradicts(path, key, one, other, e);
    *have = stated;
    return ST_OK;
}

static enum st take_fraction(const struct job_context *c, const char *path, double stated,
                             struct plan *p, struct err *e)
{
    static const char key[] = "scheduler.gpu_memory_utilization";
    double *have = &p->serve.gpu_memory_utilization;
    if (!(stated > 0) || stated == *have)
        return ST_OK;
    if (typed(c, key))
        return contradicts(path, key, arena_printf(c->a, "%g", stated),
                           arena_printf(c->a, "%g", *have), e);
    *have = stated;
    return ST_OK;
}

/* "H100 SXM 80GB" is of h100, "2x A100" of a100: the letters and digits of the id's first word,
 * among those of the name; no PCIe or NVL card is of an id without it. */
static bool same_gpu(const char *stated, const char *id)
{
    static const char *const kinds[] = {"pcie", "nvl"};
    size_t n = strcspn(id, "_-");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (observed_says(stated, kinds[i]) && strncmp(id, "h", 1) == 0 && !strstr(id, kinds[i]))
            return false;
    for (const char *p = stated; *p; p++) {
        const bool begins = p == stated || !isalnum((unsigned char)p[-1]) ||
                            (p[-1] == 'x' && p - 2 >= stated && isdigit((unsigned char)p[-2]));
        if (begins && strncasecmp(p, id, n) == 0 && !isalnum((unsigned char)p[n]))
            return true;
    }
    return false;
}

/* The KV cache that the server told in tokens, as blocks; in blocks too it says so twice. */
static enum st take_kv_tokens(const struct job_context *c, const struct job_calibration *j,
                              const char *path, const struct observed_settings *s, struct plan *p,
                              struct err *e)
{
    const bool alike = !j->m.m.opaque && (!j->m.m.structure || j->m.m.structure->n_attentions == 1);
    const int64_t size = p->serve.block_size, tokens = s->kv_tokens;
    if (!tokens || (s->num_blocks && !alike))
        return ST_OK;
    if (s->num_blocks && tokens != s->num_blocks * size) {
        err_set(e, ST_INPUT,
                "%s states a KV cache of %lld tokens, and the record %lld blocks of %lld", path,
                (long long)tokens, (long long)s->num_blocks, (long long)size);
        return err_hint(e, "the log is of another server than the record");
    }
    if (alike && tokens % size == 0)
        return take(c, path, "scheduler.num_blocks", tokens / size, &p->serve.num_blocks, e);
    log_warn("%s states a KV cache of %lld tokens, which is not taken: %s; scheduler.num_blocks "
             "sets it",
             path, (long long)tokens,
             alike ? arena_printf(c->a, "it is no whole blocks of %lld", (long long)size)
                   : "layers of several kinds share it");
    return ST_OK;
}

static enum st take_async(const struct job_context *c, const char *path, int stated, struct plan *p,
                          struct err *e)
{
    static const char key[] = "scheduler.async_scheduling";
    const bool on = p->serve.async != ASYNC_OFF;
    if (!stated || on == (stated == 2))
        return ST_OK;
    if (typed(c, key))
        return contradicts(path, key, stated == 2 ? "that it is on" : "that it is off",
                           on ? "on" : "off", e);
    p->serve.async = stated == 2 ? ASYNC_OVERLAP : ASYNC_OFF;
    return ST_OK;
}

static enum st take_graphs(const struct job_context *c, const char *path, const char *stated,
                           struct plan *p, struct err *e)
{
    static const char key[] = "scheduler.cuda_graphs";
    const char *have = launching_mode_name(p->serve.launching.mode);
    enum launching_mode mode = LAUNCHING_NONE;
    if (!stated || strcmp(stated, have) == 0)
        return ST_OK;
    if (typed(c, key))
        return contradicts(path, key, stated, have, e);
    while (mode <= LAUNCHING_FULL_AND_PIECEWISE && strcmp(launching_mode_name(mode), stated) != 0)
        mode++;
    if (mode > LAUNCHING_FULL_AND_PIECEWISE)
        return err_set(e, ST_INPUT, "%s states cudagraph_mode %s, which is not known", path,
                       stated);
    p->serve.launching.mode = mode;
    return ST_OK;
}

/* What only a log of the server states. */
static enum st settle_logged(const struct job_context *c, const struct job_calibration *j,
                             const char *path, const struct observed_settings *s, struct plan *p,
                             struct err *e)
{
    TRY(take_kv_tokens(c, j, path, s, p, e));
    TRY(take_async(c, path, s->async, p, e));
    TRY(take_graphs(c, path, s->cuda_graphs, p, e));
    return take(c, path, "scheduler.graph_tokens", s->graph_tokens, &p->serve.launching.tokens, e);
}

/* The plan with what a record states of its server. */
static enum st settle(const struct job_context *c, const struct job_calibration *j,
                      const char *path, const struct observed_settings *s, struct plan *p,
                      struct err *e)
{
    const char *hub = j->m.hub;
    const char *logged = s->log ? s->log : path;
    if (s->log) /* what both may state */
        path = arena_printf(c->a, "%s (with %s)", path, s->log);
    if (s->model && hub && !observed_same_model(s->model, hub) &&
        (!p->model.name || strcasecmp(s->model, p->model.name) != 0))
        return contradicts(path, "model", s->model, hub, e);
    if (s->gpu && p->hardware.id && !same_gpu(s->gpu, p->hardware.id))
        return contradicts(path, "hardware", s->gpu, p->hardware.id, e);
    TRY(take(c, path, "parallel.tp", s->tp, &p->parallel.tp, e));
    TRY(take(c, path, "parallel.pp", s->pp, &p->parallel.pp, e));
    if (j->m.m.experts)
        TRY(take(c, path, "parallel.ep", s->ep, &p->parallel.ep, e));
    TRY(take(c, path, "scheduler.num_blocks", s->num_blocks, &p->serve.num_blocks, e));
    TRY(take(c, path, "scheduler.block_size", s->block_size, &p->serve.block_size, e));
    TRY(take_fraction(c, path, s->gpu_memory_utilization, p, e));
    TRY(take(c, path, "scheduler.token_budget", s->token_budget, &p->serve.token_budget, e));
    TRY(take(c, path, "scheduler.batch_cap", s->batch_cap, &p->serve.batch_cap, e));
    TRY(take(c, path, "scheduler.max_model_len", s->max_model_len, &p->serve.max_model_len, e));
    TRY(settle_logged(c, j, logged, s, p, e));
    if (s->prefix_caching < 0 || (s->prefix_caching == 1) == p->serve.prefix_caching)
        return ST_OK;
    if (typed(c, "scheduler.prefix_caching"))
        return contradicts(path, "scheduler.prefix_caching", s->prefix_caching ? "true" : "false",
                           p->serve.prefix_caching ? "true" : "false", e);
    p->serve.prefix_caching = s->prefix_caching == 1;
    return ST_OK;
}

/* The number formats of the server: of the model, which is made before all else. */
static enum st take_format(const struct job_context *c, const char *path, const char *key,
                           const char *stated, const char **have, struct err *e)
{
    if (!stated || (*have && strcmp(stated, *have) == 0))
        return ST_OK;
    if (typed(c, key))
        return contradicts(path, key, stated, *have ? *have : "null", e);
    *have = stated;
    return ST_OK;
}

static enum st serve_of(const struct plan *p, const struct job_calibration *j,
                        struct serve_params *out, struct err *e)
{
    TRY(job_serve_params(p, &j->m.m, NULL, out, NULL, e));
    return serve_check_params(out, e);
}

/* The server that is fitted, or whose records are checked. */
static enum st set_up(const struct job_context *c, const struct plan *p, struct job_calibration *j,
                      struct err *e)
{
    struct engine_plan plan;
    struct job_context here = *c;
    here.plan = p;
    TRY(job_serve_params(p, &j->m.m, NULL, &j->serve, &plan, e));
    TRY(serve_check_params(&j->serve, e));
    j->setup = job_setup_of(&here, &j->m.m, NULL, &plan, &j->serve);
    const char *too_long = job_setup_too_long(c->a, &j->m.m, j->serve.max_model_len);
    if (too_long)
        log_warn("%s", too_long);
    return ST_OK;
}

/* ---- records --------------------------------------------------------------------------------- */

static enum st load_all(const struct job_context *c, const struct texts *paths,
                        const struct key_spans *spans, struct observed **out, struct err *e)
{
    *out = arena_array(c->a, struct observed, paths->n);
    for (size_t i = 0; i < paths->n; i++)
        TRY(observed_load_of(c->a, paths->items[i], spans, &(*out)[i], e));
    return ST_OK;
}

/* Logs of the runs that are fitted. */
static enum st take_logs(const struct job_context *c, struct job_calibration *j, struct err *e)
{
    const struct texts *logs = &c->plan->calibrate.iteration_log;
    if (logs->n > c->plan->calibrate.from.n)
        return err_set(e, ST_USAGE, "calibrate.iteration_log: %zu logs for %zu runs", logs->n,
                       c->plan->calibrate.from.n);
    for (size_t i = 0; i < c->plan->calibrate.from.n; i++) {
        const char *log = i < logs->n ? logs->items[i] : NULL;
        if (log && strcmp(log, "none") == 0)
            continue;
        TRY(observed_take_log(c->a, log, &j->runs[i], e));
    }
    return ST_OK;
}

/* Logs of the servers of all records: those named, of runs that are fitted, or those beside. */
static enum st take_server_logs(const struct job_context *c, struct job_calibration *j,
                                struct err *e)
{
    const struct texts *logs = &c->plan->calibrate.server_log;
    const size_t n = c->plan->calibrate.from.n;
    if (logs->n > n)
        return err_set(e, ST_USAGE, "calibrate.server_log: %zu logs for %zu runs", logs->n, n);
    for (size_t i = 0; i < n + c->plan->calibrate.check.n; i++) {
        struct observed *x = i < n ? &j->runs[i] : &j->checks[i - n];
        const char *log = i < logs->n ? logs->items[i] : NULL;
        if (!log || strcmp(log, "none") != 0)
            TRY(observed_take_server_log(c->a, log, x, e));
        if (x->settings.log)
            log_info("settings of %s are those that %s states", x->path, x->settings.log);
    }
    return ST_OK;
}

/* Stages that were not asked for are left out of the fit. */
static enum st choose_stages(const struct job_context *c, struct calibrate_input *in, struct err *e)
{
    const struct texts *wanted = &c->plan->calibrate.stages;
    size_t found = 0;
    for (size_t i = 0; wanted->n && i < in->n; i++) {
        struct calibrate_stage *s = &in->stages[i];
        bool one = false;
        for (size_t k = 0; k < wanted->n; k++)
            one |= strcmp(s->stage->name, wanted->items[k]) == 0;
        found += one;
        if (!one && !s->left_out) {
            s->left_out = "not among stages=";
            in->n_fitted--;
        }
    }
    if (wanted->n && !found)
        return err_set(e, ST_USAGE, "stages: no record has a stage %s", wanted->items[0]);
    if (in->n_fitted || in->batches || in->logs)
        return ST_OK;
    return err_set(e, ST_REJECTED, "stages: none of those that are left can be fitted");
}

/* ---- predictions ----------------------------------------------------------------------------- */

static double prompt_of(const struct observed_stage *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->w.n; i++)
        sum += (double)s->w.requests[i].num_prefill_tokens;
    return sum / (double)s->w.n;
}

/* The stage of the fit whose rate and prompts are nearest, by factors. */
static const struct observed_stage *nearest(const struct calibrate_input *in,
                                            const struct observed_stage *s)
{
    const struct observed_stage *best = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < in->n; i++) {
        const struct observed_stage *x = in->stages[i].stage;
        double far = fabs(log(x->rate / s->rate)) + fabs(log(prompt_of(x) / prompt_of(s)));
        if (!in->stages[i].left_out && far < least) {
            least = far;
            best = x;
        }
    }
    return best;
}

static double value_at(const struct observed_series *s, int point)
{
    return point < 0 ? s->mean : s->at[point];
}

static void add_checked(struct job_calibration *j, const struct observed *run,
                        const struct observed_stage *s, const struct calibrate_prediction *p,
                        const char *doubt)
{
    static const struct {
        enum observed_metric metric;
        int point; /* -1: the mean */
        const char *name;
    } rows[] = {{OBSERVED_E2E, -1, "e2e_mean"},
                {OBSERVED_E2E, OBSERVED_P50, "e2e_p50"},
                {OBSERVED_E2E, OBSERVED_P90, "e2e_p90"},
                {OBSERVED_E2E, OBSERVED_P99, "e2e_p99"},
                {OBSERVED_TTFT, -1, "ttft_mean"},
                {OBSERVED_TTFT, OBSERVED_P50, "ttft_p50"},
                {OBSERVED_TTFT, OBSERVED_P90, "ttft_p90"},
                {OBSERVED_TTFT, OBSERVED_P99, "ttft_p99"},
                {OBSERVED_TPOT, OBSERVED_P50, "tpot_p50"},
                {OBSERVED_TPOT, OBSERVED_P90, "tpot_p90"}};
    const struct observed_stage *copy = nearest(&j->in, s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const enum observed_metric m = rows[i].metric;
        if (m == OBSERVED_TPOT && isnan(value_at(&s->of[m], rows[i].point)))
            continue; /* most records have no TPOT */
        j->checked[j->n_checked++] = (struct job_checked){
            .run = run->name,
            .stage = s->name,
            .name = rows[i].name,
            .observed = value_at(&s->of[m], rows[i].point),
            .predicted = value_at(&p->of[m], rows[i].point),
            .low = value_at(&p->low[m], rows[i].point),
            .high = value_at(&p->high[m], rows[i].point),
            .copied = copy ? value_at(&copy->of[m], rows[i].point) : (double)NAN,
            .doubt = doubt,
        };
    }
}

/* The server of a record that is predicted; the parameters hold for these degrees. */
static enum st serve_of_record(const struct job_context *c, const struct job_calibration *j,
                               const struct observed *run, const struct predictor_params *of,
                               struct serve_params *out, struct err *e)
{
    struct plan plan = *c->plan;
    TRY(settle(c, j, run->path, &run->settings, &plan, e));
    if (plan.parallel.tp != of->tp || plan.parallel.pp != of->pp || plan.parallel.ep != of->ep) {
        err_set(e, ST_INPUT,
                "%s states parallel degrees (tp, pp, ep) of %lld, %lld, %lld, and the "
                "fit is of %lld, %lld, %lld",
                run->path, (long long)plan.parallel.tp, (long long)plan.parallel.pp,
                (long long)plan.parallel.ep, (long long)of->tp, (long long)of->pp,
                (long long)of->ep);
        return err_hint(e,
                        "calibrate from runs of these degrees, or leave from= out: uncalibrated");
    }
    return serve_of(&plan, j, out, e);
}

/* What cannot be predicted is refused before anything is fitted. */
static enum st check_settings(const struct job_context *c, const struct plan *p,
                              const struct job_calibration *j, struct err *e)
{
    struct serve_params serve;
    for (size_t i = 0; i < p->calibrate.check.n; i++)
        TRY(serve_of_record(c, j, &j->checks[i], &j->trial.params, &serve, e));
    return ST_OK;
}

static enum st check_all(const struct job_context *c, const struct calibrate_params *p,
                         struct job_calibration *j, struct err *e)
{
    enum { ROWS_A_STAGE = 10 };
    size_t stages = 0;
    for (size_t i = 0; i < c->plan->calibrate.check.n; i++)
        stages += j->checks[i].n_stages;
    j->checked = arena_array(c->a, struct job_checked, stages * ROWS_A_STAGE);
    for (size_t i = 0; i < c->plan->calibrate.check.n; i++) {
        const struct observed *run = &j->checks[i];
        struct trial trial = *p->trial;
        const struct calibrate_params here = {&trial, p->shape, p->prior};
        TRY(serve_of_record(c, j, run, &p->trial->params, &trial.serve, e));
        for (size_t k = 0; k < run->n_stages; k++) {
            struct calibrate_prediction predicted;
            TRY(calibrate_predict(c->a, &here, &j->fit, &run->stages[k], true, &predicted, e));
            if (predicted.rejected)
                log_warn("stage %s of %s: %lld of %zu requests do not fit max_model_len or the KV "
                         "cache; they are not in its prediction",
                         run->stages[k].name, run->path, (long long)predicted.rejected,
                         run->stages[k].w.n);
            const char *doubt = calibrate_overload(c->a, &run->stages[k], run->settings.batch_cap);
            if (!doubt && predicted.saturated)
                doubt = "overload: predicted requests wait ever longer";
            if (doubt)
                log_warn("stage %s of %s: %s; its latencies grow with its length, and errors of it "
                         "say little",
                         run->stages[k].name, run->path, doubt);
            add_checked(j, run, &run->stages[k], &predicted, doubt);
        }
    }
    return ST_OK;
}

static void put_number(struct csv_writer *w, double v)
{
    if (isfinite(v))
        csv_put_double(w, v);
    else
        csv_put_str(w, "");
}

static enum st write_checked(const struct job_context *c, const struct job_calibration *j,
                             struct err *e)
{
    static const char *const names[] = {"experiment",    "stage", "metric", "observed", "predicted",
                                        "error_percent", "low",   "high",   "copied"};
    struct csv_writer w = {0};
    char *text = NULL;
    size_t n = 0;
    w.f = open_memstream(&text, &n);
    if (!w.f)
        return err_errno(e, false, "cannot write check.csv");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        csv_put_str(&w, names[i]);
    csv_end_row(&w);
    for (size_t i = 0; i < j->n_checked; i++) {
        const struct job_checked *x = &j->checked[i];
        csv_put_str(&w, x->run);
        csv_put_str(&w, x->stage);
        csv_put_str(&w, x->name);
        put_number(&w, x->observed);
        put_number(&w, round(x->predicted * 1e6) / 1e6);
        put_number(&w, round(1e4 * (x->predicted / x->observed - 1)) / 100);
        put_number(&w, round(x->low * 1e6) / 1e6);
        put_number(&w, round(x->high * 1e6) / 1e6);
        put_number(&w, x->copied);
        csv_end_row(&w);
    }
    fclose(w.f);
    enum st st = fs_mkdirs(j->root, e);
    if (st == ST_OK)
        st = fs_write_atomic(fs_join(c->a, j->root, "check.csv"), text, n, e);
    free(text);
    return st;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Of an opaque model, whose name alone does not tell what was fitted. */
static void put_sizes(struct arena *a, const struct plan *p, struct node *n)
{
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {
        {"model.kv_bytes_per_token", p->model.kv_bytes_per_token},
        {"model.window_kv_bytes_per_token", p->model.window_kv_bytes_per_token},
        {"model.window", p->model.window},
        {"model.state_bytes_per_sequence", p->model.state_bytes_per_sequence},
        {"model.kv_heads", p->model.kv_heads},
        {"model.layers", p->model.layers},
    };
    if (!(p->model.weights_gb > 0))
        return;
    node_put(a, n, "model.weights_gb", node_number(a, p->model.weights_gb));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value)
            node_put(a, n, sizes[i].key, node_int(a, sizes[i].value));
}

static struct node *settings_node(struct arena *a, const struct plan *p,
                                  const struct serve_params *s)
{
    struct node *n = node_new(a, NODE_MAP);
    put_sizes(a, p, n);
    node_put(a, n, "scheduler.policy", node_str(a, s->policy));
    if (p->serve.token_budget)
        node_put(a, n, "scheduler.token_budget", node_int(a, p->serve.token_budget));
    node_put(a, n, "scheduler.batch_cap", node_int(a, p->serve.batch_cap));
    node_put(a, n, "scheduler.block_size", node_int(a, p->serve.block_size));
    node_put(a, n, "scheduler.prefix_caching", node_bool(a, s->prefix_caching));
    node_put(a, n, "scheduler.async_scheduling",
             node_str(a, s->async == ASYNC_OFF      ? "off"
                         : s->async == ASYNC_SERIAL ? "serial"
                                                    : "overlap"));
    node_put(a, n, "scheduler.cuda_graphs",
             node_str(a, launching_mode_name(p->serve.launching.mode)));
    if (p->serve.launching.tokens)
        node_put(a, n, "scheduler.graph_tokens", node_int(a, p->serve.launching.tokens));
    return n;
}

static enum st write_bundle(const struct job_context *c, const struct plan *p,
                            struct job_calibration *j, struct err *e)
{
    struct run_meta facts = job_meta(c, NULL, p->hardware.id, "vidur_profile");
    struct node *meta = node_new(c->a, NODE_MAP);
    facts.model = j->m.m.name;
    facts.params = NULL;
    node_put(c->a, meta, "provenance", run_meta_node(c->a, &facts));
    node_put(c->a, meta, "setup", job_setup_node(c->a, &j->setup));
    node_put(c->a, meta, "config", node_copy(c->a, c->config->tree));
    node_put(c->a, meta, "server_log", node_str_or_null(c->a, j->in.settings.log));
    const struct calibrate_written w = {.root = j->root,
                                        .hardware = p->hardware.id,
                                        .model_name = j->m.m.name,
                                        .model = &j->m.m,
                                        .peaks = &j->peaks,
                                        .tp = p->parallel.tp,
                                        .pp = p->parallel.pp,
                                        .ep = p->parallel.ep,
                                        .settings = settings_node(c->a, p, &j->serve),
                                        .meta = meta};
    j->dir = calibrate_dir(c->a, &w);
    return calibrate_write(c->a, &w, &j->in, &j->fit, e);
}

/* The prior with what exact batches took of the device. */
static enum st take_forward(const struct job_context *c, const struct plan *p,
                            struct job_calibration *j, struct err *e)
{
    const struct iteration_degrees degrees = {
        .tp = p->parallel.tp, .pp = p->parallel.pp, .ep = p->parallel.ep};
    const struct key_spans spans = model_spans(&j->m.m);
    const struct theta_prior before = j->prior;
    struct iteration_shape shape;
    struct forward_bench b;
    if (!p->calibrate.forward)
        return ST_OK;
    TRY(iteration_shape(c->a, &j->m.m, &j->peaks, &degrees, &shape, e));
    TRY(forward_read(c->a, p->calibrate.forward, &spans, &b, e));
    return forward_prior(c->a, &shape, &b, BETWEEN_MODELS, &before, &j->prior, &j->forward_note, e);
}

static enum st prepare(const struct job_context *c, const struct plan *p, struct job_calibration *j,
                       struct err *e)
{
    struct theta_prior roofline;
    j->peaks = job_hardware(p);
    TRY(set_up(c, p, j, e));
    if (j->in.batches) /* their durations are whole, launching and all */
        j->serve.launching = (struct launching){.mode = LAUNCHING_UNTOLD};
    const struct iteration_degrees degrees = {.tp = p->parallel.tp,
                                              .pp = p->parallel.pp,
                                              .ep = p->parallel.ep,
                                              .launching = j->serve.launching};
    TRY(iteration_shape(c->a, &j->m.m, &j->peaks, &degrees, &j->shape, e));
    theta_prior_roofline(&j->m.m, &j->shape, &roofline);
    j->prior = roofline;
    if (p->calibrate.prior.n)
        TRY(calibrate_pool(c->a, p->calibrate.prior.items, p->calibrate.prior.n, BETWEEN_MODELS,
                           &roofline, &j->prior, e));
    TRY(take_forward(c, p, j, e));
    j->trial = (struct trial){.params = {.model = &j->m.m,
                                         .tp = p->parallel.tp,
                                         .pp = p->parallel.pp,
                                         .ep = p->parallel.ep,
                                         .hardware = &j->peaks},
                              .serve = j->serve,
                              .stop = &job_stop};
    return predictor_find("roofline", &j->trial.predictor, e);
}

static enum st check_words(const struct job_context *c, struct err *e)
{
    if (c->plan->calibrate.from.n || c->plan->calibrate.check.n)
        return ST_OK;
    err_set(e, ST_USAGE, "from is not set");
    return err_hint(e, "from=[DIR,...] lists records of runs: run directories, results of vllm "
                       "bench serve, inference-perf, GuideLLM or AIPerf");
}

/* The model, read once, in the number formats that all records state. `read`: it was. */
static enum st load_model(const struct job_context *c, bool read, struct plan *p,
                          struct job_calibration *j, struct err *e)
{
    const char *const dtype = p->model.dtype;
    struct job_context here = *c;
    const struct observed *first = p->calibrate.from.n ? j->runs : j->checks;
    for (size_t i = 0; i < p->calibrate.from.n + p->calibrate.check.n; i++) {
        const bool check = i >= p->calibrate.from.n;
        const struct observed *x = check ? &j->checks[i - p->calibrate.from.n] : &j->runs[i];
        TRY(calibrate_same_engine(first, x, e));
    }
    TRY(take_format(c, first->path, "model.dtype", first->settings.weights, &p->model.dtype, e));
    TRY(take_format(c, first->path, "model.kv_dtype", first->settings.kv, &p->model.kv_dtype, e));
    here.plan = p;
    if (!read) /* for its error */
        return job_model(&here, false, &j->m, e);
    if (!j->m.m.opaque)
        TRY(formats_set(&j->m.m, p->model.dtype != dtype ? p->model.dtype : NULL, p->model.kv_dtype,
                        e));
    return job_model_check(&j->m, e);
}

static bool fitted_idle(const struct calibrate_input *in)
{
    for (size_t i = 0; i < in->n; i++)
        if (!in->stages[i].left_out && tell_is_idle(in->stages[i].stage))
            return true;
    return false;
}

/* Of each run of one stage, whose counts are of that. */
static void tell_servers(const struct job_context *c, struct job_calibration *j)
{
    for (size_t i = 0; i < j->in.n; i++) {
        const struct calibrate_stage *s = &j->in.stages[i];
        const char *text =
            s->run->n_stages == 1 ? tell_outside(c->a, s->run, s->stage, &j->fit.theta) : NULL;
        if (text)
            tell_note(c->a, &j->fit, text);
    }
}

static void tell_idle_checks(const struct job_context *c, struct job_calibration *j)
{
    const char *stages = NULL;
    for (size_t i = 0; i < c->plan->calibrate.check.n; i++)
        for (size_t k = 0; k < j->checks[i].n_stages; k++)
            if (tell_is_idle(&j->checks[i].stages[k]))
                stages = arena_printf(c->a, "%s%s of %s",
                                      stages ? arena_printf(c->a, "%s, ", stages) : "",
                                      j->checks[i].stages[k].name, j->checks[i].name);
    if (stages && !fitted_idle(&j->in))
        j->idle_note = tell_idle(c->a, arena_printf(c->a, "at an idle server (stage %s)", stages));
}

enum st job_calibrate(const struct job_context *c, struct job_calibration *j, struct err *e)
{
    struct plan p = *c->plan;
    const char *id;
    *j = (struct job_calibration){.n_checked = 0};
    TRY(check_words(c, e));
    j->root = job_out_dir(c, "calibrations", &id);
    struct err told_later = {0}; /* load_model */
    const bool read = job_model_described(c, &j->m, &told_later) == ST_OK;
    err_clear(&told_later);
    struct key_spans *spans = arena_one(c->a, struct key_spans);
    if (read)
        *spans = model_spans(&j->m.m);
    TRY(load_all(c, &p.calibrate.from, spans, &j->runs, e));
    TRY(load_all(c, &p.calibrate.check, spans, &j->checks, e));
    TRY(take_logs(c, j, e));
    TRY(take_server_logs(c, j, e));
    TRY(load_model(c, read, &p, j, e));
    if (p.calibrate.from.n) {
        TRY(calibrate_check(c->a, j->runs, p.calibrate.from.n, &j->in, e));
        TRY(choose_stages(c, &j->in, e));
        TRY(settle(c, j, j->runs[0].path, &j->in.settings, &p, e));
    } else {
        TRY(settle(c, j, j->checks[0].path, &j->checks[0].settings, &p, e));
    }
    TRY(prepare(c, &p, j, e));
    TRY(check_settings(c, &p, j, e));
    job_catch_signals(); /* from here on an interrupted command leaves nothing behind */
    const struct calibrate_params params = {&j->trial, &j->shape, &j->prior};
    if (p.calibrate.from.n) {
        if (!j->in.batches && !j->in.logs)
            TRY(settle_starts(c->a, &params, &j->in, j->runs, p.calibrate.from.n, e));
        TRY(calibrate_fit(c->a, &params, &j->in, &j->fit, e));
        if (j->forward_note)
            tell_note(c->a, &j->fit, j->forward_note);
        tell_servers(c, j);
        if (!fitted_idle(&j->in))
            tell_note(c->a, &j->fit, tell_idle(c->a, "at an idle server"));
        TRY(write_bundle(c, &p, j, e));
    } else {
        calibrate_none(&j->prior, &j->fit);
        if (j->forward_note)
            log_info("%s", j->forward_note);
    }
    if (p.calibrate.check.n) {
        TRY(check_all(c, &params, j, e));
        TRY(write_checked(c, j, e));
        tell_idle_checks(c, j);
    }
    return ST_OK;
}
