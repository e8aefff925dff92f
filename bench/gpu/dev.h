/* A GPU through libcuda and libnvrtc, opened at run time: just what the kernels' checks and timings
 * need, apart from the engine's own device layer (src/gpu). Errors end the program with the
 * failing call's name. One thread. */
#ifndef BENCH_GPU_DEV_H
#define BENCH_GPU_DEV_H

#include "engine/cuda/kernels.h"

typedef uint64_t dev_ptr;

struct dev {
    char name[96];
    int arch; /* 90 */
    int sms;
    int64_t l2_bytes;
    size_t memory_bytes;
    double compile_s; /* spent in NVRTC so far */
    int programs;     /* compiled so far */
    void *stream;
};

/* False, with a line on stderr, when there is no GPU. */
bool dev_open(struct dev *g);

dev_ptr dev_alloc(size_t bytes);
void dev_free(dev_ptr p);
void dev_upload(dev_ptr to, const void *from, size_t bytes);
void dev_download(void *to, dev_ptr from, size_t bytes);
void dev_sync(struct dev *g);

/* A function of a program; programs are compiled once. head_dim as in cuda_program. */
void *dev_entry(struct dev *g, const struct cuda_kernel *k, enum cuda_dtype t, int head_dim);
/* A function of a text that stands alone. */
void *dev_entry_of(struct dev *g, const char *text, const char *entry);
/* "registers, local bytes, shared bytes" of a function */
void dev_entry_costs(void *function, int *registers, int *local_bytes, int *shared_bytes);

/* dependent: may start before the launch in front is complete, where the device can. */
void dev_launch(struct dev *g, void *function, const struct cuda_launch *l, const void *args,
                size_t args_bytes, bool dependent);
/* NULL, or the text of what went wrong since. */
const char *dev_fault(struct dev *g);

/* Launches between begin and end become a graph. */
void dev_graph_begin(struct dev *g);
void *dev_graph_end(struct dev *g);
void dev_graph_free(void *graph);
/* Seconds of one run of the graph: the median of `n` timed runs, each of `inner` in a row. */
double dev_graph_time(struct dev *g, void *graph, int n, int inner);

#endif
