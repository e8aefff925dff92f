/* The command trace: output folder, settings and result of a recording (trace/record.h). */
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/program.h"
#include "gpu/library.h"
#include "job/job.h"
#include "job/power.h"
#include "job/range_energy.h"
#include "trace/record.h"

static enum st absolute(struct arena *a, const char *path, const char **out, struct err *e)
{
    char *cwd = getcwd(NULL, 0);
    if (!cwd)
        return err_errno(e, true, "the current folder");
    *out = path[0] == '/' ? path : fs_join(a, cwd, path);
    free(cwd);
    return ST_OK;
}

/* out=, or runs/traces/<stable id of settings and command>. */
static const char *out_dir(struct job_context *c, const char **id)
{
    const char *dir = job_out_dir(c, "traces", id);
    if (c->plan->out || !c->program)
        return dir;
    *id = program_id(c, "trace", *id);
    return arena_printf(c->a, "runs/traces/%s", *id);
}

/* The window of the sensor: updates in a range below which its edges are most of the figure. */
enum { RANGE_UPDATES = 10 };

/* power.csv and range_energy.csv, `power` in the meta, and the energy while the program ran. */
static enum st keep_power(struct job_context *c, struct job_power *power,
                          const struct artifact *art, int64_t processes, struct node *extra,
                          struct node *shown, struct err *e)
{
    struct trace t;
    size_t n;
    FILE *f;
    if (!power->on)
        return ST_OK;
    TRY(job_power_stop(c, power, art, e));
    const struct job_energy drawn = job_power_energy(c, power);
    node_put(c->a, extra, "power", job_power_node(c, power));
    node_put(c->a, shown, "energy_j", node_number(c->a, drawn.energy_j));
    node_put(c->a, shown, "average_power_w", node_number(c->a, drawn.energy_j / drawn.duration_s));
    if (drawn.why)
        log_warn("the energy of the program is unknown: %s", drawn.why);
    if (processes == 0 || power->shared)
        return ST_OK;
    TRY(trace_load(&t, art->partial.path, NULL, e));
    const struct meter *m = &power->gpus->meter; /* of the one GPU */
    const double least_s = m->averages_s + RANGE_UPDATES * m->update_s;
    const struct range_energy *rows =
        range_energy_of(c->a, &t, power->logs, recorder_at(m->recorder, 0), least_s, &n);
    enum st st = artifact_create_file(art, RANGE_ENERGY_CSV, &f, e);
    if (st == ST_OK) {
        range_energy_write(f, rows, n, least_s);
        st = artifact_close_file(art, RANGE_ENERGY_CSV, &f, e);
    }
    trace_free(&t);
    return st;
}

static enum st finish(struct job_context *c, const char *id, const char *dir, struct artifact *art,
                      int status, struct job_power *power, struct err *e)
{
    struct arena *a = c->a;
    struct trace_recorded r;
    struct node *extra = node_new(a, NODE_MAP);
    struct node *command = node_set(a, extra, SV("command"), node_new(a, NODE_LIST));
    for (char **p = c->program; *p; p++)
        node_push(a, command, node_str(a, *p));
    node_set(a, extra, SV("exit_code"), node_int(a, program_exit_code(status)));
    if (WIFSIGNALED(status))
        node_set(a, extra, SV("signal"), node_int(a, WTERMSIG(status)));
    TRY(trace_recorded(a, art->partial.path, &r, e));
    node_set(a, extra, SV("processes"), r.processes);
    struct node *drawn = node_new(a, NODE_MAP);
    TRY(keep_power(c, power, art, r.n, extra, drawn, e));
    TRY(artifact_commit(art, job_meta_elsewhere(c, art, id, "trace", extra), e));
    if (r.n == 0)
        log_warn("no process of the command used CUDA or NVTX");
    struct node *out = node_new(a, NODE_MAP);
    node_set(a, out, SV("out"), node_str(a, dir));
    node_set(a, out, SV("exit_code"), node_int(a, program_exit_code(status)));
    node_set(a, out, SV("processes"), node_int(a, r.n));
    node_set(a, out, SV("kernels"), node_int(a, r.kernels));
    node_set(a, out, SV("launches"), node_int(a, r.launches));
    node_set(a, out, SV("ranges"), node_int(a, r.ranges));
    node_set(a, out, SV("dropped"), node_int(a, r.dropped));
    node_set(a, out, SV("bytes"), node_int(a, r.bytes));
    for (uint32_t i = 0; i < drawn->n; i++)
        node_set(a, out, drawn->pairs[i].key, drawn->pairs[i].value);
    job_result(c, out, NULL);
    return job_power_alone(power, e);
}

