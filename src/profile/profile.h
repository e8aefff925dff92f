/* The profiler: drives an executor over a grid of batches, takes per-operator times in context,
 * writes a bundle. Any executor with EXEC_OP_TIMES can be profiled.
 *
 * Every grid point is measured `samples` times, points interleaved so that a slow phase of the
 * machine touches all of them, after `warmup` passes. The host overhead per iteration is what a
 * batch takes beyond its operators when the serving loop drives the executor, by batch size.
 * Finished points are kept in <root>/.partial/<hardware>/<model>/ and picked up again after an
 * interruption (same model, grid and device only). */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <signal.h>

#include "artifact/artifact.h"
#include "model/model.h"
#include "serve/executor.h"

struct profile_params {
    const char *root, *hardware, *network_device, *model_name, *device;
    const struct model *model;
    int64_t block_size;
    int64_t max_tokens, max_batch, max_kv; /* grid limits */
    int64_t samples, warmup;
    double time_budget_s; /* 0 = none; the grid is thinned to fit */
    int64_t tp;
    uint64_t seed;
    const struct node *config;     /* snapshot for the meta */
    const struct node *provenance; /* device facts for bundle_meta.json */
};

/* The bundle's compute folder in *dir. */
enum st profile_run(struct arena *a, const struct profile_params *p, struct executor ex,
                    const volatile sig_atomic_t *stop, const char **dir, struct err *e);

#endif
