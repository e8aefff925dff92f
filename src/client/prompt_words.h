/* Texts of an exact number of tokens.
 *
 * Random ids as a text come back longer: the tokenizer merges other pairs than those drawn, by 20
 * to 55 % more tokens. Whole words, each of one token, do not: a splitter sets them apart, so a
 * text of n words is n tokens, and texts that begin with the same words begin with the same tokens.
 */
#ifndef CLIENT_PROMPT_WORDS_H
#define CLIENT_PROMPT_WORDS_H

#include "model/tokenizer.h"

struct prompt_words;

/* The words of a tokenizer, which is borrowed; none is no error. */
enum st prompt_words_find(struct arena *a, const struct tokenizer *t, struct prompt_words **out,
                          struct err *e);

/* Puts a word in the place of each of ids[n], always the same one for an id. False, with the ids as
 * they were: the tokenizer has none. */
bool prompt_words_draw(const struct prompt_words *w, int32_t *ids, size_t n);

/* A text of `want` tokens out of ids[n], n > 0, in the arena: their text where it has that many,
 * else of as many of them as fit, filled up with words. special: the tokens that the tokenizer adds
 * count. *got is what it has, which is another number only where no text was found. */
enum st prompt_words_text(struct arena *a, const struct prompt_words *w, const int32_t *ids,
                          size_t n, int64_t want, bool special, struct sv *out, int64_t *got,
                          struct err *e);

/* Tokens of a text. */
enum st prompt_words_count(const struct prompt_words *w, struct sv text, bool special, int64_t *n,
                           struct err *e);

#endif
