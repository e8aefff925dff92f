/* Settings of a simulation beside those that the log of the real run's server states. */
#include <string.h>

#include "compare/intern.h"
#include "metrics/server_log.h"

/* A member of the simulated run's params, as text; NULL = it has none. */
static const char *simulated(struct arena *a, const struct comparison *c, const char *key)
{
    const struct node *n = node_path(c->sim.meta, arena_printf(a, "params.%s", key));
    return n ? node_scalar_text(a, n) : NULL;
}

/* "overlap" and "serial" are asynchronous. */
static const char *as_flag(const char *async)
{
    return async && strcmp(async, "off") != 0 ? "true" : async ? "false" : NULL;
}

enum st compare_tell_server_log(struct arena *a, const struct comparison *c, struct notes *notes,
                                struct err *e)
{
    static const struct {
        enum server_fact_id id;
        const char *key;
    } same[] = {
        {FACT_TP, "parallel.tp"},
        {FACT_PP, "parallel.pp"},
        {FACT_TOKEN_BUDGET, "scheduler.token_budget"},
        {FACT_BATCH_CAP, "scheduler.batch_cap"},
        {FACT_MAX_MODEL_LEN, "scheduler.max_model_len"},
        {FACT_BLOCK_SIZE, "scheduler.block_size"},
        {FACT_NUM_BLOCKS, "scheduler.num_blocks"},
        {FACT_PREFIX_CACHING, "scheduler.prefix_caching"},
        {FACT_GRAPHS, "scheduler.cuda_graphs"},
        {FACT_ASYNC, "scheduler.async_scheduling"},
    };
    const char *path = server_log_beside(a, c->real.dir), *found = "";
    struct server_log l;
    if (!path)
        return ST_OK;
    TRY(server_log_read(a, path, &l, e));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const char *stated = l.of[same[i].id].value, *have = simulated(a, c, same[i].key);
        const char *as = same[i].id == FACT_ASYNC ? as_flag(have) : have;
        /* unset, 0 and auto are what the policy takes on that hardware */
        if (!stated || !as || strcmp(as, "0") == 0 || strcmp(as, "auto") == 0 ||
            strcmp(stated, as) == 0)
            continue;
        found =
            arena_printf(a, "%s%s%s=%s (line %ld: %s %s)", found, *found ? ", " : "", same[i].key,
                         have, l.of[same[i].id].line, server_fact_name(same[i].id), stated);
    }
    if (*found)
        compare_note(notes, "The other run has settings that %s contradicts: %s.", path, found);
    return ST_OK;
}
