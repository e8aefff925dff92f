/* bundle_meta.json of a profile: what the tables rest on. */
#include <math.h>

#include "base/clock.h"
#include "profile/cells.h"
#include "profile/read/meta.h"
#include "profile/write.h"

/* How much of the grid was measured. */
struct grid_said {
    int64_t max_tokens, max_batch, max_kv, num_blocks;
    int32_t decode_level, prompt_level;
    const char *decode_lengths;
    int64_t points, points_over_kv_memory, points_over_budget;
    int64_t samples, samples_per_point_min;
    bool rejects; /* samples can be rejected */
    int64_t samples_rejected;
    double measured_s;
};

#define T struct grid_said
static const struct field rejected_rows[] = {FIELD(T, samples_rejected)};
static const struct fields rejected_fields = FIELDS(T, rejected_rows);
static const struct field grid_rows[] = {
    FIELD(T, max_tokens),
    FIELD(T, max_batch),
    FIELD(T, max_kv),
    FIELD(T, num_blocks),
    FIELD(T, decode_level),
    FIELD(T, prompt_level),
    FIELD(T, decode_lengths),
    FIELD(T, points),
    FIELD(T, points_over_kv_memory),
    FIELD(T, points_over_budget),
    FIELD(T, samples),
    FIELD(T, samples_per_point_min),
    FIELD_PART(NULL, &rejected_fields, FIELD_IF(T, rejects)),
    FIELD(T, measured_s),
};
static const struct fields grid_fields = FIELDS(T, grid_rows);
#undef T

struct profile_said {
    struct bundle_title title;
    const char *device, *settings; /* what a journal must match to be gone on from */
    int64_t block_size, warmup, samples;
    double time_budget_s;
    struct grid_said grid;
    struct bundle_meta meta;
    struct contention contention;
    const struct node *serving, *device_facts, *sessions, *energy, *yardstick, *provenance, *config;
};

#define T          struct profile_said
#define TREE(T, m) FIELD(T, m, .omit = true)
static const struct field profile_rows[] = {
    FIELD_MAP(T, title, NULL, &bundle_title_fields),
    FIELD(T, device),
    FIELD(T, settings),
    FIELD(T, block_size),
    FIELD(T, warmup),
    FIELD(T, samples),
    FIELD(T, time_budget_s),
    FIELD_MAP(T, grid, "grid", &grid_fields),
    FIELD_MAP(T, meta, NULL, &bundle_meta_fields),
    FIELD_MAP(T, contention, "contention", &contention_fields),
    TREE(T, serving),
    TREE(T, device_facts),
    TREE(T, sessions),
    TREE(T, energy),
    TREE(T, yardstick),
    TREE(T, provenance),
    TREE(T, config),
};
static const struct fields profile_fields = FIELDS(T, profile_rows);
#undef T

static struct grid_said grid_of(const struct profile_result *r)
{
    struct grid_said g = {.max_tokens = r->limits->max_tokens,
                          .max_batch = r->limits->max_batch,
                          .max_kv = r->limits->max_kv,
                          .num_blocks = r->limits->num_blocks,
                          .decode_level = r->level[GROUP_DECODE],
                          .prompt_level = r->level[GROUP_PROMPT],
                          .decode_lengths =
                              r->limits->n_padded > 0 ? "0.5 to 1.5 of the mean" : "equal",
                          .points_over_kv_memory = r->points->dropped,
                          .points_over_budget = r->left_out,
                          .rejects = r->split,
                          .samples_rejected = r->rejected,
                          .measured_s = r->measured_s};
    for (int64_t i = 0; i < r->points->n; i++) {
        const int64_t n = (int64_t)r->journal->samples[i].n;
        if (!profile_measured(r, i))
            continue;
        g.samples_per_point_min =
            g.points == 0 || n < g.samples_per_point_min ? n : g.samples_per_point_min;
        g.points++;
        g.samples += n;
    }
    return g;
}

static void add_operators(struct arena *a, const struct profile_result *r,
                          const struct op_list *ops, struct bundle_meta *out)
{
    out->operators = arena_array(a, struct bundle_operator, (size_t)ops->n);
    for (int i = 0; i < ops->n; i++) {
        const struct op_quality q = cell_quality(a, r, &ops->ops[i]);
        const bool known = q.loo.tested > 0;
        out->operators[out->n_operators++] =
            (struct bundle_operator){.name = ops->ops[i].name,
                                     .points = q.points,
                                     .samples = q.samples,
                                     .loo_points = q.loo.tested,
                                     .loo_error = known ? q.loo.mean : (double)NAN,
                                     .loo_error_p90 = known ? q.loo.p90 : (double)NAN};
    }
}

