#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "workload/jsonl.h"
#include "workload/workload.h"

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

static enum st read_request(struct arena *a, const struct node *line, int64_t *before_ms,
                            struct workload_request *q, struct err *e)
{
    int64_t ms;
    TRY(node_get_int(line, "timestamp", 0, MAX_MS, &ms, e));
    TRY(node_get_int(line, "input_length", 1, INT32_MAX, &q->num_prefill_tokens, e));
    TRY(node_get_int(line, "output_length", 1, INT32_MAX, &q->num_decode_tokens, e));
    if (ms < *before_ms)
        return node_err(node_find(line, "timestamp"), ST_INPUT, e,
                        "timestamp: %lld is before the line above it", (long long)ms);
    *before_ms = ms;
    q->arrival_ns = ms * NS_PER_MS;
    q->arrival_s = ns_to_s(q->arrival_ns);
    return node_find(line, "hash_ids") ? read_ids(a, line, q, e) : ST_OK;
}

typedef VEC(struct workload_request) request_vec;

static enum st read_requests(struct arena *a, struct jsonl *j, request_vec *v, struct err *e)
{
    int64_t before_ms = 0;
    struct node *line;
    enum st st;
    while ((st = jsonl_next(j, &line, e)) == ST_OK) {
        struct workload_request q = {.request_id = (int64_t)v->n};
        TRY(read_request(a, line, &before_ms, &q, e));
        vec_push(v, q);
    }
    if (st == ST_END && v->n == 0)
        return err_at(e, ST_INPUT, j->path, 0, 0, "has no requests");
    return st == ST_END ? ST_OK : st;
}

enum st workload_load_mooncake(struct arena *a, const char *path, struct workload *out,
                               struct err *e)
{
    struct jsonl j;
    request_vec v = {0};
    *out = (struct workload){0};
    enum st st = jsonl_open(&j, path, MAX_LINE_BYTES, e);
    if (st == ST_OK)
        st = read_requests(a, &j, &v, e);
    jsonl_close(&j);
    if (st == ST_OK) {
        out->requests = arena_copy(a, v.p, v.n * sizeof *v.p);
        out->n = v.n;
    }
    vec_free(&v);
    return st;
}
