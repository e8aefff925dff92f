#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/job_sim.h"
#include "compare/words.h"
#include "search/capacity_result.h"
#include "search/launch.h"
#include "text/json.h"

/* One job per seed: bisect (rate 0), or look at that rate. */
struct seeds_job {
    struct arena *a;
    const struct job_probe *probe;
    const struct capacity_params *params;
    double rate;
    struct capacity_seed *seeds;
    struct capacity_probe *probes;
    struct progress progress;
    int64_t done;
};

static enum st run_seed(void *self, size_t i, struct buf *out, struct err *e)
{
    struct seeds_job *j = self;
    struct arena *a = arena_new();
    uint64_t seed = j->params->seed + i;
    struct node *n = NULL;
    enum st st;
    if (j->rate > 0) {
        struct capacity_probe p = {.rate = j->rate, .seed = seed};
        st = j->probe->probe.ops->run(j->probe->probe.self, j->rate, seed, &p.r, e);
        p.holds = st == ST_OK && capacity_holds(&j->params->slo, &p.r);
        n = capacity_probe_node(a, &p);
    } else {
        struct capacity_seed s;
        st = capacity_bisect(a, j->params, &j->probe->probe, seed, &s, e);
        n = st == ST_OK ? capacity_seed_node(a, &s) : NULL;
    }
    if (st == ST_OK)
        json_write(out, n, 0, true);
    arena_free(&a);
    return st;
}

static enum st take_seed(void *self, size_t i, struct sv bytes, struct err *e)
{
    struct seeds_job *j = self;
    struct node *n;
    TRY(json_parse(j->a, "a worker's result", bytes, NULL, &n, e));
    progress_at(&j->progress, ++j->done, NULL);
    return j->rate > 0 ? capacity_probe_read(n, &j->probes[i], e)
                       : capacity_seed_read(j->a, n, &j->seeds[i], e);
}

static enum st over_seeds(struct seeds_job *j, const char *what, int64_t workers, struct err *e)
{
    struct launch_work work = {.self = j,
                               .n = (size_t)j->params->seeds,
                               .workers = workers,
                               .job = run_seed,
                               .done = take_seed,
                               .stop = &cmd_stop};
    j->done = 0;
    progress_begin(&j->progress, what, "seeds", j->params->seeds);
    enum st st = launch_fork.run(&work, e);
    progress_end(&j->progress);
    return st;
}

static enum st measure(struct cmd_context *c, const struct job_probe *probe,
                       struct capacity_result *r, struct err *e)
{
    const struct plan *p = c->plan;
    int64_t workers = p->cores ? p->cores : launch_cores();
    *r = (struct capacity_result){.params = job_capacity_params(probe),
                                  .probe = probe->probe.ops->name,
                                  .load = p->capacity.load};
    r->n_seeds = (size_t)r->params.seeds;
    r->seeds = arena_array(c->a, struct capacity_seed, r->n_seeds);
    struct seeds_job j = {.a = c->a, .probe = probe, .params = &r->params, .seeds = r->seeds};
    TRY(over_seeds(&j, "capacity", workers, e));
    capacity_sum(&r->params, r->seeds, r->n_seeds, &r->sum);
    if (r->sum.rate > 0) {
        j.rate = r->load * r->sum.rate;
        r->operating = j.probes = arena_array(c->a, struct capacity_probe, r->n_seeds);
        TRY(over_seeds(&j, "operating point", workers, e));
    }
    const char *warning = job_predictor_warning(c, &probe->params);
    if (warning)
        warning = arena_printf(c->a, "%s.", warning);
    capacity_notes(c->a, r, &warning, 1);
    return ST_OK;
}

