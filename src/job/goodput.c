#include "job/goodput.h"

#include <math.h>
#include <string.h>

enum { MOST_WORDS = 8 };

/* Splits items at spaces: "ttft:200 tpot:50" is one item, ttft:200,tpot:50 two. */
static enum st split(const struct job_context *c, const char *words[MOST_WORDS], size_t *n,
                     struct err *e)
{
    const struct texts *given = &c->plan->goodput;
    for (size_t i = 0; i < given->n; i++)
        for (const char *p = given->items[i]; *p;) {
            size_t len = strcspn(p, " ");
            if (len > 0 && *n == MOST_WORDS)
                return err_set(e, ST_USAGE, "goodput: too many limits");
            if (len > 0)
                words[(*n)++] = arena_strn(c->a, p, len);
            p += len + (p[len] != 0);
        }
    return ST_OK;
}

enum st job_goodput(const struct job_context *c, struct slo *limits, const char **text,
                    struct err *e)
{
    const char *words[MOST_WORDS];
    struct err bad = {0};
    size_t n = 0;
    *text = NULL;
    *limits = (struct slo){.fraction = 1};
    for (int m = 0; m < SLO_METRICS; m++)
        limits->limit_s[m] = (double)INFINITY;
    TRY(split(c, words, &n, e));
    if (n == 0)
        return ST_OK;
    if (slo_parse(words, n, 1, limits, &bad) != ST_OK) {
        const char *why = err_cause(&bad, 0);
        err_set(e, ST_USAGE, "goodput: %s", strncmp(why, "slo: ", 5) == 0 ? why + 5 : why);
        return err_hint(e, "limits are in ms, as goodput=\"ttft:500 tpot:50 e2el:2000\"");
    }
    if (isfinite(limits->limit_s[SLO_DELAY]))
        return err_set(
            e, ST_USAGE,
            "goodput: a client does not see when a batch begins: delay is no limit here");
    for (size_t i = 0; i < n; i++)
        *text = arena_printf(c->a, "%s%s%s", i ? *text : "", i ? " " : "", words[i]);
    return ST_OK;
}
