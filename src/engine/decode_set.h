/* The decode rows of one lane, kept by an executor that needs them: the batch only tells changes.
 */
#ifndef ENGINE_DECODE_SET_H
#define ENGINE_DECODE_SET_H

#include "serve/executor.h"

struct decode_set {
    int32_t *slots; /* [n] ascending */
    int32_t n, cap;
};

/* Apply what left and what entered. A slot that leaves without being in the set, or enters while it
 * is, and a size other than b->n_decodes are bugs of the loop. O(changes * n), moves of a few
 * bytes. */
void decode_set_apply(struct decode_set *s, const struct batch *b);
void decode_set_free(struct decode_set *s);

#endif
