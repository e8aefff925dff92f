/* Page of one run: throughput and distributions of latencies. */
#include <math.h>
#include <string.h>

#include "compare/compare.h"
#include "metrics/server_metrics.h"
#include "report/page.h"
#include "serve/serve.h"

struct run_data {
    struct run run;
    struct run_metrics metrics;
    struct serve_counters counters;
    struct series delay; /* first batch - planned arrival, of the requests measured */
    struct time_series_row *rows;
    size_t n_rows;
    struct curves *curves;
    struct compare_uncertainty uncertainty;
    const struct server_metrics *server; /* NULL = none */
    bool simulated;
};

static const char *rate_text(struct arena *a, double v)
{
    if (!isfinite(v))
        return "n/a";
    return arena_printf(a, v >= 100 ? "%.0f" : v >= 1 || v == 0 ? "%.2f" : "%.3g", v);
}

static void tiles(struct arena *a, struct buf *out, const struct run_data *d)
{
    const struct run_metrics *m = &d->metrics;
    char text[WORDS_MAX];
    buf_puts(out, "<dl class=\"tiles\">\n");
    const char *warmup = m->n_warmup ? arena_printf(a, "%zu warm-up", m->n_warmup) : NULL;
    const char *not_ok = m->n_not_ok ? arena_printf(a, "%zu not ok", m->n_not_ok) : NULL;
    page_tile(out, "Requests measured", words_count(text, (int64_t)m->n_requests),
              warmup && not_ok ? arena_printf(a, "%s, %s", warmup, not_ok)
              : warmup         ? warmup
                               : not_ok);
    page_tile(out, "Output tokens per second", rate_text(a, m->output_tokens_per_s),
              arena_printf(a, "%s tokens", words_count(text, m->output_tokens)));
    page_tile(out, "Requests per second", rate_text(a, m->requests_per_s),
              isfinite(m->duration_s)
                  ? arena_printf(a, "in %s", words_duration(text, m->duration_s))
                  : NULL);
    const double blocks = (double)d->counters.kv_blocks, most = (double)d->counters.kv_blocks_peak;
    if (blocks > 0)
        page_tile(out, "KV cache, at most", words_percent(text, 100 * most / blocks),
                  arena_printf(a, "%.0f of %.0f blocks", most, blocks));
    buf_puts(out, "</dl>\n");
}

static void latency_row(struct page_table *t, const struct run_data *d, int m, const char *title,
                        const struct series *s)
{
    char text[WORDS_MAX];
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->ns[i];
    page_row(t);
    page_cell(t, title);
    page_cell_count(t, (double)s->n);
    for (int p = 0; p < COMPARE_PERCENTILES; p++) {
        double v = s->n ? stats_percentile(s->ns, s->n, compare_percentiles[p]) / 1e9 : (double)NAN;
        page_cell_begin(t);
        page_text(t->out, "%s", words_duration(text, v));
        if (isfinite(d->uncertainty.low[m][p]))
            page_tag(t->out, "small", "range", "%+.1f / %+.1f %%",
                     100 * (d->uncertainty.low[m][p] - 1), 100 * (d->uncertainty.high[m][p] - 1));
        page_cell_end(t);
    }
    page_cell_duration(t, s->n ? sum / (double)s->n / 1e9 : (double)NAN);
    page_cell_duration(t, s->n ? s->ns[s->n - 1] / 1e9 : (double)NAN);
}

static void latencies(struct arena *a, struct buf *out, const struct run_data *d)
{
    enum { BEFORE = 2, COLUMNS = BEFORE + COMPARE_PERCENTILES + 2 };
    struct page_column columns[COLUMNS] = {{.head = ""},
                                           {.head = "n"},
                                           [COLUMNS - 2] = {.head = "mean"},
                                           [COLUMNS - 1] = {.head = "most"}};
    struct page_table t;
    for (int p = 0; p < COMPARE_PERCENTILES; p++)
        columns[BEFORE + p].head = arena_printf(a, "P%.0f", compare_percentiles[p]);
    page_section(out, "Latencies");
    PAGE_TABLE(&t, out, columns);
    for (enum metric m = 0; m < METRICS; m++)
        latency_row(&t, d, (int)m, compare_metric_title(m), &d->metrics.of[m]);
    if (d->delay.n)
        latency_row(&t, d, UNCERTAINTY_DELAY, "Scheduling delay", &d->delay);
    page_table_end(&t);
    if (d->uncertainty.known)
        page_tag(out, "p", "small",
                 "Below each percentile: the ends of its 95 %% interval, from the errors of the "
                 "profile (sim.replicas_mc).");
    if (d->metrics.n_early_stop)
        page_tag(out, "p", "small",
                 "%zu requests ended before the length asked for (end of sequence).",
                 d->metrics.n_early_stop);
    buf_puts(out, "\n</section>\n");
}

