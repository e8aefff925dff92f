#include <math.h>
#include <string.h>

#include "base/contention.h"
#include "job/memory.h"
#include "job/sim.h"
#include "model/formats.h"
#include "model/shard.h"
#include "profile/read/iteration.h"
#include "sim/drafting.h"
#include "text/json.h"

/* Loads the bundle, if the predictor needs one. */
static enum st load_bundle(const struct job_context *c, const struct job_model *m,
                           struct predictor_params *params, struct err *e)
{
    const struct plan *p = c->plan;
    struct bundle *bundle;
    struct bundle_key key = job_bundle_key(c, m);
    TRY(bundle_load(c->a, &key, &bundle, e));
    params->bundle = bundle;
    params->host_overhead = p->sim.host_overhead && bundle_has_host(bundle);
    return ST_OK;
}

/* Peaks of the plan's hardware. */
struct iteration_hardware job_hardware(const struct plan *p)
{
    const double tera = 1e12, giga = 1e9;
    return (struct iteration_hardware){
        .host_speed = p->hardware.host_speed,
        .dram_bytes_per_s = p->hardware.dram_gb_per_s * giga,
        .links = {.link_bytes_per_s = p->hardware.link_gb_per_s * giga,
                  .pcie_bytes_per_s = p->hardware.pcie_gb_per_s * giga,
                  .node_bytes_per_s = p->hardware.node_gb_per_s * giga,
                  .link_gpus = p->hardware.link_gpus,
                  .node_gpus = p->hardware.gpus_per_node},
        .flop_per_s = {[PRECISION_FP32] = p->hardware.peak_tflops.fp32 * tera,
                       [PRECISION_TF32] = p->hardware.peak_tflops.tf32 * tera,
                       [PRECISION_BF16] = p->hardware.peak_tflops.bf16 * tera,
                       [PRECISION_FP16] = p->hardware.peak_tflops.fp16 * tera,
                       [PRECISION_FP8] = p->hardware.peak_tflops.fp8 * tera,
                       [PRECISION_FP4] = p->hardware.peak_tflops.fp4 * tera,
                       [PRECISION_INT8] = p->hardware.peak_tflops.int8 * tera},
    };
}

/* auto: the bundle where there is one, or where its root was named; without, the roofline if the
 * hardware has peaks. */
static const char *kind_of(const struct job_context *c, const struct job_model *m)
{
    const struct plan *p = c->plan;
    const struct bundle_key key = job_bundle_key(c, m);
    if (strcmp(p->predictor.kind, "auto") != 0)
        return p->predictor.kind;
    bool named = config_origin(c->config, "profile.root") == ORIGIN_COMMAND_LINE;
    bool peaks = p->hardware.dram_gb_per_s > 0;
    return named || !peaks || bundle_exists(c->a, &key) ? "bundle" : "roofline";
}

/* predictor.parameters over those of the predictor. */
static enum st read_parameters(const struct job_context *c, const struct predictor_ops *ops,
                               struct predictor_params *params, struct err *e)
{
    const struct node *given = c->plan->predictor.parameters;
    const struct calibrated *calibrated = params->bundle ? bundle_calibrated(params->bundle) : NULL;
    if (!given || given->n == 0)
        return ST_OK;
    if (!ops->uncalibrated && !calibrated)
        return err_set(e, ST_USAGE,
                       "predictor.parameters: predictor %s has none; roofline and calibrated "
                       "bundles have",
                       ops->name);
    struct iteration_params *all = arena_one(c->a, struct iteration_params);
    *all = calibrated
               ? calibrated_params(calibrated)
               : iteration_defaults_on(params->model->multiply, params->hardware->host_speed);
    for (uint32_t i = 0; i < given->n; i++) {
        const struct node_pair *pair = &given->pairs[i];
        enum iteration_param k;
        if (!iteration_param_find(pair->key, &k)) {
            struct buf known = {0};
            for (int j = 0; j < ITERATION_PARAMS; j++)
                buf_printf(&known, "%s%s", j ? ", " : "", iteration_param_table[j].name);
            err_set(e, ST_USAGE, "predictor.parameters: there is none called '%.*s'",
                    (int)pair->key.n, pair->key.p);
            err_hint(e, "known: %s", buf_str(&known));
            buf_free(&known);
            return e->st;
        }
        const struct iteration_param_info *info = &iteration_param_table[k];
        const char *key = arena_printf(c->a, "predictor.parameters.%s", info->name);
        if (node_to_double(pair->value, key, info->min, info->max, &all->v[k], e) != ST_OK)
            return e->st = ST_USAGE;
    }
    params->parameters = all;
    return ST_OK;
}

