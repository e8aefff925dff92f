/* Settings of a simulation beside those that the log of the real run's server states. */
#include "metrics/server_log.h"

#include <string.h>

#include "compare/intern.h"

/* A fact of the log, the setting that says the same, and where run_meta.json has what the policy
 * took for that; NULL = it does not say. */
static const struct fact_row {
    enum server_fact_id id;
    const char *key, *taken;
} rows[] = {
    {FACT_TP, "parallel.tp", NULL},
    {FACT_PP, "parallel.pp", NULL},
    {FACT_DP, "cluster.replicas", NULL},
    {FACT_TOKEN_BUDGET, "scheduler.token_budget", NULL},
    {FACT_BATCH_CAP, "scheduler.batch_cap", NULL},
    {FACT_MAX_MODEL_LEN, "scheduler.max_model_len", NULL},
    {FACT_BLOCK_SIZE, "scheduler.block_size", NULL},
    {FACT_NUM_BLOCKS, "scheduler.num_blocks", NULL},
    {FACT_PREFIX_CACHING, "scheduler.prefix_caching", NULL},
    {FACT_GRAPHS, "scheduler.cuda_graphs", "iteration_model.cuda_graphs"},
    {FACT_ASYNC, "scheduler.async_scheduling", NULL},
};

static const char *text_at(struct arena *a, const struct node *meta, const char *path)
{
    const struct node *n = node_path(meta, path);
    return n ? node_scalar_text(a, n) : NULL;
}

/* Unset, 0 and auto are what the policy takes on that hardware. */
static bool is_open(const char *setting)
{
    return !setting || strcmp(setting, "0") == 0 || strcmp(setting, "auto") == 0;
}

/* Of the other run; NULL = not known. */
static const char *simulated(struct arena *a, const struct comparison *c,
                             const struct fact_row *row)
{
    const struct node *meta = c->sim.meta;
    const char *setting = text_at(a, meta, arena_printf(a, "params.%s", row->key));
    if (!is_open(setting))
        return setting;
    return row->taken ? text_at(a, meta, row->taken) : NULL;
}

/* As the log would state it: "overlap" and "serial" are asynchronous. */
static const char *as_stated(enum server_fact_id id, const char *setting)
{
    if (id != FACT_ASYNC)
        return setting;
    return strcmp(setting, "off") == 0 ? "false" : "true";
}

enum st compare_tell_server_log(struct arena *a, const struct comparison *c, struct notes *notes,
                                struct err *e)
{
    const char *path = server_log_beside(a, c->real.dir), *found = "";
    struct server_log l;
    if (!path)
        return ST_OK;
    TRY(server_log_read(a, path, &l, e));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct server_fact fact =
            rows[i].id == FACT_GRAPHS ? server_log_graphs(&l) : l.of[rows[i].id];
        const char *have = simulated(a, c, &rows[i]);
        if (!fact.value || !have || strcmp(fact.value, as_stated(rows[i].id, have)) == 0)
            continue;
        found =
            arena_printf(a, "%s%s%s=%s (line %ld: %s %s)", found, *found ? ", " : "", rows[i].key,
                         have, fact.line, server_fact_name(rows[i].id), fact.value);
    }
    if (*found)
        compare_note(notes, "The other run has settings that %s contradicts: %s.", path, found);
    return ST_OK;
}
