/* A server's front: one process that takes requests in before its engine sees them.
 *
 * It parses, checks and tokenizes for s seconds a request, and has all that are there by turns:
 * with n of them each gets on at 1 / n (processor sharing), so requests that come together are
 * ready together, when all are done. Seen of vLLM 0.24: of 128 requests that came at once the first
 * reached the engine after 160 ms, the others in the 12 ms behind it.
 *
 * Each replica has one, behind the router, of predictions on the virtual clock. It hands on at most
 * 1 / s requests a second. */
#ifndef SERVE_FRONT_H
#define SERVE_FRONT_H

#include "base/vec.h"

struct request;

struct fronted {
    struct request *q;
    double done_at; /* on the clock of what each request got */
};

struct front {
    double s;                 /* of a request; 0 = requests pass at once */
    double now_s, each_s;     /* until now_s a request that was there all along got each_s */
    VEC(struct fronted) held; /* in order of arrival, from `first` on */
    size_t first;
};

/* The request came at now_s, which does not fall. */
void front_take(struct front *x, struct request *q, double now_s);
/* When the next one is ready, as long as no other comes; INFINITY = none is there. */
double front_next_s(const struct front *x);
/* The next one that is ready at now_s; NULL = none is. */
struct request *front_pop(struct front *x, double now_s);
void front_free(struct front *x); /* what is held is the caller's */

#endif
