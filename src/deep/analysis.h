/* From a trace, Nsight Compute's launches and the roofs to the figures of deep.json. Private to
 * deep/. */
#ifndef DEEP_ANALYSIS_H
#define DEEP_ANALYSIS_H

#include "deep/result.h"
#include "deep/table.h"

struct deep_analysis {
    const struct kernels *k;     /* NULL = no trace */
    const struct ncu_table *ncu; /* NULL = none */
    const struct deep_roofs *roofs;
    const struct model *model; /* NULL = none: stages have no MFU */
    struct deep_stages *stages;
    struct texts regions;          /* patterns of further ranges with a table of kernels each */
    struct texts include, exclude; /* of kernels in the tables of regions */
    int64_t top;                   /* rows of kernels and operators */
};

/* Fills all members that come from measurements: totals, stages, operators, kernels, bottlenecks,
 * roofs, and adds notes. deep_stages_measure and deep_stages_rate were called where there is a
 * trace. */
void deep_analyse(struct arena *a, const struct deep_analysis *x, struct deep_result *out);

/* Tables of kernels: of each stage and pattern, all processes and devices together; where there are
 * several, of each too. */
struct deep_region_row *deep_regions_of(struct arena *a, const struct deep_analysis *x, size_t *n);

/* The names of the kernels that took most in the stages (in the trace where no stage was found),
 * mangled, at most top. Copies and sets are none. nccl: NCCL's kernels are taken, else *left_out
 * of them are not: where Nsight Compute repeats a kernel alone, they wait for other processes. */
const char *const *deep_top_kernels(struct arena *a, const struct deep_analysis *x, bool nccl,
                                    size_t *n, size_t *left_out);

/* The three that cost most time, from a result whose other members are filled. all: kernels of the
 * scope, not only the top ones. */
void deep_bottlenecks(struct arena *a, struct deep_result *r);

void deep_note(struct arena *a, struct deep_result *r, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* What its figures give away: overheads below the noise, loads that cannot be, uneven stages,
 * kernels that take another time under Nsight Compute. */
void deep_notes(struct arena *a, struct deep_result *r);

#endif
