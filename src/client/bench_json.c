#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "client/outcome.h"
#include "text/table.h"

static void put(struct arena *a, struct node *m, const char *key, struct node *v)
{
    node_set(a, m, sv_of(arena_str(a, key)), v);
}

static void put_stat(struct arena *a, struct node *m, const char *name,
                     const struct outcome_stat *s)
{
    put(a, m, arena_printf(a, "mean_%s_ms", name), node_number(a, s->mean));
    put(a, m, arena_printf(a, "median_%s_ms", name), node_number(a, s->median));
    put(a, m, arena_printf(a, "std_%s_ms", name), node_number(a, s->std));
    for (int i = 0; i < OUTCOME_PERCENTILES; i++)
        put(a, m, arena_printf(a, "p%d_%s_ms", outcome_percentiles[i], name),
            node_number(a, s->p[i]));
}

#define T        struct client_record
#define COUNT(m) FIELD_AS(T, h.m, #m, .otherwise = -1)
#define SHARE(m) FIELD(T, m, .optional = true)
static const struct field record_rows[] = {
    COUNT(sent),
    COUNT(dropped),
    COUNT(left_out),
    COUNT(late),
    COUNT(held),
    COUNT(retried),
    COUNT(peak_concurrency),
    COUNT(connections),
    COUNT(bytes_received),
    COUNT(chunks),
    SHARE(schedule_delay_p50_ms),
    SHARE(schedule_delay_p90_ms),
    SHARE(schedule_delay_p99_ms),
    SHARE(schedule_delay_max_ms),
    SHARE(limit_ms),
    FIELD_AS(T, h.wall_s, "wall_s", .optional = true),
    FIELD_AS(T, h.cpu_s, "cpu_s", .optional = true),
    SHARE(cpu_fraction),
    FIELD_AS(T, h.busy_fraction, "busy_fraction", .optional = true),
    FIELD(T, verdict),
};
const struct fields client_record_fields = FIELDS(T, record_rows);
#undef T

struct node *client_health_node(struct arena *a, const struct client_health *h)
{
    const struct client_record r = {
        .h = *h,
        .schedule_delay_p50_ms = (double)h->delay_p50_ns / 1e6,
        .schedule_delay_p90_ms = (double)h->delay_p90_ns / 1e6,
        .schedule_delay_p99_ms = (double)h->delay_p99_ns / 1e6,
        .schedule_delay_max_ms = (double)h->delay_max_ns / 1e6,
        .limit_ms = CLIENT_MAX_DELAY_NS / 1e6,
        .cpu_fraction = h->wall_s > 0 ? h->cpu_s / h->wall_s : (double)NAN,
        .verdict = h->healthy ? "healthy" : "rejected",
    };
    return fields_node(a, &client_record_fields, &r);
}

/* Lists as vLLM writes them, one item a request, failed ones included; times in seconds. */
static void put_lists(struct arena *a, struct node *m, const struct outcome *o, size_t n)
{
    struct node *input = node_new(a, NODE_LIST), *output = node_new(a, NODE_LIST);
    struct node *ttfts = node_new(a, NODE_LIST), *itls = node_new(a, NODE_LIST);
    struct node *starts = node_new(a, NODE_LIST), *errors = node_new(a, NODE_LIST);
    for (size_t i = 0; i < n; i++) {
        const struct client_result *r = o[i].r;
        if (o[i].warmup)
            continue;
        struct node *gaps = node_new(a, NODE_LIST);
        double ttft = r->chunks.n ? ns_to_s(r->chunks.p[0].time_ns - r->sent_ns) : 0;
        for (size_t k = 1; k < r->chunks.n; k++)
            node_push(a, gaps,
                      node_float(a, ns_to_s(r->chunks.p[k].time_ns - r->chunks.p[k - 1].time_ns)));
        node_push(a, input, node_int(a, o[i].prompt_tokens));
        node_push(a, output,
                  node_int(a, r->status == RUN_OK ? o[i].output_tokens + o[i].hidden_tokens : 0));
        node_push(a, ttfts, node_float(a, ttft));
        node_push(a, itls, gaps);
        node_push(a, starts,
                  r->sent_ns == RUN_NONE ? node_new(a, NODE_NULL)
                                         : node_float(a, ns_to_s(r->sent_ns)));
        node_push(a, errors, node_str(a, r->error_msg));
    }
    put(a, m, "input_lens", input);
    put(a, m, "output_lens", output);
    put(a, m, "ttfts", ttfts);
    put(a, m, "itls", itls);
    put(a, m, "start_times", starts);
    put(a, m, "errors", errors);
}

