#include "deep/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/orphans.h"
#include "base/process.h"
#include "trace/settings.h"

static const char *const ours[] = {TRACE_DRIVER_VARIABLE, TRACE_NVTX_VARIABLE,
                                   TRACE_SETTINGS_VARIABLE, NULL};

struct pump {
    struct process p;
    FILE *log;
    struct buf tail;
    int64_t until_ns;
};

static void keep(struct pump *p, const char *bytes, size_t n)
{
    fwrite(bytes, 1, n, p->log);
    buf_add(&p->tail, bytes, n);
    if (p->tail.n > 4 * (size_t)TOOL_TAIL_BYTES) {
        size_t drop = p->tail.n - TOOL_TAIL_BYTES;
        memmove(p->tail.p, p->tail.p + drop, TOOL_TAIL_BYTES + 1);
        p->tail.n = TOOL_TAIL_BYTES;
    }
}

/* Copies what is there. False at the end of the stream. */
static bool copy(struct pump *p, int *fd)
{
    char bytes[16384];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n > 0)
        keep(p, bytes, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        process_close(fd);
    return n > 0;
}

/* Whatever is left in the pipes of a program that ended; its descendants are dead. */
static void drain(struct pump *p)
{
    int *fds[] = {&p->p.out, &p->p.err};
    for (size_t i = 0; i < 2; i++) {
        if (*fds[i] < 0)
            continue;
        fcntl(*fds[i], F_SETFL, O_NONBLOCK);
        while (*fds[i] >= 0 && copy(p, fds[i]))
            ;
    }
}

/* Until it ends, the limit, or the stop. */
static enum tool_fate watch(struct pump *p, const struct tool_run *run)
{
    enum { STEP_MS = 20 };
    for (;;) {
        struct pollfd fds[] = {{.fd = p->p.out, .events = POLLIN},
                               {.fd = p->p.err, .events = POLLIN}};
        int n = poll(fds, 2, STEP_MS);
        if (n > 0 && fds[0].revents)
            copy(p, &p->p.out);
        if (n > 0 && fds[1].revents)
            copy(p, &p->p.err);
        if (process_reap(&p->p, false))
            return TOOL_ENDED;
        if (run->stop && *run->stop)
            return TOOL_STOPPED;
        if (p->until_ns && clock_mono_ns() >= p->until_ns)
            return TOOL_CUT_OFF;
    }
}

static void say_why(struct arena *a, const struct tool_run *run, struct tool_result *out)
{
    const char *name = run->argv[0];
    if (out->fate == TOOL_CUT_OFF)
        out->why =
            arena_printf(a, "%s did not end within %g s and was cut off", name, run->limit_s);
    else if (out->fate == TOOL_STOPPED)
        out->why = "the session was interrupted";
    else if (out->fate == TOOL_FAILED && out->code > 128)
        out->why = arena_printf(a, "%s was killed by signal %d", name, out->code - 128);
    else if (out->fate == TOOL_FAILED)
        out->why = arena_printf(a, "%s ended with exit code %d", name, out->code);
}

enum st tool_start_and_wait(struct arena *a, const struct tool_run *run, struct tool_result *out,
                            struct err *e)
{
    struct pump p = {0};
    *out = (struct tool_result){.tail = ""};
    p.log = fopen(run->log, "we");
    if (!p.log)
        return err_errno(e, false, "%s", run->log);
    const struct process_params params = {.argv = run->argv,
                                          .env = run->env,
                                          .without = ours,
                                          .in = PROCESS_NULL,
                                          .out = PROCESS_PIPE,
                                          .err = PROCESS_PIPE,
                                          .group = true,
                                          .dies_with_us = true,
                                          .default_signals = true};
    int64_t start_ns = clock_mono_ns();
    p.until_ns = run->limit_s > 0 ? start_ns + ns_from_s(run->limit_s) : 0;
    struct orphans orphans = orphans_adopt();
    int error = process_start(&p.p, &params);
    if (error) {
        orphans_end(&orphans);
        out->fate = TOOL_NOT_THERE;
        out->why = arena_printf(a, "cannot run %s: %s", run->argv[0], strerror(error));
    } else {
        out->fate = watch(&p, run);
        if (out->fate != TOOL_ENDED) {
            int pipes[] = {p.p.out, p.p.err};
            p.p.out = p.p.err = -1; /* what it had said counts too */
            process_end(&p.p);
            p.p.out = pipes[0], p.p.err = pipes[1];
        }
        orphans_end(&orphans);
        drain(&p);
        process_close(&p.p.out);
        process_close(&p.p.err);
        out->wall_s = ns_to_s(clock_mono_ns() - start_ns);
        out->code = WIFEXITED(p.p.status) ? WEXITSTATUS(p.p.status) : 128 + WTERMSIG(p.p.status);
        if (out->fate == TOOL_ENDED && out->code)
            out->fate = TOOL_FAILED;
    }
    say_why(a, run, out);
    size_t from = p.tail.n > TOOL_TAIL_BYTES ? p.tail.n - TOOL_TAIL_BYTES : 0;
    out->tail = arena_str(a, buf_str(&p.tail) + from);
    buf_free(&p.tail);
    if (fclose(p.log) != 0)
        return err_errno(e, false, "%s", run->log);
    return ST_OK;
}

