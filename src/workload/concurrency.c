#include "workload/concurrency.h"

#include <math.h>
#include <string.h>

#include "workload/stages.h"

static struct concurrency *with_stages(struct arena *a, struct concurrency_stage *stages, size_t n)
{
    struct concurrency *c = arena_one(a, struct concurrency);
    *c = (struct concurrency){stages, n};
    return c;
}

const struct concurrency *concurrency_of(struct arena *a, int64_t n, double ramp_s)
{
    struct concurrency_stage *stage = arena_one(a, struct concurrency_stage);
    *stage =
        ramp_s > 0 ? (struct concurrency_stage){ramp_s, 1, n} : (struct concurrency_stage){1, n, n};
    return with_stages(a, stage, 1);
}

/* ---- text -------------------------------------------------------------------------------- */

static bool limit(struct sv text, int64_t *out)
{
    return str_int64(text, out) && *out >= 0 && *out <= CONCURRENCY_MOST;
}

static bool parse_one(struct sv item, struct concurrency_stage *out)
{
    struct sv from, to;
    return stages_split(item, &out->s, &from, &to) && limit(from, &out->from) &&
           limit(to, &out->to) && out->from + out->to > 0;
}

enum st concurrency_parse(struct arena *a, const char *const *items, size_t n,
                          const struct concurrency **out, struct err *e)
{
    struct concurrency_stage *stages = arena_array(a, struct concurrency_stage, n);
    for (size_t i = 0; i < n; i++) {
        if (parse_one(sv_trim(sv_of(items[i])), &stages[i]))
            continue;
        err_set(e, ST_USAGE, "workload.concurrency_stages: '%s' is no stage", items[i]);
        return err_hint(e, "SECONDS:REQUESTS or SECONDS:REQUESTS-REQUESTS, as in [10:1-8,60:8]");
    }
    if (n == 0 || stages[n - 1].to < 1)
        return err_set(e, ST_USAGE,
                       "workload.concurrency_stages: the last limit goes on for ever and must be "
                       "1 or more");
    *out = with_stages(a, stages, n);
    return ST_OK;
}

const char *concurrency_text(struct arena *a, const struct concurrency *c)
{
    const char *text = "";
    if (c->n == 1 && c->stages->from == c->stages->to)
        return arena_printf(a, "%lld", (long long)c->stages->to);
    for (size_t i = 0; i < c->n; i++) {
        const struct concurrency_stage *x = &c->stages[i];
        text = arena_printf(a, "%s%s%g:%lld", text, i ? "," : "", x->s, (long long)x->from);
        if (x->to != x->from)
            text = arena_printf(a, "%s-%lld", text, (long long)x->to);
    }
    return text;
}

/* ---- over time --------------------------------------------------------------------------- */

/* The earliest time from t on, both counted from its beginning, at which the stage's limit is above
 * n. A ramp moves by one after each s / |to - from|, the last time at the very end. */
static double when_in_stage(const struct concurrency_stage *x, double t, int64_t n)
{
    int64_t span = x->to > x->from ? x->to - x->from : x->from - x->to;
    double step = span ? x->s / (double)span : x->s;
    if (x->to >= x->from)
        return x->from > n ? t : x->to > n ? fmax(t, step * (double)(n + 1 - x->from)) : INFINITY;
    return t < step * (double)(x->from - n) ? t : INFINITY; /* it falls to n then */
}

double concurrency_when(const struct concurrency *c, double t_s, int64_t n)
{
    double begin = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct concurrency_stage *x = &c->stages[i];
        const bool last = i + 1 == c->n;
        if (last || t_s < begin + x->s) {
            double t = t_s > begin ? t_s - begin : 0;
            double at = when_in_stage(x, t, n);
            if (last && x->to > n && !isfinite(at))
                at = t;
            if (isfinite(at) && (last || at < x->s))
                return at <= t ? fmax(t_s, begin) : fmax(t_s, begin + at);
        }
        begin += x->s;
    }
    return INFINITY;
}

int64_t concurrency_peak(const struct concurrency *c)
{
    int64_t most = 0;
    for (size_t i = 0; i < c->n; i++) {
        most = c->stages[i].from > most ? c->stages[i].from : most;
        most = c->stages[i].to > most ? c->stages[i].to : most;
    }
    return most;
}

/* ---- files ------------------------------------------------------------------------------- */

struct node *concurrency_node(struct arena *a, const struct concurrency *c)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t i = 0; i < c->n; i++) {
        struct node *m = node_new(a, NODE_MAP);
        node_put(a, m, "seconds", node_float(a, c->stages[i].s));
        node_put(a, m, "from", node_int(a, c->stages[i].from));
        node_put(a, m, "to", node_int(a, c->stages[i].to));
        node_push(a, list, m);
    }
    return list;
}

enum st concurrency_read(struct arena *a, const struct node *map, const struct concurrency **out,
                         struct err *e)
{
    const struct node *list = node_find(map, "concurrency");
    *out = NULL;
    if (!list || list->kind == NODE_NULL)
        return ST_OK;
    if (list->kind != NODE_LIST || list->n == 0)
        return node_err(list, ST_INPUT, e, "concurrency: expected a list of stages");
    struct concurrency_stage *stages = arena_array(a, struct concurrency_stage, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct node *m = list->items[i];
        struct concurrency_stage *x = &stages[i];
        TRY(node_get_double(m, "seconds", 0, 1e9, &x->s, e));
        TRY(node_get_int(m, "from", 0, CONCURRENCY_MOST, &x->from, e));
        TRY(node_get_int(m, "to", i + 1 == list->n ? 1 : 0, CONCURRENCY_MOST, &x->to, e));
        if (!(x->s > 0) || x->from + x->to == 0)
            return node_err(m, ST_INPUT, e, "concurrency: a stage of no time or of no requests");
    }
    *out = with_stages(a, stages, list->n);
    return ST_OK;
}