/* Most output tokens that came within one second of the run, seconds counted from the first send.
 * NAN without any. */
static double most_tokens_a_second(const struct outcome *o, size_t n)
{
    int64_t first_ns = INT64_MAX, last_ns = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct client_result *r = o[i].r;
        if (o[i].warmup || r->status != RUN_OK || r->chunks.n == 0)
            continue;
        int64_t end_ns = r->chunks.p[r->chunks.n - 1].time_ns;
        first_ns = r->sent_ns < first_ns ? r->sent_ns : first_ns;
        last_ns = end_ns > last_ns ? end_ns : last_ns;
    }
    if (last_ns < first_ns)
        return (double)NAN;
    size_t seconds = (size_t)((last_ns - first_ns) / NS_PER_S) + 1;
    int64_t *tokens = mem_alloc(seconds * sizeof *tokens);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < o[i].r->chunks.n; k++)
            if (!o[i].warmup && o[i].r->status == RUN_OK)
                tokens[(o[i].r->chunks.p[k].time_ns - first_ns) / NS_PER_S] += o[i].chunk_tokens[k];
    for (size_t i = 0; i < seconds; i++)
        most = tokens[i] > most ? tokens[i] : most;
    mem_free(tokens);
    return (double)most;
}

static struct node *tokens_node(struct arena *a, const struct outcome_figures *f)
{
    struct node *m = node_new(a, NODE_MAP), *from = node_new(a, NODE_MAP);
    struct node *lengths = node_new(a, NODE_MAP), *prompts = node_new(a, NODE_MAP);
    const int64_t visible = f->output_tokens - f->hidden_tokens;
    for (int i = 0; i < COUNTS; i++)
        put(a, from, count_from_name((enum count_from)i), node_int(a, f->counted[i]));
    put(a, m, "output_counted_from", from);
    put(a, m, "input_counted_from_usage", node_int(a, f->prompt_from_usage));
    put(a, m, "chunks", node_int(a, f->chunks));
    put(a, m, "tokens_per_chunk",
        node_number(a, f->chunks ? (double)visible / (double)f->chunks : NAN));
    put(a, m, "max_tokens_per_chunk", node_int(a, f->max_tokens_per_chunk));
    put(a, m, "requests_spread_over_chunks", node_int(a, f->spread));
    put(a, m, "answers_at_once", node_int(a, f->at_once));
    put(a, m, "hidden_reasoning_tokens", node_int(a, f->hidden_tokens));
    put(a, m, "planned_input_tokens", node_int(a, f->planned_input_tokens));
    for (int i = 0; i < LENGTHS; i++) {
        put(a, lengths, length_name((enum length)i), node_int(a, f->lengths[i]));
        put(a, prompts, length_name((enum length)i), node_int(a, f->prompts[i]));
    }
    put(a, m, "output_lengths", lengths);
    put(a, m, "prompt_lengths", prompts);
    return m;
}

