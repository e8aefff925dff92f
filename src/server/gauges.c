#include "server/gauges.h"

static const double bounds_s[GAUGE_BUCKETS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05,
                                               0.075, 0.1,   0.15,  0.2,  0.3,  0.5,  0.75,
                                               1,     2,     5,     10,   30,   60};

void gauges_observe(struct gauge_histogram *h, double s)
{
    int i = 0;
    while (i < GAUGE_BUCKETS && s > bounds_s[i])
        i++;
    h->count[i]++;
    h->sum += s;
}

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP twinfer_%s %s\n# TYPE twinfer_%s %s\n", name, help, name, type);
}

static void histogram(struct buf *out, const char *name, const char *help,
                      const struct gauge_histogram *h)
{
    uint64_t sum = 0;
    head(out, name, "histogram", help);
    for (int i = 0; i < GAUGE_BUCKETS; i++) {
        sum += h->count[i];
        buf_printf(out, "twinfer_%s_bucket{le=\"%g\"} %llu\n", name, bounds_s[i],
                   (unsigned long long)sum);
    }
    sum += h->count[GAUGE_BUCKETS];
    buf_printf(out,
               "twinfer_%s_bucket{le=\"+Inf\"} %llu\ntwinfer_%s_sum %.15g\ntwinfer_%s_count %llu\n",
               name, (unsigned long long)sum, name, h->sum, name, (unsigned long long)sum);
}

void gauges_write(struct buf *out, const struct gauges *g, const char *model)
{
    const struct {
        const char *name, *type, *help;
        int64_t value;
    } rows[] = {
        {"num_requests_running", "gauge", "requests that have a first token and go on", g->running},
        {"num_requests_waiting", "gauge", "requests that wait for their first token", g->waiting},
        {"kv_blocks", "gauge", "KV blocks there are", g->kv_blocks},
        {"kv_blocks_used", "gauge", "KV blocks that requests hold, after the last batch",
         g->replicas.kv_blocks_used},
        {"num_preemptions_total", "counter", "requests that lost their KV blocks to others",
         g->replicas.preemptions},
        {"prefix_cache_queries_total", "counter", "prompt tokens looked up in the prefix cache",
         g->replicas.prefix_looked_tokens},
        {"prefix_cache_hits_total", "counter", "of these, tokens that were found",
         g->replicas.prefix_hit_tokens},
        {"http_connections", "gauge", "open connections", g->connections},
        {"draining", "gauge", "1 = on the way down", g->draining},
        {"requests_overload_total", "counter", "answered with 429", g->refused_overload},
        {"requests_bad_total", "counter", "answered with another 4xx", g->refused_bad},
        {"slow_clients_total", "counter", "streams ended because nobody read them",
         g->slow_clients},
        {"prompt_tokens_total", "counter", "prompt tokens of requests that are over",
         g->prompt_tokens},
        {"generation_tokens_total", "counter", "output tokens", g->output_tokens},
    };
    head(out, "info", "gauge", "what is served");
    buf_printf(out, "twinfer_info{model=\"");
    for (const char *c = model; *c; c++)
        buf_printf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c == '\n' ? ' ' : *c);
    buf_printf(out, "\",version=\"" TW_VERSION "\"} 1\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        head(out, rows[i].name, rows[i].type, rows[i].help);
        buf_printf(out, "twinfer_%s %lld\n", rows[i].name, (long long)rows[i].value);
    }
    head(out, "kv_cache_usage_perc", "gauge", "kv_blocks_used / kv_blocks: 1 is full");
    buf_printf(out, "twinfer_kv_cache_usage_perc %.6g\n",
               g->kv_blocks > 0 ? (double)g->replicas.kv_blocks_used / (double)g->kv_blocks : 0.0);
    head(out, "requests_total", "counter", "requests that are over");
    for (int i = 0; i <= RUN_CANCELLED; i++)
        buf_printf(out, "twinfer_requests_total{status=\"%s\"} %lld\n",
                   run_status_name((enum run_status)i), (long long)g->requests[i]);
    histogram(out, "time_to_first_token_seconds", "arrival to first token, inside the server",
              &g->ttft);
    histogram(out, "inter_token_latency_seconds", "gaps between tokens, inside the server",
              &g->itl);
    histogram(out, "e2e_request_latency_seconds", "arrival to last token, inside the server",
              &g->e2e);
    histogram(out, "request_queue_time_seconds", "arrival to first batch", &g->queue);
    histogram(out, "request_prefill_time_seconds", "first batch to first token", &g->prefill);
    histogram(out, "request_decode_time_seconds", "first token to last token", &g->decode);
}
