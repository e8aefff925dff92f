#include "calibrate/read_requests.h"

#include <math.h>
#include <stdlib.h>

#include "calibrate/read_tree.h"
#include "text/gz.h"
#include "text/json.h"

static const size_t MOST_BYTES = (size_t)1 << 30;
static const double MOST = 1e12;

/* A request as the client counted, and the server: 0 = it does not say. */
struct counted_row {
    struct observed_row row;
    int64_t prompt, output;
};

/* A number at a path below info, NAN where it is not one. */
static double number_at(const struct node *info, const char *path)
{
    const struct node *n = node_path(info, path);
    return !n                      ? (double)NAN
           : n->kind == NODE_INT   ? (double)n->i
           : n->kind == NODE_FLOAT ? n->f
                                   : (double)NAN;
}

/* Versions have had both. */
static double either(const struct node *info, const char *path, const char *other)
{
    const double v = number_at(info, path);
    return isnan(v) ? number_at(info, other) : v;
}

/* The first time, and the gaps between those that differ: tokens of one message have one time. */
static void read_times(const struct node *info, struct observed_row *r)
{
    const struct node *list = node_path(info, "response_metrics.output_token_times");
    double before = NAN;
    list = list ? list : node_path(info, "output_token_times");
    r->first_token_s = NAN;
    for (uint32_t i = 0; list && list->kind == NODE_LIST && i < list->n; i++) {
        const struct node *x = list->items[i];
        const double at = x->kind == NODE_FLOAT ? x->f
                          : x->kind == NODE_INT ? (double)x->i
                                                : before;
        if (isnan(before))
            r->first_token_s = at;
        else
            r->gaps += at > before;
        before = at;
    }
}

static enum st read_entry(const struct node *item, struct counted_row *out, struct err *e)
{
    struct observed_row *r = &out->row;
    if (item->kind != NODE_MAP)
        return node_err(item, ST_INPUT, e, "expected an object, got %s",
                        node_kind_name(item->kind));
    const struct node *error = node_find(item, "error"), *info = node_find(item, "info");
    *out = (struct counted_row){
        .row = {.ok = !error || error->kind == NODE_NULL, .cached_tokens = -1}};
    TRY(node_get_double(item, "start_time", -MOST, MOST, &r->arrival_s, e));
    TRY(node_get_double(item, "end_time", -MOST, MOST, &r->end_s, e));
    r->prompt_tokens =
        read_tree_whole(either(info, "request_metrics.text.input_tokens", "input_tokens"));
    r->output_tokens =
        read_tree_whole(either(info, "response_metrics.output_tokens", "output_tokens"));
    static const char usage[] = "response_metrics.server_usage";
    const struct node *server = node_path(info, usage);
    out->prompt = read_tree_whole(either(server, "prompt_tokens", "input_tokens"));
    out->output = read_tree_whole(either(server, "completion_tokens", "output_tokens"));
    const double cached = number_at(server, "prompt_tokens_details.cached_tokens");
    if (cached >= 0 && cached <= MOST)
        r->cached_tokens = (int64_t)cached;
    read_times(info, r);
    return ST_OK;
}

static int by_start(const void *pa, const void *pb)
{
    const struct counted_row *a = pa, *b = pb;
    return (a->row.arrival_s > b->row.arrival_s) - (a->row.arrival_s < b->row.arrival_s);
}

static enum st read_list(struct arena *a, const char *path, struct sv text, struct requests *out,
                         struct err *e)
{
    const struct json_limits limits = {.max_bytes = MOST_BYTES, .python = true};
    struct node *list;
    TRY(json_parse(a, arena_str(a, path), text, &limits, &list, e));
    if (list->kind != NODE_LIST)
        return node_err(list, ST_INPUT, e, "expected a list, got %s", node_kind_name(list->kind));
    struct counted_row *all = arena_array(a, struct counted_row, list->n);
    *out = (struct requests){.rows = arena_array(a, struct observed_row, list->n),
                             .n = list->n,
                             .usage = list->n > 0,
                             .cached = list->n > 0};
    for (size_t i = 0; i < out->n; i++) {
        TRY(read_entry(list->items[i], &all[i], e));
        out->usage &= !all[i].row.ok || (all[i].prompt && all[i].output);
        out->cached &= !all[i].row.ok || all[i].row.cached_tokens >= 0;
    }
    if (out->n)
        qsort(all, out->n, sizeof *all, by_start);
    for (size_t i = 0; i < out->n; i++) {
        out->rows[i] = all[i].row;
        if (!out->usage)
            continue;
        out->rows[i].prompt_tokens = all[i].prompt;
        out->rows[i].output_tokens = all[i].output;
    }
    return ST_OK;
}

enum st requests_load(struct arena *a, const char *path, struct requests *out, struct err *e)
{
    struct gz_file f;
    *out = (struct requests){0};
    TRY(gz_open(path, &f, e));
    enum st st = read_list(a, path, f.text, out, e);
    gz_close(&f);
    return st;
}
