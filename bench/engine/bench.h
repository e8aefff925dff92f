/* What the parts of engine_bench share: options, medians, and the least driver of the engine. */
#ifndef BENCH_ENGINE_BENCH_H
#define BENCH_ENGINE_BENCH_H

#include "engine/engine.h"

struct options {
    int threads; /* 0 = all cores */
    double gib;  /* size of the large model's weights, 0 = 8 times the last-level cache */
    int rounds;
};

/* One per part; prints its table to stdout. */
int bench_floor(const struct options *o);
int bench_batching(const struct options *o);
int bench_gemm(const struct options *o);
int bench_small(const struct options *o);

/* Sorts x; the median, and the distance between the quartiles relative to it. */
struct spread {
    double median, low, high; /* quartiles */
};
struct spread spread_of(double *x, int n);

/* LLaMA-shaped, tied, layers chosen so that its matrices take at least that much memory. */
struct model bench_model(double gib);
double bench_last_level_gib(void);                /* of the cache; 0 = unknown */
double bench_matrix_bytes(const struct model *m); /* what one decode step must read */

/* Sequences 0 .. n-1 with block tables of their own, all of the same length. */
struct drive;
struct drive *drive_open(const struct model *m, const struct options *o, int sequences,
                         int64_t max_tokens, int64_t prompt);
void drive_close(struct drive **d);
/* One batch: prefill of the prompts of sequences [p0, p1), one decode row of sequences [d0, d1);
 * returns its seconds. */
double drive_step(struct drive *d, int p0, int p1, int d0, int d1);
void drive_restart(struct drive *d);             /* forget all sequences */
const double *drive_op_s(const struct drive *d); /* of the last step */

#endif
