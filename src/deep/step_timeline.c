/* The timeline: by our recorder, or by Nsight Systems where it was chosen and is there. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "deep/analysis.h"
#include "deep/steps.h"
#include "trace/record.h"
#include "trace/spool.h"

static struct trace_record recording(const struct deep_params *p, bool light)
{
    return (struct trace_record){.copies = true,
                                 .sync = !light,
                                 .nvtx = true,
                                 .launches = true,
                                 .graphs = 0,
                                 .api = light ? 0 : 2, /* none, runtime */
                                 .flush_ms = 500,
                                 .buffers = 128,
                                 .cupti = p->cupti};
}

/* The folder of the recorder's spools. */
static enum st prepare(struct deep_session *s, bool light, const char *dir,
                       const char *env[TRACE_VARIABLES + 1], struct err *e)
{
    struct artifact folder = *s->art;
    struct trace_variable variables[TRACE_VARIABLES];
    struct trace_record r = recording(s->p, light);
    TRY(trace_guest_library(s->a, s->p->guest_library, &r.library, e));
    TRY(fs_remove_tree(dir, e));
    TRY(fs_mkdirs(dir, e));
    folder.partial.path = dir;
    TRY(trace_record_prepare(&r, &folder, dir, variables, e));
    for (int i = 0; i < TRACE_VARIABLES; i++)
        env[i] = arena_printf(s->a, "%s=%s", variables[i].name, variables[i].value);
    env[TRACE_VARIABLES] = NULL;
    return ST_OK;
}

