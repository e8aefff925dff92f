#include "profile/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/order.h"

struct stats stats_of(double *v, int64_t n)
{
    struct stats s = {.n = n};
    if (n == 0)
        return s;
    qsort(v, (size_t)n, sizeof *v, order_double);
    s.min = v[0];
    s.max = v[n - 1];
    s.median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    double var = 0;
    for (int64_t i = 0; i < n; i++) {
        s.mean += v[i] / (double)n;
        s.cut_mean += fmin(v[i], 3 * s.median) / (double)n;
    }
    for (int64_t i = 0; i < n; i++)
        var += (v[i] - s.mean) * (v[i] - s.mean) / (double)n;
    s.std = sqrt(var);
    return s;
}
