/* Checks that the headers of a request define the end of its body unambiguously.
 *
 * A proxy and the HTTP library behind it may each read a repeated Content-Length, one beside a
 * Transfer-Encoding, or one under a name with a space in it, in its own way; what one takes for the
 * rest of a body, the other takes for the next request (request smuggling). RFC 9112, sections 5.1
 * and 6, requires such requests to be refused and their connection closed. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include "base/str.h"

struct framing {
    int lengths, encodings; /* headers of these names so far */
    const char *fault;      /* the first; NULL = none */
};

/* The next header, in any order. */
void framing_add(struct framing *f, struct sv name, struct sv value);
/* After the last one: what is wrong, or NULL. http_1_0: of the request line. */
const char *framing_fault(const struct framing *f, bool http_1_0);

#endif
