#define _GNU_SOURCE /* execvpe, pipe2 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"

extern char **environ;

/* ---- the child's side: between vfork and exec only what is safe in a signal handler ---- */

struct process_launch {
    const struct process_params *params;
    char **env;
    int files[3]; /* its stdin, stdout, stderr; all above 2, or -1 = inherited */
    int told;     /* receives the errno of a failure; closes on exec */
    pid_t parent;
    sigset_t mask;
};

static bool file_limit_reported; /* SIGXFSZ is ignored by us alone */

void process_report_file_limit(void)
{
    struct sigaction was;
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, &was);
    file_limit_reported = file_limit_reported || was.sa_handler != SIG_IGN;
}

/* Resets signal handlers: they must not run in the child, which shares this process's memory. */
static void drop_handlers(bool defaults)
{
    if (file_limit_reported)
        sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    for (int sig = 1; sig < NSIG; sig++) {
        struct sigaction now;
        bool wanted = defaults && (sig == SIGPIPE || sig == SIGINT || sig == SIGTERM);
        if (sigaction(sig, NULL, &now) == 0 && (wanted || now.sa_handler != SIG_IGN) &&
            now.sa_handler != SIG_DFL)
            sigaction(sig, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
}

/* A limit of at most the existing hard limit. grace: between the signal and the kill. */
static struct rlimit lowered(struct rlimit now, uint64_t most, uint64_t grace)
{
    rlim_t hard = most + grace < now.rlim_max ? most + grace : now.rlim_max;
    return (struct rlimit){most < hard ? most : hard, hard};
}

/* Resources are constants here: the C library's type for them is an enumeration or int. */
static bool limit(const struct process_params *p)
{
    struct rlimit cpu, memory, file;
    if (getrlimit(RLIMIT_CPU, &cpu) != 0 || getrlimit(RLIMIT_AS, &memory) != 0 ||
        getrlimit(RLIMIT_FSIZE, &file) != 0)
        return false;
    cpu = lowered(cpu, p->cpu_s, 1);
    memory = lowered(memory, p->memory_bytes, 0);
    file = lowered(file, p->file_bytes, 0);
    return (!p->cpu_s || setrlimit(RLIMIT_CPU, &cpu) == 0) &&
           (!p->memory_bytes || setrlimit(RLIMIT_AS, &memory) == 0) &&
           (!p->file_bytes || setrlimit(RLIMIT_FSIZE, &file) == 0);
}

/* Kills the child when its parent ends; also when the parent is gone already. */
static bool die_with(pid_t parent)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

static bool prepare(const struct process_launch *l)
{
    const struct process_params *p = l->params;
    drop_handlers(p->default_signals);
    if (p->group && setpgid(0, 0) != 0)
        return false;
    if (p->dies_with_us && !die_with(l->parent))
        return false;
    for (int i = 0; i < 3; i++)
        if (l->files[i] >= 0 && dup2(l->files[i], i) < 0)
            return false;
    return (!p->dir || chdir(p->dir) == 0) && limit(p);
}

_Noreturn static void become(const struct process_launch *l)
{
    if (prepare(l)) {
        sigprocmask(SIG_SETMASK, &l->mask, NULL);
        execvpe(l->params->argv[0], (char *const *)(uintptr_t)l->params->argv, l->env);
    }
    int error = errno;
    ssize_t n = write(l->told, &error, sizeof error);
    _exit(n == sizeof error ? 127 : 126);
}

/* Only the system call: the child runs on this stack frame. */
static pid_t split(const struct process_launch *l)
{
    pid_t pid = vfork();
    if (pid == 0)
        become(l);
    return pid;
}

/* ---- start ---- */

void process_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Moves a descriptor above the standard streams, which may be closed. */
static bool lift(int *fd)
{
    if (*fd > 2)
        return true;
    int low = *fd;
    *fd = fcntl(low, F_DUPFD_CLOEXEC, 3);
    close(low);
    return *fd >= 0;
}

static bool make_pipe(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC) != 0) {
        fds[0] = fds[1] = -1;
        return false;
    }
    bool low = lift(&fds[0]);
    return lift(&fds[1]) && low;
}

/* Opens one standard stream: the child's end, and ours of a pipe. */
static bool open_stream(enum process_stream stream, int i, int *theirs, int *ours)
{
    int fds[2];
    bool ok = true;
    if (stream == PROCESS_NULL) {
        *theirs = open("/dev/null", O_RDWR | O_CLOEXEC);
        return *theirs >= 0 && lift(theirs);
    }
    if (stream == PROCESS_PIPE) {
        ok = make_pipe(fds);
        *theirs = fds[i == 0 ? 0 : 1];
        *ours = fds[i == 0 ? 1 : 0];
    }
    return ok;
}

static bool same_name(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n + 1) == 0;
}

static bool is_named(const char *const *names, const char *variable)
{
    for (; names && *names; names++)
        if (strncmp(variable, *names, strlen(*names)) == 0 && variable[strlen(*names)] == '=')
            return true;
    return false;
}

/* This process's environment without some, with those of `more` added or replaced. */
static char **join_env(const char *const *more, const char *const *without)
{
    size_t n = 0, n_more = 0, out = 0;
    while (environ && environ[n])
        n++;
    while (more && more[n_more])
        n_more++;
    char **env = mem_alloc((n + n_more + 1) * sizeof *env);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < n_more && !same_name(more[k], environ[i]))
            k++;
        if (k == n_more && !is_named(without, environ[i]))
            env[out++] = environ[i];
    }
    for (size_t k = 0; k < n_more; k++)
        env[out++] = (char *)(uintptr_t)more[k]; /* execve does not write to them */
    return env;
}

