#include "doctor/doctor.h"

#include "cmd/commands.h"
#include "job/job.h"

static const char *const state_words[] = {"ok", "note", "missing", "MISSING"};

static void print_text(const struct doctor_findings *f)
{
    for (size_t i = 0; i < f->rows.n; i++) {
        const struct doctor_finding *r = &f->rows.p[i];
        printf("%-8s %-25s %s\n", state_words[r->state], r->what, r->found);
        if (r->remedy && r->remedy[0])
            printf("         %-25s -> %s\n", "", r->remedy);
    }
}

static void print_json(struct job_context *c, const struct doctor_findings *f)
{
    struct node *out = node_new(c->a, NODE_MAP);
    struct node *list = node_set(c->a, out, SV("findings"), node_new(c->a, NODE_LIST));
    for (size_t i = 0; i < f->rows.n; i++) {
        const struct doctor_finding *r = &f->rows.p[i];
        struct node *n = node_new(c->a, NODE_MAP);
        node_set(c->a, n, SV("state"),
                 node_str(c->a, r->state == DOCTOR_NEEDED ? "needed" : state_words[r->state]));
        node_set(c->a, n, SV("what"), node_str(c->a, r->what));
        node_set(c->a, n, SV("found"), node_str(c->a, r->found));
        if (r->remedy)
            node_set(c->a, n, SV("remedy"), node_str(c->a, r->remedy));
        node_push(c->a, list, n);
    }
    job_result(c, out, NULL);
}

static int run_doctor(struct job_context *c, struct err *e)
{
    struct doctor_findings f = {.a = c->a};
    doctor_machine(&f);
    doctor_leftovers(&f, (const char *const *)c->plan->doctor.folders.items,
                     c->plan->doctor.folders.n, c->plan->doctor.remove_partial, e);
    if (c->json)
        print_json(c, &f);
    else
        print_text(&f);
    int code = 0;
    for (size_t i = 0; i < f.rows.n; i++)
        if (f.rows.p[i].state == DOCTOR_NEEDED)
            code = 4;
    vec_free(&f.rows);
    if (e->st == ST_OK)
        return code;
    err_add(e, "doctor");
    return err_exit_code(e->st);
}

const struct cmd cmd_doctor = {
    .id = COMMAND_DOCTOR,
    .summary = "what this machine has and lacks, with the remedy",
    .about = "Looks at the driver, the GPUs, the libraries that are opened at run time and "
             "the machine's settings, and for folders that killed processes left unfinished. "
             "Nothing is changed, unless doctor.remove_partial=true: then those folders are "
             "removed, never one that may still be written. Exit code 4 when something that "
             "GPU commands cannot do without is missing.",
    .example = "twinfer doctor",
    .run = run_doctor,
};
