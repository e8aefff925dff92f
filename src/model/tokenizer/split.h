/* Pre-tokenizers: a text cut into the pieces that BPE works on.
 *
 * Steps run in the order of the file; each one splits the pieces of the step before. */
#ifndef MODEL_TOKENIZER_SPLIT_H
#define MODEL_TOKENIZER_SPLIT_H

#include "base/str.h"
#include "base/vec.h"
#include "model/tokenizer/regex.h"

enum split_kind {
    SPLIT_REGEX,       /* matches and what lies between them are pieces */
    SPLIT_PREFIX,      /* ByteLevel's add_prefix_space: a space before a piece that has none */
    SPLIT_METASPACE,   /* spaces become U+2581, one more in front */
    SPLIT_AT_METASPACE /* a piece begins at every U+2581 */
};

enum split_front { FRONT_NEVER, FRONT_FIRST, FRONT_ALWAYS };

struct splitter {
    enum split_kind kind;
    struct regex *regex;
    bool drop_matches, drop_gaps; /* behaviour Removed */
    struct sv space;              /* U+2581 or what the file has for it */
    enum split_front front;       /* METASPACE: which pieces get one in front */
};

struct splitters {
    VEC(struct splitter) steps;
};

struct piece {
    size_t begin, end; /* in split_pieces.text */
    bool first;        /* begins where the whole text begins */
};

/* Buffers reused between calls; owns `matching`. */
struct split_pieces {
    struct buf text, spare_text;
    VEC(struct piece) list;
    VEC(struct piece) spare;
    struct regex_match *match;
};
void split_pieces_free(struct split_pieces *p);

/* The pieces of text (valid UTF-8) in p->list; first: it begins where the whole text begins. */
enum st tokenizer_split(const struct splitters *s, struct sv text, bool first,
                        struct split_pieces *p, struct err *e);

#endif
