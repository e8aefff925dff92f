/* One event of a PyTorch (Kineto) or Chrome trace, read in place.
 *
 * Made for traces of 10 GB: reads what trace/ keeps and skips the rest with a scan for quotes and
 * brackets. Skipped text is checked for nesting only, the rest as JSON. A value that is none of its
 * kind, an empty one, a comma too many: such places are skipped and counted. Private to trace/. */
#ifndef TRACE_KINETO_SCAN_H
#define TRACE_KINETO_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum kineto_type {
    KINETO_IGNORED, /* flows, counters, and kinds that trace.h lacks */
    KINETO_KERNEL,
    KINETO_COPY,
    KINETO_SET,
    KINETO_RUNTIME,
    KINETO_DRIVER,
    KINETO_OPERATOR,
    KINETO_ANNOTATION,
    KINETO_PROCESS_NAME,
    KINETO_THREAD_NAME,
    KINETO_SKIPPED, /* a span of a category that is not read: counted */
};

enum { KINETO_DEVICES = 4096 }; /* numbers of GPUs end below; larger ones are something else */

struct kineto_event {
    enum kineto_type type;
    struct sv name; /* as in the file, escapes included when `escaped` */
    bool escaped, has_ts;
    int64_t ts_ns, dur_ns;
    int64_t pid, tid;     /* of a text, the number at its end, else at its begin; -1 = none */
    struct sv pid_prefix; /* of a text, what is beside that number: "[TP01] "; all, without one */
    struct sv tid_text;   /* a text that is more than a number */
    struct sv label;      /* args.name of metadata */
    struct sv shapes, types; /* "Input Dims", "Input type": JSON lists */
    uint64_t graph_node;
    int64_t bytes;
    uint64_t correlation;
    uint32_t device; /* TRACE_NONE = not said */
    uint32_t context, stream;
    uint32_t external; /* "External id": of the operator that launched it; 0 = not said */
    bool has_stream;
    struct sv stream_handle; /* a stream that is no number of 32 bits; as in the file */
    uint32_t registers, shared, grid[3], block[3];
    uint32_t process; /* pid of the process that launched it; only in files of this program, 0 =
                         unknown */
};

/* A cursor over complete text. */
struct scan {
    const char *p, *end;
    const char *fault;   /* place of the first fault, NULL = none */
    const char *why;     /* what was expected there */
    uint64_t odd;        /* places that were skipped */
    const char *odd_at;  /* the first of them */
    const char *odd_why; /* what was expected there */
};

/* The byte behind the JSON value at p (which is no white space), NULL when the text ends before it.
 * Strings end at their closing quote, lists and maps at the bracket that closes them. */
const char *trace_scan_value_end(const char *p, const char *end);

/* The event at s->p, which is a '{' with its closing bracket inside the text. False with a fault
 * set. */
bool trace_scan_event(struct scan *s, struct kineto_event *out);

void trace_scan_space(struct scan *s);
/* Counts a place that is passed over. */
void trace_scan_odd(struct scan *s, const char *at, const char *why);
/* A string; *text without the quotes, escapes as they stand. */
bool trace_scan_string(struct scan *s, struct sv *text, bool *escaped);
/* Resolves the escapes of a string to UTF-8; leaves invalid ones. Half a surrogate pair and
 * \\u0000 become U+FFFD. */
struct sv trace_scan_unescape(struct buf *scratch, struct sv raw);
/* A JSON list of strings, integers and lists of these, without the white space of a pretty-printer:
 * "[[4, 8], []]". False: it is no such list. */
bool trace_scan_list(struct buf *out, struct sv raw);

#endif
