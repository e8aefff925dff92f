/* Spools without a GPU: a decode loop as a recorder would have written it.
 *
 * Step s begins at s * FAKE_STEP_NS and holds, on thread 101 of the process:
 *     "step bs=4"  [0, 90 us)   NVTX push/pop, domain "LLM"
 *       "prefill"  [1, 40 us)   in it, in the default domain
 *       "overlap"  [30, 70 us)  start/end: begins inside "prefill", ends outside
 * Launches of 2 us each at 5, 15, 35, 55, 80 us: a GEMM, an elementwise kernel, an attention
 * kernel, a copy of 4096 bytes and a set of 64 bytes; each runs 3 us after its launch returned, for
 * 4, 2, 6, 1, 1 us. */
#ifndef SUPPORT_FAKE_SPOOL_H
#define SUPPORT_FAKE_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_STEP_NS = 100000, FAKE_STEP_KERNELS = 3, FAKE_START_NS = 1000000000 };

struct fake_spool {
    int64_t steps;
    bool killed;       /* no end block, and the last step's range stays open */
    bool only_kernels; /* neither ranges nor copies nor sets: for the reader's speed */
    bool no_copies;    /* neither copies nor sets */
    int64_t ranged;    /* only every so many-th step has ranges; 0 = all */
    const char *range; /* name instead of "step bs=4" */
    const char *host;  /* recorded there, with CUDA 13.0 and CUPTI 130001; NULL = not said */
    int64_t shift_ns;  /* all times are that much later */
};

/* Writes path, which must not exist; fails the test otherwise. */
void fake_spool_write(const char *path, const struct fake_spool *f);

#endif
