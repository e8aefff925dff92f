#include "job/memory.h"
#include "job/sim.h"
#include "sim/drafting.h"

/* Loads the bundle, if the predictor needs one. */
static enum st load_bundle(const struct job_context *c, const struct job_model *m,
                           struct predictor_params *params, struct err *e)
{
    const struct plan *p = c->plan;
    struct bundle *bundle;
    struct bundle_key key = job_bundle_key(p, m);
    TRY(bundle_load(c->a, &key, &bundle, e));
    params->bundle = bundle;
    params->host_overhead = p->sim.host_overhead && bundle_has_host(bundle);
    return ST_OK;
}

enum st job_predictor(const struct job_context *c, const struct job_model *m,
                      struct predictor_params *params, struct predictor *out, struct err *e)
{
    const struct plan *p = c->plan;
    const struct predictor_ops *ops;
    TRY(predictor_find(p->predictor.kind, &ops, e));
    *params = (struct predictor_params){.model = &m->m,
                                        .tp = p->parallel.tp,
                                        .pp = p->parallel.pp,
                                        .ep = p->parallel.ep,
                                        .expert_skew = p->parallel.expert_skew,
                                        .tables = p->predictor.tables};
    if (ops->needs_bundle)
        TRY(load_bundle(c, m, params, e));
    TRY(job_memory_known(c, params->bundle, e));
    if (p->speculation.draft_tokens && !ops->verifies)
        return err_set(e, ST_USAGE,
                       "speculation.draft_tokens: predictor %s knows no rows that verify drafts",
                       ops->name);
    if (p->speculation.draft_tokens && !node_path(c->config->tree, "speculation.acceptance")) {
        err_set(e, ST_USAGE, "speculation.draft_tokens: how many drafts are accepted is not known");
        return err_hint(e, "speculation.acceptance=0.7 accepts each, after those before it, with "
                           "that probability");
    }
    TRY(predictor_open(c->a, ops, params, out, e));
    if (p->speculation.draft_tokens)
        *out = predictor_drafting(c->a, out, p->speculation.draft_cost);
    return ST_OK;
}

const char *job_predictor_warning(const struct job_context *c,
                                  const struct predictor_params *params)
{
    if (!params->bundle || !c->plan->sim.host_overhead || params->host_overhead)
        return NULL;
    return "the bundle has no host overhead per iteration: simulated times are device times alone "
           "and will be too short";
}

const char *job_profiling_root(const struct job_context *c, const struct predictor_params *params)
{
    return params->bundle ? c->plan->profile.root : c->plan->predictor.tables;
}
