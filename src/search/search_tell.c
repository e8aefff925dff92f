/* Terminal output of a search. */
#include <math.h>
#include <stdlib.h>

#include "search/search_result.h"

/* "scheduler=sarathi scheduler.chunk_size=512" */
static const char *config_words(struct arena *a, const struct search_result *r,
                                const struct search_config *c)
{
    struct buf b = {0};
    for (size_t k = 0; k < r->space->n_axes; k++)
        if (c->values[k])
            buf_printf(&b, "%s%s=%s", b.n ? " " : "", r->space->axes[k].key, c->values[k]);
    const char *words = arena_str(a, b.n ? buf_str(&b) : "as it is");
    buf_free(&b);
    return words;
}

/* Rows in an order, the index breaking ties: qsort alone is not stable. */
struct ranked_row {
    double key;
    size_t config, load;
};

static int by_key_down(const void *pa, const void *pb)
{
    const struct ranked_row *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? 1 : -1;
    return a->config != b->config ? (a->config > b->config ? 1 : -1)
                                  : (a->load > b->load) - (a->load < b->load);
}

static const struct search_load *busiest(const struct search_config *c)
{
    const struct search_load *most = NULL;
    for (size_t i = 0; i < c->n_loads; i++)
        if (!most || c->loads[i].load > most->load)
            most = &c->loads[i];
    return most;
}

struct table *search_table(struct arena *a, const struct search_result *r, size_t most)
{
    struct ranked_row *rank = arena_array(a, struct ranked_row, r->n);
    for (size_t i = 0; i < r->n; i++) {
        const struct search_config *c = &r->configs[i];
        rank[i] = (struct ranked_row){c->gpus > 0 ? c->capacity.rate / (double)c->gpus : -1, i, 0};
        if (c->status == SEARCH_REFUSED)
            rank[i].key = -2;
    }
    if (r->n > 0)
        qsort(rank, r->n, sizeof *rank, by_key_down);
    size_t axes = r->space->n_axes;
    struct table *t = table_new(a, (int)axes + 6);
    for (size_t k = 0; k < axes; k++)
        table_cell(t, "%s", r->space->axes[k].key);
    const char *const sure = r->seeds == 1 ? "between, one seed" : "95 % interval";
    const char *const heads[] = {"GPUs",    "capacity, req/s", sure,
                                 "per GPU", "tok/s/GPU",       "tok/s/user"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(t, "%s", heads[i]);
    for (size_t i = 0; i < r->n && i < most; i++) {
        const struct search_config *c = &r->configs[rank[i].config];
        const struct search_load *l = busiest(c);
        for (size_t k = 0; k < axes; k++)
            table_cell(t, "%s", c->values[k] ? c->values[k] : "-");
        table_cell(t, "%lld", (long long)c->gpus);
        if (c->status == SEARCH_REFUSED) {
            table_cell(t, "refused");
            for (int k = 0; k < 4; k++)
                table_cell(t, "-");
            continue;
        }
        table_cell(t, "%.4g", c->capacity.rate);
        table_cell(t, "%.4g .. %.4g", c->capacity.low, c->capacity.high);
        table_cell(t, "%.4g", c->capacity.rate / (double)c->gpus);
        for (int k = 0; k < 2; k++) {
            if (l)
                table_cell(t, "%.4g", k ? l->tokens_per_s_user : l->tokens_per_s_gpu);
            else
                table_cell(t, "-");
        }
    }
    return t;
}

static bool is_alike(const struct search_load *x, const struct search_load *y)
{
    return fabs(x->tokens_per_s_user / y->tokens_per_s_user - 1) <= 0.02 &&
           fabs(x->tokens_per_s_gpu / y->tokens_per_s_gpu - 1) <= 0.02;
}

struct table *search_front_table(struct arena *a, const struct search_result *r, size_t *alike)
{
    const struct search_load *above = NULL;
    *alike = 0;
    size_t n = 0, all = 0;
    for (size_t i = 0; i < r->n; i++)
        all += r->configs[i].n_loads;
    struct ranked_row *rank = arena_array(a, struct ranked_row, all);
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->configs[i].n_loads; k++)
            if (r->configs[i].loads[k].front)
                rank[n++] = (struct ranked_row){r->configs[i].loads[k].tokens_per_s_user, i, k};
    if (n > 0)
        qsort(rank, n, sizeof *rank, by_key_down);
    struct table *t = table_new(a, 6);
    static const char *const heads[] = {"tok/s/user", "tok/s/GPU", "J/token",
                                        "req/s",      "load",      "configuration"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(t, "%s", heads[i]);
    for (size_t i = 0; i < n; i++) {
        const struct search_config *c = &r->configs[rank[i].config];
        const struct search_load *l = &c->loads[rank[i].load];
        if (above && is_alike(l, above)) {
            ++*alike;
            continue;
        }
        above = l;
        table_cell(t, "%.4g", l->tokens_per_s_user);
        table_cell(t, "%.4g", l->tokens_per_s_gpu);
        if (l->j_per_token == l->j_per_token)
            table_cell(t, "%.4g", l->j_per_token);
        else
            table_cell(t, "n/a");
        table_cell(t, "%.4g", l->rate);
        table_cell(t, "%.0f %%", 100 * l->load);
        table_cell(t, "%s", config_words(a, r, c));
    }
    return t;
}
