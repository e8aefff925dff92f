/* Stages as spans of time: work that other threads launch while a stage is open (PyTorch's backward
 * pass runs on a thread of its own), and what the GPU did in that time, whoever launched it.
 * Private to deep/. */
#ifndef DEEP_STAGE_WINDOWS_H
#define DEEP_STAGE_WINDOWS_H

#include "deep/stages.h"

struct deep_instances { /* by range */
    int *stage;         /* that it is in; -1 = none */
    uint32_t *owner;  /* the range that is the innermost instance of a stage around it, or itself */
    int64_t *last_ns; /* of an instance: its end, or that of its last operation */
};

/* Gives operations that no stage holds (of_op -1) to the innermost stage that was open in their
 * process on another thread when their call began; when they began themselves, where that is not
 * known. owner[op]: the instance; TRACE_NONE for all others. */
void deep_windows_strays(struct deep_stages *s, const struct kernels *k,
                         const struct deep_instances *x, uint32_t *owner);
/* busy_ns of the sums by process: over the time of all instances, from their starts to last_ns. */
void deep_windows_busy(struct deep_stages *s, const struct kernels *k,
                       const struct deep_instances *x);
/* Counts what belongs to no stage: what began in the time of an outermost one, and the rest. */
void deep_windows_beside(struct deep_stages *s, const struct kernels *k,
                         const struct deep_instances *x);

#endif
