/* Page of a capacity: the rate and its interval, the probes around it, and the operating point. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "search/capacity_result.h"
#include "text/json.h"

enum { MAX_SEEDS = 6 };

static const struct {
    enum slo_metric m;
    const char *title;
} latencies[SLO_METRICS] = {
    {SLO_TTFT, "TTFT"}, {SLO_TPOT, "TPOT"}, {SLO_E2EL, "E2E"}, {SLO_DELAY, "Scheduling delay"}};

struct capacity_data {
    const struct node *meta;
    struct capacity_result r;
};

/* A field of struct probe_result by its place in it. */
#define PROBE_PLACE(member) offsetof(struct probe_result, member)

static const struct capacity_mean *over_seeds(const struct capacity_result *r, size_t place)
{
    int i = 0;
    while (probe_fields[i].at != place)
        i++;
    return &r->over_seeds[i];
}

static const char *rate_text(char out[WORDS_MAX], double rate)
{
    snprintf(out, WORDS_MAX, isfinite(rate) ? "%.4g" : "n/a", rate);
    return out;
}

/* Prefix where the rate is only a lower bound. */
static const char *bound_of(const struct capacity_result *r)
{
    static const char *const bounds[CAPACITY_ENDS] = {
        [CAPACITY_CLIENT] = "or more: inconclusive, the client did not keep its schedule above",
        [CAPACITY_CAPPED] = "or more: the highest rate that was allowed"};
    return bounds[r->sum.end];
}

static void tiles(struct arena *a, struct buf *out, const struct capacity_result *r)
{
    char text[WORDS_MAX], low[WORDS_MAX];
    buf_puts(out, "<dl class=\"tiles\">\n");
    const char *bound = bound_of(r);
    const char *sure = capacity_sure(a, r->n_seeds, r->sum.low, r->sum.high);
    page_tile(out, "Capacity, requests/s", rate_text(text, r->sum.rate), bound ? bound : sure);
    if (r->has_long_run)
        page_tile(out, "In the long run, requests/s", rate_text(text, r->long_run.rate),
                  capacity_sure(a, r->n_seeds, r->long_run.low, r->long_run.high));
    if (r->n_operating) {
        page_tile(out, "Operating point, requests/s", rate_text(text, r->operating_per_s),
                  arena_printf(a, "%.0f %% of the capacity", 100 * r->load));
        page_tile(out, "Output tokens per second there",
                  rate_text(text, over_seeds(r, PROBE_PLACE(output_tokens_per_s))->mean), NULL);
        const size_t p99 = PROBE_PLACE(latency_s[SLO_TTFT][3]);
        const size_t p50 = PROBE_PLACE(latency_s[SLO_TTFT][0]);
        page_tile(out, "TTFT P99 there", words_duration(text, over_seeds(r, p99)->mean),
                  arena_printf(a, "P50 %s", words_duration(low, over_seeds(r, p50)->mean)));
    }
    buf_puts(out, "</dl>\n");
}

/* ---- results of the probes ---------------------------------------------------------------- */

struct page_point {
    double x, y;
};

static int by_x(const void *pa, const void *pb)
{
    const struct page_point *a = pa, *b = pb;
    return (a->x > b->x) - (a->x < b->x);
}

/* One field of a seed's probes over their rates, in order of rate. */
static struct svg_series seed_series(struct arena *a, const struct capacity_seed *seed,
                                     size_t place, double scale)
{
    const size_t n = seed->n;
    struct page_point *p = arena_array(a, struct page_point, n);
    double *x = arena_array(a, double, n), *y = arena_array(a, double, n);
    for (size_t i = 0; i < n; i++) {
        const void *field = (const char *)&seed->probes[i].r + place;
        p[i] = (struct page_point){seed->probes[i].rate, scale * *(const double *)field};
    }
    if (n > 0)
        qsort(p, n, sizeof *p, by_x);
    for (size_t i = 0; i < n; i++) {
        x[i] = p[i].x;
        y[i] = p[i].y;
    }
    return (struct svg_series){.name = arena_printf(a, "seed %llu", (unsigned long long)seed->seed),
                               .x = x,
                               .y = y,
                               .n = n,
                               .points = true};
}

struct figure {
    const char *title, *y_label;
    size_t field; /* of a probe */
    double scale; /* from the field to the unit of y_label */
    double asked; /* limit in that unit; NAN = none */
    double y_max; /* 0 = from the data */
};

/* Draws the field over the rate, a line per seed, with the limit as a horizontal and the capacity
 * as a vertical line. */
