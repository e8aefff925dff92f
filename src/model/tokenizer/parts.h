/* Representation of a loaded tokenizer: filled by load.c, read by tokenizer.c. */
#ifndef MODEL_TOKENIZER_PARTS_H
#define MODEL_TOKENIZER_PARTS_H

#include "model/tokenizer.h"
#include "model/tokenizer/added.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/decode.h"
#include "model/tokenizer/normalize.h"
#include "model/tokenizer/split.h"

struct token {
    struct sv text; /* p NULL = no token has this id */
    bool special;
};

struct tokenizer {
    struct arena *a;
    struct bpe bpe;
    struct token *tokens; /* [n_ids] */
    int64_t n_ids;
    struct added_trie added;            /* matched in the raw text */
    struct added_trie added_normalized; /* matched in the normalised text */
    struct normalizers normalizers;
    struct splitters splitters;
    struct decoders decoders;
    VEC(int32_t) before; /* ids added by the post-processor */
    VEC(int32_t) after;
    /* Of tokenizer_read: */
    int64_t n_steps;         /* of all four kinds so far */
    double growth, ungrowth; /* most bytes that a byte becomes in encoding, in decoding */
};

/* Fill t (zeroed but for its arena) from the tree of a tokenizer.json. The tree may go afterwards.
 */
struct node;
enum st tokenizer_read(struct tokenizer *t, const struct node *root, struct err *e);
/* Helpers of load.c. */
enum st tokenizer_read_model(struct tokenizer *t, const struct node *model, bool byte_level,
                             struct err *e);
enum st tokenizer_read_added(struct tokenizer *t, const struct node *list, struct err *e);

/* Checks that every key of the map is one of "a|b|c": an ignored key might change ids. */
enum st tokenizer_only_keys(const struct node *map, const char *keys, struct err *e);
/* A member that is there and not null. */
const struct node *tokenizer_member(const struct node *map, const char *key);
enum st tokenizer_flag(const struct node *map, const char *key, bool fallback, bool *out,
                       struct err *e);

#endif
