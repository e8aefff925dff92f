/* The file of `vllm bench forward`. */
#include <string.h>

#include "calibrate/forward.h"
#include "text/json.h"

static const int64_t LENGTH_MOST = 1 << 28;
static const double US_MOST = 1e9; /* a forward of a quarter of an hour */

/* A request's part of the batch. */
static enum st add_request(const struct node *r, const struct key_spans *spans,
                           struct forward_case *c, struct err *e)
{
    int64_t query, kv, drafts;
    TRY(node_get_int(r, "query_len", 1, LENGTH_MOST, &query, e));
    TRY(node_get_int(r, "kv_len", query, LENGTH_MOST, &kv, e));
    TRY(node_get_int(r, "num_draft_tokens", 0, LENGTH_MOST, &drafts, e));
    if (drafts > 0)
        return node_err(r, ST_INPUT, e, "a case that verifies drafts, which is not simulated");
    c->load.tokens += query;
    if (query == 1 && kv > 1) {
        c->load.seqs++;
        op_load_add_keys(&c->load, spans, kv);
        return ST_OK;
    }
    c->chunks++;
    op_load_add_chunk(&c->load, spans, kv - query, query);
    return ST_OK;
}

static enum st read_requests(const struct node *map, const struct key_spans *spans,
                             struct forward_case *c, struct err *e)
{
    struct node *list;
    TRY(node_get(map, "requests", NODE_LIST, &list, e));
    if (list->n == 0)
        return node_err(list, ST_INPUT, e, "requests: a case without any");
    for (uint32_t i = 0; i < list->n; i++)
        TRY(add_request(list->items[i], spans, c, e));
    return ST_OK;
}

static enum st check_rank(const struct node *rank, const struct forward_case *c, struct err *e)
{
    const char *scope;
    int64_t tokens;
    bool finite;
    TRY(node_get_int(rank, "num_tokens", 1, LENGTH_MOST, &tokens, e));
    TRY(node_get_str(rank, "timing_scope", &scope, e));
    TRY(node_get_bool(rank, "finite", &finite, e));
    if (strcmp(scope, "target_only") != 0)
        return node_err(rank, ST_INPUT, e,
                        "timing_scope: expected target_only, got %.40s: --exclude-drafter leaves "
                        "the drafter out",
                        scope);
    if (!finite)
        return node_err(rank, ST_INPUT, e, "finite: the forward gave no numbers");
    if (tokens != c->load.tokens)
        return node_err(rank, ST_INPUT, e,
                        "num_tokens: %lld were computed where %lld were asked for: replayed "
                        "prefixes are not known",
                        (long long)tokens, (long long)c->load.tokens);
    return ST_OK;
}

static enum st read_ranks(const struct node *map, struct forward_case *c, int64_t *gpus,
                          struct err *e)
{
    struct node *list, *latency;
    double percent;
    TRY(node_get(map, "ranks", NODE_LIST, &list, e));
    if (list->n == 0)
        return node_err(list, ST_INPUT, e, "ranks: a case without any");
    if (*gpus && *gpus != list->n)
        return node_err(list, ST_INPUT, e, "ranks: %u GPUs, the case before has %lld", list->n,
                        (long long)*gpus);
    *gpus = list->n;
    for (uint32_t i = 0; i < list->n; i++)
        TRY(check_rank(list->items[i], c, e));
    TRY(node_get(list->items[0], "latency_us", NODE_MAP, &latency, e));
    TRY(node_get_double(latency, "sample_spread_pct", 0, 1e6, &percent, e));
    c->spread = percent / 100;
    return ST_OK;
}

static enum st read_case(const struct node *map, const struct key_spans *spans,
                         struct forward_case *c, int64_t *gpus, struct err *e)
{
    double us;
    *c = (struct forward_case){.name = NULL};
    TRY(node_get_str(map, "case", &c->name, e));
    TRY(node_get_double(map, "median_us", 1e-3, US_MOST, &us, e));
    c->device_s = us * 1e-6;
    TRY(read_requests(map, spans, c, e));
    return read_ranks(map, c, gpus, e);
}

static enum st read_cases(struct arena *a, const char *path, const struct node *list,
                          const struct key_spans *spans, struct forward_bench *out, struct err *e)
{
    if (list->kind != NODE_LIST || list->n == 0) {
        node_err(list, ST_INPUT, e, "expected a list of cases, got %s", node_kind_name(list->kind));
        return err_hint(e, "vllm bench forward --output-json=FILE writes it (vLLM 0.33)");
    }
    *out = (struct forward_bench){
        .path = path, .of = arena_array(a, struct forward_case, list->n), .n = list->n};
    for (uint32_t i = 0; i < list->n; i++)
        TRY(read_case(list->items[i], spans, &out->of[i], &out->gpus, e));
    return ST_OK;
}

/* Errors of a case may be NaN. */
static const struct json_limits limits = {.python = true};

enum st forward_parse(struct arena *a, const char *path, struct sv text,
                      const struct key_spans *spans, struct forward_bench *out, struct err *e)
{
    struct node *list;
    TRY(json_parse(a, path, text, &limits, &list, e));
    return read_cases(a, path, list, spans, out, e);
}

enum st forward_read(struct arena *a, const char *path, const struct key_spans *spans,
                     struct forward_bench *out, struct err *e)
{
    struct node *list;
    TRY(json_load(a, path, &limits, &list, e));
    return read_cases(a, path, list, spans, out, e);
}
