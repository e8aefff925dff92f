/* The files of a comparison of runs: compare.json, tables, figures. */
#include <math.h>

#include "compare/ab.h"
#include "compare/bootstrap.h"
#include "compare/intern.h"
#include "text/document.h"
#include "text/json.h"

/* ---- compare.json -------------------------------------------------------------------------- */

static struct node *causes_of(struct arena *a, const void *cell)
{
    return compare_cause_ids(a, ((const struct ab_cell *)cell)->causes);
}

static struct node *text_of(struct arena *a, const void *cell)
{
    return node_str(a, ab_change_text(a, cell));
}

static const struct field change_rows[] = {
    FIELD(struct ab_cell, change_percent, .optional = true),
    FIELD_PAIR(struct ab_cell, low_percent, high_percent, "interval_percent", .optional = true),
    FIELD(struct ab_cell, repeat_percent, .optional = true),
    FIELD_ENUM(struct ab_cell, call, "call", ab_call_name, AB_FASTER + 1),
    FIELD_ENUM(struct ab_cell, verdict, "verdict", verdict_name, VERDICT_NONE + 1,
               .otherwise = VERDICT_NONE),
    FIELD_MADE("causes", causes_of),
    FIELD_MADE("text", text_of),
};
static const struct fields change_fields = FIELDS(struct ab_cell, change_rows);

static const struct field cell_rows[] = {
    FIELD_PART(NULL, &change_fields, FIELD_IF(struct ab_cell, compared)),
    FIELD(struct ab_cell, value_ns, .optional = true),
};
static const struct fields cell_fields = FIELDS(struct ab_cell, cell_rows);

static const struct field metric_rows[] = {
    FIELD_NAMED_MAPS(struct ab_metric, cells, "percentiles", compare_percentile_key,
                     COMPARE_PERCENTILES, &cell_fields),
    FIELD(struct ab_metric, n),
};
static const struct fields metric_fields = FIELDS(struct ab_metric, metric_rows);

static const struct field run_rows[] = {
    COMPARE_RUN_ROWS(struct ab_run, run, metrics),
    FIELD(struct ab_run, key),
    FIELD(struct ab_run, name),
    FIELD(struct ab_run, label),
    FIELD_NAMED_MAPS(struct ab_run, shown, "metrics", metric_name, METRICS, &metric_fields),
    FIELD(struct ab_run, paired),
    FIELD_AS(struct ab_run, n_requests, "requests", .otherwise = -1),
    FIELD_AS(struct ab_run, n_left_out, "left_out"),
    FIELD(struct ab_run, machine_change_percent, .optional = true),
    FIELD_LIST(struct ab_run, lines, n_lines, "text"),
};
static const struct fields run_fields = FIELDS(struct ab_run, run_rows);

static struct node *method_node(struct arena *a, const void *ab)
{
    const struct ab *x = ab;
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "name", node_str(a, "circular block bootstrap"));
    node_put(a, n, "confidence", node_float(a, 0.95));
    node_put(a, n, "draws", node_int(a, x->draws));
    node_put(a, n, "block_requests", node_int(a, (int64_t)boot_block(x->runs[0].n_requests)));
    return n;
}

static struct node *settings_node(struct arena *a, const struct ab *x)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t i = 0; i < x->n_settings; i++) {
        struct node *n = node_new(a, NODE_MAP);
        node_put(a, n, "name", node_str(a, x->settings[i].name));
        for (size_t k = 0; k < x->params.n; k++) {
            const char *v = x->settings[i].values[k];
            node_put(a, n, x->runs[k].key, node_str_or_null(a, v));
        }
        node_push(a, list, n);
    }
    return list;
}

static const char *gate_name(enum ab_gate g)
{
    return g == AB_GATE_SLOWER ? "slower" : "none";
}

