#include <math.h>
#include <string.h>

#include "calibrate/read_experiment.h"
#include "calibrate/read_requests.h"
#include "calibrate/read_tree.h"
#include "text/yaml.h"

#define STAGE_FILE "stage_%d_lifecycle_metrics.json"
enum { MOST_STAGES = 1000 };

static const char *text_at(const struct node *map, const char *path)
{
    const struct node *n = node_path(map, path);
    return n && n->kind == NODE_STR ? n->s.p : NULL;
}

static const struct node *map_at(const struct node *map, const char *path)
{
    const struct node *n = node_path(map, path);
    return n && n->kind == NODE_MAP ? n : NULL;
}

/* A type of load that has neither rates nor a concurrency; NULL = it has. "constant" draws its gaps
 * too (enum arrival_spacing). */
static const char *other_load(const struct node *config)
{
    static const char *const known[] = {"constant", "poisson", "concurrent"};
    const char *type = text_at(config, "load.type");
    for (size_t i = 0; type && i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i]) == 0)
            return NULL;
    return type; /* constant is its default */
}

enum st experiment_no_load(const struct experiment *x, struct err *e)
{
    err_set(e, ST_INPUT, "%s: load.type '%s' has no rate and no concurrency", x->path, x->load);
    return err_hint(e, "report.request_lifecycle.per_request writes " REQUESTS_FILE
                       ", which says when requests were sent");
}

/* ---- stages ---------------------------------------------------------------------------------- */

static enum st stage_of_config(const struct node *item, struct planned_stage *out, struct err *e)
{
    if (item->kind != NODE_MAP)
        return node_err(item, ST_INPUT, e, "load.stages: expected a map, got %s",
                        node_kind_name(item->kind));
    TRY(read_tree_count(item, "concurrency_level", &out->concurrency, e));
    TRY(read_tree_count(item, "num_requests", &out->requests, e));
    TRY(read_tree_number(item, "rate", 1e-6, 1e6, &out->rate, e));
    TRY(read_tree_number(item, "duration", 1e-3, 1e8, &out->duration, e));
    if (out->concurrency > 0 && out->concurrency <= CONCURRENCY_MOST)
        return ST_OK;
    out->concurrency = out->requests = 0;
    if (isnan(out->rate) || isnan(out->duration))
        return node_err(item, ST_INPUT, e,
                        "load.stages: neither rate and duration nor concurrency_level");
    return ST_OK;
}

/* What a stage's file says was sent: load_summary. */
static enum st stage_of_file(struct arena *a, const char *path, struct planned_stage *out,
                             struct err *e)
{
    struct node *map, *load;
    double count;
    TRY(read_tree(a, path, &map, e));
    TRY(node_get(map, "load_summary", NODE_MAP, &load, e));
    TRY(read_tree_count(load, "concurrency", &out->concurrency, e));
    TRY(read_tree_number(load, "count", 0, 1e9, &count, e));
    TRY(read_tree_number(load, "requested_rate|achieved_rate", 1e-6, 1e6, &out->rate, e));
    out->requests = out->concurrency ? (int64_t)count : 0;
    out->duration = count / out->rate;
    if (out->concurrency || (out->rate > 0 && out->duration > 0))
        return ST_OK;
    return node_err(load, ST_INPUT, e, "load_summary: no requested_rate, or no requests");
}

