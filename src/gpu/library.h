/* NVIDIA's libraries, opened at run time: none is linked or required. dlopen is called in this
 * folder only (and in the guest library). A library is looked for under its names, best first, by
 * the loader and then in the usual folders (gpu/places.h). */
#ifndef GPU_LIBRARY_H
#define GPU_LIBRARY_H

#include "base/arena.h"
#include "gpu/cublaslt.h"
#include "gpu/cuda.h"
#include "gpu/cupti.h"
#include "gpu/driver.h"
#include "gpu/nvml.h"
#include "gpu/nvrtc.h"

/* All ST_DEVICE with a remedy as hint when the library or a needed function is missing, or its
 * initialization fails. Opened libraries stay. */
enum st gpu_cuda_open(struct gpu_cuda *out, struct err *e); /* after cuInit */
enum st gpu_nvml_open(struct gpu_nvml *out, struct err *e); /* after nvmlInit */
/* The functions that compute; after gpu_cuda_open. */
enum st gpu_driver_open(struct gpu_driver *out, struct err *e);
/* driver_version: the CUDA version that the driver speaks, 13000 = 13.0: a library of a newer major
 * version does not run on it and is passed over. 0 = unknown: any. Texts live in the arena. */
enum st gpu_nvrtc_open(struct arena *a, int driver_version, struct gpu_nvrtc *out, struct err *e);
enum st gpu_cublaslt_open(struct arena *a, int driver_version, struct gpu_cublaslt *out,
                          struct err *e);
enum st gpu_cupti_open(struct arena *a, int driver_version, struct gpu_cupti *out, struct err *e);

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
void gpu_library_look(struct arena *a, enum gpu_library_id id, struct gpu_library *out);

#endif
