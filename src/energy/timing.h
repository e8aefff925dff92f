/* When a model, and each of its kernels alone, was run: the files of a replay, or of the system
 * that twinfer replaces.
 *
 * full_model_timing.json: {start_timestamp, end_timestamp, num_runs, full_model_inference_us,
 * min_time_us, max_time_us}. isolated_kernels_timing.json: {start_timestamp, end_timestamp,
 * kernels: [{name, tier, invocation_count, benchmark_runs, single_time_us, start_timestamp,
 * end_timestamp}]}. Times as in energy/stamp.h.
 *
 * Ours have more members (docs/formats.md). Of them `in_context_us` of a kernel, the mean time of
 * an invocation inside the whole, decides whether its in-context energy can be said. `idle` of an
 * application are times at which it rested with its context open. Clocks,
 * temperature and what limited the clocks are those of the window. A kernel whose times are null
 * was not run alone. */
#ifndef ENERGY_TIMING_H
#define ENERGY_TIMING_H

#include "text/fields.h"

struct timing_window {
    const char *start, *end; /* as written */
    int64_t from_ns, to_ns;  /* as stamps */
    bool zoned;
};

/* The GPU's state in a window; NAN and NULL = unknown. */
struct timing_under {
    double sm_mhz, memory_mhz; /* medians */
    double celsius_high;
    const char *clock_limits; /* "power cap"; "" = none */
};

struct full_timing {
    struct timing_window window;
    struct timing_under under;
    int64_t num_runs;
    double inference_us, min_us, max_us; /* of one run; NAN = unknown */
    const char *source;
    struct timing_window *idle; /* [n_idle] around it: the same program, at rest */
    size_t n_idle;
};

struct kernel_timing {
    struct timing_window window; /* may be shared by several that were run in turn */
    const char *name;
    int64_t tier, invocation_count; /* invocations in one run of the whole */
    int64_t benchmark_runs;         /* invocations in the window; 0 = it was not run alone */
    double single_time_us;          /* NAN = unknown, as these: */
    double in_context_us;           /* of one invocation inside the whole */
    bool pooled;                    /* its window holds other kernels too */
    struct timing_under under;
    double busy_share; /* of its window: while kernels ran, the rest being gaps between them */
    double sets_share; /* of its window: what the sets take that were repeated with it, with gaps */
    double
        as_launched_us; /* as in_context_us, but given to the GPU one by one as the program did */
    double application_us;     /* in the program itself */
    int64_t with_sets;         /* that were repeated with its invocations of one run */
    bool faster_when_repeated; /* by so much that it may do other work there */
};

struct isolated_timing {
    struct timing_window window; /* texts NULL = not said */
    const char *in_context_from; /* "replay", "application": whose times in_context_us are; NULL */
    bool zoned;                  /* of the windows of all kernels */
    struct kernel_timing *kernels;
    size_t n;
    const char *source;
};

/* ST_INPUT at its place: a member that is missing or wrong, a time that is none, an end before its
 * start, times with a zone among others without. Texts live in the arena. */
enum st full_timing_read(struct arena *a, const char *path, struct full_timing *out, struct err *e);
enum st isolated_timing_read(struct arena *a, const char *path, struct isolated_timing *out,
                             struct err *e);

/* The documents; window.start and .end must be set. */
struct node *full_timing_node(struct arena *a, const struct full_timing *t);
struct node *isolated_timing_node(struct arena *a, const struct isolated_timing *t);
/* A window of recorder_now() times, its texts that many seconds east of UTC. */
struct timing_window timing_window_of(struct arena *a, int64_t from_ns, int64_t to_ns,
                                      int64_t utc_offset_s);

#endif
