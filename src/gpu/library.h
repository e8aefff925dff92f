/* NVIDIA's libraries, opened at run time: none is linked or required. dlopen is called in this
 * folder only (and in the guest library). */
#ifndef GPU_LIBRARY_H
#define GPU_LIBRARY_H

#include "base/arena.h"
#include "gpu/cuda.h"
#include "gpu/nvml.h"

/* Both ST_DEVICE with a remedy as hint when the library or a needed function is missing, or its
 * initialization fails. Opened libraries stay. */
enum st gpu_cuda_open(struct gpu_cuda *out, struct err *e); /* after cuInit */
enum st gpu_nvml_open(struct gpu_nvml *out, struct err *e); /* after nvmlInit */

/* Facts of a library, found without initializing it. */
struct gpu_library {
    const char *name;    /* as requested: "libcupti.so.13" */
    const char *path;    /* where it was found; NULL = not found */
    const char *version; /* as reported by it, or NULL */
    const char *missing; /* first needed function that it lacks, or NULL */
    const char *absent;  /* optional functions that it lacks, "a, b", or NULL */
};
enum gpu_library_id {
    GPU_LIB_CUDA,
    GPU_LIB_NVML,
    GPU_LIB_CUPTI,
    GPU_LIB_CUBLASLT,
    GPU_LIB_CUDNN,
    GPU_LIB_NVRTC,
    GPU_LIB_NCCL,
    GPU_LIBS
};
/* Looks the library up under its names, best first, in the loader's path and the usual folders. */
void gpu_library_look(struct arena *a, enum gpu_library_id id, struct gpu_library *out);

#endif
