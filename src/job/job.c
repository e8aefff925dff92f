#include "job/job.h"

#include <math.h>
#include <string.h>

#include "artifact/artifact.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "job/memory.h"
#include "model/formats.h"
#include "model/hub.h"
#include "model/opaque.h"
#include "serve/sched/sched.h"
#include "text/json.h"
#include "text/yaml.h"

const char *job_out_dir(const struct job_context *c, const char *kind, const char **id)
{
    struct node *tree = node_copy(c->a, c->config->tree);
    node_remove(tree, SV("out"));
    struct buf text = {0};
    yaml_write(&text, tree);
    const char *part = arena_str(c->a, buf_str(&text));
    buf_free(&text);
    const char *made = hash_stable_id(c->a, kind, &part, 1);
    if (c->plan->out) {
        *id = fs_base(c->plan->out);
        return c->plan->out;
    }
    *id = made;
    return arena_printf(c->a, "runs/%s/%s", kind, made);
}

static enum st find_weights(const struct job_context *c, struct job_model *m, struct err *e)
{
    const char *how = c->plan->model.weights;
    static const char random[] = "random:";
    if (how && strncmp(how, random, sizeof random - 1) == 0) {
        int64_t seed;
        if (!str_int64(sv_of(how + sizeof random - 1), &seed) || seed < 0)
            return err_set(e, ST_USAGE, "model.weights: '%s': expected random:<seed>", how);
        m->weights_seed = (uint64_t)seed;
        m->weights_random = true;
        return ST_OK;
    }
    m->weights_dir = how ? how : m->dir;
    if (m->weights_dir &&
        (fs_exists(fs_join(c->a, m->weights_dir, "model.safetensors")) ||
         fs_exists(fs_join(c->a, m->weights_dir, "model.safetensors.index.json"))))
        return ST_OK;
    err_set(e, ST_INPUT, "model %s has no weights%s%s", m->m.name, m->weights_dir ? " in " : "",
            m->weights_dir ? m->weights_dir : "");
    return err_hint(e, "model.weights=random:1 takes seeded random ones (timing is the same)");
}

/* Adds eos ids: chat models list more of them there than in config.json. */
static enum st add_generation_config(const struct job_context *c, struct job_model *m,
                                     struct err *e)
{
    const char *path = fs_join(c->a, m->dir, "generation_config.json");
    struct node *tree;
    if (!fs_exists(path))
        return ST_OK;
    TRY(json_load(c->a, path, NULL, &tree, e));
    return model_add_eos(&m->m, tree, e);
}

/* A name alone is no model: it has no dimensions. */
static enum st no_model(const struct plan *p, struct err *e)
{
    if (p->model.hub)
        err_set(e, ST_INPUT, "model.hub: no configuration that ships or is yours is of %s",
                p->model.hub);
    else if (p->model.name)
        err_set(e, ST_INPUT, "model.name: %s names a model, and chooses none", p->model.name);
    else
        err_set(e, ST_INPUT, "no model was named");
    return err_hint(e,
                    "model=NAME takes one of configs/model, model=ORG/NAME one of the hub's cache "
                    "on this machine, model.ref=DIR a folder with config.json");
}

enum st job_model_check(const struct job_model *m, struct err *e)
{
    TRY(model_check_modelled(&m->m, e));
    if (m->m.stored && m->m.stored->note)
        log_warn("model %s: %s", m->m.name, m->m.stored->note);
    return ST_OK;
}

enum st job_model(const struct job_context *c, bool need_weights, struct job_model *out,
                  struct err *e)
{
    TRY(job_model_described(c, out, e));
    TRY(job_model_check(out, e));
    return need_weights ? find_weights(c, out, e) : ST_OK;
}

/* The folder that model.ref names: one on this machine, else one of the hub's cache. */
static enum st find_folder(const struct job_context *c, struct job_model *m, const char **name,
                           struct err *e)
{
    const char *ref = c->plan->model.ref;
    struct hub_snapshot found;
    m->dir = ref;
    if (fs_exists(ref) || !hub_is_name(ref)) {
        if (!*name)
            *name = model_folder_name(c->a, ref);
        return ST_OK;
    }
    TRY(hub_find(c->a, ref, &found, e));
    m->dir = found.dir;
    m->hub = m->hub ? m->hub : found.name;
    m->m.source = arena_printf(c->a, "%s@%s", found.name, found.commit);
    if (found.bare)
        log_info("model %s: config.json alone is in the cache; a checkpoint of ModelOpt has "
                 "hf_quant_config.json beside it",
                 found.name);
    if (!*name)
        *name = fs_base(found.name);
    return ST_OK;
}

