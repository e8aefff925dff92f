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
    {"inference_perf",
     "inference-perf: stage_N_lifecycle_metrics.json with its config.yaml or an experiment.json",
     "a folder with experiment.json, stage_0_lifecycle_metrics.json or "
     "per_request_lifecycle_metrics.json",
     observed_is_inference_perf, observed_read_inference_perf},
    {"aiperf", "AIPerf and GenAI-Perf: profile_export.jsonl, or the means of a profile_export",
     "profile_export.jsonl, profile_export_aiperf.json, profile_export_genai_perf.json or .csv, or "
     "their folder",
     observed_is_aiperf, observed_read_aiperf},
    {"guidellm", "GuideLLM: benchmarks.json", "JSON with \"benchmarks\", or its folder",
     observed_is_guidellm, observed_read_guidellm},
    {"llmperf", "LLMPerf: NAME_summary.json, with NAME_individual_responses.json",
     "NAME_summary.json or NAME_individual_responses.json, or their folder", observed_is_llmperf,
     observed_read_llmperf},
    {"trtllm", "TensorRT-LLM: report of trtllm-bench", "JSON with \"world_info\"",
     observed_is_trtllm, observed_read_trtllm},
    {"sweep", "vLLM: results of vllm bench sweep serve",
     "a folder with run=N.json below it, its summary.json or summary.csv", observed_is_sweep,
     observed_read_sweep},
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
    return observed_load_of(a, path, NULL, out, e);
}

