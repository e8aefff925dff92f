/* iteration.csv of a bundle: measured times of whole iterations, by what their batches held. For
 * engines that are seen only from outside: no operator is told apart.
 *
 * Columns (docs/formats.md): chunk_tokens, chunk_context, decode_sequences, decode_kv_tokens,
 * host_ns, device_ns, n, std_ns; num_tensor_parallel_workers selects the rows; launch_ns may be
 * missing: the last part of host_ns, in which the device works already. With
 * T tokens of prefill chunks, P = sum over them of chunk x context, the context of a chunk being
 * the keys that its tokens see in the mean (kv before + (chunk + 1) / 2), n decode rows and K
 * tokens in their caches:
 *
 *     host, device, launch = ratio x (t0 + t1 T + t2 P + t3 n + t4 K), t >= 0
 *
 * fitted with weights 1/time, separately for batches with chunks and without. The ratio measured /
 * fitted of the nearest NEAREST rows is interpolated with weights (d^2 + h^2)^-2, d the distance in
 * the logarithms of T, P / T, n and K / n. So rows are met up to their neighbours' disagreement.
 * Outside the range of the rows in any of the four the fit is extended, and counted.
 *
 * Error: of rows left out of the interpolation, one at a time; it holds the measurement's noise. A
 * class of batches that has no row is predicted by the other's fit, which results report (has). */
#ifndef PROFILE_READ_ITERATIONS_H
#define PROFILE_READ_ITERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/read/table.h"

#define BUNDLE_ITERATIONS_FILE "iteration.csv"

enum { ITERATIONS_MOST = 1 << 16, ITERATIONS_NEAREST = 8, ITERATIONS_LEAST = 3 };

struct iterations;

/* What a batch holds. */
struct iterations_batch {
    double chunk_tokens, chunk_context, decode_sequences, decode_kv_tokens;
};

/* Of a load without drafts. longest: tokens in the longest of the caches before the batch, 0 =
 * unknown. padded: the engine computes all rows as if they were that long. */
struct iterations_batch iterations_batch_of(const struct op_load *load, int64_t longest,
                                            bool padded);

/* *out: NULL when there is no such file. ST_INPUT: a cell out of range, fewer than ITERATIONS_LEAST
 * rows, none for that tp. */
enum st iterations_load(struct arena *a, const char *path, int64_t tp, struct iterations **out,
                        struct err *e);

struct iterations_time {
    double host_s, device_s;
    double launch_s; /* the last part of host_s, beside the device; 0 = none, or not told */
};
/* Of one that nothing else is beside. */
static inline double iterations_total_s(const struct iterations_time *t)
{
    const double beside = t->launch_s < t->device_s ? t->launch_s : t->device_s;
    return t->host_s + t->device_s - beside;
}
struct iterations_time iterations_at(const struct iterations *t, const struct iterations_batch *b,
                                     bool *outside);

struct iterations_facts {
    int64_t decodes, prompts; /* rows without and with chunks */
    struct holdout error;     /* tested 0: unknown */
};
struct iterations_facts iterations_facts(const struct iterations *t);

/* ---- how far they are off ---- */

/* Of rows without (prompts false) and with chunks, from the same errors as facts.error:
 * op_spread_of (table.h), as between neighbours on a line. 0, 0 of fewer than three rows. */
struct op_spread iterations_spread(struct arena *a, const struct iterations *t, bool prompts);

/* The iterations that another profile would have found: every row times a factor that its place
 * draws, and those of a kind times one in common, by their spread; fitted anew. */
struct iterations *iterations_drawn(struct arena *a, const struct iterations *t,
                                    const struct op_spread spread[2], uint64_t seed);

#endif
