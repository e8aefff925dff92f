/* Any bytes as a power log: samples in order of time whose windows have finite energy, or a named
 * error; and what is written of it reads back. */
#include "fuzz.h"

#include <math.h>
#include <string.h>

#include "energy/power_log.h"

static void look(const struct power_log *log)
{
    const int64_t first = log->p[0].ns, last = log->p[log->n - 1].ns;
    for (size_t i = 0; i < log->n; i++) {
        REQUIRE(i == 0 || log->p[i].ns >= log->p[i - 1].ns);
        REQUIRE(!(log->p[i].power_w < 0));
    }
    const int64_t spans[][2] = {{first, last},
                                {first - 1000000000, last + 1000000000},
                                {first + (last - first) / 3, last - (last - first) / 3},
                                {last + 1, last + 5}};
    for (int i = 0; i < 4; i++) {
        const struct energy e = energy_of(log, spans[i][0], spans[i][1]);
        const struct power_mean m = power_mean_of(log, spans[i][0], spans[i][1]);
        REQUIRE((e.how == ENERGY_EXCLUDED) == (e.samples == 0));
        REQUIRE((e.how == ENERGY_EXCLUDED) == isnan(e.joules));
        REQUIRE(e.how == ENERGY_EXCLUDED || (e.joules >= 0 && isfinite(e.joules)));
        REQUIRE(!(m.half_w < 0) && m.readings >= 0);
        REQUIRE(e.outside_s >= 0 && e.longest_gap_s >= 0 && !(e.edge_j < 0));
    }
}

static void write_and_read(struct arena *a, const struct power_log *log, int64_t gpu)
{
    char *text = NULL;
    size_t n = 0;
    struct power_log back;
    struct err e = {0};
    FILE *f = open_memstream(&text, &n);
    REQUIRE(f);
    if (log->zoned)
        power_log_write_zoned(f, log, gpu);
    else
        power_log_write(f, log, gpu, 0);
    REQUIRE(fclose(f) == 0);
    REQUIRE(power_log_parse(a, "back", (struct sv){text, n}, gpu, &back, &e) == ST_OK);
    REQUIRE(back.n == log->n && back.zoned == log->zoned);
    for (size_t i = 0; i < log->n; i++)
        REQUIRE(llabs(back.p[i].ns - log->p[i].ns) < 1000000 &&
                (back.p[i].power_w == log->p[i].power_w || isnan(log->p[i].power_w)));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    for (int64_t gpu = POWER_LOG_ONLY_GPU; gpu < 2; gpu++) {
        struct power_log log;
        struct err e = {0};
        const enum st st =
            power_log_parse(a, "fuzz", (struct sv){(const char *)data, size}, gpu, &log, &e);
        REQUIRE(st == ST_OK || (st == ST_INPUT && err_cause(&e, 0)));
        if (st != ST_OK)
            continue;
        REQUIRE(log.n > 0);
        look(&log);
        write_and_read(a, &log, log.gpu);
    }
    arena_free(&a);
    return 0;
}
