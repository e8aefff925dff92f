/* One GPU, opened to compute: its context, its memory, and errors in words.
 *
 * An error names what was being done, NVIDIA's name of the result and its number, and has a remedy
 * where there is one:
 *
 *     cannot allocate the KV cache, 96.0 GiB
 *       because: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): 12.3 GiB of 139.8 GiB are free on GPU 0
 *       hint: other processes may hold its memory: nvidia-smi lists them
 *
 * Threads: the context belongs to the GPU and is current on the thread that opened it; another
 * thread calls gpu_use first. */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include "base/err.h"
#include "gpu/cuda.h"
#include "gpu/driver.h"

struct gpu {
    struct gpu_cuda cuda;     /* facts */
    struct gpu_driver driver; /* all that computes */
    int driver_version;       /* of CUDA, 13000 = 13.0 */
    int ordinal;
    CUdevice device;
    CUcontext context; /* the device's primary one, which libraries use too */
    struct gpu_device facts;
    size_t free_bytes, total_bytes; /* when it was opened */
};

/* ST_DEVICE: no driver, an old one, no such device, a context that cannot be made. On failure *out
 * is zeroed. */
enum st gpu_open(int ordinal, struct gpu *out, struct err *e);
void gpu_close(struct gpu *g); /* waits for the device; zeroed is fine */
enum st gpu_use(const struct gpu *g, struct err *e);
/* Waits until all work of the device is done: faults of kernels show up here at the latest. */
enum st gpu_wait(const struct gpu *g, struct err *e);

/* ST_OK for CUDA_SUCCESS, else ST_DEVICE: "<call>: CUDA_ERROR_... (n)", with the remedy. */
enum st gpu_check(const struct gpu *g, CUresult result, const char *call, struct err *e);
/* The result after which the context is lost: every later call fails the same way. */
bool gpu_is_fatal(CUresult result);

/* ---- memory ---------------------------------------------------------------------------------- */

/* `what` as in "the KV cache". Aligned to 256 bytes at least. 0 bytes gives 0. */
enum st gpu_alloc(const struct gpu *g, size_t bytes, const char *what, CUdeviceptr *out,
                  struct err *e);
void gpu_free(const struct gpu *g, CUdeviceptr *at); /* clears it; 0 is fine */
enum st gpu_free_bytes(const struct gpu *g, size_t *free_bytes, struct err *e);

/* Host memory that copies of the GPU reach without a detour (page-locked). */
enum st gpu_host_alloc(const struct gpu *g, size_t bytes, const char *what, void **out,
                       struct err *e);
void gpu_host_free(const struct gpu *g, void **at);

/* In the order of the stream; NULL = the default one. A host side that is not page-locked is copied
 * before the call returns (upload) or must not be looked at before the stream is done. */
enum st gpu_upload(const struct gpu *g, CUdeviceptr to, const void *from, size_t bytes,
                   CUstream stream, struct err *e);
enum st gpu_download(const struct gpu *g, void *to, CUdeviceptr from, size_t bytes, CUstream stream,
                     struct err *e);
enum st gpu_copy(const struct gpu *g, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                 CUstream stream, struct err *e);
enum st gpu_fill(const struct gpu *g, CUdeviceptr to, unsigned char byte, size_t bytes,
                 CUstream stream, struct err *e);

#endif
