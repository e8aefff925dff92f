/* Page of a comparison of runs with the first, from compare.json and its curves alone. */
#include <math.h>
#include <string.h>

#include "compare/ab.h"
#include "report/page.h"

struct runs_data {
    struct ab x; /* as compare.json has it */
    const struct node *meta;
    const struct curves *curves;
};

static const char *label_of(const struct ab_run *r)
{
    return r->label ? r->label : "";
}

/* ---- headline ------------------------------------------------------------------------------ */

static const char *const looks[] = {[VERDICT_PASS] = "pass",
                                    [VERDICT_WARN] = "close",
                                    [VERDICT_INCONCLUSIVE] = "open",
                                    [VERDICT_FAIL] = "fail",
                                    [VERDICT_NONE] = ""};

static void page_clauses(struct arena *a, struct buf *out, const char *const *lines, size_t n)
{
    buf_puts(out, "<ul class=\"notes\">\n");
    for (size_t k = 0; k < n; k++) {
        page_tag(out, "li", NULL, "%s.", page_sentence(a, lines[k]));
        buf_puts(out, "\n");
    }
    buf_puts(out, "</ul>\n");
}

static bool is_simulated(const struct ab_run *r)
{
    const struct node *type = node_find(r->run.meta, "run_type");
    return type && type->kind == NODE_STR && sv_eq(type->s, "vidur");
}

static void banner(struct arena *a, struct buf *out, const struct runs_data *d)
{
    const struct ab *x = &d->x;
    const char *id = page_value(a, d->meta, "run_id"), *text = x->told.outcome;
    char number[WORDS_MAX];
    buf_printf(out, "<header class=\"banner %s\">\n", looks[x->verdict]);
    page_tag(out, "p", "eyebrow", "Comparison of %zu runs%s%s", x->params.n, id ? " " : "",
             id ? id : "");
    page_tag(out, "h1", NULL, "%s", text ? page_sentence(a, text) : "Runs side by side");
    buf_puts(out, "\n");
    page_causes(a, out, &x->told);
    if (x->params.n == 2) /* for more runs the table is clearer */
        page_clauses(a, out, x->runs[1].lines, x->runs[1].n_lines);
    buf_puts(out, "<dl class=\"tiles\">\n");
    for (size_t i = 0; i < x->params.n; i++) {
        const struct ab_run *r = &x->runs[i];
        const double rate = r->metrics.output_tokens_per_s;
        page_tile(out, label_of(r),
                  isnan(rate) ? "n/a"
                              : arena_printf(a, rate < 100 ? "%.2f tok/s" : "%.0f tok/s", rate),
                  arena_printf(a, "%s requests%s", page_count(number, page_known(r->n_requests)),
                               is_simulated(r) ? ", simulated" : ""));
    }
    buf_puts(out, "</dl>\n</header>\n");
}

/* ---- the table ----------------------------------------------------------------------------- */

/* "+4.1 % (+2.9 .. +5.3) slower" */
static void change(struct buf *out, const struct ab_cell *cell)
{
    const bool slower = cell->call == AB_SLOWER, faster = cell->call == AB_FASTER;
    char text[WORDS_MAX], low[WORDS_MAX], high[WORDS_MAX];
    buf_printf(out, "<small class=\"change%s\">", slower ? " fail" : faster ? " pass" : "");
    page_text(out, "%s", words_change(text, cell->change_percent));
    if (isfinite(cell->low_percent)) {
        words_change(low, cell->low_percent);
        words_change(high, cell->high_percent);
        low[strcspn(low, " ")] = high[strcspn(high, " ")] = 0;
        page_text(out, " (%s .. %s)%s", low, high, slower ? " slower" : faster ? " faster" : "");
    }
    buf_puts(out, "</small>");
}

/* Opens a cell; narrow screens show the run's name before it. */
static void begin_cell(struct buf *out, const char *class, const struct ab_run *run)
{
    buf_printf(out, "<td class=\"%s\" data-head=\"", class);
    page_text(out, "%s", label_of(run));
    buf_puts(out, "\">");
}

static void value_cell(struct buf *out, const struct ab_run *run, const struct ab_cell *cell,
                       bool first)
{
    char number[WORDS_MAX];
    begin_cell(out, "num", run);
    page_text(out, "%s", words_duration(number, cell->value_ns / 1e9));
    if (!first)
        change(out, cell);
    if (!first && cell->verdict != VERDICT_NONE)
        page_tag(out, "small", "change", "%s", verdict_name(cell->verdict));
    buf_puts(out, "</td>");
}

