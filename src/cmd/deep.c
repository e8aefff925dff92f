/* The command deep: settings to a session (deep/deep.h), its folder and result. */
#include "deep/deep.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/commands.h"
#include "config/override.h"
#include "job/job.h"
#include "report/report.h"

/* The words after --, or this program with them as settings of one of its commands. */
static enum st command_of(const struct job_context *c, struct deep_params *out, struct err *e)
{
    struct argv v = {.a = c->a};
    if (out->work) {
        char *self = realpath("/proc/self/exe", NULL);
        if (!self)
            return err_errno(e, true, "/proc/self/exe");
        argv_add(&v, arena_str(c->a, self));
        argv_add(&v, out->work);
        free(self);
        out->ours = true;
    }
    for (char **p = c->program; p && *p; p++)
        argv_add(&v, *p);
    out->command = (struct texts){argv_words(&v), v.n};
    return ST_OK;
}

static struct deep_params params_of(const struct job_context *c, const struct model *model)
{
    struct deep_params p = c->plan->deep;
    p.hardware = &c->plan->hardware;
    p.model = model;
    p.stop = &job_stop;
    return p;
}

static bool has_model(const struct plan *p)
{
    return p->model.ref || (p->model.config && p->model.config->n);
}

static struct node *meta_node(struct job_context *c, const char *id, const struct artifact *art,
                              const struct deep_params *p)
{
    struct node *extra = node_new(c->a, NODE_MAP), *command = node_new(c->a, NODE_LIST);
    for (size_t i = 0; i < p->command.n; i++)
        node_push(c->a, command, node_str(c->a, p->command.items[i]));
    node_put(c->a, extra, "command", command);
    struct run_meta meta = job_meta(c, art, id, "deep");
    meta.device = NULL; /* not that of the plan */
    meta.extra = extra;
    return run_meta_node(c->a, &meta);
}

static void print_result(struct job_context *c, const char *dir, const struct deep_result *r)
{
    struct node *out = node_new(c->a, NODE_MAP), *steps = node_new(c->a, NODE_MAP);
    struct buf text = {0};
    for (size_t i = 0; i < r->n_steps; i++) {
        const struct deep_step *s = &r->steps[i];
        buf_printf(&text, "%-20s %s%s%s", s->name, s->state, s->reason ? ": " : "",
                   s->reason ? s->reason : "");
        if (s->overhead_percent == s->overhead_percent)
            buf_printf(&text, "%s%.0f %% over the baseline", s->reason ? "; " : ", ",
                       s->overhead_percent);
        buf_putc(&text, '\n');
        node_put(c->a, steps, s->name, node_str(c->a, s->state));
    }
    for (size_t i = 0; i < r->n_bottlenecks; i++)
        buf_printf(&text, "bottleneck %zu: %s, %.1f %% of %.3f ms %s\n", i + 1,
                   r->bottlenecks[i].what, r->bottlenecks[i].share_percent, r->totals.elapsed_ms,
                   deep_whole(r));
    if (r->n_repeat)
        buf_printf(&text, "against %s: %s\n", r->repeat->folder,
                   deep_repeat_words(c->a, r->repeat));
    node_put(c->a, out, "steps", steps);
    node_put(c->a, out, "kernels", node_number(c->a, r->totals.kernels));
    node_put(c->a, out, "elapsed_ms",
             node_number(c->a, deep_timed(r) ? r->totals.elapsed_ms : (double)NAN));
    node_put(c->a, out, "gpu_time_ms", node_number(c->a, r->totals.gpu_ms));
    node_put(c->a, out, "out", node_str(c->a, dir));
    buf_printf(&text, "out %s\nnext: open ", dir);
    buf_word(&text, fs_join(c->a, dir, "report.html"));
    buf_puts(&text, " in a browser\n");
    job_result(c, out, buf_str(&text));
    buf_free(&text);
}

static enum st write_report(struct job_context *c, const struct artifact *art,
                            const struct deep_result *r, const char *id, const struct node *meta,
                            struct err *e)
{
    struct buf html = {0};
    report_deep(c->a, &html, r, id, meta);
    enum st st = artifact_write(art, "report.html", &html, e);
    buf_free(&html);
    return st;
}

/* The folder stays whatever happened, as long as it says what did: a rejected session is committed,
 * one that was interrupted is kept as incomplete. */
static enum st session(struct job_context *c, const struct deep_params *p, const char *dir,
                       const char *id, struct err *e)
{
    struct artifact art;
    struct deep_result r;
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    struct err at_end = {0};
    enum st st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = deep_run(c->a, p, &art, &r, e);
    if (st == ST_INTERRUPTED) {
        artifact_abandon(&art, "interrupted by a signal", &at_end);
        return st;
    }
    if (st != ST_OK && st != ST_REJECTED) {
        artifact_discard(&art);
        return st;
    }
    struct node *meta = meta_node(c, id, &art, p);
    if (write_report(c, &art, &r, id, meta, &at_end) != ST_OK ||
        artifact_commit(&art, meta, &at_end) != ST_OK) {
        artifact_discard(&art);
        *e = at_end;
        return e->st;
    }
    print_result(c, dir, &r);
    return st;
}

static enum st deep(struct job_context *c, struct err *e)
{
    struct job_model model;
    bool known = has_model(c->plan);
    if (known)
        TRY(job_model(c, false, &model, e));
    struct deep_params p = params_of(c, known ? &model.m : NULL);
    TRY(command_of(c, &p, e));
    TRY(deep_check(&p, e));
    const char *id, *dir = job_out_dir(c, "deep", &id);
    if (c->plan->deep.dry_run) {
        struct buf text = {0};
        deep_dry_run(c->a, &p, dir, &text);
        log_result(&text);
        buf_free(&text);
        return ST_OK;
    }
    job_catch_signals();
    return session(c, &p, dir, id, e);
}

static int run_deep(struct job_context *c, struct err *e)
{
    if (deep(c, e) != ST_OK)
        err_add(e, "deep");
    return err_exit_code(e->st);
}

const struct cmd cmd_deep = {
    .id = COMMAND_DEEP,
    .columns = "kernels elapsed_ms gpu_time_ms",
    .summary = "where a program's time goes: timeline, counters, roofline, bottlenecks",
    .about =
        "Runs the command unprofiled, under the recorder, and under Nsight Compute on the kernels "
        "that took most, and leaves a folder with tables by stage, a roofline and a summary. What "
        "is missing on the machine costs its own part only. --dry-run prints the commands.",
    .program = true,
    .dry_run = "deep.dry_run=true",
    .example = "twinfer deep model=qwen3_0_6b hardware=h200 deep.roofs=data/h200/roofs.json "
               "out=deep/d1 -- python generate.py",
    .run = run_deep,
};
