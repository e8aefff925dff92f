#include "search/slo.h"

#include <math.h>
#include <string.h>

#include "base/str.h"
#include "text/words.h"

static const char *const metrics[SLO_METRICS] = {
    [SLO_DELAY] = "delay", [SLO_TTFT] = "ttft", [SLO_TPOT] = "tpot", [SLO_E2EL] = "e2el"};

const char *slo_metric_name(enum slo_metric m)
{
    return metrics[m];
}

static enum st parse_limit(const char *item, struct slo *s, struct err *e)
{
    const char *colon = strchr(item, ':');
    int m = 0;
    while (colon && m < SLO_METRICS &&
           !sv_eq(sv_trim((struct sv){item, (size_t)(colon - item)}), metrics[m]))
        m++;
    if (!colon || m == SLO_METRICS) {
        err_set(e, ST_USAGE, "slo: '%s' is not a limit", item);
        return err_hint(e, "limits are name:milliseconds with ttft, tpot, e2el or delay, as "
                           "slo=ttft:500,tpot:50");
    }
    double ms;
    if (!str_double(sv_trim(sv_of(colon + 1)), &ms) || !(ms > 0))
        return err_set(e, ST_USAGE, "slo: '%s': expected milliseconds above 0 after the colon",
                       item);
    if (isfinite(s->limit_s[m]))
        return err_set(e, ST_USAGE, "slo: %s is given twice", metrics[m]);
    s->limit_s[m] = ms / 1e3;
    return ST_OK;
}

enum st slo_parse(const char *const *items, size_t n, double fraction, struct slo *out,
                  struct err *e)
{
    *out = (struct slo){.fraction = fraction};
    for (int m = 0; m < SLO_METRICS; m++)
        out->limit_s[m] = (double)INFINITY;
    if (n == 0)
        return err_set(e, ST_USAGE, "slo: no limit is given");
    if (!(fraction > 0 && fraction <= 1))
        return err_set(e, ST_USAGE, "slo_fraction: %g is not above 0 and at most 1", fraction);
    for (size_t i = 0; i < n; i++)
        TRY(parse_limit(items[i], out, e));
    return ST_OK;
}

bool slo_meets(const struct slo *s, const double latency_s[SLO_METRICS])
{
    for (int m = 0; m < SLO_METRICS; m++)
        if (latency_s[m] > s->limit_s[m])
            return false;
    return true;
}

bool slo_from_plan(const struct slo *s)
{
    return isfinite(s->limit_s[SLO_DELAY]) || isfinite(s->limit_s[SLO_TTFT]) ||
           isfinite(s->limit_s[SLO_E2EL]);
}

const char *slo_words(struct arena *a, const struct slo *s)
{
    struct buf b = {0};
    char text[STR_DOUBLE_MAX], limit[WORDS_MAX];
    str_from_double(text, round(s->fraction * 1e8) / 1e6);
    buf_printf(&b, "%s %% of requests:", text);
    for (int m = 0, first = 1; m < SLO_METRICS; m++) {
        if (!isfinite(s->limit_s[m]))
            continue;
        buf_printf(&b, "%s %s <= %s", first ? "" : ",", metrics[m],
                   words_duration(limit, s->limit_s[m]));
        first = 0;
    }
    const char *out = arena_str(a, buf_str(&b));
    buf_free(&b);
    return out;
}
