#include "profile/read/seen.h"

#include <math.h>

struct seen seen_of(const struct model *m, const struct op *op)
{
    const struct seen all = {.span = -1};
    const uint32_t set = op->line.spans;
    if (!m->layered || set == 0 || (set & (set - 1)) != 0 || set == UINT32_C(1) << SPAN_ALL)
        return all;
    const struct key_spans spans = model_spans(m);
    int32_t i = 0;
    while (set != UINT32_C(2) << i)
        i++;
    const struct key_span *s = &spans.of[i];
    const int64_t w = s->chunk ? s->chunk : s->most * s->unit;
    return (struct seen){(double)w, s->chunk > 0, w > 0 && s->unit == 1 ? i : -1};
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