static const struct field rows[] = {
    FIELD_MAP(struct ab, told, NULL, &compare_told_fields),
    FIELD_ENUM(struct ab, verdict, "verdict", verdict_name, VERDICT_NONE + 1,
               .otherwise = VERDICT_NONE),
    FIELD_ENUM(struct ab, params.gate, "gate", gate_name, AB_GATE_SLOWER + 1),
    FIELD_AS(struct ab, params.pass_percent, "pass_percent"),
    FIELD_AS(struct ab, params.warn_percent, "warn_percent"),
    FIELD_MADE("method", method_node),
    FIELD_MAPS(struct ab, runs, params.n, "runs", &run_fields),
    FIELD_LIST(struct ab, params.spread_dirs, params.n_spread, "spread_runs"),
    FIELD_AS(struct ab, settings_tree, "settings"),
    FIELD_LIST(struct ab, notes, n_notes, "notes"),
};
const struct fields ab_fields = FIELDS(struct ab, rows);

/* The run as compare.json has it; `first` is not compared with itself. */
static struct ab_run run_shown(struct arena *a, const struct ab_run *r, bool first)
{
    struct ab_run all = *r;
    all.run.meta = compare_meta_shown(a, &r->run);
    all.machine_change_percent = 100 * r->drift;
    for (enum metric m = 0; m < METRICS; m++) {
        const struct series *s = &r->metrics.of[m];
        all.shown[m].n = s->n;
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            struct ab_cell *cell = &all.shown[m].cells[p];
            *cell = r->cells[m][p];
            cell->compared = !first;
            cell->value_ns =
                s->n ? stats_percentile(s->ns, s->n, compare_percentiles[p]) : (double)NAN;
        }
    }
    return all;
}

struct node *ab_node(struct arena *a, const struct ab *x)
{
    struct ab all = *x;
    all.runs = arena_array(a, struct ab_run, x->params.n);
    for (size_t i = 0; i < x->params.n; i++)
        all.runs[i] = run_shown(a, &x->runs[i], i == 0);
    all.told = compare_told_of(x->verdict, x->reasons, x->n_reasons, x->outcome);
    all.settings_tree = settings_node(a, x);
    struct node *n = fields_node(a, &ab_fields, &all);
    node_put(a, n, "schema_version", node_int(a, 1));
    node_put(a, n, "kind", node_str(a, "runs"));
    return n;
}

/* ---- files --------------------------------------------------------------------------------- */

static void percentile_rows(struct csv_writer *w, const struct ab *x, enum metric m)
{
    csv_put_str(w, "metric");
    for (size_t i = 0; i < x->params.n; i++) {
        char column[16];
        snprintf(column, sizeof column, "%s_ns", x->runs[i].key);
        csv_put_str(w, column);
    }
    csv_end_row(w);
    for (int p = 0; p < COMPARE_PERCENTILES; p++) {
        csv_put_str(w, compare_percentile_name(p));
        for (size_t i = 0; i < x->params.n; i++) {
            const struct series *s = &x->runs[i].metrics.of[m];
            csv_put_double(w, s->n ? stats_percentile(s->ns, s->n, compare_percentiles[p])
                                   : (double)NAN);
        }
        csv_end_row(w);
    }
}

enum st ab_write(const struct artifact *art, const struct ab *x, struct err *e)
{
    struct arena *a = art->a;
    struct buf summary = {0}, json = {0};
    struct csv_writer w = {0};
    const struct ab shown = ab_shown(a, x);
    document_markdown(&summary, ab_document(a, &shown, "Comparison of runs"));
    json_write(&json, ab_node(a, x), 2, true);
    enum st st = compare_write_texts(art, &summary, &json, x->curves, e);
    buf_free(&summary);
    buf_free(&json);
    for (enum metric m = 0; st == ST_OK && m < METRICS; m++) {
        const char *name = arena_printf(a, "tables/%s_percentiles.csv", metric_name(m));
        TRY(artifact_create_file(art, name, &w.f, e));
        percentile_rows(&w, x, m);
        st = artifact_close_file(art, name, &w.f, e);
    }
    return st;
}
