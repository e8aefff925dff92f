/* Page of a comparison of runs with the first, from compare.json and its curves alone. */
#include <math.h>
#include <string.h>

#include "compare/ab.h"
#include "report/page.h"

struct runs_data {
    const struct node *tree, *meta;
    struct node *const *runs; /* [n] */
    uint32_t n;
    const struct curves *curves;
};

static const struct node *cell_of(const struct node *run, enum metric m, int p)
{
    char path[64];
    snprintf(path, sizeof path, "metrics.%s.percentiles.%s", metric_name(m),
             compare_percentile_name(p));
    return node_path(run, path);
}

/* ---- headline ------------------------------------------------------------------------------ */

static bool is(const struct node *root, const char *path, const char *text)
{
    const struct node *n = node_path(root, path);
    return n && n->kind == NODE_STR && sv_eq(n->s, text);
}

static const char *look_of(const struct node *tree)
{
    static const char *const looks[][2] = {
        {"pass", "pass"}, {"warn", "close"}, {"inconclusive", "open"}, {"fail", "fail"}};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        if (is(tree, "verdict", looks[i][0]))
            return looks[i][1];
    return "";
}

static void page_clauses(struct arena *a, struct buf *out, const struct node *list)
{
    uint32_t n;
    struct node *const *lines = page_items(list, &n);
    buf_puts(out, "<ul class=\"notes\">\n");
    for (uint32_t k = 0; k < n; k++) {
        if (lines[k]->kind != NODE_STR)
            continue;
        page_tag(out, "li", NULL, "%s.", page_sentence(a, lines[k]->s.p));
        buf_puts(out, "\n");
    }
    buf_puts(out, "</ul>\n");
}

static void banner(struct arena *a, struct buf *out, const struct runs_data *d)
{
    const char *id = page_value(a, d->meta, "run_id"), *text = page_value(a, d->tree, "outcome");
    char number[WORDS_MAX];
    buf_printf(out, "<header class=\"banner %s\">\n", look_of(d->tree));
    page_tag(out, "p", "eyebrow", "Comparison of %u runs%s%s", d->n, id ? " " : "", id ? id : "");
    page_tag(out, "h1", NULL, "%s", text ? page_sentence(a, text) : "Runs side by side");
    buf_puts(out, "\n");
    page_causes(a, out, d->tree);
    if (d->n == 2) /* for more runs the table is clearer */
        page_clauses(a, out, node_find(d->runs[1], "text"));
    buf_puts(out, "<dl class=\"tiles\">\n");
    for (uint32_t i = 0; i < d->n; i++) {
        const char *label = page_value(a, d->runs[i], "label");
        double rate = page_number(d->runs[i], "output_tokens_per_s");
        page_tile(out, label ? label : "",
                  isnan(rate) ? "n/a"
                              : arena_printf(a, rate < 100 ? "%.2f tok/s" : "%.0f tok/s", rate),
                  arena_printf(a, "%s requests%s",
                               page_count(number, page_number(d->runs[i], "requests")),
                               is(d->runs[i], "meta.run_type", "vidur") ? ", simulated" : ""));
    }
    buf_puts(out, "</dl>\n</header>\n");
}

/* ---- the table ----------------------------------------------------------------------------- */

/* "+4.1 % (+2.9 .. +5.3) slower" */
static void change(struct buf *out, const struct node *cell)
{
    const struct node *interval = node_find(cell, "interval_percent");
    const bool slower = is(cell, "call", "slower"), faster = is(cell, "call", "faster");
    char text[WORDS_MAX], low[WORDS_MAX], high[WORDS_MAX];
    buf_printf(out, "<small class=\"change%s\">", slower ? " fail" : faster ? " pass" : "");
    page_text(out, "%s", words_change(text, page_number(cell, "change_percent")));
    if (interval && interval->kind == NODE_LIST && interval->n == 2) {
        words_change(low, page_number_of(interval->items[0]));
        words_change(high, page_number_of(interval->items[1]));
        low[strcspn(low, " ")] = high[strcspn(high, " ")] = 0;
        page_text(out, " (%s .. %s)%s", low, high, slower ? " slower" : faster ? " faster" : "");
    }
    buf_puts(out, "</small>");
}

/* Opens a cell; narrow screens show the run's name before it. */
static void begin_cell(struct arena *a, struct buf *out, const char *class, const struct node *run)
{
    const char *label = page_value(a, run, "label");
    buf_printf(out, "<td class=\"%s\" data-head=\"", class);
    page_text(out, "%s", label ? label : "");
    buf_puts(out, "\">");
}

static void value_cell(struct arena *a, struct buf *out, const struct node *run, enum metric m,
                       int p, bool first)
{
    const struct node *cell = cell_of(run, m, p);
    const char *verdict = page_value(a, cell, "verdict");
    char number[WORDS_MAX];
    begin_cell(a, out, "num", run);
    page_text(out, "%s", words_duration(number, page_number(cell, "value_ns") / 1e9));
    if (!first)
        change(out, cell);
    if (!first && verdict && strcmp(verdict, "not judged") != 0)
        page_tag(out, "small", "change", "%s", verdict);
    buf_puts(out, "</td>");
}

