#define _GNU_SOURCE /* sched_getaffinity */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "search/launch.h"

int64_t launch_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

/* Header of a worker's result. */
struct result_frame {
    uint64_t job, bytes;
    struct err e;
};

struct fork_worker {
    struct process p; /* in: our socket to it, -1 = closed */
    bool busy;        /* has a job */
};

static bool send_all(int fd, const void *p, size_t n)
{
    for (const char *at = p; n > 0;) {
        ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        at += k;
        n -= (size_t)k;
    }
    return true;
}

static bool receive_all(int fd, void *p, size_t n)
{
    for (char *at = p; n > 0;) {
        ssize_t k = recv(fd, at, n, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        at += k;
        n -= (size_t)k;
    }
    return true;
}

/* Until the parent closes its end. */
static void serve_jobs(const struct launch_work *w, int fd)
{
    struct buf out = {0};
    uint64_t job;
    while (receive_all(fd, &job, sizeof job)) {
        struct result_frame f = {.job = job};
        buf_clear(&out);
        if (w->job(w->self, (size_t)job, &out, &f.e) != ST_OK)
            buf_clear(&out);
        f.bytes = out.n;
        if (!send_all(fd, &f, sizeof f) || !send_all(fd, buf_str(&out), out.n))
            break;
    }
}

static enum st start_worker(const struct launch_work *w, struct fork_worker *workers, int64_t k,
                            struct err *e)
{
    struct process p;
    int error = process_fork(&p);
    if (error) {
        errno = error;
        return err_errno(e, false, "cannot make a worker");
    }
    if (p.pid == 0) {
        for (int64_t i = 0; i < k; i++)
            process_close(&workers[i].p.in);
        serve_jobs(w, p.in);
        _exit(0);
    }
    workers[k] = (struct fork_worker){.p = p};
    return ST_OK;
}

struct fork_pool {
    const struct launch_work *w;
    struct fork_worker *workers;
    struct pollfd *polls;
    int64_t n, busy;
    size_t next; /* job to hand out */
};

static bool next_job(struct fork_pool *p, uint64_t *job)
{
    while (p->next < p->w->n && p->w->skip && p->w->skip[p->next])
        p->next++;
    *job = p->next;
    return p->next < p->w->n ? (p->next++, true) : false;
}

static enum st worker_died(struct fork_worker *w, struct err *e)
{
    process_close(&w->p.in);
    process_reap(&w->p, true);
    int status = w->p.status;
    if (WIFSIGNALED(status))
        return err_set(e, ST_IO, "a worker process was killed by signal %d", WTERMSIG(status));
    return err_set(e, ST_IO, "a worker process ended with code %d", WEXITSTATUS(status));
}

static enum st hand_out(struct fork_pool *p, struct fork_worker *w, struct err *e)
{
    uint64_t job;
    if (!next_job(p, &job))
        return ST_OK;
    if (!send_all(w->p.in, &job, sizeof job))
        return worker_died(w, e);
    w->busy = true;
    p->busy++;
    return ST_OK;
}

static enum st take_result(struct fork_pool *p, struct fork_worker *w, struct err *e)
{
    struct result_frame f;
    w->busy = false;
    p->busy--;
    if (!receive_all(w->p.in, &f, sizeof f))
        return worker_died(w, e);
    char *bytes = mem_alloc(f.bytes + 1);
    enum st st = ST_OK;
    if (!receive_all(w->p.in, bytes, f.bytes)) {
        st = worker_died(w, e);
    } else if (f.e.st != ST_OK) {
        *e = f.e;
        st = e->st;
    } else {
        st = p->w->done(p->w->self, (size_t)f.job, (struct sv){bytes, f.bytes}, e);
    }
    mem_free(bytes);
    return st;
}

static bool stopped(const struct launch_work *w)
{
    return w->stop && *w->stop;
}

static enum st interrupted(struct err *e)
{
    return err_set(e, ST_INTERRUPTED, "interrupted by a signal");
}

/* Hands out jobs and takes results; after an error it only waits for running jobs. A signal ends it
 * at once: what runs is lost. */
static enum st drive(struct fork_pool *p, struct err *e)
{
    enum st st = ST_OK;
    struct err later = {0}; /* the first error counts */
    for (int64_t i = 0; i < p->n && st == ST_OK; i++)
        st = hand_out(p, &p->workers[i], e);
    while (p->busy > 0 && !stopped(p->w)) {
        for (int64_t i = 0; i < p->n; i++)
            p->polls[i] = (struct pollfd){p->workers[i].busy ? p->workers[i].p.in : -1, POLLIN, 0};
        if (poll(p->polls, (nfds_t)p->n, 200) <= 0)
            continue; /* a signal, or time to check for one */
        for (int64_t i = 0; i < p->n; i++) {
            if (!p->polls[i].revents)
                continue;
            struct err *to = st == ST_OK ? e : &later;
            enum st now = take_result(p, &p->workers[i], to);
            if (now == ST_OK && st == ST_OK)
                now = hand_out(p, &p->workers[i], to);
            if (st == ST_OK)
                st = now;
        }
    }
    return st == ST_OK && stopped(p->w) ? interrupted(e) : st;
}

static enum st run_here(const struct launch_work *w, struct err *e)
{
    struct buf out = {0};
    enum st st = ST_OK;
    for (size_t i = 0; i < w->n && st == ST_OK; i++) {
        if (w->skip && w->skip[i])
            continue;
        if (stopped(w)) {
            st = interrupted(e);
            break;
        }
        buf_clear(&out);
        st = w->job(w->self, i, &out, e);
        if (st == ST_OK)
            st = w->done(w->self, i, (struct sv){buf_str(&out), out.n}, e);
    }
    buf_free(&out);
    return st;
}

static enum st run_forked(const struct launch_work *w, struct err *e)
{
    size_t jobs = 0;
    for (size_t i = 0; i < w->n; i++)
        jobs += !(w->skip && w->skip[i]);
    int64_t n = w->workers < (int64_t)jobs ? w->workers : (int64_t)jobs;
    if (n <= 1)
        return run_here(w, e);
    struct fork_pool p = {.w = w,
                          .workers = mem_alloc((size_t)n * sizeof(struct fork_worker)),
                          .polls = mem_alloc((size_t)n * sizeof(struct pollfd))};
    enum st st = ST_OK;
    while (p.n < n && st == ST_OK) {
        st = start_worker(w, p.workers, p.n, e);
        p.n += st == ST_OK;
    }
    if (st == ST_OK)
        st = drive(&p, e);
    for (int64_t i = 0; i < p.n; i++)
        process_close(&p.workers[i].p.in); /* an idle worker ends by that */
    for (int64_t i = 0; i < p.n; i++) {
        if (stopped(w))
            process_signal(&p.workers[i].p, SIGKILL);
        process_reap(&p.workers[i].p, true);
    }
    mem_free(p.workers);
    mem_free(p.polls);
    return st;
}

static enum st open_fork(bool *leads, struct err *e)
{
    (void)e;
    *leads = true;
    return ST_OK;
}

static void close_fork(void) {}

const struct launcher_ops launch_fork = {
    .name = "fork",
    .help = "processes on this machine's cores",
    .version = LAUNCH_VERSION,
    .open = open_fork,
    .run = run_forked,
    .close = close_fork,
};
