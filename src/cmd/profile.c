#include "profile/profile.h"

#include <string.h>

#include "artifact/artifact.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "energy/meter.h"
#include "engine/cuda/plan.h"
#include "job/job.h"
#include "profile/read/bundle.h"
#include "text/table.h"

/* `profile check`: errors of predictions for held-out rows of the bundle. */
static enum st check(struct job_context *c, const struct job_model *m, struct err *e)
{
    const struct plan *p = c->plan;
    struct bundle_key key = job_bundle_key(c, m);
    struct bundle *b;
    if (p->profile.folds == 1) {
        err_set(e, ST_USAGE, "profile.folds: one part leaves no rows to predict it from");
        return err_hint(e, "2 or more; 0 holds every row out by itself");
    }
    TRY(bundle_load(c->a, &key, &b, e));
    if (bundle_form(b) == BUNDLE_CALIBRATED)
        return err_set(e, ST_USAGE, "profile check: %s holds parameters, no rows to hold out",
                       bundle_dir(b));
    struct bundle_check *checks;
    int n = 0;
    bundle_check(c->a, b, p->profile.folds, &checks, &n);
    static const char *const header[] = {"operator", "rows",  "held out", "outside",
                                         "mean %",   "p50 %", "p90 %",    "max %"};
    enum { COLUMNS = sizeof header / sizeof *header };
    struct table *t = table_new(c->a, COLUMNS);
    struct node *json = node_new(c->a, NODE_MAP);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, "%s", header[i]);
    for (int i = 0; i < n; i++) {
        const struct holdout *h = &checks[i].error;
        const struct {
            const char *key;
            double value;
        } errors[] = {{"mean_error", h->mean},
                      {"p50_error", h->median},
                      {"p90_error", h->p90},
                      {"max_error", h->max}};
        struct node *row = node_new(c->a, NODE_MAP);
        table_cell(t, "%s", checks[i].name);
        table_cell(t, "%lld", (long long)checks[i].points);
        table_cell(t, "%lld", (long long)h->tested);
        table_cell(t, "%lld", (long long)h->extrapolated);
        node_set(c->a, row, SV("points"), node_int(c->a, checks[i].points));
        node_set(c->a, row, SV("tested"), node_int(c->a, h->tested));
        node_set(c->a, row, SV("extrapolated"), node_int(c->a, h->extrapolated));
        for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
            table_cell(t, "%.2f", errors[k].value * 100);
            node_set(c->a, row, sv_of(errors[k].key), node_float(c->a, errors[k].value));
        }
        node_set(c->a, json, sv_of(checks[i].name), row);
    }
    struct buf text = {0};
    table_text(&text, t);
    job_result(c, json, buf_str(&text));
    buf_free(&text);
    if (c->json)
        return ST_OK;
    if (bundle_missing(b))
        log_warn("the bundle has no times of %s", bundle_missing(b));
    return ST_OK;
}

/* Nor are a GPU's those of the processor that hardware=cpu, the default, names. */
static enum st check_gpu_named(const struct job_context *c, struct err *e)
{
    const struct node *multiprocessors = node_path(c->config->tree, "hardware.sms");
    const bool gpu = multiprocessors && multiprocessors->kind != NODE_NULL;
    if (engine_device(c->plan->engine.device) != ENGINE_ON_CUDA || gpu ||
        config_origin(c->config, "hardware.id") == ORIGIN_COMMAND_LINE)
        return ST_OK;
    err_set(e, ST_USAGE, "hardware=%s: device=%s is profiled, and that is a GPU",
            c->plan->hardware.id ? c->plan->hardware.id : "", c->plan->engine.device);
    return err_hint(e, "hardware=h200, or hardware.id=NAME: the folder of its bundle");
}

/* Times of this machine's processor are no times of a GPU that hardware= names. */
static enum st check_hardware(const struct job_context *c, struct err *e)
{
    const struct node *multiprocessors = node_path(c->config->tree, "hardware.sms");
    const bool gpu = multiprocessors && multiprocessors->kind != NODE_NULL;
    if (engine_device(c->plan->engine.device) != ENGINE_ON_CPU || !gpu)
        return ST_OK;
    err_set(e, ST_USAGE, "hardware=%s: that is a GPU, and device=%s is profiled",
            c->plan->hardware.id ? c->plan->hardware.id : "", c->plan->engine.device);
    if (strcmp(c->plan->engine.kind, "worker") == 0)
        return err_hint(e, "device=cuda, or hardware=cpu");
    return err_hint(e, "hardware=cpu; with hardware.id=NAME to keep several machines apart");
}