static void key_table(struct arena *a, struct buf *out, const struct runs_data *d)
{
    char number[WORDS_MAX];
    uint32_t repeats;
    page_items(node_find(d->tree, "spread_runs"), &repeats);
    page_section(out, "Percentiles");
    buf_printf(out, "<div class=\"scroll\"><table class=\"runs%s\">\n<thead><tr><td></td>",
               d->n > 2 ? " stack" : "");
    for (uint32_t i = 0; i < d->n; i++) {
        buf_printf(out, "<th class=\"num run c%u\">", i);
        const char *label = page_value(a, d->runs[i], "label");
        page_text(out, "%s", label ? label : "");
        buf_puts(out, "</th>");
    }
    buf_puts(out, repeats ? "<th class=\"num\">A's repeats</th>" : "");
    buf_puts(out, "</tr></thead>\n<tbody>\n");
    for (enum metric m = 0; m < METRICS; m++) {
        buf_printf(out, "<tr class=\"group\"><th colspan=\"%u\" scope=\"rowgroup\">",
                   1 + d->n + (repeats > 0));
        page_text(out, "%s", compare_metric_title(m));
        buf_puts(out, "</th></tr>\n");
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            buf_puts(out, "<tr>");
            buf_printf(out, "<th scope=\"row\">P%.0f</th>", compare_percentiles[p]);
            for (uint32_t i = 0; i < d->n; i++)
                value_cell(a, out, d->runs[i], m, p, i == 0);
            if (repeats) {
                buf_puts(out, "<td class=\"num none\" data-head=\"A's repeats\">");
                page_text(out, "%s",
                          words_percent(number,
                                        page_number(cell_of(d->runs[1], m, p), "repeat_percent")));
                buf_puts(out, "</td>");
            }
            buf_puts(out, "</tr>\n");
        }
    }
    buf_puts(out, "</tbody></table></div>\n");
    page_tag(
        out, "p", "small",
        "Below each value: how it differs from A's, with the 95 %% interval. Slower and faster "
        "are called those whose interval leaves out 0; without an interval there are too few "
        "requests for one.");
    buf_puts(out, "\n</section>\n");
}

/* ---- what differs -------------------------------------------------------------------------- */

static void settings(struct arena *a, struct buf *out, const struct runs_data *d)
{
    uint32_t n;
    struct node *const *list = page_items(node_find(d->tree, "settings"), &n);
    page_section(out, "What differs between them");
    if (n == 0)
        page_tag(out, "p", NULL, "Nothing that was recorded.");
    else
        buf_printf(out, "<div class=\"scroll\"><table class=\"sure%s\">\n<thead><tr><td></td>",
                   d->n > 2 ? " stack" : "");
    for (uint32_t i = 0; n && i < d->n; i++) {
        buf_printf(out, "<th class=\"run c%u\">", i);
        const char *label = page_value(a, d->runs[i], "label");
        page_text(out, "%s", label ? label : "");
        buf_puts(out, "</th>");
    }
    buf_puts(out, n ? "</tr></thead>\n<tbody>\n" : "");
    for (uint32_t k = 0; k < n; k++) {
        const char *name = page_value(a, list[k], "name");
        buf_puts(out, "<tr>");
        page_tag(out, "th", "wide", "%s", name ? name : "");
        for (uint32_t i = 0; i < d->n; i++) {
            const char *key = page_value(a, d->runs[i], "key");
            const char *v = key ? page_value(a, list[k], key) : NULL;
            begin_cell(a, out, v ? "wide" : "wide none", d->runs[i]);
            page_text(out, "%s", v ? v : "–");
            buf_puts(out, "</td>");
        }
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, n ? "</tbody></table></div>\n</section>\n" : "\n</section>\n");
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void runs_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct runs_data *d = part->data;
    const char *titles[AB_MAX_RUNS];
    const struct node *metas[AB_MAX_RUNS];
    for (uint32_t i = 0; i < d->n; i++) {
        const char *label = page_value(a, d->runs[i], "label");
        titles[i] = label ? label : "";
        metas[i] = node_find(d->runs[i], "meta");
    }
    banner(a, out, d);
    key_table(a, out, d);
    page_figures(out, "Distributions", d->curves, 0, METRICS);
    page_figures(out, "Over time", d->curves, METRICS, CURVES_FIGURES);
    settings(a, out, d);
    page_note_list(a, out, "Notes", node_find(d->tree, "notes"));
    page_facts(a, out, "What was run", titles, metas, (int)d->n);
}

struct part part_of_runs(struct arena *a, const struct node *tree, const struct curves *curves,
                         const struct node *meta)
{
    struct runs_data *d = arena_one(a, struct runs_data);
    *d = (struct runs_data){.tree = tree, .meta = meta, .curves = curves};
    d->runs = page_items(node_find(tree, "runs"), &d->n);
    const char *id = page_value(a, meta, "run_id");
    return (struct part){.title = id ? arena_printf(a, "Comparison %s", id) : "Comparison of runs",
                         .remark = page_value(a, tree, "outcome"),
                         .body = runs_body,
                         .data = d};
}

enum st part_runs(struct arena *a, const char *dir, const struct node *tree,
                  const struct node *meta, struct part *out, struct err *e)
{
    const char *keys[AB_MAX_RUNS], *names[AB_MAX_RUNS];
    struct node *list;
    struct curves *curves;
    TRY(node_get(tree, "runs", NODE_LIST, &list, e));
    if (list->n < 2 || list->n > AB_MAX_RUNS)
        return node_err(list, ST_INPUT, e, "runs: %u of them, expected 2 to %d", list->n,
                        AB_MAX_RUNS);
    for (uint32_t i = 0; i < list->n; i++) {
        TRY(node_get_str(list->items[i], "key", &keys[i], e));
        TRY(node_get_str(list->items[i], "label", &names[i], e));
    }
    TRY(curves_load_runs(a, fs_join(a, dir, "tables"), (int)list->n, keys, names, &curves, e));
    *out = part_of_runs(a, tree, curves, meta);
    return ST_OK;
}
