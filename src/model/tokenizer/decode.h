/* Decoders: the texts of tokens back to one text, in the steps of the file. */
#ifndef MODEL_TOKENIZER_DECODE_H
#define MODEL_TOKENIZER_DECODE_H

#include "base/str.h"
#include "base/vec.h"

enum decode_kind {
    DECODE_REPLACE,       /* in each text */
    DECODE_BYTE_FALLBACK, /* runs of <0xNN> become their characters, or U+FFFD each */
    DECODE_FUSE,          /* one text of all */
    DECODE_STRIP,         /* up to `start` and `stop` times `what` off the ends of each text */
    DECODE_BYTE_LEVEL,    /* characters that stand for bytes back to bytes; one text of all */
    DECODE_METASPACE,     /* U+2581 to spaces; dropped in the first text if drop_first */
};

struct decoder {
    enum decode_kind kind;
    struct sv what, with;
    int64_t start, stop;
    bool drop_first;
};

struct decoders {
    VEC(struct decoder) steps;
};

/* Appends to out. The texts are overwritten. No steps: joined with spaces, as the library does. */
void tokenizer_join(const struct decoders *d, struct arena *a, struct sv *texts, size_t n,
                    struct buf *out);

/* The byte that a character of the byte-level alphabet stands for, or -1. The 188 visible
 * characters of Latin-1 stand for themselves; U+0100 and on for the other 68 bytes in order. */
int tokenizer_byte_of(uint32_t c);

#endif
