/* Which GPUs a power log has, and which of them is wanted.
 *
 * A GPU is what the identity columns of its rows say, all of them together: two uuids with one
 * index are two GPUs, as in logs of several machines that were joined. It is never guessed from
 * times. A log without such a column is one GPU; where its rows show that it has several, it is
 * refused (power_gpus_mixed). */
#ifndef ENERGY_POWER_GPUS_H
#define ENERGY_POWER_GPUS_H

#include "base/vec.h"
#include "energy/power_columns.h"
#include "energy/power_log.h"

struct power_gpu {
    int64_t number;                 /* -1 = no column says it */
    const char *id[MAX_IDENTITIES]; /* texts of the identity columns; NULL = unknown so far */
    int64_t rows;
};

struct power_gpus {
    struct arena *a;
    const struct power_columns *columns;
    VEC(struct power_gpu) list; /* in order of appearance */
    size_t last;                /* of the row before */
};

/* The GPU of the current row: *which, -1 where no cell tells. ST_INPUT: a cell that is no number.
 */
enum st power_gpus_row(struct power_gpus *g, const struct csv_reader *r, int64_t *which,
                       struct err *e);

/* Picks the one with the number `gpu`. Where no column says numbers, they count the GPUs in order
 * of their PCI addresses, else of appearance. gpu < 0: the only one. *which: in the list. ST_INPUT
 * with the GPUs that the log has. */
enum st power_gpus_pick(const struct power_gpus *g, const char *source, int64_t gpu, int64_t *which,
                        struct err *e);

/* "GPU 1", with what names it where no number does: "GPU 1 (pci.bus 0x02)". */
const char *power_gpus_what(const struct power_gpus *g, int64_t which, int64_t gpu);

/* Samples without identity, digits: decimals of a second in their times. MIXED: rows come in
 * bunches, or share a time, as those of several GPUs do. DOUBTFUL: one GPU may have written them
 * so, several as well. */
enum power_mix { POWER_ONE, POWER_DOUBTFUL, POWER_MIXED };
enum power_mix power_gpus_mixed(const struct power_sample *p, size_t n, int digits);

#endif