/* By the sizes of the plan. */
static enum st opaque_of(const struct job_context *c, struct job_model *out, struct err *e)
{
    const struct plan *p = c->plan;
    const double gib = 1024.0 * 1024 * 1024;
    const struct opaque sizes = {
        .weight_bytes = p->model.weights_gb * gib,
        .kv_bytes = p->model.kv_bytes_per_token,
        .window_kv_bytes = p->model.window_kv_bytes_per_token,
        .window = p->model.window,
        .state_bytes = p->model.state_bytes_per_sequence,
        .kv_heads = p->model.kv_heads,
        .layers = p->model.layers,
        .workspace_bytes = p->model.workspace_gb * gib,
    };
    if (p->model.ref || (p->model.config && p->model.config->n)) {
        err_set(e, ST_USAGE, "model.weights_gb: model %s has a configuration, which says its sizes",
                p->model.name  ? p->model.name
                : p->model.ref ? p->model.ref
                               : "");
        return err_hint(e, "leave either out; ~model leaves a group out");
    }
    if (!p->model.name)
        return err_hint((err_set(e, ST_USAGE,
                                 "model.name: not set: nothing else tells a model of "
                                 "sizes alone from others"),
                         e),
                        "model.name=NAME gives it one");
    *out = (struct job_model){.hub = p->model.hub, .tokenizer = p->model.tokenizer};
    return opaque_model(c->a, p->model.name, &sizes, &out->m, e);
}

enum st job_model_described(const struct job_context *c, struct job_model *out, struct err *e)
{
    const struct plan *p = c->plan;
    struct node *side = NULL;
    if (p->model.weights_gb > 0)
        return opaque_of(c, out, e);
    *out = (struct job_model){.hub = p->model.hub, .config = p->model.config};
    const char *name = p->model.name, *source = NULL;
    if (p->model.ref) {
        TRY(find_folder(c, out, &name, e));
        source = out->m.source; /* of a model that is read anew below */
        TRY(artifact_refuse_partial(out->dir, e));
        const char *path = fs_join(c->a, out->dir, "config.json");
        const struct json_limits limits = {.python = true}; /* time_step_limit: [0, Infinity] */
        struct node *tree;
        TRY(json_load(c->a, path, &limits, &tree, e));
        TRY(formats_load_side(c->a, out->dir, &side, e));
        out->config = tree;
    } else if (!out->config || out->config->n == 0) {
        return no_model(p, e);
    }
    if (model_read_as(c->a, name ? name : "model", out->config, side, p->model.family, &out->m,
                      e) != ST_OK)
        return err_add(e, "model %s", name ? name : "");
    out->m.source = source;
    TRY(formats_set(&out->m, p->model.dtype, p->model.kv_dtype, e));
    if (out->dir)
        TRY(add_generation_config(c, out, e));
    out->tokenizer = p->model.tokenizer;
    if (!out->tokenizer && out->dir) {
        const char *path = fs_join(c->a, out->dir, "tokenizer.json");
        if (fs_exists(path))
            out->tokenizer = path;
    }
    return ST_OK;
}

/* Ignores the model of a shipped configuration: it is no evidence of the server's model. */
const char *job_answer_tokenizer(const struct job_context *c, const struct job_model *m)
{
    static const char group[] = "model=";
    if (c->plan->client.counter_id)
        return c->plan->client.counter_id;
    bool named = config_origin(c->config, "model.tokenizer") == ORIGIN_COMMAND_LINE ||
                 config_origin(c->config, "model.ref") == ORIGIN_COMMAND_LINE;
    for (size_t i = 0; i < c->config->n_overrides; i++)
        named = named || strncmp(c->config->overrides[i], group, sizeof group - 1) == 0;
    return named ? m->tokenizer : NULL;
}

enum st job_tokenizer(const struct job_model *m, const char *why, struct tokenizer **out,
                      struct err *e)
{
    if (*out)
        return ST_OK;
    if (!m->tokenizer) {
        err_set(e, ST_INPUT, "%s needs a tokenizer and model %s has none", why, m->m.name);
        return err_hint(e,
                        "model.tokenizer=PATH names a tokenizer.json; workload.lengths.kind=fixed "
                        "needs none");
    }
    return tokenizer_load(m->tokenizer, out, e);
}

uint64_t job_prompts_seed(const struct plan *p)
{
    return (uint64_t)(p->workload.prompts_seed ? p->workload.prompts_seed : p->seed);
}

