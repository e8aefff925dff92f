#include "job/memory.h"

#include <string.h>

#include "model/shard.h"
#include "serve/sched/sched.h"

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

/* Batches that are out at once. */
static int64_t batches_out(const struct plan *p, const struct serve_params *s)
{
    return at_least_one(p->parallel.pp) + (serve_async_of(s) != ASYNC_OFF);
}

/* Most tokens of them. */
static int64_t in_flight_tokens(const struct plan *p, const struct serve_params *s)
{
    const struct sched_ops *sched = s->policy ? sched_find(s->policy) : NULL;
    return sched ? batches_out(p, s) * sched->max_batch_tokens(s, s->max_model_len) : 0;
}

/* Blocks that a request of so many tokens holds at most. */
static int64_t request_blocks(const struct plan *p, const struct serve_params *s, int64_t tokens)
{
    if (s->kv_groups.n)
        return at_least_one(kv_groups_needed(&s->kv_groups, tokens, in_flight_tokens(p, s)));
    return (tokens + s->block_size - 1) / s->block_size;
}

double job_requests_held(const struct plan *p, const struct serve_params *s, int64_t blocks,
                         int64_t tokens)
{
    const int64_t spare = kv_groups_spare(&s->kv_groups, batches_out(p, s));
    return blocks > spare ? (double)(blocks - spare) / (double)request_blocks(p, s, tokens) : 0;
}

int64_t job_kv_tokens(const struct plan *p, const struct serve_params *s)
{
    if (!s->kv_groups.n || !s->max_model_len)
        return s->num_blocks * s->block_size;
    return (int64_t)(job_requests_held(p, s, s->num_blocks, s->max_model_len) *
                     (double)s->max_model_len);
}

/* What the planner looks at. The longest batch is asked of the policy, once that is known. */
static struct memory_facts facts(const struct plan *p, const struct model *m,
                                 const struct sched_ops *sched, const struct serve_params *s)
{
    const double used = p->serve.gpu_memory_utilization;
    return (struct memory_facts){
        .rule = p->serve.memory_plan,
        .hardware_id = p->hardware.id,
        .memory_gb = p->hardware.memory_gb,
        .reserved_gb = p->hardware.reserved_gb,
        .margin = p->hardware.memory_margin,
        .utilization = used > 0 ? used : 1 - p->hardware.memory_margin,
        .nvlink = p->hardware.link_gb_per_s > p->hardware.pcie_gb_per_s,
        .model = m,
        .tp = at_least_one(p->parallel.tp),
        .pp = at_least_one(p->parallel.pp),
        .ep = p->parallel.ep,
        .block_size = s->block_size,
        .request_tokens = s->max_model_len,
        .batch_cap = s->batch_cap,
        .batch_tokens = sched ? sched->max_batch_tokens(s, s->max_model_len) : 0,
        .in_flight = in_flight_tokens(p, s),
        .num_blocks = p->serve.num_blocks,
        .cache_bytes = (int64_t)(p->hardware.kv_cache_gb * (INT64_C(1) << 30)),
    };
}

/* vLLM's choice of kernels (vllm/platforms/cuda.py, _get_backend_priorities). */
static enum kv_packing packing_of(const struct plan *p)
{
    const int major = (int)p->hardware.compute_capability;
    return major == 10 ? KV_PACK_FP4 : major == 12 ? KV_PACK_ALWAYS : KV_PACK_QUANTIZED;
}

static bool is_family(const struct model *m, const char *a, const char *b)
{
    const char *family = m->structure ? m->structure->family : "";
    return strcmp(family, a) == 0 || strcmp(family, b) == 0;
}

/* vLLM's own choice for some models: GLM's on data-centre Blackwell (vllm/model_executor/models/
 * config.py, GlmMoeDsaForCausalLM), DeepSeek V4's everywhere (models/deepseek_v4/attention.py). */
const char *job_memory_fp8(struct arena *a, const struct plan *p, const struct model *m)
{
    const struct sched_ops *sched = p->serve.policy ? sched_find(p->serve.policy) : NULL;
    const bool glm = is_family(m, "glm_moe_dsa", "glm5_next_text") &&
                     (int)p->hardware.compute_capability == 10 && !p->model.kv_dtype;
    if (m->kv == PRECISION_FP8 || !sched || !(sched->traits & SCHED_KV_GROUPS) ||
        !(glm || is_family(m, "deepseek_v4", "deepseek_ref")))
        return NULL;
    return arena_printf(a,
                        "model %s: vLLM keeps its keys and values in FP8%s, and times here are of "
                        "%s: model.kv_dtype=fp8",
                        m->name, glm ? " on such a GPU unless told otherwise" : "",
                        precision_name(m->kv));
}

/* KV groups of a model whose layers differ. Engines that compute, and policies with one table of
 * blocks, keep what a window no longer shows. */
