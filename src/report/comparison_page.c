/* Page of a comparison, from compare.json and its curves alone. Numbers that are missing or of the
 * wrong kind are shown as n/a. */
#include <math.h>
#include <string.h>

#include "compare/compare.h"
#include "report/page.h"
#include "text/json.h"

struct comparison_data {
    const struct node *tree, *meta;
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

static enum verdict verdict_of(const struct node *n)
{
    for (enum verdict v = VERDICT_PASS; n && n->kind == NODE_STR && v < VERDICT_NONE; v++)
        if (sv_eq(n->s, looks[v].name))
            return v;
    return VERDICT_NONE;
}

static void badge(struct buf *out, enum verdict v)
{
    buf_printf(out, "<span class=\"badge %s\"><b aria-hidden=\"true\">%s</b> %s</span>",
               looks[v].class, looks[v].sign, looks[v].name);
}

static const struct node *cell_of(const struct node *tree, enum metric m, int p)
{
    char path[64];
    snprintf(path, sizeof path, "metrics.%s.percentiles.%s", metric_name(m),
             compare_percentile_name(p));
    return node_path(tree, path);
}

/* "real_interval_ns" or "sim_interval_ns". False when the cell has none. */
static bool interval_of(const struct node *cell, const char *which, double *low_ns, double *high_ns)
{
    const struct node *n = node_find(cell, which);
    if (!n || n->kind != NODE_LIST || n->n != 2)
        return false;
    *low_ns = page_number_of(n->items[0]);
    *high_ns = page_number_of(n->items[1]);
    return *low_ns <= *high_ns;
}

/* ---- headline ------------------------------------------------------------------------------ */

/* The judged cell with the largest error; false when there is none. */
static bool worst_cell(const struct node *tree, enum metric *metric, int *percentile, double *error)
{
    double worst = -1;
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            const struct node *cell = cell_of(tree, m, p);
            double size = fabs(page_number(cell, "error_percent"));
            if (verdict_of(node_find(cell, "verdict")) == VERDICT_NONE || !(size > worst))
                continue;
            worst = size;
            *metric = m;
            *percentile = p;
            *error = page_number(cell, "error_percent");
        }
    }
    return worst >= 0;
}

/* Headline: of an inconclusive comparison, its heaviest cause. */
static const char *headline(struct arena *a, const struct node *tree, enum verdict v)
{
    const struct node *path = node_find(tree, "http_path");
    uint32_t n;
    struct node *const *causes = page_items(node_find(tree, "causes"), &n);
    if (v == VERDICT_NONE && path && path->kind == NODE_MAP)
        return "What HTTP costs";
    const char *clause =
        v == VERDICT_INCONCLUSIVE && n ? page_value(a, causes[0], "headline") : NULL;
    return clause ? page_sentence(a, clause) : looks[v].headline;
}

