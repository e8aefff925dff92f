/* Where the search of a real engine's capacity begins. */
#ifndef JOB_CAPACITY_START_H
#define JOB_CAPACITY_START_H

#include "engine/registry.h"
#include "job/context.h"

/* Simulates the plan's search, with as many requests as a probe of the engine will have, and gives
 * the capacity that is predicted for the first seed: by the bundle of the plan's model and hardware
 * if there is one, else by the roofline of the hardware's peaks. It costs a moment, and no probe of
 * a real engine below what it can do: from 1 request/s an engine of 600 needs nine probes to get
 * there.
 *
 * *rate: requests/s, 0 = nothing is predicted: the rate is chosen, the engine computes elsewhere or
 * nothing, no bundle and no peaks, or no rate holds in the simulation. *said, in c->a: a sentence
 * for the results, NULL where the rate is chosen or the engine is not one that could be predicted.
 */
void job_capacity_start(const struct job_context *c, const struct engine *engine, double *rate,
                        const char **said);

#endif
