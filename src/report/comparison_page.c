/* Page of a comparison, from compare.json and its curves alone. Numbers that are missing or of the
 * wrong kind are shown as n/a. */
#include <math.h>
#include <string.h>

#include "compare/compare.h"
#include "report/page.h"
#include "text/json.h"

struct comparison_data {
    struct comparison c; /* as compare.json has it */
    const struct node *meta;
    const struct curves *curves;
    double pass, warn;
};

static const struct {
    const char *name, *class, *sign, *headline;
} looks[] = {
    [VERDICT_PASS] = {"pass", "pass", "✓", "The simulation matches the real run"},
    [VERDICT_WARN] = {"warn", "close", "!", "The simulation is close to the real run"},
    [VERDICT_INCONCLUSIVE] = {"inconclusive", "open", "?", "Nothing can be concluded"},
    [VERDICT_FAIL] = {"fail", "fail", "×", "The simulation misses the real run"},
    [VERDICT_NONE] = {"not judged", "none", "–", "Nothing could be judged"},
};

static void badge(struct buf *out, enum verdict v)
{
    buf_printf(out, "<span class=\"badge %s\"><b aria-hidden=\"true\">%s</b> %s</span>",
               looks[v].class, looks[v].sign, looks[v].name);
}

/* ---- headline ------------------------------------------------------------------------------ */

/* The judged cell with the largest error; NULL when there is none. */
static const struct compare_cell *worst_cell(const struct comparison *c, enum metric *metric,
                                             int *percentile)
{
    const struct compare_cell *worst = NULL;
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            const struct compare_cell *cell = &c->metrics[m].cells[p];
            if (cell->verdict == VERDICT_NONE || isnan(cell->error_percent) ||
                (worst && fabs(cell->error_percent) <= fabs(worst->error_percent)))
                continue;
            worst = cell;
            *metric = m;
            *percentile = p;
        }
    }
    return worst;
}

/* Headline: of an inconclusive comparison, its heaviest cause. */
static const char *headline(struct arena *a, const struct comparison *c)
{
    if (c->verdict == VERDICT_NONE && c->path.is)
        return "What HTTP costs";
    const char *clause =
        c->verdict == VERDICT_INCONCLUSIVE && c->told.n_causes ? c->told.causes[0].clause : NULL;
    return clause ? page_sentence(a, clause) : looks[c->verdict].headline;
}

static void banner(struct arena *a, struct buf *out, const struct comparison_data *d)
{
    const struct comparison *c = &d->c;
    const char *id = page_value(a, d->meta, "run_id");
    char text[WORDS_MAX], real[WORDS_MAX], sim[WORDS_MAX];
    buf_printf(out, "<header class=\"banner %s\">\n", looks[c->verdict].class);
    page_tag(out, "p", "eyebrow", "Comparison%s%s", id ? " " : "", id ? id : "");
    buf_puts(out, "<h1>");
    page_text(out, "%s", headline(a, c));
    buf_puts(out, "</h1>\n<p>");
    badge(out, c->verdict);
    buf_puts(out, " ");
    enum metric m;
    int p;
    const struct compare_cell *worst = worst_cell(c, &m, &p);
    if (worst)
        page_text(out, "Largest judged error: %s at P%.0f of %s. ",
                  words_change(text, worst->error_percent), compare_percentiles[p],
                  compare_metric_title(m));
    page_text(out, "Pass is up to %g\u00a0%%, warn up to %g\u00a0%%.", d->pass, d->warn);
    buf_puts(out, "</p>\n");
    page_causes(a, out, &c->told);
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, "Requests compared", page_count(text, page_known(c->n_aligned)), NULL);
    const struct run_metrics *on_real = &c->real_metrics, *on_sim = &c->sim_metrics;
    const struct {
        const char *label;
        double real, sim;
    } rates[] = {
        {"Output tokens per second", on_real->output_tokens_per_s, on_sim->output_tokens_per_s},
        {"Requests per second", on_real->requests_per_s, on_sim->requests_per_s}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double r = rates[i].real, s = rates[i].sim;
        if (isnan(r) || isnan(s))
            continue;
        snprintf(real, sizeof real, r < 100 ? "%.2f" : "%.0f", r);
        snprintf(sim, sizeof sim, s < 100 ? "%.2f" : "%.0f", s);
        page_tile(out, rates[i].label, real,
                  arena_printf(a, "simulated %s (%s)", sim, words_change(text, 100 * (s - r) / r)));
    }
    const struct compare_energy_of *j = &c->energy.per_token;
    if (j->real > 0 && j->sim > 0)
        page_tile(
            out, "J per output token", arena_printf(a, "%.4g", j->real),
            arena_printf(a, "simulated %.4g (%s)", j->sim, words_change(text, j->error_percent)));
    buf_puts(out, "</dl>\n</header>\n");
}

