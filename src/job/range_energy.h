/* Energy of the NVTX ranges of a recorded program, from the power log taken beside it. */
#ifndef JOB_RANGE_ENERGY_H
#define JOB_RANGE_ENERGY_H

#include "energy/power_log.h"
#include "trace/trace.h"

#define RANGE_ENERGY_CSV "range_energy.csv"

struct range_energy {
    const char *range, *domain; /* of the trace's dictionary */
    int64_t instances;          /* 1, or the shorter ones of that name together */
    int64_t start_ns;           /* of the trace's clock; the first one's */
    double duration_s;          /* together */
    struct energy energy;       /* of one that is long enough */
    bool too_short;
};

/* One row for each range that lasts least_s or more, in order of time; behind them one row for each
 * name with shorter ones, whose energy is unknown: a sensor that changes every T shows a step up to
 * T late, so below some ten of them the edges are most of the figure. shift_ns: from the trace's
 * clock to the log's. *n rows. */
struct range_energy *range_energy_of(struct arena *a, const struct trace *t,
                                     const struct power_log *log, int64_t shift_ns, double least_s,
                                     size_t *n);

/* range_energy.csv (docs/formats.md). */
void range_energy_write(FILE *f, const struct range_energy *rows, size_t n, double least_s);

#endif
