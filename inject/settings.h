/* The settings of the recorder, read from the file of TWINFER_TRACE (manual: trace/settings.h).
 * libc only, no allocation. */
#ifndef INJECT_SETTINGS_H
#define INJECT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/settings.h"

enum { SETTINGS_PATH = 1024 };

struct settings_patterns {
    struct {
        char range[TRACE_RANGE_BYTES], domain[TRACE_RANGE_BYTES];
    } list[TRACE_RANGES];
    int n;
};

struct settings {
    char dir[SETTINGS_PATH], cupti[SETTINGS_PATH];
    bool kernels, copies, sync;
    _Atomic bool nvtx, launches; /* read without a lock */
    int graphs, api;             /* TRACE_GRAPHS_..., TRACE_API_... */
    struct settings_patterns patterns;
    bool profiler;
    int64_t graph_first, graph_last; /* launches of CUDA graphs, from 1; 0 = not asked for */
    int64_t capture;                 /* which opening of the gate, from 1; 0 = none */
    int64_t delay_ns, duration_ns;
    int64_t flush_ns;
    int64_t buffer_bytes, max_buffers, ring_events;
    char complaint[256]; /* the first invalid line, "" = none */
};

/* Reads the value of TWINFER_TRACE: a file, or a folder. False when there is no folder to write to.
 * dir becomes absolute. */
bool inject_settings_read(struct settings *s, const char *value);
/* Sets one pair. False (and complaint) when invalid: nothing else has changed then. */
bool inject_settings_set(struct settings *s, const char *key, const char *value);

/* Matches `pattern` with '*' against the whole text. */
bool inject_settings_match(const char *pattern, const char *text, size_t bytes);

#endif
