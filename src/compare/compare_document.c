/* A comparison of a real run with its simulation as a document, of what compare.json has: for the
 * terminal, summary.md and the page. */
#include <math.h>

#include "compare/intern.h"

static const char *const headlines[] = {
    [VERDICT_PASS] = "The simulation matches the real run",
    [VERDICT_WARN] = "The simulation is close to the real run",
    [VERDICT_INCONCLUSIVE] = "Nothing can be concluded",
    [VERDICT_FAIL] = "The simulation misses the real run",
    [VERDICT_NONE] = "Nothing could be judged",
};

/* Headline: of an inconclusive comparison, its heaviest cause. */
static const char *headline(struct arena *a, const struct comparison *c)
{
    if (c->verdict == VERDICT_NONE && c->path.is)
        return "What HTTP costs";
    const char *clause =
        c->verdict == VERDICT_INCONCLUSIVE && c->told.n_causes ? c->told.causes[0].clause : NULL;
    return clause ? compare_sentence(a, clause) : headlines[c->verdict];
}

/* The judged cell with the largest error. */
struct worst_cell {
    const struct compare_cell *cell; /* NULL = none */
    enum metric metric;
    int percentile;
};

static struct worst_cell worst_of(const struct comparison *c)
{
    struct worst_cell worst = {0};
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            const struct compare_cell *cell = &c->metrics[m].cells[p];
            if (cell->verdict == VERDICT_NONE || isnan(cell->error_percent) ||
                (worst.cell && fabs(cell->error_percent) <= fabs(worst.cell->error_percent)))
                continue;
            worst = (struct worst_cell){cell, m, p};
        }
    }
    return worst;
}

static const char *place_of(struct arena *a, const struct worst_cell *w)
{
    return arena_printf(a, "P%.0f of %s", compare_percentiles[w->percentile],
                        compare_metric_title(w->metric));
}

/* ---- tiles --------------------------------------------------------------------------------- */

static void tell_sides(struct document *d, const char *title, double real, double sim)
{
    struct arena *a = d->a;
    if (real > 0 && sim >= 0)
        document_tile(d, title, document_value(a, DOCUMENT_NUMBER, real),
                      arena_printf(a, "simulated %s (%s)", document_value(a, DOCUMENT_NUMBER, sim),
                                   document_value(a, DOCUMENT_CHANGE, 100 * (sim - real) / real)));
}

static void tell_tiles(struct document *d, const struct comparison *c)
{
    const struct worst_cell worst = worst_of(c);
    document_tile(d, "Verdict", verdict_name(c->verdict),
                  arena_printf(d->a, "limits: pass up to %g %%, warn up to %g %%",
                               c->params.pass_percent, c->params.warn_percent));
    if (worst.cell)
        document_tile(d, "Largest judged error",
                      document_value(d->a, DOCUMENT_CHANGE, worst.cell->error_percent),
                      arena_printf(d->a, "at %s", place_of(d->a, &worst)));
    document_tile(d, "Requests compared",
                  document_value(d->a, DOCUMENT_COUNT, compare_known(c->n_aligned)), NULL);
    tell_sides(d, "Output tokens per second", c->real_metrics.output_tokens_per_s,
               c->sim_metrics.output_tokens_per_s);
    tell_sides(d, "Requests per second", c->real_metrics.requests_per_s,
               c->sim_metrics.requests_per_s);
    tell_sides(d, "J per output token", c->energy.per_token.real, c->energy.per_token.sim);
}

/* ---- percentiles --------------------------------------------------------------------------- */

static bool has_uncertainty(const struct comparison *c)
{
    for (enum metric m = 0; m < METRICS; m++)
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            if (isfinite(c->metrics[m].cells[p].sim_low_ns))
                return true;
    return false;
}

static void add_interval(struct document_table *t, double low_ns, double high_ns)
{
    if (low_ns <= high_ns)
        document_words(t, "%s .. %s", document_value(t->a, DOCUMENT_NS_AS_MS, low_ns),
                       document_value(t->a, DOCUMENT_NS_AS_MS, high_ns));
    else
        document_words(t, "n/a");
}

static struct document_table *percentiles(struct arena *a, const struct comparison *c)
{
    static const char *const meaning[METRICS] = {
        [METRIC_TTFT] = "time to first token",
        [METRIC_TOKEN_LATENCY] = "gaps between tokens",
        [METRIC_TPOT] = "time per output token of a request",
        [METRIC_E2E] = "arrival to last token",
    };
    const bool spread = c->params.n_spread > 0, uncertainty = has_uncertainty(c);
    const char *second = !c->path.is       ? "simulated, ms" /* else two real runs */
                         : c->path.real_is ? "without HTTP, ms"
                                           : "over HTTP, ms";
    struct document_column *columns = arena_array(a, struct document_column, 8);
    size_t n = 0;
    columns[n++] = (struct document_column){.title = "percentile", .kind = DOCUMENT_LABEL};
    columns[n++] =
        (struct document_column){.title = "real, ms", .kind = DOCUMENT_NS_AS_MS, .series = 1};
    columns[n++] =
        (struct document_column){.title = second, .kind = DOCUMENT_NS_AS_MS, .series = 2};
    columns[n++] =
        (struct document_column){.title = "error", .kind = DOCUMENT_CHANGE, .picture = "error"};
    columns[n++] = (struct document_column){
        .title = "95 % interval of real, ms", .kind = DOCUMENT_LABEL, .under = true};
    if (uncertainty)
        columns[n++] = (struct document_column){
            .title = "95 % interval of simulated, ms", .kind = DOCUMENT_LABEL, .under = true};
    if (spread)
        columns[n++] =
            (struct document_column){.title = "spread of real", .kind = DOCUMENT_PERCENT};
    columns[n++] = (struct document_column){.title = "verdict"};
    struct document_table *t = document_table_new(a, columns, n);
    for (enum metric m = 0; m < METRICS; m++) {
        document_group(t, "metric", compare_metric_title(m), meaning[m]);
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            const struct compare_cell *cell = &c->metrics[m].cells[p];
            document_row(t);
            document_words(t, "P%.0f", compare_percentiles[p]);
            document_number(t, cell->real_ns);
            document_number(t, cell->sim_ns);
            document_number(t, cell->error_percent)->of = cell;
            add_interval(t, cell->real_low_ns, cell->real_high_ns);
            if (uncertainty)
                add_interval(t, cell->sim_low_ns, cell->sim_high_ns);
            if (spread)
                document_number(t, cell->spread_percent);
            document_words(t, "%s%s%s", verdict_name(cell->verdict), cell->why ? ": " : "",
                           cell->why ? cell->why : "")
                ->tone = compare_tones[cell->verdict];
        }
    }
    return t;
}

