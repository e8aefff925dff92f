#include "serve/span_sums.h"

static int64_t modulo(int64_t v, int64_t n)
{
    const int64_t rest = v % n;
    return rest < 0 ? rest + n : rest;
}

void span_sums_init(struct span_sums *s, struct arena *a, const struct key_spans *spans)
{
    *s = (struct span_sums){.n = spans ? spans->n : 0};
    for (int32_t i = 0; i < s->n; i++) {
        struct span_sum *x = &s->of[i];
        x->span = spans->of[i];
        x->bound = span_period(&x->span);
        if (!x->span.chunk)
            x->growing = arena_array(a, int32_t, x->span.unit);
        if (x->bound)
            x->turning = arena_array(a, int32_t, x->bound);
    }
}

/* by: 1 or -1 members. */
static void count(struct span_sum *x, int64_t v, int64_t tick, int32_t by)
{
    x->members += by;
    x->sum += by * span_seen(&x->span, v);
    if (x->span.chunk) {
        x->turning[modulo(tick - v + 1, x->bound)] += by;
        return;
    }
    if (x->bound && v >= x->bound)
        return;
    x->growing[modulo(tick - v, x->span.unit)] += by;
    if (x->bound)
        x->turning[modulo(tick - v, x->bound)] += by;
}

void span_sums_add(struct span_sums *s, int64_t v, int64_t tick)
{
    for (int32_t i = 0; i < s->n; i++)
        count(&s->of[i], v, tick, 1);
}

void span_sums_remove(struct span_sums *s, int64_t v, int64_t tick)
{
    for (int32_t i = 0; i < s->n; i++)
        count(&s->of[i], v, tick, -1);
}

static int64_t next(int64_t at, int64_t n)
{
    return at + 1 == n ? 0 : at + 1;
}

static void move_on(struct span_sum *x)
{
    const int64_t bound_at = x->bound ? x->bound_at = next(x->bound_at, x->bound) : 0;
    if (x->span.chunk) { /* those that turn had a whole piece, and see one key of the next */
        x->sum += x->members - x->span.chunk * x->turning[bound_at];
        return;
    }
    const int64_t unit_at = x->unit_at = next(x->unit_at, x->span.unit);
    x->sum += x->growing[unit_at];
    if (!x->bound)
        return;
    x->growing[unit_at] -= x->turning[bound_at];
    x->turning[bound_at] = 0;
}

void span_sums_tick(struct span_sums *s)
{
    for (int32_t i = 0; i < s->n; i++)
        move_on(&s->of[i]);
}
