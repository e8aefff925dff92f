/* AIPerf: profile_export.jsonl has a record a request; profile_export_aiperf.json means and
 * percentiles with the load that was asked for. Values carry their unit. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "calibrate/read_tree.h"
#include "text/gz.h"
#include "text/json.h"

#define RECORDS "profile_export.jsonl"
#define SUMMARY "profile_export_aiperf.json"

static const double MOST = 1e18;

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

/* Records, a line each, have metadata and metrics. */
static bool is_records(const char *path)
{
    return ends_with(path, ".jsonl") && read_tree_has(path, "metadata|metrics");
}

bool observed_is_aiperf(struct arena *a, const char *path)
{
    if (fs_is_dir(path))
        return fs_exists(fs_join(a, path, RECORDS)) || fs_exists(fs_join(a, path, SUMMARY));
    return is_records(path) || read_tree_has(path, "request_latency|time_to_first_token");
}

/* Seconds of a value in the unit beside it; tokens and counts are as they are. */
static enum st scale_of(const struct node *metric, double *out, struct err *e)
{
    static const struct {
        const char *unit;
        double scale;
    } units[] = {{"ns", 1e-9},   {"us", 1e-6},  {"ms", 1e-3},    {"s", 1},     {"sec", 1},
                 {"seconds", 1}, {"tokens", 1}, {"requests", 1}, {"count", 1}, {"requests/sec", 1}};
    const char *unit;
    TRY(node_get_str(metric, "unit", &unit, e));
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].unit) == 0) {
            *out = units[i].scale;
            return ST_OK;
        }
    }
    return node_err(node_find(metric, "unit"), ST_INPUT, e, "unit: '%s' is not known here", unit);
}

/* metrics.<name>.<member> in s, NAN where there is none. */
static enum st value_of(const struct node *metrics, const char *name, const char *member,
                        double *out, struct err *e)
{
    const struct node *metric = node_find(metrics, name);
    double scale = 1;
    *out = NAN;
    if (!metric || metric->kind == NODE_NULL)
        return ST_OK;
    if (metric->kind != NODE_MAP)
        return node_err(metric, ST_INPUT, e, "%s: expected an object, got %s", name,
                        node_kind_name(metric->kind));
    TRY(scale_of(metric, &scale, e));
    TRY(read_tree_number(metric, member, 0, MOST, out, e));
    *out *= scale;
    return ST_OK;
}

static int64_t whole(double v)
{
    return v >= 1 && v < 1 << 30 ? (int64_t)(v + 0.5) : 0;
}

/* ---- records --------------------------------------------------------------------------------- */

static bool is_failure(const struct node *record)
{
    const struct node *error = node_find(record, "error");
    const struct node *cancelled = node_path(record, "metadata.was_cancelled");
    return (error && error->kind != NODE_NULL) ||
           (cancelled && cancelled->kind == NODE_BOOL && cancelled->b);
}

static enum st row_of(const struct node *record, struct observed_row *r, struct err *e)
{
    struct node *metadata, *metrics;
    int64_t start_ns;
    double prompt, output, ttft, latency;
    if (record->kind != NODE_MAP)
        return node_err(record, ST_INPUT, e, "expected an object, got %s",
                        node_kind_name(record->kind));
    *r = (struct observed_row){.cached_tokens = -1, .ok = !is_failure(record)};
    if (!r->ok)
        return ST_OK;
    TRY(node_get(record, "metadata", NODE_MAP, &metadata, e));
    TRY(node_get(record, "metrics", NODE_MAP, &metrics, e));
    TRY(node_get_int(metadata, "request_start_ns", 0, INT64_MAX, &start_ns, e));
    TRY(value_of(metrics, "input_sequence_length", "value", &prompt, e));
    TRY(value_of(metrics, "output_sequence_length", "value", &output, e));
    TRY(value_of(metrics, "time_to_first_token", "value", &ttft, e));
    TRY(value_of(metrics, "request_latency", "value", &latency, e));
    r->arrival_s = ns_to_s(start_ns);
    r->first_token_s = r->arrival_s + ttft;
    r->end_s = r->arrival_s + latency;
    r->prompt_tokens = whole(prompt);
    r->output_tokens = whole(output);
    return ST_OK;
}

static bool is_warmup(const struct node *record)
{
    const struct node *phase = node_path(record, "metadata.benchmark_phase");
    return phase && phase->kind == NODE_STR && sv_eq(phase->s, "warmup");
}

typedef VEC(struct observed_row) row_vec;

