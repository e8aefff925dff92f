/* A session again, from the folder that one left: its timeline, tables, machine and steps, with
 * other stages, roofs or groups of figures. Nothing is run. */
#include <string.h>

#include "base/log.h"
#include "deep/analysis.h"
#include "deep/env.h"
#include "deep/steps.h"
#include "text/json.h"

/* The steps of that session, as they went. */
static void take_steps(struct deep_session *s, const struct deep_result *old)
{
    for (size_t i = 0; i < old->n_steps; i++)
        *step_add(s, old->steps[i].name, old->steps[i].tool) = old->steps[i];
    s->result->command = old->command;
}

/* Its timeline; why: of the first that cannot be read, as that of a session whose recorder saw
 * nothing. */
static void take_trace(struct deep_session *s, const char *dir, struct err *why)
{
    const char *places[] = {fs_join(s->a, dir, "timeline"), fs_join(s->a, dir, "nsys/run.sqlite")};
    for (size_t i = 0; i < 2 && !s->has_trace; i++) {
        struct err one = {0};
        if (!fs_exists(places[i]))
            continue;
        if (trace_load(&s->trace, places[i], NULL, &one) != ST_OK) {
            if (why->st == ST_OK)
                *why = one;
            continue;
        }
        s->has_trace = s->trace.ops.n > 0;
        if (!s->has_trace)
            trace_free(&s->trace);
    }
}

/* Its tables. One that is damaged was in the session too: its step says so. */
static void take_tables(struct deep_session *s, const char *dir)
{
    const char *folder = fs_join(s->a, dir, "ncu"), **names;
    struct err ignored = {0};
    size_t n;
    if (!fs_is_dir(folder) || fs_list(s->a, folder, &names, &n, &ignored) != ST_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        err_clear(&ignored);
        ncu_csv_read(&s->ncu, fs_join(s->a, folder, names[i]), &ignored);
    }
    s->has_ncu = s->ncu.launches.n > 0;
}

enum st step_given_session(struct deep_session *s, struct err *e)
{
    const char *dir = s->p->session;
    struct deep_result old;
    struct node *meta;
    TRY(artifact_open(s->a, dir, "run_meta.json", "deep", &meta, e));
    TRY(deep_result_load(s->a, fs_join(s->a, dir, "deep.json"), &old, e));
    TRY(json_load(s->a, fs_join(s->a, dir, "env.json"), NULL, &s->env, e));
    take_steps(s, &old);
    struct err no_trace = {0};
    take_trace(s, dir, &no_trace);
    take_tables(s, dir);
    if (!s->has_trace && !s->has_ncu && no_trace.st != ST_OK) {
        *e = no_trace;
        return e->st;
    }
    if (!s->has_trace && no_trace.st != ST_OK) {
        deep_note(s->a, s->result, "%s has no timeline that can be read: %s.", dir,
                  err_cause(&no_trace, (int)no_trace.n - 1));
        log_warn("%s has no timeline that can be read: %s", dir,
                 err_cause(&no_trace, (int)no_trace.n - 1));
    }
    if (!s->has_trace && !s->has_ncu) {
        err_set(e, ST_INPUT, "%s has neither a timeline nor tables of Nsight Compute", dir);
        return err_hint(e,
                        "tables that it was given are where they were: ncu.csv= takes them again");
    }
    return ST_OK;
}
