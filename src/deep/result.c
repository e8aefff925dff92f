#include "deep/result.h"

#include "text/json.h"
#include "trace/trace.h"

#define NUMBER(T, m) FIELD(T, m, .optional = true)
#define TEXT(T, m)   FIELD(T, m, .optional = true)

static const struct field fact_rows[] = {
    FIELD(struct deep_fact, title),
    FIELD(struct deep_fact, text),
};
static const struct fields fact_fields = FIELDS(struct deep_fact, fact_rows);

static const struct field roof_rows[] = {
    FIELD(struct deep_roof_row, name),
    NUMBER(struct deep_roof_row, per_s),
};
static const struct fields roof_fields = FIELDS(struct deep_roof_row, roof_rows);

#define T struct deep_step
static const struct field step_rows[] = {
    FIELD(T, name),
    TEXT(T, tool),
    FIELD(T, state),
    TEXT(T, reason),
    TEXT(T, remedy),
    NUMBER(T, wall_s),
    NUMBER(T, overhead_percent),
};
static const struct fields step_fields = FIELDS(T, step_rows);
#undef T

#define T struct deep_totals
static const struct field total_rows[] = {
    FIELD(T, scope),          NUMBER(T, elapsed_ms),     NUMBER(T, gpu_ms),
    NUMBER(T, busy_ms),       NUMBER(T, operations),     NUMBER(T, kernels),
    NUMBER(T, processes),     NUMBER(T, devices),        NUMBER(T, launches),
    NUMBER(T, launch_gap_us), NUMBER(T, launch_call_us), FIELD(T, beside_ms, .omit = true),
};
static const struct fields total_fields = FIELDS(T, total_rows);
#undef T

#define T struct deep_stage_row
static const struct field stage_rows[] = {
    FIELD(T, path),
    NUMBER(T, depth),
    NUMBER(T, processes),
    NUMBER(T, instances),
    NUMBER(T, elapsed_ms),
    NUMBER(T, per_instance_ms),
    NUMBER(T, least_ms),
    NUMBER(T, most_ms),
    NUMBER(T, host_ms),
    NUMBER(T, gpu_ms),
    NUMBER(T, exclusive_ms),
    NUMBER(T, busy_ms),
    NUMBER(T, operations),
    NUMBER(T, busy_percent),
    NUMBER(T, share_percent),
    NUMBER(T, flop),
    NUMBER(T, bytes),
    NUMBER(T, mfu_percent),
    NUMBER(T, mfu_gpu_percent),
    NUMBER(T, bandwidth_percent),
    NUMBER(T, bandwidth_gpu_percent),
};
static const struct fields stage_fields = FIELDS(T, stage_rows);
#undef T

#define T struct deep_rank_row
static const struct field rank_rows[] = {
    FIELD(T, path),       NUMBER(T, process),      NUMBER(T, device),
    NUMBER(T, instances), NUMBER(T, elapsed_ms),   NUMBER(T, gpu_ms),
    NUMBER(T, busy_ms),   NUMBER(T, busy_percent), NUMBER(T, operations),
};
static const struct fields rank_fields = FIELDS(T, rank_rows);
#undef T

#define T struct deep_operator_row
static const struct field operator_rows[] = {
    FIELD(T, name),     NUMBER(T, total_ms),      NUMBER(T, calls),
    NUMBER(T, mean_ms), NUMBER(T, share_percent),
};
static const struct fields operator_fields = FIELDS(T, operator_rows);
#undef T

#define T struct deep_kernel_row
static const struct field kernel_rows[] = {
    FIELD(T, name),
    FIELD(T, short_name),
    TEXT(T, label),
    NUMBER(T, calls),
    NUMBER(T, total_ms),
    NUMBER(T, running_ms),
    NUMBER(T, mean_us),
    NUMBER(T, share_percent),
    NUMBER(T, profiled),
    NUMBER(T, ncu_us),
    NUMBER(T, app_us),
    NUMBER(T, clock_percent),
    NUMBER(T, gflop),
    NUMBER(T, dram_mb),
    NUMBER(T, l2_mb),
    NUMBER(T, intensity),
    NUMBER(T, l2_intensity),
    NUMBER(T, tflop_per_s),
    NUMBER(T, dram_gb_per_s),
    NUMBER(T, l2_gb_per_s),
    NUMBER(T, compute_percent),
    NUMBER(T, dram_percent),
    NUMBER(T, l2_percent),
    NUMBER(T, occupancy_percent),
    NUMBER(T, occupancy_limit_percent),
    NUMBER(T, registers),
    NUMBER(T, shared_bytes),
    NUMBER(T, waves),
    TEXT(T, units),
    TEXT(T, occupied),
    TEXT(T, class),
    TEXT(T, why),
};
static const struct fields kernel_fields = FIELDS(T, kernel_rows);
#undef T

#define T struct deep_kernel_total
static const struct field kernel_total_rows[] = {
    FIELD(T, name),
    NUMBER(T, calls),
    NUMBER(T, total_ms),
    NUMBER(T, share_percent),
};
static const struct fields kernel_total_fields = FIELDS(T, kernel_total_rows);
#undef T

#define T struct deep_collective_row
static const struct field collective_rows[] = {
    FIELD(T, name),      NUMBER(T, process),    NUMBER(T, device),    NUMBER(T, calls),
    NUMBER(T, total_ms), NUMBER(T, waiting_ms), NUMBER(T, moving_ms),
};
static const struct fields collective_fields = FIELDS(T, collective_rows);
#undef T

