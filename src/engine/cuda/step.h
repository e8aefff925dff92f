/* A batch on its way to the GPU: the arrays of struct cuda_batch, in one block of memory.
 *
 * The host writes the block into page-locked memory and copies it at once. Its layout follows from
 * the largest sizes it is made for, so a CUDA graph made for these sizes finds every array where it
 * was; block tables come last, and only what is used of them travels. They travel whole: an
 * entry is 4 bytes where reading the keys and values of its block is hundreds of kilobytes. On an
 * H200 (gpu_bench uploads) a copy takes 3.8 us of the GPU's time with 256 bytes, 4.2 with 16 KiB
 * (64 sequences of 1,024 tokens), 9.5 with 256 KiB (256 of 4,096).
 *
 * How attention of decode rows is dealt out to the GPU's blocks is written with the batch too
 * (engine/cuda/parts.h), once for each span of keys that the model's kinds of attention see.
 *
 * A decode row whose token is still on its way (ROW_TOKEN_OUT) gets id -1 - slot: the GPU takes it
 * from cuda_batch.last, where sampling puts each slot's token. */
#ifndef ENGINE_CUDA_STEP_H
#define ENGINE_CUDA_STEP_H

#include "engine/cuda/kernels.h"
#include "engine/rows.h"
#include "gpu/device.h"

/* Where the arrays stand in the block, bytes. */
struct cuda_step_layout {
    struct cuda_sizes most;
    size_t step, ids, positions, kv_at, row_token, row_slot, draw_at, sampling, segments, parts,
        runs, blocks;
    size_t bytes; /* with block tables of most_blocks entries */
};

/* most_blocks: entries of all block tables of a batch together. */
void cuda_step_lay_out(const struct cuda_sizes *most, int64_t most_blocks,
                       struct cuda_step_layout *out);

/* The block at `base` as kernels take it. last: [slots] of the engine. */
struct cuda_batch cuda_step_at(const struct cuda_step_layout *l, CUdeviceptr base,
                               CUdeviceptr last);
/* The batch with the lists of parts of one of its spans. */
struct cuda_batch cuda_step_span(const struct cuda_batch *b, const struct cuda_sizes *most,
                                 int span);
/* [rows] of the block at base: how each row is sampled, and the position of its new token. */
const struct cuda_sampling *cuda_step_sampling(const struct cuda_step_layout *l, CUdeviceptr base);
const int *cuda_step_draw_at(const struct cuda_step_layout *l, CUdeviceptr base);

/* Writes the batch into the host's block; returns the bytes that must be copied, 0 when its block
 * tables have more entries than `bytes` has room for. b fits l->most. */
size_t cuda_step_write(const struct cuda_step_layout *l, const struct row_batch *b,
                       int64_t block_size, void *host);

#endif
