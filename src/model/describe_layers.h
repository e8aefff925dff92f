/* The layers of a model in figures: its kinds of attention and MLP, how many layers are of each,
 * what they hold and what they keep. Part of what `twinfer model inspect` prints.
 *
 * Bytes of keys and values are those of a token of a long sequence in all layers, on one device
 * that holds the whole model, with `element_bytes` an element; entries that several tokens share
 * count in part. Of layers with a window they are kept for the last tokens only, so they stand
 * apart. */
#ifndef MODEL_DESCRIBE_LAYERS_H
#define MODEL_DESCRIBE_LAYERS_H

#include "base/str.h"
#include "model/structure.h"
#include "text/node.h"

struct layer_bytes {
    double token;        /* every token adds */
    double window_token; /* a token of the window adds, in layers that have one */
    double window;       /* full windows, in all such layers */
    double state;        /* a sequence adds, however long it is */
    double last;         /* and at most besides: its last entries, where several tokens share one */
};
/* state_bytes: of an element of structure's float32 states. */
struct layer_bytes layer_bytes_of(const struct structure *s, double element_bytes,
                                  double state_bytes);

/* A table of the kinds. */
void describe_layers(struct arena *a, const struct structure *s, struct buf *out);
/* {attention[{kind, layers, heads, kv_heads, k_dim, v_dim, window, top_k, parameters, caches[{
 * elements, bytes, ratio, window, whole}], state_elements, state_float32}], mlp[{layers,
 * intermediate, experts, experts_per_token, shared, parameters}], draft_layers, encoder} */
struct node *describe_layers_node(struct arena *a, const struct structure *s);

#endif
