#include "engine/cuda/twins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static void emit(const struct cuda_batch *b, int *ids, int r, int id)
{
    ids[r] = id;
    if (b->last)
        b->last[b->row_slot[r]] = id;
}

void twin_argmax(const void *args, enum cuda_dtype t)
{
    const struct cuda_argmax_args *a = args;
    (void)t;
    for (int r = 0; r < a->batch.step->n_rows; r++) {
        const float *logits = a->logits + (int64_t)r * a->vocab;
        int best = -1;
        for (int i = 0; i < a->sample_vocab; i++)
            if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best]))
                best = i;
        emit(&a->batch, a->ids, r, best < 0 ? 0 : best);
    }
}

/* ---- a draw ---------------------------------------------------------------------------------- */

/* The formula of kernels/sample.cu: operation by operation the same (no fused multiply-adds in this
 * build, see cmake/flags.cmake). */
static float weight_of(float logit, float best, const struct cuda_sampling *how)
{
    float w = 1;
    if (!(logit >= best)) {
        const float z = (logit - best) / how->temperature;
        if (!(z >= -30.0F))
            return 0;
        const float n = rintf(z * 1.44269504088896341F);
        float r = z + n * -0.693359375F;
        r = r + n * 2.12194440e-4F;
        float p = 1.9875691500e-4F;
        p = p * r + 1.3981999507e-3F;
        p = p * r + 8.3334519073e-3F;
        p = p * r + 4.1665795894e-2F;
        p = p * r + 1.6666665459e-1F;
        p = p * r + 5.0000001201e-1F;
        p = p * r * r + r + 1.0F;
        w = ldexpf(p, (int)n);
        w = w < 1 ? w : 1;
    }
    return w >= how->min_p && w >= 0x1p-40F ? w : 0;
}

struct candidate {
    float weight;
    int id;
};

static uint64_t fixed(float w)
{
    return (uint64_t)(w * 0x1p40F);
}

/* Likelier first; of equal weight the lower id. */
static int by_weight(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;
    if (a->weight > b->weight || a->weight < b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_id(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* The high 64 bits of the product. */
static uint64_t high_product(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

static uint64_t mass_of(const struct candidate *c, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += fixed(c[i].weight);
    return sum;
}

static int draw(const struct cuda_sampling *how, int position, const float *logits, int n,
                struct candidate *c)
{
    float best = -INFINITY;
    int kept = 0;
    for (int i = 0; i < n; i++)
        best = logits[i] > best ? logits[i] : best;
    for (int i = 0; i < n; i++) {
        const float w = weight_of(logits[i], best, how);
        if (w > 0)
            c[kept++] = (struct candidate){w, i};
    }
    if (kept == 0)
        return 0;
    qsort(c, (size_t)kept, sizeof *c, by_weight);
    if (how->top_k > 0 && how->top_k < kept)
        kept = how->top_k;
    if (how->top_p < 1) {
        const uint64_t limit = (uint64_t)((double)how->top_p * (double)mass_of(c, kept));
        uint64_t sum = 0;
        int keep = 0;
        while (keep < kept && (keep == 0 || sum < limit))
            sum += fixed(c[keep++].weight);
        kept = keep;
    }
    qsort(c, (size_t)kept, sizeof *c, by_id);
    struct rng r = rng_stream(how->seed + (uint64_t)position * 0x9e3779b97f4a7c15u, "sampler");
    const uint64_t goal = high_product(rng_u64(&r) >> 11 << 11, mass_of(c, kept));
    uint64_t sum = 0;
    for (int i = 0; i < kept; i++) {
        sum += fixed(c[i].weight);
        if (sum > goal)
            return c[i].id;
    }
    return c[kept - 1].id;
}

void twin_sample(const void *args, enum cuda_dtype t)
{
    const struct cuda_sample_args *a = args;
    (void)t;
    struct candidate *c = mem_alloc((size_t)a->sample_vocab * sizeof *c);
    for (int r = 0; r < a->batch.step->n_rows; r++)
        if (a->sampling[r].temperature > 0)
            emit(&a->batch, a->ids, r,
                 draw(&a->sampling[r], a->positions[r], a->logits + (int64_t)r * a->vocab,
                      a->sample_vocab, c));
    mem_free(c);
}
