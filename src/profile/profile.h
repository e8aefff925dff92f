/* The profiler: drives an executor over a grid of batches, takes per-operator times in context,
 * measures the host overhead per iteration through the serving loop, writes a bundle. Any executor
 * with EXEC_OP_TIMES can be profiled.
 *
 * Whole forward passes are measured, never an operator alone, so that caches are as in a real run.
 * Every grid point (profile/grid.h) is measured `samples` times in rounds of shuffled order, so
 * that a slow phase of the machine touches all of them, after `warmup` passes; a point with
 * POINT_ENOUGH_S of machine time and three samples is done earlier. With a time budget the grid is
 * refined level by level only while three rounds over it fit, and sampling stops when the budget is
 * used up.
 *
 * Host overhead is an iteration's time beyond its operators, by batch size: the duration of the
 * loop's batch rows (serve.h) minus the operators' time, from short runs of the serving loop in
 * which new requests replace finished ones.
 *
 * Finished samples are kept in <root>/.partial/<hardware>/<model>/ and picked up again after an
 * interruption (same model, grid, device and settings only; otherwise it starts anew, with a log
 * line). The finished bundle is renamed into place; one that exists is refused before anything is
 * measured. Layout and columns: docs/formats.md; meaning of the figures: docs/methodology.md. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <signal.h>

#include "artifact/artifact.h"
#include "model/model.h"
#include "profile/grid.h"
#include "profile/power.h"
#include "serve/clock.h"
#include "serve/executor.h"

struct profile_params {
    const char *root, *hardware, *model_name;
    const char *network_device; /* NULL = hardware */
    const char *device;
    const char
        *settings; /* other settings that affect times, "threads=2"; part of the resume key */
    const struct model *model;
    int64_t block_size; /* tokens per block of the executor's cache */
    int64_t num_blocks; /* blocks of the cache; points that need more are dropped */
    int64_t max_tokens; /* of a batch */
    int64_t max_batch;  /* sequences */
    int64_t max_kv;     /* tokens of a sequence, cached and new; cut to the model's max_positions */
    int64_t samples, warmup;
    double time_budget_s; /* of executor time; 0 = none */
    int64_t tp;
    uint64_t seed;
    bool extend;                     /* extend an existing bundle by another session */
    bool calibration_only;           /* extend its calibration run alone, with the whole budget */
    const struct power_meter *meter; /* measure power of operators too (power.h); NULL = not */
    double energy_budget_s;          /* for that, beside time_budget_s */
    struct serve_clock *clock;     /* the executor's; reset to 0 for each run of the serving loop */
    const struct node *config;     /* snapshot for the meta, or NULL */
    const struct node *provenance; /* device facts for bundle_meta.json, or NULL */
};

/* The bundle's compute folder in *dir. ST_USAGE: a name that cannot be a folder, the bundle exists
 * already, or calibration_only and there is none to extend. ST_DEVICE: the executor gives no
 * operator times. ST_INTERRUPTED: *stop was set; the same call resumes later. Nothing is written in
 * the first two cases. */
enum st profile_run(struct arena *a, const struct profile_params *p, struct executor ex,
                    const volatile sig_atomic_t *stop, const char **dir, struct err *e);

/* What profile_run would refuse of the place, without an executor: the bundle exists already, there
 * is none to extend (ST_USAGE), folders cannot be made (ST_IO). Leaves nothing behind. */
enum st profile_check_place(struct arena *a, const struct profile_params *p, struct err *e);

/* Limits of the grid, within the model's. An engine's cache is planned for its longest sequences,
 * as many as a batch holds. */
struct grid_limits profile_limits(const struct profile_params *p);

#endif
