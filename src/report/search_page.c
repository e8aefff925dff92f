/* A search: the front, the configurations by capacity per GPU, and what could not be tried. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "text/json.h"

enum { MAX_CURVES = 6, MAX_ROWS = 60, MAX_REFUSED = 20 };

struct load {
    double user, gpu, joules, rate, load;
    bool front;
};

struct config {
    const char *words;
    const char *status, *why;
    double gpus, capacity, low, high;
    struct load *loads;
    uint32_t n_loads;
    uint32_t on_front;
};

struct search_data {
    const struct node *meta, *tree;
    struct config *configs;
    uint32_t n;
};

/* ---- from the tree ----------------------------------------------------------------------- */

/* "#3 sarathi, chunk_size 512, replicas 2": groups by their value, settings by their last part. */
static const char *config_words(struct arena *a, const struct node *tree, const struct node *c,
                                uint32_t index)
{
    uint32_t n_axes, n;
    struct node *const *axes = page_items(node_find(tree, "space"), &n_axes);
    struct node *const *values = page_items(node_find(c, "values"), &n);
    struct buf b = {0};
    buf_printf(&b, "#%u", index);
    for (uint32_t i = 0, k = 0; i < n && i < n_axes; i++) {
        const char *key = page_value(a, axes[i], "setting");
        if (values[i]->kind != NODE_STR || !key)
            continue;
        const char *dot = strrchr(key, '.');
        buf_printf(&b, "%s%s%s%s", k++ ? ", " : " ", dot ? dot + 1 : "", dot ? " " : "",
                   values[i]->s.p);
    }
    const char *words = arena_str(a, buf_str(&b));
    buf_free(&b);
    return words;
}

static bool is_true(const struct node *map, const char *key)
{
    const struct node *v = node_find(map, key);
    return v && v->kind == NODE_BOOL && v->b;
}

static void read_config(struct arena *a, const struct node *tree, const struct node *n,
                        uint32_t index, struct config *c)
{
    uint32_t ends;
    struct node *const *interval = page_items(node_find(n, "interval_per_s"), &ends);
    struct node *const *loads = page_items(node_find(n, "loads"), &c->n_loads);
    c->words = config_words(a, tree, n, index);
    c->status = page_value(a, n, "status");
    c->why = page_value(a, n, "why");
    c->gpus = page_number(n, "gpus");
    c->capacity = page_number(n, "capacity_per_s");
    c->low = ends == 2 ? page_number_of(interval[0]) : (double)NAN;
    c->high = ends == 2 ? page_number_of(interval[1]) : (double)NAN;
    c->loads = arena_array(a, struct load, c->n_loads);
    for (uint32_t i = 0; i < c->n_loads; i++) {
        c->loads[i] = (struct load){.user = page_number(loads[i], "tokens_per_s_user"),
                                    .gpu = page_number(loads[i], "tokens_per_s_gpu"),
                                    .joules = page_number(loads[i], "j_per_token"),
                                    .rate = page_number(loads[i], "rate"),
                                    .load = page_number(loads[i], "load"),
                                    .front = is_true(loads[i], "front")};
        c->on_front += c->loads[i].front;
    }
}

static bool is_refused(const struct config *c)
{
    return c->status && strcmp(c->status, "refused") == 0;
}

/* ---- orders ------------------------------------------------------------------------------ */

struct ranked {
    double key;
    uint32_t config, load;
};

