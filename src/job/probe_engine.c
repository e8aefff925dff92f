#include "job/probe_engine.h"

#include <math.h>
#include <string.h>

#define PROBES      "probes"
#define CONFIG_NAME "probe"

/* Minimum of requests: fewer cannot resolve the few percent that may miss an objective. */
enum { LEAST_REQUESTS = 50 };

/* ---- what a probe runs ------------------------------------------------------------------- */

static enum st unit_workload(struct job_engine_probe *p, uint64_t seed, struct err *e)
{
    if (p->made && p->seed == seed)
        return ST_OK;
    if (p->made)
        job_workload_close(&p->w);
    p->made = false;
    arena_reset(p->a);
    TRY(job_unit_workload(p->c, &p->m, p->a, seed, NULL, &p->w, e));
    p->seed = seed;
    p->made = true;
    return ST_OK;
}

bool job_probe_follows_rate(const struct job_context *c)
{
    return !job_is_stretched(c->plan) && c->plan->workload.make.num_requests > 0 &&
           config_origin(c->config, "workload.num_requests") != ORIGIN_COMMAND_LINE;
}

int64_t job_probe_requests(const struct plan *p, double rate)
{
    double n = ceil(rate * p->capacity.probe_s);
    int64_t most = p->workload.make.num_requests;
    int64_t least = most < LEAST_REQUESTS ? most : LEAST_REQUESTS;
    return n >= (double)most ? most : n <= (double)least ? least : (int64_t)n;
}

static double span_s(void *self, uint64_t seed)
{
    struct job_engine_probe *p = self;
    struct err ignored = {0};
    if (unit_workload(p, seed, &ignored) != ST_OK)
        return 0; /* the run will report the error */
    const struct workload *w = &p->w.w;
    size_t n = w->n;
    if (job_probe_follows_rate(p->c) && n > LEAST_REQUESTS)
        n = LEAST_REQUESTS;
    return n ? w->requests[n - 1].arrival_s - w->requests[0].arrival_s : 0;
}

static enum st write_stretched(struct job_engine_probe *p, struct arena *a, double rate,
                               const char *dir, struct err *e)
{
    struct workload w = p->w.w;
    struct artifact art;
    if (p->c->plan->workload.dir && !p->w.prompts && w.prompts)
        TRY(prompts_load(p->a, w.prompts, &p->w.prompts, &p->w.n_prompts, e));
    w.requests = arena_array(a, struct workload_request, w.n);
    for (size_t i = 0; i < w.n; i++) {
        struct workload_request *r = &w.requests[i];
        *r = p->w.w.requests[i];
        double ns = round((double)r->arrival_ns / rate);
        if (!(ns < 0x1p62))
            return err_set(e, ST_USAGE,
                           "at %g requests/s the arrivals do not fit 64-bit nanoseconds", rate);
        r->arrival_ns = (int64_t)ns;
        r->arrival_s = ns / 1e9;
    }
    TRY(artifact_begin(a, dir, WORKLOAD_META, &art, e));
    enum st st = workload_write(&art, &w, p->w.prompts, p->w.n_prompts, NULL, e);
    const struct workload_meta meta = {.workload_id = fs_base(dir),
                                       .model = p->m.m.name,
                                       .tokenizer_ref = p->m.tokenizer,
                                       .seed = p->seed,
                                       .hash_ids = workload_has_hash_ids(&w)};
    if (st == ST_OK)
        st = artifact_commit(&art, workload_meta_node(a, &meta), e);
    if (st != ST_OK)
        artifact_discard(&art);
    return st;
}

static enum st words(void *self, struct arena *a, double rate, uint64_t seed, const char *scratch,
                     const char **out, size_t *n, struct err *e)
{
    struct job_engine_probe *p = self;
    if (!job_is_stretched(p->c->plan)) {
        out[(*n)++] = arena_printf(a, "workload.arrival.rate=%.17g", rate);
        if (job_probe_follows_rate(p->c))
            out[(*n)++] = arena_printf(a, "workload.num_requests=%lld",
                                       (long long)job_probe_requests(p->c->plan, rate));
        return ST_OK;
    }
    TRY(unit_workload(p, seed, e));
    TRY(write_stretched(p, a, rate, scratch, e));
    out[(*n)++] = arena_printf(a, "workload.dir=%s", scratch);
    return ST_OK;
}

/* ---- the configuration of all probes ------------------------------------------------------ */

/* Sets a.b.c in a tree of maps. */
static void set_path(struct arena *a, struct node *root, const char *dotted, struct node *value)
{
    const char *dot;
    while ((dot = strchr(dotted, '.')) != NULL) {
        const char *name = arena_strn(a, dotted, (size_t)(dot - dotted));
        struct node *below = node_find(root, name);
        root = below ? below : node_set(a, root, sv_of(name), node_new(a, NODE_MAP));
        dotted = dot + 1;
    }
    node_set(a, root, sv_of(dotted), value);
}

