/* A comparison, from compare.json and its curves alone. Numbers that are missing or of the wrong
 * kind in a foreign compare.json show as n/a. */
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
    [VERDICT_INCONCLUSIVE] = {"inconclusive", "open", "?", "The real runs vary too much to tell"},
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

static void banner(struct arena *a, struct buf *out, const struct comparison_data *d)
{
    enum verdict v = verdict_of(node_find(d->tree, "verdict"));
    const char *id = page_value(a, d->meta, "run_id");
    char text[WORDS_MAX], real[WORDS_MAX], sim[WORDS_MAX];
    buf_printf(out, "<header class=\"banner %s\">\n", looks[v].class);
    page_tag(out, "p", "eyebrow", "Comparison%s%s", id ? " " : "", id ? id : "");
    buf_puts(out, "<h1>");
    const struct node *path = node_find(d->tree, "http_path");
    bool is_path = path && path->kind == NODE_MAP;
    page_text(out, "%s",
              v == VERDICT_NONE && is_path ? "What HTTP costs"
              : is_path                    ? "What HTTP costs cannot be told"
                                           : looks[v].headline);
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
    buf_puts(out, "</p>\n<dl class=\"tiles\">\n");
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
    /* A dot of line cap stays round where a narrow screen squeezes the scale. */
    double at = TRACK_WIDTH * (clamp(error, 0.95 * end) + end) / (2 * end);
    buf_printf(out,
               "<path class=\"ring\" d=\"M%.1f 6h0\"/><path class=\"dot\" d=\"M%.1f 6h0\"/></svg>",
               at, at);
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
                  "<th class=\"num sim\">simulated</th><th>error</th><th>verdict</th></tr></thead>"
                  "\n<tbody>\n");
    for (enum metric m = 0; m < METRICS; m++)
        key_rows(out, d, m);
    buf_puts(out, "</tbody></table></div>\n");
    page_tag(out, "p", "small",
             "Error = (simulated − real) / real. On the scale beside it the dark band is "
             "pass, the light one warn, the line the 95 %% interval of the real percentile, "
             "the dot the simulation.");
    buf_puts(out, "\n</section>\n");
}

/* ---- diagnosis ----------------------------------------------------------------------------- */

static void two_durations(struct buf *out, const struct node *part, const char *key)
{
    char text[WORDS_MAX];
    static const char *const sides[] = {"real", "sim"};
    for (int i = 0; i < 2; i++)
        page_tag(out, "td", "num", "%s",
                 words_duration(text, page_number(node_find(part, sides[i]), key)));
}

static void part_row(struct arena *a, struct buf *out, const struct node *part)
{
    const struct node *detail = node_find(part, "detail");
    const char *name = page_value(a, part, "name");
    double real = page_number(part, "real.mean_s"), sim = page_number(part, "sim.mean_s");
    double n = page_number(part, "real.n");
    char text[WORDS_MAX];
    buf_puts(out,
             detail && detail->kind == NODE_BOOL && detail->b ? "<tr class=\"detail\">" : "<tr>");
    page_tag(out, "th", NULL, "%s", name ? name : "");
    two_durations(out, part, "mean_s");
    page_tag(out, "td", "num", "%s",
             words_change(text, real > 0 ? 100 * (sim - real) / real : (double)NAN));
    page_tag(out, "td", "num", "%s", words_share(text, page_number(part, "share")));
    page_tag(out, "td", "num", "%s", page_count(text, n));
    two_durations(out, part, "host_s");
    buf_puts(out, "</tr>\n");
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
        buf_puts(out, "<div class=\"scroll\"><table class=\"parts\">\n<thead><tr><td></td>"
                      "<th class=\"num real\">real</th><th class=\"num sim\">simulated</th>"
                      "<th class=\"num\">change</th><th class=\"num\">share</th>"
                      "<th class=\"num\">n</th><th class=\"num real\">host</th>"
                      "<th class=\"num sim\">host</th></tr></thead>\n<tbody>\n");
        for (uint32_t i = 0; i < parts->n; i++)
            part_row(a, out, parts->items[i]);
        buf_puts(out, "</tbody></table></div>\n");
        page_tag(out, "p", "small",
                 "Mean time of like batches at the real run's mix. Share: of the part of the batch "
                 "times that pulls in the error's direction; negative shares pull against it.");
    }
    buf_puts(out, "\n</section>\n");
}

/* ---- how sure ------------------------------------------------------------------------------ */

static void interval_cell(struct buf *out, const struct node *cell, const char *which)
{
    char low[WORDS_MAX], high[WORDS_MAX];
    double low_ns, high_ns;
    if (interval_of(cell, which, &low_ns, &high_ns))
        page_tag(out, "td", "num", "%s – %s", words_duration(low, low_ns / 1e9),
                 words_duration(high, high_ns / 1e9));
    else
        page_tag(out, "td", "num none", "n/a");
}

static void sure_row(struct arena *a, struct buf *out, const struct node *cell, int p, bool doubt,
                     bool spread)
{
    const char *why = page_value(a, cell, "why");
    char text[WORDS_MAX];
    buf_puts(out, "<tr>");
    page_tag(out, "th", NULL, "P%.0f", compare_percentiles[p]);
    interval_cell(out, cell, "real_interval_ns");
    if (doubt)
        interval_cell(out, cell, "sim_interval_ns");
    if (spread)
        page_tag(out, "td", "num", "%s", words_percent(text, page_number(cell, "spread_percent")));
    page_tag(out, "td", "why", "%s", why ? why : "");
    buf_puts(out, "</tr>\n");
}

static void sure_group(struct buf *out, const struct node *tree, enum metric m, int columns)
{
    char path[64], text[WORDS_MAX];
    snprintf(path, sizeof path, "metrics.%s.real_n", metric_name(m));
    double n = page_number(tree, path);
    buf_printf(out, "<tr class=\"group\"><th colspan=\"%d\" scope=\"rowgroup\">", columns);
    page_text(out, "%s", compare_metric_title(m));
    page_tag(out, "small", NULL, " %s values", page_count(text, n));
    buf_puts(out, "</th></tr>\n");
}

static bool has_doubt(const struct node *tree)
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
    bool doubt = has_doubt(d->tree);
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
    if (doubt)
        page_tag(out, "p", NULL,
                 "The intervals of simulated percentiles come from the errors of the profile.");
    buf_puts(out, "\n<div class=\"scroll\"><table class=\"sure\">\n<thead><tr><td></td>"
                  "<th class=\"num\">95 % interval of real</th>");
    buf_puts(out, doubt ? "<th class=\"num\">of simulated</th>" : "");
    buf_puts(out, n_runs ? "<th class=\"num\">spread</th>" : "");
    buf_puts(out, "<th>remark</th></tr></thead>\n<tbody>\n");
    for (enum metric m = 0; m < METRICS; m++) {
        sure_group(out, d->tree, m, 3 + (n_runs > 0) + doubt);
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            sure_row(a, out, cell_of(d->tree, m, p), p, doubt, n_runs > 0);
    }
    buf_puts(out, "</tbody></table></div>\n</section>\n");
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
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        TRY(node_get(tree, members[i], NODE_MAP, &member, e));
    TRY(curves_load(a, fs_join(a, dir, "tables"), &curves, e));
    *out = part_of_comparison(a, tree, curves, meta);
    return ST_OK;
}
