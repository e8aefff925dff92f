/* Runs one program of a session: its output goes to a log, it is cut off after a limit, it and its
 * descendants end when it is over, cut off or stopped, and a failure gets a reason and a remedy.
 * Private to deep/. */
#ifndef DEEP_TOOL_H
#define DEEP_TOOL_H

#include <signal.h>

#include "base/arena.h"
#include "base/str.h"

enum tool_fate {
    TOOL_ENDED,     /* exit code 0 */
    TOOL_FAILED,    /* another exit code, or killed by a signal */
    TOOL_NOT_THERE, /* could not be started */
    TOOL_CUT_OFF,   /* by the limit */
    TOOL_STOPPED,   /* by the session */
};

struct tool_run {
    const char *const *argv; /* ends with NULL */
    const char *const *env;  /* added, "NAME=value"; NULL = none */
    const char *log;         /* path; its output, both streams as they came */
    double limit_s;          /* 0 = none */
    const volatile sig_atomic_t *stop;
};

struct tool_result {
    enum tool_fate fate;
    int code;         /* exit code, 128 + signal */
    double wall_s;    /* from start to end */
    const char *tail; /* the end of its output, at most TOOL_TAIL_BYTES */
    const char *why;  /* of all but TOOL_ENDED */
};
enum { TOOL_TAIL_BYTES = 64 << 10 };

/* The recorder's variables (trace/settings.h) are not inherited: tools have injections of their
 * own. ST_IO: the log cannot be written. */
enum st tool_start_and_wait(struct arena *a, const struct tool_run *run, struct tool_result *out,
                            struct err *e);

/* What a known message in the tool's output means. */
struct tool_known {
    const char *reason, *remedy; /* NULL = the message is not known */
};
struct tool_known tool_explain(const char *output);

/* ---- short questions ---- */

struct tool_limits {
    double limit_s; /* of each run of a session; 0 = none. Of a question at most TOOL_ASK_S */
    const volatile sig_atomic_t *stop;
};
enum { TOOL_ASK_S = 20 };

struct tool_answer {
    const char *text; /* its stdout; NULL = it did not end by itself */
    int code;         /* then: its exit code, 128 + signal */
    const char *why;  /* text is NULL: it cannot be run, was cut off or stopped */
    bool hung;        /* cut off */
};
struct tool_answer tool_ask(struct arena *a, const char *const *argv,
                            const struct tool_limits *limits);

/* First line of `<path> --version` that holds a version; text is NULL where it is not there. */
struct tool_answer tool_version(struct arena *a, const char *path,
                                const struct tool_limits *limits);

#endif
