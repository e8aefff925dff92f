/* A model in figures: what `twinfer model inspect` prints.
 *
 * Parameters, bytes of the weights and of the KV cache per token, and for each operator its
 * weight's shape and what a token costs: the mean over a prompt of `prompt_tokens` alone in its
 * batch (one row sampled), and the one token of a decode step that sees `kv_tokens` keys, alone in
 * its batch. Work is FLOPs and bytes moved, by the formulas of ops.c. Of a model whose layers
 * differ (model.h: layered) the kinds of layers stand in place of the operators
 * (describe_layers.h). */
#ifndef MODEL_DESCRIBE_H
#define MODEL_DESCRIBE_H

#include "model/model.h"

struct describe_params {
    int64_t prompt_tokens; /* 0 = 512 */
    int64_t kv_tokens;     /* keys of the decode step, the new token's included; 0 = 512 */
    int element_bytes;     /* of weights and activations: 4 or 2; 0 = 4 */
};

/* As text: a summary, then a table of the operators with a row of sums. */
void model_describe(struct arena *a, const struct model *m, const struct describe_params *p,
                    struct buf *out);

/* The same as a tree, exact: {model, source (of the hub's cache), family, model_type (where that is
 * another), dimensions{..}, parameters, weight_bytes{..}, kv_bytes_per_token{..},
 * stored_kv_bytes_per_token (in the format that the configuration states), stored_bytes, stored_as,
 * stored_kv, stored_note, stored[..] (stored.h: stored_node), active_parameters, expert_parameters,
 * window_kv_bytes_per_token, window_bytes_per_sequence, state_bytes_per_sequence, layers{..},
 * prompt_tokens, kv_tokens, element_bytes, operators[{name, repeat, weight, parameters,
 * prefill{flop, bytes}, decode{flop, bytes}}], total{prefill, decode}}; costs are per token and
 * hold all repeats. The three before layers are with 2 bytes an element, of which
 * kv_bytes_per_token counts the first. */
struct node *model_describe_node(struct arena *a, const struct model *m,
                                 const struct describe_params *p);

#endif
