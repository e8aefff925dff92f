#include "base/log.h"
#include "cmd/commands.h"
#include "job/memory.h"
#include "job/sim.h"
#include "serve/router.h"

/* Remarks on the result: logged and kept in it. */
struct says {
    struct arena *a;
    struct node *notes;
};

static void say(const struct says *s, const char *text)
{
    log_warn("%s", text);
    node_push(s->a, s->notes, node_str(s->a, text));
}

/* Reports operators that the profile lacks. */
static void tell_operators(const struct says *s, const struct plan *p, const struct bundle *b,
                           struct node *extra)
{
    const char *missing = bundle_missing(b), *estimated = bundle_estimated(b);
    if (p->predictor.block_size && p->predictor.block_size != p->serve.block_size)
        say(s,
            arena_printf(
                s->a, "attention is predicted from rows of block size %lld, the KV cache has %lld",
                (long long)p->predictor.block_size, (long long)p->serve.block_size));
    if (bundle_energy_missing(b))
        say(s, arena_printf(s->a, "energy is unknown: %s", bundle_energy_missing(b)));
    if (missing)
        say(s,
            arena_printf(s->a, "the bundle has no times of %s: they are charged nothing", missing));
    if (estimated)
        say(s, arena_printf(s->a, "the bundle has no times of %s", estimated));
    node_set(s->a, extra, SV("operators_missing"),
             missing ? node_str(s->a, missing) : node_new(s->a, NODE_NULL));
    node_set(s->a, extra, SV("operators_estimated"),
             estimated ? node_str(s->a, estimated) : node_new(s->a, NODE_NULL));
}

/* Opens a stream, unless prefix caching needs the token ids of prompts. */
static enum st open_workload(const struct job_context *c, const struct job_model *m,
                             const struct says *says, struct job_workload *out, struct err *e)
{
    const struct plan *p = c->plan;
    if (p->serve.prefix_caching && m->tokenizer)
        return job_workload(c, m, true, out, e);
    bool hashes = p->workload.dir && fs_exists(fs_join(c->a, p->workload.dir, HASH_IDS_NAME));
    if (p->serve.prefix_caching && (p->workload.prompts || p->workload.dir) && !hashes)
        say(says,
            arena_printf(
                c->a,
                "model %s has no tokenizer: prefix caching knows prompts by prompt_id, so only "
                "whole equal prompts are found again",
                m->m.name));
    const struct router_ops *router = router_find(p->serve.router);
    if (router && router->reads_prefix && !p->serve.prefix_caching && !p->workload.prompts &&
        !p->workload.dir)
        say(says, arena_printf(c->a,
                               "cluster.router=%s: requests of this workload have no prompts and "
                               "go to the replicas in turn",
                               router->name));
    return job_workload_stream(c, m, out, e);
}

static enum st simulate(struct job_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    struct job_model m;
    TRY(job_model(c, false, &m, e));
    struct predictor_params params;
    struct predictor predictor;
    struct engine_plan plan;
    struct serve_params serve; /* checks settings before the bundle */
    TRY(job_serve_params(p, &m.m, NULL, &serve, &plan, e));
    TRY(serve_check_params(&serve, e));
    TRY(job_predictor(c, &m, &params, &predictor, e));
    TRY(job_predictor_serving(c, &params, &serve, &plan, e));
    const char *const remarks[] = {
        job_predictor_uncalibrated(c, &predictor), job_predictor_placement(c, &predictor),
        job_predictor_settings(c, &params),        job_predictor_disturbed(c, &params),
        job_predictor_warning(c, &params),         job_memory_fp8(c->a, p, &m.m)};
    const struct says says = {c->a, node_new(c->a, NODE_LIST)};
    for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
        if (remarks[i])
            say(&says, remarks[i]);

    struct job_monte_carlo mc = {.c = c, .m = &m, .params = &params, .ops = predictor.ops};
    if (p->sim.replicas_mc)
        TRY(job_monte_carlo_open(&mc, e));
    struct job_workload w;
    TRY(open_workload(c, &m, &says, &w, e));
    struct executor *ex = arena_array(c->a, struct executor, p->serve.replicas);
    for (int64_t i = 0; i < p->serve.replicas; i++)
        ex[i] = sim_executor(c->a, &predictor, serve_async_of(&serve));
    struct node *extra = node_new(c->a, NODE_MAP);
    job_predictor_facts(c, &params, &predictor, extra);
    job_memory_meta(c->a, p, &plan.memory, extra);
    if (params.bundle) {
        struct contention busy = contention_of(bundle_meta(params.bundle), "contention");
        node_set(c->a, extra, SV("profile_contention"),
                 fields_node(c->a, &contention_fields, &busy));
        tell_operators(&says, p, params.bundle, extra);
        const struct node *meta = bundle_meta(params.bundle);
        const struct node *reference = meta ? node_path(meta, "yardstick") : NULL;
        if (reference)
            node_set(c->a, extra, SV("profile_yardstick"), node_copy(c->a, reference));
        const struct node *host = meta ? node_path(meta, "provenance.host") : NULL;
        if (host)
            node_set(c->a, extra, SV("profile_host"), node_copy(c->a, host));
    }
    node_set(c->a, extra, SV("notes"), says.notes);
    struct serve_clock clock = clock_virtual();
    const struct job_setup setup = job_setup_of(c, &m.m, NULL, &plan, &serve);
    struct job_run r = {.type = "vidur",
                        .kind = "sim",
                        .backend = "sim",
                        .executors = ex,
                        .params = &serve,
                        .clock = &clock,
                        .bundle = params.bundle,
                        .predictor = &predictor,
                        .setup = &setup,
                        .extra = extra,
                        .uncalibrated = remarks[0]};
    if (p->sim.replicas_mc) {
        r.more = job_monte_carlo;
        r.more_self = &mc;
    }
    enum st st = job_run(c, &m, &w, &r, e);
    job_workload_close(&w);
    job_workload_close(&mc.w);
    return st;
}

static int run_simulate(struct job_context *c, struct err *e)
{
    if (simulate(c, e) != ST_OK)
        err_add(e, "simulate");
    return err_exit_code(e->st);
}

const struct cmd cmd_simulate = {
    .id = COMMAND_SIMULATE,
    .columns = "requests not_ok requests_per_s output_tokens_per_s goodput_per_s ttft_p50_ms "
               "ttft_p99_ms tpot_p50_ms tpot_p99_ms e2e_p50_ms e2e_p99_ms",
    .summary = "serve the same workload on predicted operator times",
    .about = "The serving core of bench with a predicting executor and a virtual clock; writes "
             "the same files as a real run. Exit code 5 when no request ended "
             "well.",
    .example = "twinfer simulate model=tiny_qwen3 workload.dir=runs/workloads/w1",
    .run = run_simulate,
};
