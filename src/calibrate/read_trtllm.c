/* TensorRT-LLM's trtllm-bench --report_json: means and percentiles of one run in its own process,
 * with the engine's settings. Requests are all there at the start, or so many at a time. */
#include <math.h>
#include <string.h>

#include "calibrate/read_experiment.h"
#include "calibrate/read_tree.h"

static const double MOST = 1e15;

bool observed_is_trtllm(struct arena *a, const char *path)
{
    (void)a;
    return read_tree_has(path, "world_info") && read_tree_has(path, "request_info");
}

static enum st number_at(const struct node *map, const char *key, double *out, struct err *e)
{
    *out = NAN;
    return map && map->kind == NODE_MAP ? read_tree_number(map, key, 0, MOST, out, e) : ST_OK;
}

/* Percentiles in ms. */
static enum st series_of(struct arena *a, const struct node *map, struct observed_series *out,
                         struct err *e)
{
    *out = observed_unknown();
    TRY(number_at(map, "average", &out->mean, e));
    out->mean /= 1e3;
    for (int i = 0; i < OBSERVED_POINTS; i++) {
        TRY(number_at(map, arena_printf(a, "p%d", (int)observed_points[i]), &out->at[i], e));
        out->at[i] /= 1e3;
    }
    return ST_OK;
}

static const char *text_at(const struct node *map, const char *path)
{
    const struct node *n = node_path(map, path);
    return n && n->kind == NODE_STR && n->s.n ? n->s.p : NULL;
}

static enum st settings_of(const struct node *map, struct observed_settings *s, struct err *e)
{
    struct node *world;
    TRY(node_get(map, "world_info", NODE_MAP, &world, e));
    const struct node *engine = node_find(map, "engine");
    s->engine = "tensorrt-llm";
    s->model = text_at(map, "engine.model");
    s->gpu = text_at(map, "machine.name");
    TRY(read_tree_count(world, "tp_size", &s->tp, e));
    TRY(read_tree_count(world, "pp_size", &s->pp, e));
    TRY(read_tree_count(world, "ep_size", &s->ep, e));
    TRY(read_tree_count(world, "max_batch_size", &s->batch_cap, e));
    TRY(read_tree_count(world, "max_num_tokens", &s->token_budget, e));
    s->ep = s->ep > 1 ? s->ep : 0;
    if (!engine || engine->kind != NODE_MAP)
        return ST_OK;
    TRY(read_tree_count(engine, "max_sequence_length", &s->max_model_len, e));
    return experiment_formats(engine, "quantization", "kv_cache_dtype", s, e);
}

/* The mean number in the service is a little below the limit that it ran into: the next whole
 * number. Requests that came much faster than they were served were all there at the start. */
static enum st load_of(const struct node *map, struct observed_means *m, int64_t requests,
                       struct err *e)
{
    double issued, at_once;
    TRY(number_at(node_find(map, "world_info"), "issue_rate", &issued, e));
    TRY(number_at(node_find(map, "request_info"), "avg_num_concurrent_requests", &at_once, e));
    const bool all = !(issued <= 2 * m->rate) && !isnan(issued);
    m->concurrency = all || isnan(at_once) ? requests : (int64_t)ceil(at_once - 1e-6);
    m->concurrency = m->concurrency < 1 ? 1 : m->concurrency > requests ? requests : m->concurrency;
    if (m->concurrency <= CONCURRENCY_MOST)
        return ST_OK;
    return node_err(map, ST_INPUT, e, "%lld requests at a time", (long long)m->concurrency);
}

enum st observed_read_trtllm(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    static const char *const doubts[] = {
        "engine 'tensorrt-llm': vLLM's scheduler stands in for its own (scheduler= takes another)"};
    struct node *map, *info, *performance;
    struct observed_means m = {0};
    struct observed_stage *s = arena_one(a, struct observed_stage);
    TRY(read_tree(a, path, &map, e));
    TRY(observed_check_speculation(map, e));
    TRY(settings_of(map, &out->settings, e));
    TRY(node_get(map, "request_info", NODE_MAP, &info, e));
    TRY(node_get(map, "performance", NODE_MAP, &performance, e));
    out->doubts = doubts;
    out->n_doubts = 1;
    out->stages = s;
    out->n_stages = 1;
    s->name = "0";
    TRY(read_tree_count(info, "num_requests", &s->completed, e));
    TRY(number_at(info, "avg_input_length", &m.prompt_tokens, e));
    TRY(number_at(info, "avg_output_length", &m.output_tokens, e));
    TRY(number_at(performance, "request_throughput_req_s", &m.rate, e));
    TRY(series_of(a, node_find(performance, "request_latency_percentiles_ms"), &s->of[OBSERVED_E2E],
                  e));
    TRY(series_of(a, node_path(map, "streaming_metrics.ttft_percentiles"), &s->of[OBSERVED_TTFT],
                  e));
    TRY(series_of(a, node_path(map, "streaming_metrics.tpot_percentiles"), &s->of[OBSERVED_TPOT],
                  e));
    TRY(load_of(map, &m, s->completed, e));
    return observed_from_means(a, path, &m, s, e);
}