/* ---- known messages ---- */

struct tool_known tool_explain(const char *output)
{
    static const struct {
        const char *text, *reason, *remedy;
    } rows[] = {
        {"ERR_NVGPUCTRPERM",
         "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)",
         "run as root or with CAP_SYS_ADMIN, or load the nvidia module with "
         "NVreg_RestrictProfilingToAdminUsers=0 and reboot"},
        {"No kernels were profiled", "no launched kernel was one of those asked for",
         "the program launches them only outside the ranges, or under other names: "
         "ncu.kernel_name= "
         "and ncu.nvtx_include= widen it"},
        {"unrecognised option", "this version of the tool does not know one of the options",
         "the log names it; ncu.filter_mode=global suits Nsight Compute before 2024.1"},
        {"unrecognized option", "this version of the tool does not know one of the options",
         "the log names it; a newer version may"},
        {"driver resource was unavailable", "another profiler holds the GPU's counters",
         "end the other profiler (DCGM, a second ncu), then repeat"},
        {"Failed to find metric", "Nsight Compute does not know one of the metrics on this GPU",
         "ncu.query=true leaves such metrics out; ncu.metrics= is the list"},
        {"cannot take records of kernels",
         "the command takes records of kernels itself, and CUPTI serves one profiler in a process",
         "work=bench runs the operators of work=profile without its own records"},
        {"no CUDA-capable device", "there is no GPU that CUDA can use", "twinfer doctor says why"},
        {"CUDA driver version is insufficient", "the driver is older than the program's CUDA",
         "a newer driver"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(output, rows[i].text))
            return (struct tool_known){rows[i].reason, rows[i].remedy};
    return (struct tool_known){NULL, NULL};
}

/* ---- short questions ---- */

static const char *no_answer(struct arena *a, const char *name, enum process_fate fate, int error,
                             double limit_s)
{
    switch (fate) {
    case PROCESS_NOT_STARTED:
        return error == ENOENT ? arena_printf(a, "%s is not there", name)
                               : arena_printf(a, "cannot run %s: %s", name, strerror(error));
    case PROCESS_TOO_LATE:
        return arena_printf(a, "%s did not end within %g s and was cut off", name, limit_s);
    case PROCESS_TOO_MUCH:
        return arena_printf(a, "%s said more than anyone asked and was cut off", name);
    case PROCESS_STOPPED:
        return "the session was interrupted";
    case PROCESS_WHOLE:
        break;
    }
    return NULL;
}

struct tool_answer tool_ask(struct arena *a, const char *const *argv,
                            const struct tool_limits *limits)
{
    enum { MOST = 65536 };
    const struct process_params params = {.argv = argv,
                                          .without = ours,
                                          .in = PROCESS_NULL,
                                          .err = PROCESS_NULL,
                                          .group = true,
                                          .dies_with_us = true,
                                          .stop = limits->stop};
    double limit_s =
        limits->limit_s > 0 && limits->limit_s < TOOL_ASK_S ? limits->limit_s : (double)TOOL_ASK_S;
    struct tool_answer out = {0};
    struct buf text = {0};
    int status;
    enum process_fate fate = process_capture(&params, MOST, ns_from_s(limit_s), &text, &status);
    if (fate == PROCESS_WHOLE) {
        out.text = arena_str(a, buf_str(&text));
        out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else {
        out.why = no_answer(a, argv[0], fate, status, limit_s);
        out.hung = fate == PROCESS_TOO_LATE;
    }
    buf_free(&text);
    return out;
}

struct tool_answer tool_version(struct arena *a, const char *path, const struct tool_limits *limits)
{
    const char *const argv[] = {path, "--version", NULL};
    struct tool_answer out = tool_ask(a, argv, limits);
    const char *text = out.text, *found = NULL;
    for (const char *p = text; p && *p && !found;) {
        size_t n = strcspn(p, "\n");
        const char *digit = strpbrk(p, "0123456789");
        if (memchr(p, '.', n) && digit && digit < p + n && !memchr(p, '(', n ? 1 : 0))
            found = arena_strn(a, p, n);
        p += n + (p[n] == '\n');
    }
    if (text)
        out.text = found ? found : arena_strn(a, text, strcspn(text, "\n"));
    return out;
}
