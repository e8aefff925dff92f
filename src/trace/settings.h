/* Settings of the recorder, and how `twinfer trace` passes them. Both sides include this:
 * trace/record.c writes, inject/settings.h reads.
 *
 * Three variables of the environment: TWINFER_TRACE names the settings file, or a folder, which
 * stands for the settings `dir=<folder>` alone; the driver and NVTX load the recorder's library by
 * variables of theirs.
 *
 * The file has lines "key=value", '#' starts a comment. Unknown keys and malformed values are noted
 * in the spool; defaults stay. In paths and ranges a backslash makes # , @ and itself ordinary:
 * "range=step\#1\, warm@*".
 *
 *     dir=/data/trace           folder of the spools
 *     kernels=1 copies=1 sync=1 nvtx=1 launches=1     what is recorded
 *     graphs=node | graph       CUDA graphs: every node, or one record a launch (cheaper); chosen
 *                               before the first of them, for good: fix_graph_level in cupti.c
 *     api=none | runtime | driver | all               API records
 *     range=decode@*,LLM@serve  record only inside these NVTX ranges: range@domain, '*' for any run
 *                               of characters; without '@' the default domain
 *     profiler=1                record only between cuProfilerStart and cuProfilerStop
 *     graph_first=3 graph_last=6    record only from the third launch of a CUDA graph to the sixth,
 *                               as this process counts them, with profiler=1 those between its
 *                               calls alone; 0 = not asked for
 *     capture=3                 capture the third time that range=, profiler= or graph_first= opens
 *                               the gate as a capsule (capsule/format.h); 0 = none
 *     delay_ms=0 duration_ms=0  record from, and for, so long after the start; 0 = no limit
 *     flush_ms=500              how much a killed process may lose; a fiftieth behind its last work
 *     buffer_kb=4096 buffers=128 ring_events=32768    memory
 *     cupti=/path/libcupti.so   instead of the loaded or found one */
#ifndef TRACE_SETTINGS_H
#define TRACE_SETTINGS_H

#define TRACE_SETTINGS_VARIABLE "TWINFER_TRACE"
#define TRACE_DRIVER_VARIABLE   "CUDA_INJECTION64_PATH"
#define TRACE_NVTX_VARIABLE     "NVTX_INJECTION64_PATH"

/* Key, how its value is read, and the field of struct settings (inject/settings.h). */
#define TRACE_SETTINGS_TABLE(X)          \
    X(dir, path, dir)                    \
    X(cupti, path, cupti)                \
    X(kernels, flag, kernels)            \
    X(copies, flag, copies)              \
    X(sync, flag, sync)                  \
    X(nvtx, shared_flag, nvtx)           \
    X(launches, shared_flag, launches)   \
    X(graphs, graphs, graphs)            \
    X(api, api, api)                     \
    X(range, ranges, patterns)           \
    X(profiler, flag, profiler)          \
    X(graph_first, ordinal, graph_first) \
    X(graph_last, ordinal, graph_last)   \
    X(capture, ordinal, capture)         \
    X(delay_ms, ms, delay_ns)            \
    X(duration_ms, ms, duration_ns)      \
    X(flush_ms, ms, flush_ns)            \
    X(buffer_kb, kb, buffer_bytes)       \
    X(buffers, count, max_buffers)       \
    X(ring_events, ring, ring_events)

/* TRACE_SETTING(copies) is "copies", and an error of the compiler where no such key is. */
enum trace_setting {
#define X(key, type, field) TRACE_SETTING_##key,
    TRACE_SETTINGS_TABLE(X)
#undef X
};
#define TRACE_SETTING(key) ((void)TRACE_SETTING_##key, #key)

/* Values by number: graphs=node is TRACE_GRAPHS_NODE. */
enum { TRACE_GRAPHS_NODE, TRACE_GRAPHS_WHOLE };
#define TRACE_GRAPHS_WORDS \
    {                      \
        "node", "graph"    \
    }
enum { TRACE_API_NONE, TRACE_API_DRIVER, TRACE_API_RUNTIME, TRACE_API_ALL }; /* bits */
#define TRACE_API_WORDS                    \
    {                                      \
        "none", "driver", "runtime", "all" \
    }

enum {
    TRACE_RANGES = 8,        /* most patterns of range= */
    TRACE_RANGE_BYTES = 128, /* of a range's or a domain's pattern, with a NUL */
};
#define TRACE_ESCAPED "#,@\\" /* bytes that a backslash escapes */

#endif
