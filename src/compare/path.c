/* A run over HTTP against one without: the cost of the HTTP path. */
#include <math.h>
#include <stdio.h>

#include "compare/intern.h"

static const enum metric shown[] = {METRIC_TTFT, METRIC_TPOT, METRIC_E2E};
enum { SHOWN = sizeof shown / sizeof *shown };

static bool has(const struct run *r, const char *key)
{
    const struct node *n = node_find(r->meta, key);
    return n && n->kind == NODE_MAP;
}

static bool is_real(const struct run *r)
{
    const struct node *type = node_find(r->meta, "run_type");
    return type && type->kind == NODE_STR && sv_eq(type->s, "real");
}

/* NAN = missing. */
static double value_ns(const struct run_request *q, enum metric m)
{
    if (q->first_token_ns == RUN_NONE || q->completion_ns == RUN_NONE)
        return (double)NAN;
    double ttft = (double)(q->first_token_ns - q->arrival_ns);
    double e2e = (double)(q->completion_ns - q->arrival_ns);
    if (m == METRIC_TPOT)
        return q->num_decode_tokens_actual > 1
                   ? (e2e - ttft) / (double)(q->num_decode_tokens_actual - 1)
                   : (double)NAN;
    return m == METRIC_TTFT ? ttft : e2e;
}

/* Differences `more` minus `less`, sorted, in out[al->n]; returns their number. */
static size_t differences(const struct alignment *al, const struct run *more,
                          const struct run *less, enum metric m, double *out)
{
    double *scratch = mem_alloc((al->n + 1) * sizeof *scratch);
    size_t n = 0;
    for (size_t i = 0; i < al->n; i++) {
        const struct run_request *a = run_find(more, al->ids[i]), *b = run_find(less, al->ids[i]);
        if (!a || !b || a->status != RUN_OK || b->status != RUN_OK ||
            a->num_decode_tokens_actual != b->num_decode_tokens_actual)
            continue;
        double d = value_ns(a, m) - value_ns(b, m);
        if (!isnan(d))
            out[n++] = d;
    }
    stats_sort(out, scratch, n);
    mem_free(scratch);
    return n;
}

void compare_path_find(struct arena *a, struct comparison *c, const struct alignment *al)
{
    bool real = has(&c->real, "http"), sim = has(&c->sim, "http");
    c->path.is = real != sim && is_real(&c->real) && is_real(&c->sim);
    c->path.real_is = real;
    if (!c->path.is)
        return;
    double *d = arena_array(a, double, al->n);
    for (size_t i = 0; i < SHOWN; i++) {
        struct compare_path_cost *cost = &c->path.of[shown[i]];
        size_t n =
            differences(al, real ? &c->real : &c->sim, real ? &c->sim : &c->real, shown[i], d);
        *cost = (struct compare_path_cost){.n = n,
                                           .median_ns = (double)NAN,
                                           .low_ns = (double)NAN,
                                           .high_ns = (double)NAN,
                                           .p10_ns = (double)NAN,
                                           .p90_ns = (double)NAN,
                                           .repeat_ns = (double)NAN};
        if (n == 0)
            continue;
        cost->median_ns = stats_percentile(d, n, 50);
        cost->p10_ns = stats_percentile(d, n, 10);
        cost->p90_ns = stats_percentile(d, n, 90);
        double low, high;
        if (stats_percentile_interval(d, n, 50, 0.95, &low, &high))
            cost->low_ns = low, cost->high_ns = high;
    }
}

void compare_path_repeat(struct comparison *c, const struct alignment *al, const struct run *again)
{
    if (!c->path.is)
        return;
    double *d = mem_alloc((al->n + 1) * sizeof *d);
    for (size_t i = 0; i < SHOWN; i++) {
        struct compare_path_cost *cost = &c->path.of[shown[i]];
        size_t n = differences(al, again, &c->real, shown[i], d);
        double median = n ? stats_percentile(d, n, 50) : (double)NAN;
        if (isnan(cost->repeat_ns) || fabs(median) > fabs(cost->repeat_ns))
            cost->repeat_ns = median;
    }
    mem_free(d);
}

static const char *signed_duration(char out[WORDS_MAX + 1], double ns)
{
    char size[WORDS_MAX];
    snprintf(out, WORDS_MAX + 1, "%s%s", ns < 0 ? "-" : "+", words_duration(size, fabs(ns) / 1e9));
    return isfinite(ns) ? out : "n/a";
}

static const char *line(struct arena *a, enum metric m, const struct compare_path_cost *cost)
{
    char median[WORDS_MAX + 1], low[WORDS_MAX + 1], high[WORDS_MAX + 1], p10[WORDS_MAX + 1];
    char p90[WORDS_MAX + 1], again[WORDS_MAX], n[WORDS_MAX];
    const char *interval = "", *repeat = "";
    if (cost->n == 0)
        return arena_printf(a, "%s: no request has it on both sides.", compare_metric_title(m));
    if (!isnan(cost->low_ns))
        interval = arena_printf(a, ", 95 %% interval %s .. %s", signed_duration(low, cost->low_ns),
                                signed_duration(high, cost->high_ns));
    if (!isnan(cost->repeat_ns)) {
        words_duration(again, fabs(cost->repeat_ns) / 1e9);
        repeat =
            fabs(cost->median_ns) <= fabs(cost->repeat_ns)
                ? arena_printf(a, " That is inside what two runs without a change differ by, %s.",
                               again)
                : arena_printf(a, " Two runs without a change differ by up to %s.", again);
    }
    return arena_printf(
        a, "%s: %s a request (median of %s%s; P10 %s, P90 %s).%s", compare_metric_title(m),
        signed_duration(median, cost->median_ns), words_count(n, (int64_t)cost->n), interval,
        signed_duration(p10, cost->p10_ns), signed_duration(p90, cost->p90_ns), repeat);
}

void compare_path_tell(struct arena *a, struct comparison *c)
{
    if (!c->path.is)
        return;
    const char **lines = arena_array(a, const char *, SHOWN + 1);
    for (size_t i = 0; i < SHOWN; i++)
        lines[i] = line(a, shown[i], &c->path.of[shown[i]]);
    lines[SHOWN] =
        c->params.n_spread
            ? "Over HTTP minus without, request by request; what else differs between the "
              "two engines is in it too."
            : "Over HTTP minus without, request by request; what else differs between the "
              "two engines is in it too, and what two runs differ by without a change: "
              "spread= shows how much that is.";
    c->path.lines = lines;
    c->path.n_lines = SHOWN + 1;
}
