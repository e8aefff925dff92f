#include "serve/front.h"

#include <math.h>

static size_t there(const struct front *x)
{
    return x->held.n - x->first;
}

static void advance(struct front *x, double now_s)
{
    if (there(x) > 0 && now_s > x->now_s)
        x->each_s += (now_s - x->now_s) / (double)there(x);
    x->now_s = fmax(x->now_s, now_s);
}

void front_take(struct front *x, struct request *q, double now_s)
{
    if (there(x) == 0) {
        x->held.n = x->first = 0;
        x->each_s = 0;
    }
    advance(x, now_s);
    vec_push(&x->held, (struct fronted){q, x->each_s + x->s});
}

double front_next_s(const struct front *x)
{
    if (there(x) == 0)
        return INFINITY;
    const double rest_s = x->held.p[x->first].done_at - x->each_s;
    return x->now_s + fmax(rest_s, 0) * (double)there(x);
}

struct request *front_pop(struct front *x, double now_s)
{
    const double next_s = front_next_s(x);
    if (there(x) == 0 || next_s > now_s)
        return NULL;
    advance(x, fmin(now_s, next_s));
    const struct fronted *f = &x->held.p[x->first++];
    x->each_s = fmax(x->each_s, f->done_at); /* but for rounding it is */
    return f->q;
}

void front_free(struct front *x)
{
    vec_free(&x->held);
}