enum st observed_load_of(struct arena *a, const char *path, const struct key_spans *spans,
                         struct observed *out, struct err *e)
{
    *out = (struct observed){.path = path, .name = name_of(a, path), .spans = spans};
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
    stats_sort(v, arena_array(a, double, n), n);
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    s.mean = sum / (double)n;
    for (int i = 0; i < OBSERVED_POINTS; i++)
        s.at[i] = stats_percentile(v, n, observed_points[i]);
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

/* ---- speculative decoding ------------------------------------------------------------------- */

static enum st refuse_speculation(const struct node *at, const char *said, struct err *e)
{
    node_err(
        at, ST_INPUT, e,
        "%s: the server decoded speculatively, which is not simulated: its times per token are "
        "not those of an iteration",
        said);
    return err_hint(e, "measure the server without speculative decoding");
}

/* Names of SGLang's bench_serving, vLLM's bench serve and sweep, and their servers' settings. */
enum st observed_check_speculation(const struct node *map, struct err *e)
{
    static const struct {
        const char *key;
        double above; /* says so */
    } numbers[] = {{"accept_length", 1},
                   {"acceptance_length", 1},
                   {"avg_spec_accept_length", 1},
                   {"spec_accept_length", 1},
                   {"spec_decode_acceptance_length", 1},
                   {"num_speculative_tokens", 0},
                   {"spec_decode_draft_tokens", 0},
                   {"spec_decode_num_drafts", 0},
                   {"speculative_num_draft_tokens", 0},
                   {"speculative_num_steps", 0}};
    static const char *const settings[] = {"speculative_config", "speculative_algorithm",
                                           "speculative_model", "decoding_stats"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct node *n = node_find(map, numbers[i].key);
        const double v = !n                      ? 0
                         : n->kind == NODE_INT   ? (double)n->i
                         : n->kind == NODE_FLOAT ? n->f
                                                 : 0;
        char said[80];
        snprintf(said, sizeof said, "%s %g", numbers[i].key, v);
        if (v > numbers[i].above)
            return refuse_speculation(n, said, e);
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct node *n = node_find(map, settings[i]);
        const bool stated = n && (n->kind == NODE_MAP || (n->kind == NODE_STR && n->s.n));
        if (stated && !(n->kind == NODE_STR && sv_eq(n->s, "NONE")))
            return refuse_speculation(n, settings[i], e);
    }
    return ST_OK;
}

/* Messages with several tokens each, up to what a step of speculation accepts. A proxy that
 * collects the stream sends more at once, and its record has the times of whole answers all the
 * same; vLLM joins a message here and there when its client is slow. */
static enum st check_messages(const char *path, const struct observed_row *const *rows, size_t n,
                              struct err *e)
{
    enum { LEAST_TOKENS = 100 };
    static const double joined = 1.15, accepted = 16;
    int64_t tokens = 0, gaps = 0;
    for (size_t i = 0; i < n; i++) {
        tokens += rows[i]->gaps ? rows[i]->output_tokens - 1 : 0;
        gaps += rows[i]->gaps;
    }
    const double each = gaps ? (double)tokens / (double)gaps : 1;
    if (tokens < LEAST_TOKENS || each < joined || each > accepted)
        return ST_OK;
    err_set(e, ST_INPUT,
            "%s: its messages brought %.3g tokens each: the server decoded speculatively, which is "
            "not simulated, or held tokens back",
            path, each);
    return err_hint(e, "measure the server without speculative decoding, and with a message for "
                       "each token (stream_interval 1)");
}

/* Of its requests behind the warm-up. */
static void set_series(struct arena *a, struct observed_stage *s)
{
    double *v = arena_array(a, double, s->w.n);
    for (int m = 0; m < OBSERVED_METRICS; m++) {
        size_t n = 0;
        for (size_t i = (size_t)s->warmup; i < s->w.n; i++) {
            const struct observed_latency *x = &s->each[i];
            const double at[OBSERVED_METRICS] = {[OBSERVED_TTFT] = x->ttft_s,
                                                 [OBSERVED_TPOT] = x->tpot_s,
                                                 [OBSERVED_E2E] = x->e2e_s};
            if (!isnan(at[m]))
                v[n++] = at[m];
        }
        s->of[m] = observed_of(a, v, n);
    }
    s->completed = (int64_t)s->w.n - s->warmup;
}

void observed_leave_out(struct arena *a, struct observed_stage *s, size_t n)
{
    s->warmup = (int64_t)n;
    set_series(a, s);
}

enum st observed_from_rows(struct arena *a, const char *path, const struct observed_row *rows,
                           size_t n, struct observed_stage *out, struct err *e)
{
    const struct observed_row **sent = arena_array(a, const struct observed_row *, n);
    size_t n_sent = 0;
    for (size_t i = 0; i < n; i++) {
        if (ended_well(&rows[i]))
            sent[n_sent++] = &rows[i];
        else
            out->failed++;
    }
    if (n_sent == 0)
        return err_set(e, ST_INPUT, "%s: no request with times and lengths ended well", path);
    TRY(check_messages(path, sent, n_sent, e));
    qsort(sent, n_sent, sizeof *sent, by_arrival);
    struct observed_latency *each = arena_array(a, struct observed_latency, n_sent);
    out->each = each;
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
        each[i] = (struct observed_latency){(double)NAN, (double)NAN, e2e};
        if (!(ttft >= 0 && ttft <= e2e))
            continue;
        each[i].ttft_s = ttft;
        backlog_add(&out->waits, &(struct run_request){.arrival_ns = ns_from_s(at),
                                                       .scheduled_ns = RUN_NONE,
                                                       .first_token_ns = ns_from_s(at + ttft)});
        if (r->output_tokens > 1 && e2e > ttft)
            each[i].tpot_s = (e2e - ttft) / (double)(r->output_tokens - 1);
    }
    set_series(a, out);
    const double last = ns_to_s(out->w.requests[n_sent - 1].arrival_ns);
    out->rate = last > 0 ? (double)(n_sent - 1) / last : (double)NAN;
    return ST_OK;
}

bool observed_limit_decided(double served, double e2e_s, double rate, int64_t most)
{
    static const double nearly = 0.8, slower = 0.85;
    return most > 0 &&
           (served * e2e_s >= nearly * (double)most || (isnan(e2e_s) && served < slower * rate));
}

