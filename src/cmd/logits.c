#include "job/logits.h"

#include "cmd/commands.h"
#include "job/job.h"
#include "model/random.h"

enum { BLOCK_SIZE = 16 };
static const char file_name[] = "logits.safetensors";

static enum st compute(struct job_context *c, const struct engine *x, const struct job_model *m,
                       struct logits *out, struct err *e)
{
    const struct plan *p = c->plan;
    const struct logits_params params = {.prompts = p->logits.prompts,
                                         .prompt_tokens = p->logits.prompt_tokens,
                                         .tokens = p->logits.tokens,
                                         .seed = (uint64_t)p->seed,
                                         .block_size = BLOCK_SIZE};
    const struct memory_facts facts = {
        .model = &m->m, .block_size = BLOCK_SIZE, .num_blocks = logits_blocks(&params)};
    const struct serve_clock clock = clock_real();
    struct engine_plan plan;
    struct executor ex;
    TRY(logits_check(&params, &m->m, e));
    TRY(x->plan(&p->engine, &facts, &plan, e));
    const struct engine_job job = {.settings = &p->engine,
                                   .model = &m->m,
                                   .weights_dir = m->weights_dir,
                                   .weights_seed = m->weights_seed,
                                   .dtype = plan.dtype,
                                   .block_size = BLOCK_SIZE,
                                   .num_blocks = logits_blocks(&params),
                                   .max_batch_tokens = params.prompts * params.prompt_tokens,
                                   .max_rows = params.prompts,
                                   .ignore_eos = true,
                                   .clock = &clock,
                                   .a = c->a};
    TRY(x->open(&job, &ex, e));
    const enum st st = logits_compute(c->a, x, &ex, &m->m, &params, out, e);
    ex.ops->close(ex.self);
    return st;
}

static enum st write_all(struct job_context *c, const struct engine *x, const struct job_model *m,
                         const struct logits *l, const char *dir, const char *id, struct err *e)
{
    struct artifact art;
    struct node *extra = node_new(c->a, NODE_MAP);
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = logits_write(c->a, l, artifact_path(c->a, &art, file_name), e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    node_set(c->a, extra, SV("backend"), node_str(c->a, x->name));
    if (m->weights_random)
        node_set(c->a, extra, SV("random_weights"), random_weights_node(c->a, m->weights_seed));
    struct run_meta meta = job_meta(c, &art, id, "logits");
    meta.model = m->m.name;
    meta.hardware_id = NULL;
    meta.extra = extra;
    if (st == ST_OK)
        st = artifact_commit(&art, run_meta_node(c->a, &meta), e);
    artifact_discard(&art);
    return st;
}

static enum st logits(struct job_context *c, struct err *e)
{
    const struct engine *x;
    struct job_model m;
    struct logits l;
    const char *id, *dir = job_out_dir(c, "logits", &id);
    TRY(engine_for(c->plan->engine.kind, COMMAND_LOGITS, &x, e));
    TRY(engine_check_place(x, &c->plan->engine, &c->plan->hardware, c->plan->serve.replicas, e));
    TRY(job_model(c, true, &m, e));
    TRY(compute(c, x, &m, &l, e));
    TRY(write_all(c, x, &m, &l, dir, id, e));
    struct node *out = node_new(c->a, NODE_MAP);
    node_set(c->a, out, SV("sequences"), node_int(c->a, l.p.prompts));
    node_set(c->a, out, SV("tokens"), node_int(c->a, l.p.prompts * l.p.tokens));
    node_set(c->a, out, SV("vocab"), node_int(c->a, l.vocab));
    node_set(c->a, out, SV("out"), node_str(c->a, dir));
    job_result(c, out, NULL);
    return ST_OK;
}

static int run_logits(struct job_context *c, struct err *e)
{
    if (logits(c, e) != ST_OK)
        err_add(e, "logits");
    return err_exit_code(e->st);
}

const struct cmd cmd_logits = {
    .id = COMMAND_LOGITS,
    .columns = "sequences tokens vocab",
    .summary = "write out what an engine computes, to compare it with others",
    .about = "Prompts of random ids are one batch, then each sequence decodes greedily, all in a "
             "batch. Writes logits.safetensors: prompts, the tokens that were generated, and the "
             "logits that each was taken from. adapters/transformers_logits.py holds them to "
             "Hugging Face transformers.",
    .example = "twinfer logits model.ref=models/tiny engine=cuda out=l",
    .run = run_logits,
};
