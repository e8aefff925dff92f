/* GuideLLM's benchmarks.json: a stage for each benchmark of the report, from its requests. Fields
 * of a request stand at its top level (GuideLLM computes them) or, as of other versions, in
 * info.timings and in input_metrics, output_metrics. */
#include <math.h>

#include "calibrate/read_tree.h"

static const double MOST_S = 1e12; /* seconds since 1970 */

bool observed_is_guidellm(struct arena *a, const char *path)
{
    (void)a;
    return read_tree_has(path, "benchmarks");
}

/* By the members of a map inside the request, where the request itself has none. */
static enum st number_in(const struct node *request, const char *names, const char *inside,
                         const char *inner, double *out, struct err *e)
{
    TRY(read_tree_number(request, names, 0, MOST_S, out, e));
    const struct node *map = node_path(request, inside);
    if (isnan(*out) && map && map->kind == NODE_MAP)
        TRY(read_tree_number(map, inner, 0, MOST_S, out, e));
    return ST_OK;
}

static int64_t whole(double v)
{
    return v >= 1 && v < 1 << 30 ? (int64_t)(v + 0.5) : 0;
}

/* Planned is the time at which GuideLLM's strategy wanted the request sent. */
static enum st row_of(const struct node *request, struct observed_row *r, struct err *e)
{
    double prompt, output, cached, planned, start, end, first, ttft_ms;
    if (request->kind != NODE_MAP)
        return node_err(request, ST_INPUT, e, "requests: expected an object, got %s",
                        node_kind_name(request->kind));
    TRY(number_in(request, "prompt_tokens", "input_metrics", "total_tokens|text_tokens", &prompt,
                  e));
    TRY(number_in(request, "output_tokens", "output_metrics", "total_tokens|text_tokens", &output,
                  e));
    TRY(number_in(request, "cached_tokens", "input_metrics", "cached_tokens", &cached, e));
    TRY(number_in(request, "request_start_time|start_time", "info.timings", "request_start", &start,
                  e));
    TRY(number_in(request, "request_end_time|end_time", "info.timings", "request_end", &end, e));
    TRY(number_in(request, "first_token_time", "info.timings", "first_token_iteration", &first, e));
    TRY(number_in(request, "targeted_start", "info.timings", "targeted_start", &planned, e));
    TRY(read_tree_number(request, "time_to_first_token_ms", 0, MOST_S, &ttft_ms, e));
    if (isnan(first))
        first = start + ttft_ms / 1e3;
    *r = (struct observed_row){.arrival_s = planned <= start ? planned : start,
                               .first_token_s = first,
                               .end_s = end,
                               .prompt_tokens = whole(prompt),
                               .output_tokens = whole(output),
                               .cached_tokens = isnan(cached) ? -1 : whole(cached),
                               .ok = true};
    return ST_OK;
}

static enum st list_at(const struct node *benchmark, const char *path, const struct node **out,
                       struct err *e)
{
    *out = node_path(benchmark, path);
    if (*out && (*out)->kind != NODE_LIST && (*out)->kind != NODE_NULL)
        return node_err(*out, ST_INPUT, e, "%s: expected a list, got %s", path,
                        node_kind_name((*out)->kind));
    if (*out && (*out)->kind == NODE_NULL)
        *out = NULL;
    return ST_OK;
}

static enum st read_benchmark(struct arena *a, const char *path, const struct node *benchmark,
                              struct observed_stage *out, struct err *e)
{
    const struct node *good, *bad;
    if (benchmark->kind != NODE_MAP)
        return node_err(benchmark, ST_INPUT, e, "benchmarks: expected an object, got %s",
                        node_kind_name(benchmark->kind));
    TRY(list_at(benchmark, "requests.successful", &good, e));
    TRY(list_at(benchmark, "requests.errored", &bad, e));
    if (!good || good->n == 0) {
        node_err(benchmark, ST_INPUT, e, "benchmark %s has no successful requests", out->name);
        return err_hint(e, "GuideLLM leaves them out with --sample-requests 0");
    }
    struct observed_row *rows = arena_array(a, struct observed_row, good->n);
    for (uint32_t i = 0; i < good->n; i++)
        TRY(row_of(good->items[i], &rows[i], e));
    TRY(observed_from_rows(a, path, rows, good->n, out, e));
    out->failed += bad ? bad->n : 0;
    return ST_OK;
}

enum st observed_read_guidellm(struct arena *a, const char *path, struct observed *out,
                               struct err *e)
{
    struct node *map, *list;
    TRY(read_tree(a, path, &map, e));
    TRY(node_get(map, "benchmarks", NODE_LIST, &list, e));
    if (list->n == 0)
        return node_err(list, ST_INPUT, e, "benchmarks: has none");
    out->n_stages = list->n;
    out->stages = arena_array(a, struct observed_stage, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        out->stages[i].name = arena_printf(a, "%u", i);
        TRY(read_benchmark(a, path, list->items[i], &out->stages[i], e));
    }
    return ST_OK;
}
