/* Child processes: start, limit, copy, capture, wait, end.
 *
 * A child is started without copying this process, however large that is, and nothing of ours but
 * its standard streams stays open in it. One thread may have several; a struct process belongs to
 * one thread at a time, and process_start may be called from any.
 *
 * A child whose end was seen is reaped, and its number forgotten: no function here ever signals a
 * number that may be somebody else's by then. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

enum process_stream {
    PROCESS_OURS, /* what this process has there */
    PROCESS_NULL, /* /dev/null */
    PROCESS_PIPE, /* the other end is struct process's */
};

struct process_params {
    const char *const *argv; /* ends with NULL; argv[0] is looked up in PATH when it has no '/' */
    const char *const *env;  /* "NAME=value" for it alone, ends with NULL; NULL = as ours */
    const char *dir;         /* working directory; NULL = ours */
    enum process_stream in, out, err;
    /* Lead a process group of its own: a signal from the terminal reaches this process alone, and
     * what the child started ends with it. */
    bool group;
    bool dies_with_us; /* killed when the thread that started it ends, however that ends */
    /* Dispositions: what we ignore it ignores, what we handle kills it. Where this is set SIGPIPE,
     * SIGINT and SIGTERM are never ignored. */
    bool default_signals;
    const sigset_t *mask; /* of blocked signals; NULL = the calling thread's */
    /* Limits for it and, each, what it starts; 0 = ours. */
    uint64_t cpu_s;        /* SIGXCPU beyond */
    uint64_t memory_bytes; /* of address space: allocations fail beyond */
    uint64_t file_bytes;   /* of a file it writes: SIGXFSZ beyond */
};

struct process {
    pid_t pid;        /* 0 = none, or over and reaped */
    int status;       /* of waitpid, once reaped */
    int in, out, err; /* our ends of its pipes, which close on exec; -1 = none */
    bool group;
};

/* 0, or an errno: of the pipes, the folder, or the program that could not be run (ENOENT: there is
 * none of that name). *p is empty then. */
int process_start(struct process *p, const struct process_params *params);

/* A copy of this process with all its memory, as fork(2) makes it: returns in both. Each has one
 * end of a socket in p->in; in the copy p->pid is 0. The copy is killed when the thread that made
 * it ends, must close what it should not hold, and ends with _exit. 0, or an errno, and then no
 * copy. */
int process_fork(struct process *p);

/* True once it is over and reaped; wait: not before. Of a group, what is left is killed. */
bool process_reap(struct process *p, bool wait);
/* Waits until it is over or until_ns (monotonic), looking every millisecond; as process_reap. */
bool process_wait(struct process *p, int64_t until_ns);
/* To it, or to its group; nothing when it is reaped. */
void process_signal(const struct process *p, int signal);
void process_close(int *fd); /* -1 is fine */
/* Kill, reap, close. Fine on an empty one. */
void process_end(struct process *p);

/* Run it to its end and keep what it writes to stdout. */
enum process_fate {
    PROCESS_WHOLE,       /* it ended, and all of its output is here: status counts */
    PROCESS_TOO_MUCH,    /* killed after `most` bytes or a little more */
    PROCESS_TOO_LATE,    /* killed after timeout_ns */
    PROCESS_NOT_STARTED, /* status is an errno */
};
/* in and err as params say (PROCESS_PIPE is not for this), out is appended to. Descendants that
 * hold its stdout open count as its output going on. */
enum process_fate process_capture(const struct process_params *params, size_t most,
                                  int64_t timeout_ns, struct buf *out, int *status);

#endif
