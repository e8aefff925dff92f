/* compare.json. */
#include <math.h>
#include <string.h>

#include "compare/intern.h"

static struct node *count(struct arena *a, size_t n)
{
    return node_int(a, (int64_t)n);
}

struct node *compare_texts(struct arena *a, const char *const *s, size_t n)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t i = 0; i < n; i++)
        node_push(a, list, node_str(a, s[i]));
    return list;
}

struct node *compare_cause_ids(struct arena *a, uint32_t causes)
{
    struct node *list = node_new(a, NODE_LIST);
    for (enum compare_cause k = 0; k < CAUSES; k++)
        if (causes & 1u << k)
            node_push(a, list, node_str(a, cause_id(k)));
    return list;
}

struct node *compare_reasons_node(struct arena *a, const struct compare_reason *reasons,
                                  size_t n_reasons)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t i = 0; i < n_reasons; i++) {
        const struct compare_reason *r = &reasons[i];
        struct node *n = node_new(a, NODE_MAP);
        node_put(a, n, "id", node_str(a, cause_id(r->cause)));
        node_put(a, n, "headline", node_str(a, r->clause));
        node_put(a, n, "text", node_str(a, r->text));
        node_put(a, n, "cells", count(a, r->n_cells));
        node_put(a, n, "largest_error_percent", node_number(a, r->largest_error_percent));
        node_put(a, n, "figures", r->figures);
        node_push(a, list, n);
    }
    return list;
}

static struct node *cell_node(struct arena *a, const struct compare_cell *c)
{
    struct node *n = node_new(a, NODE_MAP), *interval = node_new(a, NODE_NULL);
    if (isfinite(c->real_low_ns)) {
        interval = node_new(a, NODE_LIST);
        node_push(a, interval, node_float(a, c->real_low_ns));
        node_push(a, interval, node_float(a, c->real_high_ns));
    }
    node_put(a, n, "real_ns", node_number(a, c->real_ns));
    node_put(a, n, "sim_ns", node_number(a, c->sim_ns));
    node_put(a, n, "error_percent", node_number(a, c->error_percent));
    node_put(a, n, "real_interval_ns", interval);
    if (isfinite(c->sim_low_ns)) {
        struct node *sim = node_new(a, NODE_LIST);
        node_push(a, sim, node_float(a, c->sim_low_ns));
        node_push(a, sim, node_float(a, c->sim_high_ns));
        node_put(a, n, "sim_interval_ns", sim);
    }
    node_put(a, n, "spread_percent", node_number(a, c->spread_percent));
    node_put(a, n, "judged", node_bool(a, c->verdict != VERDICT_NONE));
    node_put(a, n, "excused", node_bool(a, c->excused));
    node_put(a, n, "verdict", node_str(a, verdict_name(c->verdict)));
    node_put(a, n, "causes", compare_cause_ids(a, c->causes));
    node_put(a, n, "why", node_str_or_null(a, c->why));
    return n;
}

static struct node *metric_node(struct arena *a, const struct comparison *c, enum metric m)
{
    struct node *n = node_new(a, NODE_MAP), *cells = node_new(a, NODE_MAP);
    for (int p = 0; p < COMPARE_PERCENTILES; p++)
        node_put(a, cells, compare_percentile_name(p), cell_node(a, &c->cells[m][p]));
    node_put(a, n, "percentiles", cells);
    node_put(a, n, "real_n", count(a, c->real_metrics.of[m].n));
    node_put(a, n, "sim_n", count(a, c->sim_metrics.of[m].n));
    return n;
}

/* The meta without its bulky members; keeps the seed. */
struct node *compare_run_node(struct arena *a, const struct run *r, const struct run_metrics *m)
{
    static const char *const left_out[] = {"params", "env", "hydra", "schema_version"};
    struct node *n = node_new(a, NODE_MAP), *meta = node_copy(a, r->meta);
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        node_remove(meta, sv_of(left_out[i]));
    const struct node *seed = node_path(r->meta, "params.seed");
    if (seed)
        node_put(a, meta, "seed", node_copy(a, seed));
    node_put(a, n, "dir", node_str(a, r->dir));
    node_put(a, n, "meta", meta);
    node_put(a, n, "duration_s", node_number(a, m->duration_s));
    node_put(a, n, "output_tokens", node_int(a, m->output_tokens));
    node_put(a, n, "output_tokens_per_s", node_number(a, m->output_tokens_per_s));
    node_put(a, n, "requests_per_s", node_number(a, m->requests_per_s));
    return n;
}

static struct node *side_node(struct arena *a, double all, double device, double host, int64_t n)
{
    struct node *map = node_new(a, NODE_MAP);
    node_put(a, map, "mean_s", node_number(a, all));
    node_put(a, map, "device_s", node_number(a, device));
    node_put(a, map, "host_s", node_number(a, host));
    node_put(a, map, "n", node_int(a, n));
    return map;
}

