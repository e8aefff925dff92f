/* Any bytes as a run's time_series.csv. */
#include "metrics/time_series.h"
#include "folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct time_series_row *rows;
    size_t n;
    const char *path = folder_put(a, TIME_SERIES, data, size);
    if (time_series_load(a, folder(), &rows, &n, &e) != ST_OK)
        REQUIRE(strstr(err_cause(&e, 0), path));
    else
        for (size_t i = 0; i < n; i++) {
            REQUIRE(rows[i].time_ns >= (i ? rows[i - 1].time_ns : 0));
            REQUIRE(rows[i].duration_ns > 0 && rows[i].iterations >= 0 && rows[i].replica >= 0);
            REQUIRE(!(rows[i].busy < 0) && !(rows[i].waiting < 0) && !(rows[i].power_w < 0));
        }
    arena_free(&a);
    return 0;
}
