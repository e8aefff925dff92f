/* Any bytes as metrics of a server: samples, or a named error. The text cut in two is a snapshot
 * before and one after: what grew, or a named error; a quantile lies within its bracket's order. */
#include "fuzz.h"

#include <math.h>
#include <string.h>

#include "metrics/prometheus.h"

static void check_histogram(struct arena *a, const struct prom_snapshot *before,
                            const struct prom_snapshot *after, const char *name)
{
    struct prom_histogram h;
    struct prom_bracket p50, p90;
    struct err e = {0};
    const enum st st = prom_histogram(a, before, after, name, (struct prom_where){0}, &h, &e);
    REQUIRE(st == ST_OK || ((st == ST_INPUT || st == ST_REJECTED) && err_cause(&e, 0)));
    if (st != ST_OK || h.n == 0)
        return;
    REQUIRE(isinf(h.le[h.n - 1]) && h.at_most[h.n - 1] == h.count && h.count >= 0);
    for (size_t i = 1; i < h.n; i++)
        REQUIRE(h.le[i - 1] < h.le[i] && h.at_most[i - 1] <= h.at_most[i]);
    if (prom_quantile(&h, 0.5, &p50) && prom_quantile(&h, 0.9, &p90))
        REQUIRE(p50.low < p50.high && p50.low <= p90.low && p50.high <= p90.high);
}

static void check_growth(struct arena *a, const struct prom_snapshot *before,
                         const struct prom_snapshot *after)
{
    static const char bucket[] = "_bucket";
    const size_t k = strlen(bucket);
    int left = 8; /* each looks at all samples */
    for (size_t i = 0; i < after->n && left > 0; i++) {
        const struct sv name = after->of[i].name;
        double grew;
        struct err e = {0};
        const enum st st = prom_counter(a, before, after, arena_strn(a, name.p, name.n),
                                        (struct prom_where){0}, &grew, &e);
        REQUIRE(st == ST_OK || ((st == ST_INPUT || st == ST_REJECTED) && err_cause(&e, 0)));
        REQUIRE(st != ST_OK || grew >= 0);
        left--;
        if (name.n > k && memcmp(name.p + name.n - k, bucket, k) == 0)
            check_histogram(a, before, after, arena_strn(a, name.p, name.n - k));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct prom_snapshot before, after;
    struct err e = {0};
    const struct sv text = {(const char *)data, size};
    const char *cut = size ? memchr(text.p, 1, size) : NULL;
    const size_t first = cut ? (size_t)(cut - text.p) : 0;
    enum st st = prom_parse(a, "before", (struct sv){text.p, first}, &before, &e);
    REQUIRE(st == ST_OK || (st == ST_INPUT && err_cause(&e, 0)));
    const bool two = cut && st == ST_OK;
    const size_t from = cut ? first + 1 : 0;
    err_clear(&e);
    st = prom_parse(a, "after", (struct sv){text.p + from, size - from}, &after, &e);
    REQUIRE(st == ST_OK || (st == ST_INPUT && err_cause(&e, 0)));
    if (st == ST_OK)
        check_growth(a, two ? &before : NULL, &after);
    arena_free(&a);
    return 0;
}
