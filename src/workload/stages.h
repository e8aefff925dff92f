/* Arrival rates that change over time: "SECONDS:RATE" holds a rate, "SECONDS:RATE-RATE" changes it
 * evenly from the one to the other; the last rate goes on for ever.
 *
 * Arrivals are those of the same process at rate 1 with the time stretched so that the expected
 * number up to t is L(t), the integral of the rate: an arrival at S becomes one at L^-1(S). For
 * poisson gaps that is exactly the poisson process of that changing rate. */
#ifndef WORKLOAD_STAGES_H
#define WORKLOAD_STAGES_H

#include "base/str.h"

struct rate_stage {
    double s;    /* duration, > 0 */
    double from; /* requests/s at the beginning, >= 0 */
    double to;   /* at the end; not both 0 */
};

/* Parses the items of workload.arrival.stages; ST_USAGE for a malformed item or a last rate of 0.
 */
enum st stages_parse(struct arena *a, const char *const *items, size_t n, struct rate_stage **out,
                     struct err *e);

/* The parts of "SECONDS:FROM-TO", or of "SECONDS:FROM", whose `to` is its `from`; false unless it
 * has them, and the seconds are above 0 and at most 1e9. */
bool stages_split(struct sv item, double *seconds, struct sv *from, struct sv *to);

/* State of the inverse, for calls with non-decreasing S. Zeroed = at the beginning. */
struct stages_at {
    size_t k;       /* stage; n = beyond the last */
    double begin_s; /* start time of the stage */
    double before;  /* S up to the stage */
};
double stages_time_s(const struct rate_stage *stages, size_t n, struct stages_at *at, double S);

#endif
