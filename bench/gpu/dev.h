/* The GPU of the checks and timings: src/gpu, with errors that end the program. One thread. */
#ifndef BENCH_GPU_DEV_H
#define BENCH_GPU_DEV_H

#include "engine/cuda/kernels.h"
#include "gpu/compile.h"
#include "gpu/device.h"
#include "gpu/module.h"

typedef CUdeviceptr dev_ptr;

struct dev {
    struct gpu gpu;
    struct gpu_compiler *compiler; /* without a cache: what compiling takes is shown */
    CUstream stream;
    const char *name;
    char arch_name[GPU_ARCH_MAX]; /* "sm_90a" */
    int arch;                     /* 90 */
    int sms;
    int64_t l2_bytes;
};

/* False, with a line on stderr, when there is no GPU. */
bool dev_open(struct dev *g);
void dev_close(struct dev *g);

dev_ptr dev_alloc(struct dev *g, size_t bytes);
void dev_free(struct dev *g, dev_ptr p);
void dev_upload(struct dev *g, dev_ptr to, const void *from, size_t bytes);
void dev_download(struct dev *g, void *to, dev_ptr from, size_t bytes);
void dev_sync(struct dev *g);
/* Bytes that no kernel may touch until they are forgotten: where memory can be guarded, an access
 * is a fault. A GPU cannot. */
void dev_gap(struct dev *g, dev_ptr p, size_t bytes);
void dev_forget_gaps(struct dev *g);

/* A kernel of a program; programs are compiled once. head_dim as in cuda_program. */
const struct gpu_kernel *dev_entry(struct dev *g, const struct cuda_kernel *k, enum cuda_dtype t,
                                   int head_dim);
/* A kernel of a text that stands alone. */
const struct gpu_kernel *dev_entry_of(struct dev *g, const char *text, const char *entry);

/* dependent: may start before the launch in front is complete, where the device can. */
void dev_launch(struct dev *g, const struct gpu_kernel *k, const struct cuda_launch *l,
                const void *args, size_t args_bytes, bool dependent);
/* NULL, or the text of what went wrong since; lives until the next call. */
const char *dev_fault(struct dev *g);

/* Launches between begin and end become a graph. */
void dev_graph_begin(struct dev *g);
CUgraphExec dev_graph_end(struct dev *g);
void dev_graph_free(struct dev *g, CUgraphExec graph);
/* Seconds of one run of the graph: the median of `n` timed runs, each of `inner` in a row. */
double dev_graph_time(struct dev *g, CUgraphExec graph, int n, int inner);

#endif
