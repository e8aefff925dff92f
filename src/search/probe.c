#include "search/probe.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "metrics/metrics.h"

const double probe_percentiles[PROBE_PERCENTILES] = {50, 90, 95, 99};

#define NUMBER(m)           FIELD(struct probe_result, m, .optional = true)
#define LATENCY(name, m, p) FIELD_AS(struct probe_result, latency_s[m][p], name, .optional = true)
#define LATENCIES(name, m)                                                                    \
    LATENCY(name "_p50_s", m, 0), LATENCY(name "_p90_s", m, 1), LATENCY(name "_p95_s", m, 2), \
        LATENCY(name "_p99_s", m, 3)

const struct field probe_fields[PROBE_FIELDS] = {
    NUMBER(requests),
    NUMBER(failed),
    NUMBER(good),
    NUMBER(duration_s),
    NUMBER(requests_per_s),
    NUMBER(goodput_per_s),
    NUMBER(output_tokens_per_s),
    LATENCIES("delay", SLO_DELAY),
    LATENCIES("ttft", SLO_TTFT),
    LATENCIES("tpot", SLO_TPOT),
    LATENCIES("e2el", SLO_E2EL),
    NUMBER(early_delay_s),
    NUMBER(late_delay_s),
    NUMBER(energy_j),
    NUMBER(extrapolated),
    NUMBER(prefix_hit_rate),
    NUMBER(client_delay_p99_s),
    NUMBER(unhealthy),
    NUMBER(contention),
    NUMBER(timed_out),
    NUMBER(alone),
    NUMBER(alone_bad),
};
const struct fields probe_result_fields = FIELDS(struct probe_result, probe_fields);

void probe_samples_begin(struct probe_samples *s, const struct slo *slo)
{
    vec_clear(&s->v);
    s->slo = slo;
    s->first_arrival_ns = INT64_MAX;
    s->last_completion_ns = 0;
    s->output_tokens = 0;
}

static double span_s(int64_t from_ns, int64_t to_ns)
{
    return from_ns == RUN_NONE || to_ns == RUN_NONE ? (double)NAN : ns_to_s(to_ns - from_ns);
}

void probe_samples_add(struct probe_samples *s, const struct run_request *r)
{
    if (r->warmup)
        return;
    struct probe_sample q = {
        .arrival_ns = r->arrival_ns, .end_ns = r->completion_ns, .ok = r->status == RUN_OK};
    double ttft = span_s(r->arrival_ns, r->first_token_ns);
    double e2e = span_s(r->arrival_ns, r->completion_ns);
    q.latency_s[SLO_DELAY] = span_s(r->arrival_ns, r->scheduled_ns);
    q.latency_s[SLO_TTFT] = ttft;
    q.latency_s[SLO_E2EL] = e2e;
    q.latency_s[SLO_TPOT] = r->num_decode_tokens_actual > 1 && e2e > ttft
                                ? (e2e - ttft) / (double)(r->num_decode_tokens_actual - 1)
                                : (double)NAN;
    vec_push(&s->v, q);
    if (r->arrival_ns < s->first_arrival_ns)
        s->first_arrival_ns = r->arrival_ns;
    if (r->completion_ns > s->last_completion_ns)
        s->last_completion_ns = r->completion_ns;
    if (q.ok)
        s->output_tokens += r->num_decode_tokens_actual;
}

static int by_arrival(const void *pa, const void *pb)
{
    const struct probe_sample *a = pa, *b = pb;
    return (a->arrival_ns > b->arrival_ns) - (a->arrival_ns < b->arrival_ns);
}

static void sum_latency(const struct probe_samples *s, enum slo_metric m, double *values,
                        double *scratch, double out[PROBE_PERCENTILES])
{
    size_t n = 0;
    for (size_t i = 0; i < s->v.n; i++)
        if (s->v.p[i].ok && !isnan(s->v.p[i].latency_s[m]))
            values[n++] = s->v.p[i].latency_s[m];
    stats_sort(values, scratch, n);
    for (int k = 0; k < PROBE_PERCENTILES; k++)
        out[k] = n ? stats_percentile(values, n, probe_percentiles[k]) : (double)NAN;
}

/* Of the samples from..to in order of arrival. */
static double median_delay(const struct probe_samples *s, size_t from, size_t to, double *values,
                           double *scratch)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        const double *l = s->v.p[i].latency_s;
        double delay = isnan(l[SLO_DELAY]) ? l[SLO_TTFT] : l[SLO_DELAY];
        if (s->v.p[i].ok && !isnan(delay))
            values[n++] = delay;
    }
    stats_sort(values, scratch, n);
    return n ? stats_percentile(values, n, 50) : (double)NAN;
}

/* Samples are in order of arrival. */
static void count_alone(const struct probe_samples *s, struct probe_result *out)
{
    int64_t busy_until_ns = INT64_MIN;
    for (size_t i = 0; i < s->v.n; i++) {
        const struct probe_sample *q = &s->v.p[i];
        const bool alone = q->arrival_ns >= busy_until_ns && q->end_ns >= q->arrival_ns &&
                           (i + 1 == s->v.n || s->v.p[i + 1].arrival_ns >= q->end_ns);
        out->alone += alone;
        out->alone_bad += alone && !(q->ok && slo_meets(s->slo, q->latency_s));
        busy_until_ns = q->end_ns > busy_until_ns ? q->end_ns : busy_until_ns;
    }
}

void probe_samples_sum(struct probe_samples *s, struct probe_result *out)
{
    size_t n = s->v.n, ok = 0, good = 0;
    *out = (struct probe_result){
        .requests = (double)n,
        .energy_j = (double)NAN,
        .prefix_hit_rate = (double)NAN,
        .client_delay_p99_s = (double)NAN,
        .contention = (double)NAN,
    };
    double *values = mem_alloc((2 * n + 1) * sizeof(double)), *scratch = values + n;
    if (n > 0)
        qsort(s->v.p, n, sizeof *s->v.p, by_arrival);
    for (size_t i = 0; i < n; i++) {
        ok += s->v.p[i].ok;
        good += s->v.p[i].ok && slo_meets(s->slo, s->v.p[i].latency_s);
    }
    count_alone(s, out);
    out->failed = (double)(n - ok);
    out->good = n ? (double)good / (double)n : (double)NAN;
    out->duration_s = n ? ns_to_s(s->last_completion_ns - s->first_arrival_ns) : (double)NAN;
    bool timed = out->duration_s > 0;
    out->requests_per_s = timed ? (double)ok / out->duration_s : (double)NAN;
    out->goodput_per_s = timed ? (double)good / out->duration_s : (double)NAN;
    out->output_tokens_per_s = timed ? (double)s->output_tokens / out->duration_s : (double)NAN;
    for (int m = 0; m < SLO_METRICS; m++)
        sum_latency(s, (enum slo_metric)m, values, scratch, out->latency_s[m]);
    out->early_delay_s = median_delay(s, n / 4, n / 2, values, scratch);
    out->late_delay_s = median_delay(s, n - n / 4, n, values, scratch);
    mem_free(values);
}

void probe_samples_free(struct probe_samples *s)
{
    vec_free(&s->v);
}

const char *probe_no_hits(const struct probe_result *r)
{
    return r->prefix_hit_rate == 0
               ? "scheduler.prefix_caching is on and no request found its prompt's beginning in "
                 "the "
                 "cache: the workload has no prompts or hash_ids that begin alike, or the cache is "
                 "too small for them."
               : NULL;
}
