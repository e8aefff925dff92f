#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/read_aiperf.h"
#include "calibrate/read_tree.h"
#include "text/csv.h"
#include "text/gz.h"

static const double MOST = 1e18;

/* ---- values ---------------------------------------------------------------------------------- */

/* Seconds of a value in the unit beside it; tokens and counts are as they are. */
static enum st scale_of(const struct node *metric, double *out, struct err *e)
{
    static const struct {
        const char *unit;
        double scale;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6},        {"ms", 1e-3},  {"s", 1},
                 {"sec", 1},   {"seconds", 1},      {"tokens", 1}, {"requests", 1},
                 {"count", 1}, {"requests/sec", 1}, {"per sec", 1}};
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

enum st aiperf_value(const struct node *metrics, const char *name, const char *member, double *out,
                     struct err *e)
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

/* ---- CSV -------------------------------------------------------------------------------------
 *
 * Two tables with an empty line between them: percentiles (Metric, avg, min, ..., p25) and single
 * values (Metric, Value). A metric is "Request Latency (ms)", or without a unit in tokens; numbers
 * have commas between thousands. They become the tree that the JSON file has. */

static bool is_csv(const char *path)
{
    struct gz_file f;
    struct err ignored = {0};
    if (fs_is_dir(path) || !read_tree_ends(path, ".csv") || gz_open(path, &f, &ignored) != ST_OK)
        return false;
    const bool is = f.text.n > 11 && memcmp(f.text.p, "Metric,avg,", 11) == 0;
    gz_close(&f);
    return is;
}

/* "Time To First Token (ms)": time_to_first_token, ms. */
static struct node *add_metric(struct arena *a, struct node *map, struct sv cell)
{
    char *name = arena_strn(a, cell.p, cell.n), *unit = strrchr(name, '(');
    const char *in = "tokens";
    struct node *metric = node_new(a, NODE_MAP);
    if (unit && unit > name) {
        unit[-1] = 0;
        unit[strcspn(unit, ")")] = 0;
        in = unit + 1;
    }
    for (char *p = name; *p; p++)
        *p = *p == ' ' ? '_' : (char)tolower((unsigned char)*p);
    node_put(a, metric, "unit", node_str(a, in));
    return node_put(a, map, name, metric);
}

/* NULL where the cell is no number ("N/A"). */
static struct node *number_of(struct arena *a, struct sv cell)
{
    char text[64];
    size_t n = 0;
    char *end;
    for (size_t i = 0; i < cell.n && n + 1 < sizeof text; i++)
        if (cell.p[i] != ',')
            text[n++] = cell.p[i];
    text[n] = 0;
    const double v = strtod(text, &end);
    return n && !*end && isfinite(v) ? node_float(a, v) : NULL;
}

static enum st read_table(struct arena *a, const char *path, struct sv text, struct node *map,
                          struct err *e)
{
    struct csv_reader *r;
    TRY(csv_open_bytes(&r, path, text, e));
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK) {
        struct node *metric = add_metric(a, map, csv_cell(r, 0));
        for (int i = 1; i < csv_columns(r); i++) {
            const char *column = csv_column_name(r, i);
            struct node *v = number_of(a, csv_cell(r, i));
            if (v)
                node_put(a, metric, strcmp(column, "Value") == 0 ? "avg" : column, v);
        }
    }
    csv_close(&r);
    return st == ST_END ? ST_OK : st;
}

static enum st read_csv(struct arena *a, const char *path, struct node **out, struct err *e)
{
    struct gz_file f;
    TRY(gz_open(path, &f, e));
    *out = node_new(a, NODE_MAP);
    enum st st = ST_OK;
    for (struct sv left = f.text; left.n && st == ST_OK;) {
        size_t n = 0;
        bool empty = true; /* the line at n so far */
        for (; n < left.n && !(empty && n > 0 && left.p[n] == '\n'); n++)
            empty = left.p[n] == '\n' || (empty && left.p[n] == '\r');
        if (sv_trim((struct sv){left.p, n}).n)
            st = read_table(a, path, (struct sv){left.p, n}, *out, e);
        n += n < left.n;
        left = (struct sv){left.p + n, left.n - n};
    }
    gz_close(&f);
    return st;
}

