/* Page of a search: the front, the configurations by capacity per GPU, and those that could not be
 * tried. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "search/search_result.h"
#include "text/json.h"

enum { MAX_CURVES = 6, MAX_ROWS = 60, MAX_REFUSED = 20 };

struct page_config {
    const struct search_config *c;
    const char *words;
    uint32_t on_front; /* its loads there */
};

struct search_data {
    const struct node *meta;
    struct search_result r;
    struct page_config *configs; /* [n], those of r */
    uint32_t n;
};

/* ---- settings ---------------------------------------------------------------------------- */

/* The last part of a setting's name, or all of it where another axis has the same last part. */
static const char *short_setting(const struct search_result *r, size_t i)
{
    const char *key = r->axes[i].key, *dot = strrchr(key, '.'), *last = dot ? dot + 1 : key;
    for (size_t k = 0; k < r->n_axes; k++) {
        const char *other = r->axes[k].key ? strrchr(r->axes[k].key, '.') : NULL;
        if (k != i && r->axes[k].key && strcmp(other ? other + 1 : r->axes[k].key, last) == 0)
            return key;
    }
    return last;
}

/* "sarathi, chunk_size 512, replicas 2": groups by their value alone. */
static const char *config_words(struct arena *a, const struct search_result *r,
                                const struct search_config *c)
{
    struct buf b = {0};
    for (size_t i = 0; i < c->n_values && i < r->n_axes; i++) {
        if (!c->values[i])
            continue;
        buf_puts(&b, b.n ? ", " : "");
        if (r->axes[i].key && strchr(r->axes[i].key, '.'))
            buf_printf(&b, "%s ", short_setting(r, i));
        buf_puts(&b, c->values[i]);
    }
    const char *words = b.n ? arena_str(a, buf_str(&b)) : "all as configured";
    buf_free(&b);
    return words;
}

static bool is_refused(const struct page_config *c)
{
    return c->c->status == SEARCH_REFUSED;
}

static double rate_per_gpu(const struct page_config *c)
{
    return c->c->capacity.rate / (double)c->c->gpus;
}

/* ---- orders ------------------------------------------------------------------------------ */

struct ranked_load {
    double key;
    uint32_t config, load;
};

static int by_key_down(const void *pa, const void *pb)
{
    const struct ranked_load *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? 1 : -1;
    if (a->config != b->config)
        return a->config > b->config ? 1 : -1;
    return (a->load > b->load) - (a->load < b->load);
}

static double or_least(double v)
{
    return isfinite(v) ? v : -1;
}

static struct ranked_load *rank_front(struct arena *a, const struct search_data *d, size_t *n)
{
    size_t most = 0;
    for (uint32_t i = 0; i < d->n; i++)
        most += d->configs[i].on_front;
    struct ranked_load *r = arena_array(a, struct ranked_load, most);
    *n = 0;
    for (uint32_t i = 0; i < d->n; i++)
        for (uint32_t k = 0; k < d->configs[i].c->n_loads; k++) {
            const struct search_load *l = &d->configs[i].c->loads[k];
            if (l->front)
                r[(*n)++] = (struct ranked_load){or_least(l->tokens_per_s_user), i, k};
        }
    if (*n > 0)
        qsort(r, *n, sizeof *r, by_key_down);
    return r;
}

static const struct search_load *ranked_load(const struct search_data *d,
                                             const struct ranked_load *r)
{
    return &d->configs[r->config].c->loads[r->load];
}

/* key(config) downwards, refused ones left out. */
static struct ranked_load *rank_configs(struct arena *a, const struct search_data *d, bool by_front,
                                        size_t *n)
{
    struct ranked_load *r = arena_array(a, struct ranked_load, d->n);
    *n = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        const struct page_config *c = &d->configs[i];
        double key = by_front ? c->on_front : or_least(rate_per_gpu(c));
        if (!is_refused(c))
            r[(*n)++] = (struct ranked_load){key, i, 0};
    }
    if (*n > 0)
        qsort(r, *n, sizeof *r, by_key_down);
    return r;
}

/* ---- parts of the page ------------------------------------------------------------------- */

