/* deep.json: all that a session found, as numbers. The summary and the page are made from it alone.
 * Schema: docs/formats.md; the rows of result.c are the one place where members are named. NAN and
 * NULL = not known. */
#ifndef DEEP_RESULT_H
#define DEEP_RESULT_H

#include "kernels/gantt.h"
#include "text/fields.h"

enum { DEEP_SCHEMA = 1 };
#define DEEP_TOTALS_SHARE 0.5 /* percent of GPU time */

struct deep_fact {
    const char *title, *text;
};

/* A step of the session. */
struct deep_step {
    const char *name;                /* "baseline", "timeline", "ncu decode" */
    const char *tool;                /* "twinfer", "ncu 2025.3"; NULL = none */
    const char *state;               /* "ok", "partial", "skipped", "failed" */
    const char *reason, *remedy;     /* of all but "ok" */
    double wall_s, overhead_percent; /* against the baseline */
};

struct deep_roof_row {
    const char *name; /* "dram", "l2", "tensor_bf16" */
    double per_s;     /* bytes or flop */
};

struct deep_totals {   /* of the stages, or of the whole trace where none was found */
    const char *scope; /* "stages", "trace", "profiled launches" */
    double elapsed_ms, gpu_ms, busy_ms, operations, kernels;
    double processes, devices;
    double beside_ms; /* of the GPU, in the stages' time, launched outside of them; NAN = none */
    double launches;  /* that made these operations: a graph's are one */
    double launch_gap_us, launch_call_us; /* medians of the whole trace */
};

struct deep_stage_row {
    const char *path;
    double depth, processes, instances;
    double least_ms, most_ms; /* elapsed, of one instance */
    double elapsed_ms, per_instance_ms, host_ms, gpu_ms, exclusive_ms, busy_ms, operations;
    double busy_percent, share_percent; /* of elapsed time: of its own, of all stages' */
    double flop, bytes, mfu_percent, mfu_gpu_percent, bandwidth_percent, bandwidth_gpu_percent;
};

struct deep_rank_row { /* a stage in one of several processes */
    const char *path;
    double process, device; /* pid; number, the first where it used several */
    double instances, elapsed_ms, gpu_ms, busy_ms, busy_percent, operations;
};

struct deep_operator_row {
    const char *name;
    double total_ms, calls, mean_ms, share_percent;
};

struct deep_kernel_row {
    const char *name, *short_name, *label; /* in full, the function alone, for tables */
    double calls, total_ms, mean_us, share_percent;
    double running_ms; /* while at least one call ran, added up over processes: calls overlap */
    double profiled, ncu_us, app_us, clock_percent; /* ncu's duration over the app's, less 100 */
    double gflop, dram_mb, l2_mb;                   /* of one launch */
    double intensity, l2_intensity, tflop_per_s, dram_gb_per_s, l2_gb_per_s;
    double compute_percent, dram_percent, l2_percent; /* of the roofs */
    double occupancy_percent, occupancy_limit_percent, registers, shared_bytes, waves;
    const char *units;    /* that did its flop: "tensor_bf16 98 %, fp32 2 %" */
    const char *occupied; /* what limits occupancy */
    const char *class, *why;
};

struct deep_kernel_total { /* of every kernel that takes DEEP_TOTALS_SHARE or more */
    const char *name;
    double calls, total_ms, share_percent;
};

struct deep_collective_row { /* one name in one process */
    const char *name;
    double process, device; /* pid, number */
    double calls, total_ms;
    double waiting_ms, moving_ms; /* until the last rank had begun, and after */
};

struct deep_bottleneck {
    const char *what; /* "The GPU waits for the host" */
    const char *kind; /* "idle", "kernel", "copy", "communication" */
    double ms, share_percent;
    double floor_percent;      /* of its time that stays at the roof; NAN = no roof known: 0 */
    double gain, gain_at_roof; /* Amdahl: elapsed before over after; without it; at its roof */
    const char *evidence, *advice;
};

struct deep_repeat_row { /* a kernel, then and now */
    const char *name, *short_name, *label;
    double calls_before, calls, before_ms, ms, change_percent;
};

struct deep_repeat {                      /* kernel totals beside an earlier session's */
    const char *folder;                   /* deep.against */
    double before_ms, ms, change_percent; /* GPU time of all operations, less the waiting */
    double waiting_before_ms, waiting_ms; /* of collectives, in no figure here */
    double limit_percent, beyond;         /* kernels that changed by more */
    double largest_percent;               /* NAN = no row */
    const char *largest;
    double only_one; /* kernels that the other session does not have */
    struct deep_repeat_row *rows;
    size_t n_rows;
};

struct deep_region_row { /* a table of kernels in one region, process and device */
    const char *region;
    double process, device; /* pid, number; NAN = all */
    double gpu_ms, operations;
    struct deep_kernel_row *kernels;
    size_t n_kernels;
};

struct deep_result {
    int64_t schema_version;
    const char *command; /* NULL = none was run */
    const char *model, *roofs, *l2_roof;
    bool roofs_measured;
    struct deep_fact *environment;
    struct deep_step *steps;
    struct deep_roof_row *roof_rows;
    struct deep_totals totals;
    struct deep_stage_row *stages;
    struct deep_rank_row *ranks; /* none for one process */
    struct deep_operator_row *operators;
    struct deep_kernel_row *kernels; /* deep.top of them */
    struct deep_kernel_total *kernel_totals;
    struct deep_collective_row *collectives;
    struct deep_bottleneck *bottlenecks;
    struct deep_repeat *repeat;  /* one or none */
    struct kernels_gantt *gantt; /* of some steps of the stages, else of the trace; one or none */
    const char **notes;
    size_t n_environment, n_steps, n_roof_rows, n_stages, n_ranks, n_operators, n_kernels,
        n_kernel_totals, n_collectives, n_bottlenecks, n_repeat, n_gantt, n_notes;
};

/* Names of metric groups for the tables of regions: time, flop, memory, occupancy, limits. */
enum deep_group { GROUP_TIME, GROUP_FLOP, GROUP_MEMORY, GROUP_OCCUPANCY, GROUP_LIMITS, GROUPS };
const char *deep_group_name(unsigned group);

void deep_result_json(struct buf *out, const struct deep_result *r);
/* ST_INPUT naming the member. */
enum st deep_result_load(struct arena *a, const char *path, struct deep_result *out, struct err *e);
/* regions.json */
void deep_regions_json(struct buf *out, const struct deep_region_row *rows, size_t n);

#endif