/* Evenly from as far below the mean as the longest is above it. */
static int64_t even_length(struct rng *r, double mean, double most)
{
    if (!(most > mean))
        return (int64_t)mean;
    const double least = fmax(1, 2 * mean - most);
    return (int64_t)(least + (double)rng_below(r, (uint64_t)(most - least) + 1));
}

/* Draw k of the arrivals, in s from the start. */
static enum st draw_arrivals(const char *path, const struct observed_means *m, int k, double *at,
                             size_t n, struct err *e)
{
    static const double most_s = 9e9;
    struct rng r = rng_stream((uint64_t)k, "calibrate.arrivals");
    const bool drawn = isfinite(m->burstiness);
    double s = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(s < most_s))
            return err_set(e, ST_INPUT, "%s: %zu requests at %g/s take too long", path, n, m->rate);
        at[i] = m->concurrency ? 0 : s;
        s += m->concurrency ? 0
                            : (drawn ? rng_gamma(&r, m->burstiness) / m->burstiness : 1) / m->rate;
    }
    return ST_OK;
}

static void note_means(struct arena *a, const struct observed_means *m, double prompt,
                       double answer, struct observed_stage *out)
{
    const bool even = m->most_prompt_tokens > prompt || m->most_output_tokens > answer;
    const char *lengths =
        even ? "have lengths drawn evenly around its means" : "have its mean lengths";
    if (m->concurrency)
        observed_note(a, out,
                      "the record holds no requests: all are taken to %s (%g and %g tokens), %lld "
                      "at a time",
                      lengths, prompt, answer, (long long)m->concurrency);
    else
        observed_note(a, out,
                      "the record holds no requests: all are taken to %s (%g and %g tokens), at "
                      "arrivals drawn anew",
                      lengths, prompt, answer);
}

enum st observed_from_means(struct arena *a, const char *path, const struct observed_means *m,
                            struct observed_stage *out, struct err *e)
{
    enum { MOST_REQUESTS = 5000000 };
    static const double most_tokens = 1 << 30;
    const double prompt = round(m->prompt_tokens), answer = round(m->output_tokens);
    if (out->completed < 1 || out->completed > MOST_REQUESTS || !(m->concurrency || m->rate > 0))
        return err_set(e, ST_INPUT, "%s: %lld requests ended well, sent at %g/s", path,
                       (long long)out->completed, m->rate);
    if (!(prompt >= 1 && prompt < most_tokens && answer >= 1 && answer < most_tokens))
        return err_set(e, ST_INPUT, "%s: it holds no mean lengths of prompts and answers", path);
    const bool drawn = isfinite(m->burstiness) && !m->concurrency;
    const size_t n = (size_t)out->completed;
    int64_t *other_ns = drawn ? arena_array(a, int64_t, (OBSERVED_DRAWS - 1) * n) : NULL;
    double *at = arena_array(a, double, n);
    struct rng lengths = rng_stream(0, "calibrate.lengths");
    out->rate = m->rate;
    out->w = (struct workload){.requests = arena_array(a, struct workload_request, n), .n = n};
    if (m->concurrency)
        out->w.concurrency = concurrency_of(a, m->concurrency, 0);
    for (int k = 0; k < (drawn ? OBSERVED_DRAWS : 1); k++) {
        TRY(draw_arrivals(path, m, k, at, n, e));
        for (size_t i = 0; i < n; i++) {
            if (k > 0) {
                other_ns[(size_t)(k - 1) * n + i] = ns_from_s(at[i]);
                continue;
            }
            out->w.requests[i] = (struct workload_request){
                .request_id = (int64_t)i,
                .arrival_ns = ns_from_s(at[i]),
                .arrival_s = ns_to_s(ns_from_s(at[i])),
                .num_prefill_tokens = even_length(&lengths, prompt, m->most_prompt_tokens),
                .num_decode_tokens = even_length(&lengths, answer, m->most_output_tokens)};
        }
    }
    out->drawn_ns = other_ns;
    note_means(a, m, prompt, answer, out);
    return ST_OK;
}
