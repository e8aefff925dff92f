/* Normalisers: NFC, Prepend, Replace, in the order of the file. */
#ifndef MODEL_TOKENIZER_NORMALIZE_H
#define MODEL_TOKENIZER_NORMALIZE_H

#include "base/str.h"
#include "base/vec.h"

enum normalizer_kind { NORMALIZE_NFC, NORMALIZE_PREPEND, NORMALIZE_REPLACE };

struct normalizer {
    enum normalizer_kind kind;
    struct sv what; /* prepend: the text; replace: what is replaced, not empty */
    struct sv with; /* replace */
};

struct normalizers {
    VEC(struct normalizer) steps;
};

/* The normalised text, in *out (cleared first); spare is scratch. Time is linear in the text, but
 * for sorting runs of combining marks: n log n. */
void tokenizer_normalize(const struct normalizers *n, struct sv text, struct buf *out,
                         struct buf *spare);

/* Position of the first `what` (not empty) in text; text.n = none. */
size_t tokenizer_find_text(struct sv text, struct sv what);
/* Append text with every `what` replaced. */
void tokenizer_replace_all(struct buf *out, struct sv text, struct sv what, struct sv with);

#endif
