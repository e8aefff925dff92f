/* Page of a workload: number, arrivals and lengths of requests. */
#include <math.h>
#include <stdlib.h>

#include "base/order.h"
#include "report/page.h"
#include "text/svg.h"
#include "workload/workload.h"

enum { N_SERIES = 3 };

struct workload_data {
    struct workload w;
    const struct node *meta;
    double *sorted[N_SERIES]; /* prefill tokens, decode tokens, gaps in s; ascending */
    double mean[N_SERIES], deviation[N_SERIES];
    size_t n[N_SERIES];
    int64_t sessions;
};

static void describe(struct workload_data *d)
{
    for (int k = 0; k < N_SERIES; k++) {
        double sum = 0, squares = 0;
        qsort(d->sorted[k], d->n[k], sizeof(double), order_double);
        for (size_t i = 0; i < d->n[k]; i++)
            sum += d->sorted[k][i];
        d->mean[k] = d->n[k] ? sum / (double)d->n[k] : (double)NAN;
        for (size_t i = 0; i < d->n[k]; i++)
            squares += (d->sorted[k][i] - d->mean[k]) * (d->sorted[k][i] - d->mean[k]);
        d->deviation[k] = d->n[k] ? sqrt(squares / (double)d->n[k]) : (double)NAN;
    }
}

static void collect(struct arena *a, struct workload_data *d)
{
    size_t n = d->w.n;
    int64_t before_ns = 0;
    for (int k = 0; k < N_SERIES; k++)
        d->sorted[k] = arena_array(a, double, n);
    for (size_t i = 0; i < n; i++) {
        const struct workload_request *r = &d->w.requests[i];
        d->sorted[0][d->n[0]++] = (double)r->num_prefill_tokens;
        d->sorted[1][d->n[1]++] = (double)r->num_decode_tokens;
        d->sessions += r->turn == 1;
        if (r->turn > 1) /* its moment is not known before the run */
            continue;
        if (i > 0)
            d->sorted[2][d->n[2]++] = (double)(r->arrival_ns - before_ns) / 1e9;
        before_ns = r->arrival_ns;
    }
    describe(d);
}

static void tiles(struct arena *a, struct buf *out, const struct workload_data *d)
{
    char text[WORDS_MAX];
    double rate = d->mean[2] > 0 ? 1 / d->mean[2] : (double)NAN;
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, "Requests", words_count(text, (int64_t)d->w.n), NULL);
    if (d->sessions)
        page_tile(out, "Sessions", words_count(text, d->sessions),
                  arena_printf(a, "%.1f requests each", (double)d->w.n / (double)d->sessions));
    if (d->w.concurrency)
        page_tile(out, "Closed loop", concurrency_text(a, d->w.concurrency),
                  d->sessions ? "sessions at once" : "requests at once");
    else if (isnan(rate))
        page_tile(out, "Arrivals", "all at once", NULL);
    else
        page_tile(out, d->sessions ? "Sessions per second" : "Requests per second",
                  arena_printf(a, "%.2f", rate),
                  arena_printf(a, "gaps vary by %.2f (1 = Poisson)", d->deviation[2] / d->mean[2]));
    page_tile(out, "Tokens per request", arena_printf(a, "%.0f + %.0f", d->mean[0], d->mean[1]),
              "mean prompt + output");
    buf_puts(out, "</dl>\n");
}

static void figures(struct arena *a, struct buf *out, const struct workload_data *d)
{
    size_t n = d->w.n, n_arrived = 0;
    double *share = arena_array(a, double, n), *time = arena_array(a, double, n);
    double *arrived = arena_array(a, double, n);
    for (size_t i = 0; i < n; i++) {
        share[i] = 100 * (double)(i + 1) / (double)n;
        if (d->w.requests[i].turn > 1)
            continue;
        time[n_arrived] = (double)d->w.requests[i].arrival_ns / 1e9;
        n_arrived++;
        arrived[n_arrived - 1] = (double)n_arrived;
    }
    const struct svg_series lengths[] = {
        {.name = "prompt", .x = d->sorted[0], .y = share, .n = n, .step = true},
        {.name = "output", .x = d->sorted[1], .y = share, .n = n, .step = true, .dashed = true}};
    const struct svg_series arrivals[] = {
        {.name = "arrived", .x = time, .y = arrived, .n = n_arrived, .step = true}};
    page_section(out, d->w.concurrency ? "Lengths" : "Lengths and arrivals");
    buf_puts(out, "<div class=\"figures\">\n");
    page_chart(out, &(struct svg_chart){.title = "Tokens per request",
                                        .x_label = "tokens",
                                        .y_label = "% of requests",
                                        .y_max = 100,
                                        .series = lengths,
                                        .n_series = 2});
    if (!d->w.concurrency)
        page_chart(
            out, &(struct svg_chart){.title = "Arrivals",
                                     .x_label = "s",
                                     .y_label = d->sessions ? "sessions begun" : "requests arrived",
                                     .series = arrivals,
                                     .n_series = 1});
    buf_puts(out, "</div>\n</section>\n");
}

static void workload_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct workload_data *d = part->data;
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title,
              d->w.model ? arena_printf(a, "Requests for %s", d->w.model) : "Requests");
    tiles(a, out, d);
    buf_puts(out, "</header>\n");
    if (d->w.n)
        figures(a, out, d);
    page_facts(a, out, "How it was made", NULL, &d->meta, 1);
}

enum st part_workload(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                      struct err *e)
{
    struct workload_data *d = arena_one(a, struct workload_data);
    TRY(workload_load(a, dir, &d->w, e));
    d->meta = meta;
    collect(a, d);
    *out = (struct part){.title = arena_printf(a, "Workload %s", d->w.id ? d->w.id : fs_base(dir)),
                         .remark = arena_printf(a, "%zu requests", d->w.n),
                         .body = workload_body,
                         .data = d};
    return ST_OK;
}
