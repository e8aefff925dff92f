/* Added tokens: texts that become one id each, matched before every other step. */
#ifndef MODEL_TOKENIZER_ADDED_H
#define MODEL_TOKENIZER_ADDED_H

#include "base/str.h"
#include "base/vec.h"

struct added_token {
    const char *content;
    int32_t id;
    bool special;        /* left out by decoding with skip_special */
    bool normalized;     /* matched in the normalised text */
    bool single_word;    /* only where no word character is adjacent */
    bool lstrip, rstrip; /* swallows white space on that side */
};

struct added_node;

/* A trie of byte strings. */
struct added_trie {
    VEC(struct added_node) nodes;
};

void added_put(struct added_trie *t, struct sv text, const struct added_token *token);
void added_free(struct added_trie *t);

/* A stretch of text: token NULL = ordinary text. */
struct added_span {
    size_t begin, end;
    const struct added_token *token;
};

/* Iterates over stretches from *at on, advancing it; false at the end. Leftmost, longest match. */
struct added_scan {
    const struct added_trie *trie;
    struct sv text;
    size_t from;            /* position where the search continues */
    size_t begin;           /* start of the next stretch */
    struct added_span held; /* a token found behind the text that was returned before it */
};
bool added_next(struct added_scan *s, struct added_span *out);

#endif
