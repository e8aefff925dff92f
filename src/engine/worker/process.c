#define _GNU_SOURCE /* ppoll, pipe2, F_SETPIPE_SZ */
#include "engine/worker/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

extern char **environ;

enum { READ_BYTES = 1 << 16, PIPE_BYTES = 1 << 20, POLL_NS = 1000000 };

/* ---- start ------------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The child's ends are theirs[0..2], ours the other ones; all close on exec, the child's are dup'ed
 * to 0, 1 and 2. */
static bool make_pipes(struct process *p, int theirs[3])
{
    int fds[2];
    int *ours[] = {&p->in, &p->out, &p->err};
    for (int i = 0; i < 3; i++) {
        if (pipe2(fds, O_CLOEXEC) != 0)
            return false;
        theirs[i] = fds[i == 0 ? 0 : 1];
        *ours[i] = fds[i == 0 ? 1 : 0];
        if (fcntl(*ours[i], F_SETFL, O_NONBLOCK) != 0)
            return false;
        fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* where the system allows: fewer stalls */
    }
    return true;
}

static int spawn(struct process *p, const char *const *argv, const int theirs[3])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t defaults, none;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&files, theirs[i], i);
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGTERM);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETSIGMASK);
    char *args[256];
    size_t n = 0;
    for (; argv[n] && n < 255; n++)
        args[n] = (char *)(uintptr_t)argv[n]; /* execve does not write to them */
    args[n] = NULL;
    int error = posix_spawnp(&p->pid, argv[0], &files, &attr, args, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return error;
}

enum st process_start(struct process *p, const char *const *argv, size_t line_max, struct err *e)
{
    *p = (struct process){.in = -1, .out = -1, .err = -1, .line_max = line_max};
    int theirs[3] = {-1, -1, -1};
    int error = make_pipes(p, theirs) ? spawn(p, argv, theirs) : errno;
    for (int i = 0; i < 3; i++)
        close_fd(&theirs[i]);
    if (error) {
        p->pid = 0;
        close_fd(&p->in);
        close_fd(&p->out);
        close_fd(&p->err);
        return err_set(e, ST_DEVICE, "cannot start %s: %s", argv[0], strerror(error));
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &p->old_pipe);
    return ST_OK;
}

/* ---- writing and reading ----------------------------------------------------------------- */

static void write_queue(struct process *p)
{
    while (p->in >= 0 && p->sent < p->unsent.n) {
        ssize_t n = write(p->in, p->unsent.p + p->sent, p->unsent.n - p->sent);
        if (n > 0)
            p->sent += (size_t)n;
        else if (n < 0 && errno == EAGAIN)
            return;
        else if (n < 0 && errno != EINTR)
            close_fd(&p->in); /* nobody reads any more; the end of stdout tells */
    }
    if (p->sent == p->unsent.n || p->in < 0) {
        buf_clear(&p->unsent);
        p->sent = 0;
    }
}

bool process_send(struct process *p, const void *bytes, size_t n)
{
    if (p->in < 0)
        return true;
    buf_add(&p->unsent, bytes, n);
    write_queue(p);
    return p->unsent.n == 0;
}

static void read_output(struct process *p)
{
    if (p->taken == p->input.n) {
        buf_clear(&p->input);
        p->taken = 0;
    } else if (p->taken >= READ_BYTES) {
        memmove(p->input.p, p->input.p + p->taken, p->input.n - p->taken);
        p->input.n -= p->taken;
        p->taken = 0;
    }
    char bytes[READ_BYTES];
    ssize_t n = read(p->out, bytes, sizeof bytes);
    p->read_ns = clock_mono_ns();
    if (n > 0)
        buf_add(&p->input, bytes, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        p->ended = true;
}

static void log_stderr(struct process *p, const char *bytes, size_t n)
{
    enum { LINE_MAX_BYTES = 1000 };
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n')
            buf_putc(&p->err_line, bytes[i]);
        if (p->err_line.n > 0 && (bytes[i] == '\n' || p->err_line.n == LINE_MAX_BYTES)) {
            log_debug("worker: %s", buf_str(&p->err_line));
            buf_clear(&p->err_line);
        }
    }
}