static enum st stages_of(struct arena *a, const char *dir, const struct node *config,
                         struct experiment *x, struct err *e)
{
    const struct node *list = node_path(config, "load.stages");
    const struct node *sweep = node_path(config, "load.sweep");
    const bool planned = list && list->kind == NODE_LIST && list->n > 0;
    x->stages = arena_array(a, struct planned_stage, MOST_STAGES);
    if (planned && !x->load && !(sweep && sweep->kind != NODE_NULL)) {
        if (list->n > MOST_STAGES)
            return node_err(list, ST_INPUT, e, "load.stages: at most %d", (int)MOST_STAGES);
        for (; x->n_stages < list->n; x->n_stages++)
            TRY(stage_of_config(list->items[x->n_stages], &x->stages[x->n_stages], e));
        return ST_OK;
    }
    for (; x->n_stages < MOST_STAGES; x->n_stages++) {
        const char *path = fs_join(a, dir, arena_printf(a, STAGE_FILE, (int)x->n_stages));
        if (!fs_exists(path))
            break;
        TRY(stage_of_file(a, path, &x->stages[x->n_stages], e));
    }
    if (x->n_stages || fs_exists(fs_join(a, dir, REQUESTS_FILE)))
        return ST_OK;
    return err_set(e, ST_INPUT, "%s has no load.stages, and no " STAGE_FILE " is there", x->path,
                   0);
}

/* ---- prompts --------------------------------------------------------------------------------- */

/* A length that is a number; distributions are unknown, and the stages have the lengths. */
static int64_t length_of(const struct node *map, const char *key, int64_t otherwise)
{
    const struct node *n = node_find(map, key);
    return n && n->kind == NODE_INT && n->i >= 0 && n->i < 1 << 30 ? n->i : otherwise;
}

static int64_t count_of(const struct node *map, const char *key, const char *other)
{
    const int64_t n = length_of(map, key, length_of(map, other, 10)); /* 10: its default */
    return n >= 1 && n <= 1 << 20 ? n : 10;
}

static void prompts_of(struct arena *a, const struct node *config, struct experiment *x)
{
    const char *type = text_at(config, "data.type");
    const struct node *shared = map_at(config, "data.shared_prefix");
    x->prompts = (struct prompts){.prompts_per_group = 1, .question_tokens = -1};
    if (!type || strcmp(type, "shared_prefix") != 0 || !shared)
        return;
    x->prompts = (struct prompts){
        .groups = count_of(shared, "num_unique_system_prompts", "num_groups"),
        .prompts_per_group =
            count_of(shared, "num_users_per_system_prompt", "num_prompts_per_group"),
        .system_prompt_tokens = length_of(shared, "system_prompt_len", 0),
        .question_tokens = length_of(shared, "question_len", -1),
        .output_tokens_asked = length_of(shared, "output_len", 0),
    };
    const struct node *turns = node_find(shared, "enable_multi_turn_chat");
    if (turns && turns->kind == NODE_BOOL && turns->b)
        experiment_doubt(a, x,
                         "enable_multi_turn_chat: prompts that hold earlier turns are taken to "
                         "share their system prompt alone");
}

/* ---- all ------------------------------------------------------------------------------------- */

enum st experiment_of_config(struct arena *a, const char *dir, struct experiment *x, struct err *e)
{
    struct node *config;
    *x = (struct experiment){.path = fs_join(a, dir, "config.yaml"), .arrivals = POISSON};
    if (!fs_exists(x->path)) {
        err_set(e, ST_INPUT, "%s has no experiment.json and no config.yaml", dir);
        return err_hint(e, "config.yaml is inference-perf's own; experiment.json also says to "
                           "which server requests were sent: docs/formats.md");
    }
    TRY(yaml_load(a, x->path, &config, e));
    if (config->kind != NODE_MAP)
        return node_err(config, ST_INPUT, e, "expected a map, got %s",
                        node_kind_name(config->kind));
    x->load = other_load(config);
    if (x->load && !fs_exists(fs_join(a, dir, REQUESTS_FILE)))
        return experiment_no_load(x, e);
    TRY(stages_of(a, dir, config, x, e));
    prompts_of(a, config, x);
    const struct node *eos = node_path(config, "server.ignore_eos");
    x->ignore_eos = !eos || eos->kind != NODE_BOOL || eos->b; /* true: its default */
    x->settings = (struct observed_settings){.model = text_at(config, "server.model_name"),
                                             .prefix_caching = -1};
    experiment_doubt(a, x,
                     "config.yaml says nothing of the server: its GPU, parallel degrees and limits "
                     "are taken to be those of the command line");
    return ST_OK;
}
