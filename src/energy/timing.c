#include "energy/timing.h"

#include "energy/stamp.h"
#include "text/json.h"

#define UNDER_ROWS(T)                                                                              \
    FIELD_AS(T, under.sm_mhz, "sm_mhz", .max = 1e6, .optional = true, .omit = true),               \
        FIELD_AS(T, under.memory_mhz, "memory_mhz", .max = 1e6, .optional = true, .omit = true),   \
        FIELD_AS(T, under.celsius_high, "celsius_high", .min = -273, .max = 1e6, .optional = true, \
                 .omit = true),                                                                    \
        FIELD_AS(T, under.clock_limits, "clock_limits", .optional = true, .omit = true)

static const struct field idle_rows[] = {
    FIELD_AS(struct timing_window, start, "start_timestamp"),
    FIELD_AS(struct timing_window, end, "end_timestamp"),
};
static const struct fields idle_fields = FIELDS(struct timing_window, idle_rows);

static const struct field full_rows[] = {
    FIELD_AS(struct full_timing, window.start, "start_timestamp"),
    FIELD_AS(struct full_timing, window.end, "end_timestamp"),
    FIELD(struct full_timing, num_runs, .min = 1, .max = 1e15),
    FIELD_AS(struct full_timing, inference_us, "full_model_inference_us", .max = 1e15,
             .optional = true),
    FIELD_AS(struct full_timing, min_us, "min_time_us", .max = 1e15, .optional = true),
    FIELD_AS(struct full_timing, max_us, "max_time_us", .max = 1e15, .optional = true),
    FIELD_MAPS(struct full_timing, idle, n_idle, "idle", &idle_fields, .optional = true,
               .omit = true),
    UNDER_ROWS(struct full_timing),
};
static const struct fields full_fields = FIELDS(
    struct full_timing, full_rows, .remedy = "full= takes the full_model_timing.json of a replay");

static const struct field kernel_rows[] = {
    FIELD(struct kernel_timing, name),
    FIELD(struct kernel_timing, tier, .min = 1, .max = 3),
    FIELD(struct kernel_timing, invocation_count, .min = 1, .max = 1e15),
    FIELD(struct kernel_timing, benchmark_runs, .min = 0, .max = 1e15),
    FIELD(struct kernel_timing, single_time_us, .max = 1e15, .optional = true),
    FIELD_AS(struct kernel_timing, window.start, "start_timestamp", .optional = true),
    FIELD_AS(struct kernel_timing, window.end, "end_timestamp", .optional = true),
    FIELD(struct kernel_timing, in_context_us, .max = 1e15, .optional = true, .omit = true),
    FIELD(struct kernel_timing, as_launched_us, .max = 1e15, .optional = true, .omit = true),
    FIELD(struct kernel_timing, application_us, .max = 1e15, .optional = true, .omit = true),
    FIELD(struct kernel_timing, pooled, .optional = true, .omit = true),
    FIELD(struct kernel_timing, with_sets, .max = 1e15, .optional = true, .omit = true),
    FIELD(struct kernel_timing, faster_when_repeated, .optional = true, .omit = true),
    FIELD(struct kernel_timing, busy_share, .max = 1, .optional = true, .omit = true),
    FIELD(struct kernel_timing, sets_share, .max = 1, .optional = true, .omit = true),
    UNDER_ROWS(struct kernel_timing),
};
static const struct fields kernel_fields = FIELDS(struct kernel_timing, kernel_rows);

static const struct field isolated_rows[] = {
    FIELD_AS(struct isolated_timing, window.start, "start_timestamp", .optional = true),
    FIELD_AS(struct isolated_timing, window.end, "end_timestamp", .optional = true),
    FIELD_MAPS(struct isolated_timing, kernels, n, "kernels", &kernel_fields),
    FIELD(struct isolated_timing, in_context_from, .optional = true, .omit = true),
};
static const struct fields isolated_fields =
    FIELDS(struct isolated_timing, isolated_rows,
           .remedy = "isolated= takes the isolated_kernels_timing.json of a replay");

/* ---- windows --------------------------------------------------------------------------------- */

