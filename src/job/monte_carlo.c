#include <math.h>
#include <string.h>

#include "job/sim.h"
#include "search/launch.h"

static enum st same_workload(void *self, struct arena *a, uint64_t seed, struct workload *out,
                             int32_t ***ids, struct err *e)
{
    const struct job_monte_carlo *j = self;
    (void)a;
    (void)seed;
    (void)e;
    *out = j->w.w;
    *ids = j->ids;
    return ST_OK;
}

static void set_sd(struct arena *a, struct node *map, const char *key, double sd)
{
    if (sd > 0)
        node_set(a, map, sv_of(key), node_float(a, sd));
}

/* Standard deviations of the draws. */
static struct node *uncertainty_node(struct arena *a, const struct monte_carlo *m, bool host)
{
    const struct bundle_uncertainty *u = &m->uncertainty;
    struct node *n = node_new(a, NODE_MAP), *places = node_new(a, NODE_MAP);
    struct node *shifts = node_new(a, NODE_MAP), *classes = node_new(a, NODE_MAP);
    struct node *drift = node_new(a, NODE_MAP);
    for (int i = 0; i < (host ? BUNDLE_PARTS : PART_HOST); i++) {
        set_sd(a, places, bundle_part_name((enum bundle_part)i), u->place[i]);
        set_sd(a, shifts, bundle_part_name((enum bundle_part)i), u->shift[i]);
    }
    set_sd(a, classes, "decode", u->decode_classes);
    set_sd(a, classes, "prompt", u->prompt_classes);
    set_sd(a, drift, "decode", u->decode_drift);
    set_sd(a, drift, "prompt", u->prompt_drift);
    set_sd(a, places, "iteration_decode", u->iteration[0].place);
    set_sd(a, places, "iteration_prompt", u->iteration[1].place);
    set_sd(a, shifts, "iteration_decode", u->iteration[0].shift);
    set_sd(a, shifts, "iteration_prompt", u->iteration[1].shift);
    node_set(a, n, SV("replicas"), node_int(a, m->replicas));
    node_set(a, n, SV("places_sd"), places);
    node_set(a, n, SV("shift_sd"), shifts);
    node_set(a, n, SV("classes_sd"), classes);
    node_set(a, n, SV("drift_sd"), drift);
    node_set(a, n, SV("host_iteration_cv"), node_float(a, host ? u->host_cv : 0));
    return n;
}

static double shown_ms(double s)
{
    return round(s * 1e7) / 1e4;
}

static void show(struct arena *a, struct node *shown, const struct monte_carlo *m)
{
    static const struct {
        int metric;
        int percentile;
        const char *key;
    } rows[] = {{SLO_TTFT, 0, "ttft_p50_ms_interval"},
                {SLO_TTFT, 1, "ttft_p90_ms_interval"},
                {MONTE_CARLO_TOKEN_LATENCY, 0, "token_latency_p50_ms_interval"},
                {MONTE_CARLO_TOKEN_LATENCY, 1, "token_latency_p90_ms_interval"},
                {SLO_TPOT, 0, "tpot_p50_ms_interval"},
                {SLO_TPOT, 1, "tpot_p90_ms_interval"},
                {SLO_E2EL, 0, "e2e_p50_ms_interval"},
                {SLO_E2EL, 1, "e2e_p90_ms_interval"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct monte_carlo_cell *c = &m->of[rows[i].metric][rows[i].percentile];
        struct node *ends = node_new(a, NODE_LIST);
        if (isnan(c->low_s))
            continue;
        node_push(a, ends, node_float(a, shown_ms(c->low_s)));
        node_push(a, ends, node_float(a, shown_ms(c->high_s)));
        node_set(a, shown, sv_of(rows[i].key), ends);
    }
}

enum st job_monte_carlo_open(struct job_monte_carlo *j, struct err *e)
{
    const struct plan *p = j->c->plan;
    if (p->sim.replicas_mc < MONTE_CARLO_LEAST)
        return err_set(e, ST_USAGE, "sim.replicas_mc: %lld is neither 0 nor %d or more",
                       (long long)p->sim.replicas_mc, (int)MONTE_CARLO_LEAST);
    const struct bundle *b = j->params->bundle;
    if (!b || !bundle_is_uncertain(b)) {
        err_set(e, ST_USAGE, "sim.replicas_mc: predictor %s says nothing of its errors",
                j->ops->name);
        return err_hint(e, b ? "a calibration.json with covariance or sd says them"
                             : "predictor=bundle");
    }
    if (j->params->parameters)
        return err_set(e, ST_USAGE,
                       "sim.replicas_mc: predictor.parameters sets values that "
                       "otherwise are drawn");
    j->ops = &predictor_bundle;
    TRY(job_serve_params(p, &j->m->m, NULL, &j->serve, NULL, e));
    TRY(job_predictor_serving(j->c, j->params, &j->serve, NULL, e));
    TRY(job_probe_workload(j->c, j->m, &j->w, &j->ids, e));
    j->serve.concurrency = j->w.w.concurrency;
    return ST_OK;
}

enum st job_monte_carlo(void *self, const struct artifact *art, struct node *extra,
                        struct node *shown, struct err *e)
{
    struct job_monte_carlo *j = self;
    const struct plan *p = j->c->plan;
    struct monte_carlo m;
    struct monte_carlo_params params = {
        .predictor = j->params,
        .ops = j->ops,
        .serve = &j->serve,
        .workload = {j, same_workload},
        .draft_cost = p->serve.draft_cost,
        .seed = (uint64_t)p->seed,
        .replicas = p->sim.replicas_mc,
        .workers = p->cores ? p->cores : launch_cores(),
        .stop = &job_stop,
    };
    TRY(monte_carlo_run(&params, &m, e));
    TRY(monte_carlo_write(art, &m, e));
    node_set(j->c->a, extra, SV("uncertainty"),
             uncertainty_node(j->c->a, &m, j->params->host_overhead));
    show(j->c->a, shown, &m);
    return ST_OK;
}
