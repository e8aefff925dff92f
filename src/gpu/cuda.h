/* libcuda, opened at run time, and facts of a GPU.
 *
 * The list declares the functions used with basic types, so that no CUDA header is needed: X(name,
 * arguments, needed). Handles are pointers, results are CUresult's numbers (0 = success). */
#ifndef GPU_CUDA_H
#define GPU_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_CUDA_LIST(X)                                                                       \
    X(cuInit, (unsigned flags), 1)                                                             \
    X(cuDriverGetVersion, (int *version), 1)                                                   \
    X(cuDeviceGetCount, (int *n), 1)                                                           \
    X(cuDeviceGet, (int *device, int ordinal), 1)                                              \
    X(cuDeviceGetName, (char *name, int bytes, int device), 1)                                 \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device), 1)                        \
    X(cuDeviceTotalMem_v2, (size_t * bytes, int device), 1)                                    \
    X(cuDeviceGetUuid_v2, (unsigned char uuid[16], int device), 0)                             \
    X(cuDeviceGetUuid, (unsigned char uuid[16], int device), 0)                                \
    X(cuGetErrorString, (int result, const char **text), 0)                                    \
    X(cuKernelGetFunction, (void **function, void *kernel), 0) /* CUDA 12.0 */                 \
    X(cuFuncGetName, (const char **name, void *function), 0)   /* CUDA 12.3 */                 \
    X(cuMemAddressReserve,                                                                     \
      (uint64_t * at, size_t bytes, size_t align, uint64_t want, unsigned long long flags), 0) \
    X(cuGraphLaunch, (void *graph, void *stream), 0)

struct gpu_cuda {
#define X(name, arguments, needed) int(*name) arguments;
    GPU_CUDA_LIST(X)
#undef X
};

#define GPU_CUDA_LIBRARY "libcuda.so.1"

/* Fill the table from an open library (dlopen's handle); absent symbols are NULL. Returns the name
 * of the first needed one that is missing, or NULL. Needs libc only: the guest library uses it. */
const char *gpu_cuda_bind(struct gpu_cuda *cuda, void *library);

struct gpu_device { /* 0 = unknown */
    char name[96];
    uint8_t uuid[16];
    uint32_t major, minor, sms, max_threads_per_sm, max_shared_bytes_per_sm;
    uint32_t max_shared_bytes_per_block; /* that a kernel may ask for */
    uint32_t sm_clock_khz, memory_clock_khz, bus_width_bits, l2_bytes;
    uint32_t pci_domain, pci_bus, pci_device;
    uint64_t memory_bytes;
    uint64_t bandwidth_bytes_per_s; /* peak: 2 * memory clock * bus width */
};
/* Facts of a CUDA ordinal after cuInit. False when there is no such device. libc only. */
bool gpu_device_facts(const struct gpu_cuda *cuda, int ordinal, struct gpu_device *out);

enum { GPU_UUID_TEXT = 41 };
/* "GPU-1b2c...", as nvidia-smi and NVML write it; matches indices of CUDA and NVML. */
void gpu_uuid_text(const uint8_t uuid[16], char out[GPU_UUID_TEXT]);

#endif
