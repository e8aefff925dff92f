#include "replay/timing_files.h"

#include <math.h>

static struct node *stamp(struct arena *a, int64_t wall_ns)
{
    char text[TIMING_TEXT];
    timing_stamp(wall_ns, text);
    return node_str_or_null(a, text[0] ? text : NULL);
}

static struct node *micro(struct arena *a, double s)
{
    /* device time has no more than picoseconds */
    return node_number(a, isfinite(s) ? nearbyint(s * 1e12) / 1e6 : NAN);
}

/* {n, median, quartiles}; null = not measured. */
static struct node *timing_node(struct arena *a, const struct timing *t)
{
    if (t->n == 0)
        return node_new(a, NODE_NULL);
    struct node *n = node_new(a, NODE_MAP), *q;
    node_put(a, n, "n", node_int(a, t->n));
    node_put(a, n, "median", micro(a, t->median_s));
    q = node_put(a, n, "quartiles", node_new(a, NODE_LIST));
    node_push(a, q, micro(a, t->low_s));
    node_push(a, q, micro(a, t->high_s));
    return n;
}

bool replay_is_suspect(const struct replay_kernel *k)
{
    const double s = k->cold.n ? fmax(k->cold.median_s, k->warm.median_s) : k->warm.median_s;
    return k->mangled && k->warm.n && k->in_context_s >= 10e-6 && s < 0.8 * k->in_context_s;
}

static struct node *kernel_node(struct arena *a, const struct replay_kernel *k)
{
    const bool measured = k->warm.n > 0;
    struct node *n = node_new(a, NODE_MAP);
    if (k->first >= 0)
        node_put(a, n, "class", node_int(a, k->number));
    node_put(a, n, "name", node_str(a, k->name));
    node_put(a, n, "tier", node_int(a, k->tier));
    node_put(a, n, "invocation_count", node_int(a, k->count));
    node_put(a, n, "benchmark_runs", node_int(a, k->warm.runs));
    node_put(a, n, "single_time_us", micro(a, measured ? k->warm.median_s : NAN));
    node_put(a, n, "start_timestamp", stamp(a, k->warm.start_wall_ns));
    node_put(a, n, "end_timestamp", stamp(a, k->warm.end_wall_ns));
    node_put(a, n, "warm_us", timing_node(a, &k->warm));
    node_put(a, n, "cold_us", timing_node(a, &k->cold));
    node_put(a, n, "repeated_us", timing_node(a, &k->repeated));
    node_put(a, n, "alone_us", micro(a, k->alone_s));
    node_put(a, n, "in_context_us", micro(a, k->in_context_s));
    node_put(a, n, "as_launched_us", micro(a, k->as_launched_s));
    node_put(a, n, "application_us", micro(a, k->app_s));
    if (k->sets) {
        node_put(a, n, "with_sets", node_int(a, k->sets));
        node_put(a, n, "sets_us", micro(a, measured ? k->sets_s : NAN));
    }
    if (k->in_front)
        node_put(a, n, "in_front", node_bool(a, true));
    if (replay_is_suspect(k))
        node_put(a, n, "faster_when_repeated", node_bool(a, true));
    if (k->mangled)
        node_put(a, n, "mangled", node_str(a, k->mangled));
    if (k->bytes)
        node_put(a, n, "bytes", node_int(a, k->bytes));
    if (k->first >= 0)
        node_put(a, n, "first_dispatch", node_int(a, k->first));
    if (!measured)
        node_put(a, n, "not_measured", node_str_or_null(a, k->why));
    return n;
}

struct node *replay_isolated_node(struct arena *a, const struct replay_kernels *k)
{
    struct node *n = node_new(a, NODE_MAP), *list = node_new(a, NODE_LIST);
    int64_t start = 0, end = 0;
    for (size_t i = 0; i < k->n; i++) {
        const struct timing *t = &k->p[i].warm;
        node_push(a, list, kernel_node(a, &k->p[i]));
        if (t->n == 0)
            continue;
        start = start && start < t->start_wall_ns ? start : t->start_wall_ns;
        end = end > t->end_wall_ns ? end : t->end_wall_ns;
    }
    node_put(a, n, "start_timestamp", stamp(a, start));
    node_put(a, n, "end_timestamp", stamp(a, end));
    node_put(a, n, "kernels", list);
    return n;
}

