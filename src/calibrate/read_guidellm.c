/* GuideLLM's benchmarks.json: a stage for each benchmark of the report, from its requests. Fields
 * of a request stand at its top level (GuideLLM computes them) or, as of other versions, in
 * info.timings and in input_metrics, output_metrics. */
#include <math.h>

#include "calibrate/read_tree.h"

static const double MOST_S = 1e12; /* seconds since 1970 */

#define FILE_NAME "benchmarks.json"

static const char *file_of(struct arena *a, const char *path)
{
    return fs_is_dir(path) ? fs_join(a, path, FILE_NAME) : path;
}

bool observed_is_guidellm(struct arena *a, const char *path)
{
    const char *file = file_of(a, path);
    return fs_exists(file) && read_tree_has(file, "benchmarks");
}

/* Whether its strategy plans when requests are sent. The others want each sent as soon as may be:
 * all at the start of the benchmark, or at the end of another. */
static bool is_planned(const struct node *benchmark)
{
    static const char *const at[] = {"config.strategy.type_", "args.strategy.type_",
                                     "scheduler.strategy.type_"};
    static const char *const planned[] = {"constant", "poisson", "async", "trace", "replay"};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const struct node *type = node_path(benchmark, at[i]);
        for (size_t k = 0; type && type->kind == NODE_STR && k < sizeof planned / sizeof *planned;
             k++)
            if (sv_eq(type->s, planned[k]))
                return true;
    }
    return false;
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

/* Planned is the time at which GuideLLM's strategy wanted the request sent. */
static enum st row_of(const struct node *request, bool by_plan, struct observed_row *r,
                      struct err *e)
{
    double prompt, output, cached, planned, start, end, first, ttft_ms, messages;
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
    TRY(number_in(request, "token_iterations", "info.timings", "token_iterations", &messages, e));
    TRY(read_tree_number(request, "time_to_first_token_ms", 0, MOST_S, &ttft_ms, e));
    if (isnan(first))
        first = start + ttft_ms / 1e3;
    *r = (struct observed_row){.arrival_s = by_plan && planned <= start ? planned : start,
                               .first_token_s = first,
                               .end_s = end,
                               .prompt_tokens = read_tree_whole(prompt),
                               .output_tokens = read_tree_whole(output),
                               .cached_tokens = isnan(cached) ? -1 : read_tree_whole(cached),
                               .gaps = messages > 1 ? read_tree_whole(messages) - 1 : 0,
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

/* ST_INPUT: the report holds fewer requests than there were, and so not its load. */
static enum st check_all_there(const struct node *benchmark, uint32_t n, struct err *e)
{
    static const char *const at[] = {"metrics.request_totals", "request_totals",
                                     "run_stats.requests_made"};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const struct node *totals = node_path(benchmark, at[i]);
        int64_t had = 0;
        if (totals && totals->kind == NODE_MAP)
            TRY(read_tree_count(totals, "successful", &had, e));
        if (had <= n)
            continue;
        node_err(benchmark, ST_INPUT, e, "it holds %u of %lld successful requests", n,
                 (long long)had);
        return err_hint(e, "GuideLLM keeps a sample of them with sample_requests: leave it out");
    }
    return ST_OK;
}

static enum st read_benchmark(struct arena *a, const char *path, const struct node *benchmark,
                              const struct node *good, struct observed_stage *out, struct err *e)
{
    const struct node *bad;
    const bool by_plan = is_planned(benchmark);
    TRY(list_at(benchmark, "requests.errored", &bad, e));
    TRY(check_all_there(benchmark, good->n, e));
    struct observed_row *rows = arena_array(a, struct observed_row, good->n);
    for (uint32_t i = 0; i < good->n; i++)
        TRY(row_of(good->items[i], by_plan, &rows[i], e));
    TRY(observed_from_rows(a, path, rows, good->n, out, e));
    out->failed += bad ? bad->n : 0;
    return ST_OK;
}

/* Benchmarks without successes are no stages: the last of a sweep may have none. */
static enum st read_all(struct arena *a, const char *path, const struct node *list,
                        struct observed *out, struct err *e)
{
    const struct node *good;
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->items[i]->kind != NODE_MAP)
            return node_err(list->items[i], ST_INPUT, e, "benchmarks: expected an object, got %s",
                            node_kind_name(list->items[i]->kind));
        TRY(list_at(list->items[i], "requests.successful", &good, e));
        if (!good || good->n == 0)
            continue;
        struct observed_stage *s = &out->stages[out->n_stages++];
        s->name = arena_printf(a, "%u", i);
        TRY(read_benchmark(a, path, list->items[i], good, s, e));
    }
    if (out->n_stages)
        return ST_OK;
    node_err(list->items[0], ST_INPUT, e, "benchmark 0 has no successful requests%s",
             list->n > 1 ? ", nor has another" : "");
    return err_hint(e, "GuideLLM leaves them out with sample_requests=0");
}

enum st observed_read_guidellm(struct arena *a, const char *path, struct observed *out,
                               struct err *e)
{
    struct node *map, *list;
    const char *file = file_of(a, path);
    TRY(read_tree(a, file, &map, e));
    TRY(node_get(map, "benchmarks", NODE_LIST, &list, e));
    if (list->n == 0)
        return node_err(list, ST_INPUT, e, "benchmarks: has none");
    out->stages = arena_array(a, struct observed_stage, list->n);
    return read_all(a, file, list, out, e);
}
