#include <math.h>

#include "engine/cuda/twins.h"

/* ---- routing --------------------------------------------------------------------------------- */

/* The k largest of a token, the first of equal ones first; a NaN is never taken. */
static void route_token(const struct cuda_route_args *a, enum cuda_dtype t, int token)
{
    float logits[CUDA_EXPERTS_MOST];
    int *expert = a->expert + (int64_t)token * a->k;
    float *weight = a->weight + (int64_t)token * a->k, best = -INFINITY;
    bool taken[CUDA_EXPERTS_MOST] = {0};
    double sum = 0;
    for (int i = 0; i < a->experts; i++) {
        logits[i] = a->logits[(int64_t)token * a->experts + i];
        logits[i] += a->bias ? twin_get(t, a->bias, i) : 0;
        best = fmaxf(best, logits[i]);
    }
    for (int i = 0; a->over_all && i < a->experts; i++)
        sum += (double)expf(logits[i] - best);
    for (int j = 0; j < a->k; j++) {
        int at = -1;
        for (int i = 0; i < a->experts; i++)
            if (!taken[i] && logits[i] > (at < 0 ? -INFINITY : logits[at]))
                at = i;
        weight[j] = at < 0 ? expf(-INFINITY - best) : expf(logits[at] - best);
        sum += a->over_all ? 0 : (double)weight[j];
        expert[j] = at < 0 ? j : at;
        if (at >= 0)
            taken[at] = true;
    }
    for (int j = 0; j < a->k; j++)
        weight[j] = (float)((double)weight[j] / sum);
}

void twin_route(const void *args, enum cuda_dtype t)
{
    const struct cuda_route_args *a = args;
    for (int i = 0; i < *a->count; i++)
        route_token(a, t, i);
}

void twin_group(const void *args, enum cuda_dtype t)
{
    const struct cuda_group_args *a = args;
    const int pairs = *a->count * a->k;
    int used = 0, tiles = 0;
    (void)t;
    for (int e = 0; e < a->experts; e++) {
        const int first = used;
        for (int p = 0; p < pairs; p++)
            if (a->expert[p] == e)
                a->order[used++] = p;
        for (int i = first; i < used; i += a->rows)
            a->tiles[tiles++] = (struct cuda_tile){e, i, used - i < a->rows ? used - i : a->rows};
    }
    *a->n_tiles = tiles;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Row `row` of the expert's matrix, [outs] or gate and up, times x; with its bias. */
static float dot(const struct cuda_experts_args *a, enum cuda_dtype t, int expert, int row,
                 const float *x)
{
    const int64_t from = expert * a->weight_step + (int64_t)row * a->in;
    double sum = a->bias ? (double)twin_get(t, a->bias, expert * a->bias_step + row) : 0;
    for (int i = 0; i < a->in; i++)
        sum += (double)x[i] * (double)twin_get(t, a->weight, from + i);
    return (float)sum;
}

static void multiply_pair(const struct cuda_experts_args *a, enum cuda_dtype t, int expert,
                          int pair, float *x)
{
    const bool gated = CUDA_ACT_IS_GATED(a->act);
    for (int i = 0; i < a->in; i++)
        x[i] = twin_get(t, a->x, (int64_t)(pair / a->share) * a->in + i);
    for (int o = 0; o < a->outs; o++) {
        const float v = dot(a, t, expert, o, x), u = gated ? dot(a, t, expert, a->outs + o, x) : 0;
        twin_put(t, a->out, (int64_t)pair * a->outs + o,
                 twin_activated(a->act, v, u, a->alpha, a->limit));
    }
}

void twin_experts(const void *args, enum cuda_dtype t)
{
    const struct cuda_experts_args *a = args;
    float *x = mem_alloc((size_t)a->in * sizeof *x);
    for (int i = 0; i < *a->n_tiles; i++)
        for (int j = 0; j < a->tiles[i].n; j++)
            multiply_pair(a, t, a->tiles[i].expert, a->order[a->tiles[i].first + j], x);
    mem_free(x);
}

void twin_combine(const void *args, enum cuda_dtype t)
{
    const struct cuda_combine_args *a = args;
    for (int r = 0; r < *a->count; r++)
        for (int i = 0; i < a->width; i++) {
            double sum = 0;
            for (int j = 0; j < a->k; j++) {
                const int64_t pair = (int64_t)r * a->k + j;
                sum += (double)a->weight[pair] * (double)twin_get(t, a->y, pair * a->width + i);
            }
            const int64_t at = (int64_t)r * a->width + i;
            twin_put(t, a->x, at, (float)((double)twin_get(t, a->x, at) + sum));
        }
}
