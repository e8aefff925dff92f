/* Measures contention for the processor: a timing taken while other work held the cores includes
 * that work.
 *
 * waiting: share of the time its threads were runnable in which they had no core, from
 * /proc/self/task/<tid>/schedstat; threads that ended in between are not counted. stolen: share of
 * all cores that the hypervisor gave to others (/proc/stat). pressure: share of the time in which
 * any task of the machine was runnable without a core (/proc/pressure/cpu, "some"). All 0 to 1; NAN
 * where the kernel does not report it.
 *
 * Interference in shared caches and memory is not visible here, but pressure shows neighbours that
 * cause it, also those that leave our threads their cores, and reaches servers whose threads are
 * not ours. On 16 cores without neighbours it was at most 0.001, with a spinning thread on every
 * core too; with one thread more 0.06; beside two half-busy neighbours on the second of two cores
 * 0.2, where the thread on the first one waited for 0.001 of its time. */
#ifndef BASE_CONTENTION_H
#define BASE_CONTENTION_H

#include <stdint.h>

struct contention {
    double waiting, stolen, pressure;
};

struct contention_mark {
    double run_s;      /* CPU time of the living threads */
    double wait_s;     /* time they were runnable without a core */
    double stolen_s;   /* time the hypervisor took, all cores */
    double capacity_s; /* wall time times cores */
    double pressure_s; /* time in which a task had no core */
    double at_s;       /* monotonic clock */
    int known;         /* bit 0: threads, bit 1: machine, bit 2: pressure */
};

struct contention_mark contention_mark(void);
struct contention contention_since(const struct contention_mark *begin);

/* waiting + stolen, NAN when neither is known: above CONTENTION_TOO_MUCH a timing is not to be
 * trusted. */
double contention_share(const struct contention *c);
#define CONTENTION_TOO_MUCH 0.05

/* The larger of that and of pressure; NAN when all are unknown. Above CONTENTION_TOO_MUCH a miss of
 * the timing may be the machine's. */
double contention_worst(const struct contention *c);

#endif
