/* Capturing: a recording (trace/record.h) whose recorder also captures a region, made into a
 * capsule.
 *
 *     capture_region_parse -> trace_record: range or profiler, and which occurrence
 *     trace_record_run     -> <recording>/<process>.spool, <process>.capsule/ (capsule/format.h)
 *     capture_find         -> what the processes left, or why there is nothing
 *     capture_seal         -> the capsule: memory packed; times, ranges, walls from the spool */
#ifndef CAPTURE_CAPTURE_H
#define CAPTURE_CAPTURE_H

#include <signal.h>

#include "capsule/capsule.h"
#include "trace/record.h"

#define CAPTURE_SPOOL "trace.spool" /* in the capsule: what twinfer kernels reads */

/* Rows: capture/options.c. */
struct capture_settings {
    const char *region;             /* capture_region_parse */
    bool trial;                     /* replay it at the end */
    struct trace_patience patience; /* with the program */
};
extern const struct option_section capture_options;

struct capture_region {
    const char *text;  /* as it was asked for */
    const char *range; /* NVTX range@domain, as trace.range takes it; NULL = another kind */
    bool profiler;     /* between profiler calls, of graphs with these alone */
    int64_t graph_first, graph_last; /* launches of CUDA graphs, from 1; 0 = another kind */
    int64_t occurrence;              /* of a range or of profiler calls, from 1 */
};
/* "decode", "decode#3", "decode@LLM#3", "profiler", "profiler#2"; a # in a name is written \#.
 * "graph:3", "graph:3-6": from the third launch of a CUDA graph to the sixth, both inside, with all
 * work between them, as a process counts them from its start on; "profiler/graph:3-6" as it counts
 * them between cuProfilerStart and cuProfilerStop. An NVTX range of such a name is "graph:3#1".
 * ST_USAGE. */
enum st capture_region_parse(struct arena *a, const char *text, struct capture_region *out,
                             struct err *e);

struct capture_found {
    const char *dir;   /* the recorder's folder */
    const char *spool; /* beside it */
};
/* The one process that captured the region. ST_REJECTED with the recorder's reason when one
 * refused; ST_INPUT when the region did not come or did not end, or several processes captured it.
 */
enum st capture_find(struct arena *a, const char *recording, const struct capture_region *region,
                     struct capture_found *out, struct err *e);

/* What a capsule holds, for people and tests. */
struct capture_summary {
    int64_t ops, launches, timed; /* timed: operations with their GPU times */
    int64_t bytes;                /* of memory that was live */
    int64_t wall_ns, stopped_ns;
    uint32_t device; /* CUDA ordinal in the program */
};
/* Writes the capsule into art (begun with CAPSULE_MANIFEST) and commits it. extra: members for the
 * manifest. stop: raised by a signal, or NULL: ST_INTERRUPTED. */
enum st capture_seal(struct arena *a, const struct capture_found *found, struct artifact *art,
                     const struct node *extra, const volatile sig_atomic_t *stop,
                     struct capture_summary *out, struct err *e);

#endif
