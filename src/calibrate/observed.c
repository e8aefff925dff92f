#include "calibrate/observed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "metrics/metrics.h"

const double observed_points[OBSERVED_POINTS] = {10, 25, 50, 75, 90, 99};

const struct observed_format observed_formats[] = {
    {"run", "run directory of twinfer", "a folder with run_meta.json", observed_is_run,
     observed_read_run},
    {"inference_perf", "inference-perf: experiment.json and stage_N_lifecycle_metrics.json",
     "a folder with experiment.json or stage_0_lifecycle_metrics.json", observed_is_inference_perf,
     observed_read_inference_perf},
    {"aiperf", "AIPerf: profile_export.jsonl or profile_export_aiperf.json",
     "profile_export.jsonl or profile_export_aiperf.json, or their folder", observed_is_aiperf,
     observed_read_aiperf},
    {"guidellm", "GuideLLM: benchmarks.json", "JSON with \"benchmarks\", or its folder",
     observed_is_guidellm, observed_read_guidellm},
    {"vllm", "vLLM: result of vllm bench serve", "JSON with \"mean_ttft_ms\" or \"ttfts\"",
     observed_is_vllm, observed_read_vllm},
    {0},
};

const char *observed_metric_name(enum observed_metric m)
{
    static const char *const names[OBSERVED_METRICS] = {
        [OBSERVED_TTFT] = "ttft", [OBSERVED_TPOT] = "tpot", [OBSERVED_E2E] = "e2e"};
    return names[m];
}

/* Of a folder or file, without ".json" and the like. */
static const char *name_of(struct arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *base = fs_base(arena_strn(a, path, n));
    static const char *const ends[] = {".json", ".jsonl"};
    for (size_t i = 0; i < 2; i++) {
        size_t end = strlen(ends[i]), all = strlen(base);
        if (all > end && strcmp(base + all - end, ends[i]) == 0)
            return arena_strn(a, base, all - end);
    }
    return base;
}

static enum st unknown_format(const char *path, struct err *e)
{
    struct buf marks = {0};
    for (const struct observed_format *f = observed_formats; f->name; f++)
        buf_printf(&marks, "%s%s (%s)", f == observed_formats ? "" : "; ", f->marks, f->name);
    err_set(e, ST_INPUT, "%s is no record of a run that is known here", path);
    err_hint(e, "looked for %s", buf_str(&marks));
    buf_free(&marks);
    return ST_INPUT;
}

enum st observed_load(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    *out = (struct observed){.path = path, .name = name_of(a, path)};
    out->settings.prefix_caching = -1;
    out->first_token_lag_s = NAN;
    if (!fs_exists(path))
        return err_set(e, ST_INPUT, "%s does not exist", path);
    for (const struct observed_format *f = observed_formats; f->name; f++) {
        if (!f->is(a, path))
            continue;
        out->format = f->name;
        if (f->read(a, path, out, e) != ST_OK)
            return err_add(e, "cannot read %s as a record of %s", path, f->name);
        return ST_OK;
    }
    return unknown_format(path, e);
}

/* ---- for formats ----------------------------------------------------------------------------- */

struct observed_series observed_unknown(void)
{
    struct observed_series s = {.mean = NAN};
    for (int i = 0; i < OBSERVED_POINTS; i++)
        s.at[i] = NAN;
    return s;
}

struct observed_series observed_of(struct arena *a, double *v, size_t n)
{
    struct observed_series s = observed_unknown();
    if (n == 0)
        return s;
    double sum = 0;
    metrics_sort(v, arena_array(a, double, n), n);
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    s.mean = sum / (double)n;
    for (int i = 0; i < OBSERVED_POINTS; i++)
        s.at[i] = metrics_percentile(v, n, observed_points[i]);
    return s;
}

void observed_note(struct arena *a, struct observed_stage *s, const char *fmt, ...)
{
    va_list ap;
    const char **notes = arena_array(a, const char *, s->n_notes + 1);
    if (s->n_notes)
        memcpy(notes, s->notes, s->n_notes * sizeof *notes);
    va_start(ap, fmt);
    notes[s->n_notes++] = arena_vprintf(a, fmt, ap);
    va_end(ap);
    s->notes = notes;
}

static bool ended_well(const struct observed_row *r)
{
    return r->ok && r->prompt_tokens > 0 && r->output_tokens > 0 && isfinite(r->arrival_s) &&
           r->end_s >= r->arrival_s;
}

static int by_arrival(const void *pa, const void *pb)
{
    const struct observed_row *const *a = pa, *const *b = pb;
    if ((*a)->arrival_s != (*b)->arrival_s)
        return (*a)->arrival_s < (*b)->arrival_s ? -1 : 1;
    return *a < *b ? -1 : *a > *b;
}

/* The cached part of a prompt stands for a prefix that an earlier request had, the rest is its own:
 * pieces of CACHE_PIECE tokens. */
enum { CACHE_PIECE = 16 };

static void set_cached(struct arena *a, struct workload_request *q, int64_t cached, int64_t *next)
{
    int64_t pieces = (q->num_prefill_tokens + CACHE_PIECE - 1) / CACHE_PIECE;
    int64_t *ids = arena_array(a, int64_t, pieces);
    for (int64_t i = 0; i < pieces; i++)
        ids[i] = (i + 1) * CACHE_PIECE <= cached ? i : (*next)++;
    q->hash_ids = ids;
    q->hash_tokens = CACHE_PIECE;
}

