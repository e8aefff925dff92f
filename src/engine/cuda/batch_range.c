#include "engine/cuda/batch_range.h"

#include "gpu/nvtx.h"

static const char *kind_of(const struct batch *b)
{
    if (b->n_chunks == 0)
        return "decode";
    return b->n_decodes == 0 ? "prefill" : "mixed";
}

void cuda_batch_range_open(void)
{
    gpu_ranges_heard();
}

void cuda_batch_range_begin(const struct batch *b)
{
    static struct gpu_range_names names = {
        .names = {"prefill_tokens", "prefills", "context", "chunk_context", "decode", "kv"},
        .n = 6};
    if (!gpu_ranges_heard())
        return;
    int64_t context = 0, pairs = 0;
    for (int32_t i = 0; i < b->n_chunks; i++) {
        const struct chunk *c = &b->chunks[i];
        context += c->start;
        pairs += c->tokens * c->start + c->tokens * (c->tokens + 1) / 2;
    }
    const int64_t numbers[GPU_RANGE_NUMBERS] = {
        b->prefill_tokens, b->n_chunks, context, pairs, b->n_decodes, b->decode_kv_tokens};
    gpu_range_begin("step", &names, numbers);
    gpu_range_begin(kind_of(b), NULL, NULL);
}

void cuda_batch_range_end(void)
{
    gpu_range_end();
    gpu_range_end();
}