static enum st read_lines(struct arena *scratch, const char *path, struct sv left, row_vec *rows,
                          struct err *e)
{
    for (uint32_t line = 1; left.n; line++) {
        const char *end = memchr(left.p, '\n', left.n);
        struct sv text = {left.p, end ? (size_t)(end - left.p) : left.n};
        size_t used = text.n + (end ? 1 : 0);
        struct observed_row r;
        struct node *record;
        left = (struct sv){left.p + used, left.n - used};
        if (sv_trim(text).n == 0)
            continue;
        const struct json_limits limits = {.first_line = line};
        arena_reset(scratch);
        TRY(json_parse(scratch, path, text, &limits, &record, e));
        TRY(row_of(record, &r, e));
        if (!is_warmup(record))
            vec_push(rows, r);
    }
    return ST_OK;
}

static enum st read_records(struct arena *a, const char *path, struct observed_stage *out,
                            struct err *e)
{
    struct gz_file f;
    row_vec rows = {0};
    TRY(gz_open(path, &f, e));
    struct arena *scratch = arena_new();
    enum st st = read_lines(scratch, path, f.text, &rows, e);
    arena_free(&scratch);
    if (st == ST_OK)
        st = observed_from_rows(a, path, rows.p, rows.n, out, e);
    vec_free(&rows);
    gz_close(&f);
    return st;
}

/* ---- means and percentiles ------------------------------------------------------------------- */

static enum st series_of(struct arena *a, const struct node *map, const char *name,
                         struct observed_series *out, struct err *e)
{
    *out = observed_unknown();
    TRY(value_of(map, name, "avg", &out->mean, e));
    for (int i = 0; i < OBSERVED_POINTS; i++)
        TRY(value_of(map, name, arena_printf(a, "p%d", (int)observed_points[i]), &out->at[i], e));
    return ST_OK;
}

static bool says(const struct node *map, const char *key, const char *text)
{
    const struct node *n = node_find(map, key);
    return n && n->kind == NODE_STR && sv_eq(n->s, text);
}

/* The load that was asked for: of input_config.loadgen, or of the one phase in input_config.phases
 * that is not a warm-up, as later versions have it. */
static enum st load_of(const struct node *map, double *rate, bool *even, struct err *e)
{
    const struct node *load = node_path(map, "input_config.loadgen");
    const struct node *phases = node_path(map, "input_config.phases");
    *rate = NAN;
    *even = false;
    if (load && load->kind == NODE_MAP) {
        *even = says(load, "request_rate_mode", "constant");
        return read_tree_number(load, "request_rate", 1e-6, 1e6, rate, e);
    }
    for (uint32_t i = 0; phases && phases->kind == NODE_LIST && i < phases->n; i++) {
        const struct node *phase = phases->items[i];
        if (phase->kind != NODE_MAP || says(phase, "kind", "warmup"))
            continue;
        if (!isnan(*rate))
            return node_err(phase, ST_INPUT, e, "input_config.phases: has several beside warm-up");
        *even = says(phase, "type", "constant");
        TRY(read_tree_number(phase, "rate", 1e-6, 1e6, rate, e));
    }
    return ST_OK;
}

static enum st read_summary(struct arena *a, const char *path, struct observed_stage *out,
                            struct err *e)
{
    struct node *map;
    double count, failed;
    struct observed_means m;
    bool even;
    TRY(read_tree(a, path, &map, e));
    TRY(value_of(map, "request_count", "avg", &count, e));
    TRY(value_of(map, "error_request_count", "avg", &failed, e));
    TRY(value_of(map, "input_sequence_length", "avg", &m.prompt_tokens, e));
    TRY(value_of(map, "output_sequence_length", "avg", &m.output_tokens, e));
    TRY(series_of(a, map, "time_to_first_token", &out->of[OBSERVED_TTFT], e));
    TRY(series_of(a, map, "inter_token_latency", &out->of[OBSERVED_TPOT], e));
    TRY(series_of(a, map, "request_latency", &out->of[OBSERVED_E2E], e));
    TRY(load_of(map, &m.rate, &even, e));
    out->completed = whole(count);
    out->failed = whole(failed);
    m.burstiness = even ? (double)INFINITY : 1;
    if (isnan(m.rate)) {
        err_set(
            e, ST_INPUT,
            "%s: no rate in input_config.loadgen or input_config.phases, and the record does not "
            "hold when requests were sent",
            path);
        return err_hint(e, RECORDS " beside it does");
    }
    return observed_from_means(a, path, &m, out, e);
}

enum st observed_read_aiperf(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    const char *file = path;
    if (fs_is_dir(path)) {
        file = fs_join(a, path, RECORDS);
        if (!fs_exists(file))
            file = fs_join(a, path, SUMMARY);
    }
    out->n_stages = 1;
    out->stages = arena_one(a, struct observed_stage);
    out->stages->name = "0";
    return (ends_with(file, ".jsonl") ? read_records : read_summary)(a, file, out->stages, e);
}