static void banner(struct arena *a, struct buf *out, const struct comparison_data *d)
{
    enum verdict v = verdict_of(node_find(d->tree, "verdict"));
    const char *id = page_value(a, d->meta, "run_id");
    char text[WORDS_MAX], real[WORDS_MAX], sim[WORDS_MAX];
    buf_printf(out, "<header class=\"banner %s\">\n", looks[v].class);
    page_tag(out, "p", "eyebrow", "Comparison%s%s", id ? " " : "", id ? id : "");
    buf_puts(out, "<h1>");
    page_text(out, "%s", headline(a, d->tree, v));
    buf_puts(out, "</h1>\n<p>");
    badge(out, v);
    buf_puts(out, " ");
    enum metric m;
    int p;
    double error;
    if (worst_cell(d->tree, &m, &p, &error))
        page_text(out, "Largest judged error: %s at P%.0f of %s. ", words_change(text, error),
                  compare_percentiles[p], compare_metric_title(m));
    page_text(out, "Pass is up to %g\u00a0%%, warn up to %g\u00a0%%.", d->pass, d->warn);
    buf_puts(out, "</p>\n");
    page_causes(a, out, d->tree);
    buf_puts(out, "<dl class=\"tiles\">\n");
    double aligned = page_number(d->tree, "alignment.aligned");
    page_tile(out, "Requests compared", page_count(text, aligned), NULL);
    static const struct {
        const char *label, *key, *unit;
    } rates[] = {{"Output tokens per second", "output_tokens_per_s", "tok/s"},
                 {"Requests per second", "requests_per_s", "req/s"}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double r = page_number(node_find(d->tree, "real"), rates[i].key);
        double s = page_number(node_find(d->tree, "sim"), rates[i].key);
        if (isnan(r) || isnan(s))
            continue;
        snprintf(real, sizeof real, r < 100 ? "%.2f" : "%.0f", r);
        snprintf(sim, sizeof sim, s < 100 ? "%.2f" : "%.0f", s);
        page_tile(out, rates[i].label, real,
                  arena_printf(a, "simulated %s (%s)", sim, words_change(text, 100 * (s - r) / r)));
    }
    buf_puts(out, "</dl>\n</header>\n");
}

/* ---- the key table ------------------------------------------------------------------------- */

/* Unit and decimals that suit all values of a metric: its smallest has three digits. */
struct scale {
    const char *unit;
    double per_ns;
    int decimals;
};

static struct scale scale_of(const struct node *tree, enum metric m)
{
    double smallest = INFINITY;
    for (int p = 0; p < COMPARE_PERCENTILES; p++) {
        double r = page_number(cell_of(tree, m, p), "real_ns");
        double s = page_number(cell_of(tree, m, p), "sim_ns");
        smallest = r > 0 && r < smallest ? r : smallest;
        smallest = s > 0 && s < smallest ? s : smallest;
    }
    struct scale scale = {"ms", 1e-6, 0};
    if (smallest < 1e5)
        scale = (struct scale){"µs", 1e-3, 0};
    else if (isfinite(smallest) && smallest >= 1e10)
        scale = (struct scale){"s", 1e-9, 0};
    double v = smallest * scale.per_ns;
    scale.decimals = v >= 1000 ? 0 : v >= 100 ? 1 : v >= 1 ? 2 : 3;
    return scale;
}

