/* The files of a comparison of runs: compare.json, tables, figures. */
#include <math.h>

#include "compare/ab.h"
#include "compare/bootstrap.h"
#include "compare/intern.h"
#include "text/json.h"

static struct node *cell_node(struct arena *a, const struct ab_cell *c)
{
    struct node *n = node_new(a, NODE_MAP), *interval = node_new(a, NODE_NULL);
    if (isfinite(c->low_percent)) {
        interval = node_new(a, NODE_LIST);
        node_push(a, interval, node_float(a, c->low_percent));
        node_push(a, interval, node_float(a, c->high_percent));
    }
    node_put(a, n, "change_percent", node_number(a, c->change_percent));
    node_put(a, n, "interval_percent", interval);
    node_put(a, n, "repeat_percent", node_number(a, c->repeat_percent));
    node_put(a, n, "call", node_str(a, ab_call_name(c->call)));
    node_put(a, n, "verdict", node_str(a, verdict_name(c->verdict)));
    node_put(a, n, "causes", compare_cause_ids(a, c->causes));
    node_put(a, n, "text", node_str(a, ab_change_text(a, c)));
    return n;
}

static struct node *metric_node(struct arena *a, const struct ab_run *r, enum metric m, bool first)
{
    struct node *n = node_new(a, NODE_MAP), *cells = node_new(a, NODE_MAP);
    const struct series *s = &r->metrics.of[m];
    for (int p = 0; p < COMPARE_PERCENTILES; p++) {
        struct node *cell = first ? node_new(a, NODE_MAP) : cell_node(a, &r->cells[m][p]);
        node_put(a, cell, "value_ns",
                 node_number(a, s->n ? metrics_percentile(s->ns, s->n, compare_percentiles[p])
                                     : (double)NAN));
        node_put(a, cells, compare_percentile_name(p), cell);
    }
    node_put(a, n, "n", node_int(a, (int64_t)s->n));
    node_put(a, n, "percentiles", cells);
    return n;
}

static struct node *run_node(struct arena *a, const struct ab_run *r, bool first)
{
    struct node *n = compare_run_node(a, &r->run, &r->metrics);
    struct node *metrics = node_new(a, NODE_MAP);
    for (enum metric m = 0; m < METRICS; m++)
        node_put(a, metrics, metric_name(m), metric_node(a, r, m, first));
    node_put(a, n, "key", node_str(a, r->key));
    node_put(a, n, "name", node_str(a, r->name));
    node_put(a, n, "label", node_str(a, r->label));
    node_put(a, n, "metrics", metrics);
    node_put(a, n, "paired", node_bool(a, r->paired));
    node_put(a, n, "requests", node_int(a, (int64_t)r->n_requests));
    node_put(a, n, "left_out", node_int(a, (int64_t)r->n_left_out));
    node_put(a, n, "machine_change_percent", node_number(a, 100 * r->drift));
    node_put(a, n, "text", compare_texts(a, r->lines, r->n_lines));
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

struct node *ab_node(struct arena *a, const struct ab *x)
{
    struct node *n = node_new(a, NODE_MAP), *runs = node_new(a, NODE_LIST);
    struct node *method = node_new(a, NODE_MAP);
    for (size_t i = 0; i < x->params.n; i++)
        node_push(a, runs, run_node(a, &x->runs[i], i == 0));
    node_put(a, method, "name", node_str(a, "circular block bootstrap"));
    node_put(a, method, "confidence", node_float(a, 0.95));
    node_put(a, method, "draws", node_int(a, x->draws));
    node_put(a, method, "block_requests", node_int(a, (int64_t)boot_block(x->runs[0].n_requests)));
    node_put(a, n, "schema_version", node_int(a, 1));
    node_put(a, n, "kind", node_str(a, "runs"));
    node_put(a, n, "outcome", node_str(a, x->outcome));
    node_put(a, n, "gate", node_str(a, x->params.gate == AB_GATE_SLOWER ? "slower" : "none"));
    node_put(a, n, "pass_percent", node_float(a, x->params.pass_percent));
    node_put(a, n, "warn_percent", node_float(a, x->params.warn_percent));
    node_put(a, n, "verdict", node_str(a, verdict_name(x->verdict)));
    node_put(a, n, "cause",
             x->verdict == VERDICT_INCONCLUSIVE ? node_str(a, cause_id(x->reasons[0].cause))
                                                : node_new(a, NODE_NULL));
    node_put(a, n, "causes", compare_reasons_node(a, x->reasons, x->n_reasons));
    node_put(a, n, "method", method);
    node_put(a, n, "runs", runs);
    node_put(a, n, "spread_runs", compare_texts(a, x->params.spread_dirs, x->params.n_spread));
    node_put(a, n, "settings", settings_node(a, x));
    node_put(a, n, "notes", compare_texts(a, x->notes, x->n_notes));
    return n;
}

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
            csv_put_double(w, s->n ? metrics_percentile(s->ns, s->n, compare_percentiles[p])
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
    ab_summary(a, &summary, x);
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
