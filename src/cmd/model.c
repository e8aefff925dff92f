#include <string.h>

#include "cmd/commands.h"
#include "job/job.h"
#include "model/describe.h"
#include "model/weights.h"

static enum st inspect(struct job_context *c, const struct job_model *m, struct err *e)
{
    (void)e;
    struct buf text = {0};
    struct describe_params as_usual = {0};
    model_describe(c->a, &m->m, &as_usual, &text);
    job_result(c, model_describe_node(c->a, &m->m, &as_usual), buf_str(&text));
    buf_free(&text);
    return ST_OK;
}

static enum st init(struct job_context *c, const struct job_model *m, struct err *e)
{
    const char *id, *dir = job_out_dir(c, "models", &id);
    if (fs_exists(dir)) {
        err_set(e, ST_USAGE, "out: %s already exists", dir);
        return err_hint(e, "choose another out=");
    }
    job_catch_signals(); /* from here on an interrupted command leaves nothing behind */
    const struct model_init_params params = {.model = &m->m,
                                             .config = m->config,
                                             .from_dir = m->dir,
                                             .seed = (uint64_t)c->plan->seed,
                                             .dir = dir,
                                             .stop = &job_stop};
    TRY(model_init(&params, e));
    struct node *out = node_new(c->a, NODE_MAP);
    node_set(c->a, out, SV("out"), node_str(c->a, dir));
    node_set(c->a, out, SV("parameters"), node_int(c->a, model_params(&m->m)));
    job_result(c, out, NULL);
    return ST_OK;
}

static enum st model(struct job_context *c, struct err *e)
{
    if (c->n_words != 1) {
        err_set(e, ST_USAGE, "model needs one of: init, inspect");
        return err_hint(e, "twinfer model inspect model=tiny_qwen3");
    }
    struct job_model m;
    if (strcmp(c->words[0], "init") == 0) {
        TRY(job_model_described(c, &m, e));
        return init(c, &m, e);
    }
    TRY(job_model_described(c, &m, e));
    return inspect(c, &m, e);
}

static int run_model(struct job_context *c, struct err *e)
{
    if (model(c, e) != ST_OK)
        err_add(e, "model");
    return err_exit_code(e->st);
}

const struct cmd cmd_model = {
    .id = COMMAND_MODEL,
    .columns = "name parameters",
    .summary = "make and inspect models",
    .about = "`init` writes a model of the asked shape with seeded random weights; `inspect` "
             "prints parameters, bytes, the operator list with shapes, and FLOPs and bytes per "
             "token.",
    .words = "init|inspect",
    .example = "twinfer model init model=tiny_qwen3 seed=1 out=models/tiny",
    .run = run_model,
};
