/* compare.json. */
#include <string.h>

#include "compare/intern.h"

/* ---- causes -------------------------------------------------------------------------------- */

struct node *compare_cause_ids(struct arena *a, uint32_t causes)
{
    struct node *list = node_new(a, NODE_LIST);
    for (enum compare_cause k = 0; k < CAUSES; k++)
        if (causes & 1u << k)
            node_push(a, list, node_str(a, cause_id(k)));
    return list;
}

static const struct field reason_rows[] = {
    FIELD_ENUM(struct compare_reason, cause, "id", cause_id, CAUSES),
    FIELD_AS(struct compare_reason, clause, "headline"),
    FIELD(struct compare_reason, text),
    FIELD_AS(struct compare_reason, n_cells, "cells", .otherwise = -1),
    FIELD(struct compare_reason, largest_error_percent, .optional = true),
    FIELD(struct compare_reason, figures),
};
static const struct fields reason_fields = FIELDS(struct compare_reason, reason_rows);

static const struct field told_rows[] = {
    FIELD(struct compare_told, cause, .optional = true),
    FIELD_MAPS(struct compare_told, causes, n_causes, "causes", &reason_fields),
    FIELD(struct compare_told, outcome),
};
const struct fields compare_told_fields = FIELDS(struct compare_told, told_rows);

struct compare_told compare_told_of(enum verdict v, const struct compare_reason *reasons, size_t n,
                                    const char *outcome)
{
    return (struct compare_told){.cause =
                                     v == VERDICT_INCONCLUSIVE ? cause_id(reasons[0].cause) : NULL,
                                 .causes = reasons,
                                 .n_causes = n,
                                 .outcome = outcome};
}

/* ---- cells --------------------------------------------------------------------------------- */

static struct node *judged(struct arena *a, const void *cell)
{
    return node_bool(a, ((const struct compare_cell *)cell)->verdict != VERDICT_NONE);
}

static struct node *causes_of(struct arena *a, const void *cell)
{
    return compare_cause_ids(a, ((const struct compare_cell *)cell)->causes);
}

#define CELL(m, ...) FIELD(struct compare_cell, m, .optional = true, __VA_ARGS__)
static const struct field cell_rows[] = {
    CELL(real_ns),
    CELL(sim_ns),
    CELL(error_percent),
    FIELD_PAIR(struct compare_cell, real_low_ns, real_high_ns, "real_interval_ns",
               .optional = true),
    FIELD_PAIR(struct compare_cell, sim_low_ns, sim_high_ns, "sim_interval_ns", .omit = true),
    CELL(spread_percent),
    FIELD_MADE("judged", judged),
    FIELD(struct compare_cell, excused),
    FIELD_ENUM(struct compare_cell, verdict, "verdict", verdict_name, VERDICT_NONE + 1,
               .otherwise = VERDICT_NONE),
    FIELD_MADE("causes", causes_of),
    CELL(why),
};
static const struct fields cell_fields = FIELDS(struct compare_cell, cell_rows);

const char *compare_percentile_key(unsigned p)
{
    return compare_percentile_name((int)p);
}

static const struct field metric_rows[] = {
    FIELD_NAMED_MAPS(struct compare_metric, cells, "percentiles", compare_percentile_key,
                     COMPARE_PERCENTILES, &cell_fields),
    FIELD(struct compare_metric, real_n, .otherwise = -1),
    FIELD(struct compare_metric, sim_n),
};
static const struct fields metric_fields = FIELDS(struct compare_metric, metric_rows);

/* ---- diagnosis, HTTP ----------------------------------------------------------------------- */

