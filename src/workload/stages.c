#include "workload/stages.h"

#include <math.h>
#include <string.h>

static bool rate(struct sv text, double *out)
{
    return str_double(text, out) && *out >= 0 && *out <= 1e9;
}

bool stages_split(struct sv item, double *seconds, struct sv *from, struct sv *to)
{
    const char *colon = memchr(item.p, ':', item.n);
    if (!colon)
        return false;
    const struct sv length = {item.p, (size_t)(colon - item.p)};
    struct sv first = {colon + 1, item.n - length.n - 1}, last = first;
    const char *dash = first.n ? memchr(first.p, '-', first.n) : NULL;
    if (dash) {
        last = (struct sv){dash + 1, (size_t)(first.p + first.n - dash - 1)};
        first.n = (size_t)(dash - first.p);
    }
    *from = sv_trim(first);
    *to = sv_trim(last);
    return str_double(sv_trim(length), seconds) && *seconds > 0 && *seconds <= 1e9;
}

static bool parse_one(struct sv item, struct rate_stage *out)
{
    struct sv from, to;
    return stages_split(item, &out->s, &from, &to) && rate(from, &out->from) &&
           rate(to, &out->to) && out->from + out->to > 0;
}

enum st stages_parse(struct arena *a, const char *const *items, size_t n, struct rate_stage **out,
                     struct err *e)
{
    *out = arena_array(a, struct rate_stage, n);
    for (size_t i = 0; i < n; i++) {
        if (parse_one(sv_trim(sv_of(items[i])), &(*out)[i]))
            continue;
        err_set(e, ST_USAGE, "workload.arrival.stages: '%s' is no stage", items[i]);
        return err_hint(e, "SECONDS:RATE or SECONDS:RATE-RATE, as in [10:0-4,60:4]");
    }
    if (n > 0 && !((*out)[n - 1].to > 0))
        return err_set(e, ST_USAGE,
                       "workload.arrival.stages: the last rate goes on for ever and "
                       "must be above 0");
    return ST_OK;
}

double stages_time_s(const struct rate_stage *stages, size_t n, struct stages_at *at, double S)
{
    for (; at->k < n; at->k++) {
        const struct rate_stage *x = &stages[at->k];
        double all = x->s * (x->from + x->to) / 2, d = S - at->before;
        if (d <= 0) /* also where the rate is 0 */
            return at->begin_s;
        if (d < all) /* the root of from t + (to - from) / s t^2 / 2 = d that does not cancel */
            return at->begin_s +
                   2 * d /
                       (x->from +
                        sqrt(fmax(0, x->from * x->from + 2 * (x->to - x->from) / x->s * d)));
        at->before += all;
        at->begin_s += x->s;
    }
    return at->begin_s + (S - at->before) / stages[n - 1].to;
}
