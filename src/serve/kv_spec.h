/* Inside of kv_group.h: specs of layers, and what makes groups of them. */
#ifndef SERVE_KV_SPEC_H
#define SERVE_KV_SPEC_H

#include "serve/kv_group.h"

/* What one layer keeps. Compared byte for byte. */
struct kv_spec {
    enum kv_kind kind;
    int32_t latent; /* else 0 */
    int64_t block_size, span;
    int64_t kv_heads, k_dim, v_dim;
    int64_t elements, bytes; /* of a token */
    int64_t ratio;           /* tokens to an entry, else 1 */
    int64_t state, float32;  /* of a sequence */
    int64_t padded;          /* page; 0 = not */
    int64_t checkpoint;
};

struct kv_entry {
    int32_t layer;
    struct kv_spec spec;
};

struct kv_maker {
    const struct kv_settings *set;
    const char *model;
    struct kv_entry *entries; /* in vLLM's order of the layers' caches */
    int32_t n;
    bool packed; /* a layer keeps several lists: kv_packed.c */
};

/* An empty spec of the layer. */
struct kv_spec *kv_entry_add(struct kv_maker *m, int64_t layer);
int64_t kv_spec_page(const struct kv_maker *m, const struct kv_spec *s);
struct kv_group kv_spec_group(const struct kv_maker *m, const struct kv_spec *s);
/* Into that group, whose pages it adds up. Entries of a layer follow each other. */
void kv_groups_add(const struct kv_maker *m, struct kv_groups *out, const struct kv_entry *x,
                   int32_t group);

/* ---- layers that keep several lists (kv_packed.c) -------------------------------------------- */

/* Whether an attention keeps the last tokens exactly and earlier ones several to an entry. */
bool kv_is_compressed(const struct attention *t);
/* Its lists. False: their sizes are none that vLLM has a layout for. */
bool kv_add_compressed(struct kv_maker *m, const struct attention *t, int64_t layer);
/* Groups of pages that stand side by side in a block. False: more groups than there is room for. */
bool kv_pack(const struct kv_maker *m, struct kv_groups *out);

#endif
