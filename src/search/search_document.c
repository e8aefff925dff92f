/* A search as a document, of what search.json has: for the terminal and the page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/search_result.h"
#include "text/document.h"

enum { MAX_REASONS = 10 };

/* ---- orders -------------------------------------------------------------------------------- */

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
const char *search_config_words(struct arena *a, const struct search_result *r,
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

static int by_key_down(const void *pa, const void *pb)
{
    const struct search_rank *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? 1 : -1;
    if (a->config != b->config) /* qsort alone is not stable */
        return a->config > b->config ? 1 : -1;
    return (a->load > b->load) - (a->load < b->load);
}

static double or_least(double v)
{
    return isfinite(v) ? v : -1;
}

static double rate_per_gpu(const struct search_config *c)
{
    return c->capacity.rate / (double)c->gpus;
}

struct search_rank *search_rank_front(struct arena *a, const struct search_result *r, size_t *n)
{
    size_t all = 0;
    for (size_t i = 0; i < r->n; i++)
        all += r->configs[i].n_loads;
    struct search_rank *rank = arena_array(a, struct search_rank, all);
    *n = 0;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->configs[i].n_loads; k++)
            if (r->configs[i].loads[k].front)
                rank[(*n)++] =
                    (struct search_rank){or_least(r->configs[i].loads[k].tokens_per_s_user), i, k};
    if (*n > 0)
        qsort(rank, *n, sizeof *rank, by_key_down);
    return rank;
}

size_t search_on_front(const struct search_config *c)
{
    size_t n = 0;
    for (size_t k = 0; k < c->n_loads; k++)
        n += c->loads[k].front;
    return n;
}

struct search_rank *search_rank_configs(struct arena *a, const struct search_result *r,
                                        bool by_front, size_t *n)
{
    struct search_rank *rank = arena_array(a, struct search_rank, r->n);
    *n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct search_config *c = &r->configs[i];
        const double key = by_front ? (double)search_on_front(c) : or_least(rate_per_gpu(c));
        if (c->status != SEARCH_REFUSED)
            rank[(*n)++] = (struct search_rank){key, i, 0};
    }
    if (*n > 0)
        qsort(rank, *n, sizeof *rank, by_key_down);
    return rank;
}

static const struct search_load *busiest(const struct search_config *c)
{
    const struct search_load *most = NULL;
    for (size_t i = 0; i < c->n_loads; i++)
        if (!most || c->loads[i].load > most->load)
            most = &c->loads[i];
    return most;
}

/* Whether two neighbours on the front are practically equal. */
static bool is_alike(const struct search_load *x, const struct search_load *y)
{
    return fabs(x->tokens_per_s_user / y->tokens_per_s_user - 1) <= 0.02 &&
           fabs(x->tokens_per_s_gpu / y->tokens_per_s_gpu - 1) <= 0.02;
}

/* ---- sections ------------------------------------------------------------------------------ */

static const char *number(struct arena *a, double v)
{
    return document_value(a, DOCUMENT_NUMBER, v);
}

/* "scheduler=sarathi scheduler.chunk_size=512", for a command line */
static const char *settings_words(struct arena *a, const struct search_result *r,
                                  const struct search_config *c)
{
    struct buf b = {0};
    for (size_t i = 0; i < c->n_values && i < r->n_axes; i++)
        if (c->values[i] && r->axes[i].key)
            buf_printf(&b, "%s%s=%s", b.n ? " " : "", r->axes[i].key, c->values[i]);
    const char *words = b.n ? arena_str(a, buf_str(&b)) : "as configured";
    buf_free(&b);
    return words;
}

static void tell_tiles(struct document *d, const struct search_result *r)
{
    size_t n, n_front;
    const struct search_rank *best = search_rank_configs(d->a, r, false, &n),
                             *front = search_rank_front(d->a, r, &n_front);
    document_tile(d, "Configurations", document_value(d->a, DOCUMENT_COUNT, (double)r->n),
                  n < r->n ? arena_printf(d->a, "%zu cannot be simulated", r->n - n) : NULL);
    if (n > 0 && rate_per_gpu(&r->configs[best[0].config]) > 0) {
        const struct search_config *c = &r->configs[best[0].config];
        document_tile(d, "Best capacity per GPU, requests/s", number(d->a, rate_per_gpu(c)),
                      search_config_words(d->a, r, c));
    }
    if (n_front > 0) {
        const struct search_rank *fast = &front[0], *full = &front[n_front - 1];
        const struct search_config *f = &r->configs[fast->config], *g = &r->configs[full->config];
        document_tile(d, "Most tok/s/user", number(d->a, f->loads[fast->load].tokens_per_s_user),
                      search_config_words(d->a, r, f));
        document_tile(d, "Most tok/s/GPU", number(d->a, g->loads[full->load].tokens_per_s_gpu),
                      search_config_words(d->a, r, g));
    }
}

/* The settings; its place in search.json and search.csv behind them. */
static void add_config(struct document_table *t, const struct search_result *r, size_t i)
{
    document_row(t);
    document_words(t, "%s", search_config_words(t->a, r, &r->configs[i]))->remark =
        arena_printf(t->a, "#%zu", i);
}

