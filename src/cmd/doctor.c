#include "doctor/doctor.h"

#include "cmd/commands.h"
#include "doctor/roofs.h"
#include "gpu/cache.h"
#include "job/job.h"

static const char *const state_words[] = {"ok", "note", "missing", "MISSING"};

static void print_text(const struct doctor_findings *f)
{
    struct buf text = {0};
    for (size_t i = 0; i < f->rows.n; i++) {
        const struct doctor_finding *r = &f->rows.p[i];
        buf_printf(&text, "%-8s %-25s %s\n", state_words[r->state], r->what, r->found);
        if (r->remedy && r->remedy[0])
            buf_printf(&text, "         %-25s -> %s\n", "", r->remedy);
    }
    log_result(&text);
    buf_free(&text);
}

static void print_json(struct job_context *c, const struct doctor_findings *f,
                       const struct roofs *r)
{
    struct node *out = node_new(c->a, NODE_MAP);
    struct node *list = node_set(c->a, out, SV("findings"), node_new(c->a, NODE_LIST));
    for (size_t i = 0; i < f->rows.n; i++) {
        const struct doctor_finding *d = &f->rows.p[i];
        struct node *n = node_new(c->a, NODE_MAP);
        node_set(c->a, n, SV("state"),
                 node_str(c->a, d->state == DOCTOR_NEEDED ? "needed" : state_words[d->state]));
        node_set(c->a, n, SV("what"), node_str(c->a, d->what));
        node_set(c->a, n, SV("found"), node_str(c->a, d->found));
        if (d->remedy)
            node_set(c->a, n, SV("remedy"), node_str(c->a, d->remedy));
        node_push(c->a, list, n);
    }
    if (r) {
        node_put(c->a, out, "out", node_str(c->a, c->plan->doctor.roofs));
        node_put(c->a, out, "measured", roofs_node(c->a, r));
    }
    job_result(c, out, NULL);
}

/* "4.42 TB/s", "795 TFLOP/s", "2.1 us" */
static const char *amount(struct arena *a, double v, const char *unit)
{
    static const struct {
        double at;
        const char *prefix;
    } rows[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1, ""}, {1e-3, "m"}, {0, "u"}};
    int i = 0;
    while (v < rows[i].at * 0.9995) /* so that it is 1.00 of this one, not 1000 of the next */
        i++;
    const double scaled = v / (rows[i].at > 0 ? rows[i].at : 1e-6);
    return arena_printf(a, "%.*f %s%s",
                        scaled < 10    ? 2
                        : scaled < 100 ? 1
                                       : 0,
                        scaled, rows[i].prefix, unit);
}

static const char *conditions(struct arena *a, const struct roof *r)
{
    const struct gpu_conditions *c = &r->under;
    if (!r->gpu || c->samples == 0)
        return "";
    const char *held = gpu_reason_words(a, c->reasons);
    return arena_printf(a, "; %.0f MHz, %.0f W%s%s", c->sm_mhz, c->power_w, *held ? ", " : "",
                        held);
}

static void print_roofs(struct arena *a, const struct roofs *r, const char *path)
{
    for (unsigned i = 0; i < ROOF_COUNT; i++) {
        const struct roof *f = &r->roof[i];
        if (f->n)
            printf("%-8s %-25s %s, n %lld, quartiles %s to %s%s\n", "measured", roof_name(i),
                   amount(a, f->median, roof_unit(i)), (long long)f->n,
                   amount(a, f->low, roof_unit(i)), amount(a, f->high, roof_unit(i)),
                   conditions(a, f));
        else if (f->why)
            printf("%-8s %-25s %s\n", "rejected", roof_name(i), f->why);
    }
    const double busy = contention_share(&r->contention);
    if (busy > CONTENTION_TOO_MUCH)
        printf("%-8s %-25s %s\n", "note", "roofs of the host",
               arena_printf(a, "the machine was busy with something else: %.0f %% of the time",
                            busy * 100));
    if (r->no_gpu)
        printf("%-8s %-25s %s\n", "missing", "roofs of a GPU", r->no_gpu);
    printf("%-8s %-25s %s\n", "written", "roofs", path);
}

static enum st measure(struct job_context *c, struct roofs *r, struct err *e)
{
    job_catch_signals();
    const struct roofs_params p = {.gpu = (int)c->plan->doctor.gpu,
                                   .cache = gpu_cache_dir(c->a, "kernels"),
                                   .stop = &job_stop};
    TRY(roofs_measure(c->a, &p, r, e));
    return roofs_write(c->plan->doctor.roofs, r, e);
}

/* The status of the findings and roofs as an exit code. */
static int code_of(const struct doctor_findings *f, const struct roofs *r)
{
    for (size_t i = 0; i < f->rows.n; i++)
        if (f->rows.p[i].state == DOCTOR_NEEDED)
            return err_exit_code(ST_DEVICE);
    if (!r)
        return 0;
    for (int i = 0; i < ROOF_COUNT; i++)
        if (r->roof[i].rejected > 0 && r->roof[i].n == 0)
            return err_exit_code(ST_REJECTED);
    return r->no_gpu ? err_exit_code(ST_DEVICE) : 0;
}

static int run_doctor(struct job_context *c, struct err *e)
{
    struct doctor_findings f = {.a = c->a};
    struct roofs measured, *r = NULL;
    doctor_machine(&f);
    doctor_leftovers(&f, c->plan->doctor.folders.items, c->plan->doctor.folders.n,
                     c->plan->doctor.remove_partial, e);
    if (!c->json)
        print_text(&f);
    fflush(stdout); /* measuring takes its time */
    if (c->plan->doctor.measure && e->st == ST_OK && measure(c, &measured, e) == ST_OK)
        r = &measured;
    if (c->json)
        print_json(c, &f, r);
    else if (r)
        print_roofs(c->a, r, c->plan->doctor.roofs);
    const int code = code_of(&f, r);
    vec_free(&f.rows);
    if (e->st == ST_OK)
        return code;
    err_add(e, "doctor");
    return err_exit_code(e->st);
}

const struct cmd cmd_doctor = {
    .id = COMMAND_DOCTOR,
    .summary = "what this machine has and lacks, with the remedy",
    .about =
        "Looks at the driver, the GPUs, the libraries that are opened at run time and "
        "the machine's settings, and for folders that killed processes left unfinished. "
        "Nothing is changed, unless doctor.remove_partial=true: then those folders are "
        "removed, never one that may still be written. With doctor.measure=true it measures "
        "the roofs of the host and of a GPU and keeps them in a file. Exit code 4 when something "
        "that GPU commands cannot do without is missing.",
    .example = "twinfer doctor",
    .run = run_doctor,
};
