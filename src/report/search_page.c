/* Page of a search: the front, the configurations by capacity per GPU, and those that could not be
 * tried. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "search/search_result.h"
#include "text/json.h"

enum { MAX_CURVES = 6, MAX_ROWS = 60 };

struct search_data {
    const struct node *meta;
    struct search_result r;
};

/* The loads of configurations that meet the objective, as points. */
struct load_points {
    double *x, *y;
    uint32_t n;
};

static struct load_points points_with_room(struct arena *a, const struct search_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->configs[i].n_loads;
    return (struct load_points){arena_array(a, double, n), arena_array(a, double, n), 0};
}

static void add_points(struct load_points *p, const struct search_config *c)
{
    for (size_t k = 0; k < c->n_loads; k++)
        if (c->loads[k].meets) {
            p->x[p->n] = c->loads[k].tokens_per_s_user;
            p->y[p->n++] = c->loads[k].tokens_per_s_gpu;
        }
}

static struct svg_series series_of(const char *name, const struct load_points *p)
{
    return (struct svg_series){.name = name, .x = p->x, .y = p->y, .n = p->n, .no_line = true};
}

/* Draws the front as a staircase: between two of its points nothing better than the lower was
 * found. */
static void draw_front(struct arena *a, struct buf *out, const void *data)
{
    const struct search_result *r = &((const struct search_data *)data)->r;
    enum { PLOT_HEIGHT = 300, LEGEND_LINE = 18 };
    size_t n, n_configs, k = 0;
    const struct search_rank *front = search_rank_front(a, r, &n),
                             *most = search_rank_configs(a, r, true, &n_configs);
    struct svg_series series[MAX_CURVES + 2];
    struct load_points rest = points_with_room(a, r), on_front = points_with_room(a, r);
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct search_load *l = &r->configs[front[i].config].loads[front[i].load];
        on_front.x[on_front.n] = l->tokens_per_s_user;
        on_front.y[on_front.n++] = l->tokens_per_s_gpu;
    }
    series[k] = series_of("Pareto front", &on_front);
    series[k].no_line = false;
    series[k++].step = true;
    for (size_t i = 0; i < n_configs; i++) {
        const struct search_config *c = &r->configs[most[i].config];
        struct load_points own = points_with_room(a, r);
        if (search_on_front(c) == 0 || k > MAX_CURVES) {
            add_points(&rest, c);
            continue;
        }
        add_points(&own, c);
        series[k++] = series_of(search_config_words(a, r, c), &own);
    }
    if (rest.n)
        series[k++] = series_of("all others", &rest);
    buf_puts(out, "<div class=\"figures\">\n");
    page_chart(out, &(struct svg_chart){.title = "Loads that meet the objective",
                                        .x_label = "tok/s/user",
                                        .y_label = "tok/s/GPU",
                                        .height = PLOT_HEIGHT + (int)k * LEGEND_LINE,
                                        .series = series,
                                        .n_series = k});
    buf_puts(out, "</div>\n");
    page_tag(out, "p", "small",
             "A point is one configuration under one load. Those with a colour of their own are "
             "most often on the front; between two points of the front nothing better was found.");
}

static void search_body(struct arena *a, struct buf *out, const struct part *part)
{
    static const struct page_drawing drawings[] = {{"front", draw_front, NULL}, {NULL, NULL, NULL}};
    const struct search_data *d = part->data;
    const struct document *doc =
        search_document(a, &d->r, part->title, page_value(a, d->meta, "model"), MAX_ROWS);
    page_banner(out, doc);
    page_document(a, out, doc, drawings, d);
    page_facts(a, out, "How it was found", NULL, &d->meta, 1);
}

enum st part_search(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                    struct err *e)
{
    struct search_data *d = arena_one(a, struct search_data);
    const char *id = page_value(a, meta, "run_id");
    struct node *tree, *configs;
    TRY(json_load(a, fs_join(a, dir, "search.json"), NULL, &tree, e));
    TRY(node_check_version(tree, "schema_version", 1, e));
    TRY(node_get(tree, "configurations", NODE_LIST, &configs, e));
    d->meta = meta;
    fields_read_loose(a, &search_result_fields, tree, &d->r);
    *out = (struct part){.title = arena_printf(a, "Search %s", id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%zu configurations", d->r.n),
                         .body = search_body,
                         .data = d};
    return ST_OK;
}
