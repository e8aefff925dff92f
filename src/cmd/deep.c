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

static struct texts texts_of(const struct texts *l)
{
    return (struct texts){l->items, l->n};
}

/* The words after --, or this program with them as settings of one of its commands. */
static enum st command_of(const struct job_context *c, struct deep_params *out, struct err *e)
{
    struct argv v = {.a = c->a};
    if (c->plan->work) {
        char *self = realpath("/proc/self/exe", NULL);
        if (!self)
            return err_errno(e, true, "/proc/self/exe");
        argv_add(&v, arena_str(c->a, self));
        argv_add(&v, c->plan->work);
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
    const struct plan *p = c->plan;
    const char *clocks = p->ncu.clock_control;
    return (struct deep_params){
        .baseline = p->deep.baseline,
        .warmup = p->deep.warmup,
        .timeline = p->deep.timeline,
        .mode = p->deep.mode,
        .trace = p->deep.trace,
        .session = p->deep.session,
        .against = p->deep.against,
        .csv = texts_of(&p->ncu.csv),
        .top = p->deep.top,
        .max_overhead_percent = p->deep.max_overhead_percent,
        .limit_s = p->deep.timeout_s,
        .stages = p->deep.stages,
        .regions = texts_of(&p->deep.regions),
        .include = texts_of(&p->deep.include),
        .exclude = texts_of(&p->deep.exclude),
        .groups = texts_of(&p->deep.metrics),
        .inputs = texts_of(&p->deep.inputs),
        .nsys = {.path = p->nsys.path,
                 .trace = texts_of(&p->nsys.trace),
                 .sample = p->nsys.sample,
                 .capture_range = p->nsys.capture_range,
                 .nvtx_capture = p->nsys.nvtx_capture,
                 .capture_end = p->nsys.capture_end,
                 .reports = texts_of(&p->nsys.reports),
                 .args = texts_of(&p->nsys.args)},
        .ncu = {.path = p->ncu.path,
                .target_processes = p->ncu.target_processes,
                .replay = p->ncu.replay,
                .clock_control = clocks,
                .set = p->ncu.set,
                .sections = texts_of(&p->ncu.sections),
                .metrics = texts_of(&p->ncu.metrics),
                .nvtx = p->ncu.nvtx,
                .nvtx_include = texts_of(&p->ncu.nvtx_include),
                .nvtx_exclude = texts_of(&p->ncu.nvtx_exclude),
                .kernel_name = p->ncu.kernel_name,
                .filter_mode = p->ncu.filter_mode,
                .launch_skip = p->ncu.launch_skip,
                .launch_count = p->ncu.launch_count,
                .args = texts_of(&p->ncu.args)},
        .ncu_enabled = p->ncu.enabled,
        .ncu_by_region = p->ncu.by_region,
        .ncu_query = p->ncu.query,
        .guest_library = p->deep.library,
        .cupti = p->deep.cupti,
        .roofs = p->deep.roofs,
        .rates = {.id = p->hardware.id,
                  .dram_gb_per_s = p->hardware.dram_gb_per_s,
                  .fp32 = p->hardware.peak_tflops.fp32,
                  .tf32 = p->hardware.peak_tflops.tf32,
                  .bf16 = p->hardware.peak_tflops.bf16,
                  .fp16 = p->hardware.peak_tflops.fp16,
                  .fp8 = p->hardware.peak_tflops.fp8,
                  .fp4 = p->hardware.peak_tflops.fp4,
                  .int8 = p->hardware.peak_tflops.int8},
        .model = model,
        .stop = &job_stop,
    };
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
