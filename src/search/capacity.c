#include "search/capacity.h"

#include <math.h>
#include <string.h>

#include "metrics/metrics.h"

enum { MAX_STEPS = 10, MAX_PROBES = 64 }; /* doublings or halvings; of one seed */
enum { ALONE_LEAST = 3 };                 /* least number of requests alone: fewer may be chance */
const double LONG_RUN_BRACKET = 1.06;
static const double EASY_RATE = 10; /* requests/s at which no client is late by itself */

const char *capacity_end_name(enum capacity_end end)
{
    static const char *const names[CAPACITY_ENDS] = {"broken", "client", "capped"};
    return names[end];
}

bool capacity_holds(const struct slo *s, const struct probe_result *r)
{
    return r->good >= s->fraction && (!(r->unhealthy > 0) || slo_from_plan(s)); /* not for NAN */
}

bool capacity_undecided(const struct slo *s, const struct probe_result *r)
{
    return r->unhealthy > 0 && !capacity_holds(s, r);
}

struct bisection {
    const struct capacity_params *p;
    const struct rate_probe *probe;
    struct capacity_seed *out;
};

static enum st try_rate(struct bisection *b, double rate, bool *holds, struct err *e)
{
    struct capacity_seed *o = b->out;
    ASSERT(o->n < MAX_PROBES);
    struct capacity_probe *c = &o->probes[o->n];
    *c = (struct capacity_probe){.rate = rate, .seed = o->seed};
    TRY(b->probe->ops->run(b->probe->self, rate, o->seed, &c->r, e));
    o->n++;
    *holds = c->holds = capacity_holds(&b->p->slo, &c->r);
    if (*holds && rate > o->low)
        o->low = rate;
    if (!*holds && rate < o->high) {
        o->high = rate;
        o->end = capacity_undecided(&b->p->slo, &c->r) ? CAPACITY_CLIENT : CAPACITY_BROKEN;
    }
    return ST_OK;
}

static enum st first_rate(struct bisection *b, double *rate, struct err *e)
{
    b->out->flood_per_s = (double)NAN;
    *rate = b->p->start_rate > 0 ? b->p->start_rate : 1;
    if (b->p->start_rate > 0 || !b->probe->ops->may_flood)
        return ST_OK;
    struct probe_result r;
    TRY(b->probe->ops->run(b->probe->self, (double)INFINITY, b->out->seed, &r, e));
    b->out->flood_per_s = r.requests_per_s;
    if (r.requests_per_s > 0)
        *rate = r.requests_per_s;
    return ST_OK;
}

static double capped(const struct bisection *b, double rate)
{
    return b->p->max_rate > 0 && rate > b->p->max_rate ? b->p->max_rate : rate;
}

static enum st too_slow(const struct bisection *b, double rate, double least, struct err *e)
{
    err_set(e, ST_USAGE,
            "at %g requests/s, where the search begins, the arrivals alone take longer than the "
            "time limit of a probe",
            capped(b, rate));
    return err_hint(e,
                    "capacity.start_rate=%g or more, fewer requests (workload.num_requests=), or a "
                    "longer capacity.probe_timeout_s=",
                    least);
}

/* The machine makes the client late, not the rate: lower rates would only take longer. */
static bool is_late_anyway(const struct bisection *b)
{
    const struct capacity_probe *last = &b->out->probes[b->out->n - 1];
    return capacity_undecided(&b->p->slo, &last->r) && last->rate < EASY_RATE;
}

/* Most of the requests alone in the system miss the objective, and are enough to break it: lower
 * rates would only take longer. */
static bool is_hopeless(const struct bisection *b)
{
    const struct probe_result *r = &b->out->probes[b->out->n - 1].r;
    return !(r->unhealthy > 0) && r->alone_bad >= ALONE_LEAST && 2 * r->alone_bad > r->alone &&
           r->alone_bad > (1 - b->p->slo.fraction) * r->requests;
}

/* A bracket that begins where the capacity is expected takes small steps, and then doublings: it
 * may be far off, as few requests allow no miss and many do. */
static int steps_of(const struct capacity_params *p)
{
    return p->step > 0 ? 2 * MAX_STEPS : MAX_STEPS;
}

static double step_of(const struct capacity_params *p, int i)
{
    if (i == 0 && p->first_step > 0)
        return p->first_step;
    return p->step > 0 && i < MAX_STEPS ? p->step : 2;
}

