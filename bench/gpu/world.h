/* Buffers of a case, twice: on the host for the twin and on the GPU for the kernel, at the same
 * offsets. Arguments are built with host pointers and moved to the device's. */
#ifndef BENCH_GPU_WORLD_H
#define BENCH_GPU_WORLD_H

#include "base/rng.h"
#include "gpu/dev.h"

enum { WORLD_OUTPUTS = 8 };

struct world {
    struct dev *gpu; /* NULL: the host's side alone */
    struct rng rng;
    size_t bytes, used;
    char *host, *before, *got;
    dev_ptr device;
    struct world_output {
        size_t from, bytes;
        enum cuda_dtype t;
        bool scratch; /* any content */
    } outputs[WORLD_OUTPUTS];
    int n_outputs;
};

void world_open(struct world *w, struct dev *g, size_t bytes);
void world_close(struct world *w);
void world_begin(struct world *w, uint64_t seed); /* forgets all buffers */

/* Memory of the case, on the host; 256-byte aligned. */
void *world_take(struct world *w, size_t bytes);
int *world_ints(struct world *w, int n);
float *world_floats(struct world *w, int64_t n);
/* n elements, normal with that standard deviation; into memory taken before. */
void *world_random(struct world *w, enum cuda_dtype t, int64_t n, double deviation);
void world_randomize(struct world *w, enum cuda_dtype t, void *p, int64_t n, double deviation);
/* n elements that the kernel writes; NaN before. */
void *world_output(struct world *w, enum cuda_dtype t, int64_t n);
/* Memory taken before that the kernel changes. */
void world_changes(struct world *w, const void *p, enum cuda_dtype t, int64_t n);
/* Memory that may hold anything afterwards. */
void *world_scratch(struct world *w, size_t bytes);

/* Copies the host's side to the device; keeps it to compare with. */
void world_upload(struct world *w);
/* The arguments with the device's pointers. */
void world_device_args(const struct world *w, const void *args, size_t bytes, void *out);
/* Launches the kernel twice, each time on a copy, runs the twin, and compares: outputs within the
 * tolerance and the same bytes both times, everything else untouched. Returns the largest error of
 * an output; INFINITY and a line on stderr for a fault, other bytes or a foreign write. */
double world_check(struct world *w, const struct cuda_kernel *k, enum cuda_dtype t, int head_dim,
                   const void *args, const struct cuda_sizes *most, const char *what);

#endif
