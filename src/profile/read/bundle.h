/* Profiling bundles: measured costs of operators on a device. Reader, and predictions from it.
 *
 * Layout (Vidur's, docs/formats.md): <root>/data/profiling/compute/<hardware>/<model>/mlp.csv and
 * attention.csv, .../cpu_overhead/<network_device>/<model>/cpu_overheads.csv, and of networks
 * .../network/<network_device>/{all_reduce,send_recv}.csv (read/network.h). Times in the files are
 * ms. A folder of ours has <model>/bundle_meta.json; Vidur's has none and is recognised by its
 * files.
 *
 * Reads, in one pass per file, the median of each operator of the model.
 *
 * - mlp.csv: over num_tokens, which counts rows for the operators over rows (lm_head,
 *   final_layernorm, sample). Filters: n_head, n_kv_head, n_embd, n_expanded_embd, use_gated_mlp,
 *   num_tensor_parallel_workers; vocab_size only where there is an lm_head to depend on it (Vidur
 *   pads the vocabulary); head_dim, num_experts and num_experts_per_tok where the file has them.
 * - attention.csv: decode rows (prefill_chunk_size 0) over batch_size and kv_cache_size per
 *   sequence, prefill rows over prefill_chunk_size and kv_cache_size, which counts tokens in the
 *   cache before the batch; attn_kv_cache_save over max(chunk, batch). Filters: n_embd, n_q_head,
 *   n_kv_head, block_size, num_tensor_parallel_workers; head_dim where the file has it.
 * - cpu_overheads.csv: over batch_size the sum schedule + sampler_e2e + prepare_inputs_e2e +
 *   process_model_outputs (medians) + ray_comm_time_mean; ours also that of iterations with prefill
 *   chunks, prefill_iteration_host_median. Filters: model_name, tensor_parallel_degree.
 *
 * Bundles of GPUs (docs/formats.md) have an operator gap, the time between kernels, and in mlp.csv
 * columns decode_stats.<op>.median of batches without chunks.
 *
 * An empty cell is a missing value, not 0. Our bundle_meta.json adds iteration.{decode,
 * decode_first, decode_second, prompt}, host.{scale, prefill_scale} and wake: docs/methodology.md.
 *
 * Prediction: token-wise operators by linear interpolation over tokens or rows; attention by
 * interpolation of measured / fitted work (surface.h), prefill per chunk; host overhead over batch
 * size. No training step. Outside the grid the nearest edge is extended in proportion to the work
 * and counted.
 *
 * Instead of operator tables the compute folder may hold whole iterations: calibration.json
 * (calibrated.h), else iteration.csv (iterations.h). They replace the tables, and hold host time;
 * the functions below that tell operators apart know none then. request_overheads.json
 * (overheads.h) may stand beside either.
 *
 * One thread at a time per bundle: look-ups count. */
#ifndef PROFILE_READ_BUNDLE_H
#define PROFILE_READ_BUNDLE_H

#include "artifact/artifact.h"
#include "model/model.h"
#include "profile/read/calibrated.h"
#include "profile/read/iterations.h"
#include "profile/read/overheads.h"
#include "profile/read/table.h"
#include "profile/read/together.h"

struct bundle;
struct power_cap; /* power_cap.h */

struct bundle_key {
    const char *root, *hardware, *model_name;
    const char *hub_name;       /* alternative folder name in the bundle, as Vidur's; NULL = none */
    const char *network_device; /* NULL = hardware */
    bool network_chosen;        /* on the command line: it must be there */
    const struct model *model;  /* rows are filtered by its dimensions */
    int64_t tp, block_size;
    int64_t pp; /* pipeline stages; 0 = the network's tables are not read */
    int64_t ep; /* devices that share the experts; above tp their all-to-all is read */
};

/* No rows for the model, TP or block size: ST_INPUT naming the file and the nearest available. The
 * bundle borrows nothing from key. */
enum st bundle_load(struct arena *a, const struct bundle_key *key, struct bundle **out,
                    struct err *e);

/* The files that bundle_load of the key reads, of those that exist: a bundle is identified by their
 * contents. */
enum { BUNDLE_FILES = 11 };
int bundle_files(struct arena *a, const struct bundle_key *key, const char *out[BUNDLE_FILES]);

