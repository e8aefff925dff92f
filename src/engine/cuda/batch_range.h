/* Ranges that show a tool which batch launched what (gpu/nvtx.h): around submit() `step`, with the
 * composition of the batch as its numbers (kernels/composition.h), and inside it `prefill`,
 * `decode` or `mixed` by what the batch holds.
 *
 * A range is the launching side. What it launched (the copy of the batch's arrays, a CUDA graph or
 * kernels, the copy of the tokens back) runs later, and belongs to it by the launch, not by the
 * time: with two batches in flight the GPU works on the batch before while the next one's range is
 * open. Ranges of one engine follow each other and never overlap. `capture region=decode#3` waits
 * for the GPU at both ends, so the captured batch runs alone. */
#ifndef ENGINE_CUDA_BATCH_RANGE_H
#define ENGINE_CUDA_BATCH_RANGE_H

#include "serve/executor.h"

void cuda_batch_range_open(void); /* loads the tool that listens, if any: not in the first batch */
void cuda_batch_range_begin(const struct batch *b);
void cuda_batch_range_end(void);

#endif
