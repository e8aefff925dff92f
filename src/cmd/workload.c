#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cmd/commands.h"
#include "cmd/job.h"

static struct node *meta_node(struct cmd_context *c, const char *id, const struct job_model *m,
                              const struct artifact *art)
{
    struct arena *a = c->a;
    char now[CLOCK_ISO_MAX];
    clock_iso8601(art->started_wall_ns, now);
    struct node *meta = node_new(a, NODE_MAP), *paths = node_new(a, NODE_MAP);
    node_set(a, paths, SV("prompts"), node_str(a, "prompts.jsonl"));
    node_set(a, paths, SV("trace_lengths"), node_str(a, "trace_lengths.csv"));
    node_set(a, paths, SV("trace_intervals"), node_str(a, "trace_intervals.csv"));
    struct run_meta run = {.run_id = id,
                           .run_type = "workload",
                           .model = m->m.name,
                           .hydra_config_path = c->config->config_path,
                           .hydra_config_name = c->config->config_name,
                           .started_wall_ns = art->started_wall_ns,
                           .ended_wall_ns = art->started_wall_ns};
    const struct node *facts = run_meta_node(a, &run);
    node_set(a, meta, SV("workload_id"), node_str(a, id));
    node_set(a, meta, SV("model"), node_str(a, m->m.name));
    node_set(a, meta, SV("seed"), node_int(a, c->plan->seed));
    node_set(a, meta, SV("tokenizer_ref"),
             m->tokenizer ? node_str(a, m->tokenizer) : node_new(a, NODE_NULL));
    node_set(a, meta, SV("created_at"), node_str(a, now));
    node_set(a, meta, SV("git_commit"), node_find(facts, "git_commit"));
    node_set(a, meta, SV("paths"), paths);
    node_set(a, meta, SV("hydra"), node_find(facts, "hydra"));
    return meta;
}

static void print_result(struct cmd_context *c, const char *dir, const struct workload *w)
{
    struct node *out = node_new(c->a, NODE_MAP);
    int64_t prefill = 0, decode = 0;
    for (size_t i = 0; i < w->n; i++) {
        prefill += w->requests[i].num_prefill_tokens;
        decode += w->requests[i].num_decode_tokens;
    }
    node_set(c->a, out, SV("workload_dir"), node_str(c->a, dir));
    node_set(c->a, out, SV("requests"), node_int(c->a, (int64_t)w->n));
    node_set(c->a, out, SV("last_arrival_s"),
             node_float(c->a, w->n ? ns_to_s(w->requests[w->n - 1].arrival_ns) : 0));
    node_set(c->a, out, SV("prefill_tokens"), node_int(c->a, prefill));
    node_set(c->a, out, SV("decode_tokens"), node_int(c->a, decode));
    job_print(c, out);
}

static enum st write_workload(struct cmd_context *c, struct job_model *m, struct job_workload *w,
                              struct err *e)
{
    const char *id, *dir = job_out_dir(c, "workloads", &id);
    struct artifact art;
    TRY(artifact_begin(c->a, dir, "workload_meta.json", &art, e));
    enum st st = workload_write(&art, &w->w, w->prompts, w->n_prompts, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta_node(c, id, m, &art), e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    print_result(c, dir, &w->w);
    return ST_OK;
}

int cmd_workload(struct cmd_context *c, struct err *e)
{
    struct job_model m;
    struct job_workload w = {0};
    enum st st = job_model(c, false, &m, e);
    if (st == ST_OK)
        st = job_workload(c, &m, false, &w, e);
    if (st == ST_OK)
        st = write_workload(c, &m, &w, e);
    job_workload_close(&w);
    if (st != ST_OK)
        err_add(e, "workload");
    return err_exit_code(e->st);
}
