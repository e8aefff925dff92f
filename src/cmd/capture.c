/* The command capture: one region of a CUDA program as a capsule (capture/capture.h). */
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "capture/capture.h"
#include "cmd/commands.h"
#include "cmd/program.h"
#include "gpu/library.h"
#include "job/job.h"
#include "replay/replay.h"
#include "trace/record.h"

#define RECORDING "recording" /* inside the capsule's folder while it is made */

static const char *out_dir(struct job_context *c)
{
    const char *id, *dir = job_out_dir(c, "capsules", &id);
    if (c->plan->out)
        return dir;
    return arena_printf(c->a, "runs/capsules/%s", program_id(c, "capsule", id));
}

static void tell(struct job_context *c, const char *dir, const struct capture_summary *s,
                 int status)
{
    struct node *out = node_new(c->a, NODE_MAP);
    node_put(c->a, out, "out", node_str(c->a, dir));
    node_put(c->a, out, "exit_code", node_int(c->a, program_exit_code(status)));
    node_put(c->a, out, "operations", node_int(c->a, s->ops));
    node_put(c->a, out, "kernels", node_int(c->a, s->launches));
    node_put(c->a, out, "timed", node_int(c->a, s->timed));
    node_put(c->a, out, "memory_bytes", node_int(c->a, s->bytes));
    node_put(c->a, out, "region_ms", node_float(c->a, (double)s->wall_ns / 1e6));
    node_put(c->a, out, "stopped_ms", node_float(c->a, (double)s->stopped_ns / 1e6));
    job_result(c, out, NULL);
}

/* What the recorder left becomes the capsule; its own folder goes, the spool stays. */
static enum st seal(struct job_context *c, const struct capture_region *region,
                    const char *recording, struct artifact *art, int status,
                    struct capture_summary *out, struct err *e)
{
    struct capture_found found;
    struct node *extra = node_new(c->a, NODE_MAP);
    struct err ignored = {0};
    TRY(capture_find(c->a, recording, region, &found, e));
    const char *spool = artifact_path(c->a, art, CAPTURE_SPOOL);
    if (rename(found.spool, spool) != 0)
        return err_errno(e, false, "cannot keep %s", found.spool);
    found.spool = spool;
    node_put(c->a, extra, "exit_code", node_int(c->a, program_exit_code(status)));
    TRY(capture_seal(c->a, &found, art, extra, &job_stop, out, e));
    fs_remove_tree(fs_join(c->a, art->final_dir, RECORDING), &ignored);
    return ST_OK;
}

/* The recorder writes into a folder of its own. */
static enum st record(struct job_context *c, const struct trace_record *r,
                      const struct artifact *art, const char **recording, int *status,
                      struct err *e)
{
    struct trace_variable variables[TRACE_VARIABLES];
    struct artifact own = *art;
    char *full = realpath(art->partial.path, NULL);
    if (!full)
        return err_errno(e, false, "cannot find %s", art->partial.path);
    *recording = fs_join(c->a, full, RECORDING);
    free(full);
    own.partial.path = *recording;
    TRY(fs_mkdirs(*recording, e));
    TRY(trace_record_prepare(r, &own, *recording, variables, e));
    TRY(trace_record_run_within(c->a, c->program, variables, &c->plan->capture.patience, status,
                                e));
    job_catch_signals(); /* those that came until now were the program's */
    return ST_OK;
}

/* Runs the region in a process of its own: memory that is reached through pointers in memory, and
 * was not captured, shows here. A trial that cannot be made proves nothing. */
static enum st try_it(struct job_context *c, const char *dir, const struct capture_summary *s,
                      struct err *e)
{
    const struct replay_limits limits = {.total_s = c->plan->replay.limits.total_s,
                                         .stop = &job_stop};
    const char *fault = NULL;
    struct err why = {0};
    if (!c->plan->capture.trial)
        return ST_OK;
    if (replay_trial(c->a, dir, (int)s->device, &limits, &fault, &why) != ST_OK) {
        if (why.st == ST_INTERRUPTED)
            return err_set(e, ST_INTERRUPTED, "interrupted");
        log_warn("the capsule was not tried: %s", err_cause(&why, 0));
    } else if (fault) {
        err_set(e, ST_REJECTED, "%s", fault);
        err_hint(e, "capture.trial=false keeps the capsule in spite of that");
        err_add(e, "the captured region does not run from its own contents");
        fs_remove_tree(dir, &why);
        return e->st;
    }
    return ST_OK;
}

static enum st capture(struct job_context *c, int *status, struct err *e)
{
    struct capture_region region;
    struct capture_summary summary;
    struct gpu_cuda cuda;
    struct artifact art;
    if (!c->program) {
        err_set(e, ST_USAGE, "there is no command to capture a region of");
        return err_hint(e, "twinfer capture region=decode#3 -- command ...");
    }
    if (!c->plan->capture.region) {
        err_set(e, ST_USAGE, "region is not set");
        return err_hint(e, "region=decode#3 is the third time that NVTX range decode is entered, "
                           "region=graph:3 the third launch of a CUDA graph");
    }
    TRY(capture_region_parse(c->a, c->plan->capture.region, &region, e));
    struct trace_record r = {.ranges = {&region.range, region.range != NULL},
                             .copies = true,
                             .nvtx = true,
                             .launches = true,
                             .profiler = region.profiler,
                             .graph_first = region.graph_first,
                             .graph_last = region.graph_last,
                             .capture = region.occurrence,
                             .flush_ms = 500,
                             .buffers = 128,
                             .cupti = c->plan->trace.cupti};
    TRY(trace_record_check(&r, e));
    TRY(trace_guest_library(c->a, c->plan->trace.library, &r.library, e));
    TRY(gpu_cuda_open(&cuda, e));
    const char *dir = out_dir(c);
    TRY(artifact_begin(c->a, dir, CAPSULE_MANIFEST, &art, e));
    const char *recording = NULL;
    enum st st = record(c, &r, &art, &recording, status, e);
    if (st == ST_OK)
        st = seal(c, &region, recording, &art, *status, &summary, e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    TRY(try_it(c, dir, &summary, e));
    tell(c, dir, &summary, *status);
    return ST_OK;
}

static int run_capture(struct job_context *c, struct err *e)
{
    int status = 0;
    if (capture(c, &status, e) == ST_OK)
        return program_exit_code(status);
    err_add(e, "capture");
    return err_exit_code(e->st);
}

const struct cmd cmd_capture = {
    .id = COMMAND_CAPTURE,
    .columns = "exit_code operations kernels timed memory_bytes region_ms stopped_ms",
    .summary = "keep one region of a CUDA program, to run it again without the program",
    .about =
        "Runs the command with libtwinfer_inject.so in every CUDA process it starts; nothing in "
        "it needs to change. When the region begins the program is stopped until the memory of "
        "its GPU has been copied, and once more when it ends. The capsule has the kernels' code, "
        "every launch with its parameters, copies, sets, CUDA graphs as their nodes, and that "
        "memory. What cannot be captured is refused by its name; the program goes on. The exit "
        "code is the command's, or 5 when the region was refused.",
    .program = true,
    .example = "twinfer capture region=decode#3 out=capsules/c1 -- python generate.py",
    .run = run_capture,
};
