/* Stop strings: decides which text of a request may be sent, token by token.
 *
 * An answer ends before the first of its stop strings, which is not part of it. So a possible
 * beginning of one is held back until the next tokens decide; when the answer ends otherwise, it is
 * sent. */
#ifndef SERVER_STOPS_H
#define SERVER_STOPS_H

#include "server/detok.h"

enum { STOPS_MOST = 4, STOPS_LONGEST = 256 }; /* of a request (OpenAI's); bytes of one */

struct stops {
    struct detok detok;
    struct buf text;
    VEC(size_t) upto; /* bytes of text that may be sent up to each token */
};

/* Takes the next token; last: none follows. True: a stop string is complete, and the text ends
 * before it. strings[n] are UTF-8, of 1 to STOPS_LONGEST bytes. */
bool stops_add(struct stops *s, const struct sv *strings, size_t n, int32_t id, bool last);
void stops_free(struct stops *s);

#endif