void replay_apart_of(const struct replay_region *r, struct replay_apart out[REPLAY_WAYS])
{
    enum { ALIKE_PERCENT = 3, EAGER_PERCENT = 5 };
    static const double least_s = 100e-6;
    out[0] = (struct replay_apart){.way = "in a graph",
                                   .sum_s = r->nodes_s,
                                   .limit = r->graphs ? ALIKE_PERCENT : EAGER_PERCENT};
    out[1] = (struct replay_apart){
        .way = "as launched", .sum_s = r->as_launched_s, .limit = ALIKE_PERCENT};
    for (int i = 0; i < REPLAY_WAYS; i++) {
        out[i].percent = 100 * (out[i].sum_s / r->app_nodes_s - 1);
        if (!isfinite(out[i].percent))
            out[i].sum_s = NAN;
        out[i].judged = r->app_nodes_s >= least_s;
        out[i].within = fabs(out[i].percent) <= out[i].limit;
    }
}

struct node *replay_apart_node(struct arena *a, const struct replay_region *r)
{
    struct replay_apart ways[REPLAY_WAYS];
    struct node *list = node_new(a, NODE_LIST);
    replay_apart_of(r, ways);
    for (int i = 0; i < REPLAY_WAYS; i++) {
        if (!isfinite(ways[i].sum_s))
            continue;
        struct node *n = node_new(a, NODE_MAP);
        node_push(a, list, n);
        node_put(a, n, "way", node_str(a, ways[i].way));
        node_put(a, n, "sum_us", micro(a, ways[i].sum_s));
        node_put(a, n, "apart_percent", node_float(a, nearbyint(ways[i].percent * 1e3) / 1e3));
        node_put(a, n, "limit_percent", node_float(a, ways[i].limit));
        node_put(a, n, "within",
                 ways[i].judged ? node_bool(a, ways[i].within) : node_new(a, NODE_NULL));
    }
    return list;
}

struct node *replay_full_node(struct arena *a, const struct replay_region *r)
{
    const struct timing *t = &r->time;
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "start_timestamp", stamp(a, t->start_wall_ns));
    node_put(a, n, "end_timestamp", stamp(a, t->end_wall_ns));
    node_put(a, n, "num_runs", node_int(a, t->runs));
    node_put(a, n, "full_model_inference_us", micro(a, t->median_s));
    node_put(a, n, "min_time_us", micro(a, t->min_s));
    node_put(a, n, "max_time_us", micro(a, t->max_s));
    node_put(a, n, "region_us", timing_node(a, t));
    node_put(a, n, "in_context_sum_us", micro(a, r->nodes_s));
    node_put(a, n, "as_launched_sum_us", micro(a, r->as_launched_s));
    node_put(a, n, "application_sum_us", micro(a, r->app_nodes_s));
    node_put(a, n, "application_wall_us", micro(a, r->app_wall_s));
    node_put(a, n, "sums", replay_apart_node(a, r));
    if (r->why_not_as_launched)
        node_put(a, n, "no_as_launched_times", node_str(a, r->why_not_as_launched));
    if (r->why_no_nodes)
        node_put(a, n, "no_in_context_times", node_str(a, r->why_no_nodes));
    return n;
}

enum st replay_write_isolated(struct arena *a, const struct artifact *art,
                              const struct replay_kernels *k, struct err *e)
{
    return artifact_write_json(art, "isolated_kernels_timing.json", replay_isolated_node(a, k), e);
}

enum st replay_write_full(struct arena *a, const struct artifact *art,
                          const struct replay_region *region, struct err *e)
{
    return artifact_write_json(art, "full_model_timing.json", replay_full_node(a, region), e);
}

double replay_sum_s(const struct replay_kernels *k)
{
    double s = 0;
    for (size_t i = 0; i < k->n; i++)
        if (k->p[i].warm.n)
            s += k->p[i].warm.median_s * (double)k->p[i].count;
    return s;
}

size_t replay_measured(const struct replay_kernels *k, int tier)
{
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++)
        n += k->p[i].warm.n > 0 && (tier == 0 || k->p[i].tier == tier);
    return n;
}