static void add_prompt_batches(struct arena *a, const struct profile_result *r,
                               const struct op *attention, struct bundle_meta *out)
{
    for (int64_t i = 0; i < r->points->n; i++) {
        const struct point *p = &r->points->p[i];
        if (p->kind != POINT_PROMPTS || !profile_measured(r, i))
            continue;
        const struct stats s = cell_point(a, r, attention, i);
        out->prompt_batches[out->n_prompt_batches++] = (struct bundle_prompt_batch){
            .operator_name = attention->row == OP_ATTN_PREFILL ? NULL : attention->name,
            .chunks = point_chunks(p, r->limits),
            .tokens = p->kv,
            .attn_prefill_s = s.median,
            .samples = s.n};
    }
}

static void add_all_prompt_batches(struct arena *a, const struct profile_result *r,
                                   const struct op_list *ops, struct bundle_meta *out)
{
    size_t kinds = 0;
    for (int i = 0; i < ops->n; i++)
        kinds += ops->ops[i].axis == AXIS_PREFILL;
    out->prompt_batches = arena_array(a, struct bundle_prompt_batch, kinds * (size_t)r->points->n);
    for (int i = 0; i < ops->n; i++)
        if (ops->ops[i].axis == AXIS_PREFILL)
            add_prompt_batches(a, r, &ops->ops[i], out);
}

/* Part of the host's time that comes after the device could begin, of iterations with or without
 * chunks. */
static double launch_share(const struct journal *j, bool prefill)
{
    double launch_s = 0, host_s = 0;
    for (size_t i = 0; i < j->host.n; i++)
        if ((j->host.p[i].chunks > 0) == prefill) {
            launch_s += j->host.p[i].launch_s;
            host_s += j->host.p[i].host_s;
        }
    return host_s > 0 ? launch_s / host_s : 0;
}

static double answer_s(struct arena *a, const struct journal *j)
{
    double *v = arena_array(a, double, j->host.n);
    for (size_t i = 0; i < j->host.n; i++)
        v[i] = j->host.p[i].answer_s;
    return stats_of(v, (int64_t)j->host.n).median;
}

static struct bundle_host host_of(struct arena *a, const struct profile_result *r)
{
    const struct journal *j = r->journal;
    const struct host_scale scale = host_scale_of(a, j);
    struct bundle_host out = {.samples = (int64_t)j->host.n,
                              .scale = scale.decode,
                              .prefill_scale = scale.prefill,
                              .overlaps = r->overlaps};
    if (r->overlaps) {
        out.launch_share = launch_share(j, false);
        out.prefill_launch_share = launch_share(j, true);
        out.answer_s = answer_s(a, j);
    }
    return out;
}

/* What simulations must be told of an executor with several batches in flight. */
static struct node *serving_node(struct arena *a)
{
    struct node *map = node_new(a, NODE_MAP);
    node_put(a, map, "scheduler.async_scheduling", node_str(a, "overlap"));
    return map;
}

struct node *profile_meta(struct arena *a, const struct profile_result *r,
                          const struct op_list *ops)
{
    const struct profile_params *p = r->p;
    char now[CLOCK_ISO_MAX];
    clock_iso8601(clock_wall_ns(), now);
    struct profile_said said = {.title = {.model = p->model_name,
                                          .hardware_id = p->hardware,
                                          .created_at = now,
                                          .method = "in_context",
                                          .tensor_parallel = p->tp},
                                .device = p->device ? p->device : "",
                                .settings = p->settings ? p->settings : "",
                                .block_size = p->block_size,
                                .warmup = p->warmup,
                                .samples = p->samples,
                                .time_budget_s = p->time_budget_s,
                                .grid = grid_of(r),
                                .meta = {.host = host_of(a, r)},
                                .contention = r->contention,
                                .serving = r->overlaps ? serving_node(a) : NULL,
                                .device_facts = r->facts,
                                .sessions = r->sessions,
                                .energy =
                                    r->power ? power_node(a, r->journal, r->power, p->meter) : NULL,
                                .yardstick = r->reference,
                                .provenance = p->provenance,
                                .config = p->config};
    said.meta.has_wake = wake_said(a, r->wake, &said.meta.wake);
    said.meta.has_power_cap = r->power_cap != NULL;
    if (r->power_cap)
        said.meta.power_cap = *r->power_cap;
    add_operators(a, r, ops, &said.meta);
    add_all_prompt_batches(a, r, ops, &said.meta);
    for (int k = 0; k < CALIBRATION_KINDS; k++)
        said.meta.iteration[k] = calibration_classes(a, r->scale[k]);
    said.meta.has_decode_beside = r->decode_beside.batches > 0;
    said.meta.decode_beside = r->decode_beside;
    return fields_node(a, &profile_fields, &said);
}
