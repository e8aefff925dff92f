#include <math.h>

#include "base/clock.h"
#include "workload/make.h"

static enum st need_positive(const char *key, double v, struct err *e)
{
    return v > 0 && isfinite(v) ? ST_OK
                                : err_set(e, ST_USAGE, "%s must be above 0, not %g", key, v);
}

static enum st too_late(int64_t i, const char *key, struct err *e)
{
    err_set(e, ST_USAGE, "the arrival of request %lld does not fit 64-bit nanoseconds (292 years)",
            (long long)i);
    return err_hint(e, "look at %s", key);
}

/* Adds a gap to the last arrival; false when it does not fit. */
static bool add_gap(int64_t *now_ns, double gap_ns)
{
    return gap_ns < 0x1p63 && !__builtin_add_overflow(*now_ns, (int64_t)llround(gap_ns), now_ns);
}

/* A gap of mean 1. */
static double unit_gap(struct arrivals *g)
{
    const struct workload_params *p = g->p;
    if (p->arrival_kind == ARRIVAL_FIXED_INTERVAL)
        return g->i > 0;
    return p->arrival_kind == ARRIVAL_GAMMA ? rng_gamma(&g->rng, p->burstiness) / p->burstiness
                                            : rng_exponential(&g->rng);
}

static enum st next_staged(struct arrivals *g, struct err *e)
{
    const struct workload_params *p = g->p;
    g->unit += unit_gap(g);
    double ns = 1e9 * stages_time_s(p->stages, p->n_stages, &g->at, g->unit);
    if (!(ns < 0x1p63))
        return too_late(g->i, "workload.arrival.stages", e);
    int64_t now_ns = llround(ns);
    g->now_ns = now_ns > g->now_ns ? now_ns : g->now_ns;
    return ST_OK;
}

static enum st next_random(struct arrivals *g, struct err *e)
{
    const struct workload_params *p = g->p;
    double gap = unit_gap(g);
    double mean_ns = 1e9 / p->rate;
    return add_gap(&g->now_ns, gap * mean_ns) ? ST_OK : too_late(g->i, "workload.arrival.rate", e);
}

/* Computed from the index, not from the previous arrival, so that rounding errors do not
 * accumulate. */
static enum st next_fixed(struct arrivals *g, struct err *e)
{
    const struct workload_params *p = g->p;
    if (p->inter_arrival_ns) {
        bool over = __builtin_mul_overflow(g->i, p->inter_arrival_ns, &g->now_ns);
        return over ? too_late(g->i, "workload.arrival.inter_arrival_ns", e) : ST_OK;
    }
    double ns = (double)g->i * (1e9 / p->rate);
    if (!(ns < 0x1p63))
        return too_late(g->i, "workload.arrival.rate", e);
    g->now_ns = llround(ns);
    return ST_OK;
}

enum st arrivals_begin(const struct workload_params *p, struct arrivals *out, struct err *e)
{
    *out = (struct arrivals){.p = p};
    switch ((enum workload_arrival)p->arrival_kind) {
    case ARRIVAL_STATIC:
        return ST_OK;
    case ARRIVAL_FIXED_INTERVAL:
        if (p->inter_arrival_ns < 0)
            return err_set(e, ST_USAGE,
                           "workload.arrival.inter_arrival_ns must not be negative, got %lld",
                           (long long)p->inter_arrival_ns);
        return p->inter_arrival_ns || p->n_stages
                   ? ST_OK
                   : need_positive("workload.arrival.rate", p->rate, e);
    case ARRIVAL_POISSON:
    case ARRIVAL_GAMMA:
        if (p->n_stages == 0)
            TRY(need_positive("workload.arrival.rate", p->rate, e));
        if (p->arrival_kind == ARRIVAL_GAMMA)
            TRY(need_positive("workload.arrival.burstiness", p->burstiness, e));
        out->rng = rng_stream(p->seed, "workload.arrivals");
        return ST_OK;
    case ARRIVAL_TRACE:
        return workload_trace_open(p->arrival_trace, true, false, &out->trace, e);
    }
    return ST_OK;
}

enum st arrivals_next(struct arrivals *g, struct workload_request *r, struct err *e)
{
    struct trace_row row;
    switch ((enum workload_arrival)g->p->arrival_kind) {
    case ARRIVAL_STATIC:
        break;
    case ARRIVAL_FIXED_INTERVAL:
        TRY((g->p->n_stages ? next_staged : next_fixed)(g, e));
        break;
    case ARRIVAL_POISSON:
    case ARRIVAL_GAMMA:
        TRY((g->p->n_stages ? next_staged : next_random)(g, e));
        break;
    case ARRIVAL_TRACE:
        TRY(workload_trace_next(&g->trace, &row, e));
        g->now_ns = row.arrival_ns;
        break;
    }
    g->i++;
    r->arrival_ns = g->now_ns;
    r->arrival_s = ns_to_s(g->now_ns);
    return ST_OK;
}

void arrivals_end(struct arrivals *g)
{
    workload_trace_close(&g->trace);
}
