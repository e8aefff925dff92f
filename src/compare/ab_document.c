/* A comparison of runs as a document, of what compare.json has: for the terminal, summary.md and
 * the page. */
#include <math.h>
#include <string.h>

#include "compare/ab.h"
#include "compare/intern.h"

static const char *name_of(const struct ab_run *r)
{
    return r->name ? r->name : "";
}

static bool is_simulated(const struct ab_run *r)
{
    const struct node *type = node_find(r->run.meta, "run_type");
    return type && type->kind == NODE_STR && sv_eq(type->s, "vidur");
}

static void tell_tiles(struct document *d, const struct ab *x)
{
    for (size_t i = 0; i < x->params.n; i++) {
        const struct ab_run *r = &x->runs[i];
        const double rate = r->metrics.output_tokens_per_s;
        document_tile(
            d, r->label ? r->label : "",
            isnan(rate) ? "n/a"
                        : arena_printf(d->a, rate < 100 ? "%.2f tok/s" : "%.0f tok/s", rate),
            arena_printf(d->a, "%s requests%s",
                         document_value(d->a, DOCUMENT_COUNT, compare_known(r->n_requests)),
                         is_simulated(r) ? ", simulated" : ""));
    }
}

/* ---- percentiles --------------------------------------------------------------------------- */

/* "+4.1 % (+2.9 .. +5.3) slower" */
static void add_change(struct document_table *t, const struct ab_cell *c)
{
    const bool slower = c->call == AB_SLOWER, faster = c->call == AB_FASTER;
    char change[WORDS_MAX], low[WORDS_MAX], high[WORDS_MAX];
    words_change(change, c->change_percent);
    if (!isfinite(c->low_percent)) {
        document_words(t, "%s", change);
        return;
    }
    words_change(low, c->low_percent);
    words_change(high, c->high_percent);
    document_words(t, "%s (%.*s .. %.*s)%s", change, (int)strcspn(low, " "), low,
                   (int)strcspn(high, " "), high,
                   slower   ? " slower"
                   : faster ? " faster"
                            : "")
        ->tone = slower   ? DOCUMENT_BAD
                 : faster ? DOCUMENT_GOOD
                          : DOCUMENT_PLAIN;
}

static const struct document_column *percentile_columns(struct arena *a, const struct ab *x,
                                                        size_t *n)
{
    struct document_column *c = arena_array(a, struct document_column, 3 * x->params.n + 2);
    size_t k = 0;
    c[k++] = (struct document_column){.title = "percentile", .kind = DOCUMENT_LABEL};
    for (size_t i = 0; i < x->params.n; i++) {
        const char *name = name_of(&x->runs[i]);
        c[k++] = (struct document_column){.title = arena_printf(a, "%s, ms", name),
                                          .kind = DOCUMENT_NS_AS_MS,
                                          .series = (int)i + 1};
        if (i > 0)
            c[k++] = (struct document_column){.title = arena_printf(a, "%s against A", name),
                                              .kind = DOCUMENT_LABEL,
                                              .under = true};
        if (i > 0 && x->params.gate != AB_GATE_NONE)
            c[k++] =
                (struct document_column){.title = "verdict", .kind = DOCUMENT_LABEL, .under = true};
    }
    if (x->params.n_spread)
        c[k++] = (struct document_column){.title = "A's repeats", .kind = DOCUMENT_PERCENT};
    *n = k;
    return c;
}

static void add_percentile(struct document_table *t, const struct ab *x, enum metric m, int p)
{
    document_row(t);
    document_words(t, "P%.0f", compare_percentiles[p]);
    for (size_t i = 0; i < x->params.n; i++) {
        const struct ab_cell *c = &x->runs[i].shown[m].cells[p];
        document_number(t, c->value_ns);
        if (i == 0)
            continue;
        add_change(t, c);
        if (x->params.gate == AB_GATE_NONE)
            continue;
        document_words(t, "%s", c->verdict == VERDICT_NONE ? "" : verdict_name(c->verdict))->tone =
            compare_tones[c->verdict];
    }
    if (x->params.n_spread)
        document_number(t, x->runs[1].shown[m].cells[p].repeat_percent);
}

static void tell_percentiles(struct document *d, const struct ab *x)
{
    size_t n;
    const struct document_column *columns = percentile_columns(d->a, x, &n);
    document_section(d, "Percentiles");
    struct document_table *t = document_table(d, columns, n);
    for (enum metric m = 0; m < METRICS; m++) {
        document_group(t, "metric", compare_metric_title(m), NULL);
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            add_percentile(t, x, m, p);
    }
    document_remark(d,
                    "Changes are against A, with the 95 %% interval. A change is called slower or "
                    "faster where its interval leaves out 0. Without an interval there are too "
                    "few requests for one.");
    for (size_t i = 1; i < x->params.n; i++)
        for (size_t k = 0; k < x->runs[i].n_lines; k++)
            document_note(d, compare_sentence(d->a, x->runs[i].lines[k]));
}

/* ---- what differs -------------------------------------------------------------------------- */

static void tell_settings(struct document *d, const struct ab *x)
{
    const struct node *list = x->settings_tree;
    document_section(d, "What differs");
    if (!list || list->kind != NODE_LIST || !list->n) {
        document_paragraph(d, "Nothing that was recorded.");
        return;
    }
    struct document_column *columns = arena_array(d->a, struct document_column, x->params.n + 1);
    columns[0] = (struct document_column){.title = "setting"};
    for (size_t i = 0; i < x->params.n; i++)
        columns[i + 1] =
            (struct document_column){.title = name_of(&x->runs[i]), .series = (int)i + 1};
    struct document_table *t = document_table(d, columns, x->params.n + 1);
    for (uint32_t k = 0; k < list->n; k++) {
        document_row(t);
        for (size_t i = 0; i <= x->params.n; i++) {
            const char *key = i ? x->runs[i - 1].key : "name";
            const struct node *v = key ? node_find(list->items[k], key) : NULL;
            const char *text = v ? node_scalar_text(d->a, v) : NULL;
            document_words(t, "%s", text ? text : "-");
        }
    }
}

static void tell_runs(struct document *d, const struct ab *x)
{
    document_section(d, "Runs");
    for (size_t i = 0; i < x->params.n; i++)
        document_fact(d, name_of(&x->runs[i]), x->runs[i].run.dir);
    for (size_t i = 0; i < x->params.n_spread; i++)
        document_fact(d, "Repeat of A", x->params.spread_dirs[i]);
}

struct document *ab_document(struct arena *a, const struct ab *x, const char *title)
{
    const char *outcome = x->told.outcome;
    struct document *d =
        document_new(a, title, outcome ? compare_sentence(a, outcome) : "Runs side by side");
    d->tone = compare_tones[x->verdict];
    tell_tiles(d, x);
    compare_tell_causes(d, &x->told);
    tell_percentiles(d, x);
    document_section(d, "Distributions");
    document_figure(d, "distributions");
    document_section(d, "Over time");
    document_figure(d, "over_time");
    tell_settings(d, x);
    tell_runs(d, x);
    document_section(d, "Notes");
    for (size_t i = 0; i < x->n_notes; i++)
        document_note(d, x->notes[i]);
    return d;
}

struct ab ab_shown(struct arena *a, const struct ab *x)
{
    struct ab shown;
    fields_read_loose(a, &ab_fields, ab_node(a, x), &shown);
    return shown;
}
