#include "metrics/server_metrics.h"

#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "text/fields.h"
#include "text/json.h"

/* ---- names --------------------------------------------------------------------------------- */

enum { SERVERS = 3, NAMES = 2 };
static const char *const servers[SERVERS] = {"vllm", "sglang", "twinfer"};

/* A meaning, and what each server calls it: the first that is there, newer names first. */
struct meaning {
    const char *name, *label, *unit;
    const char *metrics[SERVERS][NAMES];
};

static const struct meaning stats[SERVER_STATS] = {
    [SERVER_TTFT] = {"ttft",
                     "TTFT",
                     "s",
                     {{"vllm:time_to_first_token_seconds"},
                      {"sglang:time_to_first_token_seconds"},
                      {"twinfer_time_to_first_token_seconds"}}},
    [SERVER_QUEUE] = {"queue",
                      "queue",
                      "s",
                      {{"vllm:request_queue_time_seconds"},
                       {"sglang:queue_time_seconds"},
                       {"twinfer_request_queue_time_seconds"}}},
    [SERVER_PREFILL] = {"prefill",
                        "prefill",
                        "s",
                        {{"vllm:request_prefill_time_seconds"},
                         {NULL},
                         {"twinfer_request_prefill_time_seconds"}}},
    [SERVER_DECODE] = {"decode",
                       "decode",
                       "s",
                       {{"vllm:request_decode_time_seconds"},
                        {NULL},
                        {"twinfer_request_decode_time_seconds"}}},
    [SERVER_ITL] = {"itl",
                    "ITL",
                    "s",
                    {{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
                     {"sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"},
                     {"twinfer_inter_token_latency_seconds"}}},
    [SERVER_TPOT] = {"tpot", "TPOT", "s", {{"vllm:request_time_per_output_token_seconds"}}},
    [SERVER_E2E] = {"e2e",
                    "E2E",
                    "s",
                    {{"vllm:e2e_request_latency_seconds"},
                     {"sglang:e2e_request_latency_seconds"},
                     {"twinfer_e2e_request_latency_seconds"}}},
    [SERVER_PROMPT_TOKENS] = {"prompt_tokens",
                              "prompt tokens",
                              "tokens",
                              {{"vllm:request_prompt_tokens"}, {"sglang:prompt_tokens_histogram"}}},
    [SERVER_OUTPUT_TOKENS] = {"output_tokens",
                              "output tokens",
                              "tokens",
                              {{"vllm:request_generation_tokens"},
                               {"sglang:generation_tokens_histogram"}}},
    [SERVER_ITERATION_TOKENS] = {"iteration_tokens",
                                 "tokens of an iteration",
                                 "tokens",
                                 {{"vllm:iteration_tokens_total"}}},
};

/* vLLM before 0.9 has the cache's with gpu_, and SGLang counts tokens of all prompts. */
static const struct meaning counters[SERVER_COUNTERS] = {
    [SERVER_CACHE_QUERIES] = {"cache_queries",
                              "tokens looked up",
                              "tokens",
                              {{"vllm:prefix_cache_queries_total",
                                "vllm:gpu_prefix_cache_queries_total"},
                               {"sglang:prompt_tokens_total"},
                               {"twinfer_prefix_cache_queries_total"}}},
    [SERVER_CACHE_HITS] = {"cache_hits",
                           "tokens found",
                           "tokens",
                           {{"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"},
                            {"sglang:cached_tokens_total"},
                            {"twinfer_prefix_cache_hits_total"}}},
    [SERVER_PREEMPTIONS] = {"preemptions",
                            "preemptions",
                            "requests",
                            {{"vllm:num_preemptions_total"},
                             {NULL},
                             {"twinfer_num_preemptions_total"}}},
};

/* "ttft", ...: as in the list above */
static const char *stat_name(unsigned id)
{
    return id < SERVER_STATS ? stats[id].name : NULL;
}

const char *server_stat_unit(unsigned id)
{
    return stats[id].unit;
}

const char *server_stat_label(unsigned id)
{
    return stats[id].label;
}

/* "cache_queries", "cache_hits", "preemptions" */
static const char *counter_name(unsigned id)
{
    return id < SERVER_COUNTERS ? counters[id].name : NULL;
}

static bool has_histogram(struct arena *a, const struct prom_snapshot *s, const char *metric)
{
    return prom_has(s, arena_printf(a, "%s_bucket", metric));
}

/* A server is known by either of the two that all have. */
static int find_server(struct arena *a, const struct prom_snapshot *s)
{
    for (int i = 0; i < SERVERS; i++)
        if (has_histogram(a, s, stats[SERVER_TTFT].metrics[i][0]) ||
            has_histogram(a, s, stats[SERVER_E2E].metrics[i][0]))
            return i;
    return -1;
}

const char *server_metrics_known(const struct prom_snapshot *s)
{
    struct arena *scratch = arena_new();
    const int i = find_server(scratch, s);
    arena_free(&scratch);
    return i < 0 ? NULL : servers[i];
}

/* ---- from snapshots ------------------------------------------------------------------------ */

static enum st unknown_names(const struct prom_snapshot *s, struct err *e)
{
    err_set(e, ST_INPUT, "%s: no metrics of a server that is known", s->source);
    return err_hint(e, "supported: vllm:* of vLLM V1, sglang:* (started with --enable-metrics), "
                       "twinfer_*");
}

static enum st make_stat(struct arena *a, const struct prom_snapshot *before,
                         const struct prom_snapshot *after, const char *const names[NAMES],
                         struct server_stat *out, struct err *e)
{
    struct prom_histogram h = {.n = 0};
    struct prom_bracket p50 = {(double)NAN, (double)NAN}, p90 = p50;
    for (int k = 0; k < NAMES && names[k] && h.n == 0; k++)
        TRY(prom_histogram(a, before, after, names[k], (struct prom_where){0}, &h, e));
    prom_quantile(&h, 0.5, &p50);
    prom_quantile(&h, 0.9, &p90);
    *out = (struct server_stat){.metric = h.n ? h.name : NULL,
                                .count = h.n ? h.count : (double)NAN,
                                .mean = prom_mean(&h),
                                .p50_low = p50.low,
                                .p50_high = p50.high,
                                .p90_low = p90.low,
                                .p90_high = p90.high};
    return ST_OK;
}

static enum st make_counter(struct arena *a, const struct prom_snapshot *before,
                            const struct prom_snapshot *after, const char *const names[NAMES],
                            struct server_counter *out, struct err *e)
{
    *out = (struct server_counter){.value = (double)NAN};
    for (int k = 0; k < NAMES && names[k] && !out->metric; k++) {
        TRY(prom_counter(a, before, after, names[k], (struct prom_where){0}, &out->value, e));
        out->metric = isnan(out->value) ? NULL : names[k];
    }
    return ST_OK;
}

enum st server_metrics_ended(struct arena *a, const struct prom_snapshot *s, double *out,
                             struct err *e)
{
    const int i = find_server(a, s);
    struct server_stat stat = {.metric = NULL};
    if (i < 0)
        return unknown_names(s, e);
    TRY(make_stat(a, NULL, s, stats[SERVER_E2E].metrics[i], &stat, e));
    *out = stat.metric ? stat.count : (double)NAN;
    return ST_OK;
}

static void judge(struct arena *a, struct server_metrics *m)
{
    const struct server_stat *ended = &m->of[SERVER_E2E];
    m->alone = ended->metric && ended->count == (double)m->client.requests;
    m->why = NULL;
    if (!ended->metric)
        m->why = "the server does not count requests that ended";
    else if (!m->alone)
        m->why = arena_printf(a,
                              "the server counted %.0f requests that ended, the client %lld "
                              "that ended well",
                              ended->count, (long long)m->client.requests);
}

enum st server_metrics_make(struct arena *a, const struct prom_snapshot *before,
                            const struct prom_snapshot *after, struct server_metrics *m,
                            struct err *e)
{
    const int server = find_server(a, after);
    if (server < 0)
        return unknown_names(after, e);
    m->server = servers[server];
    for (int i = 0; i < SERVER_STATS; i++)
        TRY(make_stat(a, before, after, stats[i].metrics[server], &m->of[i], e));
    for (int i = 0; i < SERVER_COUNTERS; i++)
        TRY(make_counter(a, before, after, counters[i].metrics[server], &m->counters[i], e));
    judge(a, m);
    return ST_OK;
}

/* ---- the file ------------------------------------------------------------------------------ */

#define STAT_ROWS(T)                                                              \
    FIELD(T, metric, .optional = true), FIELD(T, count, .optional = true),        \
        FIELD(T, mean, .optional = true),                                         \
        FIELD_PAIR(T, p50_low, p50_high, "p50", .optional = true, .nulls = true), \
        FIELD_PAIR(T, p90_low, p90_high, "p90", .optional = true, .nulls = true)
static const struct field stat_rows[] = {STAT_ROWS(struct server_stat)};
static const struct fields stat_fields = FIELDS(struct server_stat, stat_rows);

static const struct field counter_rows[] = {
    FIELD(struct server_counter, metric, .optional = true),
    FIELD(struct server_counter, value, .optional = true),
};
static const struct fields counter_fields = FIELDS(struct server_counter, counter_rows);

static const struct field client_rows[] = {
    FIELD(struct client_side, requests, .max = 1e15),
    FIELD(struct client_side, ttft_s, .optional = true),
    FIELD(struct client_side, e2e_s, .optional = true),
};
static const struct fields client_fields = FIELDS(struct client_side, client_rows);

#define T struct server_metrics
static const struct field rows[] = {
    FIELD(T, url),
    FIELD(T, server),
    FIELD_NAMED_MAPS(T, of, "histograms", stat_name, SERVER_STATS, &stat_fields),
    FIELD_NAMED_MAPS(T, counters, "counters", counter_name, SERVER_COUNTERS, &counter_fields),
    FIELD_MAP(T, client, "client", &client_fields),
    FIELD(T, waited_s, .optional = true),
    FIELD(T, alone),
    FIELD(T, why, .optional = true),
};
#undef T
static const struct fields file_fields = FIELDS(struct server_metrics, rows);

struct node *server_metrics_node(struct arena *a, const struct server_metrics *m)
{
    struct node *map = fields_node(a, &file_fields, m);
    struct first_token_split split;
    const char *why;
    node_put(a, map, "schema_version", node_int(a, 1));
    if (!first_token_split(a, m, &split, &why)) {
        node_put(a, map, "first_token", node_new(a, NODE_NULL));
        return map;
    }
    struct node *parts = node_put(a, map, "first_token", node_new(a, NODE_MAP));
    node_put(a, parts, "requests", node_int(a, split.requests));
    node_put(a, parts, "queue_s", node_float(a, split.queue_s));
    node_put(a, parts, "prefill_s", node_float(a, split.prefill_s));
    node_put(a, parts, "front_s", node_float(a, split.front_s));
    node_put(a, parts, "outside_s", node_float(a, split.outside_s));
    return map;
}

enum st server_metrics_load(struct arena *a, const char *dir, const struct server_metrics **out,
                            struct err *e)
{
    const char *path = fs_join(a, dir, SERVER_METRICS);
    struct node *doc;
    *out = NULL;
    if (!fs_exists(path))
        return ST_OK;
    struct server_metrics *m = arena_one(a, struct server_metrics);
    TRY(json_load(a, path, NULL, &doc, e));
    TRY(node_check_version(doc, "schema_version", 1, e));
    TRY(fields_read(a, &file_fields, doc, m, e));
    *out = m;
    return ST_OK;
}

/* ---- the split ----------------------------------------------------------------------------- */

bool first_token_split(struct arena *a, const struct server_metrics *m,
                       struct first_token_split *out, const char **why)
{
    static const enum server_stat_id parts[] = {SERVER_TTFT, SERVER_QUEUE, SERVER_PREFILL};
    *why = m->why ? m->why : "the server counted other requests too";
    if (!m->alone)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct server_stat *s = &m->of[parts[i]];
        if (!s->metric) {
            *why = arena_printf(a, "%s has no metric of %s", m->server, stats[parts[i]].name);
            return false;
        }
        if (s->count != (double)m->client.requests || isnan(s->mean) ||
            !isfinite(m->client.ttft_s)) {
            *why = arena_printf(a, "%s counts %.0f requests, the client %lld", s->metric, s->count,
                                (long long)m->client.requests);
            return false;
        }
    }
    *out = (struct first_token_split){
        .queue_s = m->of[SERVER_QUEUE].mean,
        .prefill_s = m->of[SERVER_PREFILL].mean,
        .front_s = m->of[SERVER_TTFT].mean - m->of[SERVER_QUEUE].mean - m->of[SERVER_PREFILL].mean,
        .outside_s = m->client.ttft_s - m->of[SERVER_TTFT].mean,
        .client_s = m->client.ttft_s,
        .requests = m->client.requests,
    };
    return true;
}

const char *first_token_words(struct arena *a, const struct first_token_split *s)
{
    return arena_printf(a,
                        "%.2f ms: queue %.2f, prefill %.2f, server's front %.2f, outside the "
                        "server %.2f; means of %lld requests",
                        s->client_s * 1e3, s->queue_s * 1e3, s->prefill_s * 1e3, s->front_s * 1e3,
                        s->outside_s * 1e3, (long long)s->requests);
}
