/* A child process with line-based I/O: stdin and stdout are pipes, the tail of stderr is kept.
 *
 * Every wait has a limit. The child leads a process group of its own, so that a signal from the
 * terminal reaches twinfer alone and all its descendants end with it, those in sessions of their
 * own as well (base/orphans.h: one child at a time). SIGPIPE is ignored from child_start to
 * child_stop: a child that died shows as an error of write. One thread. */
#ifndef ENGINE_WORKER_CHILD_H
#define ENGINE_WORKER_CHILD_H

#include "base/err.h"
#include "base/orphans.h"
#include "base/process.h"

enum { CHILD_TAIL_BYTES = 4096 };

struct child {
    struct process p;
    size_t line_max; /* longest line without its end */
    struct buf unsent;
    size_t sent; /* bytes of unsent already written */
    struct buf input;
    size_t taken;        /* bytes of input already handed out as lines */
    int64_t read_ns;     /* when input's last bytes were read */
    bool ended;          /* stdout is at its end */
    long lines;          /* handed out */
    struct buf err_tail; /* last bytes of stderr */
    struct buf err_line; /* of stderr, not yet ended: for the log */
    struct sigaction old_pipe;
    struct orphans orphans;
};

/* argv ends with NULL; argv[0] is looked up in PATH when it has no '/'. ST_DEVICE when it cannot be
 * started. */
enum st child_start(struct child *c, const char *const *argv, size_t line_max, struct err *e);

/* Queue bytes, and write what the pipe takes now. A child that is gone is no error here: its end is
 * seen when reading. True when all queued bytes are written. */
bool child_send(struct child *c, const void *bytes, size_t n);

/* Wait until a line is available, stdout ended, the queue could be written on, or until_ns
 * (monotonic), or a signal came. Writes and reads what there is. until_ns in the past: no wait. */
void child_wait(struct child *c, int64_t until_ns);

/* The next whole line read so far, without its end; borrowed until the next child_wait. ST_END:
 * none yet (or no more, when c->ended). ST_INPUT: longer than line_max, or a last line without an
 * end. */
enum st child_line(struct child *c, struct sv *line, struct err *e);

/* Closes the child's stdin and waits until until_ns; then its group gets SIGTERM, 1 s later
 * SIGKILL. Reaps it; afterwards only the tail of stderr remains. No-op on a process never started.
 */
void child_stop(struct child *c, int64_t until_ns);
void child_free(struct child *c); /* child_stop without waiting, and frees memory */

/* "exited with status 3", "was killed by signal 9 (Killed)", "closed its output" for use after
 * c->ended: waits briefly to reap it. */
const char *child_fate(struct child *c, struct arena *a);

/* The last non-empty line of stderr, "" when there is none. */
const char *child_last_words(const struct child *c, struct arena *a);

#endif
