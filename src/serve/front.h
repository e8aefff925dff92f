/* A server's front: one process that takes requests in, one after the other bit by bit, before its
 * engine sees them.
 *
 * It parses, checks and tokenizes for s seconds a request, all that it has by turns: so requests
 * that come while it works on others are ready together, when it is done with all (processor
 * sharing of equal pieces, whose requests end at the end of a busy period). Seen of vLLM 0.24: of
 * 128 requests that came at once the first reached the engine after 160 ms, the others in the 12 ms
 * behind it.
 *
 * Of predictions, on the virtual clock; with s 0 requests pass at once. */
#ifndef SERVE_FRONT_H
#define SERVE_FRONT_H

#include "base/vec.h"

struct request;

struct front {
    double s;                   /* of a request */
    double ready_s;             /* when it is done with those that it holds */
    VEC(struct request *) held; /* in order of arrival */
};

/* The request came at now_s. */
void front_take(struct front *x, struct request *q, double now_s);
/* When the engine sees what is held; INFINITY = nothing is. */
double front_next_s(const struct front *x);
void front_free(struct front *x); /* what is held is the caller's */

#endif
