/* Collective operations of several processes: how long each waited for the others and how long data
 * moved. Private to deep/.
 *
 * A collective runs on every rank as a kernel of the same name. The n-th of a name in one process
 * belongs to the n-th in the others, which holds as long as all call them equally often; else the
 * name is left out. Until the last rank has begun, the others wait; what follows is moving. Clocks
 * of one host are one clock in a trace; of several hosts the recorder's shift is as good as their
 * wall clocks. */
#ifndef DEEP_COLLECTIVES_H
#define DEEP_COLLECTIVES_H

#include "deep/result.h"
#include "deep/stages.h"
#include "kernels/kernels.h"

/* Kernels whose short name matches the pattern, "nccl*", inside the stages (NULL = all of the
 * trace; a barrier while one process loads is no part of the work): a row for each name and
 * process, in order of first use. None for less than two processes. *uneven: names that were left
 * out. */
struct deep_collective_row *deep_collectives_of(struct arena *a, const struct kernels *k,
                                                const struct deep_stages *stages,
                                                const char *pattern, size_t *n, size_t *uneven);

#endif
