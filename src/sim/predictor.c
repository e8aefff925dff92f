#include "sim/first_use.h"

#include <string.h>

#include "model/shard.h"

const struct predictor_ops *const predictor_registry[] = {
    &predictor_bundle,
    &predictor_vidur_tables,
    &predictor_roofline,
    NULL,
};

enum { BUNDLE = 1 << 0, MEASURED = 1 << 1, TABLES = 1 << 2, PARAMETERS = 1 << 3 };

static uint32_t abilities(const struct predictor_ops *x)
{
    const bool tables = !x->needs_bundle && !x->uncalibrated;
    return (x->needs_bundle ? BUNDLE : 0u) | (x->uncalibrated ? 0u : MEASURED) |
           (tables ? TABLES : PARAMETERS);
}

static void with_abilities(struct buf *out, uint32_t bits)
{
    for (int i = 0; predictor_registry[i]; i++)
        if (abilities(predictor_registry[i]) & bits)
            option_name(out, predictor_registry[i]->name);
}

const struct option_capability predictor_capabilities[] = {
    {"predictor.kind", "bundle", with_abilities, BUNDLE},
    {"predictor.kind", "measured", with_abilities, MEASURED},
    {"predictor.kind", "tables", with_abilities, TABLES},
    {"predictor.kind", "parameters", with_abilities, PARAMETERS}, /* of the iteration model */
    {0},
};

enum st predictor_find(const char *name, const struct predictor_ops **out, struct err *e)
{
    struct buf known = {0};
    *out = NULL;
    for (int i = 0; predictor_registry[i]; i++) {
        if (strcmp(predictor_registry[i]->name, name) == 0)
            *out = predictor_registry[i];
        buf_printf(&known, "%s%s", i ? ", " : "", predictor_registry[i]->name);
    }
    if (!*out) {
        err_set(e, ST_USAGE, "predictor.kind: there is none called '%s'", name);
        err_hint(e, "known: %s", buf_str(&known));
    }
    buf_free(&known);
    return *out ? ST_OK : ST_USAGE;
}

static const struct predictor_ops *of_form(const struct bundle *b)
{
    switch (bundle_form(b)) {
    case BUNDLE_CALIBRATED:
        return &predictor_calibrated;
    case BUNDLE_ITERATIONS:
        return &predictor_iterations;
    case BUNDLE_OPERATORS:
        break;
    }
    return &predictor_bundle;
}

enum st predictor_open(struct arena *a, const struct predictor_ops *ops,
                       const struct predictor_params *p, struct predictor *out, struct err *e)
{
    ops = ops == &predictor_bundle ? of_form(p->bundle) : ops;
    *out = (struct predictor){.ops = ops, .stages = (int32_t)p->pp};
    TRY(shard_check(p->model, p->tp, p->pp, p->ep, e));
    if (p->ep > 1 && !ops->experts && !(ops->experts_of_shards && p->ep <= p->tp))
        return err_set(e, ST_USAGE, "parallel.ep: this predictor has no experts");
    if (p->pp > 1 && p->model->layered && ops == &predictor_vidur_tables)
        return err_set(e, ST_USAGE,
                       "parallel.pp: stages of %s, whose layers differ, are not in Vidur's tables: "
                       "predictor=roofline and bundles predict them",
                       p->model->name);
    if (p->expert_skew > 0 && (p->model->experts == 0 || !ops->experts))
        return err_set(e, ST_USAGE, "parallel.expert_skew: %s",
                       p->model->experts == 0 ? "the model has no experts"
                                              : "this predictor has no experts");
    if (ops->needs_bundle && bundle_has_energy(p->bundle))
        out->idle_w = bundle_idle_w(p->bundle) * (double)shard_devices(p->tp, p->ep);
    if (ops == &predictor_bundle)
        out->power_cap = bundle_power_cap(p->bundle);
    TRY(ops->open(a, p, &out->self, e));
    const bool whole = ops == &predictor_calibrated || ops == &predictor_iterations;
    const double decode_s = whole ? bundle_first_use_s(p->bundle, false) : 0;
    const double prompt_s = whole ? bundle_first_use_s(p->bundle, true) : 0;
    if (decode_s > 0 || prompt_s > 0)
        *out = predictor_first_use(a, out, decode_s, prompt_s);
    return ST_OK;
}

double predictor_idle_j(const struct predictor *p, int64_t replicas, double busy_s, double end_s)
{
    double idle_s = (double)(replicas * p->stages) * end_s - busy_s;
    return idle_s > 0 ? p->idle_w * idle_s : 0;
}
