/* The order of a session, and what becomes of each step that fails. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "deep/analysis.h"
#include "deep/deep.h"
#include "deep/env.h"
#include "deep/repeat.h"
#include "deep/session_files.h"
#include "deep/steps.h"
#include "text/json.h"
#include "text/yaml.h"

enum st deep_check(const struct deep_params *p, struct err *e)
{
    struct arena *a = arena_new();
    struct deep_stages stages;
    enum st st = deep_stages_read(a, p->stages, &stages, e);
    for (size_t i = 0; st == ST_OK && i < p->groups.n; i++) {
        unsigned g = 0;
        while (g < GROUPS && strcmp(deep_group_name(g), p->groups.items[i]) != 0)
            g++;
        if (g == GROUPS) {
            err_set(e, ST_USAGE, "deep.metrics: there is no group '%s'", p->groups.items[i]);
            st = err_hint(e, "there are time, flop, memory, occupancy, limits");
        }
    }
    if (st == ST_OK)
        st = nsys_check(&p->nsys, e);
    if (st == ST_OK && !p->command.n && !p->trace && !p->csv.n && !p->session) {
        err_set(e, ST_USAGE, "there is nothing to profile");
        st = err_hint(e,
                      "twinfer deep [key=value ...] -- command ..., or deep.trace= and ncu.csv= of "
                      "earlier runs");
    }
    if (st == ST_OK && p->session && (p->command.n || p->trace))
        st =
            err_set(e, ST_USAGE,
                    "deep.session takes the place of the command and of deep.trace: leave out one");
    if (st == ST_OK && p->command.n && p->trace)
        st = err_set(e, ST_USAGE,
                     "deep.trace takes the place of the command: leave out one of them");
    arena_free(&a);
    return st;
}

/* Files that were made before and are read now. */
static struct texts given(const struct deep_session *s)
{
    const struct deep_params *p = s->p;
    const char **out = arena_array(s->a, const char *, p->csv.n + 3);
    size_t n = 0;
    for (size_t i = 0; i < p->csv.n; i++)
        out[n++] = p->csv.items[i];
    if (p->trace)
        out[n++] = p->trace;
    if (p->roofs)
        out[n++] = p->roofs;
    return (struct texts){out, n};
}

static enum st write_provenance(struct deep_session *s, struct err *e)
{
    const struct deep_params *p = s->p;
    struct buf text = {0};
    const struct env_tools tools = {p->ncu.path, p->nsys.path, {p->limit_s, p->stop}};
    struct node *inputs;
    if (p->session) { /* of the machine that measured */
        if (json_load(s->a, fs_join(s->a, p->session, "env.json"), NULL, &s->env, e) != ST_OK)
            return err_hint(e, "deep.session= takes a folder that twinfer deep left");
        TRY(yaml_load(s->a, fs_join(s->a, p->session, "inputs.yaml"), &inputs, e));
    } else {
        s->env = env_node(s->a, &tools, &s->silence);
        if (p->stop && *p->stop)
            return err_set(e, ST_INTERRUPTED, "interrupted");
        for (size_t i = 0; i < s->silence.n_hung; i++)
            deep_note(s->a, s->result, "%s: env.json lacks what it would have said.",
                      s->silence.hung[i]);
        inputs = env_inputs(s->a, p->command, p->inputs);
    }
    env_inputs_add(s->a, inputs, given(s));
    TRY(artifact_write_json(s->art, "env.json", s->env, e));
    yaml_write(&text, inputs);
    enum st st = artifact_write(s->art, "inputs.yaml", &text, e);
    buf_free(&text);
    return st;
}

static void join(struct buf *out, struct map *seen, const char *text)
{
    bool is_new;
    map_put(seen, text, strlen(text), &is_new);
    if (is_new)
        buf_printf(out, "%s%s", out->n ? "; " : "", text);
}