static void run_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct run_data *d = part->data;
    const char *model = page_value(a, d->run.meta, "model");
    const char *engine = page_value(a, d->run.meta, "backend");
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title,
              arena_printf(a, "%s%s%s", d->simulated ? "Simulated run" : "Real run",
                           model ? " of " : "", model ? model : ""));
    if (engine)
        page_tag(out, "p", NULL, "Engine: %s", engine);
    page_server(a, out, d->run.meta);
    const struct node *uncalibrated = node_find(d->run.meta, "uncalibrated");
    if (uncalibrated && uncalibrated->kind == NODE_BOOL && uncalibrated->b)
        page_tag(out, "p", NULL, "Uncalibrated: no measurement stands behind these times.");
    tiles(a, out, d);
    buf_puts(out, "</header>\n");
    page_client(a, out, d->run.meta);
    page_server_metrics(a, out, d->server);
    page_failures(out, &d->run);
    latencies(a, out, d);
    page_figures(out, "Distributions", d->curves, 0, METRICS);
    if (d->n_rows)
        page_load(a, out, d->rows, d->n_rows, (double)d->counters.kv_blocks);
    else
        page_figures(out, "Over time", d->curves, METRICS, CURVES_FIGURES);
    page_iterations(a, out, &d->run);
    page_note_list(a, out, "Notes", node_find(d->run.meta, "notes"));
    page_facts(a, out, "What was run", NULL, &d->run.meta, 1);
}

/* From the planned arrival to the first batch: the part of TTFT that is queueing. */
static void collect_delays(struct arena *a, struct run_data *d)
{
    size_t n = d->run.n_requests;
    double *scratch = mem_alloc(n * sizeof *scratch);
    d->delay.ns = arena_array(a, double, n);
    for (size_t i = 0; i < n; i++) {
        const struct run_request *r = &d->run.requests[i];
        if (r->status == RUN_OK && !r->warmup && r->scheduled_ns != RUN_NONE)
            d->delay.ns[d->delay.n++] = (double)(r->scheduled_ns - r->arrival_ns);
    }
    stats_sort(d->delay.ns, scratch, d->delay.n);
    mem_free(scratch);
}

enum st part_run(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                 struct err *e)
{
    struct run_data *d = arena_one(a, struct run_data);
    const char *id = page_value(a, meta, "run_id"), *type = page_value(a, meta, "run_type");
    const struct metrics_params all = {0};
    TRY(run_load(a, dir, NULL, &d->run, e));
    fields_read_loose(a, &serve_counters_fields, node_find(d->run.meta, "counters"), &d->counters);
    TRY(metrics_from_run(a, &d->run, &all, &d->metrics, e));
    TRY(time_series_load(a, dir, &d->rows, &d->n_rows, e));
    TRY(compare_uncertainty_read(a, dir, &d->uncertainty, e));
    TRY(server_metrics_load(a, dir, &d->server, e));
    collect_delays(a, d);
    d->simulated = type && strcmp(type, "vidur") == 0;
    d->curves = curves_new(a, 1, (const char *const[]){d->simulated ? "simulated" : "real"},
                           (const struct run *const[]){&d->run},
                           (const struct run_metrics *const[]){&d->metrics});
    *out = (struct part){.title = arena_printf(a, "Run %s", id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%s, %zu requests",
                                                d->simulated ? "simulated" : "real",
                                                d->metrics.n_requests),
                         .body = run_body,
                         .data = d};
    return ST_OK;
}