static void read_stderr(struct process *p)
{
    char bytes[PROCESS_TAIL_BYTES];
    ssize_t n = read(p->err, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_fd(&p->err);
    if (n <= 0)
        return;
    log_stderr(p, bytes, (size_t)n);
    buf_add(&p->err_tail, bytes, (size_t)n);
    if (p->err_tail.n > 2 * PROCESS_TAIL_BYTES) {
        size_t cut = p->err_tail.n - PROCESS_TAIL_BYTES;
        memmove(p->err_tail.p, p->err_tail.p + cut, PROCESS_TAIL_BYTES);
        p->err_tail.n = PROCESS_TAIL_BYTES;
    }
}

void process_wait(struct process *p, int64_t until_ns)
{
    struct pollfd fds[3];
    nfds_t n = 0;
    int64_t left_ns = until_ns - clock_mono_ns();
    if (left_ns < 0)
        left_ns = 0;
    if (!p->ended)
        fds[n++] = (struct pollfd){.fd = p->out, .events = POLLIN};
    if (p->err >= 0)
        fds[n++] = (struct pollfd){.fd = p->err, .events = POLLIN};
    if (p->in >= 0 && p->unsent.n > 0)
        fds[n++] = (struct pollfd){.fd = p->in, .events = POLLOUT};
    struct timespec timeout = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                               .tv_nsec = (long)(left_ns % NS_PER_S)};
    if (ppoll(fds, n, &timeout, NULL) <= 0)
        return;
    for (nfds_t i = 0; i < n; i++) {
        if (!fds[i].revents)
            continue;
        if (fds[i].fd == p->out)
            read_output(p);
        else if (fds[i].fd == p->err)
            read_stderr(p);
        else
            write_queue(p);
    }
}

enum st process_line(struct process *p, struct sv *line, struct err *e)
{
    const char *from = p->input.p + p->taken;
    size_t n = p->input.n - p->taken;
    const char *end = n ? memchr(from, '\n', n) : NULL;
    size_t length = end ? (size_t)(end - from) : n;
    if (length > p->line_max)
        return err_at(e, ST_INPUT, "worker", p->lines + 1, 0, "the line has more than %zu bytes",
                      p->line_max);
    if (!end && p->ended && n > 0)
        return err_at(e, ST_INPUT, "worker", p->lines + 1, 0, "the output ends inside a line");
    if (!end)
        return ST_END;
    *line = (struct sv){from, length};
    p->taken += length + 1;
    p->lines++;
    return ST_OK;
}

/* ---- the end ----------------------------------------------------------------------------- */

/* True once the child is over and reaped. While it is a zombie its number is nobody else's, so what
 * is left of its group can be ended by that number. */
static bool reap(struct process *p, int flags)
{
    siginfo_t info = {0};
    if (!p->pid)
        return true;
    while (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT | flags) != 0)
        if (errno != EINTR) {
            p->pid = 0;
            return true;
        }
    if (info.si_pid == 0)
        return false;
    kill(-p->pid, SIGKILL);
    while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
    return true;
}

/* True once the child is reaped. */
static bool reaped_by(struct process *p, int64_t until_ns)
{
    for (;;) {
        if (reap(p, WNOHANG))
            return true;
        int64_t now_ns = clock_mono_ns();
        if (now_ns >= until_ns)
            return false;
        /* Read on, or a child that still writes never ends; without pipes left this sleeps. */
        process_wait(p, now_ns + POLL_NS < until_ns ? now_ns + POLL_NS : until_ns);
        p->taken = p->input.n;
    }
}

const char *process_fate(struct process *p, struct arena *a)
{
    if (p->pid && !reaped_by(p, clock_mono_ns() + NS_PER_S))
        return "closed its output";
    if (WIFSIGNALED(p->status))
        return arena_printf(a, "was killed by signal %d (%s)", WTERMSIG(p->status),
                            strsignal(WTERMSIG(p->status)));
    return arena_printf(a, "exited with status %d", WEXITSTATUS(p->status));
}

const char *process_last_words(const struct process *p, struct arena *a)
{
    struct sv tail = sv_trim((struct sv){p->err_tail.p ? p->err_tail.p : "", p->err_tail.n});
    size_t start = tail.n;
    while (start > 0 && tail.p[start - 1] != '\n')
        start--;
    return arena_strn(a, tail.p + start, tail.n - start);
}

void process_stop(struct process *p, int64_t until_ns)
{
    if (p->out < 0 && p->pid == 0)
        return;
    close_fd(&p->in);
    if (p->pid && !reaped_by(p, until_ns)) {
        kill(-p->pid, SIGTERM);
        if (!reaped_by(p, clock_mono_ns() + NS_PER_S)) {
            kill(-p->pid, SIGKILL);
            reap(p, 0);
        }
    }
    close_fd(&p->out);
    if (p->err >= 0)
        process_wait(p, 0);
    close_fd(&p->err);
    sigaction(SIGPIPE, &p->old_pipe, NULL);
}

void process_free(struct process *p)
{
    process_stop(p, 0);
    buf_free(&p->unsent);
    buf_free(&p->input);
    buf_free(&p->err_tail);
    buf_free(&p->err_line);
}