static const char *short_number(char out[WORDS_MAX], double v)
{
    snprintf(out, WORDS_MAX, isfinite(v) ? "%.4g" : "n/a", v);
    return out;
}

static void tiles(struct arena *a, struct buf *out, const struct search_data *d)
{
    char text[WORDS_MAX];
    size_t n, n_front;
    struct ranked_load *best = rank_configs(a, d, false, &n), *front = rank_front(a, d, &n_front);
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, "Configurations", words_count(text, d->n),
              n < d->n ? arena_printf(a, "%zu cannot be simulated", d->n - n) : NULL);
    if (n > 0) {
        const struct page_config *c = &d->configs[best[0].config];
        page_tile(out, "Best capacity per GPU, requests/s", short_number(text, rate_per_gpu(c)),
                  c->words);
    }
    if (n_front > 0) {
        const struct page_config *fast = &d->configs[front[0].config];
        const struct page_config *full = &d->configs[front[n_front - 1].config];
        page_tile(out, "Most tok/s/user",
                  short_number(text, fast->c->loads[front[0].load].tokens_per_s_user), fast->words);
        page_tile(out, "Most tok/s/GPU",
                  short_number(text, full->c->loads[front[n_front - 1].load].tokens_per_s_gpu),
                  full->words);
    }
    buf_puts(out, "</dl>\n");
}

/* The loads of configurations that meet the objective, as points. */
struct load_points {
    double *x, *y;
    uint32_t n;
};

static struct load_points points_with_room(struct arena *a, const struct search_data *d)
{
    size_t n = 0;
    for (uint32_t i = 0; i < d->n; i++)
        n += d->configs[i].c->n_loads;
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
static void figure(struct arena *a, struct buf *out, const struct search_data *d)
{
    enum { PLOT_HEIGHT = 300, LEGEND_LINE = 18 };
    size_t n, n_configs, k = 0;
    struct ranked_load *front = rank_front(a, d, &n), *most = rank_configs(a, d, true, &n_configs);
    struct svg_series series[MAX_CURVES + 2];
    struct load_points rest = points_with_room(a, d), on_front = points_with_room(a, d);
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct search_load *l = ranked_load(d, &front[i]);
        on_front.x[on_front.n] = l->tokens_per_s_user;
        on_front.y[on_front.n++] = l->tokens_per_s_gpu;
    }
    series[k] = series_of("Pareto front", &on_front);
    series[k].no_line = false;
    series[k++].step = true;
    for (size_t i = 0; i < n_configs; i++) {
        const struct page_config *c = &d->configs[most[i].config];
        struct load_points own = points_with_room(a, d);
        if (c->on_front == 0 || k > MAX_CURVES) {
            add_points(&rest, c->c);
            continue;
        }
        add_points(&own, c->c);
        series[k++] = series_of(c->words, &own);
    }
    if (rest.n)
        series[k++] = series_of("all others", &rest);
    page_section(out, "Speed for a user against work of a GPU");
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
    buf_puts(out, "\n</section>\n");
}

/* The settings; its place in search.json and search.csv behind them. */
static void config_cell(struct page_table *t, const struct search_data *d, uint32_t i)
{
    page_cell_begin(t);
    page_text(t->out, "%s ", d->configs[i].words);
    page_tag(t->out, "small", NULL, "#%u", i);
    page_cell_end(t);
}

static void number_cell(struct page_table *t, double v)
{
    char text[WORDS_MAX];
    page_cell(t, short_number(text, v));
}

/* Whether two neighbours on the front are practically equal. */
static bool is_alike(const struct search_load *x, const struct search_load *y)
{
    return fabs(x->tokens_per_s_user / y->tokens_per_s_user - 1) <= 0.02 &&
           fabs(x->tokens_per_s_gpu / y->tokens_per_s_gpu - 1) <= 0.02;
}

