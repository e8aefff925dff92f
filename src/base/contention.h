/* Measures contention for the processor: a timing taken while other work held the cores includes
 * that work.
 *
 * waiting: share of the time its threads were runnable in which they had no core, from
 * /proc/self/task/<tid>/schedstat; threads that ended in between are not counted. stolen: share of
 * all cores that the hypervisor gave to others (/proc/stat). Both 0 to 1; NAN where the kernel does
 * not report it. Interference in shared caches and memory is not visible here. */
#ifndef BASE_CONTENTION_H
#define BASE_CONTENTION_H

#include <stdint.h>

struct contention {
    double waiting, stolen;
};

struct contention_mark {
    double run_s;      /* CPU time of the living threads */
    double wait_s;     /* time they were runnable without a core */
    double stolen_s;   /* time the hypervisor took, all cores */
    double capacity_s; /* wall time times cores */
    int known;         /* bit 0: threads, bit 1: machine */
};

struct contention_mark contention_mark(void);
struct contention contention_since(const struct contention_mark *begin);

/* waiting + stolen, NAN when neither is known: above CONTENTION_TOO_MUCH a timing is not to be
 * trusted. */
double contention_share(const struct contention *c);
#define CONTENTION_TOO_MUCH 0.05

#endif
