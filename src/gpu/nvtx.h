/* NVTX ranges of this program itself, for any tool that listens: twinfer's recorder (inject/),
 * Nsight Systems, Nsight Compute.
 *
 * This is what NVIDIA's headers compile into a program, without them: the library that
 * NVTX_INJECTION64_PATH names is loaded and offered the tables of gpu/abi/nvtx.h, once. Where that
 * variable is not set nobody listens, and a range costs one look at a flag.
 *
 * Ranges nest within a thread, in NVTX's default domain. A range's numbers travel as a payload of
 * NVTX's extension, under the names of their set; a tool without that extension sees the range
 * without them. */
#ifndef GPU_NVTX_H
#define GPU_NVTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_RANGE_NUMBERS = 6 }; /* of a range; the recorder keeps no more */

/* Names of the numbers of ranges of one kind: a static object, borrowed for ever. */
struct gpu_range_names {
    const char *names[GPU_RANGE_NUMBERS];
    size_t n;
    uint64_t schema; /* of the tool, once it is known; begins as 0 */
};

/* Whether a tool listens; the first call, from any thread, loads it. */
bool gpu_ranges_heard(void);
/* `names` NULL: without numbers. Values stand in the order of the names. Nothing where nobody
 * listens; `name` is read before it returns. */
void gpu_range_begin(const char *name, struct gpu_range_names *names, const int64_t *values);
void gpu_range_end(void); /* the last one begun in this thread */

#endif
