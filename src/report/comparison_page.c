/* Page of a comparison, from compare.json and its curves alone. Numbers that are missing or of the
 * wrong kind are shown as n/a. */
#include <math.h>

#include "compare/compare.h"
#include "report/page.h"
#include "text/json.h"

struct comparison_data {
    struct comparison c; /* as compare.json has it */
    const struct node *meta;
    const struct curves *curves;
};

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
static void draw_error(struct buf *out, const void *data, const void *of)
{
    const struct compare_params *d = &((const struct comparison_data *)data)->c.params;
    const struct compare_cell *cell = of;
    double error = cell->error_percent, real = cell->real_ns;
    double end = 2 * d->warn_percent, low = cell->real_low_ns, high = cell->real_high_ns;
    if (isnan(error) || !(end > 0))
        return;
    buf_printf(out,
               "<svg class=\"track\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
               "preserveAspectRatio=\"none\" aria-hidden=\"true\">",
               TRACK_WIDTH, TRACK_HEIGHT, TRACK_WIDTH, TRACK_HEIGHT);
    zone(out, "outer", end, -d->warn_percent, d->warn_percent);
    zone(out, "band", end, -d->pass_percent, d->pass_percent);
    if (real > 0 && low <= high)
        zone(out, "interval", end, clamp(100 * (low - real) / real, end),
             clamp(100 * (high - real) / real, end));
    /* A dot drawn as a line cap stays round where a narrow screen squeezes the scale. */
    double at = TRACK_WIDTH * (clamp(error, 0.95 * end) + end) / (2 * end);
    buf_printf(out,
               "<path class=\"ring\" d=\"M%.1f 6h0\"/><path class=\"dot\" d=\"M%.1f 6h0\"/></svg>",
               at, at);
}

static void draw_legend(struct arena *a, struct buf *out, const void *data)
{
    const struct comparison *c = &((const struct comparison_data *)data)->c;
    (void)a;
    page_tag(
        out, "p", "small",
        "On the scale beside the error the dark band is pass, the light one warn, the line the "
        "95 %% interval of the real percentile, the dot the simulation. It ends at twice the "
        "limit of warn, ±%g %%; what is beyond stands at its end.",
        2 * c->params.warn_percent);
}

static void draw_distributions(struct arena *a, struct buf *out, const void *data)
{
    (void)a;
    page_figures(out, NULL, ((const struct comparison_data *)data)->curves, 0, METRICS);
}

static void draw_over_time(struct arena *a, struct buf *out, const void *data)
{
    (void)a;
    page_figures(out, NULL, ((const struct comparison_data *)data)->curves, METRICS,
                 CURVES_FIGURES);
}

static void comparison_body(struct arena *a, struct buf *out, const struct part *part)
{
    static const struct page_drawing drawings[] = {{"legend", draw_legend, NULL},
                                                   {"distributions", draw_distributions, NULL},
                                                   {"over_time", draw_over_time, NULL},
                                                   {"error", NULL, draw_error},
                                                   {NULL, NULL, NULL}};
    const struct comparison_data *d = part->data;
    const struct document *doc = compare_document(a, &d->c, part->title);
    page_banner(out, doc);
    page_document(a, out, doc, drawings, d);
    page_facts(a, out, "What was run", (const char *const[]){"real", "simulated"},
               (const struct node *const[]){d->c.real.meta, d->c.sim.meta}, 2);
}

struct part part_of_comparison(struct arena *a, const struct node *tree,
                               const struct curves *curves, const struct node *meta)
{
    struct comparison_data *d = arena_one(a, struct comparison_data);
    d->meta = meta;
    d->curves = curves;
    fields_read_loose(a, &comparison_fields, tree, &d->c);
    const char *id = page_value(a, meta, "run_id");
    return (struct part){.title = id ? arena_printf(a, "Comparison %s", id) : "Comparison",
                         .remark = arena_printf(a, "%s, %.0f requests", verdict_name(d->c.verdict),
                                                compare_known(d->c.n_aligned)),
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