static struct node *meta_node(struct cmd_context *c, const char *id, const struct job_probe *probe,
                              const struct artifact *art)
{
    struct node *extra = node_new(c->a, NODE_MAP);
    node_set(c->a, extra, SV("profiling_root"),
             node_str(c->a, job_profiling_root(c, &probe->params)));
    node_set(c->a, extra, SV("predictor"), node_str(c->a, probe->predictor.ops->name));
    node_set(c->a, extra, SV("host_overhead"), node_bool(c->a, probe->params.host_overhead));
    struct run_meta meta = {
        .run_id = id,
        .run_type = "capacity",
        .model = probe->m.m.name,
        .hardware_id = c->plan->hardware.id,
        .device = c->plan->device,
        .started_wall_ns = art->started_wall_ns,
        .ended_wall_ns = clock_wall_ns(),
        .params = c->config->tree,
        .hydra_config_path = c->config->config_path,
        .hydra_config_name = c->config->config_name,
        .extra = extra,
    };
    return run_meta_node(c->a, &meta);
}

static void print_operating(struct buf *out, const struct capacity_result *r)
{
    struct capacity_mean tokens = {0};
    char low[WORDS_MAX], mean[WORDS_MAX], high[WORDS_MAX];
    buf_printf(out, "at %.0f %% of it, %.4g requests/s, over %zu seed%s:\n", 100 * r->load,
               r->load * r->sum.rate, r->n_seeds, r->n_seeds == 1 ? "" : "s");
    for (int i = 0; i < PROBE_FIELDS; i++) {
        const char *name = probe_fields[i].name;
        struct capacity_mean m = capacity_operating(r, i);
        bool median = strstr(name, "_p50_s"), tail = strstr(name, "_p99_s");
        if (strcmp(name, "output_tokens_per_s") == 0)
            tokens = m;
        if (median || tail)
            buf_printf(out, "  %-5.*s %s  %s (%s to %s)\n", (int)strcspn(name, "_"), name,
                       median ? "P50" : "P99", words_duration(mean, m.mean),
                       words_duration(low, m.low), words_duration(high, m.high));
    }
    buf_printf(out, "  output tokens/s  %.4g (%.4g to %.4g)\n", tokens.mean, tokens.low,
               tokens.high);
}

static void print_result(struct cmd_context *c, const char *dir, const struct capacity_result *r)
{
    if (c->json) {
        job_print(c, capacity_node(c->a, r));
        return;
    }
    struct buf out = {0};
    buf_printf(&out, "objective: %s\n", slo_words(c->a, &r->params.slo));
    buf_printf(&out, "capacity: %.4g requests/s (95 %% interval %.4g to %.4g)\n", r->sum.rate,
               r->sum.low, r->sum.high);
    if (r->operating)
        print_operating(&out, r);
    for (size_t i = 0; i < r->n_notes; i++)
        buf_printf(&out, "note: %s\n", r->notes[i]);
    buf_printf(&out, "result: %s\n", dir);
    fputs(buf_str(&out), stdout);
    buf_free(&out);
}

static enum st capacity(struct cmd_context *c, double *rate, struct err *e)
{
    struct job_probe *probe = arena_one(c->a, struct job_probe);
    TRY(job_probe_open(c, probe, e));
    const char *id, *dir = job_out_dir(c, "capacity", &id);
    struct artifact art;
    struct capacity_result r;
    cmd_catch_signals();
    enum st st = artifact_begin(c->a, dir, "run_meta.json", &art, e);
    if (st == ST_OK) {
        st = measure(c, probe, &r, e);
        if (st == ST_OK)
            st = capacity_write(&art, &r, e);
        if (st == ST_OK)
            st = job_snapshot(c, &art, e);
        if (st == ST_OK)
            st = artifact_commit(&art, meta_node(c, id, probe, &art), e);
        if (st == ST_OK) {
            print_result(c, dir, &r);
            *rate = r.sum.rate;
        } else {
            artifact_discard(&art);
        }
    }
    job_probe_close(probe);
    return st;
}

int cmd_capacity(struct cmd_context *c, struct err *e)
{
    double rate = 0;
    if (capacity(c, &rate, e) != ST_OK) {
        err_add(e, "capacity");
        return err_exit_code(e->st);
    }
    return rate > 0 ? 0 : 1;
}
