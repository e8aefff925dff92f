#include "calibrate/calibrate.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* A queue that grows with the run: waiting makes up much of the latency. */
static bool is_overload(const struct observed_stage *s, int64_t batch_cap)
{
    const double ttft = s->of[OBSERVED_TTFT].at[OBSERVED_P50];
    const double e2e = s->of[OBSERVED_E2E].at[OBSERVED_P50];
    if (ttft > 1 && ttft > 0.25 * e2e)
        return true;
    return batch_cap > 0 && s->rate * (e2e - ttft) > 1.02 * (double)batch_cap;
}

static const char *mostly_waiting(struct arena *a, const struct observed_stage *s)
{
    return arena_printf(a, "overload: requests wait %.3g s of %.3g s (P50)",
                        s->of[OBSERVED_TTFT].at[OBSERVED_P50],
                        s->of[OBSERVED_E2E].at[OBSERVED_P50]);
}

const char *calibrate_overload(struct arena *a, const struct observed_stage *s, int64_t batch_cap)
{
    const struct backlog_trend t = backlog_trend(&s->waits);
    if (t.grew && !s->w.concurrency)
        return arena_printf(a,
                            "overload: requests wait %.3g s in the second quarter of its arrivals, "
                            "and %.3g s in the last",
                            t.wait_s[1], t.wait_s[3]);
    return is_overload(s, batch_cap) ? mostly_waiting(a, s) : NULL;
}

const char *calibrate_left_out(struct arena *a, const struct observed_stage *s, int64_t batch_cap)
{
    const double all = (double)(s->completed + s->failed);
    bool known = isfinite(s->of[OBSERVED_TTFT].at[OBSERVED_P50]) ||
                 isfinite(s->of[OBSERVED_TPOT].at[OBSERVED_P50]) ||
                 isfinite(s->of[OBSERVED_E2E].at[OBSERVED_P50]);
    if (!known)
        return "it has no percentiles of TTFT, TPOT or E2E";
    if (s->completed < CALIBRATE_LEAST_REQUESTS)
        return arena_printf(a, "too few requests: %lld ended well, and %d are needed",
                            (long long)s->completed, (int)CALIBRATE_LEAST_REQUESTS);
    if ((double)s->failed > 0.05 * all)
        return arena_printf(a, "%lld of %.0f requests failed", (long long)s->failed, all);
    return is_overload(s, batch_cap) ? mostly_waiting(a, s) : NULL;
}

/* ---- settings -------------------------------------------------------------------------------- */

static enum st differ(const struct observed *first, const struct observed *x, const char *what,
                      const char *a, const char *b, struct err *e)
{
    err_set(e, ST_INPUT, "%s of %s is %s, and of %s %s", what, first->path, a, x->path, b);
    return err_hint(e, "one calibration holds for one server with one set of settings");
}

static enum st same_text(const struct observed *first, const struct observed *x, const char *what,
                         bool (*same)(const char *, const char *), const char **have, const char *b,
                         struct err *e)
{
    if (b && *have && !same(*have, b))
        return differ(first, x, what, *have, b, e);
    if (b)
        *have = b;
    return ST_OK;
}

enum st calibrate_same_engine(const struct observed *first, const struct observed *x, struct err *e)
{
    const struct observed_settings *a = &first->settings, *b = &x->settings;
    const char *one = a->weights ? a->weights : "none", *other = b->weights ? b->weights : "none";
    if (a->engine && b->engine && strcmp(a->engine, b->engine) != 0)
        return differ(first, x, "the engine", a->engine, b->engine, e);
    if (strcmp(one, other) != 0)
        return differ(first, x, "the quantisation of the weights", one, other, e);
    one = a->kv ? a->kv : "none";
    other = b->kv ? b->kv : "none";
    if (strcmp(one, other) != 0)
        return differ(first, x, "the quantisation of keys and values", one, other, e);
    return ST_OK;
}

static enum st same_count(const struct observed *first, const struct observed *x, const char *what,
                          int64_t *have, int64_t b, struct err *e)
{
    char one[32], other[32];
    snprintf(one, sizeof one, "%lld", (long long)*have);
    snprintf(other, sizeof other, "%lld", (long long)b);
    if (b && *have && *have != b)
        return differ(first, x, what, one, other, e);
    if (b)
        *have = b;
    return ST_OK;
}

