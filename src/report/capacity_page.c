/* Page of a capacity: the rate and its interval, the probes around it, and the operating point. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "text/json.h"

enum { MAX_SEEDS = 6, LATENCIES = 4, PERCENTILES = 4 };

static const struct {
    const char *key, *title;
} latencies[LATENCIES] = {
    {"ttft", "TTFT"}, {"tpot", "TPOT"}, {"e2el", "E2E"}, {"delay", "Scheduling delay"}};
static const char *const percentiles[PERCENTILES] = {"p50", "p90", "p95", "p99"};
static const double percents[PERCENTILES] = {50, 90, 95, 99};

struct capacity_data {
    const struct node *meta, *tree;
};

static const char *rate_text(char out[WORDS_MAX], double rate)
{
    snprintf(out, WORDS_MAX, isfinite(rate) ? "%.4g" : "n/a", rate);
    return out;
}

/* Prefix where the rate is only a lower bound. */
static const char *bound_of(struct arena *a, const struct node *t)
{
    const char *end = page_value(a, t, "end");
    if (end && strcmp(end, "client") == 0)
        return "or more: inconclusive, the client did not keep its schedule above";
    if (end && strcmp(end, "capped") == 0)
        return "or more: the highest rate that was allowed";
    return NULL;
}

static void tiles(struct arena *a, struct buf *out, const struct node *t)
{
    char text[WORDS_MAX], low[WORDS_MAX], high[WORDS_MAX];
    uint32_t n;
    struct node *const *ends = page_items(node_find(t, "interval_per_s"), &n);
    buf_puts(out, "<dl class=\"tiles\">\n");
    const char *bound = bound_of(a, t);
    const char *sure =
        n == 2 ? arena_printf(a, "95 %% interval %s to %s", rate_text(low, page_number_of(ends[0])),
                              rate_text(high, page_number_of(ends[1])))
               : NULL;
    page_tile(out, "Capacity, requests/s", rate_text(text, page_number(t, "capacity_per_s")),
              bound ? bound : sure);
    const struct node *at = node_find(t, "operating");
    if (at && at->kind == NODE_MAP) {
        page_tile(out, "Operating point, requests/s",
                  rate_text(text, page_number(at, "requests_per_s")),
                  arena_printf(a, "%.0f %% of the capacity", 100 * page_number(at, "load")));
        page_tile(out, "Output tokens per second there",
                  rate_text(text, page_number(at, "over_seeds.output_tokens_per_s.mean")), NULL);
        page_tile(out, "TTFT P99 there",
                  words_duration(text, page_number(at, "over_seeds.ttft_p99_s.mean")),
                  arena_printf(a, "P50 %s",
                               words_duration(low, page_number(at, "over_seeds.ttft_p50_s.mean"))));
    }
    buf_puts(out, "</dl>\n");
}

/* ---- results of the probes ---------------------------------------------------------------- */

struct point {
    double x, y;
};

static int by_x(const void *pa, const void *pb)
{
    const struct point *a = pa, *b = pb;
    return (a->x > b->x) - (a->x < b->x);
}

/* One field of a seed's probes over their rates, in order of rate. */
static struct svg_series seed_series(struct arena *a, const struct node *seed, const char *field,
                                     double scale)
{
    uint32_t n;
    struct node *const *probes = page_items(node_find(seed, "probes"), &n);
    struct point *p = arena_array(a, struct point, n);
    double *x = arena_array(a, double, n), *y = arena_array(a, double, n);
    for (uint32_t i = 0; i < n; i++)
        p[i] =
            (struct point){page_number(probes[i], "rate"), scale * page_number(probes[i], field)};
    if (n > 0)
        qsort(p, n, sizeof *p, by_x);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = p[i].x;
        y[i] = p[i].y;
    }
    const char *name = page_value(a, seed, "seed");
    return (struct svg_series){.name = arena_printf(a, "seed %s", name ? name : "?"),
                               .x = x,
                               .y = y,
                               .n = n,
                               .points = true};
}

