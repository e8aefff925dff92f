/* What stands in `notes` of an energy report: what its figures lack; and what
 * energy_report.c shares with that. Private to energy/. */
#ifndef ENERGY_ENERGY_NOTES_H
#define ENERGY_ENERGY_NOTES_H

#include "energy/energy_report.h"

/* Time and energy of the kernels in one run of the whole. */
struct energy_context {
    double busy_us, joules, half_j;
    double at_loop_j; /* at the mean powers of the loops */
    double idle_s;    /* d joules / d idle power: what was taken off for the loops' gaps, below 0 */
    double busy_share;
    bool known;
    double estimated_us; /* of excluded kernels, charged the mean power */
};

/* Of all invocations in one run of the whole; NAN = unknown. */
static inline double energy_context_us(const struct energy_kernel *k)
{
    return k->in_context_us * (double)k->invocation_count;
}

/* By how much a figure is off, in percent of what it should be. */
static inline double energy_percent_off(double is, double should_be)
{
    return 100 * (is - should_be) / should_be;
}

/* Sets r->notes, in the arena; the rest of *r is read. */
void energy_notes(struct arena *a, const struct energy_inputs *in, const struct energy_context *c,
                  struct energy_report *r);

#endif
