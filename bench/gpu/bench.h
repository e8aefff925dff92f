/* The parts of the program; README.md says what it prints. */
#ifndef BENCH_GPU_BENCH_H
#define BENCH_GPU_BENCH_H

#include "gpu/dev.h"

/* Which cases are checked. */
struct check_scope {
    const char *only, *dtype; /* name of a row; "bf16"; NULL = all */
    int every;                /* one case in so many; 0 = all */
    double most_bytes; /* whose cuda_kernel.floor, bytes + flop / 64, is at most that; 0 = all */
};
/* Every row against its twin. g NULL: the twins alone. Returns the number of failures. */
int check_all(struct dev *g, const struct check_scope *scope);
/* Every row at the sizes of real models beside its floor; quick: products of one row alone. */
void time_rows(struct dev *g, bool quick);
/* Whole decode steps of a model of that name made of the rows that fit few sequences; quick: one
 * sequence of 1,024 tokens; fused: decode_step beside one way of the others. */
void time_steps(struct dev *g, bool quick, bool fused);
/* Decode attention of unequal lengths by several plans (engine/cuda/parts.h); quick: one small
 * size. Returns the number of plans whose results are wrong. */
int time_unequal(struct dev *g, bool quick);
/* Copies to the GPU of the sizes that batches have; opens the GPU itself. Returns 1 on failure. */
int time_uploads(void);
/* n random bfloat16 numbers, as model init makes them. */
void dev_fill_random(struct dev *g, dev_ptr p, int64_t n);
/* Read bandwidth of a stream of 4 GB or more, bytes per second. */
double read_bandwidth(struct dev *g);

#endif
