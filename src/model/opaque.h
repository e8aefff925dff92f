/* A model of which sizes are known and nothing else: the model of another program, or of a
 * config.json that no family reads. Enough for memory plans, scheduling, measured iterations and
 * calibrations; what goes by operators refuses it (model_check_described).
 *
 * Its structure (structure.h) is the simplest of these sizes, so that whatever counts blocks, bytes
 * and loads needs no second way. Kinds of layers stand in turn: one that keeps kv_bytes, one that
 * keeps window_kv_bytes for the last `window` tokens, one with a state; those of size 0 are left
 * out. Layers of a kind have equal parts of what it keeps. All layers have equal parts of the
 * weights, as two matrices that tensor parallelism cuts evenly, with an all-reduce behind each.
 * Keys and values are bytes: `kv` is a format of one byte an element, whatever the server's is.
 *
 * Not known, and left to what a calibration's other parameters take up: what experts leave unread,
 * what states cost, and the bytes that devices send each other (their latencies are counted).
 *
 * A query and a key cost two FLOP for each byte of the key: in 16 bits that is one KV head for two
 * heads of queries. A calibration's attention_efficiency takes up what others have. */
#ifndef MODEL_OPAQUE_H
#define MODEL_OPAQUE_H

#include "model/model.h"

struct opaque {
    double weight_bytes;             /* of the whole model, as they lie in memory */
    int64_t kv_bytes;                /* of a token, all layers and heads together */
    int64_t window_kv_bytes, window; /* the same of layers that need the last `window` tokens */
    int64_t state_bytes;             /* of a sequence */
    int64_t kv_heads;       /* tensor parallelism shares keys and values out over so many shards at
                               most; 1 = each shard holds all; 0 = not said: one shard only */
    int64_t layers;         /* 0 = not said: no pipeline */
    double workspace_bytes; /* of a device, beside weights, keys and values: activations, CUDA
                               graphs, the context; 0 = not said: vLLM's memory plan is refused */
};

/* ST_USAGE, with the setting's name, for sizes that cannot be: no weights, nothing kept, parts that
 * are no whole bytes. */
enum st opaque_model(struct arena *a, const char *name, const struct opaque *sizes,
                     struct model *out, struct err *e);
/* ST_USAGE where degrees need sizes that were not said. */
enum st opaque_check_shards(const struct model *m, int64_t tp, int64_t pp, int64_t ep,
                            struct err *e);

/* As text and as a tree: what `twinfer model inspect` prints. */
void opaque_describe(struct arena *a, const struct model *m, struct buf *out);
struct node *opaque_describe_node(struct arena *a, const struct model *m);

#endif