static bool same_word(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static enum st add_settings(const struct observed *first, const struct observed *x,
                            struct observed_settings *all, struct err *e)
{
    const struct observed_settings *s = &x->settings;
    TRY(same_text(first, x, "the model", observed_same_model, &all->model, s->model, e));
    TRY(same_text(first, x, "the GPU", observed_same_gpu, &all->gpu, s->gpu, e));
    TRY(same_count(first, x, "the tensor-parallel degree", &all->tp, s->tp, e));
    TRY(same_count(first, x, "the pipeline-parallel degree", &all->pp, s->pp, e));
    TRY(same_count(first, x, "the expert-parallel degree", &all->ep, s->ep, e));
    TRY(same_count(first, x, "the number of KV blocks", &all->num_blocks, s->num_blocks, e));
    TRY(same_count(first, x, "the size of a KV block", &all->block_size, s->block_size, e));
    if (s->gpu_memory_utilization > 0 && all->gpu_memory_utilization > 0 &&
        s->gpu_memory_utilization != all->gpu_memory_utilization) {
        char one[32], other[32];
        snprintf(one, sizeof one, "%g", all->gpu_memory_utilization);
        snprintf(other, sizeof other, "%g", s->gpu_memory_utilization);
        return differ(first, x, "gpu_memory_utilization", one, other, e);
    }
    if (s->gpu_memory_utilization > 0)
        all->gpu_memory_utilization = s->gpu_memory_utilization;
    TRY(same_count(first, x, "the token budget (max_num_batched_tokens)", &all->token_budget,
                   s->token_budget, e));
    TRY(same_count(first, x, "the batch cap (max_num_seqs)", &all->batch_cap, s->batch_cap, e));
    TRY(same_count(first, x, "max_model_len", &all->max_model_len, s->max_model_len, e));
    if (s->prefix_caching >= 0 && all->prefix_caching >= 0 &&
        s->prefix_caching != all->prefix_caching)
        return differ(first, x, "prefix caching", all->prefix_caching ? "on" : "off",
                      s->prefix_caching ? "on" : "off", e);
    if (s->prefix_caching >= 0)
        all->prefix_caching = s->prefix_caching;
    TRY(same_count(first, x, "the KV cache's number of tokens", &all->kv_tokens, s->kv_tokens, e));
    TRY(same_count(first, x, "the largest CUDA graph", &all->graph_tokens, s->graph_tokens, e));
    TRY(same_text(first, x, "cudagraph_mode", same_word, &all->cuda_graphs, s->cuda_graphs, e));
    if (s->async && all->async && s->async != all->async)
        return differ(first, x, "asynchronous scheduling", all->async == 2 ? "on" : "off",
                      s->async == 2 ? "on" : "off", e);
    all->async = s->async ? s->async : all->async;
    all->log = all->log ? all->log : s->log;
    return ST_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static enum st refuse_all(const struct calibrate_input *in, struct err *e)
{
    const struct calibrate_stage *first = &in->stages[0];
    err_set(e, ST_REJECTED, "stage %s of %s: %s", first->stage->name, first->run->path,
            first->left_out);
    err_add(e, "no stage can be fitted");
    return err_hint(e,
                    "a calibration takes runs below capacity, of %d requests or more; two rates "
                    "tell a constant from a slope",
                    (int)CALIBRATE_LEAST_REQUESTS);
}

enum st calibrate_check(struct arena *a, const struct observed *runs, size_t n,
                        struct calibrate_input *out, struct err *e)
{
    size_t all = 0;
    *out = (struct calibrate_input){.settings = {.prefix_caching = -1}};
    for (size_t i = 0; i < n; i++) {
        TRY(add_settings(&runs[0], &runs[i], &out->settings, e));
        all += runs[i].n_stages;
        out->batches |= runs[i].n_batches > 0;
        out->logs |= runs[i].logged != NULL;
    }
    out->stages = arena_array(a, struct calibrate_stage, all);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < runs[i].n_stages; k++) {
            const struct observed_stage *s = &runs[i].stages[k];
            struct calibrate_stage *x = &out->stages[out->n++];
            *x = (struct calibrate_stage){.run = &runs[i],
                                          .stage = s,
                                          .left_out =
                                              calibrate_left_out(a, s, out->settings.batch_cap)};
            if (out->logs && !runs[i].logged && !x->left_out)
                x->left_out = "it has no log of iterations, and another run has";
            out->n_fitted += x->left_out == NULL;
        }
    }
    return out->n_fitted || out->batches || out->logs ? ST_OK : refuse_all(out, e);
}
