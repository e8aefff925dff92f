/* Requests that were taken out of what batches in flight hold: preempted while their tokens are on
 * the way (vLLM frees the blocks at once), or left to rest.
 *
 * A batch in flight goes on with them. When it comes back it delivers their tokens, which their
 * lane's decode set does not know of any more. Until all such batches have come back a preempted
 * request is not admitted again; if its last token was among these it is over. Cost: O(batches in
 * flight) and O(chunks of these) where a request is taken out, nothing else. */
#ifndef SERVE_DETACHED_H
#define SERVE_DETACHED_H

#include "serve/replica.h"

/* The batches in flight that hold q note so; q still stands where they took it from. */
void detached_add(struct replica *r, struct request *q);

/* q goes out of its lane's decode set, or out of those that emit their last token, with its tokens
 * delivered so far and its part of the lane's time. */
void detached_leave_decodes(struct replica *r, struct request *q);

/* Tokens of q in batches that are out. O(batches in flight) and O(chunks of these). */
int64_t detached_in_flight(const struct replica *r, const struct request *q);

bool detached_holds(const struct flight *f, const struct request *q);

/* f came back: tokens of those taken out of it. */
void detached_deliver(struct replica *r, struct flight *f, const struct completion *c,
                      int64_t end_ns);

/* The next one of f that waits and has all of its tokens; NULL when there is none. */
struct request *detached_pop_over(struct flight *f);

#endif
