/* Power of each operator, measured where operators can be run alone (executor_ops.loop), and from
 * it the energy of a bundle's cells.
 *
 * A sensor needs seconds, an operator takes microseconds. So the kernels of one operator, of all
 * layers, run over and over at a few sizes: three of decode batches (few, some, most sequences),
 * three of prompts. Operators below POWER_POOLED of a pass's time run together in one loop, and
 * whole passes in one of their own, against which the operators are checked. Beside each regime's
 * loops nothing runs for as long: idle power, with the clocks where the load has them.
 *
 *     power of an operator = idle + (power of its loop - idle) / part of it in which a kernel runs
 *     energy of a cell     = power, linear in the logarithm of the size, level beyond x its time
 *     energy of gap        = idle power x its time
 *
 * The size is tokens, rows, or of decode attention the tokens in all caches together. Nothing is
 * scaled to the whole passes. Unknown is NAN, and an empty cell.
 *
 * Journal, two kinds of lines (journal.h):
 *     e <decode> <tokens> <rows> <kv tokens> <rows, bits> <W> <half W> <kernels' part>
 *       <pass s> <readings> <seconds>                                     a loop
 *       (bit k: the row that journal_row_of(k) names; 0 = whole passes)
 *     i <W> <half W> <SM MHz> <lowest> <highest C> <limit W> <clock limits, bits> <update s>
 *                                                                         idle */
#ifndef PROFILE_POWER_H
#define PROFILE_POWER_H

#include "base/arena.h"
#include "model/model.h"
#include "text/node.h"

struct journal;
struct session;

/* What the sensors say, by a thread of its own (energy/meter.h). */
struct power_reading {
    double mean_w, half_w; /* NAN = unknown; half of the 95 % interval */
    int64_t readings;      /* that differ */
};
struct power_conditions {                             /* since the last call */
    double sm_mhz, sm_mhz_low, celsius_high, limit_w; /* NAN = unknown */
    unsigned long long reasons;                       /* NVML_REASON_... */
};
struct power_meter {
    void *self;
    const char *sensor;
    double update_s; /* between two updates of it */
    double settle_s; /* until it shows a load that began */
    struct power_reading (*mean)(void *self, int64_t from_ns, int64_t to_ns); /* clock_mono_ns */
    struct power_conditions (*conditions)(void *self);
    const char *(*words)(struct arena *a, unsigned long long reasons);
    /* ST_REJECTED: another process computes there, or one of these reasons is heat or hardware. */
    enum st (*check)(void *self, unsigned long long reasons, struct err *e);
};

#define POWER_POOLED 0.03

/* Measures, at points that were sampled, within about budget_s. Once a session: what an interrupted
 * one has is measured anew. ST_DEVICE: the executor cannot, or no reading came. ST_REJECTED. */
enum st power_measure(struct session *s, const struct power_meter *m, double budget_s,
                      struct err *e);

/* ---- what was measured ----------------------------------------------------------------------- */

struct power_point {
    double x, w;
};
struct power_curve_1d {
    struct power_point *p; /* [n] by x */
    int n;
};
struct power_table {
    double idle_w, idle_half_w;
    const struct op_list *ops;                              /* borrowed */
    struct power_curve_1d decode[OP_ROWS], prompt[OP_ROWS]; /* by row */
};

/* Of the newest session that measured; false = none did. ops: that the journal is of. */
bool power_load(struct arena *a, const struct journal *j, const struct op_list *ops,
                struct power_table *out);

/* W while a kernel of it runs; NAN = unknown. decode: in batches without chunks. Where a regime has
 * none of the operator the other one speaks for it. */
double power_at(const struct power_table *t, const struct op *op, bool decode, double x);
/* J of a cell; 0 s need no power. */
double power_cell_j(const struct power_table *t, const struct op *op, bool decode, double x,
                    double seconds);

/* `energy` of bundle_meta.json (docs/formats.md). sensor, words: NULL = not of this session. */
struct node *power_node(struct arena *a, const struct journal *j, const struct power_table *t,
                        const struct power_meter *m);

#endif
