/* The table cells of a profile: statistics of one operator at one place of its axis. */
#ifndef PROFILE_CELLS_H
#define PROFILE_CELLS_H

#include "profile/read/table.h"
#include "profile/stats.h"
#include "profile/write.h"

/* Which passes a table is of. Where decode batches take other paths than batches with chunks
 * (profile_result.split) each have their own: main tables are of those with chunks. Operators over
 * rows are of decodes where no such pass had as many: their kernels go by the rows alone. Those
 * over tokens do not: on an H200 33 to 113 tokens of decodes took 0.2 to 0.3 ms less than batches
 * with chunks, and a table that took the one for the other went up and down by it. */
enum cell_passes { CELL_MAIN, CELL_DECODES };

/* Seconds of one repeat over all samples of these passes whose batch had that many tokens
 * (AXIS_TOKENS) or rows (AXIS_ROWS). n == 0: not measured. CELL_DECODES without split: none.
 * Experts have no cells of several prompts nor of chunks behind cached tokens where decodes are
 * told apart: each prompt chooses for itself (predict_experts_unread), and what is cached there is
 * another pass's. */
struct stats cell_1d(struct arena *scratch, const struct profile_result *r, const struct op *op,
                     enum cell_passes passes, int64_t x);
/* The same over the samples of one point. With split, attention is what is left of the whole pass
 * after the other operators' cells: these do not depend on the cache's length, and so the sum of
 * all cells is the pass that was measured, however its recorded twin divided. But experts: which of
 * them a pass reads goes by its tokens, and they are those of the twin, which chose the same. (With
 * their cells what a pass of gpt-oss-20b read more or less than others of as many rows was taken
 * for attention, which came out 0.) Attention of several kinds of layer shares it as the twin did.
 */
struct stats cell_point(struct arena *scratch, const struct profile_result *r, const struct op *op,
                        int64_t point);

/* The distinct tokens and rows of the measured points, ascending. */
int64_t *cell_counts(struct arena *a, const struct profile_result *r, int64_t *n);

/* Quality of an operator's cells, for bundle_meta.json. */
struct op_quality {
    int64_t points, samples;
    struct holdout loo;
};
struct op_quality cell_quality(struct arena *a, const struct profile_result *r,
                               const struct op *op);

#endif