static void draw(struct arena *a, struct buf *out, const struct capacity_result *r,
                 const struct figure *f)
{
    struct svg_series series[MAX_SEEDS + 1];
    char text[WORDS_MAX];
    size_t k = 0;
    double most = 0, capacity = r->sum.rate;
    double ends[2] = {(double)INFINITY, 0}, levels[2] = {f->asked, f->asked};
    for (size_t i = 0; i < r->n_seeds && k < MAX_SEEDS; i++) {
        struct svg_series s = seed_series(a, &r->seeds[i], f->field, f->scale);
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
    while (p < PROBE_PERCENTILES - 1 && probe_percentiles[p] < 100 * fraction - 1e-6)
        p++;
    return p;
}

/* Uses ms below 10 s and s from there, as the objective's text. Clips values far beyond the limit,
 * which would flatten the rest. */
static void draw_latency(struct arena *a, struct buf *out, const struct capacity_result *r, int m,
                         int p, double limit_s)
{
    enum { TIMES_THE_LIMIT = 4 };
    double scale = limit_s < 10 ? 1e3 : 1;
    draw(a, out, r,
         &(struct figure){
             .title = arena_printf(a, "%s P%.0f", latencies[m].title, probe_percentiles[p]),
             .y_label = scale > 1 ? "ms" : "s",
             .field = PROBE_PLACE(latency_s[latencies[m].m][p]),
             .scale = scale,
             .asked = scale * limit_s,
             .y_max = TIMES_THE_LIMIT * scale * limit_s,
         });
}

static void figures(struct arena *a, struct buf *out, const struct capacity_result *r)
{
    const struct slo *asked = &r->params.slo;
    const int p = percentile_of(asked->fraction);
    page_section(out, "Around the capacity");
    buf_puts(out, "<div class=\"figures\">\n");
    draw(a, out, r,
         &(struct figure){.title = "Requests that meet the objective",
                          .y_label = "% of requests",
                          .field = PROBE_PLACE(good),
                          .scale = 100,
                          .asked = 100 * asked->fraction});
    for (int i = 0; i < SLO_METRICS; i++)
        if (isfinite(asked->limit_s[latencies[i].m]))
            draw_latency(a, out, r, i, p, asked->limit_s[latencies[i].m]);
    buf_puts(out, "</div>\n");
    page_tag(out, "p", "small",
             "A point is one run of the workload at that rate; latencies end at four times their "
             "limit. P%.0f is drawn for an objective of %g %% of the requests.",
             probe_percentiles[p], 100 * asked->fraction);
    if (r->n_seeds > MAX_SEEDS)
        page_tag(out, "p", "small", "The first %d of %zu seeds are drawn.", (int)MAX_SEEDS,
                 r->n_seeds);
    buf_puts(out, "</section>\n");
}

/* ---- the operating point ----------------------------------------------------------------- */

static void latency_row(struct page_table *t, const struct capacity_result *r, int m)
{
    char mean[WORDS_MAX], low[WORDS_MAX], high[WORDS_MAX];
    page_row(t);
    page_cell(t, latencies[m].title);
    for (int p = 0; p < PROBE_PERCENTILES; p++) {
        const struct capacity_mean *v = over_seeds(r, PROBE_PLACE(latency_s[latencies[m].m][p]));
        page_cell_begin(t);
        page_text(t->out, "%s", words_duration(mean, v->mean));
        if (r->n_seeds > 1)
            page_tag(t->out, "small", "range", "%s to %s", words_duration(low, v->low),
                     words_duration(high, v->high));
        page_cell_end(t);
    }
}

static void operating(struct arena *a, struct buf *out, const struct capacity_result *r)
{
    static const struct page_column columns[] = {
        {.head = ""}, {.head = "P50"}, {.head = "P90"}, {.head = "P95"}, {.head = "P99"}};
    struct page_table table;
    if (!r->n_operating)
        return;
    page_section(out,
                 arena_printf(a, "At the operating point, %.4g requests/s", r->operating_per_s));
    PAGE_TABLE(&table, out, columns);
    for (int m = 0; m < SLO_METRICS; m++)
        latency_row(&table, r, m);
    page_table_end(&table);
    page_tag(out, "p", "small", "Mean over the seeds, and the lowest and highest of them.");
    buf_puts(out, "\n</section>\n");
}

static void capacity_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct capacity_data *d = part->data;
    const struct capacity_result *r = &d->r;
    const char *model = page_value(a, d->meta, "model");
    const bool met = r->sum.rate > 0, open = r->sum.end == CAPACITY_CLIENT;
    buf_printf(out, "<header class=\"banner %s\">\n", open ? "open" : met ? "pass" : "fail");
    page_head(out, part->title,
              arena_printf(a, "%s%s%s",
                           open  ? "Inconclusive capacity"
                           : met ? "Capacity"
                                 : "No rate meets the objective",
                           model ? (met || open ? " of " : ": ") : "", model ? model : ""));
    if (r->probe)
        page_tag(out, "p", NULL, "Asked: %s", r->probe);
    if (r->objective)
        page_tag(out, "p", NULL, "Objective: %s", r->objective);
    tiles(a, out, r);
    buf_puts(out, "</header>\n");
    figures(a, out, r);
    operating(a, out, r);
    page_notes(out, "Notes", r->notes, r->n_notes);
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
    TRY(node_check_version(tree, "schema_version", 1, e));
    TRY(node_get_double(tree, "capacity_per_s", 0, 1e300, &rate, e));
    d->meta = meta;
    fields_read_loose(a, &capacity_result_fields, tree, &d->r);
    *out = (struct part){.title = arena_printf(a, "Capacity %s", id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%.4g requests/s", rate),
                         .body = capacity_body,
                         .data = d};
    return ST_OK;
}