/* ---- the key table ------------------------------------------------------------------------- */

/* Unit and decimals that suit all values of a metric: its smallest has three digits. */
struct unit_scale {
    const char *unit;
    double per_ns;
    int decimals;
};

static struct unit_scale scale_of(const struct compare_cell cells[COMPARE_PERCENTILES])
{
    double smallest = INFINITY;
    for (int p = 0; p < COMPARE_PERCENTILES; p++) {
        double r = cells[p].real_ns, s = cells[p].sim_ns;
        smallest = r > 0 && r < smallest ? r : smallest;
        smallest = s > 0 && s < smallest ? s : smallest;
    }
    struct unit_scale scale = {"ms", 1e-6, 0};
    if (smallest < 1e5)
        scale = (struct unit_scale){"µs", 1e-3, 0};
    else if (isfinite(smallest) && smallest >= 1e10)
        scale = (struct unit_scale){"s", 1e-9, 0};
    double v = smallest * scale.per_ns;
    scale.decimals = v >= 1000 ? 0 : v >= 100 ? 1 : v >= 1 ? 2 : 3;
    return scale;
}

static void scaled(struct buf *out, double ns, const struct unit_scale *s)
{
    if (isnan(ns))
        buf_puts(out, "<td class=\"num none\">n/a</td>");
    else
        buf_printf(out, "<td class=\"num\">%.*f</td>", s->decimals, ns * s->per_ns);
}

static double clamp(double v, double limit)
{
    return v > limit ? limit : v < -limit ? -limit : v;
}

enum { TRACK_WIDTH = 200, TRACK_HEIGHT = 12 };

static void zone(struct buf *out, const char *class, double end, double from, double to)
{
    double px = TRACK_WIDTH / (2 * end);
    buf_printf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%s\" width=\"%.1f\" height=\"%s\"/>", class,
               (from + end) * px, class[0] == 'i' ? "5" : "1", (to - from) * px,
               class[0] == 'i' ? "2" : "10");
}

/* The error as a dot on a scale from -2 to +2 warn limits; behind it the zones of the limits and,
 * as a line, the 95 % interval of the real percentile. */
static void track(struct buf *out, const struct comparison_data *d, const struct compare_cell *cell)
{
    double error = cell->error_percent, real = cell->real_ns;
    double end = 2 * d->warn, low = cell->real_low_ns, high = cell->real_high_ns;
    if (isnan(error) || !(end > 0))
        return;
    buf_printf(out,
               "<svg class=\"track\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
               "preserveAspectRatio=\"none\" aria-hidden=\"true\">",
               TRACK_WIDTH, TRACK_HEIGHT, TRACK_WIDTH, TRACK_HEIGHT);
    zone(out, "outer", end, -d->warn, d->warn);
    zone(out, "band", end, -d->pass, d->pass);
    if (real > 0 && low <= high)
        zone(out, "interval", end, clamp(100 * (low - real) / real, end),
             clamp(100 * (high - real) / real, end));
    /* A dot drawn as a line cap stays round where a narrow screen squeezes the scale. */
    double at = TRACK_WIDTH * (clamp(error, 0.95 * end) + end) / (2 * end);
    buf_printf(out,
               "<path class=\"ring\" d=\"M%.1f 6h0\"/><path class=\"dot\" d=\"M%.1f 6h0\"/></svg>",
               at, at);
}

/* Scale of the strips below: both ends and 0. */
static void track_scale(struct buf *out, const struct comparison_data *d)
{
    double end = 2 * d->warn;
    if (!(end > 0))
        return;
    buf_printf(out,
               "<svg class=\"track scale\" width=\"%d\" height=\"14\"><text y=\"11\">−%g</text>"
               "<text x=\"50%%\" y=\"11\" text-anchor=\"middle\">0</text>"
               "<text x=\"100%%\" y=\"11\" text-anchor=\"end\">+%g</text></svg>",
               TRACK_WIDTH, end, end);
}

