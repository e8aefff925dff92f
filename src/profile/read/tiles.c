#include "profile/read/tiles.h"

/* Sum over i = 1..n of ceil(i / r). */
static double sum_of_ceils(double n, double r)
{
    double whole = floor(n / r);
    return r * whole * (whole + 1) / 2 + (n - whole * r) * (whole + 1);
}

double tile_pairs(double kv, double c, double size_q, double size_k)
{
    if (!(size_k > 0))
        return c * kv + c * (c + 1) / 2;
    double full = ceil(c / size_q) - 1; /* query tiles before the last one */
    double tiles = ceil((kv + c) / size_k);
    if (size_q >= size_k) {
        tiles += full * ceil(kv / size_k) + size_q / size_k * full * (full + 1) / 2;
    } else {
        double first = ceil(kv / size_q), r = size_k / size_q;
        tiles += sum_of_ceils(first + full, r) - sum_of_ceils(first, r);
    }
    return tiles * size_q * size_k;
}
