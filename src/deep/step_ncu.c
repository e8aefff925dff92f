/* Nsight Compute on the kernels that took most. */
#include <math.h>
#include <string.h>

#include "deep/analysis.h"
#include "deep/steps.h"

/* What a query printed; "" when it failed: then all metrics are asked for. */
static enum st query(struct deep_session *s, bool of_launch, const char **out, struct err *e)
{
    struct argv argv = {.a = s->a};
    struct tool_result ran;
    struct deep_step *step =
        step_add(s, of_launch ? "ncu metrics of the launch" : "ncu metrics", "ncu");
    ncu_query(&argv, &s->p->ncu, of_launch);
    TRY(step_run(s, step, &argv, NULL, &ran, e));
    step->overhead_percent = NAN;
    *out = "";
    if (ran.fate != TOOL_ENDED) {
        step->remedy = "every metric of ncu.metrics is asked for instead";
        step_explain(step, "failed", ran.why, ran.tail);
        return ST_OK;
    }
    struct sv text;
    TRY(fs_read(s->a, fs_join(s->a, s->dir, step_log(s, step)), (size_t)64 << 20, &text, e));
    *out = text.p ? text.p : "";
    return ST_OK;
}

/* The metrics that were not asked for, as this GPU's queries do not name them. */
static void note_unknown(struct deep_session *s, struct texts known)
{
    const struct texts *wanted = &s->p->ncu.metrics;
    struct buf names = {0};
    for (size_t i = 0, k = 0; i < wanted->n; i++)
        if (k < known.n && strcmp(known.items[k], wanted->items[i]) == 0)
            k++;
        else
            buf_printf(&names, "%s%s", names.n ? ", " : "", wanted->items[i]);
    deep_note(s->a, s->result,
              "Nsight Compute knows %zu of the %zu metrics asked for on this GPU, without %s.",
              known.n, wanted->n, buf_str(&names));
    buf_free(&names);
}

static enum st known_metrics(struct deep_session *s, struct texts *out, struct err *e)
{
    const char *counters, *launch;
    *out = s->p->ncu.metrics;
    if (!s->p->ncu_query || !out->n)
        return ST_OK;
    TRY(query(s, false, &counters, e));
    if (!*counters)
        return ST_OK;
    TRY(query(s, true, &launch, e));
    *out = ncu_known(s->a, s->p->ncu.metrics, counters, launch);
    if (out->n < s->p->ncu.metrics.n)
        note_unknown(s, *out);
    return ST_OK;
}

static const char *read_text(struct deep_session *s, const char *path)
{
    struct err ignored = {0};
    struct sv text;
    return fs_exists(path) && fs_read(s->a, path, (size_t)1 << 20, &text, &ignored) == ST_OK &&
                   text.p
               ? text.p
               : "";
}

/* The table, as far as there is one; what failed goes to the step. */
static void take_table(struct deep_session *s, struct deep_step *step, const char *csv,
                       const struct tool_result *ran)
{
    struct err why = {0};
    size_t before = s->ncu.launches.n;
    bool read = fs_exists(csv) && ncu_csv_read(&s->ncu, csv, &why) == ST_OK;
    bool any = s->ncu.launches.n > before;
    const char *said = arena_printf(s->a, "%s\n%s", any ? "" : read_text(s, csv), ran->tail);
    s->has_ncu |= any;
    if (!any)
        step_look_at_log(s, step);
    if (any && ran->fate != TOOL_ENDED)
        step_explain(step, "partial", ran->why, said);
    else if (!any)
        step_explain(step, "failed",
                     ran->why ? ran->why
                     : read   ? "no launch was profiled"
                     : why.n  ? step_own_path(s, err_cause(&why, 0))
                              : "ncu wrote no table",
                     said);
}

