/* The GPU whose power is measured, under both of its names: CUDA's ordinal and NVML's handle,
 * matched by UUID; who else uses it; the load that a probe puts on it. */
#ifndef ENERGY_BOARD_H
#define ENERGY_BOARD_H

#include <signal.h>

#include "gpu/device.h"
#include "gpu/nvml.h"
#include "gpu/watch.h"

struct board {
    int gpu; /* CUDA's ordinal */
    char name[96], uuid[GPU_UUID_TEXT];
    struct gpu_nvml nvml;
    void *device; /* NVML's */
};
/* ST_DEVICE: no driver, no such GPU, or NVML does not know it. */
enum st board_open(int gpu, struct board *out, struct err *e);

/* All GPUs of the machine as NVML counts them, whatever CUDA_VISIBLE_DEVICES says: their `gpu` is
 * NVML's index, which is nvidia-smi's. ST_DEVICE: no NVML, or a GPU that it does not describe. */
enum st board_list(struct arena *a, struct board **out, size_t *n, struct err *e);

/* Pids of the processes that compute on it, in NVML's namespace (gpu/nvml.h): how many there are;
 * BOARD_PROCESSES + 1 or more when they are too many to be told; -1 = NVML does not say. */
enum { BOARD_PROCESSES = 256 };
int board_processes(const struct board *b, int64_t pids[BOARD_PROCESSES]);

/* Processes that compute on the GPU, without this one; -1 = NVML does not say. own: this process
 * has a context there. In a pid namespace of its own its pid is another there: one of them is then
 * taken for it. */
int board_others(const struct board *b, bool own);
/* Looks again for half a second while there are some: one that has just ended may still be listed.
 */
int board_others_settled(const struct board *b, bool own);
/* ST_REJECTED when another process computes on it: its power would be charged to what is measured.
 */
enum st board_alone(const struct board *b, bool own, struct err *e);

/* Copies within device memory, one after the other without gaps, until the monotonic time or *stop
 * (NULL = never): a steady load far above idle. Needs the open GPU. */
enum st board_load(const struct gpu *g, int64_t until_ns, const volatile sig_atomic_t *stop,
                   struct err *e);

#endif
