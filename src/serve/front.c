#include "serve/front.h"

#include <math.h>

void front_take(struct front *x, struct request *q, double now_s)
{
    x->ready_s = fmax(x->ready_s, now_s) + x->s;
    vec_push(&x->held, q);
}

double front_next_s(const struct front *x)
{
    return x->held.n ? x->ready_s : INFINITY;
}

void front_free(struct front *x)
{
    vec_free(&x->held);
}