static int by_key_down(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;
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

static struct ranked *rank_front(struct arena *a, const struct search_data *d, size_t *n)
{
    size_t most = 0;
    for (uint32_t i = 0; i < d->n; i++)
        most += d->configs[i].on_front;
    struct ranked *r = arena_array(a, struct ranked, most);
    *n = 0;
    for (uint32_t i = 0; i < d->n; i++)
        for (uint32_t k = 0; k < d->configs[i].n_loads; k++)
            if (d->configs[i].loads[k].front)
                r[(*n)++] = (struct ranked){or_least(d->configs[i].loads[k].user), i, k};
    if (*n > 0)
        qsort(r, *n, sizeof *r, by_key_down);
    return r;
}

/* key(config) downwards, refused ones left out. */
static struct ranked *rank_configs(struct arena *a, const struct search_data *d, bool by_front,
                                   size_t *n)
{
    struct ranked *r = arena_array(a, struct ranked, d->n);
    *n = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        const struct config *c = &d->configs[i];
        double key = by_front ? c->on_front : or_least(c->capacity / c->gpus);
        if (!is_refused(c))
            r[(*n)++] = (struct ranked){key, i, 0};
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
    struct ranked *best = rank_configs(a, d, false, &n), *front = rank_front(a, d, &n_front);
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, "Configurations", words_count(text, d->n),
              n < d->n ? arena_printf(a, "%zu cannot be simulated", d->n - n) : NULL);
    if (n > 0) {
        const struct config *c = &d->configs[best[0].config];
        page_tile(out, "Best capacity per GPU, requests/s",
                  short_number(text, c->capacity / c->gpus), c->words);
    }
    if (n_front > 0) {
        const struct config *fast = &d->configs[front[0].config];
        const struct config *full = &d->configs[front[n_front - 1].config];
        page_tile(out, "Most tok/s/user", short_number(text, fast->loads[front[0].load].user),
                  fast->words);
        page_tile(out, "Most tok/s/GPU",
                  short_number(text, full->loads[front[n_front - 1].load].gpu), full->words);
    }
    buf_puts(out, "</dl>\n");
}

static struct svg_series curve_of(struct arena *a, const struct config *c)
{
    double *x = arena_array(a, double, c->n_loads), *y = arena_array(a, double, c->n_loads);
    for (uint32_t k = 0; k < c->n_loads; k++) {
        x[k] = c->loads[k].user;
        y[k] = c->loads[k].gpu;
    }
    return (struct svg_series){.name = arena_strn(a, c->words, strcspn(c->words, " ")),
                               .x = x,
                               .y = y,
                               .n = c->n_loads,
                               .dashed = true};
}

static void figure(struct arena *a, struct buf *out, const struct search_data *d)
{
    size_t n, n_configs, k = 0;
    struct ranked *front = rank_front(a, d, &n), *most = rank_configs(a, d, true, &n_configs);
    struct svg_series series[MAX_CURVES + 1];
    double *x = arena_array(a, double, n), *y = arena_array(a, double, n);
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct load *l = &d->configs[front[i].config].loads[front[i].load];
        x[i] = l->user;
        y[i] = l->gpu;
    }
    series[k++] = (struct svg_series){.name = "Pareto front", .x = x, .y = y, .n = n};
    for (size_t i = 0; i < n_configs && k <= MAX_CURVES; i++)
        if (d->configs[most[i].config].on_front > 0)
            series[k++] = curve_of(a, &d->configs[most[i].config]);
    page_section(out, "Speed for a user against work of a GPU");
    buf_puts(out, "<div class=\"figures\">\n");
    page_chart(out, &(struct svg_chart){.title = "Loads of configurations",
                                        .x_label = "tok/s/user",
                                        .y_label = "tok/s/GPU",
                                        .series = series,
                                        .n_series = k});
    buf_puts(out, "</div>\n");
    page_tag(out, "p", "small",
             "Drawn are the configurations that are most often on the front; #n is their place in "
             "search.json, from 0.");
    buf_puts(out, "\n</section>\n");
}

static void head_row(struct buf *out, const char *const *heads, size_t n)
{
    buf_puts(out, "<div class=\"scroll\"><table class=\"sure\">\n<thead><tr>");
    for (size_t i = 0; i < n; i++)
        page_tag(out, "th", i == 0 ? NULL : "num", "%s", heads[i]);
    buf_puts(out, "</tr></thead>\n<tbody>\n");
}

