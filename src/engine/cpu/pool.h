/* The engine's threads: run a number of independent items on all of them.
 *
 * The calling thread takes part. Thread t starts with its own contiguous share of the items, so the
 * same thread reads the same weights in every pass, and helps the others when it is done. A
 * descheduled worker does not delay the job: the caller does its share and closes the job. Idle
 * workers spin for about 50 us, then sleep. One job at a time; one calling thread. */
#ifndef ENGINE_CPU_POOL_H
#define ENGINE_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct pool;

/* Item `item` of the job, run by thread `thread` (0 = the caller) of pool_threads(). */
typedef void pool_fn(void *ctx, int64_t item, int thread);

int pool_cores(void); /* that this process may use */

/* threads 0 = all cores this process may use. ST_USAGE when the number is absurd, ST_IO when the
 * system refuses a thread. */
enum st pool_open(int threads, struct pool **out, struct err *e);
void pool_close(struct pool **p);
int pool_threads(const struct pool *p);

/* While set, idle workers spin, so that the next job finds them running. */
void pool_keep_awake(struct pool *p, bool awake);

/* Run items 0 .. n-1, each once; returns when all are done and their writes are visible. A single
 * item runs on the caller without waking a worker. */
void pool_run(struct pool *p, int64_t n, pool_fn *fn, void *ctx);

#endif