/* A head for each run, as wide as its cells below. */
static void run_heads(struct buf *out, const char *class, const struct ab *x)
{
    for (size_t i = 0; i < x->params.n; i++) {
        buf_printf(out, "<th class=\"%s c%zu\">", class, i);
        page_text(out, "%s", label_of(&x->runs[i]));
        buf_puts(out, "</th>");
    }
}

static void key_table(struct buf *out, const struct ab *x)
{
    const size_t n = x->params.n;
    const bool repeats = x->params.n_spread > 0;
    char number[WORDS_MAX];
    page_section(out, "Percentiles");
    buf_printf(out, "<div class=\"scroll\"><table class=\"runs%s\">\n<thead><tr><td></td>",
               n > 2 ? " stack" : "");
    run_heads(out, "num run", x);
    buf_puts(out, repeats ? "<th class=\"num\">A's repeats</th>" : "");
    buf_puts(out, "</tr></thead>\n<tbody>\n");
    for (enum metric m = 0; m < METRICS; m++) {
        buf_printf(out, "<tr class=\"group\"><th colspan=\"%zu\" scope=\"rowgroup\">",
                   1 + n + repeats);
        page_text(out, "%s", compare_metric_title(m));
        buf_puts(out, "</th></tr>\n");
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            buf_puts(out, "<tr>");
            buf_printf(out, "<th scope=\"row\">P%.0f</th>", compare_percentiles[p]);
            for (size_t i = 0; i < n; i++)
                value_cell(out, &x->runs[i], &x->runs[i].shown[m].cells[p], i == 0);
            if (repeats) {
                buf_puts(out, "<td class=\"num none\" data-head=\"A's repeats\">");
                page_text(out, "%s",
                          words_percent(number, x->runs[1].shown[m].cells[p].repeat_percent));
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

static void settings(struct arena *a, struct buf *out, const struct ab *x)
{
    uint32_t n;
    struct node *const *list = page_items(x->settings_tree, &n);
    page_section(out, "What differs between them");
    if (n == 0)
        page_tag(out, "p", NULL, "Nothing that was recorded.");
    else
        buf_printf(out, "<div class=\"scroll\"><table class=\"sure%s\">\n<thead><tr><td></td>",
                   x->params.n > 2 ? " stack" : "");
    if (n)
        run_heads(out, "run", x);
    buf_puts(out, n ? "</tr></thead>\n<tbody>\n" : "");
    for (uint32_t k = 0; k < n; k++) {
        const char *name = page_value(a, list[k], "name");
        buf_puts(out, "<tr>");
        page_tag(out, "th", "wide", "%s", name ? name : "");
        for (size_t i = 0; i < x->params.n; i++) {
            const char *key = x->runs[i].key;
            const char *v = key ? page_value(a, list[k], key) : NULL;
            begin_cell(out, v ? "wide" : "wide none", &x->runs[i]);
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
    const struct ab *x = &d->x;
    const char *titles[AB_MAX_RUNS];
    const struct node *metas[AB_MAX_RUNS];
    for (size_t i = 0; i < x->params.n; i++) {
        titles[i] = label_of(&x->runs[i]);
        metas[i] = x->runs[i].run.meta;
    }
    banner(a, out, d);
    key_table(out, x);
    page_figures(out, "Distributions", d->curves, 0, METRICS);
    page_figures(out, "Over time", d->curves, METRICS, CURVES_FIGURES);
    settings(a, out, x);
    page_notes(out, "Notes", x->notes, x->n_notes);
    page_facts(a, out, "What was run", titles, metas, (int)x->params.n);
}

struct part part_of_runs(struct arena *a, const struct node *tree, const struct curves *curves,
                         const struct node *meta)
{
    struct runs_data *d = arena_one(a, struct runs_data);
    d->meta = meta;
    d->curves = curves;
    fields_read_loose(a, &ab_fields, tree, &d->x);
    const char *id = page_value(a, meta, "run_id");
    return (struct part){.title = id ? arena_printf(a, "Comparison %s", id) : "Comparison of runs",
                         .remark = d->x.told.outcome,
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