enum st observed_from_rows(struct arena *a, const char *path, const struct observed_row *rows,
                           size_t n, struct observed_stage *out, struct err *e)
{
    const struct observed_row **sent = arena_array(a, const struct observed_row *, n);
    double *v[OBSERVED_METRICS];
    size_t n_v[OBSERVED_METRICS] = {0}, n_sent = 0;
    for (int m = 0; m < OBSERVED_METRICS; m++)
        v[m] = arena_array(a, double, n);
    for (size_t i = 0; i < n; i++) {
        if (ended_well(&rows[i]))
            sent[n_sent++] = &rows[i];
        else
            out->failed++;
    }
    if (n_sent == 0)
        return err_set(e, ST_INPUT, "%s: no request with times and lengths ended well", path);
    qsort(sent, n_sent, sizeof *sent, by_arrival);
    out->completed = (int64_t)n_sent;
    out->w =
        (struct workload){.requests = arena_array(a, struct workload_request, n_sent), .n = n_sent};
    const double from = sent[0]->arrival_s;
    int64_t next = INT64_C(1) << 40;
    for (size_t i = 0; i < n_sent; i++) {
        const struct observed_row *r = sent[i];
        const double at = r->arrival_s - from;
        if (!(at < 9e9))
            return err_set(e, ST_INPUT, "%s: its requests are %g s apart", path, at);
        out->w.requests[i] = (struct workload_request){
            .request_id = (int64_t)i,
            .arrival_ns = ns_from_s(at),
            .arrival_s = ns_to_s(ns_from_s(at)),
            .num_prefill_tokens = r->prompt_tokens,
            .num_decode_tokens = r->output_tokens,
        };
        if (r->cached_tokens > 0)
            set_cached(a, &out->w.requests[i], r->cached_tokens, &next);
        const double e2e = r->end_s - r->arrival_s, ttft = r->first_token_s - r->arrival_s;
        v[OBSERVED_E2E][n_v[OBSERVED_E2E]++] = e2e;
        if (!(ttft >= 0 && ttft <= e2e))
            continue;
        v[OBSERVED_TTFT][n_v[OBSERVED_TTFT]++] = ttft;
        if (r->output_tokens > 1 && e2e > ttft)
            v[OBSERVED_TPOT][n_v[OBSERVED_TPOT]++] = (e2e - ttft) / (double)(r->output_tokens - 1);
    }
    for (int m = 0; m < OBSERVED_METRICS; m++)
        out->of[m] = observed_of(a, v[m], n_v[m]);
    const double last = ns_to_s(out->w.requests[n_sent - 1].arrival_ns);
    out->rate = last > 0 ? (double)(n_sent - 1) / last : (double)NAN;
    return ST_OK;
}

enum st observed_from_means(struct arena *a, const char *path, const struct observed_means *m,
                            struct observed_stage *out, struct err *e)
{
    enum { MOST_REQUESTS = 5000000 };
    static const double most_tokens = 1 << 30, most_s = 9e9;
    const double prompt = round(m->prompt_tokens), answer = round(m->output_tokens);
    if (out->completed < 1 || out->completed > MOST_REQUESTS || !(m->rate > 0))
        return err_set(e, ST_INPUT, "%s: %lld requests ended well, sent at %g/s", path,
                       (long long)out->completed, m->rate);
    if (!(prompt >= 1 && prompt < most_tokens && answer >= 1 && answer < most_tokens))
        return err_set(e, ST_INPUT, "%s: it holds no mean lengths of prompts and answers", path);
    const bool drawn = isfinite(m->burstiness);
    const size_t n = (size_t)out->completed;
    int64_t *other_ns = drawn ? arena_array(a, int64_t, (OBSERVED_DRAWS - 1) * n) : NULL;
    out->rate = m->rate;
    out->w = (struct workload){.requests = arena_array(a, struct workload_request, n), .n = n};
    for (int k = 0; k < (drawn ? OBSERVED_DRAWS : 1); k++) {
        struct rng r = rng_stream((uint64_t)k, "calibrate.arrivals");
        double at = 0;
        for (size_t i = 0; i < n; i++) {
            if (!(at < most_s))
                return err_set(e, ST_INPUT, "%s: %zu requests at %g/s take too long", path, n,
                               m->rate);
            if (k > 0)
                other_ns[(size_t)(k - 1) * n + i] = ns_from_s(at);
            else
                out->w.requests[i] =
                    (struct workload_request){.request_id = (int64_t)i,
                                              .arrival_ns = ns_from_s(at),
                                              .arrival_s = ns_to_s(ns_from_s(at)),
                                              .num_prefill_tokens = (int64_t)prompt,
                                              .num_decode_tokens = (int64_t)answer};
            at += (drawn ? rng_gamma(&r, m->burstiness) / m->burstiness : 1) / m->rate;
        }
    }
    out->drawn_ns = other_ns;
    observed_note(a, out,
                  "the record holds no requests: all are taken to have its mean lengths (%g and %g "
                  "tokens), at arrivals drawn anew",
                  prompt, answer);
    return ST_OK;
}