static enum st make_groups(struct arena *a, const struct plan *p, const struct model *m,
                           bool computes, const struct sched_ops *sched,
                           const struct serve_params *s, struct kv_groups *out, struct err *e)
{
    struct structure shard;
    const bool tables = !computes && sched && sched->traits & SCHED_KV_GROUPS;
    const struct kv_settings set = {.block_size = s->block_size,
                                    .element_bytes = precision_bytes(m->kv),
                                    .state_bytes = precision_bytes(m->dtype),
                                    .packing = packing_of(p),
                                    .max_model_len =
                                        s->max_model_len ? s->max_model_len : INT32_MAX,
                                    .prefix_caching = s->prefix_caching,
                                    .hybrid = p->serve.hybrid_kv_cache,
                                    .keeps_all = !tables};
    structure_shard(m->structure, at_least_one(p->parallel.tp), &shard);
    TRY(kv_groups_make(a, m->name, &shard, &set, out, e));
    if (tables || kv_groups_plain(out))
        return ST_OK;
    err_set(
        e, ST_USAGE,
        "scheduler.policy: %s has one table of KV blocks for all layers, and model %s keeps states "
        "beside them",
        sched ? sched->name : "", m->name);
    return err_hint(e, "scheduler=vllm_0_33 and vllm_v1 have one for each kind of layer");
}

enum st job_memory(const struct plan *p, const struct model *m, const struct engine *engine,
                   struct serve_params *s, struct engine_plan *plan, struct err *e)
{
    const struct sched_ops *sched = s->policy ? sched_find(s->policy) : NULL;
    const bool computes = engine && !(engine->needs & ENGINE_PREDICTOR);
    const bool vidur =
        p->serve.memory_plan == MEMORY_VIDUR && !(sched && sched->traits & SCHED_KV_GROUPS);
    struct memory_facts f = facts(p, m, sched, s);
    struct kv_groups groups = {0};
    struct arena *a = arena_new();
    enum st st = ST_OK;
    if (m->layered && !vidur) { /* Vidur's planner counts requests */
        st = make_groups(a, p, m, computes, sched, s, &groups, e);
        f.groups = &groups;
        if (st == ST_OK && p->serve.memory_plan == MEMORY_VIDUR && !kv_groups_plain(&groups))
            st = err_hint((err_set(e, ST_USAGE,
                                   "scheduler.memory_plan: vidur counts blocks of all layers, and "
                                   "model %s has KV groups with blocks of their own under %s",
                                   m->name, sched ? sched->name : ""),
                           e),
                          "scheduler.memory_plan=vllm counts those");
    }
    if (st == ST_OK)
        st = (engine ? engine->plan : engine_plan_simulated)(&p->engine, &f, plan, e);
    arena_free(&a);
    TRY(st);
    groups.pages = NULL;
    if (!kv_groups_plain(&groups))
        s->kv_groups = groups;
    s->num_blocks = plan->memory.num_blocks;
    bool planned = p->serve.num_blocks == 0 && p->hardware.memory_gb > 0;
    if (sched && sched->traits & SCHED_NULL_BLOCK && planned && s->num_blocks > 1)
        s->num_blocks--;
    if (sched && sched->traits & SCHED_PLANNED_BATCH && plan->memory.max_batch < s->batch_cap)
        s->batch_cap = plan->memory.max_batch;
    if (plan->memory.most_requests && plan->memory.most_requests < s->batch_cap)
        s->batch_cap = plan->memory.most_requests;
    return ST_OK;
}

static bool profiled_on_cpu(const struct bundle *b)
{
    const struct node *meta = b ? bundle_meta(b) : NULL;
    const struct node *device = meta ? node_path(meta, "device") : NULL;
    return device && device->kind == NODE_STR && sv_eq(device->s, "cpu");
}

enum st job_memory_known(const struct job_context *c, const struct bundle *bundle, struct err *e)
{
    const struct plan *p = c->plan;
    const char *id = p->hardware.id;
    if (p->serve.num_blocks || p->hardware.memory_gb > 0 ||
        config_origin(c->config, "hardware.kv_cache_gb") == ORIGIN_COMMAND_LINE)
        return ST_OK;
    return (id && strcmp(id, "cpu") == 0) || profiled_on_cpu(bundle)
               ? ST_OK
               : engine_memory_unknown(p->hardware.id, e);
}

static void add(struct arena *a, struct node *out, const char *key, double bytes)
{
    if (bytes > 0)
        node_set(a, out, sv_of(key), node_int(a, (int64_t)bytes));
}

void job_memory_meta(struct arena *a, const struct plan *p, const struct memory_plan *m,
                     struct node *extra)
{
    static const char *const rules[] = {[MEMORY_VIDUR] = "vidur", [MEMORY_VLLM] = "vllm"};
    struct node *out = node_new(a, NODE_MAP);
    if (p->serve.num_blocks || !(p->hardware.memory_gb > 0))
        return;
    node_set(a, out, SV("rule"), node_str(a, rules[p->serve.memory_plan]));
    add(a, out, "usable_bytes", m->usable_bytes);
    add(a, out, "weight_bytes", m->weight_bytes);
    add(a, out, "activation_bytes", m->activation_bytes);
    add(a, out, "graph_bytes", m->graph_bytes);
    add(a, out, "other_bytes", m->other_bytes);
    add(a, out, "cache_bytes", m->cache_bytes);
    node_set(a, out, SV("num_blocks"), node_int(a, m->num_blocks));
    node_set(a, extra, SV("memory_plan"), out);
}