struct table *compare_table(struct arena *a, const struct comparison *c)
{
    const struct comparison shown = compare_shown(a, c);
    return document_plain(percentiles(a, &shown));
}

static void tell_percentiles(struct document *d, const struct comparison *c)
{
    document_section(d, "Real and simulated");
    document_add(d, percentiles(d->a, c));
    document_remark(d, "Error = (simulated - real) / real.");
    document_figure(d, "legend");
    if (c->params.n_spread)
        document_remark(
            d, "The spread is (max - min) / median over %zu real runs on the same arrivals.",
            c->params.n_spread + 1);
    else
        document_remark(d, "One real run: its run-to-run spread is unknown. The intervals say how "
                           "well its requests pin each percentile down.");
    if (has_uncertainty(c))
        document_remark(
            d, "The intervals of simulated percentiles come from the errors of the profile.");
}

/* ---- diagnosis ----------------------------------------------------------------------------- */

static void tell_list(struct document *d, const char *title, const char *const *lines, size_t n)
{
    document_section(d, title);
    for (size_t i = 0; i < n; i++)
        document_note(d, lines[i]);
}

static void add_part(struct document_table *t, const struct compare_part *p)
{
    document_row(t)->detail = p->detail;
    document_words(t, "%s", p->name ? p->name : "");
    document_number(t, p->real_s);
    document_number(t, p->sim_s);
    document_number(t, p->real_s > 0 ? 100 * (p->sim_s - p->real_s) / p->real_s : (double)NAN);
    document_number(t, p->share);
    document_number(t, compare_known((size_t)p->real_n));
    document_number(t, compare_known((size_t)p->sim_n));
    document_number(t, p->real_host_s);
    document_number(t, p->sim_host_s);
}

static void tell_diagnosis(struct document *d, const struct comparison *c)
{
    static const struct document_column columns[] = {
        {.title = "part"},
        {.title = "real", .kind = DOCUMENT_S, .series = 1},
        {.title = "simulated", .kind = DOCUMENT_S, .series = 2},
        {.title = "change", .kind = DOCUMENT_CHANGE},
        {.title = "share", .kind = DOCUMENT_SHARE},
        {.title = "n", .kind = DOCUMENT_COUNT},
        {.title = "n simulated", .kind = DOCUMENT_COUNT},
        {.title = "real host", .kind = DOCUMENT_S, .series = 1},
        {.title = "simulated host", .kind = DOCUMENT_S, .series = 2}};
    const struct worst_cell worst = worst_of(c);
    if (!c->diagnosed || !worst.cell)
        return;
    document_section(d, "Where the difference comes from");
    document_remark(d, "Looked into: %s, %s.", place_of(d->a, &worst),
                    document_value(d->a, DOCUMENT_CHANGE, worst.cell->error_percent));
    for (size_t i = 0; i < c->n_findings; i++)
        document_finding(d, NULL, NULL, c->findings[i]);
    if (!c->n_parts)
        return;
    struct document_table *t = document_table(d, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < c->n_parts; i++)
        add_part(t, &c->parts[i]);
    document_remark(d, "Mean time of like batches at the real run's mix. Share: of the part of the "
                       "batch times that pulls in the error's direction; negative shares pull "
                       "against it.");
}

/* ---- all of it ----------------------------------------------------------------------------- */

struct comparison compare_shown(struct arena *a, const struct comparison *c)
{
    struct comparison shown;
    fields_read_loose(a, &comparison_fields, compare_node(a, c), &shown);
    return shown;
}

struct document *compare_document(struct arena *a, const struct comparison *c, const char *title)
{
    struct document *d = document_new(a, title, headline(a, c));
    d->tone = compare_tones[c->verdict];
    tell_tiles(d, c);
    compare_tell_causes(d, &c->told);
    tell_list(d, "What HTTP costs", c->path.lines, c->path.n_lines);
    tell_percentiles(d, c);
    tell_list(d, "Energy", c->energy.lines, c->energy.n_lines);
    tell_diagnosis(d, c);
    document_section(d, "Distributions");
    document_figure(d, "distributions");
    document_section(d, "Over time");
    document_figure(d, "over_time");
    document_section(d, "Runs");
    document_fact(d, "Real", c->real.dir);
    document_fact(d, "Simulated", c->sim.dir);
    for (size_t i = 0; i < c->params.n_spread; i++)
        document_fact(d, "Spread run", c->params.spread_dirs[i]);
    tell_list(d, "Notes", c->notes, c->n_notes);
    return d;
}