/* ---- which file ------------------------------------------------------------------------------ */

bool aiperf_is_summary(const char *path)
{
    return is_csv(path) || read_tree_has(path, "request_latency|time_to_first_token");
}

/* "x_genai_perf.json" of any name that was given to the export. */
const char *aiperf_summary_in(struct arena *a, const char *dir)
{
    static const char *const ends[] = {"_aiperf.json", "_genai_perf.json", "_aiperf.csv",
                                       "_genai_perf.csv"};
    const char **names;
    size_t n;
    struct err ignored = {0};
    if (fs_list(a, dir, &names, &n, &ignored) != ST_OK)
        return NULL;
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        for (size_t i = 0; i < n; i++)
            if (read_tree_ends(names[i], ends[k]) && aiperf_is_summary(fs_join(a, dir, names[i])))
                return fs_join(a, dir, names[i]);
    return NULL;
}

/* ---- the load -------------------------------------------------------------------------------- */

struct asked_load {
    double rate; /* NAN = none was asked for */
    int64_t concurrency;
    double burstiness; /* INFINITY = evenly spaced */
};

static bool says(const struct node *map, const char *key, const char *text)
{
    const struct node *n = node_find(map, key);
    return n && n->kind == NODE_STR && sv_eq(n->s, text);
}

/* Of the names that versions have had. Poisson is the default. */
static bool has_arrivals(const struct node *map, const char *pattern)
{
    return says(map, "request_rate_mode", pattern) || says(map, "arrival_pattern", pattern) ||
           says(map, "type", pattern);
}

static enum st read_load(const struct node *map, const char *rate, struct asked_load *out,
                         struct err *e)
{
    double shape;
    TRY(read_tree_number(map, rate, 1e-6, 1e6, &out->rate, e));
    TRY(read_tree_number(map, "arrival_smoothness|smoothness", 1e-3, 1e6, &shape, e));
    if (has_arrivals(map, "constant"))
        out->burstiness = INFINITY;
    else if (has_arrivals(map, "gamma") && !isnan(shape))
        out->burstiness = shape;
    return read_tree_count(map, "concurrency", &out->concurrency, e);
}

/* AIPerf: input_config.loadgen, or the one phase in input_config.phases that is not a warm-up, as
 * later versions have it. GenAI-Perf: input_config.perf_analyzer.stimulus, or input_config; the
 * Perf Analyzer below it spaces requests evenly unless --request-distribution=poisson is passed. */
static enum st load_of(const struct node *map, struct asked_load *out, struct err *e)
{
    static const char *const plain[] = {"input_config.perf_analyzer.stimulus", "input_config"};
    const struct node *load = node_path(map, "input_config.loadgen");
    const struct node *phases = node_path(map, "input_config.phases");
    bool found = false;
    *out = (struct asked_load){.rate = NAN, .burstiness = 1};
    if (load && load->kind == NODE_MAP)
        return read_load(load, "request_rate", out, e);
    for (uint32_t i = 0; phases && phases->kind == NODE_LIST && i < phases->n; i++) {
        const struct node *phase = phases->items[i];
        if (phase->kind != NODE_MAP || says(phase, "kind", "warmup"))
            continue;
        if (found)
            return node_err(phase, ST_INPUT, e, "input_config.phases: has several beside warm-up");
        found = true;
        TRY(read_load(phase, "rate", out, e));
    }
    for (size_t i = 0; i < 2 && isnan(out->rate) && !out->concurrency; i++) {
        load = node_path(map, plain[i]);
        if (!load || load->kind != NODE_MAP)
            continue;
        TRY(read_load(load, "request_rate", out, e));
        out->burstiness = says(load, "request_distribution", "poisson") ? 1 : (double)INFINITY;
    }
    return ST_OK;
}

/* Of a table without input_config: both programs name their folder after the load,
 * "model-openai-chat-concurrency8" or "...-request_rate4.0". */
