#include <math.h>

#include "job/sim.h"

/* Stretches given requests to a mean rate of 1 request/s. */
static enum st to_unit_rate(struct workload *w, struct err *e)
{
    int64_t first = w->n ? w->requests[0].arrival_ns : 0;
    int64_t span = w->n ? w->requests[w->n - 1].arrival_ns - first : 0;
    if (span <= 0) {
        err_set(e, ST_INPUT, "all requests of the workload arrive at once: that has no rate");
        return err_hint(e, "workload.arrival.kind=poisson gives them one");
    }
    double stretch = (double)(w->n - 1) / ((double)span / 1e9);
    for (size_t i = 0; i < w->n; i++) {
        double ns = round((double)(w->requests[i].arrival_ns - first) * stretch);
        if (!(ns < 0x1p62))
            return err_set(e, ST_INPUT,
                           "the arrivals do not fit 64-bit nanoseconds at 1 request/s");
        w->requests[i].arrival_ns = (int64_t)ns;
        w->requests[i].arrival_s = ns / 1e9;
    }
    return ST_OK;
}

static bool is_given(const struct plan *p)
{
    return p->workload.dir || p->workload.trace;
}

/* A rate stretches arrivals; what follows from ends has none. */
static enum st refuse_following(const struct workload *w, struct err *e)
{
    if (!w->concurrency && !workload_has_sessions(w))
        return ST_OK;
    err_set(e, ST_USAGE, "the workload is %s: it has no rate of requests to search for",
            w->concurrency ? "a closed loop" : "of sessions, whose later turns follow from ends");
    return err_hint(e, "twinfer simulate and twinfer bench run it; -m "
                       "workload.concurrency=1,2,4,8 tries several");
}

enum st job_probe_workload(const struct job_context *c, const struct job_model *m,
                           struct job_workload *out, int32_t ***ids, struct err *e)
{
    bool want = c->plan->serve.prefix_caching && m->tokenizer;
    TRY(job_workload(c, m, want, out, e));
    return want && out->tokenizer ? job_prompt_ids(c, m, out, ids, e) : ST_OK;
}

bool job_is_stretched(const struct plan *p)
{
    return is_given(p) || p->workload.make.arrival_kind == ARRIVAL_TRACE;
}

enum st job_unit_workload(const struct job_context *of, const struct job_model *m, struct arena *a,
                          uint64_t seed, int32_t ***ids, struct job_workload *out, struct err *e)
{
    struct plan plan = *of->plan;
    struct job_context c = *of;
    plan.seed = (int64_t)seed;
    plan.workload.make.rate = 1;
    plan.workload.make.inter_arrival_ns = 0;
    c.plan = &plan;
    c.a = a;
    enum st st = ids ? job_probe_workload(&c, m, out, ids, e) : job_workload(&c, m, false, out, e);
    if (st == ST_OK)
        st = refuse_following(&out->w, e);
    if (st == ST_OK && job_is_stretched(&plan))
        st = to_unit_rate(&out->w, e);
    if (st != ST_OK)
        job_workload_close(out);
    return st;
}

enum st job_capacity_check(const struct job_context *c, struct slo *slo, bool *one_draw,
                           struct err *e)
{
    const struct plan *p = c->plan;
    *one_draw = is_given(p);
    TRY(slo_parse(p->slo.items, p->slo.n, p->slo_fraction, slo, e));
    if (!is_given(p) && p->workload.make.arrival_kind == ARRIVAL_STATIC) {
        err_set(e, ST_USAGE, "workload.arrival.kind=static has no rate to search for");
        return err_hint(e, "workload.arrival.kind=poisson");
    }
    if (*one_draw && p->capacity.seeds != 1 &&
        config_origin(c->config, "capacity.seeds") == ORIGIN_COMMAND_LINE) {
        err_set(e, ST_USAGE, "capacity.seeds=%lld: a workload that is given has one draw",
                (long long)p->capacity.seeds);
        return err_hint(e, "capacity.seeds=1, or workload.lengths.trace= with other arrivals");
    }
    return ST_OK;
}

static enum st make_workload(void *self, struct arena *a, uint64_t seed, struct workload *out,
                             int32_t ***ids, struct err *e)
{
    const struct job_probe *p = self;
    struct job_workload w;
    TRY(job_unit_workload(p->c, &p->m, a, seed, ids, &w, e));
    *out = w.w;
    job_workload_close(&w);
    return ST_OK;
}

enum st job_probe_open(const struct job_context *c, struct job_probe *out, struct err *e)
{
    const struct plan *p = c->plan;
    *out = (struct job_probe){.c = c};
    TRY(job_capacity_check(c, &out->slo, &out->one_draw, e));
    TRY(job_model(c, false, &out->m, e));
    struct engine_plan plan;
    TRY(job_serve_params(p, &out->m.m, NULL, &out->serve, &plan, e));
    TRY(serve_check_params(&out->serve, e));
    TRY(job_predictor(c, &out->m, &out->params, &out->predictor, e));
    TRY(job_predictor_serving(c, &out->params, &out->serve, &plan, e));
    out->setup = job_setup_of(c, &out->m.m, NULL, &plan, &out->serve);
    struct probe_sim_params params = {
        .predictor = &out->predictor,
        .bundle = out->params.bundle,
        .serve = &out->serve,
        .workload = {out, make_workload},
        .slo = &out->slo,
        .stop = &job_stop,
    };
    out->probe = probe_sim_open(&params);
    return ST_OK;
}

void job_probe_close(struct job_probe *p)
{
    probe_sim_close(&p->probe);
}

int64_t job_capacity_seeds(const struct plan *p, bool engine)
{
    return p->capacity.seeds > 0 ? p->capacity.seeds : engine ? 1 : 5;
}

struct capacity_params job_capacity_params(const struct plan *p, const struct slo *slo,
                                           bool one_draw, bool engine)
{
    double tolerance = engine ? 0.05 : 0.01; /* probes of a real engine are slow */
    return (struct capacity_params){.slo = *slo,
                                    .tolerance = p->capacity.tolerance > 0 ? p->capacity.tolerance
                                                                           : tolerance,
                                    .start_rate = p->capacity.start_rate,
                                    .max_rate = p->capacity.max_rate,
                                    .seed = (uint64_t)p->seed,
                                    .seeds = one_draw ? 1 : job_capacity_seeds(p, engine)};
}
