/* Profiling bundles: what operators cost on a device. Reader, and the predictor made from it.
 *
 * Layout (Vidur's, DESIGN section 4): <root>/data/profiling/compute/<hardware>/<model>/mlp.csv and
 * attention.csv, .../network/..., .../cpu_overhead/<network_device>/<model>/cpu_overheads.csv.
 * Times in the files are ms. A folder of ours has <model>/bundle_meta.json; Vidur's has none and is
 * known by its files.
 *
 * Prediction: token-wise operators by linear interpolation over tokens (rows for lm_head, final
 * norm and sampling); attention by interpolation over (batch, KV length, chunk) in the work it
 * does; host overhead over batch size. No training step. Outside the grid the nearest edge is
 * extended in proportion to the work and counted. */
#ifndef PROFILE_READ_BUNDLE_H
#define PROFILE_READ_BUNDLE_H

#include "artifact/artifact.h"
#include "model/model.h"

struct bundle;

struct bundle_key {
    const char *root, *hardware, *model_name, *network_device;
    const struct model *model; /* rows are filtered by its dimensions */
    int64_t tp, block_size;
};

/* No rows for the asked model, TP or block size: ST_INPUT naming the file and the nearest that is
 * there. The bundle borrows nothing from key. */
enum st bundle_load(struct arena *a, const struct bundle_key *key, struct bundle **out,
                    struct err *e);

bool bundle_has(const struct bundle *b, enum op_kind k);
bool bundle_has_host(const struct bundle *b);
const struct node *bundle_meta(const struct bundle *b); /* NULL for Vidur's */
const char *bundle_dir(const struct bundle *b);         /* the compute folder */

/* Seconds of one operator, all repeats, under that load. */
double bundle_op_s(const struct bundle *b, const struct op *op, const struct op_load *load);
/* Host seconds of an iteration with that many sequences; 0 when the bundle has none. */
double bundle_host_s(const struct bundle *b, int64_t batch_size);
/* Look-ups that fell outside the profiled grid so far. */
int64_t bundle_extrapolations(const struct bundle *b);
/* Relative leave-one-out error (mean absolute) stored for that operator; < 0 when unknown. */
double bundle_op_error(const struct bundle *b, enum op_kind k);

#endif