/* A folder of that model and hardware is there. */
bool bundle_exists(struct arena *a, const struct bundle_key *key);

enum bundle_form { BUNDLE_OPERATORS, BUNDLE_ITERATIONS, BUNDLE_CALIBRATED };
enum bundle_form bundle_form(const struct bundle *b);
const struct calibrated *bundle_calibrated(const struct bundle *b); /* NULL unless of that form */
struct iterations_time bundle_iteration_s(const struct bundle *b, const struct iterations_batch *x);
/* Of measured iterations: the engine computes the caches of all rows as long as the longest. */
bool bundle_pads(const struct bundle *b);
const struct request_overheads *bundle_overheads(const struct bundle *b); /* NULL = none */
/* Settings that its times hold for, a map from keys of the configuration; NULL = none stated. */
const struct node *bundle_settings(const struct bundle *b);

/* The profiled executor has several batches in flight: simulations of it overlap host and device.
 */
bool bundle_overlaps(const struct bundle *b);

/* What the first batch of each shape takes more (sim/first_use.h), with chunks or without: of
 * calibration.json, or of measured iterations first_use{decode_s, prompt_s} in bundle_meta.json.
 * 0 = nothing. */
double bundle_first_use_s(const struct bundle *b, bool prompt);

bool bundle_has(const struct bundle *b, enum op_kind k);
bool bundle_has_host(const struct bundle *b);
bool bundle_is_uneven(const struct bundle *b);          /* it holds how batches of a run differ */
const struct node *bundle_meta(const struct bundle *b); /* NULL for Vidur's */
const char *bundle_dir(const struct bundle *b);         /* the compute folder */
const char *bundle_root(const struct bundle *b);        /* of the key */

/* Operators of the model that the bundle has no times for, "lm_head, sample"; NULL when none. They
 * are charged 0, which results must report. */
const char *bundle_missing(const struct bundle *b);
/* Operators with times derived from others', "lm_head (estimated from mlp_up_proj)"; NULL when
 * none. Vidur's files have no lm_head; it is a GEMM over the same input width as mlp_up_proj, so it
 * is charged that operator's time at as many rows times the ratio of the outputs. Both are sharded
 * alike. */
const char *bundle_estimated(const struct bundle *b);

/* Seconds of one operator, all repeats, under the load of a batch; 0 when the bundle has no times
 * for it. Prefill attention from the sums of op_load is exact for chunks of equal size and start;
 * use predict_prefill_s per chunk otherwise. */
double bundle_op_s(const struct bundle *b, const struct op *op, const struct op_load *load);
/* Host seconds of an iteration with that many sequences; 0 when the bundle has none. `prefill`: the
 * iteration has prefill chunks. */
double bundle_host_s(const struct bundle *b, int64_t batch_size, bool prefill);
/* Of that host time, of executors with several batches in flight: the seconds in which the device
 * already works at the batch. And what comes besides between the device's end and the tokens. */
double bundle_launch_s(const struct bundle *b, double host_s, bool prefill);
double bundle_answer_s(const struct bundle *b);
/* Factor on the sum of an iteration's operators, or on a measured iteration, from the calibration
 * run; 1 when the bundle has none. For iterations with prefill chunks, by tokens, alone or `mixed`
 * with decodes (as alone where the bundle does not distinguish them). */
double bundle_prompt_scale(const struct bundle *b, int64_t tokens, bool mixed);
/* For iterations without, by sequences and place in the train of such batches (struct batch): the
 * first passes after a prompt find other data in the caches. train 0: unknown, as the later ones.
 */
double bundle_decode_scale(const struct bundle *b, int64_t seqs, int64_t train);
/* Idle ramp-up: extra seconds of iteration k (from 0) after a pause; 0 when the bundle has no
 * ramp-up, or k is beyond it. Linear between the measured pauses and down to 0, flat above the
 * longest. */
void bundle_wake_s(const struct bundle *b, double pause_s, int k, double *device_s, double *host_s);
int bundle_wake_iterations(const struct bundle *b);
/* What the power limit does to the clock: of bundles of operator tables; NULL = nothing, or not
 * measured. The times above are without it. */