/* GPUs that the tables name. The number of different ones. */
static size_t add_gpus(struct deep_session *s)
{
    struct deep_result *r = s->result;
    struct buf names = {0}, ccs = {0};
    struct map by_name, by_cc;
    map_init(&by_name, s->a);
    map_init(&by_cc, s->a);
    for (size_t i = 0; s->has_ncu && i < s->ncu.launches.n; i++) {
        const struct ncu_launch *l = &s->ncu.launches.p[i];
        if (l->device_name)
            join(&names, &by_name, l->device_name);
        if (l->cc > 0)
            join(&ccs, &by_cc, arena_printf(s->a, "%.1f", l->cc));
    }
    if (names.n)
        r->environment[r->n_environment++] =
            (struct deep_fact){"GPU", arena_str(s->a, buf_str(&names))};
    if (ccs.n)
        r->environment[r->n_environment++] =
            (struct deep_fact){"Compute capability", arena_str(s->a, buf_str(&ccs))};
    buf_free(&names);
    buf_free(&ccs);
    return by_name.n > by_cc.n ? by_name.n : by_cc.n;
}

/* A machine that says which GPU it has; without one, that of ncu's table. */
static void add_facts(struct deep_session *s)
{
    struct deep_result *r = s->result;
    if (s->p->command.n || s->p->session) {
        r->environment = env_facts(s->a, s->env, &r->n_environment);
        return;
    }
    r->environment = arena_array(s->a, struct deep_fact, 4);
    size_t models = add_gpus(s);
    if (models > 1)
        deep_note(s->a, r,
                  "The tables are of %zu kinds of GPU: each kernel stands under the roofs that are "
                  "named above, whichever GPU it ran on.",
                  models);
    if (s->p->trace)
        r->environment[r->n_environment++] = (struct deep_fact){"Timeline", s->p->trace};
    r->environment[r->n_environment++] =
        (struct deep_fact){"Measured", "elsewhere: only the tables were given"};
}

/* Whether the roofs are of a GPU that the session's machine has, as far as both are known. */
static void note_roofs(struct deep_session *s, const struct deep_roofs *roofs)
{
    const struct node *gpus = node_find(s->env, "gpus");
    const char *other = NULL;
    for (size_t i = 0; gpus && i < gpus->n; i++) {
        const struct node *name = node_find(gpus->items[i], "name");
        if (!name || name->kind != NODE_STR)
            continue;
        if (!roofs->gpu || sv_eq(name->s, roofs->gpu))
            return;
        other = name->s.p;
    }
    if (other)
        deep_note(
            s->a, s->result,
            "The roofs are of another GPU, %s, than the session's, %s: what stands in percent "
            "of a roof is that of neither (twinfer doctor doctor.measure=true measures those "
            "of this GPU, for deep.roofs=).",
            roofs->gpu, other);
}

/* What is to be done where nothing was measured. */
static enum st reject(const struct deep_session *s, struct err *e)
{
    const struct deep_result *r = s->result;
    for (size_t i = 0; i < r->n_steps; i++)
        if (strcmp(r->steps[i].state, "failed") == 0 || strcmp(r->steps[i].state, "skipped") == 0) {
            err_set(e, ST_REJECTED, "%s: %s", r->steps[i].name, r->steps[i].reason);
            if (r->steps[i].remedy)
                err_hint(e, "%s", r->steps[i].remedy);
            break;
        }
    if (e->st == ST_OK)
        err_set(e, ST_REJECTED, "every step was switched off");
    return err_add(e, "nothing was measured");
}