static void front_table(struct arena *a, struct buf *out, const struct search_data *d)
{
    static const struct page_column columns[] = {{.head = "configuration"}, {.head = "tok/s/user"},
                                                 {.head = "tok/s/GPU"},     {.head = "J/token"},
                                                 {.head = "requests/s"},    {.head = "load"}};
    size_t n;
    struct ranked_load *front = rank_front(a, d, &n);
    const struct search_load *above = NULL;
    struct page_table t;
    int rows = 0;
    if (n == 0)
        return;
    page_section(out, "Pareto front");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < n && rows < MAX_ROWS; i++) {
        const struct search_load *l = ranked_load(d, &front[i]);
        if (above && is_alike(l, above))
            continue;
        above = l;
        rows++;
        page_row(&t);
        config_cell(&t, d, front[i].config);
        number_cell(&t, l->tokens_per_s_user);
        number_cell(&t, l->tokens_per_s_gpu);
        number_cell(&t, l->j_per_token);
        number_cell(&t, l->rate);
        page_cell_percent(&t, 100 * l->load);
    }
    page_table_end(&t);
    page_tag(out, "p", "small",
             "No other load of any configuration has more of both rates. Loads within 2 %% of the "
             "row above are left out; of %zu on the front, %d stand here. #n is a configuration's "
             "place in search.json, from 0.",
             n, rows);
    buf_puts(out, "\n</section>\n");
}

static void config_table(struct arena *a, struct buf *out, const struct search_data *d)
{
    const struct page_column columns[] = {
        {.head = "configuration"},
        {.head = "GPUs"},
        {.head = "requests/s per GPU"},
        {.head = "capacity, requests/s"},
        {.head = d->r.seeds == 1 ? "between, one seed" : "95 % interval"}};
    char low[WORDS_MAX], high[WORDS_MAX];
    size_t n;
    struct ranked_load *best = rank_configs(a, d, false, &n);
    struct page_table t;
    if (n == 0)
        return;
    page_section(out, "By capacity per GPU");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < n && i < MAX_ROWS; i++) {
        const struct page_config *c = &d->configs[best[i].config];
        page_row(&t);
        config_cell(&t, d, best[i].config);
        number_cell(&t, (double)c->c->gpus);
        number_cell(&t, rate_per_gpu(c));
        number_cell(&t, c->c->capacity.rate);
        page_cell(&t, arena_printf(a, "%s to %s", short_number(low, c->c->capacity.low),
                                   short_number(high, c->c->capacity.high)));
    }
    page_table_end(&t);
    if (n > MAX_ROWS)
        page_tag(out, "p", "small", "The best %d of %zu; search.csv holds all.", (int)MAX_ROWS, n);
    buf_puts(out, "\n</section>\n");
}

static void refused(struct arena *a, struct buf *out, const struct search_data *d)
{
    const char *lines[MAX_REFUSED];
    size_t n = 0;
    for (uint32_t i = 0; i < d->n && n < MAX_REFUSED; i++)
        if (is_refused(&d->configs[i]))
            lines[n++] =
                arena_printf(a, "%s: %s", d->configs[i].words,
                             d->configs[i].c->why ? d->configs[i].c->why : "no reason given");
    page_notes(out, "Not simulated", lines, n);
}

static void search_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct search_data *d = part->data;
    const char *model = page_value(a, d->meta, "model");
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title,
              arena_printf(a, "Configurations%s%s", model ? " for " : "", model ? model : ""));
    if (d->r.objective)
        page_tag(out, "p", NULL, "Objective: %s", d->r.objective);
    tiles(a, out, d);
    buf_puts(out, "</header>\n");
    figure(a, out, d);
    front_table(a, out, d);
    config_table(a, out, d);
    page_notes(out, "Notes", d->r.notes, d->r.n_notes);
    refused(a, out, d);
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
    d->n = (uint32_t)d->r.n;
    d->configs = arena_array(a, struct page_config, d->n);
    for (uint32_t i = 0; i < d->n; i++) {
        const struct search_config *c = &d->r.configs[i];
        d->configs[i] = (struct page_config){.c = c, .words = config_words(a, &d->r, c)};
        for (size_t k = 0; k < c->n_loads; k++)
            d->configs[i].on_front += c->loads[k].front;
    }
    *out = (struct part){.title = arena_printf(a, "Search %s", id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%u configurations", d->n),
                         .body = search_body,
                         .data = d};
    return ST_OK;
}
