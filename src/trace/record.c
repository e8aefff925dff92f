#include "trace/record.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/process.h"
#include "trace/settings.h"

#define SETTINGS_FILE "settings.txt"

enum st trace_guest_library(struct arena *a, const char *path, const char **out, struct err *e)
{
    static const char name[] = "libtwinfer_inject.so";
    char *self = fs_self_dir(a);
    /* beside the program where it was built, in a folder of its own where it was installed */
    const char *places[] = {path ? path : fs_join(a, self, name),
                            path ? NULL : arena_printf(a, "%s/../lib/twinfer/%s", self, name)};
    for (size_t i = 0; i < 2 && places[i]; i++) {
        char *full = realpath(places[i], NULL);
        if (!full)
            continue;
        *out = arena_str(a, full);
        free(full);
        return ST_OK;
    }
    err_set(e, ST_DEVICE, "%s is not there", places[0]);
    return err_hint(e, path ? "trace.library names the guest library, libtwinfer_inject.so"
                            : "it belongs beside the program or in ../lib/twinfer, and is built "
                              "with it; trace.library names another place");
}

/* ---- settings ---- */

enum st trace_record_check(const struct trace_record *r, struct err *e)
{
    enum { LONGEST = TRACE_RANGE_BYTES - 1 };
    if (r->ranges.n > TRACE_RANGES) {
        err_set(e, ST_USAGE, "trace.range: %zu patterns; %d is the most", r->ranges.n,
                TRACE_RANGES);
        return err_hint(e, "one with * may stand for several");
    }
    for (size_t i = 0; i < r->ranges.n; i++) {
        const char *text = r->ranges.items[i];
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

/* Escapes bytes that are special in the settings file. */
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

static void put_settings(struct buf *out, const struct trace_record *r, const char *dir)
{
    static const char *const graphs[] = TRACE_GRAPHS_WORDS, *const apis[] = TRACE_API_WORDS;
    put_path(out, TRACE_SETTING(dir), dir);
    put_number(out, TRACE_SETTING(copies), r->copies);
    put_number(out, TRACE_SETTING(sync), r->sync);
    put_number(out, TRACE_SETTING(nvtx), r->nvtx);
    put_number(out, TRACE_SETTING(launches), r->launches);
    buf_printf(out, "%s=%s\n", TRACE_SETTING(graphs), graphs[r->graphs]);
    buf_printf(out, "%s=%s\n", TRACE_SETTING(api), apis[r->api]);
    put_number(out, TRACE_SETTING(profiler), r->profiler);
    if (r->graph_first) {
        put_number(out, TRACE_SETTING(graph_first), r->graph_first);
        put_number(out, TRACE_SETTING(graph_last), r->graph_last);
    }
    if (r->capture)
        put_number(out, TRACE_SETTING(capture), r->capture);
    put_number(out, TRACE_SETTING(delay_ms), (int64_t)(r->delay_s * 1000));
    put_number(out, TRACE_SETTING(duration_ms), (int64_t)(r->duration_s * 1000));
    put_number(out, TRACE_SETTING(flush_ms), r->flush_ms);
    put_number(out, TRACE_SETTING(buffers), r->buffers);
    if (r->cupti)
        put_path(out, TRACE_SETTING(cupti), r->cupti);
    for (size_t i = 0; i < r->ranges.n; i++) {
        buf_printf(out, "%s%s", i ? "," : TRACE_SETTING(range), i ? "" : "=");
        put_escaped(out, r->ranges.items[i], "#,"); /* @ and backslashes keep their meaning */
    }
    if (r->ranges.n)
        buf_putc(out, '\n');
}

enum st trace_record_prepare(const struct trace_record *r, const struct artifact *art,
                             const char *dir, struct trace_variable out[TRACE_VARIABLES],
                             struct err *e)
{
    struct buf text = {0};
    put_settings(&text, r, dir);
    enum st st = artifact_write(art, SETTINGS_FILE, &text, e);
    buf_free(&text);
    out[0] = (struct trace_variable){TRACE_DRIVER_VARIABLE, r->library};
    out[1] = (struct trace_variable){TRACE_NVTX_VARIABLE, r->library};
    out[2] = (struct trace_variable){TRACE_SETTINGS_VARIABLE, fs_join(art->a, dir, SETTINGS_FILE)};
    return st;
}

/* ---- the program ---- */

static volatile sig_atomic_t running; /* its pid; 0 = none */
static volatile int64_t told_ns;      /* when it was first told to end; 0 = not yet */
static volatile sig_atomic_t insists; /* and once more, later */

/* timeout(1) signals a process and its group: that is one signal. */
static void hand_on(int sig)
{
    const int64_t now_ns = clock_mono_ns();
    if (running)
        kill((pid_t)running, sig);
    if (told_ns == 0)
        told_ns = now_ns;
    else if (now_ns - told_ns > NS_PER_S / 2)
        insists = 1;
}

static void await(struct process *p, const struct trace_patience *patience)
{
    enum { LOOK_MS = 20 };
    const int64_t most_ns = clock_mono_ns() + ns_from_s(patience->most_s);
    while (!process_reap(p, false)) {
        const int64_t now_ns = clock_mono_ns();
        if (told_ns == 0 && patience->most_s > 0 && now_ns >= most_ns) {
            log_warn("the command has run for %g s (capture.timeout_s): it is told to end",
                     patience->most_s);
            hand_on(SIGTERM);
        }
        if (told_ns && (insists || now_ns - told_ns >= ns_from_s(patience->told_s))) {
            log_warn("the command does not end: it is killed");
            process_signal(p, SIGKILL);
            process_reap(p, true);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * NS_PER_MS}, NULL);
    }
}

/* Warns of a replaced variable: a process has one injected library for each. */
static void tell_replaced(const struct trace_variable variables[TRACE_VARIABLES])
{
    for (int i = 0; i < TRACE_VARIABLES; i++) {
        const char *other = getenv(variables[i].name);
        bool library = strcmp(variables[i].name, TRACE_SETTINGS_VARIABLE) != 0;
        if (library && other && *other && strcmp(other, variables[i].value) != 0)
            log_warn("%s was %s: the command runs with this recorder instead", variables[i].name,
                     other);
    }
}

/* Ctrl-C and hang-ups reach the program directly (same process group), which decides; a SIGTERM for
 * this process alone is forwarded. Blocked until the program has started, which inherits their
 * dispositions: signals ignored by nohup and shells stay ignored. */
static const int signals[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM};
enum { SIGNALS = sizeof signals / sizeof *signals, OF_THE_TERMINAL = 3 };

static int start(struct process *p, struct process_params *params)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, on = {.sa_handler = hand_on};
    sigset_t wait, before;
    sigemptyset(&wait);
    for (int i = 0; i < SIGNALS; i++)
        sigaddset(&wait, signals[i]);
    sigprocmask(SIG_BLOCK, &wait, &before);
    params->mask = &before;
    int error = process_start(p, params);
    running = p->pid;
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], i < OF_THE_TERMINAL ? &ignore : &on, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum st trace_record_run(struct arena *a, char *const *program,
                         const struct trace_variable variables[TRACE_VARIABLES], int *status,
                         struct err *e)
{
    return trace_record_run_within(a, program, variables, NULL, status, e);
}

enum st trace_record_run_within(struct arena *a, char *const *program,
                                const struct trace_variable variables[TRACE_VARIABLES],
                                const struct trace_patience *patience, int *status, struct err *e)
{
    const char *env[TRACE_VARIABLES + 1] = {NULL};
    struct process p;
    tell_replaced(variables);
    for (int i = 0; i < TRACE_VARIABLES; i++)
        env[i] = arena_printf(a, "%s=%s", variables[i].name, variables[i].value);
    fflush(stdout);
    struct process_params params = {.argv = (const char *const *)program, .env = env};
    int error = start(&p, &params);
    if (error) {
        errno = error;
        return err_errno(e, true, "cannot run %s", program[0]);
    }
    if (patience)
        await(&p, patience);
    else
        process_reap(&p, true);
    running = 0;
    *status = p.status;
    return ST_OK;
}