const struct power_cap *bundle_power_cap(const struct bundle *b);
/* Look-ups so far, and those outside the profiled grid. */
int64_t bundle_lookups(const struct bundle *b);
int64_t bundle_extrapolations(const struct bundle *b);
/* Relative leave-one-out error (mean absolute) stored for that operator row; < 0 when unknown. */
double bundle_row_error(const struct bundle *b, int32_t row);

/* ---- sums for the simulator, each a look-up in tables summed over operators ----------------- */

/* All operators of a forward pass that depend on its tokens, and on its rows. 0 for 0. */
double predict_tokens_s(const struct bundle *b, int64_t tokens);
double predict_rows_s(const struct bundle *b, int64_t rows);
/* The same in batches without chunks, where the bundle tells them apart (columns decode_stats):
 * CUDA graphs, padded to certain sizes. Else as above. */
double predict_decode_tokens_s(const struct bundle *b, int64_t tokens);
double predict_decode_rows_s(const struct bundle *b, int64_t rows);
/* Attention of one prefill chunk; of seqs decode rows whose caches hold kv_before tokens together
 * (the tokens they are about to add not counted). All layers. */
double predict_prefill_s(const struct bundle *b, int64_t kv_before, int64_t tokens);
double predict_decode_s(const struct bundle *b, int64_t seqs, int64_t kv_before);
/* Attention of one kind of layer, 0 .. predict_prefill_kinds - 1, of all prefill chunks of a batch,
 * added one by one to sum, which begins as {0}: what each takes alone, or, of bundles of GPUs,
 * whose kernels take them together, less (together.h). */
int predict_prefill_kinds(const struct bundle *b);
void predict_prefill_add(const struct bundle *b, int kind, int64_t kv_before, int64_t tokens,
                         struct together_sum *sum);
double predict_prefills_s(const struct bundle *b, int kind, const struct together_sum *sum);
/* Decode attention for unequal lengths, the longest kv_max. Profiles of CPUs hold equal lengths
 * only, so: the time at the mean length, averaged over a window of +-(kv_max - mean) but at most a
 * tile of keys, as lengths that differ do not stand at the same place of their tiles; and never
 * less than the longest sequence takes alone. */
double predict_decode_mixed_s(const struct bundle *b, int64_t seqs, int64_t kv_before,
                              int64_t kv_max);

/* Decode rows that verify drafts: q = 1 + draft_tokens queries each over kv + q keys, the q new
 * ones among them. The kernel reads the keys once for all queries of a row, or it computes their
 * scores, whichever takes longer (a roofline of two measured rates):
 *     reading   predict_decode_mixed_s of caches with draft_tokens more tokens
 *     scores    q kv + q (q + 1) / 2 per row, at the prefill profile's fitted time per score where
 *               scores bind (surface.h)
 * No profile holds such batches; with draft_tokens 0 it is predict_decode_mixed_s.
 *
 * load: of a batch with such rows, whose spans say what bounded attention sees of each (op_load);
 * NULL: as if all were as long as their mean, which is the most. */
double predict_verify_s(const struct bundle *b, int64_t seqs, int64_t kv_before, int64_t kv_max,
                        int64_t draft_tokens, const struct op_load *load);

/* The same beside prompts. Tables hold decode attention as batches without prompts take it: on a
 * GPU mostly waiting, with rotation and KV append in its kernel. Beside prompts another kernel has
 * done these, and the prompts' attention runs meanwhile: a time for each cached token and each row
 * is left, which the calibration run of a GPU tells. Other bundles: predict_verify_s. */
double predict_decode_beside_s(const struct bundle *b, int64_t seqs, int64_t kv_before,
                               int64_t kv_max, int64_t draft_tokens, const struct op_load *load);
/* For who finds out, of a bundle of his own; NULL: as in batches without prompts. Borrowed. */
void bundle_set_decode_beside(struct bundle *b, const struct bundle_decode_beside *beside);

/* The part of predict_tokens_s that is not repeated per layer (the embedding). */
double predict_once_s(const struct bundle *b, int64_t tokens);
/* The experts' part of predict_tokens_s: GEMMs and activation, for that many tokens to route.
 * Interpolated by their work, a + b experts hit + c tokens (model_experts_hit), with coefficients
 * >= 0: times of that form are exact. */
