/* Which kernel a fault belongs to.
 *
 * A fault inside a kernel is noticed when its batch should be done; the context is lost then, and
 * with it what the GPU could say. So the batches that were out are computed again, one after the
 * other and kernel by kernel, by a process of its own: this program, started anew with
 * CUDA_FAULT_WORD and a file of all that a batch is made of. There weights and cache are zeros,
 * which takes no time to load: what faults is where kernels read and write, and that follows from a
 * batch's arrays. Nothing is written down while all is well.
 *
 * It cannot find what depends on values, or on what happened before, and says so. */
#ifndef ENGINE_CUDA_FAULT_H
#define ENGINE_CUDA_FAULT_H

#include "engine/cuda/engine.h"

#define CUDA_FAULT_WORD "--cuda-fault"

/* A batch that was out: its arrays (engine/cuda/step.h), and the sizes that they are laid out for.
 */
struct cuda_fault_batch {
    struct cuda_sizes most;
    bool sampled;
    size_t bytes;
    void *step; /* [bytes] */
};

struct cuda_fault {
    enum { CUDA_FAULT_UNKNOWN, CUDA_FAULT_NOT_AGAIN, CUDA_FAULT_FOUND } found;
    int batch;         /* found: which of them */
    const char *where; /* found: "kernel rope_bf16, operator attn_rope of layer 3" */
};

/* Whether a kernel is to blame: by the number of the driver's result among the causes. */
bool cuda_fault_is_kernels(const struct err *e);

/* The GPU's memory must be free again. `where` is the arena's. program: as p->rerun. Takes some
 * seconds, a minute at most. UNKNOWN: the other process could not start, or open the engine. */
struct cuda_fault cuda_fault_find(struct arena *a, const struct cuda_engine_params *p,
                                  const struct cuda_fault_batch *batches, int n);

/* main() of the other process; file: what follows the word. */
int cuda_fault_main(const char *file);

#endif
