/* Figures of kernels from Nsight Compute's metrics, their place under the roofs, and their class.
 * Private to deep/.
 *
 * Operations: fused multiply-adds count 2; packed half-precision instructions twice that, as ncu's
 * own roofline counts them; tensor cores by sm__ops_path_tensor_src_*, its sparsity children left
 * out where their parent is there.
 *
 * A kernel uses of the GPU
 *     compute = sum over units of flop / peak flop/s, over its duration
 *     dram    = bytes / bandwidth, over its duration; l2 likewise
 * each a share of 0 to about 1. Its class, where they are known:
 *     latency  neither compute nor memory (the larger of dram and l2) reaches DEEP_LATENCY
 *     balanced both do, and the smaller is at least DEEP_BALANCED of the larger
 *     compute, memory  the larger one
 * Without operation counts or peaks, ncu's own throughput percentages stand in. A type of operation
 * that was not counted is unknown, not 0: where some are missing and the counted ones are 0, ncu's
 * SM throughput is taken; where they are not, they are a lower bound. A lower bound alone makes no
 * kernel latency-bound, and memory-bound from DEEP_CERTAIN on. Where tensor cores worked and their
 * operations were not counted, flop are not known. Integer and other instructions are no flop:
 * where ncu's SM throughput is DEEP_ISSUE or more and more than the share of the memory, a kernel
 * is bound by compute. Nor are accesses to L1 and shared memory bytes of DRAM or L2: where neither
 * these nor the SMs are busy and ncu's memory throughput is DEEP_ISSUE or more, a kernel is bound
 * by memory. */
#ifndef DEEP_FIGURES_H
#define DEEP_FIGURES_H

#include "deep/roofs.h"

#define DEEP_LATENCY  0.40
#define DEEP_BALANCED 0.80
#define DEEP_ISSUE    0.60
#define DEEP_CERTAIN  0.80

enum deep_class {
    DEEP_UNKNOWN,
    DEEP_COMPUTE,
    DEEP_MEMORY,
    DEEP_LATENCY_BOUND,
    DEEP_BALANCED_CLASS,
    DEEP_CLASSES
};
const char *deep_class_name(unsigned c); /* "compute-bound" */

/* Of one launch, or the mean of several. NAN = not known. */
struct deep_figures {
    double duration_ns;
    double flop[UNITS];
    double uncounted; /* > 0: tensor cores worked, and nothing says how many operations; 0: what
                         they did is in flop; NAN = nothing speaks of them */
    double complete;  /* 1: every type of operation was counted; less: of some launches, or none */
    double dram_bytes, l2_bytes;
    double sm_percent, memory_percent, dram_percent, l2_percent; /* ncu's throughputs */
    double l2_hit_percent;
    double occupancy_percent, occupancy_limit_percent; /* achieved, theoretical */
    double registers, shared_bytes, waves;
    double limit_registers, limit_shared, limit_warps, limit_blocks, limit_barriers; /* blocks/SM */
};
struct deep_figures deep_figures_of(const struct ncu_table *t, const struct ncu_launch *l);

/* Weighted means; NAN where nothing was known. */
struct deep_mean {
    struct deep_figures sum;
    struct deep_figures n; /* weights of each */
};
void deep_mean_add(struct deep_mean *m, const struct deep_figures *f, double weight);
struct deep_figures deep_mean_of(const struct deep_mean *m);

double deep_flop(const struct deep_figures *f); /* all units; NAN = none known */

struct deep_place {                 /* NAN = not known */
    double compute, dram, l2;       /* shares */
    double intensity, l2_intensity; /* flop per byte */
    double flop_per_s, dram_per_s, l2_per_s;
    enum deep_class class;
    const char *why;      /* the figures of the rule that decided */
    const char *occupied; /* what limits the occupancy: "registers", ..., "nothing";
                             NULL = not known */
};
struct deep_place deep_place_of(struct arena *a, const struct deep_figures *f,
                                const struct deep_roofs *r);

#endif
