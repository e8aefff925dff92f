/* kernel_signatures.json: of `twinfer kernels`, or of the scripts whose format it has. */
#include <math.h>
#include <string.h>

#include "replay/replay.h"
#include "text/json.h"

static const double most = 9007199254740992.0; /* exact in a double, for products of sizes */

/* An integer that may be missing or null: 0 then. */
static enum st optional_int(const struct node *map, const char *key, int64_t *out, struct err *e)
{
    const struct node *n = node_find(map, key);
    *out = 0;
    return n && n->kind != NODE_NULL ? node_to_int(n, key, 0, (int64_t)most, out, e) : ST_OK;
}

static enum st optional_text(const struct node *map, const char *key, const char **out,
                             struct err *e)
{
    const struct node *n = node_find(map, key);
    *out = NULL;
    return n && n->kind != NODE_NULL ? node_to_str(n, key, out, e) : ST_OK;
}

static enum st read_product(const struct node *map, struct replay_product *p, struct err *e)
{
    TRY(optional_int(map, "M", &p->m, e));
    TRY(optional_int(map, "N", &p->n, e));
    TRY(optional_int(map, "K", &p->k, e));
    TRY(optional_int(map, "batch", &p->batch, e));
    TRY(optional_int(map, "count", &p->count, e));
    if (p->batch == 0)
        p->batch = 1;
    if (p->count == 0)
        p->count = 1;
    return optional_text(map, "dtype", &p->dtype, e);
}

/* One product beside the other parameters, or a list of several. */
static enum st read_products(struct arena *a, const struct node *params, struct replay_signature *s,
                             struct err *e)
{
    const struct node *list = node_find(params, "products");
    if (list && list->kind != NODE_LIST)
        return node_err(list, ST_INPUT, e, "products: expected a list, got %s",
                        node_kind_name(list->kind));
    s->n_products = list ? list->n : 1;
    s->products = arena_array(a, struct replay_product, s->n_products);
    if (!list) {
        TRY(read_product(params, &s->products[0], e));
        if (s->products[0].m == 0 || s->products[0].n == 0 || s->products[0].k == 0)
            s->n_products = 0;
    }
    for (uint32_t i = 0; list && i < list->n; i++)
        TRY(read_product(list->items[i], &s->products[i], e));
    return ST_OK;
}

static enum st read_kernel(struct arena *a, const struct node *n, struct replay_signature *s,
                           struct err *e)
{
    const struct node *params, *signature;
    int64_t tier, total_ns;
    if (n->kind != NODE_MAP)
        return node_err(n, ST_INPUT, e, "expected a map, got %s", node_kind_name(n->kind));
    TRY(node_get_str(n, "name", &s->name, e));
    TRY(node_get_int(n, "tier", 1, 3, &tier, e));
    TRY(node_get_int(n, "count", 0, (int64_t)most, &s->count, e));
    s->tier = (int)tier;
    TRY(optional_int(n, "total_time_ns", &total_ns, e));
    s->app_s = s->count && total_ns ? (double)total_ns / 1e9 / (double)s->count : NAN;
    params = node_find(n, "params");
    signature = node_find(n, "signature");
    TRY(optional_int(params, "bytes", &s->bytes, e));
    if (s->bytes == 0)
        TRY(optional_int(signature, "bytes", &s->bytes, e));
    return s->tier == 2 ? read_products(a, params, s, e) : ST_OK;
}

enum st replay_signatures_read(struct arena *a, const char *path, struct replay_signatures *out,
                               struct err *e)
{
    struct node *root, *kernels;
    *out = (struct replay_signatures){.source = path};
    TRY(json_load(a, path, NULL, &root, e));
    if (node_get(root, "kernels", NODE_LIST, &kernels, e) != ST_OK)
        return err_hint(e, "kernel_signatures.json of twinfer kernels is such a file");
    out->n = kernels->n;
    out->p = arena_array(a, struct replay_signature, out->n);
    for (uint32_t i = 0; i < kernels->n; i++)
        if (read_kernel(a, kernels->items[i], &out->p[i], e) != ST_OK)
            return err_add(e, "kernel %u of %s cannot be read", i + 1, path);
    return ST_OK;
}