static enum st check_verifies(const struct plan *p, const struct predictor_ops *ops, struct err *e)
{
    if (!p->serve.draft_tokens || ops->verifies)
        return ST_OK;
    return err_set(e, ST_USAGE,
                   "speculation.draft_tokens: predictor %s knows no rows that verify drafts",
                   ops->name);
}

enum st job_predictor(const struct job_context *c, const struct job_model *m,
                      struct predictor_params *params, struct predictor *out, struct err *e)
{
    const struct plan *p = c->plan;
    const struct predictor_ops *ops;
    struct iteration_hardware *hardware = arena_one(c->a, struct iteration_hardware);
    *hardware = job_hardware(p);
    TRY(predictor_find(kind_of(c, m), &ops, e));
    *params = (struct predictor_params){.model = &m->m,
                                        .tp = p->parallel.tp,
                                        .pp = p->parallel.pp,
                                        .ep = p->parallel.ep,
                                        .expert_skew = p->parallel.expert_skew,
                                        .host_overhead = ops->uncalibrated && p->sim.host_overhead,
                                        .hardware = hardware,
                                        .tables = p->predictor.tables};
    TRY(job_launching(p, &m->m, &params->launching, e));
    if (ops->needs_bundle)
        TRY(load_bundle(c, m, params, e));
    else
        TRY(model_check_described(&m->m, arena_printf(c->a, "predictor %s", ops->name), e));
    TRY(job_memory_known(c, params->bundle, e));
    TRY(read_parameters(c, ops, params, e));
    TRY(check_verifies(p, ops, e));
    if (p->serve.draft_tokens && !node_path(c->config->tree, "speculation.acceptance")) {
        err_set(e, ST_USAGE, "speculation.draft_tokens: how many drafts are accepted is not known");
        return err_hint(e, "speculation.acceptance=0.7 accepts each, after those before it, with "
                           "that probability");
    }
    TRY(predictor_open(c->a, ops, params, out, e));
    TRY(check_verifies(p, out->ops, e)); /* what the bundle holds */
    if (p->serve.draft_tokens)
        *out = predictor_drafting(c->a, out, p->serve.draft_cost);
    return ST_OK;
}

const char *job_predictor_uncalibrated(const struct job_context *c, const struct predictor *p)
{
    if (!p->ops->uncalibrated)
        return NULL;
    return arena_printf(c->a,
                        "uncalibrated: times are a roofline of %s's peak rates with default "
                        "efficiencies; no measurement stands behind them",
                        c->plan->hardware.id);
}

const char *job_predictor_disturbed(const struct job_context *c,
                                    const struct predictor_params *params)
{
    if (!params->bundle)
        return NULL;
    const struct contention busy = contention_of(bundle_meta(params->bundle), "contention");
    const double share = contention_share(&busy);
    if (!(share > CONTENTION_TOO_MUCH))
        return NULL;
    return arena_printf(c->a,
                        "the bundle was measured while something else had the machine: for %.0f %% "
                        "of the time the profile needed a core, it had none. Its times are too "
                        "long, and rates from them too low: profile again on an idle machine",
                        100 * fmin(share, 1));
}

const char *job_predictor_placement(const struct job_context *c, const struct predictor *p)
{
    const struct plan *plan = c->plan;
    const int64_t devices = shard_devices(plan->parallel.tp, plan->parallel.ep) * plan->parallel.pp;
    if (!p->ops->uncalibrated || plan->hardware.gpus_per_node || devices <= 1)
        return NULL;
    return arena_printf(
        c->a,
        "hardware.gpus_per_node is not set: the %lld devices of a replica are taken "
        "to be in one node",
        (long long)devices);
}

