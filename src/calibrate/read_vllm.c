/* The result of `vllm bench serve --save-result`: with --save-detailed one item a request, else
 * means and percentiles with the rate that was asked for. --append-result puts one result after
 * another into a file, each a stage; so does SGLang's bench_serving, which names nearly all alike.
 */
#include <math.h>
#include <string.h>

#include "calibrate/read_tree.h"
#include "calibrate/read_vllm.h"
#include "text/gz.h"
#include "text/json.h"

bool observed_is_vllm(struct arena *a, const char *path)
{
    (void)a;
    return read_tree_has(path, "mean_ttft_ms|ttfts");
}

static const double MOST_S = 9e9, MOST_TOKENS = 1 << 30;
static const size_t MOST_BYTES = (size_t)1 << 30;

static enum st load_of(const struct node *map, struct observed_means *m, struct err *e);

/* ---- one item a request ---------------------------------------------------------------------- */

struct lists {
    const struct node *input, *output, *ttfts, *itls, *starts, *errors;
};

static enum st list_of(const struct node *map, const char *key, size_t n, const struct node **out,
                       struct err *e)
{
    struct node *list;
    TRY(node_get(map, key, NODE_LIST, &list, e));
    *out = list;
    if (n && list->n != n)
        return node_err(list, ST_INPUT, e, "%s has %u values, input_lens %zu", key, list->n, n);
    return ST_OK;
}

static enum st lists_of(const struct node *map, struct lists *l, struct err *e)
{
    TRY(list_of(map, "input_lens", 0, &l->input, e));
    TRY(list_of(map, "output_lens", l->input->n, &l->output, e));
    TRY(list_of(map, "ttfts", l->input->n, &l->ttfts, e));
    TRY(list_of(map, "itls", l->input->n, &l->itls, e));
    if (node_find(map, "start_times"))
        TRY(list_of(map, "start_times", l->input->n, &l->starts, e));
    if (node_find(map, "errors"))
        TRY(list_of(map, "errors", l->input->n, &l->errors, e));
    return ST_OK;
}

static enum st sum_of(const struct node *list, double *sum, struct err *e)
{
    *sum = 0;
    if (list->kind != NODE_LIST)
        return node_err(list, ST_INPUT, e, "itls: expected a list of lists");
    for (uint32_t i = 0; i < list->n; i++) {
        double gap;
        TRY(node_to_double(list->items[i], "itls", 0, MOST_S, &gap, e));
        *sum += gap;
    }
    return ST_OK;
}

static bool failed(const struct lists *l, uint32_t i)
{
    if (!l->errors)
        return false;
    const struct node *x = l->errors->items[i];
    return x->kind == NODE_STR ? x->s.n > 0 : x->kind != NODE_NULL;
}

static enum st row_of(const struct lists *l, uint32_t i, struct observed_row *r, struct err *e)
{
    double ttft, gaps, start;
    *r = (struct observed_row){.cached_tokens = -1, .ok = !failed(l, i)};
    if (!r->ok)
        return ST_OK;
    TRY(node_to_int(l->input->items[i], "input_lens", 0, (int64_t)MOST_TOKENS, &r->prompt_tokens,
                    e));
    TRY(node_to_int(l->output->items[i], "output_lens", 0, (int64_t)MOST_TOKENS, &r->output_tokens,
                    e));
    if (l->ttfts->items[i]->kind == NODE_NULL)
        ttft = (double)NAN;
    else
        TRY(node_to_double(l->ttfts->items[i], "ttfts", 0, MOST_S, &ttft, e));
    TRY(node_to_double(l->starts->items[i], "start_times", 0, MOST_S, &start, e));
    TRY(sum_of(l->itls->items[i], &gaps, e));
    r->gaps = l->itls->items[i]->n;
    r->arrival_s = start;
    r->first_token_s = start + ttft;
    r->end_s = start + ttft + gaps;
    return ST_OK;
}

/* Versions before start_times: their requests in their order, at arrivals drawn anew. */
static enum st draw_starts(struct arena *a, const char *path, const struct node *map,
                           struct lists *l, struct observed_stage *out, struct err *e)
{
    struct observed_stage made = {.completed = l->input->n};
    struct observed_means m = {.prompt_tokens = 1, .output_tokens = 1};
    struct node *starts = node_new(a, NODE_LIST);
    TRY(load_of(map, &m, e));
    if (l->input->n)
        TRY(observed_from_means(a, path, &m, &made, e));
    for (size_t i = 0; i < made.w.n; i++)
        node_push(a, starts, node_float(a, made.w.requests[i].arrival_s));
    l->starts = starts;
    out->drawn_ns = made.drawn_ns;
    if (made.w.concurrency)
        observed_note(a, out,
                      "the record does not hold when requests were sent: %lld at a time, in its "
                      "order",
                      (long long)m.concurrency);
    else
        observed_note(a, out,
                      "the record does not hold when requests were sent: arrivals are drawn "
                      "anew, at %g/s",
                      m.rate);
    out->w.concurrency = made.w.concurrency;
    return ST_OK;
}