#define T struct deep_bottleneck
static const struct field bottleneck_rows[] = {
    FIELD(T, what),           FIELD(T, kind),           NUMBER(T, ms),
    NUMBER(T, share_percent), NUMBER(T, floor_percent), NUMBER(T, gain),
    NUMBER(T, gain_at_roof),  FIELD(T, evidence),       FIELD(T, advice),
};
static const struct fields bottleneck_fields = FIELDS(T, bottleneck_rows);
#undef T

#define T struct deep_repeat_row
static const struct field repeat_row_rows[] = {
    FIELD(T, name),   TEXT(T, short_name),  TEXT(T, label), NUMBER(T, calls_before),
    NUMBER(T, calls), NUMBER(T, before_ms), NUMBER(T, ms),  NUMBER(T, change_percent),
};
static const struct fields repeat_row_fields = FIELDS(T, repeat_row_rows);
#undef T

#define T struct deep_repeat
static const struct field repeat_rows[] = {
    FIELD(T, folder),
    NUMBER(T, before_ms),
    NUMBER(T, ms),
    NUMBER(T, change_percent),
    NUMBER(T, waiting_before_ms),
    NUMBER(T, waiting_ms),
    NUMBER(T, limit_percent),
    NUMBER(T, beyond),
    NUMBER(T, largest_percent),
    TEXT(T, largest),
    NUMBER(T, only_one),
    FIELD_MAPS(T, rows, n_rows, "kernels", &repeat_row_fields),
};
static const struct fields repeat_fields = FIELDS(T, repeat_rows);
#undef T

#define T struct deep_region_row
static const struct field region_rows[] = {
    FIELD(T, region),      NUMBER(T, process),
    NUMBER(T, device),     NUMBER(T, gpu_ms),
    NUMBER(T, operations), FIELD_MAPS(T, kernels, n_kernels, "kernels", &kernel_fields),
};
static const struct fields region_fields = FIELDS(T, region_rows);
#undef T

#define T struct deep_result
static const struct field result_rows[] = {
    FIELD(T, schema_version, .min = 1, .max = DEEP_SCHEMA),
    TEXT(T, command),
    TEXT(T, model),
    FIELD(T, roofs),
    TEXT(T, l2_roof),
    FIELD(T, roofs_measured),
    FIELD_MAPS(T, environment, n_environment, "environment", &fact_fields),
    FIELD_MAPS(T, steps, n_steps, "steps", &step_fields),
    FIELD_MAPS(T, roof_rows, n_roof_rows, "roof_rates", &roof_fields),
    FIELD_MAP(T, totals, "totals", &total_fields),
    FIELD_MAPS(T, stages, n_stages, "stages", &stage_fields),
    FIELD_MAPS(T, ranks, n_ranks, "stages_by_process", &rank_fields, .optional = true),
    FIELD_MAPS(T, operators, n_operators, "operators", &operator_fields),
    FIELD_MAPS(T, kernels, n_kernels, "kernels", &kernel_fields),
    FIELD_MAPS(T, kernel_totals, n_kernel_totals, "kernel_totals", &kernel_total_fields,
               .optional = true),
    FIELD_MAPS(T, collectives, n_collectives, "collectives", &collective_fields, .optional = true),
    FIELD_MAPS(T, bottlenecks, n_bottlenecks, "bottlenecks", &bottleneck_fields),
    FIELD_MAPS(T, repeat, n_repeat, "repeat", &repeat_fields, .optional = true),
    FIELD_MAPS(T, gantt, n_gantt, "gantt", &kernels_gantt_fields, .optional = true),
    FIELD_LIST(T, notes, n_notes, "notes"),
};
static const struct fields result_fields =
    FIELDS(T, result_rows,
           .remedy = "run twinfer deep again: its files were edited, or are of another version");
#undef T

const char *deep_group_name(unsigned group)
{
    static const char *const names[] = {"time", "flop", "memory", "occupancy", "limits"};
    return group < GROUPS ? names[group] : NULL;
}

void deep_result_json(struct buf *out, const struct deep_result *r)
{
    struct arena *a = arena_new();
    json_write(out, fields_node(a, &result_fields, r), 2, true);
    arena_free(&a);
}

/* Labels that files of before them lack. */
static void add_labels(struct arena *a, struct deep_result *r)
{
    for (size_t i = 0; i < r->n_kernels; i++)
        if (!r->kernels[i].label)
            r->kernels[i].label = trace_label(a, r->kernels[i].name);
    for (size_t i = 0; r->n_repeat && i < r->repeat->n_rows; i++)
        if (!r->repeat->rows[i].label)
            r->repeat->rows[i].label = trace_label(a, r->repeat->rows[i].name);
}

enum st deep_result_load(struct arena *a, const char *path, struct deep_result *out, struct err *e)
{
    struct node *tree;
    TRY(json_load(a, path, NULL, &tree, e));
    TRY(fields_read(a, &result_fields, tree, out, e));
    for (size_t i = 0; i < out->n_gantt; i++)
        if (!kernels_gantt_ok(&out->gantt[i])) {
            node_err(node_find(tree, "gantt"), ST_INPUT, e, "gantt: its columns are no picture");
            return err_hint(e, "%s", result_fields.remedy);
        }
    add_labels(a, out);
    return ST_OK;
}

void deep_regions_json(struct buf *out, const struct deep_region_row *rows, size_t n)
{
    struct arena *a = arena_new();
    struct node *list = node_new(a, NODE_LIST), *root = node_new(a, NODE_MAP);
    for (size_t i = 0; i < n; i++)
        node_push(a, list, fields_node(a, &region_fields, &rows[i]));
    node_set(a, root, SV("schema_version"), node_int(a, DEEP_SCHEMA));
    node_set(a, root, SV("regions"), list);
    json_write(out, root, 2, true);
    arena_free(&a);
}
