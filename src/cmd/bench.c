#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/openai.h"
#include "job/job.h"
#include "job/memory.h"

/* Bound on the blocks touched. Blocks are allocated from the first on and return to the top of the
 * stack, so only as many are touched as are in use at once: by batch_cap of the longest requests,
 * or by all requests. Cached prefixes are reused only when no other block is free. */
static int64_t blocks_used(const struct serve_params *serve, const struct workload *w,
                           int64_t longest)
{
    int64_t all = 0, size = serve->block_size;
    for (size_t i = 0; i < w->n; i++)
        all += (w->requests[i].num_prefill_tokens + w->requests[i].num_decode_tokens + size - 1) /
               size;
    int64_t running = serve->batch_cap * ((longest + size - 1) / size);
    return serve->prefix_caching || all < running ? all : running;
}

static enum st bench_here(struct job_context *c, const struct engine *engine, struct err *e)
{
    const struct plan *p = c->plan;
    TRY(engine_check_place(engine, &p->engine, &p->hardware, p->serve.replicas, e));
    struct job_model m;
    TRY(job_model(c, engine->needs & ENGINE_WEIGHTS, &m, e));
    struct job_workload w;
    TRY(job_workload(c, &m, true, &w, e));
    struct serve_params serve;
    struct engine_plan plan;
    struct serve_clock clock = clock_real();
    clock.spin = p->engine.idle == 0;
    struct job_engine how = {.engine = engine,
                             .plan = &plan,
                             .m = &m,
                             .serve = &serve,
                             .clock = &clock,
                             .ignore_eos = p->engine.ignore_eos};
    for (size_t i = 0; i < w.w.n; i++) {
        const struct workload_request *q = &w.w.requests[i];
        int64_t tokens = q->num_prefill_tokens + q->num_decode_tokens;
        how.longest = tokens > how.longest ? tokens : how.longest;
    }
    struct executor ex = {0};
    enum st st = job_serve_params(p, &m.m, engine, &serve, &plan, e);
    if (st == ST_OK)
        st = serve_check_params(&serve, e);
    how.ready_blocks = st == ST_OK ? blocks_used(&serve, &w.w, how.longest) : 0;
    if (st == ST_OK)
        st = job_engine_open(c, &how, &ex, e);
    if (st == ST_OK) {
        struct node *extra = node_new(c->a, NODE_MAP);
        const char *left_out = job_left_out(p, engine);
        node_set(c->a, extra, SV("backend"), node_str(c->a, engine->name));
        job_memory_meta(c->a, p, &plan.memory, extra);
        if (left_out) {
            struct node *notes = node_set(c->a, extra, SV("notes"), node_new(c->a, NODE_LIST));
            node_push(c->a, notes, node_str(c->a, left_out));
            log_warn("%s", left_out);
        }
        const struct grid_limits limits = {.max_tokens =
                                               serve_max_batch_tokens(&serve, how.longest),
                                           .max_batch = serve.batch_cap,
                                           .max_kv = m.m.max_positions,
                                           .block_size = serve.block_size,
                                           .num_blocks = serve.num_blocks};
        struct reference reference;
        reference_open(c->a, ex, &limits, m.m.vocab, &reference);
        const struct job_setup setup = job_setup_of(c, &m.m, engine, &plan, &serve);
        struct job_run r = {.type = "real",
                            .kind = "real",
                            .backend = engine->name,
                            .executors = &ex,
                            .params = &serve,
                            .clock = &clock,
                            .setup = &setup,
                            .extra = extra,
                            .reference = &reference};
        st = job_run(c, &m, &w, &r, e);
        reference_free(&reference);
        ex.ops->close(ex.self);
    }
    job_workload_close(&w);
    return st;
}

static enum st bench(struct job_context *c, struct err *e)
{
    const struct engine *engine;
    TRY(engine_for(c->plan->engine.kind, COMMAND_BENCH, &engine, e));
    switch (engine->drive) {
    case ENGINE_SERVER:
        return openai_bench(c, e);
    case ENGINE_PROGRAM:
        return job_worker(c, e);
    case ENGINE_EXECUTES:
        break;
    }
    return bench_here(c, engine, e);
}

static int run_bench(struct job_context *c, struct err *e)
{
    if (bench(c, e) != ST_OK)
        err_add(e, "bench");
    return err_exit_code(e->st);
}

const struct cmd cmd_bench = {
    .id = COMMAND_BENCH,
    .columns = "requests not_ok requests_per_s output_tokens_per_s goodput_per_s ttft_p50_ms "
               "ttft_p99_ms tpot_p50_ms tpot_p99_ms e2e_p50_ms e2e_p99_ms completed "
               "failed request_throughput output_throughput request_goodput "
               "median_ttft_ms p99_ttft_ms median_tpot_ms p99_tpot_ms",
    .summary = "run a workload for real",
    .about = "Serves the workload with a real engine at its planned arrival times and writes the "
             "latency of every request and token. Latency counts from the planned arrival. "
             "engine=openai asks a server at url= and adds bench.json, with vLLM's keys.",
    .example = "twinfer bench engine=cpu model=tiny_qwen3 workload.dir=runs/workloads/w1",
    .run = run_bench,
};
