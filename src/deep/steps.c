/* What all steps share, the baseline, and files that were made before. */
#include "deep/steps.h"

#include <math.h>
#include <string.h>

#include "base/log.h"

const char NO_PROGRAM[] = "the word after -- names a program";

enum { STEPS_MAX = DEEP_MAX_STAGES + 64 };

struct deep_step *step_add(struct deep_session *s, const char *name, const char *tool)
{
    if (!s->result->steps)
        s->result->steps = arena_array(s->a, struct deep_step, STEPS_MAX);
    ASSERT(s->result->n_steps < STEPS_MAX);
    struct deep_step *step = &s->result->steps[s->result->n_steps++];
    *step = (struct deep_step){
        .name = name, .tool = tool, .state = "ok", .wall_s = NAN, .overhead_percent = NAN};
    return step;
}

void step_explain(struct deep_step *step, const char *state, const char *why, const char *output)
{
    struct tool_known known = tool_explain(output ? output : "");
    step->state = state;
    step->reason = known.reason ? known.reason : why;
    if (known.remedy)
        step->remedy = known.remedy;
    log_warn("%s: %s%s%s", step->name, step->reason, step->remedy ? "; " : "",
             step->remedy ? step->remedy : "");
}

struct texts step_command(struct arena *a, const struct deep_params *p, const char *dir,
                          const char *run)
{
    if (!p->ours)
        return p->command;
    struct argv v = {.a = a};
    argv_all(&v, p->command);
    argv_add(&v, arena_printf(a, "out=%s/work/%s", dir, run));
    return (struct texts){argv_words(&v), v.n};
}

static const char *file_name(struct arena *a, const char *name)
{
    char *out = arena_str(a, name);
    for (char *p = out; *p; p++)
        if (strchr("/ ,()*?\\", *p))
            *p = '_';
    return out;
}

const char *step_log(struct deep_session *s, const struct deep_step *step)
{
    return arena_printf(s->a, "logs/%s.log", file_name(s->a, step->name));
}

const char *step_own_path(struct deep_session *s, const char *cause)
{
    size_t n = strlen(s->dir);
    return arena_str(s->a,
                     strncmp(cause, s->dir, n) == 0 && cause[n] == '/' ? cause + n + 1 : cause);
}

void step_look_at_log(struct deep_session *s, struct deep_step *step)
{
    if (!step->remedy)
        step->remedy = arena_printf(s->a, "%s has its output", step_log(s, step));
}

enum st step_run(struct deep_session *s, struct deep_step *step, struct argv *argv,
                 const char *const *env, struct tool_result *out, struct err *e)
{
    const struct tool_run run = {.argv = argv_words(argv),
                                 .env = env,
                                 .log = fs_join(s->a, s->dir, step_log(s, step)),
                                 .limit_s = s->p->limit_s,
                                 .stop = s->p->stop};
    log_info("deep: %s", step->name);
    if (s->p->stop && *s->p->stop) /* between two runs */
        *out = (struct tool_result){.fate = TOOL_STOPPED, .tail = ""};
    else
        TRY(tool_start_and_wait(s->a, &run, out, e));
    if (out->fate == TOOL_STOPPED) {
        err_set(e, ST_INTERRUPTED, "interrupted");
        return err_add(e, "%s", step->name);
    }
    if (out->fate != TOOL_NOT_THERE)
        step->wall_s = out->wall_s;
    if (out->fate == TOOL_CUT_OFF)
        step->remedy = "deep.timeout_s= allows more";
    if (out->fate == TOOL_FAILED)
        step_look_at_log(s, step);
    step->overhead_percent = 100 * (step->wall_s / s->baseline_s - 1);
    return ST_OK;
}

enum st step_unprofiled(struct deep_session *s, const char *name, bool counts, bool *go_on,
                        struct err *e)
{
    struct tool_result ran;
    struct argv argv = {.a = s->a};
    struct deep_step *step = step_add(s, name, NULL);
    argv_all(&argv, step_command(s->a, s->p, s->dir, name));
    TRY(step_run(s, step, &argv, NULL, &ran, e));
    if (ran.fate == TOOL_ENDED) {
        if (counts)
            s->baseline_s = ran.wall_s;
        step->overhead_percent = NAN;
        return ST_OK;
    }
    *go_on = false;
    if (ran.fate == TOOL_FAILED)
        step->remedy =
            arena_printf(s->a, "the command must succeed unprofiled first; %s has its output",
                         step_log(s, step));
    if (ran.fate == TOOL_NOT_THERE)
        step->remedy = NO_PROGRAM;
    step_explain(step, "failed", ran.why, NULL);
    return ST_OK;
}

enum st step_given_trace(struct deep_session *s, struct err *e)
{
    TRY(trace_load(&s->trace, s->p->trace, NULL, e));
    step_add(s, "timeline", arena_printf(s->a, "made before: %s", s->p->trace));
    s->has_trace = true;
    return ST_OK;
}

enum st step_given_csv(struct deep_session *s, struct err *e)
{
    for (size_t i = 0; i < s->p->csv.n; i++) {
        size_t before = s->ncu.launches.n, told = s->ncu.notes.n;
        TRY(ncu_csv_read(&s->ncu, s->p->csv.items[i], e));
        for (; told < s->ncu.notes.n; told++)
            log_warn("%s", s->ncu.notes.p[told]);
        struct deep_step *step =
            step_add(s, "ncu", arena_printf(s->a, "made before: %s", s->p->csv.items[i]));
        if (s->ncu.launches.n == before) {
            step->remedy = "Nsight Compute writes one row or more for each launch that it profiled";
            step_explain(step, "failed",
                         arena_printf(s->a, "the table %s has no launches", s->p->csv.items[i]),
                         NULL);
        } else
            s->has_ncu = true;
    }
    return ST_OK;
}
