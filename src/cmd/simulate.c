#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/job.h"
#include "sim/sim.h"

static enum st simulate(struct cmd_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    struct job_model m;
    TRY(job_model(c, false, &m, e));
    struct bundle *bundle;
    struct bundle_key key = {
        .root = p->profile.root,
        .hardware = p->hardware.id,
        .model_name = m.m.name,
        .network_device = p->network_device,
        .model = &m.m,
        .tp = p->parallel.tp,
        .block_size = p->scheduler.block_size,
    };
    TRY(bundle_load(c->a, &key, &bundle, e));
    bool host = p->sim.host_overhead && bundle_has_host(bundle);
    if (p->sim.host_overhead && !host)
        log_warn("the bundle has no host overhead per iteration: simulated times are device times "
                 "alone and will be too short");

    struct job_workload w;
    TRY(job_workload(c, &m, false, &w, e));
    struct sim_params sp = {.model = &m.m, .bundle = bundle, .host_overhead = host};
    struct executor *ex = arena_array(c->a, struct executor, p->cluster.replicas);
    for (int64_t i = 0; i < p->cluster.replicas; i++)
        ex[i] = sim_executor(c->a, &sp);
    struct node *extra = node_new(c->a, NODE_MAP);
    node_set(c->a, extra, SV("profiling_root"), node_str(c->a, p->profile.root));
    node_set(c->a, extra, SV("host_overhead"), node_bool(c->a, host));
    struct serve_clock clock = clock_virtual();
    struct job_run r = {.type = "vidur",
                        .kind = "sim",
                        .backend = "sim",
                        .executors = ex,
                        .clock = &clock,
                        .extra = extra};
    enum st st = job_run(c, &m, &w, &r, e);
    if (st == ST_OK && bundle_extrapolations(bundle) > 0)
        log_warn("%lld look-ups fell outside the profiled grid and were extrapolated",
                 (long long)bundle_extrapolations(bundle));
    job_workload_close(&w);
    return st;
}

int cmd_simulate(struct cmd_context *c, struct err *e)
{
    if (simulate(c, e) != ST_OK)
        err_add(e, "simulate");
    return err_exit_code(e->st);
}