struct node *outcomes_bench_json(struct arena *a, const struct outcome *o, size_t n,
                                 const struct outcome_figures *f, const struct client_health *h,
                                 const struct outcome_labels *labels)
{
    struct node *m = node_new(a, NODE_MAP), *planned = node_new(a, NODE_MAP);
    char date[CLOCK_ISO_MAX];
    clock_iso8601(labels->started_wall_ns, date);
    put(a, m, "date", node_str(a, date));
    put(a, m, "backend", node_str(a, "openai"));
    put(a, m, "endpoint_type", node_str(a, labels->endpoint));
    put(a, m, "model_id", node_str_or_null(a, labels->model_id));
    put(a, m, "tokenizer_id", node_str_or_null(a, labels->tokenizer_id));
    put(a, m, "num_prompts", node_int(a, f->completed + f->failed));
    put(a, m, "request_rate", node_number(a, labels->request_rate));
    put(a, m, "burstiness", node_number(a, labels->burstiness));
    put(a, m, "max_concurrency",
        labels->max_concurrency ? node_int(a, labels->max_concurrency) : node_new(a, NODE_NULL));
    put(a, m, "duration", node_number(a, f->duration_s));
    put(a, m, "completed", node_int(a, f->completed));
    put(a, m, "failed", node_int(a, f->failed));
    put(a, m, "warmup", node_int(a, f->warmup));
    put(a, m, "total_input_tokens", node_int(a, f->input_tokens));
    put(a, m, "total_output_tokens", node_int(a, f->output_tokens));
    put(a, m, "request_throughput", node_number(a, f->requests_per_s));
    put(a, m, "request_goodput", node_number(a, f->goodput_sent));
    put(a, m, "output_throughput", node_number(a, f->output_tokens_per_s));
    put(a, m, "total_token_throughput", node_number(a, f->total_tokens_per_s));
    put(a, m, "max_output_tokens_per_s", node_number(a, most_tokens_a_second(o, n)));
    put(a, m, "max_concurrent_requests", node_int(a, h->peak_concurrency));
    put_stat(a, m, "ttft", &f->ttft_sent);
    put_stat(a, m, "tpot", &f->tpot);
    put_stat(a, m, "itl", &f->itl);
    put_stat(a, m, "e2el", &f->e2el_sent);
    put_lists(a, m, o, n);

    put_stat(a, planned, "ttft", &f->ttft);
    put_stat(a, planned, "e2el", &f->e2el);
    put(a, planned, "request_goodput", node_number(a, f->goodput));
    put(a, planned, "goodput_limits", node_str_or_null(a, labels->goodput));
    put(a, m, "planned", planned);
    put(a, m, "tokens", tokens_node(a, f));
    put(a, m, "client", client_health_node(a, h));
    return m;
}

struct node *outcomes_stage_node(struct arena *a, const struct outcome_figures *f)
{
    struct node *m = node_new(a, NODE_MAP);
    put(a, m, "completed", node_int(a, f->completed));
    put(a, m, "failed", node_int(a, f->failed));
    put(a, m, "request_throughput", node_number(a, f->requests_per_s));
    put(a, m, "output_throughput", node_number(a, f->output_tokens_per_s));
    put_stat(a, m, "ttft", &f->ttft);
    put_stat(a, m, "tpot", &f->tpot);
    put_stat(a, m, "itl", &f->itl);
    put_stat(a, m, "e2el", &f->e2el);
    return m;
}

/* ---- the terminal -------------------------------------------------------------------------- */

static void stat_row(struct table *t, const char *name, const struct outcome_stat *s)
{
    table_cell(t, "%s", name);
    table_cell(t, "%zu", s->n);
    const double v[] = {s->mean, s->median, s->p[0], s->p[2], s->std};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        if (isnan(v[i]))
            table_cell(t, "n/a");
        else
            table_cell(t, "%.2f", v[i]);
}

/* Every source that counted a request, the commonest case first: "usage", "usage and chunks". */
static const char *sources(struct arena *a, const struct outcome_figures *f)
{
    const char *text = "";
    for (int i = 0; i < COUNTS; i++)
        if (f->counted[i])
            text = arena_printf(a, "%s%s%s", text, *text ? " and " : "",
                                count_from_name((enum count_from)i));
    return *text ? text : "nothing";
}

