/* Stages of a program: a tree of names, each an NVTX range (or a pattern of them) inside its
 * parent's range, with the GPU's work launched inside. Private to deep/.
 *
 *     prefill:            # range "prefill"
 *       load: {batch: 1, prompt_tokens: 512}
 *       sam:              # range "sam", counted where it is inside prefill
 *       encoder:
 *         range: clip*
 *     decode:
 *       load: {batch: 1, context_tokens: 520}
 *
 * `range` is the pattern, the stage's name when it is left out; `load` says what one instance of
 * the range computes, for the model's operator list; other keys are sub-stages. A text in place of
 * a map is the pattern. A load leaves out the sub-stages that have a load of their own, whose
 * operations and bytes are added to it. A range inside a range of the same stage belongs to that
 * instance. Time of a stage includes its sub-stages'; exclusive time does not.
 *
 * Work belongs to the stage around its launch. What another thread of the process launches while
 * the stage is open belongs to it too, unless that thread has a stage of its own. Busy time is that
 * of the GPU in the stage's time, whoever launched the work. */
#ifndef DEEP_STAGES_H
#define DEEP_STAGES_H

#include "deep/roofs.h"
#include "kernels/kernels.h"
#include "model/model.h"

enum { DEEP_MAX_STAGES = 256, DEEP_MAX_DEPTH = 16, DEEP_WINDOW = 3 };

/* What one instance computes. */
struct deep_load {
    bool given;
    double batch;         /* sequences */
    double prompt_tokens; /* new tokens of each; 0 = a decode step: one */
    double
        context_tokens; /* decode: keys read by each sequence, the new one included; the mean where
                           steps differ: costs are linear in it. Prefill: keys before the prompt */
    double steps;       /* forward passes; 1 */
    double flop, bytes; /* instead of the model's; NAN = by the model */
};

/* Of one process, or of all. */
struct deep_stage_sum {
    int64_t instances, operations;
    int64_t host_ns;    /* of the ranges */
    int64_t elapsed_ns; /* from each range's start to its end or that of its last operation */
    int64_t least_ns, most_ns; /* elapsed time of one instance */
    int64_t gpu_ns;            /* operations, inclusive */
    int64_t exclusive_ns;      /* less those of sub-stages */
    int64_t busy_ns;           /* at least one operation of the process ran, in elapsed time */
};

struct deep_work {
    int64_t operations, gpu_ns;
};

struct deep_stage {
    const char *name, *path; /* "sam", "prefill/sam" */
    const char *pattern;
    int parent, depth; /* parent -1 = outermost */
    struct deep_load load;
    struct deep_stage_sum *by_process; /* [n_processes] */
    /* Times and operations added up over processes; instances, host_ns and what is of elapsed time
     * of the one that took longest, as processes work side by side. */
    struct deep_stage_sum all;
    int processes;                   /* that have instances */
    int gpus;                        /* of each of these processes, added up */
    double flop, bytes;              /* of all instances, with sub-stages'; NAN = not known */
    double mfu, mfu_gpu;             /* of elapsed time, of GPU time; NAN */
    double bandwidth, bandwidth_gpu; /* the same share of the DRAM's bandwidth */
};

struct deep_stages {
    struct deep_stage *p; /* [n], parents before children, in the order of the tree */
    int n;
    uint32_t n_processes;
    int *of_op;              /* [ops.n]: the innermost stage, -1 = none */
    struct deep_work strays; /* given to a stage that was open on another thread */
    struct deep_work ran_beside,
        outside; /* of no stage: began in the time of an outermost one, and all others */
    /* A piece to look at: the last instance of the first stage that has some, and the next
     * outermost instances of its process, DEEP_WINDOW in all. 0, 0 = there is none. */
    int64_t window_start_ns, window_end_ns;
};

/* Reads the tree; NULL or empty = none. ST_USAGE at the place of the fault. */
enum st deep_stages_read(struct arena *a, const struct node *tree, struct deep_stages *out,
                         struct err *e);
/* Sums the trace. */
void deep_stages_measure(struct arena *a, struct deep_stages *s, const struct kernels *k);
/* Work and shares of the peak; model NULL: only of stages whose load has flop and bytes. */
void deep_stages_rate(struct deep_stages *s, const struct model *model,
                      const struct deep_roofs *roofs);

int deep_stage_of(const struct deep_stages *s, const struct kernels *k, size_t op); /* -1 = none */
/* Stage `inner` is `outer` or inside it. */
bool deep_stage_within(const struct deep_stages *s, int inner, int outer);
bool deep_stages_found(const struct deep_stages *s);
/* Sums of all outermost stages. */
struct deep_stage_sum deep_stages_total(const struct deep_stages *s);

#endif
