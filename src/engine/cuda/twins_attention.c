#include "engine/cuda/twins.h"

#include <math.h>

/* Query head `head` of the token at `position`: scores of keys 0 .. position, softmax, sum of
 * values. scores has room for position + 1. */
static void attend(const struct cuda_attention_args *a, enum cuda_dtype t, int token, int head,
                   int position, const int *blocks, float *scores)
{
    const int d = a->head_dim, size = a->block_size, kv_head = head / (a->heads / a->kv_heads);
    const int64_t q = ((int64_t)token * (a->heads + 2 * a->kv_heads) + head) * d;
    const float slope = a->slopes ? a->slopes[head] : 0;
    float largest = -INFINITY;
    double sum = 0, out[256] = {0};
    for (int key = 0; key <= position; key++) {
        const int64_t at =
            (((int64_t)blocks[key / size] * a->kv_heads + kv_head) * size + key % size) * d;
        double score = 0;
        for (int i = 0; i < d; i++)
            score += (double)twin_get(t, a->qkv, q + i) * (double)twin_get(t, a->k, at + i);
        scores[key] = (float)score * a->scale + slope * (float)(key - position);
        largest = scores[key] > largest ? scores[key] : largest;
    }
    for (int key = 0; key <= position; key++) {
        const int64_t at =
            (((int64_t)blocks[key / size] * a->kv_heads + kv_head) * size + key % size) * d;
        const float p = expf(scores[key] - largest);
        sum += (double)p;
        for (int i = 0; i < d; i++)
            out[i] += (double)twin_rounded(t, p) * (double)twin_get(t, a->v, at + i);
    }
    for (int i = 0; i < d; i++)
        twin_put(t, a->out, ((int64_t)token * a->heads + head) * d + i, (float)(out[i] / sum));
}

static void attend_segments(const struct cuda_attention_args *a, enum cuda_dtype t, int from,
                            int to)
{
    for (int i = from; i < to; i++) {
        const struct cuda_segment *s = &a->batch.segments[i];
        float *scores = mem_alloc((size_t)(s->kv_before + s->tokens) * sizeof *scores);
        for (int j = 0; j < s->tokens; j++)
            for (int h = 0; h < a->heads; h++)
                attend(a, t, s->first + j, h, s->kv_before + j, a->batch.blocks + s->table, scores);
        mem_free(scores);
    }
}

/* Unlike the kernel, leaves the prepared queries in qkv. */
static void prepare_decodes(const struct cuda_attention_args *a, enum cuda_dtype t)
{
    const struct cuda_step *s = a->batch.step;
    void *qkv = (void *)(uintptr_t)a->qkv;
    const struct cuda_rope_args rope = {.batch = a->batch,
                                        .qkv = qkv,
                                        .q_norm = a->q_norm,
                                        .k_norm = a->k_norm,
                                        .cosine = a->cosine,
                                        .sine = a->sine,
                                        .k = a->k,
                                        .v = a->v,
                                        .heads = a->heads,
                                        .kv_heads = a->kv_heads,
                                        .head_dim = a->head_dim,
                                        .block_size = a->block_size,
                                        .eps = a->eps};
    for (int i = s->n_chunks; i < s->n_chunks + s->n_decodes; i++)
        twin_rope_token(&rope, t, a->batch.segments[i].first);
}

void twin_attention_decode(const void *args, enum cuda_dtype t)
{
    const struct cuda_attention_args *a = args;
    const struct cuda_step *s = a->batch.step;
    if (a->fuse)
        prepare_decodes(a, t);
    attend_segments(a, t, s->n_chunks, s->n_chunks + s->n_decodes);
}

void twin_attention_prefill(const void *args, enum cuda_dtype t)
{
    const struct cuda_attention_args *a = args;
    attend_segments(a, t, 0, a->batch.step->n_chunks);
}

void twin_attention_any(const void *args, enum cuda_dtype t)
{
    const struct cuda_attention_args *a = args;
    const struct cuda_step *s = a->batch.step;
    attend_segments(a, t, 0, s->n_chunks + s->n_decodes);
}
