#include "job/capacity_start.h"

#include <math.h>

#include "job/probe_engine.h"
#include "job/sim.h"

/* The number of requests of a probe depends on its rate: found with many, it is found again with
 * those of a probe there. */
enum { PASSES = 2 };

static enum st predicted(const struct job_context *of, double *rate, const char **by, struct err *e)
{
    struct plan plan = *of->plan;
    struct job_context c = *of;
    c.plan = &plan;
    *rate = 0;
    for (int i = 0; i < PASSES; i++) {
        struct job_probe probe;
        struct capacity_seed seed;
        if (i > 0 && !job_probe_follows_rate(of))
            break;
        if (i > 0)
            plan.workload.make.num_requests = job_probe_requests(of->plan, *rate);
        TRY(job_probe_open(&c, &probe, e));
        struct capacity_params params =
            job_capacity_params(&plan, &probe.slo, probe.one_draw, true);
        *by = probe.params.bundle ? "the bundle" : "the roofline";
        enum st st = capacity_bisect(of->a, &params, &probe.probe, params.seed, &seed, e);
        job_probe_close(&probe);
        if (st != ST_OK)
            return st;
        if (!(seed.low > 0))
            return err_set(e, ST_REJECTED, "the objective holds at no rate in the simulation");
        *rate = seed.low;
    }
    return ST_OK;
}

void job_capacity_start(const struct job_context *c, const struct engine *engine, double *rate,
                        const char **said)
{
    const struct plan *p = c->plan;
    struct err e = {0};
    const char *by = NULL;
    *rate = 0;
    *said = NULL;
    if (p->capacity.start_rate > 0 || engine->drive != ENGINE_EXECUTES ||
        !(engine->needs & ENGINE_WEIGHTS))
        return;
    enum st st = predicted(c, rate, &by, &e);
    if (st == ST_OK && isfinite(*rate)) {
        *said = arena_printf(
            c->a, "The search began at %.4g requests/s, which %s of hardware=%s predicts.", *rate,
            by, p->hardware.id);
        return;
    }
    *rate = 0;
    *said = arena_printf(c->a, "The search began at 1 request/s: no prediction (%s).",
                         st == ST_OK ? "it has no end" : err_cause(&e, 0));
}