static void key_rows(struct buf *out, const struct comparison_data *d, enum metric m)
{
    static const char *const meaning[METRICS] = {
        [METRIC_TTFT] = "time to first token",
        [METRIC_TOKEN_LATENCY] = "gaps between tokens",
        [METRIC_TPOT] = "time per output token of a request",
        [METRIC_E2E] = "arrival to last token",
    };
    const struct compare_cell *cells = d->c.metrics[m].cells;
    struct unit_scale s = scale_of(cells);
    buf_puts(out, "<tr class=\"group\"><th colspan=\"5\" scope=\"rowgroup\">");
    page_text(out, "%s", compare_metric_title(m));
    page_tag(out, "small", NULL, " %s, in %s", meaning[m], s.unit);
    buf_puts(out, "</th></tr>\n");
    for (int p = 0; p < COMPARE_PERCENTILES; p++) {
        const struct compare_cell *cell = &cells[p];
        char text[WORDS_MAX];
        buf_puts(out, "<tr>");
        buf_printf(out, "<th scope=\"row\">P%.0f</th>", compare_percentiles[p]);
        scaled(out, cell->real_ns, &s);
        scaled(out, cell->sim_ns, &s);
        buf_puts(out, "<td class=\"error\"><span class=\"num\">");
        page_text(out, "%s", words_change(text, cell->error_percent));
        buf_puts(out, "</span>");
        track(out, d, cell);
        buf_puts(out, "</td><td>");
        badge(out, cell->verdict);
        buf_puts(out, "</td></tr>\n");
    }
}

static void key_table(struct buf *out, const struct comparison_data *d)
{
    page_section(out, "Real and simulated");
    buf_puts(out, "<div class=\"scroll\"><table class=\"key\">\n");
    buf_puts(out, "<thead><tr><td></td><th class=\"num real\">real</th>"
                  "<th class=\"num sim\">simulated</th>"
                  "<th class=\"error\"><span class=\"num\">error, %</span>");
    track_scale(out, d);
    buf_puts(out, "</th><th>verdict</th></tr></thead>\n<tbody>\n");
    for (enum metric m = 0; m < METRICS; m++)
        key_rows(out, d, m);
    buf_puts(out, "</tbody></table></div>\n");
    page_tag(out, "p", "small",
             "Error = (simulated − real) / real. On the scale beside it the dark band is "
             "pass, the light one warn, the line the 95 %% interval of the real percentile, "
             "the dot the simulation. It ends at twice the limit of warn, ±%g %%; what is beyond "
             "stands at its end.",
             2 * d->warn);
    buf_puts(out, "\n</section>\n");
}

/* ---- diagnosis ----------------------------------------------------------------------------- */

static void part_row(struct page_table *t, const struct compare_part *part)
{
    double real = part->real_s, sim = part->sim_s;
    char text[WORDS_MAX];
    if (part->detail)
        page_row_of(t, "detail");
    else
        page_row(t);
    page_cell(t, part->name ? part->name : "");
    page_cell_duration(t, real);
    page_cell_duration(t, sim);
    page_cell(t, words_change(text, real > 0 ? 100 * (sim - real) / real : (double)NAN));
    page_cell(t, words_share(text, part->share));
    page_cell_count(t, page_known((size_t)part->real_n));
    page_cell_duration(t, part->real_host_s);
    page_cell_duration(t, part->sim_host_s);
}

static void diagnosis(struct buf *out, const struct comparison *c)
{
    enum metric m;
    int p;
    const struct compare_cell *worst = worst_cell(c, &m, &p);
    if (!c->diagnosed || !worst)
        return;
    char text[WORDS_MAX];
    page_section(out, "Where the difference comes from");
    page_tag(out, "p", "small", "Looked into: %s at P%.0f, %s.", compare_metric_title(m),
             compare_percentiles[p], words_change(text, worst->error_percent));
    buf_puts(out, "<ol class=\"findings\">\n");
    for (size_t i = 0; i < c->n_findings; i++) {
        page_tag(out, "li", NULL, "%s", c->findings[i]);
        buf_puts(out, "\n");
    }
    buf_puts(out, "</ol>\n");
    if (c->n_parts) {
        static const struct page_column columns[] = {{.head = ""},
                                                     {.head = "real", .look = PAGE_REAL},
                                                     {.head = "simulated", .look = PAGE_SIM},
                                                     {.head = "change"},
                                                     {.head = "share"},
                                                     {.head = "n"},
                                                     {.head = "real host", .look = PAGE_REAL},
                                                     {.head = "simulated host", .look = PAGE_SIM}};
        struct page_table t;
        PAGE_TABLE(&t, out, columns);
        for (size_t i = 0; i < c->n_parts; i++)
            part_row(&t, &c->parts[i]);
        page_table_end(&t);
        page_tag(out, "p", "small",
                 "Mean time of like batches at the real run's mix. Share: of the part of the batch "
                 "times that pulls in the error's direction; negative shares pull against it.");
    }
    buf_puts(out, "\n</section>\n");
}

/* ---- how sure ------------------------------------------------------------------------------ */

static void interval_cell(struct arena *a, struct page_table *t, double low_ns, double high_ns)
{
    char low[WORDS_MAX], high[WORDS_MAX];
    if (low_ns <= high_ns)
        page_cell(t, arena_printf(a, "%s – %s", words_duration(low, low_ns / 1e9),
                                  words_duration(high, high_ns / 1e9)));
    else
        page_cell(t, "n/a");
}

