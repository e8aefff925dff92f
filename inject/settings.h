/* The settings file of the recorder: lines "key=value", '#' starts a comment. Unknown keys and
 * values that cannot be read are told in the spool and keep their default. In paths and ranges a
 * backslash makes # , @ and itself ordinary: "range=step\#1\, warm@*".
 *
 *     dir=/data/trace           folder of the spools
 *     kernels=1 copies=1 sync=1 nvtx=1 launches=1     what is recorded
 *     graphs=node | graph       CUDA graphs: every node, or one record a launch (cheaper); chosen
 *                               before the first of them, for good: fix_graph_level in cupti.c
 *     api=none | runtime | driver | all               API records
 *     range=decode@*,LLM@serve  record only inside these NVTX ranges: range@domain, '*' for any run
 *                               of characters; without '@' the default domain
 *     profiler=1                record only between cuProfilerStart and cuProfilerStop
 *     delay_ms=0 duration_ms=0  record from, and for, so long after the start; 0 = no limit
 *     flush_ms=500              how much a killed process may lose
 *     buffer_kb=4096 buffers=128 ring_events=32768    memory
 *     cupti=/path/libcupti.so   instead of the one that is loaded or found
 */
#ifndef INJECT_SETTINGS_H
#define INJECT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SETTINGS_PATH = 1024, SETTINGS_PATTERNS = 8, SETTINGS_PATTERN = 128 };

enum { API_NONE = 0, API_DRIVER = 1, API_RUNTIME = 2, API_ALL = 3 };

struct settings_pattern {
    char range[SETTINGS_PATTERN], domain[SETTINGS_PATTERN];
};

struct settings {
    char dir[SETTINGS_PATH], cupti[SETTINGS_PATH];
    bool kernels, copies, sync;
    _Atomic bool nvtx, launches; /* asked for by threads that hold no lock */
    bool whole_graphs;           /* graphs=graph */
    int api;                     /* API_... */
    struct settings_pattern patterns[SETTINGS_PATTERNS];
    int n_patterns;
    bool profiler;
    int64_t delay_ns, duration_ns;
    int64_t flush_ns;
    int64_t buffer_bytes, max_buffers, ring_events;
    char complaint[256]; /* the first line that was not understood, "" = none */
};

/* From TWINFER_TRACE's value: a file, or a folder. False when there is no folder to write to. dir
 * comes out absolute. */
bool settings_read(struct settings *s, const char *value);
/* One pair. False (and complaint) when it is not understood: nothing else has changed then. */
bool settings_set(struct settings *s, const char *key, const char *value);

/* `pattern` with '*' against the whole text. */
bool settings_match(const char *pattern, const char *text, size_t bytes);

#endif
