/* Child processes: start, limit, copy, capture, wait, end.
 *
 * A child is started without copying this process, however large that is, and inherits only its
 * standard streams. One thread may have several; a struct process belongs to one thread at a time,
 * and process_start may be called from any.
 *
 * An ended child is reaped and its pid cleared: no function here signals a pid that may have been
 * reused. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

enum process_stream {
    PROCESS_OURS, /* inherit this process's stream */
    PROCESS_NULL, /* /dev/null */
    PROCESS_PIPE, /* a pipe; the other end is in struct process */
};

struct process_params {
    const char *const *argv; /* ends with NULL; argv[0] is looked up in PATH when it has no '/' */
    const char *const *env;  /* "NAME=value" added for it, ends with NULL; NULL = none */
    const char *const
        *without;    /* names of variables it does not inherit, ends with NULL; or NULL */
    const char *dir; /* working directory; NULL = inherited */
    enum process_stream in, out, err;
    /* Lead a process group of its own: a signal from the terminal reaches this process alone, and
     * its descendants end with it. */
    bool group;
    bool dies_with_us; /* killed when the thread that started it ends, for whatever reason */
    /* Dispositions: ignored signals stay ignored, handled ones are reset. If set, SIGPIPE, SIGINT
     * and SIGTERM are never ignored. */
    bool default_signals;
    const sigset_t *mask; /* of blocked signals; NULL = the calling thread's */
    /* Limits for it and for each of its descendants; 0 = inherited. */
    uint64_t cpu_s;        /* SIGXCPU beyond */
    uint64_t memory_bytes; /* of address space: allocations fail beyond */
    uint64_t file_bytes;   /* per file it writes: SIGXFSZ beyond */
    /* process_capture alone: it ends the child soon after this is set; NULL = never. */
    const volatile sig_atomic_t *stop;
};

struct process {
    pid_t pid;        /* 0 = none, or over and reaped */
    int status;       /* of waitpid, once reaped */
    int in, out, err; /* this side's ends of its pipes, close-on-exec; -1 = none */
    bool group;
};

/* 0, or an errno: of the pipes, the folder, or the program that could not be run (ENOENT: not
 * found). *p is empty then. */
int process_start(struct process *p, const struct process_params *params);

/* Copies this process with all its memory, by fork(2): returns in both. Each has one end of a
 * socket in p->in; in the copy p->pid is 0. The copy is killed when the thread that made it ends,
 * must close inherited descriptors, and ends with _exit. 0, or an errno, and then no copy. */
int process_fork(struct process *p);

/* True once it is over and reaped; wait: block until then. Kills the rest of its group. */
bool process_reap(struct process *p, bool wait);
/* Waits until it is over or until_ns (monotonic), polling every millisecond; as process_reap. */
bool process_wait(struct process *p, int64_t until_ns);
/* Signals it, or its group; no-op when it is reaped. */
void process_signal(const struct process *p, int signal);
void process_close(int *fd); /* -1 is fine */
/* Kill, reap, close. Fine on an empty one. */
void process_end(struct process *p);

/* Outcome of running a child to its end and capturing its stdout. */
enum process_fate {
    PROCESS_WHOLE,       /* it ended, and its output is complete: status is valid */
    PROCESS_TOO_MUCH,    /* killed after `most` bytes or a little more */
    PROCESS_TOO_LATE,    /* killed after timeout_ns */
    PROCESS_STOPPED,     /* killed as params->stop was set */
    PROCESS_NOT_STARTED, /* status is an errno */
};
/* A write beyond the limit on file sizes (ulimit -f) fails with EFBIG from now on, like one to a
 * full disk, and ends no process by SIGXFSZ; programs that process_start starts have the signal as
 * this process found it. */
void process_report_file_limit(void);

/* Uses in and err of params (not PROCESS_PIPE); appends stdout to out. Output continues while
 * descendants hold its stdout open. */
enum process_fate process_capture(const struct process_params *params, size_t most,
                                  int64_t timeout_ns, struct buf *out, int *status);

#endif
