/* When each kernel of this process ran on the GPU: CUPTI's kernel records, taken for short
 * stretches of work.
 *
 * Make CUDA graphs that are to be recorded between begin and end too: CUPTI knows the kernels of a
 * graph that it has seen being made. Outside of begin .. end no records are taken. Recorded work is
 * slower, for CUPTI puts work of its own around each kernel: take from records how time divides,
 * and how long the whole takes from events without them.
 *
 * CUPTI stays in the process from the first begin on, and the host's launches take longer: on an
 * H200's host 1.55 ms in place of 1.40 for a pass of some 260, and 30 us in place of 3 for a graph.
 * Measure host time before it.
 *
 * One at a time in a process: CUPTI has one set of buffers. On the thread of the GPU. */
#ifndef GPU_RECORDS_H
#define GPU_RECORDS_H

#include "gpu/device.h"

struct gpu_records;

struct gpu_record {
    int64_t start_ns, end_ns; /* of CUPTI's clock */
    const char *name;         /* of the kernel, mangled; lives as long as its module */
};

/* ST_DEVICE: no libcupti for this driver, or one that lacks what is needed. */
enum st gpu_records_open(const struct gpu *g, struct gpu_records **out, struct err *e);
void gpu_records_close(struct gpu_records **r); /* clears it; NULL is fine */
/* Path of the library, and the version of its interface (gpu/cupti.h). */
const char *gpu_records_library(const struct gpu_records *r, uint32_t *version);

/* ST_DEVICE: CUPTI refuses, at the first. */
enum st gpu_records_begin(struct gpu_records *r, struct err *e);
/* Waits for the device. *out: [*n] by start, of all kernels since begin; lives until the next
 * begin. ST_DEVICE: CUPTI dropped some. */
enum st gpu_records_end(struct gpu_records *r, const struct gpu_record **out, size_t *n,
                        struct err *e);

#endif
