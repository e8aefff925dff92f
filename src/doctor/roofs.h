/* What a machine can do at most: memory bandwidth, rate of matrix products, cost of launches, the
 * link between host and GPU; measured, with the conditions under which it was.
 *
 * roofs.json (docs/formats.md) keeps it. Its member `hardware` has the keys of the hardware groups
 * (configs/hardware), so that measured rates can take the place of a datasheet's.
 *
 * How: every roof is warmed up, then sampled ROOF_SAMPLES times or more; median and quartiles are
 * given. On a GPU device time counts, between two events. Streams run over 4 GiB where the device
 * has room, else over a quarter of its free memory, and the file says which; products are square,
 * of random data; what a kernel computed is checked before its time counts. Samples taken while a
 * thermal or hardware limit held the clocks down are rejected. The L2 is read over a quarter of its
 * size: it is made of parts, and what lies in the far one is kept in the near one too. The power
 * cap is a normal condition of large products. */
#ifndef DOCTOR_ROOFS_H
#define DOCTOR_ROOFS_H

#include <signal.h>

#include "base/arena.h"
#include "base/contention.h"
#include "base/err.h"
#include "gpu/watch.h"
#include "text/node.h"

#define ROOFS(X)                                                                                  \
    X(HOST_READ, "host_read", "B/s", "reading of the host's memory, all cores")                   \
    X(HOST_GEMM_F32, "host_gemm_f32", "FLOP/s", "float32 products on all cores")                  \
    X(GPU_READ, "gpu_read", "B/s", "reading of device memory")                                    \
    X(GPU_WRITE, "gpu_write", "B/s", "writing of device memory")                                  \
    X(GPU_COPY, "gpu_copy", "B/s",                                                                \
      "copying in device memory by the driver, bytes read and written")                           \
    X(GPU_READ_L2, "gpu_read_l2", "B/s", "reading of memory that stays in the L2 cache")          \
    X(GPU_FMA_F64, "gpu_fma_f64", "FLOP/s", "float64 multiply-adds, without tensor cores")        \
    X(GPU_FMA_F32, "gpu_fma_f32", "FLOP/s", "float32 multiply-adds, without tensor cores")        \
    X(GPU_FMA_F16, "gpu_fma_f16", "FLOP/s", "packed float16 multiply-adds, without tensor cores") \
    X(GPU_GEMM_BF16, "gpu_gemm_bf16", "FLOP/s", "bfloat16 products, cuBLASLt")                    \
    X(GPU_GEMM_F16, "gpu_gemm_f16", "FLOP/s", "float16 products, cuBLASLt")                       \
    X(GPU_GEMM_TF32, "gpu_gemm_tf32", "FLOP/s", "float32 products with tensor cores, cuBLASLt")   \
    X(GPU_GEMM_F32, "gpu_gemm_f32", "FLOP/s", "float32 products, cuBLASLt")                       \
    X(GPU_TO_DEVICE, "gpu_to_device", "B/s", "copies from page-locked host memory")               \
    X(GPU_TO_HOST, "gpu_to_host", "B/s", "copies to page-locked host memory")                     \
    X(GPU_LAUNCH, "gpu_launch", "s", "an empty kernel, one launch after the other")               \
    X(GPU_LAUNCH_HOST, "gpu_launch_host", "s", "the host's part of it")                           \
    X(GPU_GRAPH_NODE, "gpu_graph_node", "s", "an empty kernel as node of a graph")                \
    X(GPU_GRAPH_LAUNCH, "gpu_graph_launch", "s", "the host's part of launching that graph")

#define X(ID, name, unit, help) ROOF_##ID,
enum roof_id { ROOFS(X) ROOF_COUNT };
#undef X

enum { ROOF_SAMPLES = 20 };

struct roof {
    int64_t n;                /* samples; 0 = not measured */
    double median, low, high; /* quartiles; in the unit of ROOFS */
    double buffer_bytes;      /* of one operand of a stream or copy; NAN = none */
    double size;              /* m = n = k of a product, nodes of a graph; NAN = none */
    bool gpu;                 /* `under` is filled */
    struct gpu_conditions under;
    int64_t rejected; /* samples that did not count */
    const char *why;  /* reason for n == 0, or NULL */
};

struct roofs_gpu { /* which GPU, and by what it was driven */
    const char *name, *uuid, *compute_capability, *driver, *cuda, *nvrtc, *cublaslt;
    int64_t sms, memory_bytes, l2_bytes;
    double power_limit_w, max_sm_mhz, max_memory_mhz;
    int64_t pcie_generation, pcie_lanes;
    bool mig;
    int64_t kernels_compiled, kernels_from_cache;
    double kernels_s; /* until the kernels were there */
};

struct roofs {
    int64_t started_wall_ns, ended_wall_ns;
    bool has_gpu;
    struct roofs_gpu gpu;
    const char *no_gpu;           /* why there is none; NULL with one */
    struct contention contention; /* while the host was measured */
    struct roof roof[ROOF_COUNT];
};

struct roofs_params {
    int gpu;                           /* ordinal */
    const char *cache;                 /* folder of compiled kernels; NULL = none */
    const volatile sig_atomic_t *stop; /* raised by a signal; NULL = never */
    double warm_up_s, sample_s;        /* of a roof, of each of its samples; 0 = 0.2 and 0.02 */
};

const char *roof_name(unsigned id);
const char *roof_unit(unsigned id);

/* Texts live in the arena. Takes some 10 s; progress goes to stderr. A GPU that is missing leaves
 * its roofs out and its reason in no_gpu; one that fails, or an interruption, is an error. */
enum st roofs_measure(struct arena *a, const struct roofs_params *p, struct roofs *out,
                      struct err *e);

void roofs_begin(struct roofs *out); /* nothing is known */

/* Parts of roofs_measure. */
enum st roofs_measure_host(const struct roofs_params *p, struct roofs *out, struct err *e);
enum st roofs_measure_gpu(struct arena *a, const struct roofs_params *p, struct roofs *out,
                          struct err *e);
/* Median and quartiles of n samples, which are sorted. 0 samples leave the roof as it is. */
void roof_set(struct roof *r, double *samples, size_t n);
enum st roofs_stopped(const struct roofs_params *p, struct err *e); /* ST_INTERRUPTED or ST_OK */

/* The document, with host and tool. */
struct node *roofs_node(struct arena *a, const struct roofs *r);
/* Parents are made; a file that is there is replaced. */
enum st roofs_write(const char *path, const struct roofs *r, struct err *e);

#endif