static void number_cell(struct buf *out, double v)
{
    char text[WORDS_MAX];
    page_tag(out, "td", "num", "%s", short_number(text, v));
}

/* Neighbours on the front are often as good as equal. */
static bool is_alike(const struct load *x, const struct load *y)
{
    return fabs(x->user / y->user - 1) <= 0.02 && fabs(x->gpu / y->gpu - 1) <= 0.02;
}

static void front_table(struct arena *a, struct buf *out, const struct search_data *d)
{
    static const char *const heads[] = {"configuration", "tok/s/user", "tok/s/GPU",
                                        "J/token",       "requests/s", "load"};
    char text[WORDS_MAX];
    size_t n;
    struct ranked *front = rank_front(a, d, &n);
    const struct load *above = NULL;
    int rows = 0;
    if (n == 0)
        return;
    page_section(out, "Pareto front");
    head_row(out, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < n && rows < MAX_ROWS; i++) {
        const struct config *c = &d->configs[front[i].config];
        const struct load *l = &c->loads[front[i].load];
        if (above && is_alike(l, above))
            continue;
        above = l;
        rows++;
        buf_puts(out, "<tr>");
        page_tag(out, "th", "wide", "%s", c->words);
        number_cell(out, l->user);
        number_cell(out, l->gpu);
        number_cell(out, l->joules);
        number_cell(out, l->rate);
        page_tag(out, "td", "num", "%s", words_percent(text, 100 * l->load));
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, "</tbody></table></div>\n");
    page_tag(out, "p", "small",
             "No other load of any configuration has more of both rates. Loads within 2 %% of the "
             "row above are left out; of %zu on the front, %d stand here.",
             n, rows);
    buf_puts(out, "\n</section>\n");
}

static void config_table(struct arena *a, struct buf *out, const struct search_data *d)
{
    static const char *const heads[] = {"configuration", "GPUs", "requests/s per GPU",
                                        "capacity, requests/s", "95 % interval"};
    char low[WORDS_MAX], high[WORDS_MAX];
    size_t n;
    struct ranked *best = rank_configs(a, d, false, &n);
    if (n == 0)
        return;
    page_section(out, "By capacity per GPU");
    head_row(out, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < n && i < MAX_ROWS; i++) {
        const struct config *c = &d->configs[best[i].config];
        buf_puts(out, "<tr>");
        page_tag(out, "th", "wide", "%s", c->words);
        number_cell(out, c->gpus);
        number_cell(out, c->capacity / c->gpus);
        number_cell(out, c->capacity);
        page_tag(out, "td", "num", "%s to %s", short_number(low, c->low),
                 short_number(high, c->high));
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, "</tbody></table></div>\n");
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
            lines[n++] = arena_printf(a, "%s: %s", d->configs[i].words,
                                      d->configs[i].why ? d->configs[i].why : "no reason given");
    page_notes(out, "Not simulated", lines, n);
}

static void search_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct search_data *d = part->data;
    const char *model = page_value(a, d->meta, "model");
    const char *objective = page_value(a, d->tree, "objective");
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title,
              arena_printf(a, "Configurations%s%s", model ? " for " : "", model ? model : ""));
    if (objective)
        page_tag(out, "p", NULL, "Objective: %s", objective);
    tiles(a, out, d);
    buf_puts(out, "</header>\n");
    figure(a, out, d);
    front_table(a, out, d);
    config_table(a, out, d);
    page_note_list(a, out, "Notes", node_find(d->tree, "notes"));
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
    TRY(node_get(tree, "configurations", NODE_LIST, &configs, e));
    *d = (struct search_data){meta, tree, arena_array(a, struct config, configs->n), configs->n};
    for (uint32_t i = 0; i < configs->n; i++)
        read_config(a, tree, configs->items[i], i, &d->configs[i]);
    *out = (struct part){.title = arena_printf(a, "Search %s", id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%u configurations", configs->n),
                         .body = search_body,
                         .data = d};
    return ST_OK;
}