struct workload_params job_arrivals(const struct plan *p)
{
    struct workload_params w = p->workload.make;
    w.seed = (uint64_t)p->seed;
    return w;
}

enum st job_stages(const struct job_context *c, struct workload_params *w, struct err *e)
{
    const struct plan *p = c->plan;
    const struct texts *given = &p->workload.rate_stages;
    struct rate_stage *ramp;
    if (p->workload.ramp_s > 0) {
        ramp = arena_one(c->a, struct rate_stage);
        *ramp = (struct rate_stage){p->workload.ramp_s, 0, w->rate};
        w->stages = ramp;
        w->n_stages = 1;
        return ST_OK;
    }
    TRY(stages_parse(c->a, given->items, given->n, &ramp, e));
    w->stages = ramp;
    w->n_stages = given->n;
    return ST_OK;
}

/* The plan's closed loop, which takes the place of that of a workload directory. */
static enum st get_concurrency(const struct job_context *c, struct workload *w, struct err *e)
{
    const struct plan *p = c->plan;
    const struct texts *stages = &p->workload.concurrency_stages;
    if (stages->n)
        return concurrency_parse(c->a, stages->items, stages->n, &w->concurrency, e);
    if (p->workload.concurrency)
        w->concurrency =
            concurrency_of(c->a, p->workload.concurrency, p->workload.concurrency_ramp_s);
    return ST_OK;
}

/* Logs the note now and keeps it for the result. */
static void say(const struct job_context *c, struct job_workload *w, const char *note)
{
    log_warn("%s", note);
    w->note = w->note ? arena_printf(c->a, "%s; %s", w->note, note) : note;
}

static enum st make_workload(const struct job_context *c, const struct job_model *m, bool stream,
                             struct job_workload *out, struct err *e)
{
    const struct plan *p = c->plan;
    if (p->workload.prompts)
        TRY(prompts_load(c->a, p->workload.prompts, &out->prompts, &out->n_prompts, e));
    if (p->workload.prompts && out->n_prompts == 0)
        return err_set(e, ST_INPUT, "%s has no prompts", p->workload.prompts);
    bool asked = config_origin(c->config, "workload.lengths.kind") == ORIGIN_COMMAND_LINE;
    if (p->workload.make.lengths_kind == LENGTHS_TOKENIZER && (m->tokenizer || asked))
        TRY(job_tokenizer(m, "workload.lengths.kind=tokenizer", &out->tokenizer, e));
    else if (p->workload.make.lengths_kind == LENGTHS_TOKENIZER)
        say(c, out,
            arena_printf(c->a,
                         "model %s has no tokenizer: a prompt is taken to have a token for each %d "
                         "bytes of its text",
                         m->m.name, (int)WORKLOAD_TOKEN_BYTES));
    struct workload_params w = job_arrivals(p);
    if (p->workload.concurrency || p->workload.concurrency_stages.n)
        w.arrival_kind = ARRIVAL_STATIC; /* what starts when is decided as it runs */
    else
        TRY(job_stages(c, &w, e));
    if (w.duration_s > 0 && /* a group's number of requests does not limit an explicit duration */
        config_origin(c->config, "workload.num_requests") != ORIGIN_COMMAND_LINE)
        w.num_requests = 0;
    w.prompts = out->prompts;
    w.n_prompts = out->n_prompts;
    w.tokenizer = out->tokenizer;
    return stream ? workload_stream_make(&w, &out->stream, e) : workload_make(c->a, &w, &out->w, e);
}

static enum st settled(struct job_workload *w, enum st st, struct err *e)
{
    if (st == ST_OK)
        return ST_OK;
    job_workload_close(w);
    return err_add(e, "cannot get the workload");
}

enum st job_workload(const struct job_context *c, const struct job_model *m, bool need_ids,
                     struct job_workload *out, struct err *e)
{
    const struct plan *p = c->plan;
    *out = (struct job_workload){0};
    enum st st = ST_OK;
    if (p->workload.dir) {
        st = workload_load(c->a, p->workload.dir, &out->w, e);
        if (st == ST_OK && need_ids)
            st = prompts_load(c->a, out->w.prompts, &out->prompts, &out->n_prompts, e);
    } else if (p->workload.trace) {
        st = workload_load_trace(c->a, p->workload.trace, &out->w, e);
    } else {
        st = make_workload(c, m, false, out, e);
    }
    if (st == ST_OK)
        st = get_concurrency(c, &out->w, e);
    if (st == ST_OK && need_ids && out->n_prompts > 0 && m->tokenizer)
        st = job_tokenizer(m, "a workload with prompts", &out->tokenizer, e);
    else if (st == ST_OK && need_ids && out->n_prompts > 0)
        say(c, out,
            arena_printf(c->a,
                         "model %s has no tokenizer: prompts are random token ids, as many as the "
                         "workload says",
                         m->m.name));
    return settled(out, st, e);
}

