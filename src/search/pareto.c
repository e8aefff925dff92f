#include "search/pareto.h"

#include <math.h>

static bool known(const double *v, int dims)
{
    for (int k = 0; k < dims; k++)
        if (isnan(v[k]))
            return false;
    return true;
}

/* x is at least as good as y everywhere; *better: and better somewhere. */
static bool covers(const double *x, const double *y, int dims, bool *better)
{
    *better = false;
    for (int k = 0; k < dims; k++) {
        if (x[k] < y[k])
            return false;
        *better = *better || x[k] > y[k];
    }
    return true;
}

void pareto_front(const double (*v)[PARETO_MAX], size_t n, int dims, bool *on)
{
    for (size_t i = 0; i < n; i++) {
        on[i] = known(v[i], dims);
        for (size_t j = 0; j < n && on[i]; j++) {
            bool better;
            if (j != i && known(v[j], dims) && covers(v[j], v[i], dims, &better))
                on[i] = !better && i < j;
        }
    }
}
