/* A tokenizer for tests: a text's words at single spaces, each word's length its id; ids after a 1
 * as beginning of the sequence. Defines tokenizer_encode, so the real one is not linked. */
#ifndef SUPPORT_FAKE_TOKENIZER_H
#define SUPPORT_FAKE_TOKENIZER_H

#include <string.h>

#include "model/tokenizer.h"

static inline const struct tokenizer *fake_tokenizer(void)
{
    static const char any;
    return (const struct tokenizer *)&any;
}

enum st tokenizer_encode(struct arena *a, const struct tokenizer *t, struct sv text,
                         bool add_special, int32_t **ids, size_t *n, struct err *e)
{
    ASSERT(t == fake_tokenizer());
    if (text.n && text.p[0] == '!')
        return err_set(e, ST_INPUT, "the tokenizer refuses");
    *ids = arena_array(a, int32_t, text.n + 1);
    *n = 0;
    if (add_special && text.n && text.p[0] != ' ')
        (*ids)[(*n)++] = 1;
    for (size_t at = 0; at < text.n && text.p[0] != ' ';) {
        const char *space = memchr(text.p + at, ' ', text.n - at);
        size_t end = space ? (size_t)(space - text.p) : text.n;
        (*ids)[(*n)++] = (int32_t)(end - at);
        at = end + 1;
    }
    return ST_OK;
}

#endif