double predict_experts_s(const struct bundle *b, int64_t tokens);
/* Which experts a batch reads goes by its sequences more than by its tokens, as those of a prompt
 * choose like experts: of random weights a prompt of 64 tokens reads a fifth of what 64 decode rows
 * of Qwen3-30B-A3B do. predict_experts_s has single prompts alone. So: the part of all experts that
 * a chunk, or all decode rows, leave unread; those of several chunks multiply, as each chooses for
 * itself. And what the experts of a batch take more than predict_experts_s of its tokens: 0 for one
 * chunk alone.
 *
 * An expert takes ||reading it, computing its tokens||, between the longer of both and their sum.
 * One that decodes alone chose is read for a few tokens, one that prompts chose mostly computes:
 * reading the first is not hidden behind computing the second. So a batch takes the sum over the
 * experts that prompts, decodes, or both chose, each for itself. Reading all of them is what the
 * decode of the most rows takes, computing what a token more takes of a long prompt. Bundles that
 * do not tell decodes apart: 1, and 0. */
struct experts_part {
    int64_t tokens;
    double unread;
};
double predict_experts_unread(const struct bundle *b, int64_t tokens, bool decodes);
double predict_experts_more_s(const struct bundle *b, const struct experts_part *prompts,
                              const struct experts_part *decodes);
/* The same on a device that holds a part of the experts, `shards` times as much of each as the
 * table's device: it computes that many pairs (token, expert) of the batch's tokens, with
 * experts_hit of its experts. a is a device's own, whatever its part; b and c of the same fit count
 * its experts and pairs; the ratio to the fit is that of the whole batch, in which an expert has as
 * many tokens. */
double predict_experts_part_s(const struct bundle *b, int64_t tokens, double pairs,
                              double experts_hit, double shards);
/* Tokens to the devices of their experts and back, twice per layer, all layers; tokens: that each
 * device sends, once per expert. 0 without ep > tp. */
double predict_all_to_all_s(const struct bundle *b, int64_t tokens);

/* All-reduce of the shards' results, twice per layer, all layers: 0 at tensor-parallel degree 1. */
double predict_all_reduce_s(const struct bundle *b, int64_t tokens);
/* Sending the activations of a batch to the next pipeline stage: 0 with one stage. */
double predict_send_recv_s(const struct bundle *b, int64_t tokens);

/* The bundle of one stage of a pipeline of a model whose layers differ: the operators, collectives
 * and sums of its own layers, the embedding on the first, what comes behind the layers on the last;
 * time between kernels by layers. Energy and factors are the whole's. Shares memory with b, and its
 * count of look-ups. */
struct bundle *bundle_stage(struct arena *a, const struct bundle *b, const struct model *m,
                            int64_t pp, int64_t stage);

/* ---- energy ---------------------------------------------------------------------------------
 *
 * From columns energy_stats.<op>.median_j beside the times: J of one repeat on one shard. Functions
 * of the same shape as the times, J of one shard, all layers. */

/* Every operator that takes time has energy, and idle power is known: the energy of any batch is.
 */
bool bundle_has_energy(const struct bundle *b);
/* Why it is not although some operator has energy, as a clause; NULL when it is, or when none has.
 */
const char *bundle_energy_missing(const struct bundle *b);
/* Idle power of a device, energy.idle_w of bundle_meta.json; 0 = unknown. */
double bundle_idle_w(const struct bundle *b);
double predict_tokens_j(const struct bundle *b, int64_t tokens);
double predict_rows_j(const struct bundle *b, int64_t rows);
/* In batches without chunks, from columns decode_energy_stats.<op>.median_j; without them as above.
 */
double predict_decode_tokens_j(const struct bundle *b, int64_t tokens);
double predict_decode_rows_j(const struct bundle *b, int64_t rows);
double predict_prefill_j(const struct bundle *b, int64_t kv_before, int64_t tokens);
double predict_decode_j(const struct bundle *b, int64_t seqs, int64_t kv_before,
                        const struct op_load *load);

/* ---- how good the interpolation is ----------------------------------------------------------- */

struct bundle_check {
    const char *name; /* an operator's, or all_reduce, send_recv */
    int64_t points;   /* distinct rows of the file */
    struct holdout error;
};