static enum st read_rows(struct arena *a, const char *path, const struct node *map,
                         struct observed_stage *out, struct err *e)
{
    struct lists l = {0};
    TRY(lists_of(map, &l, e));
    if (!l.starts)
        TRY(draw_starts(a, path, map, &l, out, e));
    struct observed_row *rows = arena_array(a, struct observed_row, l.input->n);
    for (uint32_t i = 0; i < l.input->n; i++)
        TRY(row_of(&l, i, &rows[i], e));
    const struct concurrency *closed = out->w.concurrency;
    TRY(observed_from_rows(a, path, rows, l.input->n, out, e));
    out->w.concurrency = closed;
    if (out->w.n != l.input->n)
        out->drawn_ns = NULL; /* which of them failed is known, which draw's is not */
    return ST_OK;
}

/* ---- means and percentiles ------------------------------------------------------------------- */

/* By either name. */
static enum st series_of(struct arena *a, const struct node *map, const char *name,
                         const char *other, struct observed_series *out, struct err *e)
{
    *out = observed_unknown();
    TRY(read_tree_number(map, arena_printf(a, "mean_%s_ms|mean_%s_ms", name, other), 0, MOST_S,
                         &out->mean, e));
    out->mean /= 1e3;
    for (int i = 0; i < OBSERVED_POINTS; i++) {
        const int q = (int)observed_points[i];
        const char *key = arena_printf(a, "p%d_%s_ms|p%d_%s_ms", q, name, q, other);
        if (i == OBSERVED_P50)
            key = arena_printf(a, "median_%s_ms|median_%s_ms|%s", name, other, key);
        TRY(read_tree_number(map, key, 0, MOST_S, &out->at[i], e));
        out->at[i] /= 1e3;
    }
    return ST_OK;
}

/* Whether the limit of requests at a time held requests back. */
static enum st limit_reached(const struct node *map, double rate, int64_t most, bool *out,
                             struct err *e)
{
    double served, e2e_ms;
    TRY(read_tree_number(map, "request_throughput", 0, 1e9, &served, e));
    TRY(read_tree_number(map, "mean_e2el_ms|mean_e2e_latency_ms", 0, MOST_S, &e2e_ms, e));
    *out = observed_limit_decided(served, e2e_ms / 1e3, rate, most);
    return ST_OK;
}

/* The load that was asked for: a rate and its burstiness; or so many at a time, where the rate is
 * infinite or that limit decided. ST_INPUT: neither. */
static enum st load_of(const struct node *map, struct observed_means *m, struct err *e)
{
    const struct node *asked = node_find(map, "request_rate");
    const bool rated =
        asked && (asked->kind == NODE_INT || (asked->kind == NODE_FLOAT && isfinite(asked->f)));
    const struct node *ramp = node_find(map, "ramp_up_strategy");
    bool limited = !rated;
    int64_t most;
    if (ramp && ramp->kind == NODE_STR) {
        node_err(ramp, ST_INPUT, e,
                 "ramp_up_strategy: the rate changed while requests were sent, and the record does "
                 "not hold when");
        return err_hint(e, "vllm bench serve --save-detailed writes start_times");
    }
    TRY(read_tree_count(map, "max_concurrency", &most, e));
    if (rated) {
        TRY(read_tree_number(map, "request_rate", 1e-6, 1e6, &m->rate, e));
        TRY(read_tree_number(map, "burstiness", 1e-3, 1e6, &m->burstiness, e));
        m->burstiness = isnan(m->burstiness) ? 1 : m->burstiness;
        TRY(limit_reached(map, m->rate, most, &limited, e));
    }
    if (!limited)
        return ST_OK;
    TRY(read_tree_number(map, "request_throughput", 0, 1e9, &m->rate, e));
    m->concurrency = most;
    if (asked && most > 0 && most <= CONCURRENCY_MOST)
        return ST_OK;
    node_err(asked ? asked : map, ST_INPUT, e,
             "requests were sent all at once, or a number at a time, and the record does not "
             "hold when");
    return err_hint(e, "vllm bench serve --save-detailed writes start_times; with a finite "
                       "--request-rate, or --max-concurrency, they are not needed");
}

