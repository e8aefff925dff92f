/* Iterations of a traced engine as a bundle of measured ones (profile/whole.h): for an engine that
 * nothing can drive, but whose ranges say what was in its batches.
 *
 * An iteration's device time is that in which the GPU worked on what its range launched; host time
 * is the rest of the span from its range's start to the start of the next on that thread. An engine
 * without requests waits between its ranges, so a time between two of more than three times the
 * median of them all counts as the median. Left out: iterations whose composition is not known or
 * empty, and what kernels_steps_find leaves out. */
#ifndef KERNELS_ITERATIONS_H
#define KERNELS_ITERATIONS_H

#include "kernels/composition.h"
#include "kernels/kernels.h"
#include "profile/whole.h"

struct kernels_iterations_params {
    const char *composition; /* a template, or "auto"; NULL with a table */
    const char *pattern;     /* ranges around one iteration each; NULL = those of the template */
    const char *table;       /* CSV of compositions by number; NULL = from the ranges */
    struct whole_params to;
};

struct kernels_iterations_result {
    struct whole_result bundle;
    size_t ranges, iterations;  /* wanted ranges; those that became part of the bundle */
    const char *composition;    /* the template that was taken; NULL with a table */
    bool kv_unknown, cut_waits; /* no range said kv; waits between iterations were cut */
};

/* ST_INPUT: no range matches, no iteration is left. */
enum st kernels_iterations(struct arena *a, const struct kernels *k,
                           const struct kernels_iterations_params *p,
                           struct kernels_iterations_result *out, struct err *e);

#endif