struct figure {
    const char *title, *y_label, *field; /* of a probe */
    double scale;                        /* from the field to the unit of y_label */
    double asked;                        /* limit in that unit; NAN = none */
    double y_max;                        /* 0 = from the data */
};

/* Draws the field over the rate, a line per seed, with the limit as a horizontal and the capacity
 * as a vertical line. */
static void draw(struct arena *a, struct buf *out, const struct node *t, const struct figure *f)
{
    uint32_t n;
    struct node *const *seeds = page_items(node_find(t, "seeds"), &n);
    struct svg_series series[MAX_SEEDS + 1];
    char text[WORDS_MAX];
    size_t k = 0;
    double most = 0, capacity = page_number(t, "capacity_per_s");
    double ends[2] = {(double)INFINITY, 0}, levels[2] = {f->asked, f->asked};
    for (uint32_t i = 0; i < n && k < MAX_SEEDS; i++) {
        struct svg_series s = seed_series(a, seeds[i], f->field, f->scale);
        if (s.n == 0)
            continue;
        ends[0] = s.x[0] < ends[0] ? s.x[0] : ends[0];
        ends[1] = s.x[s.n - 1] > ends[1] ? s.x[s.n - 1] : ends[1];
        for (uint32_t j = 0; j < s.n; j++)
            most = s.y[j] > most ? s.y[j] : most;
        series[k++] = s;
    }
    if (k == 0)
        return;
    if (isfinite(f->asked))
        series[k++] = (struct svg_series){
            .name = "asked for", .x = ends, .y = levels, .n = 2, .dashed = true};
    bool known = capacity > 0;
    page_chart(
        out,
        &(struct svg_chart){
            .title = f->title,
            .x_label = "requests/s",
            .y_label = f->y_label,
            .y_max = f->y_max > 0 && most > f->y_max ? f->y_max : 0,
            .x_mark_name = known ? arena_printf(a, "capacity %s", rate_text(text, capacity)) : NULL,
            .x_mark = known ? capacity : 0,
            .series = series,
            .n_series = k});
}

/* The percentile of the objective: 90 % of requests meet a limit exactly when P90 does. */
static int percentile_of(double fraction)
{
    int p = 0;
    while (p < PERCENTILES - 1 && percents[p] < 100 * fraction - 1e-6)
        p++;
    return p;
}

/* Uses ms below 10 s and s from there, as the objective's text. Clips values far beyond the limit,
 * which would flatten the rest. */
static void draw_latency(struct arena *a, struct buf *out, const struct node *t, int m, int p,
                         double limit_s)
{
    enum { TIMES_THE_LIMIT = 4 };
    double scale = limit_s < 10 ? 1e3 : 1;
    draw(a, out, t,
         &(struct figure){
             .title = arena_printf(a, "%s P%.0f", latencies[m].title, percents[p]),
             .y_label = scale > 1 ? "ms" : "s",
             .field = arena_printf(a, "%s_%s_s", latencies[m].key, percentiles[p]),
             .scale = scale,
             .asked = scale * limit_s,
             .y_max = TIMES_THE_LIMIT * scale * limit_s,
         });
}

static void figures(struct arena *a, struct buf *out, const struct node *t)
{
    double fraction = page_number(t, "objective.fraction");
    int p = percentile_of(fraction);
    page_section(out, "Around the capacity");
    buf_puts(out, "<div class=\"figures\">\n");
    draw(a, out, t,
         &(struct figure){.title = "Requests that meet the objective",
                          .y_label = "% of requests",
                          .field = "good",
                          .scale = 100,
                          .asked = 100 * fraction});
    for (int i = 0; i < LATENCIES; i++) {
        double limit = page_number(t, arena_printf(a, "objective.limits_s.%s", latencies[i].key));
        if (isfinite(limit))
            draw_latency(a, out, t, i, p, limit);
    }
    buf_puts(out, "</div>\n");
    page_tag(out, "p", "small",
             "A point is one run of the workload at that rate; latencies end at four times their "
             "limit. P%.0f is drawn for an objective of %g %% of the requests.",
             percents[p], 100 * fraction);
    uint32_t n;
    page_items(node_find(t, "seeds"), &n);
    if (n > MAX_SEEDS)
        page_tag(out, "p", "small", "The first %d of %u seeds are drawn.", (int)MAX_SEEDS, n);
    buf_puts(out, "</section>\n");
}

