/* Live requests: what the HTTP threads and the loop's thread share. All of it under server.lock,
 * but for what a live request says is of one side only. */
#ifndef SERVER_LIVE_H
#define SERVER_LIVE_H

#include <pthread.h>

#include "base/vec.h"
#include "server/answer.h"
#include "server/connections.h"
#include "server/detok.h"
#include "server/gauges.h"
#include "server/server.h"

struct MHD_Connection;
struct MHD_Daemon;
struct intake;

enum live_finish { FINISH_NOT, FINISH_LENGTH, FINISH_STOP };

struct live_request {
    struct live_request *prev, *next; /* in server.all */
    struct live_request *queued;      /* next in server.queue */
    struct server *server;
    int sides; /* that still hold it: HTTP, loop */
    int64_t id;
    struct arena *a;             /* of request */
    struct http_request request; /* constant */
    int64_t arrival_ns, created_s;

    struct MHD_Connection *connection;
    int fd;
    bool suspended;
    VEC(int32_t) ids;        /* tokens that came */
    struct stops stops;      /* and, where request.n_stops > 0, their text */
    int64_t n_taken;         /* of them on their way out */
    enum live_finish finish; /* of the last of them */
    int64_t last_token_ns;
    bool over; /* its row was written */
    enum run_status status;
    char error[200], error_type[24];
    bool gone;      /* nobody waits for it */
    bool gone_told; /* the loop knows */

    /* HTTP side */
    struct detok detok;
    struct buf out; /* to be sent */
    size_t out_at;  /* of it is sent */
    bool ended;     /* the last bytes are in out */
};

struct server {
    const struct server_params *p;
    struct MHD_Daemon *daemon;
    int port;
    int listener; /* once it drains; -1 */
    pthread_mutex_t lock;
    pthread_cond_t arrived; /* something for the loop */
    struct live_request *all;
    int64_t n_all;                      /* in all */
    int64_t n_pending;                  /* taken in and not over */
    int64_t n_gone;                     /* gone, and the loop does not know */
    struct live_request *first, **last; /* queue towards the loop */
    int64_t ids;                        /* given out */
    int64_t created_s;
    bool draining;
    int64_t drain_until_ns;
    int64_t polled_ns;
    size_t held_bytes; /* of bodies */
    struct intake *intake;
    int64_t n_read_aside; /* visits that intake read, or is to read, and that are not answered */
    struct gauges gauges;
    VEC(struct gauge_replica) replicas; /* by index; grows */
    struct conns conns;

    /* loop side */
    const struct serve_clock *clock;
    const volatile sig_atomic_t *stop;
    volatile sig_atomic_t *abort;
    struct serve_sink sink;      /* behind ours */
    struct live_request *handed; /* last one given to serve_run, for its ids */
    struct live_request **by_id; /* ring of live requests by id, [by_id_cap] */
    size_t by_id_cap;
};

/* HTTP side: a request joins the queue. False: there are too many, or the server drains. Joined,
 * the arena is the request's; *out has two sides. */
enum live_join { LIVE_JOINED, LIVE_FULL, LIVE_DRAINING };
enum live_join live_join(struct server *s, struct arena *a, const struct http_request *request,
                         struct MHD_Connection *c, int fd, struct live_request **out);
/* HTTP side: the connection is done with it. */
void live_leave(struct server *s, struct live_request *l);
/* After the loop: nothing joins any more. */
void live_refuse_new(struct server *s);
/* After that: what has no row yet is cancelled, and streams get a moment to be read. */
void live_end_all(struct server *s);
/* Either side, lock held: wakes the stream if it sleeps. */
void live_wake(struct live_request *l);

#endif