/* SGLang's random prompts: lengths drawn evenly from random_range_ratio times the longest up. */
static enum st even_lengths_of(const struct node *map, struct observed_means *m, struct err *e)
{
    const struct node *data = node_find(map, "dataset_name");
    if (!data || data->kind != NODE_STR || !sv_eq(data->s, "random"))
        return ST_OK;
    TRY(read_tree_number(map, "random_input_len", 0, MOST_TOKENS, &m->most_prompt_tokens, e));
    return read_tree_number(map, "random_output_len", 0, MOST_TOKENS, &m->most_output_tokens, e);
}

static enum st made_requests(struct arena *a, const char *path, const struct node *map,
                             struct observed_stage *out, struct err *e)
{
    const double n = (double)out->completed;
    struct observed_means m = {0};
    TRY(load_of(map, &m, e));
    TRY(even_lengths_of(map, &m, e));
    TRY(read_tree_number(map, "total_input_tokens", 0, 1e15, &m.prompt_tokens, e));
    TRY(read_tree_number(map, "total_output_tokens", 0, 1e15, &m.output_tokens, e));
    m.prompt_tokens /= n;
    m.output_tokens /= n;
    return observed_from_means(a, path, &m, out, e);
}

static enum st read_summary(struct arena *a, const char *path, const struct node *map,
                            struct observed_stage *out, struct err *e)
{
    int64_t sent;
    TRY(read_tree_count(map, "num_prompts", &sent, e));
    TRY(read_tree_count(map, "completed|num_prompts", &out->completed, e));
    TRY(read_tree_count(map, "failed", &out->failed, e));
    if (!node_find(map, "failed") && sent > out->completed)
        out->failed = sent - out->completed;
    TRY(series_of(a, map, "ttft", "ttft", &out->of[OBSERVED_TTFT], e));
    TRY(series_of(a, map, "tpot", "tpot", &out->of[OBSERVED_TPOT], e));
    TRY(series_of(a, map, "e2el", "e2e_latency", &out->of[OBSERVED_E2E], e));
    return made_requests(a, path, map, out, e);
}

/* ---- results of a file ----------------------------------------------------------------------- */

/* The first JSON map of the text, by its brackets; all that is left where they do not close. */
static struct sv first_of(struct sv text)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && c == '{')
            depth++;
        else if (!quoted && c == '}' && --depth == 0)
            return (struct sv){text.p, i + 1};
    }
    return text;
}

enum st vllm_read_result(struct arena *a, const char *path, const struct node *map,
                         struct observed *out, struct err *e)
{
    struct observed_stage *stages = arena_array(a, struct observed_stage, out->n_stages + 1);
    if (map->kind != NODE_MAP)
        return node_err(map, ST_INPUT, e, "expected an object, got %s", node_kind_name(map->kind));
    TRY(observed_check_speculation(map, e));
    if (out->n_stages)
        memcpy(stages, out->stages, out->n_stages * sizeof *stages);
    out->stages = stages;
    struct observed_stage *s = &stages[out->n_stages];
    s->name = arena_printf(a, "%zu", out->n_stages++);
    const struct node *model = node_find(map, "model_id");
    if (model && model->kind == NODE_STR && !out->settings.model)
        out->settings.model = model->s.p;
    return (node_find(map, "ttfts") ? read_rows : read_summary)(a, path, map, s, e);
}

enum st vllm_read_results(struct arena *a, const char *path, struct sv text, struct observed *out,
                          struct err *e)
{
    struct json_limits limits = {.max_bytes = MOST_BYTES, .first_line = 1, .python = true};
    do {
        const struct sv one = first_of(text);
        struct node *map;
        TRY(json_parse(a, arena_str(a, path), one, &limits, &map, e));
        TRY(vllm_read_result(a, path, map, out, e));
        for (size_t i = 0; i < one.n; i++)
            limits.first_line += one.p[i] == '\n';
        text = (struct sv){text.p + one.n, text.n - one.n};
        for (; text.n && strchr(" \t\r\n", *text.p); text.p++, text.n--)
            limits.first_line += *text.p == '\n';
    } while (text.n);
    return ST_OK;
}

enum st observed_read_vllm(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    struct gz_file f;
    TRY(gz_open(path, &f, e));
    enum st st = vllm_read_results(a, path, f.text, out, e);
    gz_close(&f);
    return st;
}
