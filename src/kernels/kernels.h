/* Analysis of a trace: times per kernel, per region and per operator, cost of the host, idle times
 * of the GPU, and classes of alike kernels.
 *
 * Input: a struct trace. Output: tables with the names and headers of `nsys stats`, Markdown, JSON
 * lines, SVG. The trace is not changed, except that operations excluded by patterns are dropped.
 *
 * How time is charged to ranges (NVTX ranges, PyTorch's annotations and operators):
 * - An operation belongs to the ranges that held, on the thread that launched it, all of the call
 *   that launched it. The time it runs on the GPU does not matter. Operations whose launch was not
 *   recorded belong to none, or to the operator whose id they carry and what is around it.
 * - The innermost of these is the one that started last (of two that started at once, the one that
 *   ends first). It gets the operation's time as *exclusive* time; all of them get it as
 *   *inclusive* time, whether they nest or merely overlap. So exclusive times of all ranges add up
 *   to no more than the GPU's time, inclusive ones need not.
 * - Inside a range that opens itself again (the same name on the same thread) time counts once per
 *   instance, and so twice in the sum over the name; tables by path distinguish them.
 * - A range that was never closed (a library popped it in a way the recorder does not see, or the
 *   recording ended) would hold everything after it. It holds only what is inside no younger
 *   closed range, and tables add "(never closed)" to its name.
 * - A start/end range that ends on another thread counts on the thread it started on.
 * - Chains deeper than KERNELS_MAX_DEPTH count for the innermost KERNELS_MAX_DEPTH.
 * - GPU time of one operation is end - start; two that overlap on the GPU both count. The device's
 *   busy time is in `busy` (kernels_busy), where overlaps count once. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "kernels/stats.h"
#include "text/fields.h"
#include "text/table.h"
#include "trace/trace.h"

enum { KERNELS_MAX_DEPTH = 256 };

/* ---- the trace, prepared ------------------------------------------------------------------- */

struct kernels_params {
    /* Patterns with '*' and '?' against the full and the short name of kernels, copies and sets: an
     * operation is kept when any of `include` matches (or there are none) and none of `exclude`. */
    const char *const *include, *const *exclude;
    size_t n_include, n_exclude;
};

/* Properties shared by ranges of one name on one thread. */
struct kernels_class {
    uint32_t text, domain, thread;
    uint8_t style;    /* enum trace_style */
    bool open;        /* never closed */
    uint32_t base;    /* equal for texts that differ in what emit_nvtx adds alone */
    const char *name; /* the text without that: "aten::mm" of "aten::mm, op_id = 12" */
};

/* A chain of classes, outermost first: the ranges around a launch. */
struct kernels_path {
    uint32_t parent; /* index, TRACE_NONE = outermost */
    uint32_t class;
    uint32_t depth; /* 0 = outermost */
};

struct kernels {
    struct arena *a;
    const struct trace *t;

    /* Names: of kernels demangled, of copies and sets by their kind. */
    uint32_t *name;      /* [n_sigs] index of the name */
    const char **names;  /* [n_names] in full */
    const char **shorts; /* [n_names] */
    const char **labels; /* [n_names] for tables: short, no two alike */
    uint8_t *kind;       /* [n_names] enum trace_kind */
    uint32_t n_names;

    /* The ranges around each call (TRACE_NONE = none). */
    uint32_t *call_range;                 /* [calls.n] innermost range open as it began */
    uint32_t *call_path;                  /* [calls.n] */
    uint32_t *range_class, *range_parent; /* [n_ranges] */
    uint32_t *range_path; /* [n_ranges] of a call inside; NULL where no operation needs it */
    struct kernels_class *classes;
    struct kernels_path *paths;
    uint32_t n_classes, n_paths;
    struct range_sum *nvtx_sums, *operator_sums; /* [n_ranges], private: kernels/ranges.h */
};

/* Drops operations excluded by patterns from t and prepares the rest. Close with kernels_close. */
void kernels_open(struct kernels *k, struct trace *t, const struct kernels_params *p);
void kernels_close(struct kernels *k);

/* '*' any bytes, '?' one byte. Linear in the product of the lengths. */
bool kernels_match(const char *pattern, const char *text);
/* The ranges around operation i: as call_range and call_path. Without a call, the operator that
 * launched it by its id, and those around that. */
static inline uint32_t kernels_range_of(const struct kernels *k, size_t i)
{
    uint32_t call = k->t->ops.call[i];
    if (call == TRACE_NONE)
        return k->t->ops.range ? k->t->ops.range[i] : TRACE_NONE;
    return k->call_range[call];
}
static inline uint32_t kernels_path_of(const struct kernels *k, size_t i)
{
    uint32_t call = k->t->ops.call[i], range = kernels_range_of(k, i);
    if (call == TRACE_NONE)
        return range == TRACE_NONE ? TRACE_NONE : k->range_path[range];
    return k->call_path[call];
}
static inline int64_t kernels_duration(const struct kernels *k, size_t i)
{
    return k->t->ops.end_ns[i] - k->t->ops.start_ns[i];
}
/* "decode", "LLM:decode": a range as nsys writes it, with its domain. */
const char *kernels_range_name(struct arena *a, const struct kernels *k, uint32_t text,
                               uint32_t domain);
const char *kernels_style_name(uint8_t style); /* "PushPop" */

/* ---- nsys' reports ------------------------------------------------------------------------- */

struct kernels_report {
    const char *name; /* "cuda_gpu_kern_sum" */
    const char *help;
    const char *const *columns; /* ends with NULL */
    void (*rows)(const struct kernels *k, struct table *out);
};
extern const struct kernels_report kernels_reports[]; /* ends with name NULL */

