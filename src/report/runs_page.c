/* Page of a comparison of runs with the first, from compare.json and its curves alone. */
#include "compare/ab.h"
#include "report/page.h"

struct runs_data {
    struct ab x; /* as compare.json has it */
    const struct node *meta;
    const struct curves *curves;
};

static void draw_distributions(struct arena *a, struct buf *out, const void *data)
{
    (void)a;
    page_figures(out, NULL, ((const struct runs_data *)data)->curves, 0, METRICS);
}

static void draw_over_time(struct arena *a, struct buf *out, const void *data)
{
    (void)a;
    page_figures(out, NULL, ((const struct runs_data *)data)->curves, METRICS, CURVES_FIGURES);
}

static void runs_body(struct arena *a, struct buf *out, const struct part *part)
{
    static const struct page_drawing drawings[] = {{"distributions", draw_distributions, NULL},
                                                   {"over_time", draw_over_time, NULL},
                                                   {NULL, NULL, NULL}};
    const struct runs_data *d = part->data;
    const struct ab *x = &d->x;
    const char *titles[AB_MAX_RUNS];
    const struct node *metas[AB_MAX_RUNS];
    const struct document *doc = ab_document(a, x, part->title);
    for (size_t i = 0; i < x->params.n; i++) {
        titles[i] = x->runs[i].label ? x->runs[i].label : "";
        metas[i] = x->runs[i].run.meta;
    }
    page_banner(out, doc);
    page_document(a, out, doc, drawings, d);
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