enum { CACHE_BYTES = 1 << 30 }; /* of keys and values in the host's memory while profiling */
static const double DEVICE_MARGIN = 0.1; /* of a GPU's memory, left free */
enum { DEVICE_BATCH = 128 };             /* profile.max_batch of a GPU, unless chosen */

static int64_t max_batch_of(const struct job_context *c)
{
    const int64_t most = c->plan->profile.max_batch;
    const bool chosen = config_origin(c->config, "profile.max_batch") > ORIGIN_DEFAULT;
    const bool gpu = engine_device(c->plan->engine.device) == ENGINE_ON_CUDA;
    return gpu && !chosen && most < DEVICE_BATCH ? DEVICE_BATCH : most;
}

/* What the times depend on beside model, grid and device. */
static const char *settings_of(const struct job_context *c, const struct plan *p)
{
    const char *weights = p->model.weights ? p->model.weights : "files";
    if (engine_device(p->engine.device) == ENGINE_ON_CUDA)
        return arena_printf(c->a, "dtype=%d weights=%s", p->engine.dtype, weights);
    return arena_printf(c->a, "threads=%lld idle=%d weights=%s", (long long)p->engine.threads,
                        p->engine.idle, weights);
}

static enum st check_energy(const struct plan *p, struct err *e)
{
    if (!p->profile.energy || engine_device(p->engine.device) == ENGINE_ON_CUDA)
        return ST_OK;
    err_set(e, ST_USAGE, "profile.energy: device=%s has no operators that run alone",
            p->engine.device);
    return err_hint(e, "device=cuda measures the power of the CUDA engine's");
}

/* Sensors of the GPU that is profiled; the engine has its context there already. Refuses before
 * anything is measured. */
static enum st open_meter(struct job_context *c, struct meter *out, struct err *e)
{
    const struct plan *p = c->plan;
    struct meter_params mp = {.sampler = p->energy.sampler, .interval_s = 0.01, .own = true};
    cuda_ordinal(p->engine.device, &mp.gpu);
    if (meter_open(c->a, &mp, out, e) != ST_OK || board_alone(&out->board, true, e) != ST_OK)
        return err_add(e, "profile.energy");
    return ST_OK;
}

static enum st measure(struct job_context *c, const struct job_model *m,
                       const struct engine *engine, struct err *e)
{
    const struct plan *p = c->plan;
    if (engine->max_tp && p->parallel.tp > engine->max_tp)
        return err_set(e, ST_USAGE, "parallel.tp: engine %s has no tensor parallelism, got %lld",
                       engine->name, (long long)p->parallel.tp);
    struct run_meta facts = job_meta(c, NULL, p->hardware.id, "vidur_profile");
    facts.model = m->m.name;
    facts.params = NULL; /* the bundle has its own settings */
    struct serve_clock clock = clock_real();
    clock.spin = p->engine.idle == 0;
    struct profile_params pp = {
        .root = p->profile.root,
        .hardware = p->hardware.id,
        .model_name = m->m.name,
        .network_device = p->hardware.network_device,
        .device = p->engine.device,
        .settings = settings_of(c, p),
        .model = &m->m,
        .block_size = p->serve.block_size,
        .max_tokens = p->profile.max_tokens,
        .max_batch = max_batch_of(c),
        .max_kv = p->profile.max_kv,
        .samples = p->profile.samples,
        .warmup = p->profile.warmup,
        .time_budget_s = p->profile.time_budget_s,
        .tp = p->parallel.tp,
        .energy_budget_s = p->profile.energy_budget_s,
        .extend = p->profile.extend,
        .calibration_only = p->profile.measure == 1,
        .seed = (uint64_t)p->seed,
        .clock = &clock,
        .config = c->config->tree,
        .provenance = run_meta_node(c->a, &facts),
    };
    const struct grid_limits limits = profile_limits(&pp);
    const int64_t batch_tokens = pp.max_tokens + pp.max_batch;
    const struct memory_facts memory = {.model = &m->m,
                                        .tp = pp.tp,
                                        .pp = 1,
                                        .block_size = pp.block_size,
                                        .request_tokens = limits.max_kv,
                                        .batch_cap = limits.max_batch,
                                        .batch_tokens = batch_tokens,
                                        .cache_bytes = CACHE_BYTES,
                                        .margin = DEVICE_MARGIN};
    struct engine_plan plan;
    TRY(engine->plan(&p->engine, &memory, &plan, e));
    pp.num_blocks = plan.memory.num_blocks;
    const struct engine_job job = {
        .settings = &p->engine,
        .model = &m->m,
        .weights_dir = m->weights_dir,
        .weights_seed = m->weights_seed,
        .dtype = plan.dtype,
        .block_size = pp.block_size,
        .num_blocks = pp.num_blocks,
        .max_batch_tokens = batch_tokens,
        .max_rows = pp.max_batch,
        .ignore_eos = true,
        .op_times = true,
        .clock = &clock,
        .a = c->a,
    };
    struct executor ex;
    struct meter meter = {0};
    struct power_meter power;
    TRY(check_energy(p, e));
    TRY(profile_check_place(c->a, &pp, e)); /* before minutes of weights and kernels */
    TRY(engine->open(&job, &ex, e));
    job_catch_signals();
    const char *dir = NULL;
    enum st st = check_gpu_named(c, e);
    if (st == ST_OK && p->profile.energy)
        st = open_meter(c, &meter, e);
    power = meter_of_profile(&meter);
    pp.meter = p->profile.energy ? &power : NULL;
    if (st == ST_OK)
        st = profile_run(c->a, &pp, ex, &job_stop, &dir, e);
    meter_close(&meter);
    ex.ops->close(ex.self);
    TRY(st);
    struct node *out = node_new(c->a, NODE_MAP);
    node_set(c->a, out, SV("out"), node_str(c->a, dir));
    job_result(c, out, NULL);
    return ST_OK;
}

