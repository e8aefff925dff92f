#include "engine/cuda/twins.h"

#include <math.h>

enum { MOST_DIM = 256 };

/* Values of some keys, weighted by exp(score - largest), and the sum of the weights. */
struct weighted {
    float largest;
    double sum, out[MOST_DIM];
};

/* Query head `head` of the token at `position` over keys from .. to - 1 that its window has; some
 * has to. scores: [to - from]. */
static void weigh(const struct cuda_attention_args *a, enum cuda_dtype t, int token, int head,
                  int position, const int *blocks, int from, int to, float *scores,
                  struct weighted *w)
{
    const int d = a->head_dim, size = a->block_size, kv_head = head / (a->heads / a->kv_heads);
    const int64_t q = ((int64_t)token * (a->heads + 2 * a->kv_heads) + head) * d;
    const float slope = a->slopes ? a->slopes[head] : 0;
    const int first = a->window > 0 ? position + 1 - a->window : 0;
    from = from > first ? from : first;
    *w = (struct weighted){.largest = -INFINITY};
    for (int key = from; key < to; key++) {
        const int64_t at =
            (((int64_t)blocks[key / size] * a->kv_heads + kv_head) * size + key % size) * d;
        double score = 0;
        for (int i = 0; i < d; i++)
            score += (double)twin_get(t, a->qkv, q + i) * (double)twin_get(t, a->k, at + i);
        const float s = (float)score * a->scale + slope * (float)(key - position);
        scores[key - from] = s;
        w->largest = s > w->largest ? s : w->largest;
    }
    for (int key = from; key < to; key++) {
        const int64_t at =
            (((int64_t)blocks[key / size] * a->kv_heads + kv_head) * size + key % size) * d;
        const float p = expf(scores[key - from] - w->largest);
        w->sum += (double)p;
        for (int i = 0; i < d; i++)
            w->out[i] += (double)twin_rounded(t, p) * (double)twin_get(t, a->v, at + i);
    }
}

/* Of all its keys: the sink counts here, once. */
static void put_head(const struct cuda_attention_args *a, enum cuda_dtype t, int token, int head,
                     const struct weighted *w)
{
    const double sink =
        a->sinks ? exp((double)twin_get(t, a->sinks, head) - (double)w->largest) : 0;
    for (int i = 0; i < a->head_dim; i++)
        twin_put(t, a->out, ((int64_t)token * a->heads + head) * a->head_dim + i,
                 (float)(w->out[i] / (w->sum + sink)));
}

static void attend_segments(const struct cuda_attention_args *a, enum cuda_dtype t, int from,
                            int to)
{
    for (int i = from; i < to; i++) {
        const struct cuda_segment *s = &a->batch.segments[i];
        float *scores = mem_alloc((size_t)(s->kv_before + s->tokens) * sizeof *scores);
        for (int j = 0; j < s->tokens; j++)
            for (int h = 0; h < a->heads; h++) {
                struct weighted w;
                weigh(a, t, s->first + j, h, s->kv_before + j, a->batch.blocks + s->table, 0,
                      s->kv_before + j + 1, scores, &w);
                put_head(a, t, s->first + j, h, &w);
            }
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
                                        .eps = a->eps,
                                        .norm_offset = a->norm_offset};
    for (int i = s->n_chunks; i < s->n_chunks + s->n_decodes; i++)
        twin_rope_token(&rope, t, a->batch.segments[i].first);
}

/* Of a part and head: values, largest score, sum. */
static float *partial_at(const struct cuda_attention_args *a, int place, int head)
{
    return a->partial + ((int64_t)place * a->heads + head) * (a->head_dim + 2);
}

static void keep_part(const struct cuda_attention_args *a, const struct cuda_part *p, int head,
                      const struct weighted *w)
{
    float *to = partial_at(a, (int)(p - a->batch.parts), head);
    for (int i = 0; i < a->head_dim; i++)
        to[i] = (float)w->out[i];
    to[a->head_dim] = w->largest;
    to[a->head_dim + 1] = (float)w->sum;
}

static void add_parts(const struct cuda_attention_args *a, enum cuda_dtype t,
                      const struct cuda_part *p, int head)
{
    const int d = a->head_dim;
    struct weighted all = {.largest = -INFINITY};
    for (int i = 0; i < p->parts; i++)
        all.largest = fmaxf(all.largest, partial_at(a, p->first + i, head)[d]);
    for (int i = 0; i < p->parts; i++) {
        const float *part = partial_at(a, p->first + i, head), by = expf(part[d] - all.largest);
        all.sum += (double)(part[d + 1] * by);
        for (int j = 0; j < d; j++)
            all.out[j] += (double)(part[j] * by);
    }
    put_head(a, t, p->row, head, &all);
}

/* As a block does with each part of its run: one part of a row, for the heads of one tile. */
static void attend_part(const struct cuda_attention_args *a, enum cuda_dtype t,
                        const struct cuda_part *p, int tile, float *scores)
{
    const int keys = p->position + 1, group = a->heads / a->kv_heads,
              tiles = cuda_attention_head_tiles(a->heads, a->kv_heads),
              from = p->from * CUDA_STRIPE_KEYS, end = p->to * CUDA_STRIPE_KEYS,
              to = end < keys ? end : keys;
    const int per_group = tiles / a->kv_heads, in_group = tile % per_group;
    const int head0 = tile / per_group * group + in_group * CUDA_TILE_HEADS,
              left = group - in_group * CUDA_TILE_HEADS,
              heads = left < CUDA_TILE_HEADS ? left : CUDA_TILE_HEADS;
    for (int h = head0; h < head0 + heads; h++) {
        struct weighted w;
        weigh(a, t, p->row, h, p->position, a->batch.blocks + p->table, from, to, scores, &w);
        if (p->parts > 1)
            keep_part(a, p, h, &w);
        else
            put_head(a, t, p->row, h, &w);
    }
    int *counter = p->parts > 1 ? &a->counters[p->seq * tiles + tile] : NULL;
    if (!counter || ++*counter < p->parts)
        return;
    *counter = 0;
    for (int h = head0; h < head0 + heads; h++)
        add_parts(a, t, p, h);
}

void twin_attention_decode(const void *args, enum cuda_dtype t)
{
    const struct cuda_attention_args *a = args;
    if (a->fuse)
        prepare_decodes(a, t);
    for (int run = 0; run < a->batch.step->n_runs; run++)
        for (int i = a->batch.runs[run]; i < a->batch.runs[run + 1]; i++) {
            const struct cuda_part *p = &a->batch.parts[i];
            float *scores = mem_alloc((size_t)(p->position + 1) * sizeof *scores);
            for (int tile = 0; tile < cuda_attention_head_tiles(a->heads, a->kv_heads); tile++)
                attend_part(a, t, p, tile, scores);
            mem_free(scores);
        }
}

void twin_attention_rows(const void *args, enum cuda_dtype t)
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