const char *job_predictor_warning(const struct job_context *c,
                                  const struct predictor_params *params)
{
    static const char no_host[] =
        "the bundle has no host overhead per iteration: simulated times are device times alone "
        "and will be too short";
    static const char draft[] = "scheduler.num_blocks was planned from the device's memory without "
                                "the draft model's weights and keys";
    const struct plan *p = c->plan;
    const bool lacks_host = params->bundle && p->sim.host_overhead && !params->host_overhead;
    const bool lacks_draft =
        p->serve.draft_tokens && !p->serve.num_blocks && p->hardware.memory_gb > 0;
    if (lacks_host && lacks_draft)
        return arena_printf(c->a, "%s; %s", no_host, draft);
    return lacks_host ? no_host : lacks_draft ? draft : NULL;
}

/* The value of a key of the configuration as a person would type it. */
static const char *typed(struct arena *a, const struct node *n)
{
    if (!n || n->kind == NODE_NULL)
        return "nothing";
    if (n->kind == NODE_STR)
        return arena_printf(a, "%.*s", (int)n->s.n, n->s.p);
    struct buf text = {0};
    json_write(&text, n, 0, true);
    const char *s = arena_str(a, buf_str(&text));
    buf_free(&text);
    return s;
}

const char *job_predictor_settings(const struct job_context *c,
                                   const struct predictor_params *params)
{
    const struct node *stated = params->bundle ? bundle_settings(params->bundle) : NULL;
    const char *list = "";
    for (uint32_t i = 0; stated && stated->kind == NODE_MAP && i < stated->n; i++) {
        const char *key = arena_strn(c->a, stated->pairs[i].key.p, stated->pairs[i].key.n);
        const char *holds = typed(c->a, stated->pairs[i].value);
        const char *has = typed(c->a, node_path(c->config->tree, key));
        if (strcmp(holds, has) != 0)
            list =
                arena_printf(c->a, "%s%s%s=%s (here %s)", list, *list ? ", " : "", key, holds, has);
    }
    return *list ? arena_printf(c->a, "the bundle's times hold for other settings: %s", list)
                 : NULL;
}

void job_predictor_async(const struct job_context *c, const struct predictor_params *params,
                         struct serve_params *serve)
{
    if (params->bundle && bundle_overlaps(params->bundle) &&
        config_origin(c->config, "scheduler.async_scheduling") <= ORIGIN_DEFAULT)
        serve->own_async = ASYNC_OVERLAP;
}

/* NULL = none. */
static const struct request_overheads *overheads_of(const struct job_context *c,
                                                    const struct predictor_params *params)
{
    switch ((enum request_overheads_from)c->plan->predictor.request_overheads) {
    case OVERHEADS_SERVER:
        return &request_overheads_server;
    case OVERHEADS_NONE:
        return NULL;
    case OVERHEADS_BUNDLE:
        break;
    }
    return params->bundle ? bundle_overheads(params->bundle) : NULL;
}

/* Our own engines keep every block of every layer; a worker's engine may do otherwise. */
static bool keeps_every_block(const struct job_context *c, const struct predictor_params *params)
{
    const struct node *meta = params->bundle ? bundle_meta(params->bundle) : NULL;
    return meta && node_find(meta, "device") && !node_find(meta, "worker") &&
           config_origin(c->config, "scheduler.hybrid_kv_cache") <= ORIGIN_DEFAULT;
}

enum st job_predictor_blocks(const struct job_context *c, const struct predictor_params *params,
                             struct serve_params *serve, struct engine_plan *plan, struct err *e)
{
    struct plan whole = *c->plan;
    struct serve_params again;
    if (serve->kv_groups.n == 0 || !whole.serve.hybrid_kv_cache || !keeps_every_block(c, params))
        return ST_OK;
    log_info("the bundle was measured on an engine that keeps every block of every layer: so does "
             "this one; scheduler.hybrid_kv_cache=true frees those behind windows");
    whole.serve.hybrid_kv_cache = false;
    TRY(job_serve_params(&whole, params->model, NULL, &again, plan, e));
    serve->kv_groups = again.kv_groups;
    serve->num_blocks = again.num_blocks;
    serve->batch_cap = again.batch_cap;
    return ST_OK;
}

