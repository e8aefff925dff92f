/* Partitioning of a model over several devices.
 *
 * Tensor parallelism: tp shards carry each layer together, cut as Megatron-LM cuts it.
 *
 *     operator                         a shard has                            after it
 *     attn_pre_proj                    out features: heads / tp, its KV heads
 *     q/k norm, rope, KV save,         the same heads
 *       attention
 *     attn_post_proj                   the in features of these heads         sum of all shards
 *     mlp_up_proj, moe_up_proj         out features: intermediate / tp,
 *                                        of gate and of up
 *     mlp_act, moe_act                 the same features
 *     mlp_down_proj, moe_down_proj     the in features of these               sum of all shards
 *                                                                             (moe: after combine)
 *     lm_head                          vocab / tp rows, rounded up            logits are gathered
 *     all others                       all of it
 *
 * Where there are fewer KV heads than shards, several shards hold the same one. Biases of operators
 * cut by in features are added once, to the sum.
 *
 * Pipeline: stages hold layers / pp layers each, as vLLM deals them. Of those left over, one each
 * goes to the stages before the last, from the back (vllm/distributed/utils.py, get_pp_indices).
 * The first stage has what stands before the layers, the last what stands after them.
 *
 * Experts: ep devices share the experts. ep > tp is ep / tp groups of tp shards, each of which
 * attends to its own part of a batch with keys and values of its own, and holds an equal part of
 * the experts, whole; tokens go to their experts and back by all-to-all. With ep up to tp there is
 * one group. */
#ifndef MODEL_SHARD_H
#define MODEL_SHARD_H

#include "model/weights.h"

/* ST_USAGE, with the setting's name, where pp is more than the layers, tp does not divide the
 * heads, ep is no multiple of tp that divides the experts, or a shard's features do not fit the
 * blocks that fp8 weights have a scale for (model/stored.h). */
enum st shard_check(const struct model *m, int64_t tp, int64_t pp, int64_t ep, struct err *e);

int64_t shard_stage_layers(const struct model *m, int64_t pp, int64_t stage);
int64_t shard_most_layers(const struct model *m, int64_t pp); /* of a stage */
int64_t shard_first_layer(const struct model *m, int64_t pp, int64_t stage);

int64_t shard_groups(int64_t tp, int64_t ep);
int64_t shard_devices(int64_t tp, int64_t ep); /* of a stage */

/* ---- operators ------------------------------------------------------------------------------- */

/* One shard as a model of its own: its heads, KV heads and intermediate size. Divisions round down,
 * but KV heads up. */
struct model shard_model(const struct model *m, int64_t tp);
/* The list of model_ops with the shapes and weights of one shard; its costs are op_cost of
 * shard_model. */
void shard_ops(const struct model *m, int64_t tp, struct op_list *out);
/* The same of a pipeline stage of a model whose layers differ: rows repeat as often as the stage
 * has layers of their kind; those outside the layers are in the lists of all stages. */
void shard_stage_ops(const struct model *m, int64_t tp, int64_t pp, int64_t stage,
                     struct op_list *out);

/* Keys and values of a token on one device of a stage, bytes in the model's format. */
double shard_kv_bytes(const struct model *m, int64_t tp, int64_t pp, int64_t stage);
/* What a sequence leaves there of a model whose layers differ, where blocks behind a window are not
 * given back: bytes that each token adds, and that the first adds for all (states, entries that
 * several tokens share). */
struct shard_kept {
    double token, sequence;
};
struct shard_kept shard_kept(const struct model *m, int64_t tp, int64_t pp, int64_t stage);

/* Whether the operator's output is a partial sum over the shards: an all-reduce follows. */
bool shard_is_partial(enum op_kind k);
int32_t shard_all_reduces(const struct model *m); /* of a forward pass */
/* Of a stage of a model whose layers differ; and its layers with experts. */
int32_t shard_stage_all_reduces(const struct model *m, int64_t pp, int64_t stage);
int64_t shard_stage_expert_layers(const struct model *m, int64_t pp, int64_t stage);

/* ---- weights --------------------------------------------------------------------------------- */

/* Rows and columns of a tensor; a vector has one column. */
struct shard_slice {
    int64_t row, rows, column, columns;
};

/* ST_USAGE, with the setting's name, where heads, KV heads or features cannot be cut into equal
 * parts. For models that engines compute. */
enum st shard_check_weights(const struct model *m, int64_t tp, struct err *e);
/* The part of a tensor of model_tensors that shard `rank` holds. Its row r is row
 * weight_row(shard_model, part, r - row) of the shard's operator. */
struct shard_slice shard_tensor(const struct model *m, int64_t tp, int64_t rank,
                                const struct tensor *t, const struct weight_place *place);

#endif
