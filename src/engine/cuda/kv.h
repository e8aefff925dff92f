/* The paged KV cache of a GPU: blocks that the serving loop hands out (serve/executor.h), of every
 * layer in one allocation.
 *
 *     k, v of a layer: [blocks, kv_heads, block_size, head_dim]
 *
 * as attention reads them (engine/cuda/kernels). Blocks are not cleared: a key is read only after
 * it was written. */
#ifndef ENGINE_CUDA_KV_H
#define ENGINE_CUDA_KV_H

#include "gpu/device.h"
#include "model/weights.h"

struct cuda_kv {
    CUdeviceptr base;
    size_t bytes;       /* of everything */
    size_t layer_bytes; /* of the keys, or the values, of one layer */
    int64_t blocks, block_size;
};

/* Bytes of one block: keys and values of all layers. */
size_t cuda_kv_block_bytes(const struct model *m, enum dtype dtype, int64_t block_size);

/* ST_DEVICE: no room; says how many blocks would fit into what is free. */
enum st cuda_kv_open(const struct gpu *g, const struct model *m, enum dtype dtype,
                     int64_t block_size, int64_t blocks, struct cuda_kv *out, struct err *e);
void cuda_kv_close(const struct gpu *g, struct cuda_kv *kv); /* zeroed is fine */

CUdeviceptr cuda_kv_keys(const struct cuda_kv *kv, int64_t layer);
CUdeviceptr cuda_kv_values(const struct cuda_kv *kv, int64_t layer);

#endif
