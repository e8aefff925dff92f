#include "replay/answers.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    LOOK_MS = 100, /* between two looks at stop and the limits */
    TOLD_MS = 1000 /* from SIGTERM to SIGKILL: what it writes is put away */
};

static bool take_line(struct answers *a, bool last, struct sv *line)
{
    const char *from = a->text.p + a->taken;
    const size_t left = a->text.n - a->taken;
    const char *end = left ? memchr(from, '\n', left) : NULL;
    if (!end && (!last || left == 0))
        return false;
    *line = (struct sv){from, end ? (size_t)(end - from) : left};
    a->taken += line->n + (end != NULL);
    return true;
}

static void drop_taken(struct answers *a)
{
    if (a->taken == 0)
        return;
    memmove(a->text.p, a->text.p + a->taken, a->text.n - a->taken);
    a->text.n -= a->taken;
    a->taken = 0;
}

static enum answer judge(const struct answers *a)
{
    const int64_t now_ns = clock_mono_ns();
    return a->stop && *a->stop          ? ANSWER_STOPPED
           : now_ns >= a->until_ns      ? ANSWER_LATE
           : now_ns >= a->step_until_ns ? ANSWER_STEP_LATE
                                        : ANSWER_LINE;
}

/* Waits for more; ANSWER_END: there is no more. */
static enum answer read_more(struct answers *a)
{
    char room[4096];
    struct pollfd f = {.fd = a->p->out, .events = POLLIN};
    const int ready = poll(&f, 1, LOOK_MS);
    if (a->tick)
        a->tick(a->self);
    const enum answer now = judge(a);
    if (now != ANSWER_LINE || ready <= 0)
        return now;
    const ssize_t n = read(a->p->out, room, sizeof room);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return ANSWER_LINE;
    if (n <= 0)
        return ANSWER_END;
    buf_add(&a->text, room, (size_t)n);
    return ANSWER_LINE;
}

/* It closed its stdout: its driver may still wait for the GPU. */
static enum answer await_end(struct answers *a)
{
    while (!process_wait(a->p, clock_mono_ns() + LOOK_MS * NS_PER_MS)) {
        const enum answer now = judge(a);
        if (now != ANSWER_LINE)
            return now;
    }
    return ANSWER_END;
}

static void end_process(struct answers *a, bool told)
{
    if (told) {
        process_signal(a->p, SIGTERM);
        process_wait(a->p, clock_mono_ns() + TOLD_MS * NS_PER_MS);
    }
    process_end(a->p);
}

enum answer answers_next(struct answers *a, struct sv *line)
{
    enum answer now = ANSWER_LINE;
    drop_taken(a);
    while (now == ANSWER_LINE) {
        if (take_line(a, false, line))
            return ANSWER_LINE;
        now = read_more(a);
    }
    if (now == ANSWER_END && take_line(a, true, line))
        return ANSWER_LINE;
    if (now == ANSWER_END)
        now = await_end(a);
    if (now != ANSWER_END)
        end_process(a, now == ANSWER_STOPPED);
    return now;
}

void answers_close(struct answers *a)
{
    buf_free(&a->text);
}
