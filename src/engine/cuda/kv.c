#include "engine/cuda/kv.h"

size_t cuda_kv_block_bytes(const struct model *m, enum dtype dtype, int64_t block_size)
{
    return (size_t)(2 * m->layers * m->kv_heads * m->head_dim * block_size) * dtype_bytes(dtype);
}

/* 256 bytes behind every layer's half, so that each begins at a multiple. */
static size_t half_bytes(const struct model *m, enum dtype dtype, int64_t block_size,
                         int64_t blocks)
{
    const size_t bytes = cuda_kv_block_bytes(m, dtype, block_size) / (2 * (size_t)m->layers);
    return (bytes * (size_t)blocks + 255) / 256 * 256;
}

enum st cuda_kv_open(const struct gpu *g, const struct model *m, enum dtype dtype,
                     int64_t block_size, int64_t blocks, struct cuda_kv *out, struct err *e)
{
    *out = (struct cuda_kv){.blocks = blocks, .block_size = block_size};
    out->layer_bytes = half_bytes(m, dtype, block_size, blocks);
    out->bytes = out->layer_bytes * 2 * (size_t)m->layers;
    if (gpu_alloc(g, out->bytes, "the KV cache", &out->base, e) == ST_OK)
        return ST_OK;
    struct err ignored = {0};
    size_t free_bytes = 0;
    const size_t block = cuda_kv_block_bytes(m, dtype, block_size);
    if (gpu_free_bytes(g, &free_bytes, &ignored) == ST_OK)
        err_add(
            e, "%lld KV blocks of %lld tokens do not fit beside the weights: there is room for %zu",
            (long long)blocks, (long long)block_size, free_bytes / block);
    *out = (struct cuda_kv){0};
    return e->st;
}

void cuda_kv_close(const struct gpu *g, struct cuda_kv *kv)
{
    if (kv->base)
        gpu_free(g, &kv->base);
    *kv = (struct cuda_kv){0};
}

CUdeviceptr cuda_kv_keys(const struct cuda_kv *kv, int64_t layer)
{
    return kv->base + (size_t)(2 * layer) * kv->layer_bytes;
}

CUdeviceptr cuda_kv_values(const struct cuda_kv *kv, int64_t layer)
{
    return cuda_kv_keys(kv, layer) + kv->layer_bytes;
}
