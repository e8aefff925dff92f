/* Stand-ins for libcuda, NVRTC, cuBLASLt, CUPTI and NVML, each a shared library under its real name
 * in <build>/tests/fakes/gpu. A program gets them by LD_LIBRARY_PATH, with the twins of
 * engine/cuda/kernels.h; a test that links fake_gpu_cuda can add others. They know as much of the
 * real interfaces as src/gpu declares.
 *
 * The device is host memory. Kernels are their twins in C. Work of a stream runs when
 * something waits for it, never earlier, and then that stream's alone and what it waits for by
 * events: a wait that is missing shows as old data. New memory is filled with 0xcd; copies and sets
 * outside of allocations are CUDA_ERROR_ILLEGAL_ADDRESS, and as on a GPU every later call then
 * gives the same. Device time is virtual: a copy takes bytes / 100 GB/s, of the host 12.5 GB/s,
 * a matrix product 2 m n k / 3 TFLOP/s times its algorithm's factor, a kernel 12 us or what its
 * twin says.
 *
 * FAKE_GPU in the environment is the script, words joined by ';', read anew when it changed, or
 * "@FILE", the file that holds it:
 *
 *     memory=N          MiB of the device (256)
 *     fresh=N           byte that new memory is filled with (205)
 *     devices=N         (1)
 *     apart=1           allocations at places of their own, far from the heap, as a driver gives
 *                       them: what a replay can reserve again
 *     driver=N          CUDA version of the driver (13000)
 *     sm=N              compute capability (90)
 *     nvrtc=N           version (1300), 1208 = 12.8
 *     cublaslt=N        version (130000)
 *     archs=N           newest architecture that NVRTC knows (120)
 *     reasons=N         why clocks are held down, NVML's bits (4)
 *     power_mw=N        power of the GPU (650000); see nvml.c for power over time
 *     own=1, processes=N  that compute on it: this one, others (0)
 *     pid0=PID, also0=PID  that compute on the first device, too; pid1 on the second, ...
 *     cupti=N           version of CUPTI's interface (130000)
 *     cupti_ns=N        what records add to the time between two kernels (0)
 *     drop=1            CUPTI drops every record
 *     fail NAME N CODE  call N (from 1) of a function returns CODE; for "kernel:NAME" the fault
 *                       comes when the kernel runs. N+ = that one and all later ones */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/module.h"

#define FAKE_EXPORT __attribute__((visibility("default")))

/* A kernel's body here: called once per launch with the launch's shape and the addresses of its
 * arguments, computes what the whole grid computes. Pointers among the arguments can be followed.
 */
struct fake_twin {
    void (*run)(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                void **params);
    const uint16_t *param_bytes; /* of each argument, in order; ends with 0 */
    const void *ctx;             /* the twin's own */
    int tag;
    const char *kernel; /* set by the device */
    uint16_t one[2];    /* room for the sizes of a single argument */
};
/* Looks a kernel up by its extern "C" name; false = another source may have it. */
typedef bool fake_twin_find(const char *kernel, struct fake_twin *out);

/* ---- for tests: libcuda.so.1 exports these ---- */

/* The source that was added last is asked first. */
FAKE_EXPORT void fake_gpu_twins(fake_twin_find *find);
FAKE_EXPORT void fake_gpu_spend_s(double s);    /* called by a twin: the device time it takes */
FAKE_EXPORT int64_t fake_gpu_allocations(void); /* that are not freed, of device and host */
FAKE_EXPORT int64_t fake_gpu_launches(const char *kernel); /* that have run; NULL = all kernels */
/* Launches by cuLaunchKernelEx with that attribute, captured ones included. */
FAKE_EXPORT int64_t fake_gpu_attributes(int id);
FAKE_EXPORT void fake_gpu_reset(void); /* forget a fault, counts and times; memory stays */

/* ---- for the other fakes ---- */

/* Called for each operation that has run, with its times on the virtual clock; a matrix product of
 * cuBLASLt is "fake_gemm", rows of a copy or set beyond the first are not told. */
struct fake_work {
    enum fake_work_kind { FAKE_WORK_KERNEL, FAKE_WORK_COPY, FAKE_WORK_SET } kind;
    const char *name; /* of a kernel */
    double start_s, end_s;
    uint32_t launch; /* its number, rising; the same for all nodes of a graph's */
    uint64_t node;   /* of a graph, rising in the order in which nodes were made; 0 = none */
};
FAKE_EXPORT void fake_gpu_on_work(void (*on)(const struct fake_work *w));

/* Appends work to a stream. ctx is made with malloc, begins with its size in a size_t, holds no
 * pointers of its own and is freed when the work is done. */
FAKE_EXPORT void fake_gpu_enqueue(CUstream stream, void (*run)(void *ctx), void *ctx);

/* script.c, in each of them */
int fake_script_fail(const char *call); /* counts the call; what it returns, 0 = success */
int64_t fake_script_number(const char *key, int64_t otherwise);

#endif
