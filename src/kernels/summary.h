/* kernels.json: all that a run of `kernels` found, as numbers. Pages are drawn from it alone: the
 * trace may be gone, or on another machine. Schema: docs/formats.md; the rows of summary.c are the
 * one place where members are named. */
#ifndef KERNELS_SUMMARY_H
#define KERNELS_SUMMARY_H

#include "kernels/gantt.h"
#include "kernels/serving.h"

enum { KERNELS_SCHEMA = 1 }; /* up by one where a member changes its meaning */

/* Rows of the tables of kernels.h, in their order; NAN = an empty cell. */
struct kernels_by_name { /* cuda_gpu_kern_sum */
    double share_percent, total_ns, instances, mean_ns, median_ns, min_ns, max_ns, stddev_ns;
    const char *name;
};
struct kernels_by_operator { /* operators.md */
    const char *name;
    double total_ms, calls, mean_ms, share_percent;
};
struct kernels_by_region { /* regions.md */
    const char *name;
    double instances, host_ms, inclusive_ms, exclusive_ms, operations;
};
struct kernels_change { /* kernels_diff.csv */
    const char *name, *status;
    double before_ms, after_ms, change_ms, change_percent, calls_before, calls_after;
    double mean_before_ms, mean_after_ms;
};
struct kernels_fact { /* of the machine that was recorded: "Host", "node7" */
    const char *title, *text;
};

struct kernels_summary {
    int64_t schema_version;
    const char *trace, *trace_format;
    const struct node *recording;    /* run_meta.json of the trace's folder; NULL = none */
    const char *against;             /* the trace of `changes`' before; NULL = none */
    const char *const *notes;        /* what the reader of numbers must know */
    struct kernels_fact *machine;    /* what the trace itself says of it */
    struct kernels_by_name *kernels; /* by total */
    struct kernels_by_name *copies;  /* and sets: cuda_gpu_mem_time_sum */
    struct kernels_by_operator *operators;
    struct kernels_by_region *regions;
    struct kernels_change *changes; /* the largest first */
    struct serving_sum *iterations; /* of a server, by kind */
    size_t n_iterations;
    size_t n_notes, n_machine, n_kernels, n_copies, n_operators, n_regions, n_changes;
    size_t n_operations;
    bool by_range; /* operators are NVTX ranges: the trace has no PyTorch operators */
    struct kernels_timeline timeline;
    struct kernels_gantt gantt;
};

/* All but what changed; texts are copied: the trace may be freed. `recording` is looked for beside
 * the trace. */
void kernels_summary_of(struct arena *a, const struct kernels *k, const char *trace,
                        struct kernels_summary *out);
/* Adds what changed since the trace `against`: kernels_diff_table. */
void kernels_summary_changes(struct arena *a, struct kernels_summary *s, const char *against,
                             const struct table *diff);

void kernels_summary_json(struct buf *out, const struct kernels_summary *s);
/* ST_INPUT, naming the member: a file that is not there, older or newer than this program reads, or
 * damaged. */
enum st kernels_summary_load(struct arena *a, const char *path, struct kernels_summary *out,
                             struct err *e);

#endif