#define SIDE_OF_PART(side)                                                                \
    {                                                                                     \
        FIELD_AS(struct compare_part, side##_s, "mean_s", .optional = true),              \
            FIELD_AS(struct compare_part, side##_device_s, "device_s", .optional = true), \
            FIELD_AS(struct compare_part, side##_host_s, "host_s", .optional = true),     \
            FIELD_AS(struct compare_part, side##_n, "n", .otherwise = -1)                 \
    }
static const struct field real_part_rows[] = SIDE_OF_PART(real),
                          sim_part_rows[] = SIDE_OF_PART(sim);
static const struct fields real_part_fields = FIELDS(struct compare_part, real_part_rows);
static const struct fields sim_part_fields = FIELDS(struct compare_part, sim_part_rows);

static const struct field part_rows[] = {
    FIELD(struct compare_part, name),
    FIELD(struct compare_part, detail),
    FIELD(struct compare_part, share, .optional = true),
    FIELD_PART("real", &real_part_fields),
    FIELD_PART("sim", &sim_part_fields),
};
static const struct fields part_fields = FIELDS(struct compare_part, part_rows);

#define T struct comparison
static const struct field diagnosis_rows[] = {
    FIELD_ENUM(T, worst_metric, "metric", metric_name, METRICS),
    FIELD_ENUM(T, worst_percentile, "percentile", compare_percentile_key, COMPARE_PERCENTILES),
    FIELD_LIST(T, findings, n_findings, "findings"),
    FIELD_MAPS(T, parts, n_parts, "parts", &part_fields),
};
static const struct fields diagnosis_fields = FIELDS(T, diagnosis_rows);

#define COST(m) FIELD(struct compare_path_cost, m, .optional = true)
static const struct field cost_rows[] = {
    FIELD(struct compare_path_cost, n),
    COST(median_ns),
    COST(low_ns),
    COST(high_ns),
    COST(p10_ns),
    COST(p90_ns),
    COST(repeat_ns),
};
static const struct fields cost_fields = FIELDS(struct compare_path_cost, cost_rows);

static const char *side_name(unsigned real)
{
    return real ? "real" : "sim";
}

static const struct field path_rows[] = {
    FIELD_MAP(T, path.of[METRIC_TTFT], "ttft", &cost_fields),
    FIELD_MAP(T, path.of[METRIC_TPOT], "tpot", &cost_fields),
    FIELD_MAP(T, path.of[METRIC_E2E], "e2e", &cost_fields),
    FIELD_ENUM(T, path.real_is, "over_http", side_name, 2),
    FIELD_LIST(T, path.lines, path.n_lines, "text"),
};
static const struct fields path_fields = FIELDS(T, path_rows);

#define E(m) FIELD(struct compare_energy_of, m, .optional = true)
static const struct field energy_of_rows[] = {E(real), E(sim), E(error_percent)};
static const struct fields energy_of_fields = FIELDS(struct compare_energy_of, energy_of_rows);
#undef E

static const struct field energy_rows[] = {
    FIELD_MAP(T, energy.per_token, "j_per_token", &energy_of_fields),
    FIELD_MAP(T, energy.per_request, "j_per_request", &energy_of_fields),
    FIELD_MAP(T, energy.power_w, "average_power_w", &energy_of_fields),
    FIELD_LIST(T, energy.lines, energy.n_lines, "text"),
};
static const struct fields energy_fields = FIELDS(T, energy_rows);

/* ---- all of it ----------------------------------------------------------------------------- */

static const char *cells_name(unsigned core_only)
{
    return core_only ? "core" : "all";
}

static const char *token0_name(unsigned include)
{
    return include ? "include" : "exclude";
}

static const char *kind_name(unsigned is_path)
{
    return is_path ? "http_path" : "simulation";
}

static struct node *p99_requests(struct arena *a, const void *comparison)
{
    (void)comparison;
    return node_int(a, COMPARE_P99_REQUESTS);
}

static const struct field limit_rows[] = {
    FIELD_ENUM(T, params.core_only, "cells", cells_name, 2),
    FIELD_AS(T, params.pass_percent, "pass_percent"),
    FIELD_AS(T, params.warn_percent, "warn_percent"),
    FIELD_MADE("p99_requests", p99_requests),
    FIELD_ENUM(T, params.include_token0, "token0", token0_name, 2),
};
static const struct fields limit_fields = FIELDS(T, limit_rows);

static const struct field alignment_rows[] = {
    FIELD_AS(T, n_aligned, "aligned", .otherwise = -1),
    FIELD_AS(T, n_only_real, "only_real"),
    FIELD_AS(T, n_only_sim, "only_sim"),
    FIELD_AS(T, n_not_ok, "not_ok"),
    FIELD_AS(T, n_warmup, "warmup"),
    FIELD_AS(T, n_early_stop, "early_stop"),
};
static const struct fields alignment_fields = FIELDS(T, alignment_rows);

static const struct field real_rows[] = {COMPARE_RUN_ROWS(T, real, real_metrics)};
static const struct field sim_rows[] = {COMPARE_RUN_ROWS(T, sim, sim_metrics)};
static const struct fields real_fields = FIELDS(T, real_rows), sim_fields = FIELDS(T, sim_rows);

static const struct field rows[] = {
    FIELD_ENUM(T, path.is, "kind", kind_name, 2),
    FIELD_ENUM(T, verdict, "verdict", verdict_name, VERDICT_NONE + 1, .otherwise = VERDICT_NONE),
    FIELD_MAP(T, told, NULL, &compare_told_fields),
    FIELD_PART("limits", &limit_fields),
    FIELD_PART("alignment", &alignment_fields),
    FIELD_NAMED_MAPS(T, metrics, "metrics", metric_name, METRICS, &metric_fields),
    FIELD_LIST(T, params.spread_dirs, params.n_spread, "spread_runs"),
    FIELD_PART("diagnosis", &diagnosis_fields, FIELD_IF(T, diagnosed)),
    FIELD_PART("http_path", &path_fields, FIELD_IF(T, path.is)),
    FIELD_PART("energy", &energy_fields, FIELD_IF(T, energy.n_lines)),
    FIELD_LIST(T, notes, n_notes, "notes"),
    FIELD_PART("real", &real_fields),
    FIELD_PART("sim", &sim_fields),
};
const struct fields comparison_fields = FIELDS(T, rows);
#undef T

/* The meta without its bulky members; keeps the seed. */
const struct node *compare_meta_shown(struct arena *a, const struct run *r)
{
    static const char *const left_out[] = {"params", "env", "hydra", "schema_version"};
    struct node *meta = node_copy(a, r->meta);
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        node_remove(meta, sv_of(left_out[i]));
    const struct node *seed = node_path(r->meta, "params.seed");
    if (seed)
        node_put(a, meta, "seed", node_copy(a, seed));
    return meta;
}

struct node *compare_node(struct arena *a, const struct comparison *c)
{
    struct comparison all = *c;
    all.told = compare_told_of(c->verdict, c->reasons, c->n_reasons, compare_outcome(a, c));
    all.real.meta = compare_meta_shown(a, &c->real);
    all.sim.meta = compare_meta_shown(a, &c->sim);
    for (enum metric m = 0; m < METRICS; m++) {
        struct compare_metric *of = &all.metrics[m];
        memcpy(of->cells, c->cells[m], sizeof of->cells);
        of->real_n = c->real_metrics.of[m].n;
        of->sim_n = c->sim_metrics.of[m].n;
    }
    struct node *n = fields_node(a, &comparison_fields, &all);
    node_put(a, n, "schema_version", node_int(a, 1));
    return n;
}