static struct node *diagnosis_node(struct arena *a, const struct comparison *c)
{
    if (!c->diagnosed)
        return node_new(a, NODE_NULL);
    struct node *n = node_new(a, NODE_MAP), *parts = node_new(a, NODE_LIST);
    for (size_t i = 0; i < c->n_parts; i++) {
        const struct compare_part *p = &c->parts[i];
        struct node *part = node_new(a, NODE_MAP);
        node_put(a, part, "name", node_str(a, p->name));
        node_put(a, part, "detail", node_bool(a, p->detail));
        node_put(a, part, "share", node_number(a, p->share));
        node_put(a, part, "real",
                 side_node(a, p->real_s, p->real_device_s, p->real_host_s, p->real_n));
        node_put(a, part, "sim", side_node(a, p->sim_s, p->sim_device_s, p->sim_host_s, p->sim_n));
        node_push(a, parts, part);
    }
    node_put(a, n, "metric", node_str(a, metric_name(c->worst_metric)));
    node_put(a, n, "percentile", node_str(a, compare_percentile_name(c->worst_percentile)));
    node_put(a, n, "findings", compare_texts(a, c->findings, c->n_findings));
    node_put(a, n, "parts", parts);
    return n;
}

static struct node *limits_node(struct arena *a, const struct compare_params *p)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "cells", node_str(a, p->core_only ? "core" : "all"));
    node_put(a, n, "pass_percent", node_float(a, p->pass_percent));
    node_put(a, n, "warn_percent", node_float(a, p->warn_percent));
    node_put(a, n, "p99_requests", node_int(a, COMPARE_P99_REQUESTS));
    node_put(a, n, "token0", node_str(a, p->include_token0 ? "include" : "exclude"));
    return n;
}

static struct node *alignment_node(struct arena *a, const struct comparison *c)
{
    const struct {
        const char *key;
        size_t n;
    } counts[] = {{"aligned", c->n_aligned},   {"only_real", c->n_only_real},
                  {"only_sim", c->n_only_sim}, {"not_ok", c->n_not_ok},
                  {"warmup", c->n_warmup},     {"early_stop", c->n_early_stop}};
    struct node *n = node_new(a, NODE_MAP);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        node_put(a, n, counts[i].key, count(a, counts[i].n));
    return n;
}

static struct node *path_node(struct arena *a, const struct comparison *c)
{
    if (!c->path.is)
        return node_new(a, NODE_NULL);
    struct node *n = node_new(a, NODE_MAP);
    for (enum metric m = 0; m < METRICS; m++) {
        const struct compare_path_cost *cost = &c->path.of[m];
        struct node *of = node_new(a, NODE_MAP);
        if (m == METRIC_TOKEN_LATENCY)
            continue;
        node_put(a, of, "n", count(a, cost->n));
        node_put(a, of, "median_ns", node_number(a, cost->median_ns));
        node_put(a, of, "low_ns", node_number(a, cost->low_ns));
        node_put(a, of, "high_ns", node_number(a, cost->high_ns));
        node_put(a, of, "p10_ns", node_number(a, cost->p10_ns));
        node_put(a, of, "p90_ns", node_number(a, cost->p90_ns));
        node_put(a, of, "repeat_ns", node_number(a, cost->repeat_ns));
        node_put(a, n, metric_name(m), of);
    }
    node_put(a, n, "over_http", node_str(a, c->path.real_is ? "real" : "sim"));
    node_put(a, n, "text", compare_texts(a, c->path.lines, c->path.n_lines));
    return n;
}

struct node *compare_node(struct arena *a, const struct comparison *c)
{
    struct node *n = node_new(a, NODE_MAP), *metrics = node_new(a, NODE_MAP);
    for (enum metric m = 0; m < METRICS; m++)
        node_put(a, metrics, metric_name(m), metric_node(a, c, m));
    node_put(a, n, "schema_version", node_int(a, 1));
    node_put(a, n, "kind", node_str(a, c->path.is ? "http_path" : "simulation"));
    node_put(a, n, "verdict", node_str(a, verdict_name(c->verdict)));
    node_put(a, n, "cause",
             node_str_or_null(a, c->verdict == VERDICT_INCONCLUSIVE ? cause_id(c->reasons[0].cause)
                                                                    : NULL));
    node_put(a, n, "causes", compare_reasons_node(a, c->reasons, c->n_reasons));
    node_put(a, n, "outcome", node_str(a, compare_outcome(a, c)));
    node_put(a, n, "limits", limits_node(a, &c->params));
    node_put(a, n, "alignment", alignment_node(a, c));
    node_put(a, n, "metrics", metrics);
    node_put(a, n, "spread_runs", compare_texts(a, c->params.spread_dirs, c->params.n_spread));
    node_put(a, n, "diagnosis", diagnosis_node(a, c));
    node_put(a, n, "http_path", path_node(a, c));
    node_put(a, n, "notes", compare_texts(a, c->notes, c->n_notes));
    node_put(a, n, "real", compare_run_node(a, &c->real, &c->real_metrics));
    node_put(a, n, "sim", compare_run_node(a, &c->sim, &c->sim_metrics));
    return n;
}
