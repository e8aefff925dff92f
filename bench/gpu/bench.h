/* The parts of the program; README.md says what it prints. */
#ifndef BENCH_GPU_BENCH_H
#define BENCH_GPU_BENCH_H

#include "gpu/dev.h"

/* Every row against its twin; only = name of one row, NULL or "all"; dtype = "bf16", NULL = all;
 * every = one case in so many. g NULL: the twins alone. Returns the number of failures. */
int check_all(struct dev *g, const char *only, const char *dtype, int every);
/* Every row at the sizes of real models beside its floor; quick: products of one row alone. */
void time_rows(struct dev *g, bool quick);
/* Whole decode steps of a model of that name made of the rows that fit few sequences; quick: one
 * sequence of 1,024 tokens. */
void time_steps(struct dev *g, bool quick);
/* n random bfloat16 numbers, as model init makes them. */
void dev_fill_random(struct dev *g, dev_ptr p, int64_t n);
/* Read bandwidth of a stream of 4 GB or more, bytes per second. */
double read_bandwidth(struct dev *g);

#endif