/* Predict points from the others, per operator. folds 0: leave-one-out (of more than 512 points a
 * 512th of them at a time), of the points inside the grid of the others. Else: that many random
 * folds (seeded) over the rows of the file, every point held out once and predicted, edges of the
 * grid too; 5 is what is published of Vidur's random forest. *out: [*n] in order of operators.
 * Measured iterations: one row, leave-one-out whatever the folds. */
void bundle_check(struct arena *a, const struct bundle *b, int64_t folds, struct bundle_check **out,
                  int *n);

/* ---- how far a prediction may be off ---------------------------------------------------------
 */

/* What is perturbed by itself. Operators over tokens, and those over rows, are one part each: they
 * are measured in the same passes, so the error of their sum is what is known. */
enum bundle_part {
    PART_TOKENS,
    PART_ROWS,
    PART_PREFILL, /* attention */
    PART_DECODE,
    PART_ALL_REDUCE,
    PART_SEND_RECV,
    PART_ALL_TO_ALL,
    PART_HOST,
    PART_HOST_PREFILL, /* of iterations with prefill chunks */
    BUNDLE_PARTS
};
const char *bundle_part_name(enum bundle_part part); /* "tokens", "attn_prefill", ... */

/* Standard deviations of ln(true / predicted), taken as normal; 0 where a part does not apply.
 *
 * Times between measured places come from them by interpolation, so a place that was measured too
 * high is too high for its neighbourhood alone: errors of places are independent, and a run over
 * many of them averages over many. Tokens and rows of one size share their error, as they do their
 * passes. `place` and `shift` are of leave-one-out errors (op_spread,
 * table.h). Host time: at least the standard error of the means of its rows.
 *
 * Factors of the calibration run: `classes`, the standard error of one from its batches (root mean
 * square over the classes, each of which has its own), independent; `drift`, by which the rounds
 * differ beyond that, common to all, Student's with rounds - 1 degrees of freedom. With
 * unevenness.csv the drift of the rounds' mean alone, without it that of a run as well. */
struct bundle_uncertainty {
    double place[BUNDLE_PARTS];          /* of one measured place, independent of the others */
    double shift[BUNDLE_PARTS];          /* of all of them alike */
    double decode_drift, decode_classes; /* of batches without prefill chunks */
    double prompt_drift, prompt_classes; /* of those with */
    int64_t rounds;                      /* that the drift is known from; 0 = none */
    struct op_spread iteration[2];       /* of measured iterations without and with chunks */
    double host_cv; /* variation of single iterations: standard deviation / mean, averaged over the
                       rows of the file; 0 = not in the file */
};
void bundle_uncertainty(const struct bundle *b, struct bundle_uncertainty *out);
/* It says something of its errors: operators and measured iterations do, a calibration whose file
 * has uncertainties. */
bool bundle_is_uncertain(const struct bundle *b);
/* Of a replica that replays unevenness: this batch's ratio of times; 1 in others. */
double bundle_replayed(const struct bundle *b, bool prompt, int64_t size);

/* A bundle as another profile would have found it; shares memory with b, counts its own look-ups.
 * All times of a part are multiplied by its factor; with `places`, every measured place by one of
 * its own, drawn from places_seed by part and place, the tables are built anew, and the calibration
 * run's factors as well: over the perturbed tables (of the batch that is typical of each class),
 * and with an error of their own. With unevenness, device times vary as those of the calibration
 * run's batches did, in their order (unevenness.h). With host_draws, host time varies between
 * iterations as measured: each look-up draws a factor, lognormal of mean 1 with the standard
 * deviation of iterations of that batch size; 1 where the file has no spread. */
struct bundle_factors {
    double part[BUNDLE_PARTS], decode, prompt; /* > 0 */
    const struct bundle_uncertainty *places;   /* NULL = places are as measured */
    uint64_t places_seed;
    const struct rng *host_draws; /* initial state of the draws; NULL = none */
    struct rng *unevenness;       /* draws where the replay begins; NULL = none */
};
/* Measured iterations are drawn anew by their spread, and a calibration's parameters by their
 * covariance, where `places` is set. */
struct bundle *bundle_perturbed(struct arena *a, const struct bundle *b,
                                const struct bundle_factors *f);

#endif