/* The errno received through the pipe; 0 when exec closed it. */
static int told_error(int fd)
{
    int error = 0;
    ssize_t n;
    do
        n = read(fd, &error, sizeof error);
    while (n < 0 && errno == EINTR);
    return n == sizeof error ? error : 0;
}

/* Blocks all signals meanwhile: a handler must not run in a child that shares this memory. */
static int run(struct process *p, struct process_launch *l)
{
    int told[2];
    if (!make_pipe(told)) {
        int error = errno;
        process_close(&told[0]);
        process_close(&told[1]);
        return error;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    l->mask = l->params->mask ? *l->params->mask : before;
    l->told = told[1];
    l->parent = getpid();
    p->pid = split(l);
    int error = p->pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(told[1]);
    if (p->pid < 0)
        p->pid = 0;
    else if ((error = told_error(told[0])) != 0)
        process_reap(p, true);
    close(told[0]);
    return error;
}

int process_start(struct process *p, const struct process_params *params)
{
    *p = (struct process){.in = -1, .out = -1, .err = -1, .group = params->group};
    const enum process_stream streams[3] = {params->in, params->out, params->err};
    int *ours[3] = {&p->in, &p->out, &p->err};
    struct process_launch l = {.params = params, .files = {-1, -1, -1}};
    bool ok = true;
    for (int i = 0; i < 3 && ok; i++)
        ok = open_stream(streams[i], i, &l.files[i], ours[i]);
    int error = ok ? 0 : errno;
    if (ok) {
        l.env = join_env(params->env, params->without);
        error = run(p, &l);
        mem_free(l.env);
    }
    for (int i = 0; i < 3; i++) {
        process_close(&l.files[i]);
        if (error)
            process_close(ours[i]);
    }
    return error;
}

int process_fork(struct process *p)
{
    int pair[2];
    pid_t parent = getpid();
    *p = (struct process){.in = -1, .out = -1, .err = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    fflush(NULL); /* or the copy would write buffered output a second time */
    p->pid = fork();
    if (p->pid < 0) {
        int error = errno;
        p->pid = 0;
        close(pair[0]);
        close(pair[1]);
        return error;
    }
    bool copy = p->pid == 0;
    if (copy && !die_with(parent))
        _exit(126);
    close(pair[copy ? 0 : 1]);
    p->in = pair[copy ? 1 : 0];
    return 0;
}

/* ---- the end ---- */

/* While it is a zombie its pid is not reused, so the rest of its group can be ended by that pid. */
bool process_reap(struct process *p, bool wait)
{
    siginfo_t info = {0};
    if (!p->pid)
        return true;
    while (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT | (wait ? 0 : WNOHANG)) != 0)
        if (errno != EINTR) {
            p->pid = 0;
            return true;
        }
    if (info.si_pid == 0)
        return false;
    if (p->group)
        kill(-p->pid, SIGKILL);
    while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
    return true;
}

bool process_wait(struct process *p, int64_t until_ns)
{
    while (!process_reap(p, false)) {
        if (clock_mono_ns() >= until_ns)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    }
    return true;
}

void process_signal(const struct process *p, int signal)
{
    if (p->pid)
        kill(p->group ? -p->pid : p->pid, signal);
}

void process_end(struct process *p)
{
    process_signal(p, SIGKILL);
    process_reap(p, true);
    process_close(&p->in);
    process_close(&p->out);
    process_close(&p->err);
}

/* ---- capture ---- */

enum { STOP_MS = 50 }; /* between two looks at stop */

static bool stopped(const volatile sig_atomic_t *stop)
{
    return stop && *stop;
}

static enum process_fate read_all(int fd, struct buf *out, size_t most, int64_t until_ns,
                                  const volatile sig_atomic_t *stop)
{
    const int slice_ms = stop ? STOP_MS : 1000;
    for (size_t n = 0;;) {
        int64_t left_ns = until_ns - clock_mono_ns();
        int left_ms = left_ns <= 0                     ? 0
                      : left_ns > slice_ms * NS_PER_MS ? slice_ms
                                                       : (int)(left_ns / NS_PER_MS) + 1;
        if (stopped(stop))
            return PROCESS_STOPPED;
        struct pollfd f = {.fd = fd, .events = POLLIN};
        int ready = poll(&f, 1, left_ms); /* past the deadline, read what is there */
        if (n >= most)
            return PROCESS_TOO_MUCH;
        if (ready == 0 && left_ns <= 0)
            return PROCESS_TOO_LATE;
        if (ready <= 0)
            continue;
        char bytes[4096];
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return PROCESS_WHOLE;
        buf_add(out, bytes, (size_t)got);
        n += (size_t)got;
    }
}

enum process_fate process_capture(const struct process_params *params, size_t most,
                                  int64_t timeout_ns, struct buf *out, int *status)
{
    struct process p;
    struct process_params with_pipe = *params;
    with_pipe.out = PROCESS_PIPE;
    int64_t until_ns = clock_mono_ns() + timeout_ns;
    *status = process_start(&p, &with_pipe);
    if (*status)
        return PROCESS_NOT_STARTED;
    enum process_fate fate = read_all(p.out, out, most, until_ns, params->stop);
    while (fate == PROCESS_WHOLE && !process_reap(&p, false)) /* it closed stdout and still runs */
        if (stopped(params->stop))
            fate = PROCESS_STOPPED;
        else if (clock_mono_ns() >= until_ns)
            fate = PROCESS_TOO_LATE;
        else
            nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    process_end(&p);
    *status = p.status;
    return fate;
}
