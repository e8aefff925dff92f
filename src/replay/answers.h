/* The lines that the process of a replay answers with, each waited for within limits: a kernel that
 * does not end keeps its process inside the driver, where no signal reaches it, and its GPU busy
 * until the process is killed. */
#ifndef REPLAY_ANSWERS_H
#define REPLAY_ANSWERS_H

#include "base/process.h"

struct answers {
    struct process *p; /* with a pipe from its stdout */
    const volatile sig_atomic_t *stop;
    int64_t until_ns; /* monotonic: the end of all; INT64_MAX = none */
    int64_t step_until_ns;
    void (*tick)(void *self); /* while it waits, ten times a second or oftener; or NULL */
    void *self;
    struct buf text;
    size_t taken; /* bytes of the text that were returned */
};

enum answer {
    ANSWER_LINE,
    ANSWER_END,     /* the process has ended, and is reaped */
    ANSWER_STOPPED, /* stop was set: the process was told, and is killed soon after */
    ANSWER_LATE,    /* until_ns or step_until_ns has come: the process is killed */
    ANSWER_STEP_LATE,
};

/* *line is valid until the next call. After anything but a line the process is over. */
enum answer answers_next(struct answers *a, struct sv *line);
void answers_close(struct answers *a); /* not the process */

#endif