enum st job_workload_stream(const struct job_context *c, const struct job_model *m,
                            struct job_workload *out, struct err *e)
{
    const struct plan *p = c->plan;
    *out = (struct job_workload){.w.dir = p->workload.dir};
    enum st st = ST_OK;
    if (p->workload.dir)
        st = workload_stream_dir(p->workload.dir, &out->stream, e);
    else if (p->workload.trace)
        st = workload_stream_trace(p->workload.trace, &out->stream, e);
    else
        st = make_workload(c, m, true, out, e);
    if (st == ST_OK) {
        out->w.concurrency = workload_stream_concurrency(out->stream);
        st = get_concurrency(c, &out->w, e);
    }
    return settled(out, st, e);
}

void job_workload_close(struct job_workload *w)
{
    tokenizer_free(&w->tokenizer);
    workload_stream_close(&w->stream);
}

/* Scales the batch cap where Vidur's is per stage: a replica may hold one such batch per stage. */
static void cap_each_stage(const struct plan *p, struct serve_params *out)
{
    const struct sched_ops *sched = out->policy ? sched_find(out->policy) : NULL;
    if (sched && sched->traits & SCHED_PLANNED_BATCH && p->parallel.pp > 1)
        out->batch_cap *= p->parallel.pp;
}

/* How batches are launched has to be known whole. */
static enum st check_launching(const struct plan *p, const struct launching *l, struct err *e)
{
    if (l->mode == LAUNCHING_UNTOLD && l->tokens > 0) {
        err_set(e, ST_USAGE,
                "scheduler.graph_tokens: scheduler.policy=%s does not say which "
                "batches are CUDA graphs",
                p->serve.policy);
        return err_hint(e, "scheduler.cuda_graphs=full_and_piecewise, or another of its values");
    }
    if (l->mode != LAUNCHING_UNTOLD && l->mode != LAUNCHING_NONE && l->tokens == 0) {
        err_set(e, ST_USAGE,
                "scheduler.graph_tokens: not set: scheduler.policy=%s does not say "
                "how large a batch is captured as a CUDA graph",
                p->serve.policy);
        return err_hint(e, "scheduler.graph_tokens=TOKENS: as the engine was started");
    }
    return ST_OK;
}

/* What an engine sets by the hardware where it was not given. */
static enum st engine_defaults(const struct plan *p, struct serve_params *out, struct err *e)
{
    const struct sched_ops *sched = out->policy ? sched_find(out->policy) : NULL;
    const struct sched_hardware hw = {.id = p->hardware.id,
                                      .memory_gb = p->hardware.memory_gb,
                                      .devices = (p->parallel.tp > 0 ? p->parallel.tp : 1) *
                                                 (p->parallel.pp > 0 ? p->parallel.pp : 1)};
    if (sched && sched->defaults)
        TRY(sched->defaults(out, &hw, e));
    return check_launching(p, &out->launching, e);
}

static int64_t longest_sequence(const struct plan *p, const struct model *m)
{
    return p->serve.max_model_len ? p->serve.max_model_len : m->max_positions;
}

enum st job_launching(const struct plan *p, const struct model *m, struct launching *out,
                      struct err *e)
{
    struct serve_params s = p->serve;
    s.max_model_len = longest_sequence(p, m);
    TRY(engine_defaults(p, &s, e));
    *out = s.launching;
    return ST_OK;
}

enum st job_serve_params(const struct plan *p, const struct model *m, const struct engine *engine,
                         struct serve_params *out, struct engine_plan *plan, struct err *e)
{
    struct engine_plan unread;
    if (m->opaque && !p->serve.max_model_len)
        return err_hint((err_set(e, ST_USAGE,
                                 "scheduler.max_model_len: not set: the sizes of model %s hold no "
                                 "longest sequence",
                                 m->name),
                         e),
                        "scheduler.max_model_len=TOKENS: as its server was started with");
    *out = p->serve;
    out->kv_bytes_per_token = model_kv_bytes(m);
    out->spans = model_spans(m);
    out->max_model_len = longest_sequence(p, m);
    out->seed = (uint64_t)p->seed;
    out->warmup_requests = p->workload.warmup_requests;
    out->emit_tokens = p->output.tokens == OUTPUT_FULL;
    TRY(engine_defaults(p, out, e));
    TRY(job_memory(p, m, engine, out, plan ? plan : &unread, e));
    cap_each_stage(p, out);
    if (job_left_out(p, engine))
        out->async = ASYNC_OFF;
    return ST_OK;
}

