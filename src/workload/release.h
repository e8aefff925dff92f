/* What becomes ready when: the order in which the requests of a workload are released, and the
 * planned moment of each. One implementation for the serving loop on both clocks, the HTTP client
 * and the driver of workers, so that a real and a simulated run follow the same rules.
 *
 * The planned moment of a request, from which its latencies count, is
 *     a request of its own, or the first turn of a session
 *         open loop     its arrival in the workload
 *         closed loop   when a place became free: at second 0, when the limit rose, or when the
 *                       end was seen that left fewer in the system than the limit
 *     a later turn      when the end of the turn before was seen, plus its think time
 *
 * An end counts from the moment at which it is seen by what releases: the serving loop sees it at
 * the end of the batch with the last token, the client when the response is over, the driver of a
 * worker when the message about it is read. A request that failed or was rejected has ended, too:
 * what follows it is released as after any other, so all runs of a workload have the same requests.
 *
 * Who releases also knows the answers, and puts them into the prompt of the next turn where it can
 * (serve/serve.h, client/turns.h, engine/worker).
 *
 * A closed loop limits requests in flight, or, where the workload has sessions, sessions: one holds
 * its place from its first turn to the end of its last, think times included. Requests start in the
 * order of the workload, whatever their arrivals. Planned moments never go back: one that lay
 * before that of the request released last (ends may be seen out of order) is moved to it. Of equal
 * moments later turns come first, then those that stand first in the workload.
 *
 * Nothing here knows the time: the caller asks for the next planned moment, waits for it, takes the
 * request, and reports ends. With equal ends the same requests come in the same order at the same
 * moments. Cost: O(1) per request, O(log sessions) per later turn, O(stages) per start in a closed
 * loop. Memory: the turns of sessions that have begun. */
#ifndef WORKLOAD_RELEASE_H
#define WORKLOAD_RELEASE_H

#include "base/vec.h"
#include "workload/concurrency.h"
#include "workload/workload.h"

struct release_params {
    void *self;
    /* The requests in the order of the workload, the turns of a session one after the other. ST_END
     * = no more. */
    enum st (*next)(void *self, struct workload_request *out, struct err *e);
    bool live; /* ST_END = none now: asked again each time (serve/serve.h) */
    const struct concurrency *concurrency; /* NULL = open loop */
};

/* ns and s of one moment; s where the clock is virtual, not rounded. */
struct moment {
    int64_t ns;
    double s;
};

struct release_turn {
    struct moment at;
    int64_t row;     /* of the request */
    int32_t session; /* index of `sessions` */
};

struct release_session {
    VEC(struct workload_request) turns; /* from `next` on those not released */
    size_t next;
};

struct release {
    struct release_params p;
    /* Read ahead: the next one to start, the later turns of its session, and what stands behind
     * these. */
    struct workload_request head, beyond;
    VEC(struct workload_request) head_turns;
    bool has_head, has_beyond, ended; /* ended: the workload has no more */
    int64_t rows;                     /* read so far */
    double last_arrival_s;            /* of a start, to check their order */
    struct moment last;               /* planned moment of the request released last */

    /* Sessions in the system, and those of their turns that wait for their moment. */
    VEC(struct release_session) sessions;
    VEC(int32_t) free_sessions;
    VEC(struct release_turn) turns; /* a heap */
    int64_t turns_left;             /* of these sessions, not released */

    /* Closed loop. */
    VEC(struct moment) places; /* from place_at on: became free and were not taken */
    size_t place_at;
    int64_t inside;       /* in the system; a place in `places` counts */
    struct moment cursor; /* of the last change of `inside` */

    /* Figures. */
    int64_t released, running, peak, n_sessions;
    struct moment begin, end; /* first planned moment, last end */
    double sum_s;             /* of the ends, less the planned moments */
};

void release_init(struct release *r, const struct release_params *p);
void release_free(struct release *r); /* zeroed is fine */

/* The planned moment of the request that release_take would give, *at.s INFINITY: none is known,
 * and unless release_done one follows when a request that runs has ended. Reads ahead: errors are
 * those of next(), and ST_INPUT for arrivals that go back. */
enum st release_next(struct release *r, struct moment *at, struct err *e);

/* Releases that request, to which release_next has just given a time. out->arrival_* are its
 * planned moment, out->row its place in the workload. *session is for release_over. */
void release_take(struct release *r, struct workload_request *out, int32_t *session);

/* That request has ended. */
void release_over(struct release *r, int32_t session, struct moment end);

/* The session has a further turn. */
bool release_goes_on(const struct release *r, int32_t session);

/* Nothing will be released any more, whatever ends. Call after release_next. */
bool release_done(const struct release *r);

/* Some planned moments followed from ends: a closed loop, or sessions. */
bool release_follows(const struct release *r);

/* Requests between planned moment and end: mean over the time from the first moment to the last
 * end. NAN when there was none. */
double release_concurrency(const struct release *r);

#endif