static void sure_row(struct arena *a, struct page_table *t, const struct compare_cell *cell, int p,
                     bool uncertainty, bool spread)
{
    page_row(t);
    page_cell(t, arena_printf(a, "P%.0f", compare_percentiles[p]));
    interval_cell(a, t, cell->real_low_ns, cell->real_high_ns);
    if (uncertainty)
        interval_cell(a, t, cell->sim_low_ns, cell->sim_high_ns);
    if (spread)
        page_cell_percent(t, cell->spread_percent);
    page_cell(t, cell->why ? cell->why : "");
}

static bool has_uncertainty(const struct comparison *c)
{
    for (enum metric m = 0; m < METRICS; m++)
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            if (isfinite(c->metrics[m].cells[p].sim_low_ns))
                return true;
    return false;
}

static void how_sure(struct arena *a, struct buf *out, const struct comparison *c)
{
    const bool uncertainty = has_uncertainty(c);
    const size_t n_runs = c->params.n_spread;
    char text[WORDS_MAX];
    page_section(out, "How sure");
    if (n_runs)
        page_tag(out, "p", NULL,
                 "The spread is (max − min) / median over %zu real runs on the same arrivals.",
                 n_runs + 1);
    else
        page_tag(out, "p", NULL,
                 "One real run: its run-to-run spread is unknown. The intervals say how well its "
                 "requests pin each percentile down.");
    if (uncertainty)
        page_tag(out, "p", NULL,
                 "The intervals of simulated percentiles come from the errors of the profile.");
    struct page_column columns[5] = {{.head = ""}, {.head = "95 % interval of real"}};
    struct page_table t;
    int n = 2;
    if (uncertainty)
        columns[n++] = (struct page_column){.head = "of simulated"};
    if (n_runs)
        columns[n++] = (struct page_column){.head = "spread"};
    columns[n++] = (struct page_column){.head = "remark", .look = PAGE_WORDS};
    page_table_begin(&t, out, columns, n);
    for (enum metric m = 0; m < METRICS; m++) {
        const struct compare_metric *of = &c->metrics[m];
        page_group(&t, compare_metric_title(m),
                   arena_printf(a, "%s values", page_count(text, page_known(of->real_n))));
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            sure_row(a, &t, &of->cells[p], p, uncertainty, n_runs > 0);
    }
    page_table_end(&t);
    buf_puts(out, "</section>\n");
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void comparison_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct comparison_data *d = part->data;
    const struct comparison *c = &d->c;
    banner(a, out, d);
    page_notes(out, "What HTTP costs", c->path.lines, c->path.n_lines);
    key_table(out, d);
    diagnosis(out, c);
    page_figures(out, "Distributions", d->curves, 0, METRICS);
    page_figures(out, "Over time", d->curves, METRICS, CURVES_FIGURES);
    how_sure(a, out, c);
    page_facts(a, out, "What was run", (const char *const[]){"real", "simulated"},
               (const struct node *const[]){c->real.meta, c->sim.meta}, 2);
    page_notes(out, "Notes", c->notes, c->n_notes);
}

struct part part_of_comparison(struct arena *a, const struct node *tree,
                               const struct curves *curves, const struct node *meta)
{
    struct comparison_data *d = arena_one(a, struct comparison_data);
    d->meta = meta;
    d->curves = curves;
    fields_read_loose(a, &comparison_fields, tree, &d->c);
    d->pass = d->c.params.pass_percent;
    d->warn = d->c.params.warn_percent;
    const char *id = page_value(a, meta, "run_id");
    return (struct part){.title = id ? arena_printf(a, "Comparison %s", id) : "Comparison",
                         .remark = arena_printf(a, "%s, %.0f requests", looks[d->c.verdict].name,
                                                page_known(d->c.n_aligned)),
                         .body = comparison_body,
                         .data = d};
}

enum st part_comparison(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                        struct err *e)
{
    static const char *const members[] = {"alignment", "limits", "metrics", "real", "sim"};
    const char *path = fs_join(a, dir, "compare.json");
    struct node *tree, *member;
    struct curves *curves;
    TRY(json_load(a, path, NULL, &tree, e));
    TRY(node_check_version(tree, "schema_version", 1, e));
    const struct node *kind = node_find(tree, "kind");
    if (kind && kind->kind == NODE_STR && sv_eq(kind->s, "runs"))
        return part_runs(a, dir, tree, meta, out, e);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        TRY(node_get(tree, members[i], NODE_MAP, &member, e));
    TRY(curves_load(a, fs_join(a, dir, "tables"), &curves, e));
    *out = part_of_comparison(a, tree, curves, meta);
    return ST_OK;
}