const char *job_left_out(const struct plan *p, const struct engine *engine)
{
    if (!engine || engine->needs & ENGINE_PREDICTOR || p->serve.async == ASYNC_OFF)
        return NULL;
    if (engine->overlaps)
        return "scheduler.async_scheduling: this engine launches a batch while the one before "
               "runs, "
               "always; a simulation of it is one with its own bundle, which says so";
    return "scheduler.async_scheduling: this engine runs one batch after the other; a simulation "
           "of it is one with scheduler.async_scheduling=off";
}

/* The measured bundles that ship with the hardware, where profile.root was not chosen, has no
 * bundle, and one of them holds the model as it is asked for. */
static bool takes_shipped(const struct job_context *c, struct bundle_key key)
{
    struct bundle *b;
    struct err ignored = {0};
    if (!c->plan->hardware.profile_root ||
        config_origin(c->config, "profile.root") > ORIGIN_DEFAULT || bundle_exists(c->a, &key))
        return false;
    key.root = c->plan->hardware.profile_root;
    const bool holds = bundle_exists(c->a, &key) && bundle_load(c->a, &key, &b, &ignored) == ST_OK;
    err_clear(&ignored);
    return holds;
}

struct bundle_key job_bundle_key(const struct job_context *c, const struct job_model *m)
{
    const struct plan *p = c->plan;
    struct bundle_key key = {
        .root = p->profile.root,
        .hardware = p->hardware.id,
        .model_name = m->m.name,
        .hub_name = m->hub,
        .network_device = p->hardware.network_device,
        .network_chosen = config_origin(c->config, "network_device") == ORIGIN_COMMAND_LINE,
        .model = &m->m,
        .tp = p->parallel.tp,
        .pp = p->parallel.pp,
        .ep = p->parallel.ep,
        .block_size = p->predictor.block_size ? p->predictor.block_size : p->serve.block_size,
    };
    if (takes_shipped(c, key))
        key.root = p->hardware.profile_root;
    return key;
}

struct run_meta job_meta(const struct job_context *c, const struct artifact *art, const char *id,
                         const char *type)
{
    int64_t now_ns = clock_wall_ns();
    return (struct run_meta){
        .run_id = id,
        .run_type = type,
        .hardware_id = c->plan->hardware.id,
        .device = c->plan->engine.device,
        .started_wall_ns = art ? art->started_wall_ns : now_ns,
        .ended_wall_ns = now_ns,
        .params = c->config->tree,
        .hydra = {c->config->config_path, c->config->config_name},
    };
}

struct node *job_meta_elsewhere(const struct job_context *c, const struct artifact *art,
                                const char *id, const char *type, const struct node *extra)
{
    struct run_meta meta = job_meta(c, art, id, type);
    meta.hardware_id = meta.device = NULL;
    meta.extra = extra;
    return run_meta_node(c->a, &meta);
}

enum st job_snapshot(const struct job_context *c, const struct artifact *art, struct err *e)
{
    if (!c->plan->output.write_hydra_snapshot)
        return ST_OK;
    struct buf text = {0};
    config_print(&text, c->config);
    enum st st = run_snapshot(art, buf_str(&text), c->config->overrides, c->config->n_overrides, e);
    buf_free(&text);
    return st;
}

void job_lines(struct buf *text, const struct node *map)
{
    for (uint32_t i = 0; i < map->n; i++) {
        const struct node *v = map->pairs[i].value;
        buf_printf(text, "%-24.*s ", (int)map->pairs[i].key.n, map->pairs[i].key.p);
        if (v->kind == NODE_STR)
            buf_add(text, v->s.p, v->s.n);
        else if (v->kind == NODE_NULL || (v->kind == NODE_FLOAT && !isfinite(v->f)))
            buf_puts(text, "n/a");
        else
            json_write(text, v, 0, true);
        buf_putc(text, '\n');
    }
}

void job_result(const struct job_context *c, const struct node *map, const char *text)
{
    struct buf out = {0};
    if (c->result)
        *c->result = map;
    if (!c->json && text)
        buf_puts(&out, text);
    else if (!c->json)
        job_lines(&out, map);
    else if (!c->result)
        json_write(&out, map, 2, true);
    log_result(&out);
    buf_free(&out);
}