static void tell_front(struct document *d, const struct search_result *r, size_t most)
{
    static const struct document_column columns[] = {
        {.title = "configuration"},
        {.title = "tok/s/user", .kind = DOCUMENT_NUMBER},
        {.title = "tok/s/GPU", .kind = DOCUMENT_NUMBER},
        {.title = "J/token", .kind = DOCUMENT_NUMBER},
        {.title = "requests/s", .kind = DOCUMENT_NUMBER},
        {.title = "load", .kind = DOCUMENT_PERCENT}};
    size_t n;
    const struct search_rank *front = search_rank_front(d->a, r, &n);
    const struct search_load *above = NULL;
    if (n == 0)
        return;
    document_section(d, "Pareto front");
    struct document_table *t = document_table(d, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < n && t->n_rows < most; i++) {
        const struct search_load *l = &r->configs[front[i].config].loads[front[i].load];
        if (above && is_alike(l, above))
            continue;
        above = l;
        add_config(t, r, front[i].config);
        document_number(t, l->tokens_per_s_user);
        document_number(t, l->tokens_per_s_gpu);
        document_number(t, l->j_per_token);
        document_number(t, l->rate);
        document_number(t, 100 * l->load);
    }
    document_remark(
        d,
        "No other load of any configuration has more of both rates. Loads within 2 %% of the row "
        "above are left out; of %zu on the front, %zu stand here. #n is a configuration's place "
        "in search.json, from 0.",
        n, t->n_rows);
}

static void tell_configs(struct document *d, const struct search_result *r, size_t most)
{
    const struct document_column columns[] = {
        {.title = "configuration"},
        {.title = "GPUs", .kind = DOCUMENT_COUNT},
        {.title = "requests/s per GPU", .kind = DOCUMENT_NUMBER},
        {.title = "capacity, requests/s", .kind = DOCUMENT_NUMBER},
        {.title = r->seeds == 1 ? "between, one seed" : "95 % interval", .kind = DOCUMENT_LABEL},
        {.title = "tok/s/GPU", .kind = DOCUMENT_NUMBER},
        {.title = "tok/s/user", .kind = DOCUMENT_NUMBER}};
    size_t n;
    const struct search_rank *best = search_rank_configs(d->a, r, false, &n);
    if (n == 0)
        return;
    document_section(d, "By capacity per GPU");
    struct document_table *t = document_table(d, arena_copy(d->a, columns, sizeof columns),
                                              sizeof columns / sizeof *columns);
    for (size_t i = 0; i < n && i < most; i++) {
        const struct search_config *c = &r->configs[best[i].config];
        const struct search_load *l = busiest(c);
        add_config(t, r, best[i].config);
        document_number(t, (double)c->gpus);
        document_number(t, rate_per_gpu(c));
        document_number(t, c->capacity.rate);
        document_words(t, "%s .. %s", number(d->a, c->capacity.low),
                       number(d->a, c->capacity.high));
        document_number(t, l ? l->tokens_per_s_gpu : (double)NAN);
        document_number(t, l ? l->tokens_per_s_user : (double)NAN);
    }
    if (n > most)
        document_remark(d, "The best %zu of %zu; search.csv holds all.", most, n);
    document_remark(d, "tok/s are those under the largest load that was tried.");
    const struct search_config *first = &r->configs[best[0].config];
    if (rate_per_gpu(first) > 0)
        document_fact(d, "Settings of the first", settings_words(d->a, r, first));
}

static bool same_reason(const struct search_config *x, const struct search_config *y)
{
    return x->status == SEARCH_REFUSED && y->status == SEARCH_REFUSED &&
           strcmp(x->why ? x->why : "", y->why ? y->why : "") == 0;
}

/* Each reason once, with the first configuration that it holds for. */
static void tell_refused(struct document *d, const struct search_result *r)
{
    size_t told = 0;
    document_section(d, "Not simulated");
    for (size_t i = 0; i < r->n && told < MAX_REASONS; i++) {
        const struct search_config *c = &r->configs[i];
        size_t first = 0, n = 0;
        while (first < i && !same_reason(c, &r->configs[first]))
            first++;
        if (c->status != SEARCH_REFUSED || first < i)
            continue;
        for (size_t k = i; k < r->n; k++)
            n += same_reason(c, &r->configs[k]);
        told++;
        document_note(d, arena_printf(d->a, "%s%s: %s", search_config_words(d->a, r, c),
                                      n > 1 ? arena_printf(d->a, " and %zu more", n - 1) : "",
                                      c->why ? c->why : "no reason given"));
    }
}

struct document *search_document(struct arena *a, const struct search_result *r, const char *title,
                                 const char *model, size_t most)
{
    struct document *d = document_new(
        a, title, arena_printf(a, "Configurations%s%s", model ? " for " : "", model ? model : ""));
    tell_tiles(d, r);
    document_section(d, "Objective");
    if (r->objective)
        document_paragraph(d, "%s", r->objective);
    document_section(d, "Speed for a user against work of a GPU");
    document_figure(d, "front");
    tell_front(d, r, most);
    tell_configs(d, r, most);
    document_section(d, "Notes");
    for (size_t i = 0; i < r->n_notes; i++)
        document_note(d, r->notes[i]);
    tell_refused(d, r);
    return d;
}