/* Keeps a recording that cannot be finished (disk full) where the program left it. */
static void keep(struct artifact *art, const char *partial, struct err *e)
{
    if (!art->partial.path) /* in place already; only the result could not be printed */
        return;
    err_add(e, "the recording stays in %s, where twinfer kernels reads it", partial);
    partial_release(&art->partial);
}

static enum st record(struct job_context *c, const struct trace_record *r, int *status,
                      struct err *e)
{
    const char *id, *dir = out_dir(c, &id), *at;
    struct artifact art;
    struct job_power power = {0};
    struct trace_variable variables[TRACE_VARIABLES];
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = absolute(c->a, art.partial.path, &at, e);
    if (st == ST_OK)
        st = trace_record_prepare(r, &art, at, variables, e);
    if (st == ST_OK)
        st = job_power_open(c, JOB_POWER_PROGRAM, &power, e);
    if (st == ST_OK) {
        job_power_begin(&power);
        st = trace_record_run(c->a, c->program, variables, status, e);
        job_power_end(&power);
    }
    if (st != ST_OK)
        artifact_discard(&art);
    else if (finish(c, id, dir, &art, *status, &power, e) != ST_OK)
        keep(&art, at, e);
    job_power_close(&power);
    return e->st;
}

static void put_export(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "export %s=", name);
    buf_shell(out, value);
    buf_putc(out, '\n');
}

/* attach=false: creates the folder; spools come later, from any program with the variables set. */
static enum st prepare(struct job_context *c, const struct trace_record *r, struct err *e)
{
    const char *id, *dir = out_dir(c, &id), *at;
    struct artifact art;
    struct trace_variable variables[TRACE_VARIABLES];
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = absolute(c->a, dir, &at, e);
    if (st == ST_OK)
        st = trace_record_prepare(r, &art, at, variables, e);
    struct node *extra = node_new(c->a, NODE_MAP);
    node_set(c->a, extra, SV("attach"), node_bool(c->a, false));
    if (st == ST_OK)
        st = artifact_commit(&art, job_meta_elsewhere(c, &art, id, "trace", extra), e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    struct node *out = node_new(c->a, NODE_MAP);
    struct buf text = {0};
    node_set(c->a, out, SV("out"), node_str(c->a, dir));
    for (size_t i = 0; i < TRACE_VARIABLES; i++) {
        node_set(c->a, out, sv_of(variables[i].name), node_str(c->a, variables[i].value));
        put_export(&text, variables[i].name, variables[i].value);
    }
    job_result(c, out, buf_str(&text));
    buf_free(&text);
    return ST_OK;
}

static enum st trace(struct job_context *c, int *status, struct err *e)
{
    struct gpu_cuda cuda;
    if (c->plan->trace.attach && !c->program) {
        err_set(e, ST_USAGE, "there is no command to trace");
        return err_hint(e, "twinfer trace [key=value ...] -- command ...");
    }
    if (!c->plan->trace.attach && c->program)
        return err_set(e, ST_USAGE, "attach=false runs no command: leave out what follows --");
    struct trace_record r = c->plan->trace;
    TRY(trace_record_check(&r, e));
    TRY(trace_guest_library(c->a, r.library, &r.library, e));
    if (!r.attach)
        return prepare(c, &r, e);
    TRY(gpu_cuda_open(&cuda, e));
    return record(c, &r, status, e);
}

static int run_trace(struct job_context *c, struct err *e)
{
    int status = 0;
    if (trace(c, &status, e) == ST_OK)
        return program_exit_code(status);
    err_add(e, "trace");
    return err_exit_code(e->st);
}

const struct cmd cmd_trace = {
    .id = COMMAND_TRACE,
    .columns = "exit_code processes kernels launches ranges dropped bytes energy_j",
    .summary = "record what a CUDA program does on its GPUs",
    .about = "Runs the command with libtwinfer_inject.so in every CUDA process it starts; "
             "nothing in it needs to change. Kernels, copies, sets, synchronization, CUDA "
             "graphs, NVTX ranges and launch times go to one spool per process. The exit code "
             "is the command's.",
    .program = true,
    .example = "twinfer trace trace.range=decode@* out=traces/t1 -- python generate.py",
    .run = run_trace,
};
