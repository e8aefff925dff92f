#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/job.h"
#include "gpu/library.h"
#include "trace/settings.h"
#include "trace/spool_scan.h"

#define SETTINGS_FILE "settings.txt"

/* Bytes that mean something in the settings file, but not in this value. */
static void put_escaped(struct buf *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (strchr(special, *text))
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
}

static void put_path(struct buf *out, const char *key, const char *path)
{
    buf_printf(out, "%s=", key);
    put_escaped(out, path, TRACE_ESCAPED);
    buf_putc(out, '\n');
}

static void put_number(struct buf *out, const char *key, int64_t value)
{
    buf_printf(out, "%s=%lld\n", key, (long long)value);
}

/* What the recorder is told (trace/settings.h). */
static void settings_text(const struct plan *p, const char *dir, struct buf *out)
{
    static const char *const graphs[] = TRACE_GRAPHS_WORDS, *const apis[] = TRACE_API_WORDS;
    put_path(out, TRACE_SETTING(dir), dir);
    put_number(out, TRACE_SETTING(copies), p->trace.copies);
    put_number(out, TRACE_SETTING(sync), p->trace.sync);
    put_number(out, TRACE_SETTING(nvtx), p->trace.nvtx);
    put_number(out, TRACE_SETTING(launches), p->trace.launches);
    buf_printf(out, "%s=%s\n", TRACE_SETTING(graphs), graphs[p->trace.graphs]);
    buf_printf(out, "%s=%s\n", TRACE_SETTING(api), apis[p->trace.api]);
    put_number(out, TRACE_SETTING(profiler), p->trace.profiler);
    put_number(out, TRACE_SETTING(delay_ms), (int64_t)(p->trace.delay_s * 1000));
    put_number(out, TRACE_SETTING(duration_ms), (int64_t)(p->trace.duration_s * 1000));
    put_number(out, TRACE_SETTING(flush_ms), p->trace.flush_ms);
    put_number(out, TRACE_SETTING(buffers), p->trace.buffers);
    if (p->trace.cupti)
        put_path(out, TRACE_SETTING(cupti), p->trace.cupti);
    for (size_t i = 0; i < p->trace.ranges.n; i++) {
        buf_printf(out, "%s%s", i ? "," : TRACE_SETTING(range), i ? "" : "=");
        put_escaped(out, p->trace.ranges.items[i], "#,");
    }
    if (p->trace.ranges.n)
        buf_putc(out, '\n');
}

static enum st write_settings(struct cmd_context *c, const struct artifact *art, const char *dir,
                              struct err *e)
{
    struct buf text = {0};
    settings_text(c->plan, dir, &text);
    FILE *f;
    enum st st = artifact_create_file(art, SETTINGS_FILE, &f, e);
    if (st == ST_OK) {
        fwrite(buf_str(&text), 1, text.n, f);
        st = artifact_close_file(art, SETTINGS_FILE, &f, e);
    }
    buf_free(&text);
    return st;
}

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
static const char *out_dir(struct cmd_context *c, const char **id)
{
    const char *dir = job_out_dir(c, "traces", id);
    if (c->plan->out || !c->program)
        return dir;
    size_t n = 1;
    for (char **p = c->program; *p; p++)
        n++;
    const char **parts = arena_array(c->a, const char *, n);
    parts[0] = *id;
    for (size_t i = 1; i < n; i++)
        parts[i] = c->program[i - 1];
    *id = hash_stable_id(c->a, "trace", parts, n);
    return arena_printf(c->a, "runs/traces/%s", *id);
}

/* ---- the command ---- */

static pid_t child;

/* Ctrl-C and the terminal's end reach the command by themselves (it is in the same process group)
 * and it decides; a SIGTERM for us alone is handed on. */
static void hand_on(int sig)
{
    if (child > 0)
        kill(child, sig);
}

