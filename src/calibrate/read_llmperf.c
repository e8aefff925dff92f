/* LLMPerf's token_benchmark_ray: NAME_summary.json has means and quantiles, by names that end in
 * their unit, and NAME_individual_responses.json a list of requests. Neither says when requests
 * were sent: num_concurrent_requests of them are in the service at a time. */
#include <math.h>
#include <string.h>

#include "base/vec.h"
#include "calibrate/read_tree.h"
#include "text/gz.h"
#include "text/json.h"

#define SUMMARY "_summary.json"
#define EACH    "_individual_responses.json"
static const size_t MOST_BYTES = (size_t)1 << 30;
static const double MOST_S = 9e9, MOST = 1 << 30;

static bool is_summary(const char *path)
{
    return read_tree_ends(path, SUMMARY) &&
           read_tree_has(path, "results_end_to_end_latency_s_mean|results_ttft_s_mean");
}

/* The summary beside a file of requests, or itself. */
static const char *summary_of(struct arena *a, const char *path)
{
    if (!read_tree_ends(path, EACH))
        return path;
    return arena_printf(a, "%.*s" SUMMARY, (int)(strlen(path) - strlen(EACH)), path);
}

/* The summaries of a folder. */
static enum st summaries_in(struct arena *a, const char *dir, const char ***out, size_t *n,
                            struct err *e)
{
    const char **names;
    size_t n_names;
    *n = 0;
    TRY(fs_list(a, dir, &names, &n_names, e));
    *out = arena_array(a, const char *, n_names);
    for (size_t i = 0; i < n_names; i++)
        if (is_summary(fs_join(a, dir, names[i])))
            (*out)[(*n)++] = fs_join(a, dir, names[i]);
    return ST_OK;
}

bool observed_is_llmperf(struct arena *a, const char *path)
{
    const char **found;
    size_t n;
    struct err ignored = {0};
    if (!fs_is_dir(path))
        return read_tree_ends(path, EACH) || is_summary(path);
    return summaries_in(a, path, &found, &n, &ignored) == ST_OK && n > 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum st row_of(const struct node *item, struct observed_row *r, struct err *e)
{
    double prompt, output, ttft;
    if (item->kind != NODE_MAP)
        return node_err(item, ST_INPUT, e, "expected an object, got %s",
                        node_kind_name(item->kind));
    const struct node *code = node_find(item, "error_code");
    *r = (struct observed_row){.ok = !code || code->kind == NODE_NULL, .cached_tokens = -1};
    if (!r->ok)
        return ST_OK;
    TRY(read_tree_number(item, "number_input_tokens", 0, MOST, &prompt, e));
    TRY(read_tree_number(item, "number_output_tokens", 0, MOST, &output, e));
    TRY(read_tree_number(item, "ttft_s", 0, MOST_S, &ttft, e));
    TRY(node_get_double(item, "end_to_end_latency_s", 0, MOST_S, &r->end_s, e));
    r->first_token_s = ttft > 0 ? ttft : (double)NAN; /* 0 = no answer */
    r->prompt_tokens = read_tree_whole(prompt);
    r->output_tokens = read_tree_whole(output);
    return ST_OK;
}

static enum st read_each(struct arena *a, const char *path, struct observed_stage *out,
                         struct err *e)
{
    const struct json_limits limits = {.max_bytes = MOST_BYTES, .python = true};
    struct gz_file f;
    struct node *list;
    TRY(gz_open(path, &f, e));
    enum st st = json_parse(a, arena_str(a, path), f.text, &limits, &list, e);
    gz_close(&f);
    TRY(st);
    if (list->kind != NODE_LIST)
        return node_err(list, ST_INPUT, e, "expected a list, got %s", node_kind_name(list->kind));
    struct observed_row *rows = arena_array(a, struct observed_row, list->n);
    for (uint32_t i = 0; i < list->n; i++)
        TRY(row_of(list->items[i], &rows[i], e));
    return observed_from_rows(a, path, rows, list->n, out, e);
}

/* ---- means and quantiles --------------------------------------------------------------------- */

static enum st series_of(struct arena *a, const struct node *map, const char *name,
                         struct observed_series *out, struct err *e)
{
    *out = observed_unknown();
    TRY(read_tree_number(map, arena_printf(a, "results_%s_mean", name), 0, MOST_S, &out->mean, e));
    for (int i = 0; i < OBSERVED_POINTS; i++) {
        const char *key =
            arena_printf(a, "results_%s_quantiles_p%d", name, (int)observed_points[i]);
        TRY(read_tree_number(map, key, 0, MOST_S, &out->at[i], e));
    }
    return ST_OK;
}

static enum st read_summary(struct arena *a, const char *path, const struct node *map,
                            const struct observed_means *m, struct observed_stage *out,
                            struct err *e)
{
    struct observed_means means = *m;
    TRY(read_tree_count(map, "results_num_completed_requests", &out->completed, e));
    TRY(read_tree_count(map, "results_number_errors", &out->failed, e));
    TRY(read_tree_number(map, "results_number_input_tokens_mean", 0, MOST, &means.prompt_tokens,
                         e));
    TRY(read_tree_number(map, "results_number_output_tokens_mean", 0, MOST, &means.output_tokens,
                         e));
    TRY(series_of(a, map, "ttft_s", &out->of[OBSERVED_TTFT], e));
    TRY(series_of(a, map, "end_to_end_latency_s", &out->of[OBSERVED_E2E], e));
    out->of[OBSERVED_TPOT] = observed_unknown(); /* its own counts the first token too */
    return observed_from_means(a, path, &means, out, e);
}

/* ---- all ------------------------------------------------------------------------------------- */

static enum st read_pair(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    const char *summary = summary_of(a, path);
    const char *each =
        arena_printf(a, "%.*s" EACH, (int)(strlen(summary) - strlen(SUMMARY)), summary);
    struct observed_stage *s = &out->stages[out->n_stages];
    struct node *map;
    struct observed_means m = {0};
    if (!fs_exists(summary)) {
        err_set(e, ST_INPUT, "%s does not say how many requests were sent at a time", path);
        return err_hint(e, "%s does, with num_concurrent_requests", summary);
    }
    TRY(read_tree(a, summary, &map, e));
    TRY(node_get_int(map, "num_concurrent_requests", 1, CONCURRENCY_MOST, &m.concurrency, e));
    TRY(read_tree_number(map, "results_num_completed_requests_per_min", 0, MOST, &m.rate, e));
    m.rate /= 60;
    const struct node *model = node_find(map, "model");
    if (model && model->kind == NODE_STR && !out->settings.model)
        out->settings.model = model->s.p;
    s->name = arena_printf(a, "%zu", out->n_stages++);
    if (!fs_exists(each))
        return read_summary(a, summary, map, &m, s, e);
    TRY(read_each(a, each, s, e));
    s->rate = m.rate;
    s->w.concurrency = concurrency_of(a, m.concurrency, 0);
    observed_note(a, s,
                  "the record does not hold when requests were sent: %lld at a time, in the order "
                  "in which they ended",
                  (long long)m.concurrency);
    return ST_OK;
}

enum st observed_read_llmperf(struct arena *a, const char *path, struct observed *out,
                              struct err *e)
{
    const char **found = &path;
    size_t n = 1;
    if (fs_is_dir(path))
        TRY(summaries_in(a, path, &found, &n, e));
    out->stages = arena_array(a, struct observed_stage, n);
    for (size_t i = 0; i < n; i++)
        TRY(read_pair(a, found[i], out, e));
    return ST_OK;
}