enum st job_predictor_serving(const struct job_context *c, const struct predictor_params *params,
                              struct serve_params *serve, struct engine_plan *plan, struct err *e)
{
    const struct request_overheads *o = overheads_of(c, params);
    job_predictor_async(c, params, serve);
    TRY(job_predictor_blocks(c, params, serve, plan, e));
    if (o)
        serve->overheads = (struct serve_overheads){.front_s = o->front_s,
                                                    .first_token_s = o->first_token_s,
                                                    .prompt_token_s = o->prompt_token_s,
                                                    .completion_s = o->completion_s,
                                                    .stream_s = o->stream_s};
    return ST_OK;
}

/* Parameters and peaks of the iteration model, where that predicts. */
static struct node *model_node(struct arena *a, const struct predictor_params *params)
{
    const struct calibrated *c = params->bundle ? bundle_calibrated(params->bundle) : NULL;
    const struct iteration_hardware *hw = c ? &c->hardware : params->hardware;
    struct iteration_params p =
        c ? calibrated_params(c) : iteration_defaults_on(params->model->multiply, hw->host_speed);
    struct node *n = node_new(a, NODE_MAP), *values = node_new(a, NODE_MAP);
    struct node *peaks = node_new(a, NODE_MAP), *tflops = node_new(a, NODE_MAP);
    if (params->parameters)
        p = *params->parameters;
    for (int i = 0; i < ITERATION_PARAMS; i++)
        node_set(a, values, sv_of(iteration_param_table[i].name), node_float(a, p.v[i]));
    for (int i = 0; i < PRECISIONS; i++)
        if (hw->flop_per_s[i] > 0)
            node_set(a, tflops, sv_of(precision_name((enum precision)i)),
                     node_float(a, hw->flop_per_s[i] / 1e12));
    node_set(a, peaks, SV("dram_gb_per_s"), node_float(a, hw->dram_bytes_per_s / 1e9));
    node_set(a, peaks, SV("link_gb_per_s"), node_float(a, hw->links.link_bytes_per_s / 1e9));
    node_set(a, peaks, SV("peak_tflops"), tflops);
    node_set(a, n, SV("formats"), node_str(a, formats_words(a, params->model)));
    node_set(a, n, SV("parameters"), values);
    node_set(a, n, SV("peaks"), peaks);
    if (params->launching.mode != LAUNCHING_UNTOLD) {
        node_set(a, n, SV("cuda_graphs"), node_str(a, launching_mode_name(params->launching.mode)));
        node_set(a, n, SV("graph_tokens"), node_int(a, params->launching.tokens));
    }
    return n;
}

void job_predictor_facts(const struct job_context *c, const struct predictor_params *params,
                         const struct predictor *p, struct node *extra)
{
    struct arena *a = c->a;
    const char *root = job_profiling_root(c, params);
    const struct request_overheads *o = overheads_of(c, params);
    bool calibrated = params->bundle && bundle_calibrated(params->bundle);
    node_set(a, extra, SV("profiling_root"), root ? node_str(a, root) : node_new(a, NODE_NULL));
    node_set(a, extra, SV("predictor"), node_str(a, p->ops->name));
    node_set(a, extra, SV("host_overhead"), node_bool(a, params->host_overhead));
    if (p->ops->uncalibrated)
        node_set(a, extra, SV("uncalibrated"), node_bool(a, true));
    if (p->ops->uncalibrated || calibrated)
        node_set(a, extra, SV("iteration_model"), model_node(a, params));
    if (o)
        node_set(a, extra, SV("request_overheads"), fields_node(a, &request_overheads_fields, o));
}

const char *job_profiling_root(const struct job_context *c, const struct predictor_params *params)
{
    return params->bundle ? bundle_root(params->bundle) : c->plan->predictor.tables;
}