static void load_of_folder(struct arena *a, const char *path, struct asked_load *out)
{
    static const char rate[] = "-request_rate", concurrency[] = "-concurrency";
    const char *name = fs_base(fs_dir(a, path)), *at;
    if ((at = strstr(name, concurrency)))
        out->concurrency = strtoll(at + sizeof concurrency - 1, NULL, 10);
    else if ((at = strstr(name, rate)))
        out->rate = strtod(at + sizeof rate - 1, NULL);
    if (!(out->rate >= 1e-6 && out->rate <= 1e6))
        out->rate = NAN;
    if (read_tree_ends(path, "_genai_perf.csv"))
        out->burstiness = INFINITY;
}

/* ---- all ------------------------------------------------------------------------------------- */

static enum st series_of(struct arena *a, const struct node *map, const char *name,
                         struct observed_series *out, struct err *e)
{
    *out = observed_unknown();
    TRY(aiperf_value(map, name, "avg", &out->mean, e));
    for (int i = 0; i < OBSERVED_POINTS; i++)
        TRY(aiperf_value(map, name, arena_printf(a, "p%d", (int)observed_points[i]), &out->at[i],
                         e));
    return ST_OK;
}

/* What the server counted, where the record has it; else what the client did. */
static enum st length_of(const struct node *map, const char *usage, const char *counted,
                         double *out, struct err *e)
{
    TRY(aiperf_value(map, usage, "avg", out, e));
    return *out > 0 ? ST_OK : aiperf_value(map, counted, "avg", out, e);
}

static enum st check_load(const char *path, const struct asked_load *l, struct err *e)
{
    if (!isnan(l->rate) || (l->concurrency > 0 && l->concurrency <= CONCURRENCY_MOST))
        return ST_OK;
    err_set(e, ST_INPUT,
            "%s: no rate or concurrency in its input_config, and the record does not hold when "
            "requests were sent",
            path);
    return err_hint(e, "profile_export.jsonl of AIPerf beside it does; GenAI-Perf's JSON file has "
                       "an input_config, its CSV file has none");
}

static enum st read_map(struct arena *a, const char *path, const struct node *map,
                        struct observed_stage *out, struct err *e)
{
    double count, failed;
    struct observed_means m = {0};
    struct asked_load load;
    TRY(aiperf_value(map, "request_count", "avg", &count, e));
    TRY(aiperf_value(map, "error_request_count", "avg", &failed, e));
    TRY(aiperf_value(map, "request_throughput", "avg", &m.rate, e));
    TRY(length_of(map, "usage_prompt_tokens", "input_sequence_length", &m.prompt_tokens, e));
    TRY(length_of(map, "usage_completion_tokens", "output_sequence_length", &m.output_tokens, e));
    TRY(series_of(a, map, "time_to_first_token", &out->of[OBSERVED_TTFT], e));
    TRY(series_of(a, map, "inter_token_latency", &out->of[OBSERVED_TPOT], e));
    TRY(series_of(a, map, "request_latency", &out->of[OBSERVED_E2E], e));
    TRY(load_of(map, &load, e));
    if (isnan(load.rate) && !load.concurrency)
        load_of_folder(a, path, &load);
    TRY(check_load(path, &load, e));
    out->completed = read_tree_whole(count);
    out->failed = read_tree_whole(failed);
    const double e2e_s = out->of[OBSERVED_E2E].mean;
    if (isnan(load.rate) || (load.concurrency <= CONCURRENCY_MOST &&
                             observed_limit_decided(m.rate, e2e_s, load.rate, load.concurrency)))
        m.concurrency = load.concurrency;
    else
        m.rate = load.rate;
    m.burstiness = load.burstiness;
    return observed_from_means(a, path, &m, out, e);
}

enum st aiperf_read_summary(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    struct node *map;
    TRY(is_csv(path) ? read_csv(a, path, &map, e) : read_tree(a, path, &map, e));
    TRY(observed_check_speculation(map, e));
    return read_map(a, path, map, out->stages, e);
}
