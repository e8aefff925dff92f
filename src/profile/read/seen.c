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

/* (2 row + 1 - n) / n goes from -1 to 1, and is that of the mirrored row negated. */
int64_t seen_row_kv(const struct seen_rows *r, int64_t kv, int64_t n, int64_t row)
{
    const int64_t room = r->max_kv - 1 - kv, half = kv / 2 < room ? kv / 2 : room;
    return half > 0 ? kv + half / r->block * (2 * row + 1 - n) / n * r->block : kv;
}

double seen_kv_mean(const struct seen *s, double kv, double n, const struct seen_rows *rows)
{
    if (!rows || !(s->tokens > 0) || n < 2)
        return seen_kv(s, kv);
    double sum = 0;
    for (int64_t row = 0; row < (int64_t)n; row++)
        sum += seen_kv(s, (double)seen_row_kv(rows, (int64_t)kv, (int64_t)n, row));
    return sum / (double)(int64_t)n;
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