/* The settings that bench reads, except those set by each probe. */
static const char *bench_config(const struct job_context *c, const struct job_model *m)
{
    static const char *const own[] = {"out",
                                      "seed",
                                      "repeat",
                                      "json",
                                      "log.level",
                                      "workload.arrival.rate",
                                      "workload.arrival.inter_arrival_ns",
                                      "output.write_hydra_snapshot"};
    struct arena *a = c->a;
    bool stretched = job_is_stretched(c->plan);
    struct node *tree = node_new(a, NODE_MAP);
    for (struct option_iter it = {0}; option_next(&it);) {
        const struct option *o = it.o;
        const struct node *v = node_path(c->config->tree, o->key);
        bool skip = !v || !(o->commands & CMD_BENCH);
        for (size_t k = 0; k < sizeof own / sizeof *own; k++)
            skip = skip || strcmp(o->key, own[k]) == 0;
        if (stretched && option_is_below(o->key, "workload"))
            skip = skip || strcmp(o->key, "workload.warmup_requests") != 0;
        if (!skip)
            set_path(a, tree, o->key, node_copy(a, v));
    }
    const char *tokenizer = job_answer_tokenizer(c, m); /* its origin is lost in a file */
    if (tokenizer)
        set_path(a, tree, "client.tokenizer", node_str(a, tokenizer));
    set_path(a, tree, "output.tokens", node_str(a, "none"));
    set_path(a, tree, "output.batches", node_str(a, "none"));
    set_path(a, tree, "output.time_series", node_bool(a, false));
    set_path(a, tree, "json", node_bool(a, true));
    set_path(a, tree, "log.level", node_str(a, "warn"));
    struct config child = *c->config;
    child.tree = tree;
    struct buf text = {0};
    config_print(&text, &child);
    const char *s = arena_str(a, buf_str(&text));
    buf_free(&text);
    return s;
}

static enum st check_resume(const struct job_context *c, struct err *e)
{
    const char *dir = c->plan->capacity.resume;
    if (!dir)
        return ST_OK;
    if (fs_exists(fs_join(c->a, dir, "run_meta.json"))) {
        err_set(e, ST_USAGE, "capacity.resume: %s is complete: there is nothing to go on with",
                dir);
        return err_hint(e, "leave capacity.resume out");
    }
    if (!fs_is_dir(fs_join(c->a, dir, PROBES)))
        return err_set(e, ST_INPUT, "capacity.resume: %s has no folder " PROBES, dir);
    return ST_OK;
}

static enum st setup_of(const struct job_context *c, const struct engine *engine,
                        const struct job_model *m, struct job_setup *out, struct err *e)
{
    struct serve_params serve;
    struct engine_plan plan;
    *out = job_setup_outside(c, m->m.name);
    if (engine->drive != ENGINE_EXECUTES)
        return ST_OK;
    TRY(job_serve_params(c->plan, &m->m, engine, &serve, &plan, e));
    *out = job_setup_of(c, &m->m, engine, &plan, &serve);
    return ST_OK;
}

enum st job_engine_probe_open(const struct job_context *c, struct job_engine_probe *out,
                              struct err *e)
{
    const struct plan *p = c->plan;
    *out = (struct job_engine_probe){.c = c, .a = arena_new()};
    const struct engine *engine;
    enum st st = engine_for(p->engine.kind, COMMAND_BENCH, &engine, e);
    if (st == ST_OK)
        st = job_capacity_check(c, &out->slo, &out->one_draw, e);
    if (st == ST_OK && engine->drive == ENGINE_SERVER && isfinite(out->slo.limit_s[SLO_DELAY])) {
        st = err_set(e, ST_USAGE,
                     "slo: a client does not see when a batch begins: delay is no limit here");
        err_hint(e, "slo=ttft:MS,tpot:MS");
    }
    if (st == ST_OK)
        st = check_resume(c, e);
    if (st == ST_OK)
        st = job_model(c, false, &out->m, e);
    if (st == ST_OK)
        st = setup_of(c, engine, &out->m, &out->setup, e);
    if (st == ST_OK)
        st = unit_workload(out, (uint64_t)p->seed, e);
    if (st != ST_OK)
        job_engine_probe_close(out);
    return st;
}

enum st job_engine_probe_begin(struct job_engine_probe *p, const struct artifact *art,
                               struct err *e)
{
    const struct job_context *c = p->c;
    const char *dir = artifact_path(c->a, art, PROBES), *text = bench_config(c, &p->m);
    const char *resume = c->plan->capacity.resume;
    TRY(fs_mkdirs(dir, e));
    TRY(fs_write_atomic(fs_join(c->a, dir, CONFIG_NAME ".yaml"), text, strlen(text), e));
    struct probe_bench_params params = {
        .engine = c->plan->engine.kind,
        .program = "/proc/self/exe",
        .config_dir = dir,
        .config_name = CONFIG_NAME,
        .config_text = text,
        .dir = dir,
        .resume = resume ? fs_join(c->a, resume, PROBES) : NULL,
        .timeout_s = c->plan->capacity.probe_timeout_s,
        .slo = &p->slo,
        .span_s = span_s,
        .words = words,
        .self = p,
        .stop = &job_stop,
    };
    p->probe = probe_bench_open(&params);
    return ST_OK;
}

bool job_engine_probe_measured(const struct job_engine_probe *p, const struct artifact *art)
{
    struct arena *a = p->c->a;
    const char *dir = artifact_path(a, art, PROBES), **names;
    struct err ignored = {0};
    size_t n;
    if (fs_list(a, dir, &names, &n, &ignored) != ST_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        if (fs_exists(fs_join(a, fs_join(a, dir, names[i]), "run_meta.json")))
            return true;
    return false;
}

void job_engine_probe_close(struct job_engine_probe *p)
{
    probe_bench_close(&p->probe);
    if (p->made)
        job_workload_close(&p->w);
    p->made = false;
    arena_free(&p->a);
}
