#define _GNU_SOURCE /* ppoll, F_SETPIPE_SZ */
#include "engine/worker/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { READ_BYTES = 1 << 16, PIPE_BYTES = 1 << 20, POLL_NS = 1000000 };

/* ---- start ------------------------------------------------------------------------------- */

enum st child_start(struct child *c, const char *const *argv, size_t line_max, struct err *e)
{
    sigset_t none;
    sigemptyset(&none);
    *c = (struct child){.line_max = line_max, .orphans = orphans_adopt()};
    int error = process_start(&c->p, &(struct process_params){.argv = argv,
                                                              .in = PROCESS_PIPE,
                                                              .out = PROCESS_PIPE,
                                                              .err = PROCESS_PIPE,
                                                              .group = true,
                                                              .default_signals = true,
                                                              .mask = &none});
    if (error) {
        orphans_end(&c->orphans);
        return err_set(e, ST_DEVICE, "cannot start %s: %s", argv[0], strerror(error));
    }
    const int ours[] = {c->p.in, c->p.out, c->p.err};
    for (int i = 0; i < 3; i++) {
        fcntl(ours[i], F_SETFL, O_NONBLOCK);
        fcntl(ours[i], F_SETPIPE_SZ, PIPE_BYTES); /* where the system allows: fewer stalls */
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &c->old_pipe);
    return ST_OK;
}

/* ---- writing and reading ----------------------------------------------------------------- */

static void write_queue(struct child *c)
{
    while (c->p.in >= 0 && c->sent < c->unsent.n) {
        ssize_t n = write(c->p.in, c->unsent.p + c->sent, c->unsent.n - c->sent);
        if (n > 0)
            c->sent += (size_t)n;
        else if (n < 0 && errno == EAGAIN)
            return;
        else if (n < 0 && errno != EINTR)
            process_close(&c->p.in); /* the reader is gone; the end of stdout reports it */
    }
    if (c->sent == c->unsent.n || c->p.in < 0) {
        buf_clear(&c->unsent);
        c->sent = 0;
    }
}

bool child_send(struct child *c, const void *bytes, size_t n)
{
    if (c->p.in < 0)
        return true;
    buf_add(&c->unsent, bytes, n);
    write_queue(c);
    return c->unsent.n == 0;
}

static void read_output(struct child *c)
{
    if (c->taken == c->input.n) {
        buf_clear(&c->input);
        c->taken = 0;
    } else if (c->taken >= READ_BYTES) {
        memmove(c->input.p, c->input.p + c->taken, c->input.n - c->taken);
        c->input.n -= c->taken;
        c->taken = 0;
    }
    char bytes[READ_BYTES];
    ssize_t n = read(c->p.out, bytes, sizeof bytes);
    c->read_ns = clock_mono_ns();
    if (n > 0)
        buf_add(&c->input, bytes, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        c->ended = true;
}

static void log_stderr(struct child *c, const char *bytes, size_t n)
{
    enum { LINE_MAX_BYTES = 1000 };
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n')
            buf_putc(&c->err_line, bytes[i]);
        if (c->err_line.n > 0 && (bytes[i] == '\n' || c->err_line.n == LINE_MAX_BYTES)) {
            log_debug("worker: %s", buf_str(&c->err_line));
            buf_clear(&c->err_line);
        }
    }
}

