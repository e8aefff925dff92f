#include "engine/positions.h"

#include <math.h>

void positions_rotation(const struct model *m, int64_t n, float *cosine, float *sine)
{
    const int64_t half = m->head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        const double power = (double)(2 * i) / (double)m->head_dim;
        const float frequency = (float)(1.0 / pow(m->rope_theta, power));
        for (int64_t p = 0; p < n; p++) {
            const float angle = (float)p * frequency;
            cosine[p * half + i] = (float)cos((double)angle);
            sine[p * half + i] = (float)sin((double)angle);
        }
    }
}

void positions_slopes(const struct model *m, float *slopes)
{
    int64_t n = 1;
    while (2 * n <= m->heads)
        n *= 2;
    for (int64_t i = 0; i < m->heads; i++)
        slopes[i] = (float)(i < n ? exp2(-8.0 * (double)(i + 1) / (double)n)
                                  : exp2(-4.0 * (double)(2 * (i - n) + 1) / (double)n));
}
