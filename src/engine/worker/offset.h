/* The offset between a worker's clock and ours, from exchanged messages, with its uncertainty.
 *
 * t0 is taken before a question is written and t3 after its answer was read; the other side takes
 * recv and send in between. With offset = its clock - ours, causality alone implies
 *     send - t3 <= offset <= recv - t0
 * for any delays, so the intersection over all rounds bounds the offset as long as neither clock
 * drifts meanwhile (Cristian 1989; Marzullo and Owicki 1983). The estimate is the middle, the
 * uncertainty half the width. */
#ifndef ENGINE_WORKER_OFFSET_H
#define ENGINE_WORKER_OFFSET_H

#include <stdbool.h>

#include "text/node.h"

struct clock_offset {
    int64_t low_ns, high_ns; /* the bound; low > high: the rounds contradict each other */
    int64_t best_round_trip_ns;
    int64_t rounds; /* 0: nothing is known */
};

/* t0 and t3 on our clock, recv and send on the other. */
void clock_offset_add(struct clock_offset *o, int64_t t0_ns, int64_t recv_ns, int64_t send_ns,
                      int64_t t3_ns);

int64_t clock_offset_ns(const struct clock_offset *o);      /* the estimate */
int64_t clock_uncertainty_ns(const struct clock_offset *o); /* rounded up; >= 0 */
bool clock_offset_contains(const struct clock_offset *o, int64_t offset_ns);

/* How far apart two bounds are, later - earlier; 0 when they meet: no drift is seen. */
int64_t clock_offset_drift_ns(const struct clock_offset *before, const struct clock_offset *after);

/* {offset_ns, uncertainty_ns, low_ns, high_ns, rounds, best_round_trip_ns}; null without rounds */
struct node *clock_offset_node(struct arena *a, const struct clock_offset *o);

#endif
