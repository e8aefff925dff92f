#include <string.h>

#include "cmd/commands.h"
#include "cmd/openai.h"
#include "engine/engine.h"
#include "job/probe_engine.h"

/* ---- engines by name: the rows of this table are what `engine=` accepts ---- */

struct engine_context {
    const struct plan *p;
    const struct job_model *m;
    const struct serve_params *serve;
    struct serve_clock *clock;
    int64_t longest; /* prompt plus output of the longest request */
    int64_t blocks;  /* of the KV cache that the run can use */
};

static enum st open_cpu(const struct engine_context *x, struct executor *out, struct err *e)
{
    const struct job_cpu how = {
        .longest = x->longest, .blocks = x->blocks, .ignore_eos = x->p->engine.ignore_eos};
    return job_cpu_engine(x->p, x->m, x->serve, &how, x->clock, out, e);
}

static enum st open_null(const struct engine_context *x, struct executor *out, struct err *e)
{
    (void)e;
    *out = null_executor(0, x->clock);
    return ST_OK;
}

static const struct {
    const char *name, *help;
    bool weights;
    enum st (*open)(const struct engine_context *x, struct executor *out, struct err *e);
    enum st (*run)(struct cmd_context *c, struct err *e); /* not an executor: does it all itself */
} engines[] = {
    {"cpu", "the built-in engine on this machine's cores", true, open_cpu, NULL},
    {"null", "computes nothing: what the loop itself costs", false, open_null, NULL},
    {"openai", "an OpenAI-style server at url", false, NULL, openai_bench},
    {"worker", "a program of yours: worker.command", false, NULL, job_worker},
};

enum { ENGINES = sizeof engines / sizeof *engines };

static size_t engine_of(const char *name)
{
    size_t k = 0;
    while (k < ENGINES && strcmp(engines[k].name, name) != 0)
        k++;
    return k;
}

enum st bench_check_engine(const char *name, struct err *e)
{
    if (engine_of(name) < ENGINES)
        return ST_OK;
    err_set(e, ST_USAGE, "engine.kind: there is no engine '%s'", name);
    return err_hint(e, "engines: " JOB_ENGINES);
}

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

static enum st bench(struct cmd_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    size_t k = engine_of(p->engine.kind);
    TRY(bench_check_engine(p->engine.kind, e));
    if (engines[k].run)
        return engines[k].run(c, e);
    if (strcmp(p->device, "cpu") != 0) {
        err_set(e, ST_DEVICE, "device=%s: engine %s runs on the CPU", p->device, engines[k].name);
        return err_hint(e, "device=cpu");
    }
    if (p->cluster.replicas != 1)
        return err_set(e, ST_USAGE, "cluster.replicas: engine %s runs one replica, not %lld",
                       engines[k].name, (long long)p->cluster.replicas);

    struct job_model m;
    TRY(job_model(c, engines[k].weights, &m, e));
    struct job_workload w;
    TRY(job_workload(c, &m, true, &w, e));
    struct serve_params serve;
    struct serve_clock clock = clock_real();
    clock.spin = p->engine.idle == 0;
    struct engine_context x = {p, &m, &serve, &clock, 0, 0};
    for (size_t i = 0; i < w.w.n; i++) {
        const struct workload_request *q = &w.w.requests[i];
        int64_t tokens = q->num_prefill_tokens + q->num_decode_tokens;
        x.longest = tokens > x.longest ? tokens : x.longest;
    }
    struct executor ex = {0};
    enum st st = job_serve_params(p, &m.m, &serve, e);
    if (st == ST_OK)
        st = serve_check_params(&serve, e);
    x.blocks = st == ST_OK ? blocks_used(&serve, &w.w, x.longest) : 0;
    if (st == ST_OK)
        st = engines[k].open(&x, &ex, e);
    if (st == ST_OK) {
        struct node *extra = node_new(c->a, NODE_MAP);
        node_set(c->a, extra, SV("backend"), node_str(c->a, engines[k].name));
        const struct grid_limits limits = {.max_tokens = serve_max_batch_tokens(&serve, x.longest),
                                           .max_batch = serve.batch_cap,
                                           .max_kv = m.m.max_positions,
                                           .block_size = serve.block_size,
                                           .num_blocks = serve.num_blocks};
        struct reference reference;
        reference_open(c->a, ex, &limits, m.m.vocab, &reference);
        struct job_run r = {.type = "real",
                            .kind = "real",
                            .backend = engines[k].name,
                            .executors = &ex,
                            .clock = &clock,
                            .extra = extra,
                            .reference = &reference};
        st = job_run(c, &m, &w, &r, e);
        reference_free(&reference);
        ex.ops->close(ex.self);
    }
    job_workload_close(&w);
    return st;
}

static int run_bench(struct cmd_context *c, struct err *e)
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
