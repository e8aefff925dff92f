#include "profile/read/seen.h"

#include <math.h>

struct seen seen_of(const struct model *m, const struct op *op)
{
    if (!m->layered || (op->kind != OP_ATTN_PREFILL && op->kind != OP_ATTN_DECODE))
        return (struct seen){0};
    const struct attention *t = &m->structure->attention[op->part];
    if (t->n_caches > 1 || (t->n_caches == 1 && t->caches[0].ratio > 1))
        return (struct seen){0};
    if (t->type == ATTENTION_CHUNKED)
        return (struct seen){(double)t->window, true};
    return (struct seen){(double)(t->window ? t->window : t->top_k), false};
}

double seen_kv(const struct seen *s, double kv)
{
    if (!(s->tokens > 0))
        return kv;
    return s->piece ? fmod(kv, s->tokens) : fmin(kv, s->tokens - 1);
}

double seen_kv_spread(const struct seen *s, double kv, double x)
{
    if (!(s->tokens > 0) || x < 2)
        return seen_kv(s, kv);
    double sum = 0;
    for (double row = 0; row < x; row++)
        sum += seen_kv(s, kv + kv / 2 * (2 * row + 1 - x) / x);
    return sum / x;
}

/* Sum of the keys that the first v tokens of a sequence see. */
static double up_to(const struct seen *s, double v)
{
    const double w = s->tokens;
    if (s->piece) {
        const double whole = floor(v / w), rest = v - whole * w;
        return whole * w * (w + 1) / 2 + rest * (rest + 1) / 2;
    }
    return v <= w ? v * (v + 1) / 2 : w * (w + 1) / 2 + (v - w) * w;
}

double seen_pairs(const struct seen *s, double kv, double c)
{
    if (!(s->tokens > 0))
        return c * kv + c * (c + 1) / 2;
    return up_to(s, kv + c) - up_to(s, kv);
}