static void scaled(struct buf *out, double ns, const struct scale *s)
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
static void track(struct buf *out, const struct comparison_data *d, const struct node *cell)
{
    double error = page_number(cell, "error_percent"), real = page_number(cell, "real_ns");
    double end = 2 * d->warn, low, high;
    if (isnan(error) || !(end > 0))
        return;
    buf_printf(out,
               "<svg class=\"track\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
               "preserveAspectRatio=\"none\" aria-hidden=\"true\">",
               TRACK_WIDTH, TRACK_HEIGHT, TRACK_WIDTH, TRACK_HEIGHT);
    zone(out, "outer", end, -d->warn, d->warn);
    zone(out, "band", end, -d->pass, d->pass);
    if (real > 0 && interval_of(cell, "real_interval_ns", &low, &high))
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
    struct scale s = scale_of(d->tree, m);
    buf_puts(out, "<tr class=\"group\"><th colspan=\"5\" scope=\"rowgroup\">");
    page_text(out, "%s", compare_metric_title(m));
    page_tag(out, "small", NULL, " %s, in %s", meaning[m], s.unit);
    buf_puts(out, "</th></tr>\n");
    for (int p = 0; p < COMPARE_PERCENTILES; p++) {
        const struct node *cell = cell_of(d->tree, m, p);
        char text[WORDS_MAX];
        buf_puts(out, "<tr>");
        buf_printf(out, "<th scope=\"row\">P%.0f</th>", compare_percentiles[p]);
        scaled(out, page_number(cell, "real_ns"), &s);
        scaled(out, page_number(cell, "sim_ns"), &s);
        buf_puts(out, "<td class=\"error\"><span class=\"num\">");
        page_text(out, "%s", words_change(text, page_number(cell, "error_percent")));
        buf_puts(out, "</span>");
        track(out, d, cell);
        buf_puts(out, "</td><td>");
        badge(out, verdict_of(node_find(cell, "verdict")));
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

static void two_durations(struct page_table *t, const struct node *part, const char *key)
{
    static const char *const sides[] = {"real", "sim"};
    for (int i = 0; i < 2; i++)
        page_cell_duration(t, page_number(node_find(part, sides[i]), key));
}

static void part_row(struct arena *a, struct page_table *t, const struct node *part)
{
    const struct node *detail = node_find(part, "detail");
    const char *name = page_value(a, part, "name");
    double real = page_number(part, "real.mean_s"), sim = page_number(part, "sim.mean_s");
    char text[WORDS_MAX];
    if (detail && detail->kind == NODE_BOOL && detail->b)
        page_row_of(t, "detail");
    else
        page_row(t);
    page_cell(t, name ? name : "");
    two_durations(t, part, "mean_s");
    page_cell(t, words_change(text, real > 0 ? 100 * (sim - real) / real : (double)NAN));
    page_cell(t, words_share(text, page_number(part, "share")));
    page_cell_count(t, page_number(part, "real.n"));
    two_durations(t, part, "host_s");
}

static void strings(struct arena *a, const struct node *list, const char *const **out, size_t *n)
{
    *n = 0;
    *out = NULL;
    if (!list || list->kind != NODE_LIST)
        return;
    const char **s = arena_array(a, const char *, list->n);
    for (uint32_t i = 0; i < list->n; i++)
        if (list->items[i]->kind == NODE_STR)
            s[(*n)++] = list->items[i]->s.p;
    *out = s;
}

static void diagnosis(struct arena *a, struct buf *out, const struct comparison_data *d)
{
    const struct node *n = node_find(d->tree, "diagnosis");
    const struct node *parts = node_find(n, "parts");
    const char *const *findings;
    size_t n_findings;
    enum metric m;
    int p;
    double error;
    if (!n || n->kind != NODE_MAP || !worst_cell(d->tree, &m, &p, &error))
        return;
    char text[WORDS_MAX];
    page_section(out, "Where the difference comes from");
    page_tag(out, "p", "small", "Looked into: %s at P%.0f, %s.", compare_metric_title(m),
             compare_percentiles[p], words_change(text, error));
    strings(a, node_find(n, "findings"), &findings, &n_findings);
    buf_puts(out, "<ol class=\"findings\">\n");
    for (size_t i = 0; i < n_findings; i++) {
        page_tag(out, "li", NULL, "%s", findings[i]);
        buf_puts(out, "\n");
    }
    buf_puts(out, "</ol>\n");
    if (parts && parts->kind == NODE_LIST && parts->n) {
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
        for (uint32_t i = 0; i < parts->n; i++)
            part_row(a, &t, parts->items[i]);
        page_table_end(&t);
        page_tag(out, "p", "small",
                 "Mean time of like batches at the real run's mix. Share: of the part of the batch "
                 "times that pulls in the error's direction; negative shares pull against it.");
    }
    buf_puts(out, "\n</section>\n");
}

/* ---- how sure ------------------------------------------------------------------------------ */

static void interval_cell(struct arena *a, struct page_table *t, const struct node *cell,
                          const char *which)
{
    char low[WORDS_MAX], high[WORDS_MAX];
    double low_ns, high_ns;
    if (interval_of(cell, which, &low_ns, &high_ns))
        page_cell(t, arena_printf(a, "%s – %s", words_duration(low, low_ns / 1e9),
                                  words_duration(high, high_ns / 1e9)));
    else
        page_cell(t, "n/a");
}

static void sure_row(struct arena *a, struct page_table *t, const struct node *cell, int p,
                     bool uncertainty, bool spread)
{
    const char *why = page_value(a, cell, "why");
    page_row(t);
    page_cell(t, arena_printf(a, "P%.0f", compare_percentiles[p]));
    interval_cell(a, t, cell, "real_interval_ns");
    if (uncertainty)
        interval_cell(a, t, cell, "sim_interval_ns");
    if (spread)
        page_cell_percent(t, page_number(cell, "spread_percent"));
    page_cell(t, why ? why : "");
}

static void sure_group(struct arena *a, struct page_table *t, const struct node *tree,
                       enum metric m)
{
    char path[64], text[WORDS_MAX];
    snprintf(path, sizeof path, "metrics.%s.real_n", metric_name(m));
    page_group(t, compare_metric_title(m),
               arena_printf(a, "%s values", page_count(text, page_number(tree, path))));
}

static bool has_uncertainty(const struct node *tree)
{
    for (enum metric m = 0; m < METRICS; m++)
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            if (node_find(cell_of(tree, m, p), "sim_interval_ns"))
                return true;
    return false;
}

static void how_sure(struct arena *a, struct buf *out, const struct comparison_data *d)
{
    const struct node *runs = node_find(d->tree, "spread_runs");
    bool uncertainty = has_uncertainty(d->tree);
    page_section(out, "How sure");
    uint32_t n_runs = runs && runs->kind == NODE_LIST ? runs->n : 0;
    if (n_runs)
        page_tag(out, "p", NULL,
                 "The spread is (max − min) / median over %u real runs on the same arrivals.",
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
        sure_group(a, &t, d->tree, m);
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            sure_row(a, &t, cell_of(d->tree, m, p), p, uncertainty, n_runs > 0);
    }
    page_table_end(&t);
    buf_puts(out, "</section>\n");
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void comparison_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct comparison_data *d = part->data;
    const char *const *notes;
    size_t n_notes;
    banner(a, out, d);
    page_note_list(a, out, "What HTTP costs", node_path(d->tree, "http_path.text"));
    key_table(out, d);
    diagnosis(a, out, d);
    page_figures(out, "Distributions", d->curves, 0, METRICS);
    page_figures(out, "Over time", d->curves, METRICS, CURVES_FIGURES);
    how_sure(a, out, d);
    page_facts(a, out, "What was run", (const char *const[]){"real", "simulated"},
               (const struct node *const[]){node_path(d->tree, "real.meta"),
                                            node_path(d->tree, "sim.meta")},
               2);
    strings(a, node_find(d->tree, "notes"), &notes, &n_notes);
    page_notes(out, "Notes", notes, n_notes);
}

struct part part_of_comparison(struct arena *a, const struct node *tree,
                               const struct curves *curves, const struct node *meta)
{
    struct comparison_data *d = arena_one(a, struct comparison_data);
    *d = (struct comparison_data){.tree = tree,
                                  .meta = meta,
                                  .curves = curves,
                                  .pass = page_number(tree, "limits.pass_percent"),
                                  .warn = page_number(tree, "limits.warn_percent")};
    const char *id = page_value(a, meta, "run_id");
    double aligned = page_number(tree, "alignment.aligned");
    return (struct part){.title = id ? arena_printf(a, "Comparison %s", id) : "Comparison",
                         .remark = arena_printf(a, "%s, %.0f requests",
                                                looks[verdict_of(node_find(tree, "verdict"))].name,
                                                aligned),
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
    const struct node *kind = node_find(tree, "kind");
    if (kind && kind->kind == NODE_STR && sv_eq(kind->s, "runs"))
        return part_runs(a, dir, tree, meta, out, e);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        TRY(node_get(tree, members[i], NODE_MAP, &member, e));
    TRY(curves_load(a, fs_join(a, dir, "tables"), &curves, e));
    *out = part_of_comparison(a, tree, curves, meta);
    return ST_OK;
}
