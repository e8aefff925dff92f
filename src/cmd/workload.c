#include "base/clock.h"
#include "cmd/commands.h"
#include "cmd/job.h"

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
    TRY(artifact_begin(c->a, dir, WORKLOAD_META, &art, e));
    enum st st = workload_write(&art, &w->w, w->prompts, w->n_prompts, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    struct workload_meta meta = {.workload_id = id,
                                 .model = m->m.name,
                                 .tokenizer_ref = m->tokenizer,
                                 .seed = (uint64_t)c->plan->seed,
                                 .hydra_config_path = c->config->config_path,
                                 .hydra_config_name = c->config->config_name,
                                 .params = c->config->tree};
    if (st == ST_OK)
        st = artifact_commit(&art, workload_meta_node(c->a, &meta), e);
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
