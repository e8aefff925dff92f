/* AIPerf's profile_export.jsonl has a record a request. Values carry their unit. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "calibrate/read_aiperf.h"
#include "calibrate/read_tree.h"
#include "text/gz.h"
#include "text/json.h"

#define RECORDS "profile_export.jsonl"

/* Records, a line each, have metadata and metrics. */
static bool is_records(const char *path)
{
    return read_tree_ends(path, ".jsonl") && read_tree_has(path, "metadata|metrics");
}

/* Its records, else its means. */
static const char *file_of(struct arena *a, const char *path)
{
    if (!fs_is_dir(path))
        return is_records(path) || aiperf_is_summary(path) ? path : NULL;
    const char *records = fs_join(a, path, RECORDS);
    return fs_exists(records) ? records : aiperf_summary_in(a, path);
}

bool observed_is_aiperf(struct arena *a, const char *path)
{
    return file_of(a, path) != NULL;
}

/* ---- records --------------------------------------------------------------------------------- */

static bool is_failure(const struct node *record)
{
    const struct node *error = node_find(record, "error");
    const struct node *cancelled = node_path(record, "metadata.was_cancelled");
    return (error && error->kind != NODE_NULL) ||
           (cancelled && cancelled->kind == NODE_BOOL && cancelled->b);
}

/* A record, and what the server counted (usage of its response); 0 = it does not say. */
struct aiperf_record {
    struct observed_row row;
    int64_t usage_prompt, usage_output;
};

/* The gaps between the chunks of the answer are a list. */
static int64_t gaps_of(const struct node *metrics)
{
    const struct node *gaps = node_path(metrics, "inter_chunk_latency.value");
    return gaps && gaps->kind == NODE_LIST ? gaps->n : 0;
}

static enum st row_of(const struct node *record, struct aiperf_record *out, struct err *e)
{
    struct node *metadata, *metrics;
    int64_t start_ns;
    double prompt, output, ttft, latency, usage_prompt, usage_output;
    struct observed_row *r = &out->row;
    if (record->kind != NODE_MAP)
        return node_err(record, ST_INPUT, e, "expected an object, got %s",
                        node_kind_name(record->kind));
    *out = (struct aiperf_record){.row = {.cached_tokens = -1, .ok = !is_failure(record)}};
    if (!r->ok)
        return ST_OK;
    TRY(node_get(record, "metadata", NODE_MAP, &metadata, e));
    TRY(node_get(record, "metrics", NODE_MAP, &metrics, e));
    TRY(node_get_int(metadata, "request_start_ns", 0, INT64_MAX, &start_ns, e));
    TRY(aiperf_value(metrics, "input_sequence_length", "value", &prompt, e));
    TRY(aiperf_value(metrics, "output_sequence_length", "value", &output, e));
    TRY(aiperf_value(metrics, "time_to_first_token", "value", &ttft, e));
    TRY(aiperf_value(metrics, "request_latency", "value", &latency, e));
    TRY(aiperf_value(metrics, "usage_prompt_tokens", "value", &usage_prompt, e));
    TRY(aiperf_value(metrics, "usage_completion_tokens", "value", &usage_output, e));
    out->usage_prompt = read_tree_whole(usage_prompt);
    out->usage_output = read_tree_whole(usage_output);
    r->gaps = gaps_of(metrics);
    r->arrival_s = ns_to_s(start_ns);
    r->first_token_s = r->arrival_s + ttft;
    r->end_s = r->arrival_s + latency;
    r->prompt_tokens = read_tree_whole(prompt);
    r->output_tokens = read_tree_whole(output);
    return ST_OK;
}

static bool is_warmup(const struct node *record)
{
    const struct node *phase = node_path(record, "metadata.benchmark_phase");
    return phase && phase->kind == NODE_STR && sv_eq(phase->s, "warmup");
}

typedef VEC(struct aiperf_record) record_vec;

static enum st read_lines(struct arena *scratch, const char *path, struct sv left, record_vec *rows,
                          struct err *e)
{
    for (uint32_t line = 1; left.n; line++) {
        const char *end = memchr(left.p, '\n', left.n);
        struct sv text = {left.p, end ? (size_t)(end - left.p) : left.n};
        size_t used = text.n + (end ? 1 : 0);
        struct aiperf_record r;
        struct node *record;
        left = (struct sv){left.p + used, left.n - used};
        if (sv_trim(text).n == 0)
            continue;
        const struct json_limits limits = {.first_line = line, .python = true};
        arena_reset(scratch);
        TRY(json_parse(scratch, path, text, &limits, &record, e));
        TRY(row_of(record, &r, e));
        if (!is_warmup(record))
            vec_push(rows, r);
    }
    return ST_OK;
}

/* Whether all records that ended well say what the server counted. */
static bool have_usage(const record_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].row.ok && !(v->p[i].usage_prompt && v->p[i].usage_output))
            return false;
    return v->n > 0;
}

/* Rows with the server's counts where all have them: what a client counts again from texts has
 * other tokens (chat templates, reasoning, special tokens). One decision for the server. */
static struct observed_row *rows_of(struct arena *a, const record_vec *v,
                                    struct observed_stage *out)
{
    const bool usage = have_usage(v);
    struct observed_row *rows = arena_array(a, struct observed_row, v->n);
    int64_t prompt[2] = {0}, output[2] = {0}, n = 0; /* sums: client's, server's */
    for (size_t i = 0; i < v->n; i++) {
        const struct aiperf_record *r = &v->p[i];
        rows[i] = r->row;
        if (!usage || !r->row.ok)
            continue;
        rows[i].prompt_tokens = r->usage_prompt;
        rows[i].output_tokens = r->usage_output;
        prompt[0] += r->row.prompt_tokens;
        prompt[1] += r->usage_prompt;
        output[0] += r->row.output_tokens;
        output[1] += r->usage_output;
        n++;
    }
    if (n && (prompt[0] != prompt[1] || output[0] != output[1]))
        observed_note(a, out,
                      "lengths are those the server counted: %.4g and %.4g tokens in the mean, "
                      "where the client counted %.4g and %.4g",
                      (double)prompt[1] / (double)n, (double)output[1] / (double)n,
                      (double)prompt[0] / (double)n, (double)output[0] / (double)n);
    return rows;
}

static enum st read_records(struct arena *a, const char *path, struct observed_stage *out,
                            struct err *e)
{
    struct gz_file f;
    record_vec records = {0};
    TRY(gz_open(path, &f, e));
    struct arena *scratch = arena_new();
    enum st st = read_lines(scratch, path, f.text, &records, e);
    arena_free(&scratch);
    if (st == ST_OK)
        st = observed_from_rows(a, path, rows_of(a, &records, out), records.n, out, e);
    vec_free(&records);
    gz_close(&f);
    return st;
}

enum st observed_read_aiperf(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    const char *file = file_of(a, path);
    out->n_stages = 1;
    out->stages = arena_one(a, struct observed_stage);
    out->stages->name = "0";
    if (read_tree_ends(file, ".jsonl"))
        return read_records(a, file, out->stages, e);
    return aiperf_read_summary(a, file, out, e);
}