void outcomes_print(struct buf *out, struct arena *a, const struct outcome_figures *f,
                    const struct client_health *h)
{
    static const char *const head[] = {"ms", "n", "mean", "p50", "p90", "p99", "std"};
    struct table *t = table_new(a, 7);
    buf_printf(out, "requests        %lld ok, %lld failed, %lld warm-up in %.2f s\n",
               (long long)f->completed, (long long)f->failed, (long long)f->warmup, f->duration_s);
    buf_printf(out, "throughput      %.3f requests/s, %.1f output tokens/s, %.1f tokens/s in all\n",
               f->requests_per_s, f->output_tokens_per_s, f->total_tokens_per_s);
    if (isnan(f->goodput))
        buf_puts(out, "goodput         n/a: no limits (goodput=ttft:500,tpot:50)\n");
    else
        buf_printf(out, "goodput         %.3f requests/s (%.3f from the actual send)\n", f->goodput,
                   f->goodput_sent);
    if (h->follows && !isnan(h->concurrency_mean))
        buf_printf(out, "concurrency     %.2f requests on average, at most %lld at once\n",
                   h->concurrency_mean, (long long)h->peak_concurrency);
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        table_cell(t, "%s", head[i]);
    stat_row(t, "TTFT", &f->ttft);
    stat_row(t, "TTFT from send", &f->ttft_sent);
    stat_row(t, "TPOT", &f->tpot);
    stat_row(t, "ITL", &f->itl);
    stat_row(t, "E2E", &f->e2el);
    stat_row(t, "E2E from send", &f->e2el_sent);
    table_text(out, t);
    if (f->chunks)
        buf_printf(out,
                   "tokens          %lld in, %lld out, counted from %s; %.2f a chunk, at most %d\n",
                   (long long)f->input_tokens, (long long)f->output_tokens, sources(a, f),
                   (double)(f->output_tokens - f->hidden_tokens) / (double)f->chunks,
                   f->max_tokens_per_chunk);
    if (f->hidden_tokens)
        buf_printf(out,
                   "hidden          %lld output tokens are reasoning that was not sent: no "
                   "latency is of them\n",
                   (long long)f->hidden_tokens);
    if (f->prompts[LENGTH_SHORT] + f->prompts[LENGTH_LONG])
        buf_printf(out,
                   "prompts         %lld as planned, %lld shorter, %lld longer by the server's "
                   "count\n",
                   (long long)f->prompts[LENGTH_RIGHT], (long long)f->prompts[LENGTH_SHORT],
                   (long long)f->prompts[LENGTH_LONG]);
    if (f->lengths[LENGTH_SHORT] + f->lengths[LENGTH_LONG] + f->lengths[LENGTH_UNKNOWN])
        buf_printf(out,
                   "lengths         %lld as asked for, %lld shorter, %lld longer, %lld unknown\n",
                   (long long)f->lengths[LENGTH_RIGHT], (long long)f->lengths[LENGTH_SHORT],
                   (long long)f->lengths[LENGTH_LONG], (long long)f->lengths[LENGTH_UNKNOWN]);
    if (f->at_once)
        buf_printf(out, "at once         %lld answers of several tokens: they have no TPOT\n",
                   (long long)f->at_once);
    buf_printf(
        out,
        "client          %s: schedule delay p50 %.3f, p99 %.3f, max %.3f ms; %lld late, %lld "
        "dropped, %lld held; CPU %.0f %%, at most %lld at once\n",
        h->healthy ? "healthy" : "REJECTED", (double)h->delay_p50_ns / 1e6,
        (double)h->delay_p99_ns / 1e6, (double)h->delay_max_ns / 1e6, (long long)h->late,
        (long long)h->dropped, (long long)h->held, h->wall_s > 0 ? 100 * h->cpu_s / h->wall_s : 0,
        (long long)h->peak_concurrency);
}