static enum st bracket(struct bisection *b, double rate, struct err *e)
{
    struct capacity_seed *o = b->out;
    const struct probe_ops *ops = b->probe->ops;
    double least = ops->least_rate ? ops->least_rate(b->probe->self, o->seed) : 0;
    bool holds, up;
    rate = capped(b, rate);
    const double begin = rate;
    if (rate < least)
        return too_slow(b, rate, least, e);
    TRY(try_rate(b, rate, &holds, e));
    up = holds;
    for (int i = 0; i < steps_of(b->p) && holds == up; i++) {
        const double by = step_of(b->p, i);
        if (up && capped(b, rate * by) <= rate) {
            o->high = rate;
            o->end = CAPACITY_CAPPED;
            return ST_OK;
        }
        rate = up ? capped(b, rate * by) : rate / by;
        if (rate < least || is_late_anyway(b) || (!up && is_hopeless(b)))
            return ST_OK; /* low stays 0 */
        TRY(try_rate(b, rate, &holds, e));
    }
    if (isfinite(o->high))
        return ST_OK;
    err_set(e, ST_REJECTED,
            "the objective still holds at %g requests/s, %.0f times where the search began: this "
            "workload ends before a queue forms",
            rate, rate / begin);
    return err_hint(e, "ask for more requests (workload.num_requests=) or a tighter slo=");
}

enum st capacity_bisect(struct arena *a, const struct capacity_params *p,
                        const struct rate_probe *probe, uint64_t seed, struct capacity_seed *out,
                        struct err *e)
{
    *out = (struct capacity_seed){.seed = seed,
                                  .high = (double)INFINITY,
                                  .probes = arena_array(a, struct capacity_probe, MAX_PROBES)};
    struct bisection b = {p, probe, out};
    double rate;
    bool holds;
    TRY(first_rate(&b, &rate, e));
    TRY(bracket(&b, rate, e));
    while (out->low > 0 && out->high > out->low * (1 + p->tolerance) && out->n < MAX_PROBES)
        TRY(try_rate(&b, (out->low + out->high) / 2, &holds, e));
    return ST_OK;
}

/* Whether that seed's delays grow at its highest rate that held. */
static bool seed_grows(const struct capacity_params *p, const struct capacity_seed *s)
{
    double limit = p->slo.limit_s[SLO_DELAY];
    double least = (isfinite(limit) ? limit : 1) / 10;
    for (size_t i = 0; i < s->n; i++) {
        const struct probe_result *r = &s->probes[i].r;
        if (s->probes[i].rate == s->low)
            return r->late_delay_s > 2 * r->early_delay_s && r->late_delay_s > least;
    }
    return false;
}

static void mean_and_error(const double *v, size_t n, double *mean, double *error)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - *mean) * (v[i] - *mean);
    *error =
        n > 1 ? stats_student_95(n - 1) * sqrt(squares / (double)(n - 1)) / sqrt((double)n) : 0;
}

void capacity_sum(const struct capacity_params *p, const struct capacity_seed *seeds, size_t n,
                  struct capacity *out)
{
    double *low = mem_alloc((2 * n + 1) * sizeof(double)), *high = low + n;
    double low_error, high_mean, high_error;
    size_t growing = 0;
    bool none = false;
    *out = (struct capacity){0};
    for (size_t i = 0; i < n; i++) {
        low[i] = seeds[i].low;
        high[i] = seeds[i].high;
        none = none || seeds[i].low <= 0;
        if (seeds[i].end != CAPACITY_BROKEN && out->end != CAPACITY_CLIENT)
            out->end = seeds[i].end;
        growing += seed_grows(p, &seeds[i]);
    }
    mean_and_error(low, n, &out->rate, &low_error);
    mean_and_error(high, n, &high_mean, &high_error);
    out->low = out->rate > low_error ? out->rate - low_error : 0;
    out->high = high_mean + high_error;
    if (none)
        out->rate = out->low = 0;
    out->growing = 2 * growing > n;
    mem_free(low);
}

struct capacity_long_run capacity_long_run(const struct capacity *before,
                                           const struct capacity *after, double requests,
                                           double tolerance)
{
    const double change = after->rate - before->rate;
    return (struct capacity_long_run){.requests = requests,
                                      .rate = after->rate,
                                      .low = fmax(0, after->low + fmin(change, 0)),
                                      .high = after->high,
                                      .settled = fabs(change) <= 2 * tolerance * after->rate};
}

/* ---- trees ------------------------------------------------------------------------------- */

static const struct field probe_rows[] = {
    FIELD_MAP(struct capacity_probe, r, NULL, &probe_result_fields),
    FIELD(struct capacity_probe, rate, .max = 1e300),
    FIELD(struct capacity_probe, seed),
    FIELD(struct capacity_probe, holds),
};
const struct fields capacity_probe_fields = FIELDS(struct capacity_probe, probe_rows);

static const struct field seed_rows[] = {
    FIELD(struct capacity_seed, seed),
    FIELD(struct capacity_seed, low, .max = 1e300),
    FIELD(struct capacity_seed, high, .max = 1e300),
    FIELD_ENUM(struct capacity_seed, end, "end", capacity_end_name, CAPACITY_ENDS),
    FIELD(struct capacity_seed, flood_per_s, .max = 1e300, .optional = true),
    FIELD_MAPS(struct capacity_seed, probes, n, "probes", &capacity_probe_fields),
};
const struct fields capacity_seed_fields = FIELDS(struct capacity_seed, seed_rows);
