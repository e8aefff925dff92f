#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "workload/jsonl.h"
#include "workload/make.h"

enum { MAX_LINE_BYTES = 16 << 20, MAX_MS = INT64_MAX / NS_PER_MS };

bool workload_is_mooncake(const char *path)
{
    size_t n = strlen(path), tail = strlen(".jsonl");
    return n > tail && strcmp(path + n - tail, ".jsonl") == 0;
}

/* One id for each MOONCAKE_BLOCK tokens of the prompt, the last piece possibly shorter. */
static enum st read_ids(struct arena *a, const struct node *line, struct workload_request *q,
                        struct err *e)
{
    struct node *list;
    TRY(node_get(line, "hash_ids", NODE_LIST, &list, e));
    int64_t n = (q->num_prefill_tokens + MOONCAKE_BLOCK - 1) / MOONCAKE_BLOCK;
    if (list->n != n)
        return node_err(list, ST_INPUT, e,
                        "hash_ids: %u ids for a prompt of %lld tokens, expected %lld (one for each "
                        "%d tokens)",
                        list->n, (long long)q->num_prefill_tokens, (long long)n, MOONCAKE_BLOCK);
    int64_t *ids = arena_array(a, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        const struct node *id = list->items[i];
        if (id->kind != NODE_INT || id->i < 0)
            return node_err(id, ST_INPUT, e, "hash_ids: expected an integer, 0 or more");
        ids[i] = id->i;
    }
    q->hash_ids = ids;
    q->hash_tokens = MOONCAKE_BLOCK;
    return ST_OK;
}

/* Milliseconds: whole ones exactly, others to the nearest nanosecond. */
static enum st read_time(const struct node *line, int64_t *ns, struct err *e)
{
    const struct node *t = node_find(line, "timestamp");
    int64_t ms;
    double f;
    if (t && t->kind == NODE_FLOAT) {
        TRY(node_get_double(line, "timestamp", 0, MAX_MS, &f, e));
        *ns = llround(f * NS_PER_MS);
        return ST_OK;
    }
    TRY(node_get_int(line, "timestamp", 0, MAX_MS, &ms, e));
    *ns = ms * NS_PER_MS;
    return ST_OK;
}

/* least: minimum of tokens of a prompt and of an answer. */
static enum st read_request(struct arena *a, const struct node *line, int64_t least,
                            struct workload_request *q, struct err *e)
{
    TRY(read_time(line, &q->arrival_ns, e));
    TRY(node_get_int(line, "input_length", least, INT32_MAX, &q->num_prefill_tokens, e));
    TRY(node_get_int(line, "output_length", least, INT32_MAX, &q->num_decode_tokens, e));
    q->arrival_s = ns_to_s(q->arrival_ns);
    return node_find(line, "hash_ids") ? read_ids(a, line, q, e) : ST_OK;
}

static enum st too_early(const struct node *line, int64_t ns, struct err *e)
{
    char ms[STR_DOUBLE_MAX];
    str_from_double(ms, (double)ns / NS_PER_MS);
    node_err(node_find(line, "timestamp"), ST_INPUT, e, "timestamp: %s is before the line above it",
             ms);
    return err_hint(e, "twinfer workload import=mooncake puts the lines in order");
}

typedef VEC(struct workload_request) request_vec;

/* left_out: of an import; NULL = a workload, in order and without empty requests. */
static enum st read_requests(struct arena *a, struct jsonl *j, request_vec *v, int64_t *left_out,
                             struct err *e)
{
    int64_t before_ns = 0;
    struct node *line;
    enum st st;
    while ((st = jsonl_next(j, &line, e)) == ST_OK) {
        struct workload_request q = {.request_id = (int64_t)v->n};
        TRY(read_request(a, line, left_out ? 0 : 1, &q, e));
        if (!left_out && q.arrival_ns < before_ns)
            return too_early(line, q.arrival_ns, e);
        before_ns = q.arrival_ns;
        if (left_out && (q.num_prefill_tokens == 0 || q.num_decode_tokens == 0))
            ++*left_out;
        else
            vec_push(v, q);
    }
    if (st == ST_END && v->n == 0 && !left_out)
        return err_at(e, ST_INPUT, j->path, 0, 0, "has no requests");
    return st == ST_END ? ST_OK : st;
}

static enum st read_file(struct arena *a, const char *path, struct workload *out, int64_t *left_out,
                         struct err *e)
{
    struct jsonl j;
    request_vec v = {0};
    *out = (struct workload){0};
    enum st st = jsonl_open(&j, path, MAX_LINE_BYTES, e);
    if (st == ST_OK)
        st = read_requests(a, &j, &v, left_out, e);
    jsonl_close(&j);
    if (st == ST_OK) {
        out->requests = arena_copy(a, v.p, v.n * sizeof *v.p);
        out->n = v.n;
    }
    vec_free(&v);
    return st;
}

enum st workload_load_mooncake(struct arena *a, const char *path, struct workload *out,
                               struct err *e)
{
    return read_file(a, path, out, NULL, e);
}

enum st mooncake_import(struct arena *a, const char *path, struct workload *out, int64_t *left_out,
                        struct err *e)
{
    *left_out = 0;
    return read_file(a, path, out, left_out, e);
}
