/* Any bytes as a run's percentile_intervals.csv. */
#include <math.h>

#include "compare/compare.h"
#include "folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct compare_uncertainty d;
    const char *path = folder_put(a, "percentile_intervals.csv", data, size);
    if (compare_uncertainty_read(a, folder(), &d, &e) != ST_OK)
        REQUIRE(strstr(err_cause(&e, 0), path) && !d.known);
    else
        for (int m = 0; m < UNCERTAINTIES; m++)
            for (int p = 0; p < COMPARE_PERCENTILES; p++)
                REQUIRE(isnan(d.low[m][p]) == isnan(d.high[m][p]) && !(d.low[m][p] > d.high[m][p]));
    arena_free(&a);
    return 0;
}
