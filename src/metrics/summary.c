#include "metrics/summary.h"

#include <math.h>
#include <string.h>

#include "base/buckets.h"
#include "base/vec.h"

enum {
    BITS = 11, /* buckets of an octave, as a power of two */
    REASON_BYTES = 200,
};
_Static_assert(SUMMARY_PARTS == 2 << BITS, "half a bucket");

struct values {
    VEC(double) exact;
    bool sorted;
    int64_t *buckets; /* [BUCKETS(BITS)]; NULL while exact */
    int64_t n;
    double sum;
};

struct summary {
    struct values of[METRICS];
    int64_t begin_ns, end_ns;
    struct summary_limits limits;
    bool limited;
    struct summary_facts facts;
    char bad_text[REASON_BYTES];
};

struct summary *summary_new(void)
{
    struct summary *s = mem_alloc(sizeof *s);
    *s = (struct summary){.begin_ns = INT64_MAX,
                          .end_ns = INT64_MIN,
                          .limits = {(double)INFINITY, (double)INFINITY, (double)INFINITY},
                          .facts.bad_id = RUN_NONE,
                          .facts.exact = true};
    return s;
}

void summary_free(struct summary **ps)
{
    struct summary *s = *ps;
    if (!s)
        return;
    for (int m = 0; m < METRICS; m++) {
        vec_free(&s->of[m].exact);
        mem_free(s->of[m].buckets);
    }
    mem_free(s);
    *ps = NULL;
}

void summary_limit(struct summary *s, const struct summary_limits *limits)
{
    s->limits = *limits;
    s->limited = true;
}

/* ---- the histogram ------------------------------------------------------------------------ */

static size_t bucket_of_ns(double ns)
{
    return bucket_of(ns < 0 ? 0 : ns < 0x1p62 ? (uint64_t)ns : UINT64_C(1) << 62, BITS);
}

static void count_all(struct values *v)
{
    v->buckets = mem_alloc(BUCKETS(BITS) * sizeof *v->buckets);
    memset(v->buckets, 0, BUCKETS(BITS) * sizeof *v->buckets);
    for (size_t i = 0; i < v->exact.n; i++)
        v->buckets[bucket_of_ns(v->exact.p[i])]++;
    vec_free(&v->exact);
}

static void put(struct summary *s, enum metric m, double ns)
{
    struct values *v = &s->of[m];
    if (v->n == SUMMARY_EXACT) {
        count_all(v);
        s->facts.exact = false;
    }
    v->n++;
    v->sum += ns;
    if (v->buckets) {
        v->buckets[bucket_of_ns(ns)]++;
    } else {
        vec_push(&v->exact, ns);
        v->sorted = false;
    }
}

/* ---- rows --------------------------------------------------------------------------------- */

static void not_ok(struct summary *s, const struct run_request *r)
{
    s->facts.n_not_ok++;
    if (s->facts.bad_id != RUN_NONE && s->facts.bad_id < r->request_id)
        return;
    s->facts.bad_id = r->request_id;
    snprintf(s->bad_text, sizeof s->bad_text, "%s", r->error_msg ? r->error_msg : "");
}

void summary_add(struct summary *s, const struct run_request *r)
{
    s->facts.n_all++;
    if (r->warmup) {
        s->facts.n_warmup++;
        return;
    }
    s->facts.n_status[r->status]++;
    if (r->status != RUN_OK) {
        not_ok(s, r);
        return;
    }
    int64_t tokens = r->num_decode_tokens_actual;
    bool first = r->first_token_ns != RUN_NONE, end = r->completion_ns != RUN_NONE;
    s->facts.n_requests++;
    s->facts.output_tokens += tokens;
    if (r->arrival_ns < s->begin_ns)
        s->begin_ns = r->arrival_ns;
    if (end && r->completion_ns > s->end_ns)
        s->end_ns = r->completion_ns;
    double ttft = first ? (double)(r->first_token_ns - r->arrival_ns) : (double)NAN;
    double e2e = end ? (double)(r->completion_ns - r->arrival_ns) : (double)NAN;
    double tpot = first && end && tokens > 1 && r->completion_ns > r->first_token_ns
                      ? (double)(r->completion_ns - r->first_token_ns) / (double)(tokens - 1)
                      : (double)NAN;
    if (first)
        put(s, METRIC_TTFT, ttft);
    if (end)
        put(s, METRIC_E2E, e2e);
    if (!isnan(tpot))
        put(s, METRIC_TPOT, tpot);
    s->facts.n_good +=
        !(ttft > s->limits.ttft_ns) && !(tpot > s->limits.tpot_ns) && !(e2e > s->limits.e2e_ns);
}

void summary_add_token(struct summary *s, const struct run_token *t)
{
    if (t->token_index > 0)
        put(s, METRIC_TOKEN_LATENCY, (double)t->token_latency_ns);
}

struct summary_facts summary_facts(const struct summary *s)
{
    struct summary_facts f = s->facts;
    f.bad_text = s->bad_text;
    f.duration_s = s->end_ns >= s->begin_ns ? (double)(s->end_ns - s->begin_ns) / 1e9 : (double)NAN;
    bool known = f.duration_s > 0;
    f.output_tokens_per_s = known ? (double)f.output_tokens / f.duration_s : (double)NAN;
    f.requests_per_s = known ? (double)f.n_requests / f.duration_s : (double)NAN;
    f.goodput_per_s = known && s->limited ? (double)f.n_good / f.duration_s : (double)NAN;
    return f;
}

/* ---- percentiles -------------------------------------------------------------------------- */

static double order_statistic(const struct values *v, int64_t rank, size_t *bucket, int64_t *below)
{
    while (*below + v->buckets[*bucket] <= rank)
        *below += v->buckets[(*bucket)++];
    return bucket_middle(*bucket, BITS);
}

/* As stats_percentile, with order statistics that are known to their bucket. */
static double percentile_of_buckets(const struct values *v, double q)
{
    double index = (double)(v->n - 1) * (q / 100);
    int64_t i = (int64_t)index, below = 0;
    size_t bucket = 0;
    double low = order_statistic(v, i, &bucket, &below);
    if (i + 1 >= v->n)
        return low;
    double pair[2] = {low, order_statistic(v, i + 1, &bucket, &below)};
    double t = index - (double)i;
    return pair[0] + (pair[1] - pair[0]) * t;
}

double summary_percentile(struct summary *s, enum metric m, double q)
{
    struct values *v = &s->of[m];
    if (v->n == 0)
        return (double)NAN;
    if (v->buckets)
        return percentile_of_buckets(v, q);
    if (!v->sorted) {
        double *scratch = mem_alloc(v->exact.n * sizeof *scratch);
        stats_sort(v->exact.p, scratch, v->exact.n);
        mem_free(scratch);
        v->sorted = true;
    }
    return stats_percentile(v->exact.p, v->exact.n, q);
}

double summary_mean(const struct summary *s, enum metric m)
{
    const struct values *v = &s->of[m];
    return v->n ? v->sum / (double)v->n : (double)NAN;
}