static bool engine_chosen(const struct job_context *c)
{
    for (size_t i = 0; i < c->config->n_overrides; i++)
        if (strncmp(c->config->overrides[i], "engine=", 7) == 0 ||
            strncmp(c->config->overrides[i], "engine.kind=", 12) == 0)
            return true;
    return false;
}

/* A model without weights is given random ones on a GPU, where they cost nothing. */
static enum st load_model(const struct job_context *c, const struct engine *x, struct job_model *m,
                          struct err *e)
{
    struct err none = {0};
    const bool random = x->devices & ENGINE_ON_CUDA && !c->plan->model.weights;
    if (!random)
        return job_model(c, true, m, e);
    if (job_model(c, true, m, &none) == ST_OK)
        return ST_OK;
    err_clear(&none);
    m->weights_dir = NULL;
    return job_model(c, false, m, e);
}

static enum st profile(struct job_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    struct job_model m;
    if (!engine_device(p->engine.device)) {
        err_set(e, ST_USAGE, "device: '%s' is not a device", p->engine.device);
        return err_hint(e, "devices: cpu, cuda, cuda:<n>");
    }
    if (c->n_words > 0) {
        TRY(job_model(c, false, &m, e));
        return check(c, &m, e);
    }
    const struct engine *engine;
    const char *kind = p->engine.kind;
    if (engine_device(p->engine.device) == ENGINE_ON_CUDA && !engine_chosen(c))
        kind = "cuda"; /* device=cuda says it all */
    TRY(engine_for(kind, COMMAND_PROFILE, &engine, e));
    TRY(check_hardware(c, e));
    if (engine->drive == ENGINE_PROGRAM)
        return job_passes(c, e);
    TRY(engine_check_place(engine, &p->engine, &p->hardware, p->serve.replicas, e));
    TRY(load_model(c, engine, &m, e));
    return measure(c, &m, engine, e);
}

static int run_profile(struct job_context *c, struct err *e)
{
    if (profile(c, e) != ST_OK)
        err_add(e, "profile");
    return err_exit_code(e->st);
}

const struct cmd cmd_profile = {
    .id = COMMAND_PROFILE,
    .summary = "measure what every operator of a model costs on a device",
    .about =
        "Writes a profiling bundle in Vidur's layout and columns, with spread, counts and "
        "the leave-one-out error. Interrupted, it goes on where it stopped. With device=cuda "
        "the kernels of the CUDA engine, in the CUDA graphs that it serves with; engine=worker "
        "measures whole iterations of another engine instead. `profile check` "
        "predicts rows of an existing bundle, Vidur's too, from the others and prints the "
        "error of each operator.",
    .words = "check",
    .example = "twinfer profile device=cpu model=tiny_qwen3",
    .run = run_profile,
};