static void read_stderr(struct child *c)
{
    char bytes[CHILD_TAIL_BYTES];
    ssize_t n = read(c->p.err, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        process_close(&c->p.err);
    if (n <= 0)
        return;
    log_stderr(c, bytes, (size_t)n);
    buf_add(&c->err_tail, bytes, (size_t)n);
    if (c->err_tail.n > 2 * CHILD_TAIL_BYTES) {
        size_t cut = c->err_tail.n - CHILD_TAIL_BYTES;
        memmove(c->err_tail.p, c->err_tail.p + cut, CHILD_TAIL_BYTES);
        c->err_tail.n = CHILD_TAIL_BYTES;
    }
}

void child_wait(struct child *c, int64_t until_ns)
{
    struct pollfd fds[3];
    nfds_t n = 0;
    int64_t left_ns = until_ns - clock_mono_ns();
    if (left_ns < 0)
        left_ns = 0;
    if (!c->ended)
        fds[n++] = (struct pollfd){.fd = c->p.out, .events = POLLIN};
    if (c->p.err >= 0)
        fds[n++] = (struct pollfd){.fd = c->p.err, .events = POLLIN};
    if (c->p.in >= 0 && c->unsent.n > 0)
        fds[n++] = (struct pollfd){.fd = c->p.in, .events = POLLOUT};
    struct timespec timeout = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                               .tv_nsec = (long)(left_ns % NS_PER_S)};
    if (ppoll(fds, n, &timeout, NULL) <= 0)
        return;
    for (nfds_t i = 0; i < n; i++) {
        if (!fds[i].revents)
            continue;
        if (fds[i].fd == c->p.out)
            read_output(c);
        else if (fds[i].fd == c->p.err)
            read_stderr(c);
        else
            write_queue(c);
    }
}

enum st child_line(struct child *c, struct sv *line, struct err *e)
{
    const char *from = c->input.p + c->taken;
    size_t n = c->input.n - c->taken;
    const char *end = n ? memchr(from, '\n', n) : NULL;
    size_t length = end ? (size_t)(end - from) : n;
    if (length > c->line_max)
        return err_at(e, ST_INPUT, "worker", c->lines + 1, 0, "the line has more than %zu bytes",
                      c->line_max);
    if (!end && c->ended && n > 0)
        return err_at(e, ST_INPUT, "worker", c->lines + 1, 0, "the output ends inside a line");
    if (!end)
        return ST_END;
    *line = (struct sv){from, length};
    c->taken += length + 1;
    c->lines++;
    return ST_OK;
}

/* ---- the end ----------------------------------------------------------------------------- */

/* True once the child is reaped. */
static bool reaped_by(struct child *c, int64_t until_ns)
{
    for (;;) {
        if (process_reap(&c->p, false))
            return true;
        int64_t now_ns = clock_mono_ns();
        if (now_ns >= until_ns)
            return false;
        /* Keep reading, or a child that still writes never ends; without pipes this sleeps. */
        child_wait(c, now_ns + POLL_NS < until_ns ? now_ns + POLL_NS : until_ns);
        c->taken = c->input.n;
    }
}

const char *child_fate(struct child *c, struct arena *a)
{
    if (c->p.pid && !reaped_by(c, clock_mono_ns() + NS_PER_S))
        return "closed its output";
    if (WIFSIGNALED(c->p.status))
        return arena_printf(a, "was killed by signal %d (%s)", WTERMSIG(c->p.status),
                            strsignal(WTERMSIG(c->p.status)));
    return arena_printf(a, "exited with status %d", WEXITSTATUS(c->p.status));
}

const char *child_last_words(const struct child *c, struct arena *a)
{
    struct sv tail = sv_trim((struct sv){c->err_tail.p ? c->err_tail.p : "", c->err_tail.n});
    size_t start = tail.n;
    while (start > 0 && tail.p[start - 1] != '\n')
        start--;
    return arena_strn(a, tail.p + start, tail.n - start);
}

void child_stop(struct child *c, int64_t until_ns)
{
    if (c->p.out < 0 && c->p.pid == 0)
        return;
    process_close(&c->p.in);
    if (c->p.pid && !reaped_by(c, until_ns)) {
        process_signal(&c->p, SIGTERM);
        if (!reaped_by(c, clock_mono_ns() + NS_PER_S)) {
            process_signal(&c->p, SIGKILL);
            process_reap(&c->p, true);
        }
    }
    process_close(&c->p.out);
    if (c->p.err >= 0)
        child_wait(c, 0);
    process_close(&c->p.err);
    orphans_end(&c->orphans);
    sigaction(SIGPIPE, &c->old_pipe, NULL);
}

void child_free(struct child *c)
{
    child_stop(c, 0);
    buf_free(&c->unsent);
    buf_free(&c->input);
    buf_free(&c->err_tail);
    buf_free(&c->err_line);
}
