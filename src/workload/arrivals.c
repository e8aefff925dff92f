#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "config/plan.h"
#include "workload/make.h"

static enum st need_positive(const char *key, double v, struct err *e)
{
    return v > 0 && isfinite(v) ? ST_OK
                                : err_set(e, ST_USAGE, "%s must be above 0, not %g", key, v);
}

static enum st too_late(size_t i, const char *key, struct err *e)
{
    err_set(e, ST_USAGE, "the arrival of request %zu does not fit 64-bit nanoseconds (292 years)",
            i);
    return err_hint(e, "look at %s", key);
}

/* Adds a gap to the last arrival; false when it does not fit. */
static bool add_gap(int64_t *now_ns, double gap_ns)
{
    return gap_ns < 0x1p63 && !__builtin_add_overflow(*now_ns, (int64_t)llround(gap_ns), now_ns);
}

static enum st random_gaps(const struct workload_params *p, struct workload_request *r, size_t n,
                           struct err *e)
{
    bool gamma = p->arrival_kind == ARRIVAL_GAMMA;
    TRY(need_positive("workload.arrival.rate", p->rate, e));
    if (gamma)
        TRY(need_positive("workload.arrival.burstiness", p->burstiness, e));
    struct rng rng = rng_stream(p->seed, "workload.arrivals");
    double mean_ns = 1e9 / p->rate;
    int64_t now_ns = 0;
    for (size_t i = 0; i < n; i++) {
        double gap = gamma ? rng_gamma(&rng, p->burstiness) / p->burstiness : rng_exponential(&rng);
        if (!add_gap(&now_ns, gap * mean_ns))
            return too_late(i, "workload.arrival.rate", e);
        r[i].arrival_ns = now_ns;
    }
    return ST_OK;
}

/* From the index rather than from the arrival before it: roundings do not add up. */
static enum st fixed_rate(const struct workload_params *p, struct workload_request *r, size_t n,
                          struct err *e)
{
    TRY(need_positive("workload.arrival.rate", p->rate, e));
    for (size_t i = 0; i < n; i++) {
        double ns = (double)i * (1e9 / p->rate);
        if (!(ns < 0x1p63))
            return too_late(i, "workload.arrival.rate", e);
        r[i].arrival_ns = llround(ns);
    }
    return ST_OK;
}

static enum st fixed_gaps(const struct workload_params *p, struct workload_request *r, size_t n,
                          struct err *e)
{
    if (p->inter_arrival_ns < 0)
        return err_set(e, ST_USAGE,
                       "workload.arrival.inter_arrival_ns must not be negative, got %lld",
                       (long long)p->inter_arrival_ns);
    if (p->inter_arrival_ns == 0)
        return fixed_rate(p, r, n, e);
    for (size_t i = 0; i < n; i++)
        if (__builtin_mul_overflow((int64_t)i, p->inter_arrival_ns, &r[i].arrival_ns))
            return too_late(i, "workload.arrival.inter_arrival_ns", e);
    return ST_OK;
}

static enum st from_trace(const struct trace_rows *t, struct workload_request *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r[i].arrival_ns = t->arrival_ns[i];
    return ST_OK;
}

enum st workload_arrivals(const struct workload_params *p, const struct trace_rows *trace,
                          struct workload_request *r, size_t n, struct err *e)
{
    enum st st = ST_OK; /* static: memory is zeroed */
    switch ((enum plan_arrival)p->arrival_kind) {
    case ARRIVAL_STATIC:
        break;
    case ARRIVAL_FIXED_INTERVAL:
        st = fixed_gaps(p, r, n, e);
        break;
    case ARRIVAL_POISSON:
    case ARRIVAL_GAMMA:
        st = random_gaps(p, r, n, e);
        break;
    case ARRIVAL_TRACE:
        st = from_trace(trace, r, n);
        break;
    }
    for (size_t i = 0; st == ST_OK && i < n; i++)
        r[i].arrival_s = ns_to_s(r[i].arrival_ns);
    return st;
}
