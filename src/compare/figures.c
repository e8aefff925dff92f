#include "compare/curves.h"
#include "text/svg.h"

/* Half a page wide on a screen, a whole one on a phone: text stays readable in both. */
enum { WIDTH = 400, HEIGHT = 280 };
enum { RUNNING = METRICS, WAITING };

static const struct {
    const char *name, *title, *x_label, *y_label;
} figures[CURVES_FIGURES] = {
    [METRIC_TTFT] = {"ttft_cdf", "TTFT", "ms", "% of requests"},
    [METRIC_TOKEN_LATENCY] = {"token_latency_cdf", "Per-token latency", "ms", "% of tokens"},
    [METRIC_TPOT] = {"tpot_cdf", "TPOT", "ms", "% of requests"},
    [METRIC_E2E] = {"e2e_cdf", "E2E", "ms", "% of requests"},
    [RUNNING] = {"running", "Sequences running", "s", "sequences in the batch"},
    [WAITING] = {"waiting", "Requests waiting", "s", "not in a batch yet"},
};

const char *curves_figure_name(int i)
{
    return figures[i].name;
}

static bool has_data(const struct run_curves *c, int i)
{
    return i == RUNNING ? c->has_running : i == WAITING ? c->has_waiting : c->has[i];
}

static size_t fill(const struct curves *c, const struct run_curves *r, int i, double *x, double *y)
{
    if (i >= METRICS) {
        for (int k = 0; k < CURVES_BINS; k++) {
            x[k] = (k + 0.5) * c->bin_s;
            y[k] = i == RUNNING ? r->running[k] : r->waiting[k];
        }
        return CURVES_BINS;
    }
    for (int k = 0; k < CURVES_QUANTILES; k++) {
        x[k] = r->ns[i][k] / 1e6;
        y[k] = 100.0 * k / (CURVES_QUANTILES - 1);
    }
    return CURVES_QUANTILES;
}

/* Whether to use a logarithmic axis: a long tail would squeeze the rest into the left edge. */
static bool long_tail(const struct curves *c, int i)
{
    enum { LONG = 4 };
    for (int k = 0; i < METRICS && k < c->n_runs; k++) {
        const double *ns = c->of[k].ns[i];
        if (ns[0] > 0 && ns[CURVES_QUANTILES - 1] > LONG * ns[CURVES_QUANTILES / 2])
            return true;
    }
    return false;
}

bool curves_figure(const struct curves *c, int i, struct buf *svg)
{
    double x[CURVES_MAX_RUNS][CURVES_QUANTILES], y[CURVES_MAX_RUNS][CURVES_QUANTILES];
    struct svg_series series[CURVES_MAX_RUNS];
    int with_data = 0;
    for (int k = 0; k < c->n_runs; k++)
        with_data += has_data(&c->of[k], i);
    if (with_data == 0 || (c->n_runs <= 2 && with_data < c->n_runs))
        return false;
    for (int k = 0; k < c->n_runs; k++) {
        series[k] =
            (struct svg_series){.name = c->names[k],
                                .x = x[k],
                                .y = y[k],
                                .n = has_data(&c->of[k], i) ? fill(c, &c->of[k], i, x[k], y[k]) : 0,
                                .dashed = k > 0 && c->n_runs == 2};
    }
    svg_chart(svg, &(struct svg_chart){.title = figures[i].title,
                                       .x_label = figures[i].x_label,
                                       .y_label = figures[i].y_label,
                                       .width = WIDTH,
                                       .height = HEIGHT,
                                       .log_x = long_tail(c, i),
                                       .y_max = i < METRICS ? 100 : 0,
                                       .series = series,
                                       .n_series = (size_t)c->n_runs});
    return true;
}