/* ---- the operating point ----------------------------------------------------------------- */

static void latency_row(struct arena *a, struct page_table *t, const struct node *of, int m)
{
    char mean[WORDS_MAX], low[WORDS_MAX], high[WORDS_MAX];
    page_row(t);
    page_cell(t, latencies[m].title);
    for (int p = 0; p < PERCENTILES; p++) {
        const struct node *v =
            node_find(of, arena_printf(a, "%s_%s_s", latencies[m].key, percentiles[p]));
        page_cell_begin(t);
        page_text(t->out, "%s", words_duration(mean, page_number(v, "mean")));
        page_tag(t->out, "small", "range", "%s to %s", words_duration(low, page_number(v, "low")),
                 words_duration(high, page_number(v, "high")));
        page_cell_end(t);
    }
}

static void operating(struct arena *a, struct buf *out, const struct node *t)
{
    static const struct page_column columns[] = {
        {.head = ""}, {.head = "P50"}, {.head = "P90"}, {.head = "P95"}, {.head = "P99"}};
    const struct node *of = node_path(t, "operating.over_seeds");
    struct page_table table;
    if (!of)
        return;
    page_section(out, arena_printf(a, "At the operating point, %.4g requests/s",
                                   page_number(t, "operating.requests_per_s")));
    PAGE_TABLE(&table, out, columns);
    for (int m = 0; m < LATENCIES; m++)
        latency_row(a, &table, of, m);
    page_table_end(&table);
    page_tag(out, "p", "small", "Mean over the seeds, and the lowest and highest of them.");
    buf_puts(out, "\n</section>\n");
}

static void capacity_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct capacity_data *d = part->data;
    const char *model = page_value(a, d->meta, "model");
    const char *objective = page_value(a, d->tree, "objective.text");
    const char *end = page_value(a, d->tree, "end"), *probe = page_value(a, d->tree, "probe");
    bool met = page_number(d->tree, "capacity_per_s") > 0;
    bool open = end && strcmp(end, "client") == 0;
    buf_printf(out, "<header class=\"banner %s\">\n", open ? "open" : met ? "pass" : "fail");
    page_head(out, part->title,
              arena_printf(a, "%s%s%s",
                           open  ? "Inconclusive capacity"
                           : met ? "Capacity"
                                 : "No rate meets the objective",
                           model ? (met || open ? " of " : ": ") : "", model ? model : ""));
    if (probe)
        page_tag(out, "p", NULL, "Asked: %s", probe);
    if (objective)
        page_tag(out, "p", NULL, "Objective: %s", objective);
    tiles(a, out, d->tree);
    buf_puts(out, "</header>\n");
    figures(a, out, d->tree);
    operating(a, out, d->tree);
    page_note_list(a, out, "Notes", node_find(d->tree, "notes"));
    page_facts(a, out, "How it was found", NULL, &d->meta, 1);
}

enum st part_capacity(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                      struct err *e)
{
    struct capacity_data *d = arena_one(a, struct capacity_data);
    const char *id = page_value(a, meta, "run_id");
    struct node *tree;
    double rate;
    TRY(json_load(a, fs_join(a, dir, "capacity.json"), NULL, &tree, e));
    TRY(node_get_double(tree, "capacity_per_s", 0, 1e300, &rate, e));
    *d = (struct capacity_data){meta, tree};
    *out = (struct part){.title = arena_printf(a, "Capacity %s", id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%.4g requests/s", rate),
                         .body = capacity_body,
                         .data = d};
    return ST_OK;
}