static bool has_spool(struct deep_session *s, const char *dir)
{
    struct err ignored = {0};
    const char **names;
    size_t n = 0;
    if (fs_list(s->a, dir, &names, &n, &ignored) != ST_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        if (strstr(names[i], SPOOL_SUFFIX))
            return true;
    return false;
}

/* Why there is no timeline: that of the run first, where it failed. */
static void no_timeline(struct deep_session *s, struct deep_step *step, const char *why,
                        const char *remedy, const struct tool_result *ran)
{
    if (ran->why)
        why = arena_printf(s->a, "%s; %s", ran->why, why);
    else
        step->remedy = remedy;
    step_look_at_log(s, step);
    step_explain(step, "failed", why, ran->tail);
}

static void load(struct deep_session *s, struct deep_step *step, const char *path,
                 const struct tool_result *ran)
{
    static const char ON_A_GPU[] =
        "the command must run on a GPU; twinfer doctor says what this machine lacks";
    struct err why = {0};
    if (trace_load(&s->trace, path, NULL, &why) != ST_OK) {
        if (fs_is_dir(path) && !has_spool(s, path))
            no_timeline(s, step, "no process of the command used CUDA", ON_A_GPU, ran);
        else
            no_timeline(s, step, step_own_path(s, err_cause(&why, (int)why.n - 1)), NULL, ran);
        return;
    }
    if (s->trace.ops.n == 0) {
        no_timeline(s, step, "the command did no work on a GPU", ON_A_GPU, ran);
        trace_free(&s->trace);
        return;
    }
    s->has_trace = true;
    if (ran->fate != TOOL_ENDED)
        step_explain(step, "partial", ran->why, ran->tail);
}

static enum st record(struct deep_session *s, bool light, struct err *e)
{
    const char *dir = fs_join(s->a, s->dir, "timeline"), *env[TRACE_VARIABLES + 1];
    struct tool_result ran;
    struct argv argv = {.a = s->a};
    struct deep_step *step =
        step_add(s, light ? "timeline, light" : "timeline", "twinfer's recorder");
    if (prepare(s, light, dir, env, e) != ST_OK) {
        if (e->st != ST_DEVICE)
            return e->st;
        step->remedy = "it is built with the program; deep.library= names another place";
        step_explain(step, "skipped", arena_str(s->a, err_cause(e, 0)), NULL);
        err_clear(e);
        return ST_OK;
    }
    argv_all(&argv, step_command(s->a, s->p, s->dir, light ? "timeline_light" : "timeline"));
    TRY(step_run(s, step, &argv, env, &ran, e));
    if (ran.fate == TOOL_NOT_THERE) {
        step->remedy = NO_PROGRAM;
        step_explain(step, "failed", ran.why, NULL);
        return ST_OK;
    }
    load(s, step, dir, &ran);
    return ST_OK;
}

/* ---- Nsight Systems ---- */

static enum st nsys_tool(struct deep_session *s, const char *name, struct argv *argv,
                         struct tool_result *ran, struct deep_step **step, struct err *e)
{
    *step = step_add(s, name, "nsys");
    return step_run(s, *step, argv, NULL, ran, e);
}

/* Tables of nsys itself, beside ours; without them the session goes on. */
static enum st nsys_tables(struct deep_session *s, const char *recording_path, struct err *e)
{
    struct argv argv = {.a = s->a};
    struct tool_result ran;
    struct deep_step *step;
    if (!s->p->nsys.reports.n)
        return ST_OK;
    nsys_stats(&argv, &s->p->nsys, recording_path, fs_join(s->a, s->dir, "nsys/run"));
    TRY(nsys_tool(s, "nsys stats", &argv, &ran, &step, e));
    step->overhead_percent = NAN;
    if (ran.fate != TOOL_ENDED)
        step_explain(step, "failed", ran.why, ran.tail);
    return ST_OK;
}

static enum st by_nsys(struct deep_session *s, bool light, struct err *e)
{
    struct arena *a = s->a;
    const char *output = fs_join(a, s->dir, "nsys/run"),
               *sqlite = fs_join(a, s->dir, "nsys/run.sqlite");
    struct argv profile = {.a = a}, export = {.a = a};
    struct tool_result ran, exported;
    struct deep_step *step, *second;
    TRY(fs_mkdirs(fs_join(a, s->dir, "nsys"), e));
    nsys_profile(&profile, &s->p->nsys, light, output,
                 step_command(a, s->p, s->dir, light ? "nsys_light" : "nsys"));
    TRY(nsys_tool(s, light ? "timeline, nsys, light" : "timeline, nsys", &profile, &ran, &step, e));
    size_t more;
    const char *found = nsys_recording(a, output, &more);
    if (ran.fate == TOOL_NOT_THERE || !found) {
        if (ran.fate == TOOL_NOT_THERE)
            step->remedy =
                "install Nsight Systems or set nsys.path; our own recorder takes its place";
        step_look_at_log(s, step);
        step_explain(step, "failed", ran.why ? ran.why : "nsys left no recording", ran.tail);
        return ST_OK;
    }
    if (more)
        deep_note(a, s->result,
                  "nsys left %zu recordings: %s is the timeline; nsys export --type sqlite and "
                  "deep.trace= take another.",
                  more + 1, fs_base(found));
    nsys_export(&export, &s->p->nsys, found, sqlite);
    TRY(nsys_tool(s, "nsys export", &export, &exported, &second, e));
    second->overhead_percent = NAN;
    if (exported.fate != TOOL_ENDED || !fs_exists(sqlite)) {
        step_look_at_log(s, second);
        step_explain(second, "failed", exported.why ? exported.why : "nsys wrote no SQLite file",
                     exported.tail);
        return ST_OK;
    }
    load(s, step, sqlite, &ran);
    return nsys_tables(s, found, e);
}

/* ---- both ---- */

static enum st once(struct deep_session *s, bool nsys, bool light, struct err *e)
{
    return nsys ? by_nsys(s, light, e) : record(s, light, e);
}

/* In light mode. What was recorded before stands where that leaves no timeline. */
static enum st repeat(struct deep_session *s, bool nsys, struct err *e)
{
    const char *dir = fs_join(s->a, s->dir, nsys ? "nsys" : "timeline"),
               *aside = arena_printf(s->a, "%s_full", dir);
    struct trace full = s->trace;
    s->has_trace = false;
    if (rename(dir, aside) != 0)
        return err_errno(e, false, "%s", dir);
    enum st st = once(s, nsys, true, e);
    if (st != ST_OK || s->has_trace) {
        trace_free(&full);
        return st == ST_OK ? fs_remove_tree(aside, e) : st;
    }
    s->trace = full;
    s->has_trace = true;
    TRY(fs_remove_tree(dir, e));
    return rename(aside, dir) == 0 ? ST_OK : err_errno(e, false, "%s", aside);
}

static bool costs_too_much(const struct deep_session *s, size_t step)
{
    return s->has_trace && s->result->steps[step].overhead_percent > s->p->max_overhead_percent;
}

enum st step_timeline(struct deep_session *s, struct err *e)
{
    bool light = s->p->mode == DEEP_LIGHT, nsys = s->p->timeline == DEEP_TIMELINE_NSYS;
    size_t first = s->result->n_steps;
    TRY(once(s, nsys, light, e));
    if (nsys && !s->has_trace) {
        nsys = false;
        first = s->result->n_steps;
        TRY(once(s, nsys, light, e));
    }
    if (light || !costs_too_much(s, first))
        return ST_OK;
    struct deep_step *step = &s->result->steps[first];
    step->remedy = "deep.max_overhead_percent= allows more";
    step_explain(step, "partial",
                 arena_printf(s->a,
                              "its overhead of %.0f %% is over the limit of %.0f %%: repeated in "
                              "light mode",
                              step->overhead_percent, s->p->max_overhead_percent),
                 NULL);
    return repeat(s, nsys, e);
}
