#include <math.h>
#include <string.h>

#include "base/str.h"
#include "serve/router.h"
#include "serve/sched/sched.h"

enum { MAX_BLOCK_SIZE = 65536, MAX_BATCH_CAP = 1 << 24 };

static enum st unknown(const char *key, const char *name, const char *const *known, int n,
                       struct err *e)
{
    struct buf list = {0};
    for (int i = 0; i < n; i++)
        buf_printf(&list, "%s%s", i ? ", " : "", known[i]);
    err_set(e, ST_USAGE, "%s: there is none called '%s'", key, name ? name : "");
    err_hint(e, "known: %s", buf_str(&list));
    buf_free(&list);
    return ST_USAGE;
}

static enum st unknown_policy(const char *name, struct err *e)
{
    const char *known[32];
    int n = 0;
    for (; n < 32 && sched_registry[n]; n++)
        known[n] = sched_registry[n]->name;
    return unknown("scheduler.policy", name, known, n, e);
}

static enum st unknown_router(const char *name, struct err *e)
{
    const char *known[32];
    int n = 0;
    for (; n < 32 && router_registry[n]; n++)
        known[n] = router_registry[n]->name;
    return unknown("cluster.router", name, known, n, e);
}

static const struct {
    const char *name;
    uint32_t bit;
} knobs[] = {
    {"chunk_size", KNOB_CHUNK_SIZE},
    {"token_budget", KNOB_TOKEN_BUDGET},
    {"max_tokens_in_batch", KNOB_MAX_TOKENS_IN_BATCH},
    {"watermark", KNOB_WATERMARK},
    {"max_waiting_iters", KNOB_MAX_WAITING_ITERS},
    {"prefix_caching", KNOB_PREFIX_CACHING},
    {"reserve_full_prompt", KNOB_RESERVE_FULL_PROMPT},
    {"long_prefill_token_threshold", KNOB_LONG_PREFILL},
    {"async_scheduling", KNOB_ASYNC},
};
enum { N_KNOBS = sizeof knobs / sizeof *knobs };

bool sched_reads(const struct sched_ops *sched, const char *key)
{
    static const char section[] = "scheduler.";
    if (strncmp(key, section, sizeof section - 1) != 0)
        return true;
    for (int i = 0; i < N_KNOBS; i++)
        if (strcmp(key + sizeof section - 1, knobs[i].name) == 0)
            return sched->knobs & knobs[i].bit;
    return true;
}

static enum st hint_policies(const char *that, uint32_t knob, struct err *e)
{
    struct buf names = {0}, list = {0};
    sched_with_knobs(&names, knob);
    option_list_values(&list, buf_str(&names), ", ");
    err_hint(e, "%s: %s", that, buf_str(&list));
    buf_free(&names);
    buf_free(&list);
    return e->st;
}

static uint32_t knobs_set(const struct serve_params *p)
{
    return (p->chunk_size ? KNOB_CHUNK_SIZE : 0u) | (p->token_budget ? KNOB_TOKEN_BUDGET : 0u) |
           (p->max_tokens_in_batch ? KNOB_MAX_TOKENS_IN_BATCH : 0u) |
           (p->watermark != 0 ? KNOB_WATERMARK : 0u) |
           (p->max_waiting_iters ? KNOB_MAX_WAITING_ITERS : 0u) |
           (p->prefix_caching ? KNOB_PREFIX_CACHING : 0u) |
           (p->reserve_full_prompt ? KNOB_RESERVE_FULL_PROMPT : 0u) |
           (p->long_prefill_token_threshold ? KNOB_LONG_PREFILL : 0u) |
           (p->async != ASYNC_OFF ? KNOB_ASYNC : 0u);
}

static enum st check_knobs(const struct serve_params *p, const struct sched_ops *sched,
                           struct err *e)
{
    uint32_t unread = knobs_set(p) & ~sched->knobs;
    for (int i = 0; i < N_KNOBS; i++)
        if (unread & knobs[i].bit) {
            err_set(e, ST_USAGE, "scheduler.%s: policy %s has no such knob", knobs[i].name,
                    sched->name);
            return err_hint(e,
                            "leave it unset; scheduler=NAME takes a policy with its own settings");
        }
    return ST_OK;
}