/* The report as a table: the header row, then the rows of `nsys stats`. */
struct table *kernels_report_table(struct arena *a, const struct kernels *k,
                                   const struct kernels_report *r);

/* Such a table as a list of maps, one a row, with the headers as keys: names are strings, the other
 * cells numbers; an empty one is null. */
struct node *kernels_report_node(struct arena *a, const struct table *t);

/* ---- tables for people --------------------------------------------------------------------- */

/* kernels.md: name, total ms, calls, mean ms, share; by total. */
void kernels_markdown(struct buf *out, const struct kernels *k);
/* operators.md: the same per PyTorch operator, or per innermost NVTX range where the trace has no
 * operators; exclusive time; calls are instances that launched work themselves. */
void kernels_operators_markdown(struct buf *out, const struct kernels *k);
/* Its table, names in full: the header row ("Operator" or "Range" first), then name, Total (ms),
 * Calls, Mean (ms), Share (%); by total. "(outside)" is work outside all ranges. */
struct table *kernels_operator_table(struct arena *a, const struct kernels *k);
/* The table of regions.md: the header row, then Region (indented by "· "), Instances, Host (ms),
 * Inclusive (ms), Exclusive (ms), GPU ops. */
struct table *kernels_region_table(struct arena *a, const struct kernels *k);
/* regions.md: each path of ranges with instances, host time, inclusive and exclusive GPU time, then
 * the kernels of each region whose name matches one of the patterns (none: all outermost). */
void kernels_regions_markdown(struct buf *out, const struct kernels *k, const char *const *patterns,
                              size_t n_patterns);

/* ---- unique kernels ------------------------------------------------------------------------ */

/* 1 copies and sets, 2 matrix products of libraries (cuBLAS, cuBLASLt, CUTLASS, nvjet, gemv,
 * splitKreduce, Tensile; attention kernels made of CUTLASS parts are none), 3 the rest. */
int kernels_tier(uint8_t kind, const char *full_name);
/* Whether it moves data between GPUs: of NCCL, RCCL, oneCCL and their kin. */
bool kernels_communicates(uint8_t kind, const char *full_name, const char *short_name);
/* unique_kernels.jsonl and kernel_signatures.json (docs/formats.md), most frequent first. */
void kernels_unique_jsonl(struct buf *out, const struct kernels *k);
void kernels_signatures_json(struct buf *out, const struct kernels *k);
/* linear_shapes.jsonl; *n lines, 0 where the trace has no shapes. */
void kernels_linear_jsonl(struct buf *out, const struct kernels *k, size_t *n);

/* ---- busy and idle ------------------------------------------------------------------------- */

/* One GPU from the first start to the last end on it. busy + idle_* = last - first. */
struct kernels_device {
    uint32_t number;
    uint64_t operations, gaps;
    int64_t first_ns, last_ns;
    int64_t busy_ns; /* at least one operation ran */
    int64_t sum_ns;  /* of all operations: more than busy where they overlap */
    /* Each gap is charged to the operation that ends it: before its launch call began the host had
     * nothing for the GPU; during the call; after it the work waited to start. */
    int64_t idle_host_ns, idle_launch_ns, idle_queue_ns;
    int64_t idle_unknown_ns; /* its launch was not recorded */
    /* At least one kernel that computes, at least one that communicates, both: what communication
     * costs is communication_ns - overlap_ns. Copies and sets are neither. NAN = not known. */
    double compute_ns, communication_ns, overlap_ns;
};

struct kernels_timeline {
    struct kernels_device *devices; /* by number */
    size_t n_devices;
    struct kernels_stats launch_call; /* time of calls that launched something */
    struct kernels_stats launch_gap;  /* between two of them on one thread, return to call */
    struct kernels_stats queue;       /* a call's return to the start on the GPU, 0 when before */
};
extern const struct fields kernels_timeline_fields; /* in kernels.json (kernels/summary.h) */
struct kernels_timeline kernels_timeline_of(struct arena *a, const struct kernels *k);
void kernels_timeline_json(struct buf *out, const struct kernels_timeline *t); /* timeline.json */

/* ---- two traces ---------------------------------------------------------------------------- */

/* By name: times and calls before and after, largest change first, totals in the first row. */
struct table *kernels_diff_table(struct arena *a, const struct kernels *before,
                                 const struct kernels *after);
/* That table as Markdown, kernels by their labels. */
void kernels_diff_markdown(struct buf *out, const struct table *diff);

/* ---- iterations ---------------------------------------------------------------------------- */

struct kernels_step_params {
    const char *pattern; /* of the ranges around one iteration each */
    const char *model;
    int64_t batch_size; /* 0 = the first number in the range's name, 1 when it has none */
    int64_t tensor_parallel;
};
/* cpu_overheads.csv of a profiling bundle (docs/formats.md), in ms, one row per batch size.
 *
 * An iteration reaches from its range's start to the start of the next on that thread; the last of
 * a thread and ranges inside others are left out, and so are those without launches.
 * model_execution_e2e is the time in which the GPU worked on the range's launches; everything else
 * of the iteration is host time: schedule is the time between the ranges, process_model_outputs
 * that after the last operation inside the range, prepare_inputs_e2e the rest: before the first
 * operation and in gaps of the GPU between. The three add up to iteration_host where the GPU
 * finished before its range ended. Ranges with "prefill" in their name fill the prefill columns. */
struct table *kernels_step_table(struct arena *a, const struct kernels *k,
                                 const struct kernels_step_params *p);

#endif