static const int signals[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM};
enum { SIGNALS = sizeof signals / sizeof *signals, OF_THE_TERMINAL = 3 };

static void child_side(char **program, int failed, const char *library, const char *settings,
                       const struct sigaction *before)
{
    for (int i = 0; i < SIGNALS; i++) /* what nohup and shells ignore stays ignored */
        sigaction(signals[i], &before[i], NULL);
    setenv(TRACE_DRIVER_VARIABLE, library, 1);
    setenv(TRACE_NVTX_VARIABLE, library, 1);
    setenv(TRACE_SETTINGS_VARIABLE, settings, 1);
    execvp(program[0], program);
    int error = errno;
    if (write(failed, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

/* Runs it to its end; *status as waitpid gives it. */
static enum st run_program(char **program, const char *library, const char *settings, int *status,
                           struct err *e)
{
    int failed[2];
    if (pipe(failed) != 0)
        return err_errno(e, false, "pipe");
    fcntl(failed[1], F_SETFD, FD_CLOEXEC);
    fflush(stdout);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, on = {.sa_handler = hand_on};
    struct sigaction before[SIGNALS];
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], i < OF_THE_TERMINAL ? &ignore : &on, &before[i]);
    child = fork();
    if (child < 0)
        return err_errno(e, false, "fork");
    if (child == 0) {
        close(failed[0]);
        child_side(program, failed[1], library, settings, before);
    }
    close(failed[1]);
    int error = 0;
    while (read(failed[0], &error, sizeof error) < 0 && errno == EINTR)
        ;
    close(failed[0]);
    while (waitpid(child, status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
    if (error == 0)
        return ST_OK;
    errno = error;
    err_errno(e, true, "cannot run %s", program[0]);
    return ST_INPUT;
}

/* ---- the result ---- */

struct totals {
    int64_t processes, kernels, launches, ranges, dropped, bytes;
};

static const struct {
    const char *name, *words;
} sources[SPOOL_SOURCES] = {{"newer", "a newer recorder had a reason of its own"},
#define X(number, source, name_, words_) [source] = {name_, words_},
                            SPOOL_SOURCE_TABLE(X)
#undef X
};

static struct node *dropped_node(struct arena *a, const struct spool_facts *f)
{
    struct node *n = node_new(a, NODE_MAP);
    for (int i = 0; i < SPOOL_SOURCES; i++)
        if (f->dropped_by[i])
            node_set(a, n, sv_of(sources[i].name), node_int(a, (int64_t)f->dropped_by[i]));
    return n;
}

static struct node *spool_node(struct arena *a, const char *name, const struct spool_facts *f)
{
    struct node *n = node_new(a, NODE_MAP);
    node_set(a, n, SV("spool"), node_str(a, name));
    node_set(a, n, SV("pid"), node_int(a, f->header.pid));
    node_set(a, n, SV("parent_pid"), node_int(a, f->header.parent_pid));
    if (f->rank >= 0)
        node_set(a, n, SV("rank"), node_int(a, f->rank));
    node_set(a, n, SV("command"), node_str(a, f->command));
    node_set(a, n, SV("start_mono_ns"), node_int(a, f->header.start_ns));
    node_set(a, n, SV("started_at"), artifact_time(a, f->header.start_wall_ns));
    node_set(a, n, SV("ended"), node_bool(a, f->ended));
    node_set(a, n, SV("bytes"), node_int(a, (int64_t)f->bytes));
    node_set(a, n, SV("whole_bytes"), node_int(a, (int64_t)f->whole_bytes));
    if (f->skipped_bytes) {
        node_set(a, n, SV("skipped_blocks"), node_int(a, (int64_t)f->skipped_blocks));
        node_set(a, n, SV("skipped_bytes"), node_int(a, (int64_t)f->skipped_bytes));
    }
    struct node *records = node_set(a, n, SV("records"), node_new(a, NODE_MAP));
    for (int kind = SPOOL_KERNELS; kind <= SPOOL_APIS; kind++)
        if (f->counts[kind])
            node_set(a, records, sv_of(trace_spool_kind_name(kind)),
                     node_int(a, (int64_t)f->counts[kind]));
    node_set(a, n, SV("dropped"), node_int(a, (int64_t)f->dropped));
    if (f->dropped)
        node_set(a, n, SV("dropped_by"), dropped_node(a, f));
    struct node *cost = node_set(a, n, SV("cost"), node_new(a, NODE_MAP));
    const struct {
        const char *key;
        int64_t value;
    } costs[] = {{"callback_ns", f->cost.callback_ns},
                 {"writer_cpu_ns", f->cost.writer_cpu_ns},
                 {"memory_bytes", (int64_t)f->cost.memory_bytes}};
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) /* at_ns 0: it was never told */
        node_set(a, cost, sv_of(costs[i].key),
                 f->cost.at_ns ? node_int(a, costs[i].value) : node_new(a, NODE_NULL));
    struct node *notes = node_set(a, n, SV("notes"), node_new(a, NODE_LIST));
    for (size_t i = 0; i < f->n_notes; i++)
        node_push(a, notes, node_str(a, f->notes[i]));
    return n;
}

static bool is_spool(const char *name)
{
    size_t n = strlen(name), m = strlen(SPOOL_SUFFIX);
    return n > m && strcmp(name + n - m, SPOOL_SUFFIX) == 0;
}

static void tell_faults(const char *name, const struct spool_facts *f)
{
    for (size_t k = 0; k < f->n_notes; k++)
        log_warn("%s: %s", name, f->notes[k]);
    for (int k = 0; k < SPOOL_SOURCES; k++)
        if (f->dropped_by[k])
            log_warn("%s: %llu records are missing: %s", name, (unsigned long long)f->dropped_by[k],
                     sources[k].words);
    if (f->skipped_bytes)
        log_warn("%s: %llu blocks (%llu bytes) are damaged", name,
                 (unsigned long long)f->skipped_blocks, (unsigned long long)f->skipped_bytes);
    if (!f->ended)
        log_warn("%s: the process did not end by itself: what it did after the last flush "
                 "(trace.flush_ms) is missing",
                 name);
}

/* One that cannot be read (its process was killed while it made the file) costs the others
 * nothing. */
static struct node *unreadable_node(struct arena *a, const char *name, const struct err *why)
{
    struct node *n = node_new(a, NODE_MAP);
    log_warn("%s: is left out: %s", name, err_cause(why, 0));
    node_set(a, n, SV("spool"), node_str(a, name));
    node_set(a, n, SV("error"), node_str(a, err_cause(why, 0)));
    return n;
}

/* The spools of the folder, as the list "processes". */
static enum st list_spools(struct arena *a, const char *dir, struct node *list, struct totals *t,
                           struct err *e)
{
    const char **names;
    size_t n;
    TRY(fs_list(a, dir, &names, &n, e));
    for (size_t i = 0; i < n; i++) {
        struct spool_facts f;
        struct err why = {0};
        if (!is_spool(names[i]))
            continue;
        if (trace_spool_scan(a, fs_join(a, dir, names[i]), &f, &why) != ST_OK) {
            node_push(a, list, unreadable_node(a, names[i], &why));
            continue;
        }
        node_push(a, list, spool_node(a, names[i], &f));
        t->processes++;
        t->kernels += (int64_t)f.counts[SPOOL_KERNELS];
        t->launches += (int64_t)f.counts[SPOOL_LAUNCHES];
        t->ranges += (int64_t)f.counts[SPOOL_RANGES];
        t->dropped += (int64_t)f.dropped;
        t->bytes += (int64_t)f.whole_bytes;
        tell_faults(names[i], &f);
    }
    return ST_OK;
}

static struct node *meta_node(struct cmd_context *c, const char *id, const struct artifact *art,
                              struct node *extra)
{
    struct run_meta meta = job_meta(c, art, id, "trace");
    meta.hardware_id = meta.device = NULL; /* not those of the plan */
    meta.extra = extra;
    return run_meta_node(c->a, &meta);
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static enum st finish(struct cmd_context *c, const char *id, const char *dir, struct artifact *art,
                      int status, struct err *e)
{
    struct arena *a = c->a;
    struct totals t = {0};
    struct node *extra = node_new(a, NODE_MAP);
    struct node *command = node_set(a, extra, SV("command"), node_new(a, NODE_LIST));
    for (char **p = c->program; *p; p++)
        node_push(a, command, node_str(a, *p));
    node_set(a, extra, SV("exit_code"), node_int(a, code_of(status)));
    if (WIFSIGNALED(status))
        node_set(a, extra, SV("signal"), node_int(a, WTERMSIG(status)));
    struct node *list = node_set(a, extra, SV("processes"), node_new(a, NODE_LIST));
    TRY(list_spools(a, art->partial.path, list, &t, e));
    TRY(artifact_commit(art, meta_node(c, id, art, extra), e));
    if (t.processes == 0)
        log_warn("no process of the command used CUDA or NVTX");
    struct node *out = node_new(a, NODE_MAP);
    node_set(a, out, SV("out"), node_str(a, dir));
    node_set(a, out, SV("exit_code"), node_int(a, code_of(status)));
    node_set(a, out, SV("processes"), node_int(a, t.processes));
    node_set(a, out, SV("kernels"), node_int(a, t.kernels));
    node_set(a, out, SV("launches"), node_int(a, t.launches));
    node_set(a, out, SV("ranges"), node_int(a, t.ranges));
    node_set(a, out, SV("dropped"), node_int(a, t.dropped));
    node_set(a, out, SV("bytes"), node_int(a, t.bytes));
    job_result(c, out, NULL);
    return ST_OK;
}

/* What was recorded stays, where the program left it, when it cannot be finished (disk full). */
static void keep(struct artifact *art, const char *partial, struct err *e)
{
    if (!art->partial.path) /* it is in its place, and only the result could not be told */
        return;
    err_add(e, "the recording stays in %s, where twinfer kernels reads it", partial);
    partial_release(&art->partial);
}

/* A process has one injected library for each: somebody else's gives way for this run. */
static void tell_replaced(const char *library)
{
    static const char *const variables[] = {TRACE_DRIVER_VARIABLE, TRACE_NVTX_VARIABLE};
    for (int i = 0; i < 2; i++) {
        const char *other = getenv(variables[i]);
        if (other && *other && strcmp(other, library) != 0)
            log_warn("%s was %s: the command runs with this recorder instead", variables[i], other);
    }
}

static enum st record(struct cmd_context *c, const char *library, int *status, struct err *e)
{
    const char *id, *dir = out_dir(c, &id), *at, *settings;
    struct artifact art;
    tell_replaced(library);
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = absolute(c->a, art.partial.path, &at, e);
    if (st == ST_OK)
        st = write_settings(c, &art, at, e);
    settings = st == ST_OK ? fs_join(c->a, at, SETTINGS_FILE) : NULL;
    if (st == ST_OK)
        st = run_program(c->program, library, settings, status, e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    if (finish(c, id, dir, &art, *status, e) != ST_OK)
        keep(&art, at, e);
    return e->st;
}

/* As a shell reads it: between quotes, one in the value as '\''. */
static void put_export(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "export %s='", name);
    for (; *value; value++)
        if (*value == '\'')
            buf_puts(out, "'\\''");
        else
            buf_putc(out, *value);
    buf_puts(out, "'\n");
}

/* attach=false: the folder stands, spools come into it later, from wherever the variables are set.
 */
static enum st prepare(struct cmd_context *c, const char *library, struct err *e)
{
    const char *id, *dir = out_dir(c, &id), *at;
    struct artifact art;
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = absolute(c->a, dir, &at, e);
    if (st == ST_OK)
        st = write_settings(c, &art, at, e);
    struct node *extra = node_new(c->a, NODE_MAP);
    node_set(c->a, extra, SV("attach"), node_bool(c->a, false));
    if (st == ST_OK)
        st = artifact_commit(&art, meta_node(c, id, &art, extra), e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    const struct {
        const char *name, *value;
    } variables[] = {{TRACE_DRIVER_VARIABLE, library},
                     {TRACE_NVTX_VARIABLE, library},
                     {TRACE_SETTINGS_VARIABLE, fs_join(c->a, at, SETTINGS_FILE)}};
    struct node *out = node_new(c->a, NODE_MAP);
    struct buf text = {0};
    node_set(c->a, out, SV("out"), node_str(c->a, dir));
    for (size_t i = 0; i < 3; i++) {
        node_set(c->a, out, sv_of(variables[i].name), node_str(c->a, variables[i].value));
        put_export(&text, variables[i].name, variables[i].value);
    }
    job_result(c, out, buf_str(&text));
    buf_free(&text);
    return ST_OK;
}

/* What the recorder can hold (trace/settings.h): it could only say so in the spool. */
static enum st check_ranges(const struct plan *p, struct err *e)
{
    enum { MOST = TRACE_RANGES, LONGEST = TRACE_RANGE_BYTES - 1 };
    if (p->trace.ranges.n > MOST) {
        err_set(e, ST_USAGE, "trace.range: %zu patterns; %d is the most", p->trace.ranges.n, MOST);
        return err_hint(e, "one with * may stand for several");
    }
    for (size_t i = 0; i < p->trace.ranges.n; i++) {
        const char *text = p->trace.ranges.items[i];
        if (!*text || *text == '@' || strchr(text, '\n')) {
            err_set(e, ST_USAGE, "trace.range: '%s' names no range", text);
            return err_hint(e, "range@domain, or *@domain for all ranges of a domain");
        }
        if (strlen(text) > LONGEST)
            return err_set(e, ST_USAGE, "trace.range: a pattern of %zu bytes; %d is the most",
                           strlen(text), LONGEST);
    }
    return ST_OK;
}

static enum st trace(struct cmd_context *c, int *status, struct err *e)
{
    struct gpu_cuda cuda;
    const char *library;
    if (c->plan->trace.attach && !c->program) {
        err_set(e, ST_USAGE, "there is no command to trace");
        return err_hint(e, "twinfer trace [key=value ...] -- command ...");
    }
    if (!c->plan->trace.attach && c->program)
        return err_set(e, ST_USAGE, "attach=false runs no command: leave out what follows --");
    TRY(check_ranges(c->plan, e));
    TRY(gpu_guest_library(c->a, c->plan->trace.library, &library, e));
    if (!c->plan->trace.attach)
        return prepare(c, library, e);
    TRY(gpu_cuda_open(&cuda, e));
    return record(c, library, status, e);
}

static int run_trace(struct cmd_context *c, struct err *e)
{
    int status = 0;
    if (trace(c, &status, e) == ST_OK)
        return code_of(status);
    err_add(e, "trace");
    return err_exit_code(e->st);
}

const struct cmd cmd_trace = {
    .id = COMMAND_TRACE,
    .columns = "exit_code processes kernels launches ranges dropped bytes",
    .summary = "record what a CUDA program does on its GPUs",
    .about = "Runs the command with libtwinfer_inject.so in every CUDA process it starts; "
             "nothing in it needs to change. Kernels, copies, sets, synchronization, CUDA "
             "graphs, NVTX ranges and launch times go to one spool per process. The exit code "
             "is the command's.",
    .program = true,
    .example = "twinfer trace trace.range=decode@* out=traces/t1 -- python generate.py",
    .run = run_trace,
};