static enum st read_stamp(const struct node *map, const char *key, const char *text,
                          struct stamp *out, struct err *e)
{
    if (stamp_parse(sv_of(text), out))
        return ST_OK;
    node_err(node_find(map, key), ST_INPUT, e, "%s: '%.40s' is no time of day with its date", key,
             text);
    return err_hint(e, "as 2026-11-21 16:30:05.123");
}

static enum st read_window(const struct node *map, struct timing_window *w, struct err *e)
{
    struct stamp from, to;
    TRY(read_stamp(map, "start_timestamp", w->start, &from, e));
    TRY(read_stamp(map, "end_timestamp", w->end, &to, e));
    if (from.zoned != to.zoned)
        return node_err(node_find(map, "end_timestamp"), ST_INPUT, e,
                        "end_timestamp: one time has a zone and the other has none");
    if (to.ns < from.ns)
        return node_err(node_find(map, "end_timestamp"), ST_INPUT, e,
                        "end_timestamp: it is before start_timestamp");
    w->from_ns = from.ns;
    w->to_ns = to.ns;
    w->zoned = from.zoned;
    return ST_OK;
}

struct timing_window timing_window_of(struct arena *a, int64_t from_ns, int64_t to_ns,
                                      int64_t utc_offset_s)
{
    char from[STAMP_MAX], to[STAMP_MAX];
    stamp_text(from_ns, utc_offset_s, from);
    stamp_text(to_ns, utc_offset_s, to);
    return (struct timing_window){arena_str(a, from), arena_str(a, to), from_ns, to_ns, true};
}

/* ---- files ----------------------------------------------------------------------------------- */

static enum st read_idle(const struct node *map, struct full_timing *t, struct err *e)
{
    const struct node *list = node_find(map, "idle");
    for (size_t i = 0; i < t->n_idle; i++) {
        TRY(read_window(list->items[i], &t->idle[i], e));
        if (t->idle[i].zoned != t->window.zoned)
            return node_err(list->items[i], ST_INPUT, e,
                            "idle[%zu]: its times have a zone, or the others have one", i);
    }
    return ST_OK;
}

enum st full_timing_read(struct arena *a, const char *path, struct full_timing *out, struct err *e)
{
    struct node *map;
    *out = (struct full_timing){0};
    if (json_load(a, path, NULL, &map, e) != ST_OK ||
        fields_read(a, &full_fields, map, out, e) != ST_OK ||
        read_window(map, &out->window, e) != ST_OK || read_idle(map, out, e) != ST_OK)
        return err_add(e, "cannot read when the whole ran");
    out->source = arena_str(a, path);
    return ST_OK;
}

static enum st read_kernels(const struct node *map, struct isolated_timing *out, struct err *e)
{
    const struct node *list = node_find(map, "kernels");
    bool any = false;
    for (size_t i = 0; i < out->n; i++) {
        struct kernel_timing *k = &out->kernels[i];
        const struct timing_window *w = &k->window;
        if (!w->start || !w->end || k->benchmark_runs == 0) {
            k->benchmark_runs = 0;
            continue;
        }
        TRY(read_window(list->items[i], &k->window, e));
        if (any && w->zoned != out->zoned)
            return node_err(list->items[i], ST_INPUT, e,
                            "kernels[%zu]: its times have a zone, or those above it have none", i);
        out->zoned = w->zoned;
        any = true;
    }
    return ST_OK;
}

enum st isolated_timing_read(struct arena *a, const char *path, struct isolated_timing *out,
                             struct err *e)
{
    struct node *map;
    *out = (struct isolated_timing){0};
    if (json_load(a, path, NULL, &map, e) != ST_OK ||
        fields_read(a, &isolated_fields, map, out, e) != ST_OK ||
        read_kernels(map, out, e) != ST_OK)
        return err_add(e, "cannot read when each kernel ran");
    out->source = arena_str(a, path);
    return ST_OK;
}

struct node *full_timing_node(struct arena *a, const struct full_timing *t)
{
    return fields_node(a, &full_fields, t);
}

struct node *isolated_timing_node(struct arena *a, const struct isolated_timing *t)
{
    return fields_node(a, &isolated_fields, t);
}
