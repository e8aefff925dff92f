/* Replay: GPU work done again without the program that it came from, to be timed and compared.
 *
 * replay_signatures, for traces without a capsule, times what a kernel's signature determines:
 * copies and sets of so many bytes (tier 1), and matrix products of a known shape and type as
 * cuBLASLt does them (tier 2). What a kernel of tier 3 computes is not in its signature: it is
 * counted and not measured.
 *
 * replay_capsule does the very work of a captured region, in a process of its own
 * (replay/worker.h): it compares what that produces with what the program produced
 * (replay/verify.h), and times the region, and each of its classes of operations alone and inside
 * it (replay/measure.h, replay/node_times.h).
 *
 * Times are those of replay/timing.h, files those of replay/timing_files.h. Texts live in the
 * arena. */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include "config/option.h"
#include "gpu/watch.h"
#include "replay/timing_files.h"

struct replay_params {
    int gpu; /* ordinal */
    struct timer_params timer;
    bool cold; /* measure cold times too */
};

/* What kernel_signatures.json lists: read before a GPU is touched. */
struct replay_signatures {
    const char *source; /* path */
    struct replay_signature *p;
    size_t n;
};

struct replay_signature {
    const char *name;
    int tier;
    int64_t count;
    int64_t bytes; /* of a copy or set; 0 = unknown */
    double app_s;  /* mean of one in the trace; NAN = unknown */
    struct replay_product {
        int64_t batch, m, n, k, count;
        const char *dtype; /* as the source writes it; NULL = unknown */
    } * products;          /* of tier 2, [n_products] */
    size_t n_products;
};

/* ST_INPUT at file:line:column. */
enum st replay_signatures_read(struct arena *a, const char *path, struct replay_signatures *out,
                               struct err *e);

struct replay_outcome {
    struct replay_kernels kernels; /* in the order of the input */
    struct gpu_conditions under;   /* while it was measured */
    struct gpu_device gpu;
};

/* ST_DEVICE: no GPU, or it failed. ST_INTERRUPTED: *out has what was measured until then. */
enum st replay_signatures(struct arena *a, const struct replay_signatures *s,
                          const struct replay_params *p, struct replay_outcome *out, struct err *e);

/* ---- capsules -------------------------------------------------------------------------------- */

enum replay_task {
    REPLAY_TRIAL,  /* does it run at all? */
    REPLAY_VERIFY, /* alone */
    REPLAY_TIME,   /* alone */
    REPLAY_BOTH,
    REPLAY_EXTRACT, /* operation `dispatch` into a capsule at `extract`, which is then tried */
    REPLAY_HOLD,    /* the region, and kernels, over and over for a sensor of power */
};

/* How long is waited. Beyond what samples and windows ask for by themselves; 0 = for ever. */
struct replay_limits {
    double total_s;  /* all of it: what was not measured until then is told */
    double kernel_s; /* a kind of kernel alone, or one loop: one that does not end is left out */
    const volatile sig_atomic_t *stop; /* raised by a signal: heeded within a second; or NULL */
};

enum replay_order { REPLAY_GRAPH, REPLAY_STREAMS };

/* Rows: replay/options.c. What they do not fill is of the run. */
struct replay_capsule_params {
    const char *dir;
    const char *signatures; /* no capsule: replay_signatures_read */
    enum replay_task task;
    int64_t gpu;
    double sample_ms;          /* timer.sample_s */
    struct timer_params timer; /* its stop: limits.stop counts */
    struct replay_limits limits;
    int64_t region_runs;  /* the region is launched so often at least while it is timed or held */
    struct texts classes; /* to be timed, as of replay_classes_choose; none = all */
    double hold_s;        /* of REPLAY_HOLD: each loop, the region twice as long */
    const int64_t *alone, *pooled; /* numbers of kernels: a loop each; all in one loop, in the
                                    * proportions of the region. [n_alone], [n_pooled] */
    size_t n_alone, n_pooled;
    const int64_t *in_front; /* [n_in_front] kernels that an earlier replay told so; NULL = none */
    size_t n_in_front;
    bool cold, repeated;     /* these times too */
    enum replay_order order; /* of the region */
    double tolerance;        /* of verification, with */
    int dtype;               /* enum verify_dtype */
    int64_t dispatch;        /* this operation alone; -1 = the region */
    const char *extract;
};
extern const struct option_section replay_options;

/* What was repeated without gaps; n 0: it failed, `why` says how. */
struct replay_held {
    struct timing time; /* a step is one operation, or one run of the region */
    struct gpu_conditions under;
    const char *why;
};

struct replay_report {
    bool loaded;
    struct replay_held *held; /* of REPLAY_HOLD: the region, each of `alone`, the pool */
    size_t n_held;
    const char *gpu, *uuid; /* where it ran */
    struct replay_kernels kernels;
    struct replay_region region; /* time.n 0: not timed */
    const struct node *verified; /* docs/formats.md; NULL = not */
    int64_t wrong_bytes;         /* of it */
    const char *verdict;         /* of it; NULL = not verified */
    const struct node *extracted;
    struct gpu_conditions under;
    const char *fault; /* of a trial: how the region fails; NULL = it ran */
};

/* Texts and trees live in the arena. ST_INPUT: the capsule; ST_DEVICE: no GPU, one that does not
 * do, addresses that cannot be had, a region that fails, the limit of all. A class that fails
 * alone, or does not end, is reported in its row. ST_INTERRUPTED. */
enum st replay_capsule(struct arena *a, const struct replay_capsule_params *p,
                       struct replay_report *out, struct err *e);

/* The capsule runs from its own contents alone: its region is replayed in a child process. ST_OK
 * with *fault NULL, or saying which operation fails and how: memory that the capsule does not have,
 * most likely. Errors as of replay_capsule. */
enum st replay_trial(struct arena *a, const char *dir, int gpu, const struct replay_limits *limits,
                     const char **fault, struct err *e);

#endif