static enum st analyse(struct deep_session *s, struct err *e)
{
    const struct deep_params *p = s->p;
    struct deep_roofs roofs;
    TRY(deep_roofs_make(s->a, p->roofs, p->hardware, s->has_ncu ? &s->ncu : NULL, &roofs, e));
    if (s->has_trace)
        deep_stages_rate(&s->stages, p->model, &roofs);
    const struct deep_analysis x = {.k = s->has_trace ? &s->kernels : NULL,
                                    .ncu = s->has_ncu ? &s->ncu : NULL,
                                    .roofs = &roofs,
                                    .model = p->model,
                                    .stages = &s->stages,
                                    .regions = p->regions,
                                    .include = p->include,
                                    .exclude = p->exclude,
                                    .top = p->top};
    s->result->model = p->model ? p->model->name : NULL;
    add_facts(s);
    note_roofs(s, &roofs);
    if (!s->has_trace && !s->has_ncu) {
        struct err why = {0};
        reject(s, &why);
        const char *hint = err_hint_text(&why);
        deep_note(s->a, s->result, "Nothing was measured: %s%s%s.", err_cause(&why, (int)why.n - 1),
                  hint ? "; " : "", hint ? hint : "");
    }
    deep_analyse(s->a, &x, s->result);
    if (p->against && (s->has_trace || s->has_ncu))
        deep_repeat(s->a, p->against, &s->before, s->result);
    return deep_files_write(s->a, &x, s->art, p->groups, s->result, e);
}

static enum st unprofiled(struct deep_session *s, bool *go_on, struct err *e)
{
    if (s->p->warmup)
        TRY(step_unprofiled(s, "warm-up", false, go_on, e));
    return *go_on ? step_unprofiled(s, "baseline", true, go_on, e) : ST_OK;
}

static enum st measure(struct deep_session *s, struct err *e)
{
    const struct deep_params *p = s->p;
    bool go_on = true;
    if (p->session)
        TRY(step_given_session(s, e));
    if (p->command.n && p->baseline)
        TRY(unprofiled(s, &go_on, e));
    if (go_on && p->command.n && p->timeline != DEEP_TIMELINE_NONE)
        TRY(step_timeline(s, e));
    if (p->trace)
        TRY(step_given_trace(s, e));
    if (s->has_trace) {
        kernels_open(&s->kernels, &s->trace, NULL);
        deep_stages_measure(s->a, &s->stages, &s->kernels);
    }
    if (go_on && p->command.n && p->ncu_enabled)
        TRY(step_ncu(s, e));
    return step_given_csv(s, e);
}

/* The session to compare with, before anything runs that could be in vain. */
static enum st take_before(struct deep_session *s, struct err *e)
{
    if (deep_result_load(s->a, fs_join(s->a, s->p->against, "deep.json"), &s->before, e) != ST_OK)
        return err_hint(e, "deep.against= takes a folder that twinfer deep left");
    return ST_OK;
}

enum st deep_run(struct arena *a, const struct deep_params *p, const struct artifact *art,
                 struct deep_result *out, struct err *e)
{
    struct deep_session s = {.a = a, .p = p, .art = art, .result = out, .baseline_s = NAN};
    char *cwd = getcwd(NULL, 0);
    *out = (struct deep_result){.schema_version = DEEP_SCHEMA,
                                .command = p->command.n ? argv_line(a, p->command) : NULL};
    s.dir = art->partial.path[0] == '/' || !cwd ? art->partial.path
                                                : fs_join(a, cwd, art->partial.path);
    free(cwd);
    ncu_table_init(&s.ncu, a);
    enum st st = deep_stages_read(a, p->stages, &s.stages, e);
    if (st == ST_OK && p->against)
        st = take_before(&s, e);
    if (st == ST_OK && p->command.n)
        st = fs_mkdirs(fs_join(a, s.dir, "logs"), e);
    if (st == ST_OK)
        st = write_provenance(&s, e);
    if (st == ST_OK)
        st = measure(&s, e);
    if (st == ST_OK)
        st = analyse(&s, e);
    if (s.kernels.a)
        kernels_close(&s.kernels);
    if (s.has_trace)
        trace_free(&s.trace);
    ncu_table_free(&s.ncu);
    if (st == ST_OK && !s.has_trace && !s.has_ncu)
        st = reject(&s, e);
    return st;
}
