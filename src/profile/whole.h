/* Bundles of whole iterations (docs/formats.md): from times of single ones to iteration.csv,
 * unevenness.csv and bundle_meta.json.
 *
 * Iterations of like batches are one row: with the four quantities of profile/read/iterations.h in
 * the same eighth of an octave (so that equal batches always are one). A row holds the means of the
 * quantities, the medians of the times, their count and spread.
 *
 * unevenness.csv: measured / median of its row, iteration by iteration in the order given, of rows
 * with at least WHOLE_LIKE iterations. So the order must be that in which they ran. With a
 * calibration run (rehearsal.h) it is of that one's batches, and bundle_meta.json has its factors.
 */
#ifndef PROFILE_WHOLE_H
#define PROFILE_WHOLE_H

#include "artifact/artifact.h"
#include "profile/rehearsal.h"

enum { WHOLE_LIKE = 5 };

struct whole_sample {
    struct iterations_batch b;
    double host_s, device_s; /* their sum is the iteration's time, above 0, */
    double launch_s;         /* but for this last part of host_s, beside the device; 0 = none */
};

struct whole_params {
    const char *root, *hardware, *model_name;
    int64_t tp;
    const char *method;     /* "passes", "trace" */
    struct node *meta;      /* map: what else bundle_meta.json is to hold; NULL = nothing */
    struct rehearsal *loop; /* the calibration run, whose batches are predicted; NULL = none */
    double first_use_s[2];  /* what first batches of a shape take more, without chunks and with */
};

struct whole_result {
    const char *dir; /* the compute folder */
    size_t rows;
    struct holdout error; /* of rows held out one at a time */
    /* Of the calibration run: median of measured / predicted by the iterations, of batches that
     * decode alone and of those with chunks; NAN = none. */
    double factor[2];
};

/* The compute folder, which must not exist. ST_USAGE: it does, or a name cannot be a folder. */
enum st whole_check(struct arena *a, const struct whole_params *p, const char **dir, struct err *e);

/* ST_INPUT: fewer than ITERATIONS_LEAST rows. Nothing is left behind then. */
enum st whole_write(struct arena *a, const struct whole_params *p, const struct whole_sample *s,
                    size_t n, struct whole_result *out, struct err *e);

#endif
