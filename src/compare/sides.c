/* Kind of comparison of the folders real_run_dir= and sim_run_dir=. */
#include "compare/intern.h"

static bool is_simulated(const struct node *meta)
{
    const struct node *type = node_find(meta, "run_type");
    return type && type->kind == NODE_STR && sv_eq(type->s, "vidur");
}

static bool is_over_http(const struct node *meta)
{
    const struct node *http = node_find(meta, "http");
    return http && http->kind == NODE_MAP;
}

static enum st open_side(struct arena *a, const char *key, const char *dir, struct node **meta,
                         struct err *e)
{
    return artifact_open(a, dir, "run_meta.json", "real|vidur", meta, e) == ST_OK
               ? ST_OK
               : err_add(e, "cannot read %s=%s", key, dir);
}

enum st compare_sides(struct arena *a, const char *real_dir, const char *sim_dir,
                      enum compare_pair *out, struct err *e)
{
    struct node *real, *sim;
    TRY(open_side(a, "real_run_dir", real_dir, &real, e));
    TRY(open_side(a, "sim_run_dir", sim_dir, &sim, e));
    if (compare_same_folder(real_dir, sim_dir)) {
        err_set(e, ST_USAGE, "real_run_dir and sim_run_dir are the same run: %s", sim_dir);
        return err_hint(e, "a run always agrees with itself: name the simulation of it, or another "
                           "run");
    }
    if (is_simulated(real) && !is_simulated(sim)) {
        err_set(e, ST_USAGE,
                "the sides are swapped: real_run_dir=%s is a simulated run, sim_run_dir=%s a real "
                "one",
                real_dir, sim_dir);
        return err_hint(e, "real_run_dir=%s sim_run_dir=%s", sim_dir, real_dir);
    }
    if (is_simulated(real) == is_simulated(sim))
        *out = !is_simulated(real) && is_over_http(real) != is_over_http(sim) ? PAIR_HTTP_PATH
                                                                              : PAIR_RUNS;
    else
        *out = PAIR_SIMULATION;
    return ST_OK;
}