static enum st profile(struct deep_session *s, const char *region, const char *range,
                       struct texts metrics, const char *regex, struct err *e)
{
    struct argv argv = {.a = s->a};
    struct tool_result ran;
    const char *csv = ncu_csv_path(s->a, s->dir, region);
    struct deep_step *step =
        step_add(s, region ? arena_printf(s->a, "ncu %s", region) : "ncu", "ncu");
    ncu_command(&argv, &s->p->ncu, metrics, regex, range, csv,
                step_command(
                    s->a, s->p, s->dir,
                    arena_printf(s->a, "ncu_%.*s", (int)(strlen(fs_base(csv)) - 4), fs_base(csv))));
    TRY(step_run(s, step, &argv, NULL, &ran, e));
    if (ran.fate == TOOL_NOT_THERE) {
        step->remedy = "install Nsight Compute or set ncu.path; ncu=none leaves it out";
        step_explain(step, "skipped", ran.why, NULL);
        return ST_OK;
    }
    if (ran.fate == TOOL_CUT_OFF)
        step->remedy = "deep.timeout_s= allows more; fewer kernels (deep.top=), launches "
                       "(ncu.launch_count=) or metrics (ncu=metrics) take less";
    take_table(s, step, csv, &ran);
    return ST_OK;
}

static enum st by_region(struct deep_session *s, struct texts metrics, const char *regex,
                         struct err *e)
{
    for (int i = 0; i < s->stages.n; i++) {
        const struct deep_stage *stage = &s->stages.p[i];
        if (s->has_trace && !stage->all.instances)
            continue;
        TRY(profile(s, stage->path, ncu_range(s->a, stage->pattern), metrics, regex, e));
    }
    for (size_t i = 0; i < s->p->regions.n; i++)
        TRY(profile(s, s->p->regions.items[i], ncu_range(s->a, s->p->regions.items[i]), metrics,
                    regex, e));
    return ST_OK;
}

/* The kernels that the timeline says took most; NULL without a timeline: all. */
static const char *top_regex(struct deep_session *s)
{
    struct deep_roofs none;
    const struct hardware no_rates = {0};
    struct err ignored = {0};
    size_t n, used, nccl;
    if (!s->has_trace || deep_roofs_make(s->a, NULL, &no_rates, NULL, &none, &ignored) != ST_OK)
        return NULL;
    const struct deep_analysis x = {
        .k = &s->kernels, .roofs = &none, .stages = &s->stages, .top = s->p->top};
    bool alone = strcmp(s->p->ncu.replay, "kernel") == 0; /* not ranges, nor the whole program */
    const char *const *names = deep_top_kernels(s->a, &x, !alone, &n, &nccl);
    const char *regex = ncu_regex(s->a, names, n, &used);
    if (nccl)
        deep_note(
            s->a, s->result,
            "Nsight Compute was not asked for %zu of the top kernels, NCCL's: it repeats each "
            "kernel alone, and these would wait for the other processes until they are cut "
            "off (ncu.replay=application repeats the program instead).",
            nccl);
    if (used < n)
        deep_note(s->a, s->result,
                  "The names of %zu of the %zu top kernels are too long for one "
                  "command: Nsight Compute was not asked for the last %zu.",
                  n - used, n, n - used);
    return regex;
}

enum st step_ncu(struct deep_session *s, struct err *e)
{
    struct texts metrics;
    const struct tool_answer *version = &s->silence.ncu;
    if (!version->text) {
        struct deep_step *step = step_add(s, "ncu", NULL);
        step->remedy = version->hung
                           ? "its --version must answer; ncu.path= names another, ncu=none leaves "
                             "it out"
                           : "install Nsight Compute or set ncu.path; ncu=none leaves it out";
        step_explain(step, "skipped", version->why, NULL);
        return ST_OK;
    }
    if (!s->has_trace && s->p->timeline != DEEP_TIMELINE_NONE && !s->p->ncu.kernel_name) {
        struct deep_step *step = step_add(s, "ncu", NULL);
        step->remedy = "deep.timeline=none or ncu.kernel_name= profile without one";
        step_explain(step, "skipped", "without a timeline the top kernels are not known", NULL);
        return ST_OK;
    }
    const char *regex = s->p->ncu.kernel_name ? NULL : top_regex(s);
    if (s->has_trace && !regex && !s->p->ncu.kernel_name) {
        struct deep_step *step = step_add(s, "ncu", NULL);
        step->remedy = "deep.stages= names ranges around the kernels";
        step_explain(step, "skipped", "the timeline has no kernels but NCCL's in the stages", NULL);
        return ST_OK;
    }
    TRY(fs_mkdirs(fs_join(s->a, s->dir, "ncu"), e));
    TRY(known_metrics(s, &metrics, e));
    return s->p->ncu_by_region ? by_region(s, metrics, regex, e)
                               : profile(s, NULL, NULL, metrics, regex, e);
}
