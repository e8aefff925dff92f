/* Text of tokens as they come, in constant time a token.
 *
 * A token's text can depend on the one before (bytes of one character in two tokens, spaces that
 * are dropped at the beginning), so a short tail is decoded again with each token, and what it adds
 * is the token's text; a character that is not complete waits for the next token. */
#ifndef SERVER_DETOK_H
#define SERVER_DETOK_H

#include "base/vec.h"
#include "model/tokenizer.h"

struct detok {
    const struct tokenizer *t; /* NULL: no text ever */
    VEC(int32_t) ids;          /* the tail */
    size_t read;               /* ids of the tail whose text is out */
    struct buf before, after;  /* scratch */
};

/* Appends the new text; `last` also flushes an incomplete character. */
void detok_add(struct detok *d, int32_t id, bool last, struct buf *out);
void detok_free(struct detok *d);

#endif