static enum st check_ranges(const struct serve_params *p, struct err *e)
{
    const struct {
        const char *name;
        int64_t value, min, max;
    } rows[] = {
        {"cluster.replicas", p->replicas, 1, 1 << 20},
        {"cluster.prefill_replicas", p->prefill_replicas, 0, 1 << 20},
        {"speculation.draft_tokens", p->draft_tokens, 0, 1 << 10},
        {"scheduler.batch_cap", p->batch_cap, 1, MAX_BATCH_CAP},
        {"scheduler.token_budget", p->token_budget, 0, INT64_C(1) << 40},
        {"scheduler.chunk_size", p->chunk_size, 0, INT64_C(1) << 40},
        {"scheduler.max_tokens_in_batch", p->max_tokens_in_batch, 0, INT64_C(1) << 40},
        {"scheduler.max_waiting_iters", p->max_waiting_iters, 0, INT64_C(1) << 40},
        {"scheduler.long_prefill_token_threshold", p->long_prefill_token_threshold, 0,
         INT64_C(1) << 40},
        {"cluster.prefix_tokens", p->prefix_tokens, 0, INT64_C(1) << 40},
        {"scheduler.block_size", p->block_size, 1, MAX_BLOCK_SIZE},
        {"scheduler.num_blocks", p->num_blocks, 1, INT32_MAX},
        {"scheduler.max_model_len", p->max_model_len, 0, INT64_C(1) << 40},
        {"workload.warmup_requests", p->warmup_requests, 0, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
            return err_set(e, ST_USAGE, "%s: %lld is not between %lld and %lld", rows[i].name,
                           (long long)rows[i].value, (long long)rows[i].min,
                           (long long)rows[i].max);
    if (!(p->watermark >= 0 && p->watermark < 1))
        return err_set(e, ST_USAGE, "scheduler.watermark: %g is not a fraction below 1",
                       p->watermark);
    return ST_OK;
}

static enum st check_speculation(const struct serve_params *p, const struct sched_ops *sched,
                                 struct err *e)
{
    if (!(p->acceptance >= 0 && p->acceptance <= 1))
        return err_set(e, ST_USAGE, "speculation.acceptance: %g is not a probability",
                       p->acceptance);
    if (p->draft_tokens == 0 && p->acceptance != 0) {
        err_set(e, ST_USAGE,
                "speculation.acceptance: without speculation.draft_tokens nothing is drafted");
        return err_hint(e, "leave it unset");
    }
    if (p->draft_tokens == 0)
        return ST_OK;
    if (!(sched->knobs & KNOB_SPECULATION)) {
        err_set(e, ST_USAGE, "speculation.draft_tokens: policy %s has no speculation", sched->name);
        return hint_policies("policies that have", KNOB_SPECULATION, e);
    }
    if (p->prefix_caching) {
        err_set(e, ST_USAGE,
                "speculation.draft_tokens: not modelled together with scheduler.prefix_caching");
        return err_hint(e, "leave one of them unset");
    }
    return ST_OK;
}

static enum st check_disaggregation(const struct serve_params *p, const struct sched_ops *sched,
                                    struct err *e)
{
    if (p->prefill_replicas == 0) {
        const char *knob = p->kv_bandwidth_gb_s != 0 ? "cluster.kv_bandwidth_gb_s"
                           : p->kv_latency_s != 0    ? "cluster.kv_latency_s"
                                                     : NULL;
        if (!knob)
            return ST_OK;
        err_set(e, ST_USAGE, "%s: without cluster.prefill_replicas nothing is transferred", knob);
        return err_hint(e, "leave it unset");
    }
    if (!(sched->knobs & KNOB_DISAGGREGATION)) {
        err_set(e, ST_USAGE, "cluster.prefill_replicas: policy %s is not modelled in two parts",
                sched->name);
        return hint_policies("policies that are", KNOB_DISAGGREGATION, e);
    }
    if (p->prefill_replicas >= p->replicas) {
        err_set(e, ST_USAGE, "cluster.prefill_replicas: %lld of %lld replicas leave none to decode",
                (long long)p->prefill_replicas, (long long)p->replicas);
        return err_hint(e, "cluster.replicas counts both kinds");
    }
    if (!(p->kv_bandwidth_gb_s > 0) || !(p->kv_latency_s >= 0) || !(p->kv_bytes_per_token > 0)) {
        err_set(e, ST_USAGE, "cluster.prefill_replicas: the links need a bandwidth");
        return err_hint(e, "cluster.kv_bandwidth_gb_s=50 is 400 Gb/s");
    }
    return ST_OK;
}

enum st serve_check_params(const struct serve_params *p, struct err *e)
{
    const struct sched_ops *sched = p->policy ? sched_find(p->policy) : NULL;
    if (!sched)
        return unknown_policy(p->policy, e);
    const struct router_ops *router = router_find(p->router);
    if (!router)
        return unknown_router(p->router, e);
    TRY(check_ranges(p, e));
    TRY(check_knobs(p, sched, e));
    TRY(check_speculation(p, sched, e));
    TRY(check_disaggregation(p, sched, e));
    if (p->kv_groups.n && !(sched->traits & SCHED_KV_GROUPS)) {
        err_set(
            e, ST_USAGE,
            "scheduler.policy: %s has one table of KV blocks for all layers, and the model's keep "
            "different things",
            sched->name);
        return err_hint(e, "scheduler=vllm_0_33 and vllm_v1 have one for each kind of them");
    }
    if (p->kv_groups.n && (p->draft_tokens || p->prefill_replicas)) {
        err_set(e, ST_USAGE, "%s: not modelled for layers that keep different things",
                p->draft_tokens ? "speculation.draft_tokens" : "cluster.prefill_replicas");
        return err_hint(e, "leave it unset");
    }
    if (p->prefix_tokens && !router->reads_prefix) {
        err_set(e, ST_USAGE, "cluster.prefix_tokens: router %s has no such knob", router->name);
        return err_hint(e, "leave it unset");
    }
    if (p->prefix_tokens && p->prefix_caching) {
        err_set(e, ST_USAGE,
                "cluster.prefix_tokens: with scheduler.prefix_caching the router asks the caches");
        return err_hint(e, "leave it unset");
    }
    if (sched->traits & SCHED_TOKEN_BLOCKS && p->block_size != 1) {
        err_set(e, ST_USAGE, "scheduler.block_size: policy %s has blocks of one token, not %lld",
                sched->name, (long long)p->block_size);
        return err_hint(e, "scheduler.block_size=1");
    }
    return sched->check ? sched->check(p, e) : ST_OK;
}

int64_t serve_max_batch_tokens(const struct serve_params *p, int64_t longest)
{
    return sched_find(p->policy)->max_batch_tokens(p, longest);
}
