/* Live requests, shared by the HTTP threads and the loop's thread. Guarded by server.lock, except
 * fields marked as one side's. */
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
    int sides; /* number of sides that hold it: HTTP, loop */
    int64_t id;
    struct arena *a;             /* of request */
    struct http_request request; /* constant */
    int64_t arrival_ns, created_s;

    struct MHD_Connection *connection;
    int fd;
    bool suspended;
    VEC(int32_t) ids;        /* tokens so far */
    struct stops stops;      /* their text, where request.n_stops > 0 */
    int64_t n_taken;         /* tokens already formatted */
    enum live_finish finish; /* finish reason of the last token */
    int64_t last_token_ns;
    bool over; /* its row was written */
    enum run_status status;
    char error[200], error_type[24];
    bool gone;      /* the client is gone */
    bool gone_told; /* reported to the loop */

    /* HTTP side */
    struct detok detok;
    struct buf said; /* Responses API: the text so far */
    struct buf out;  /* to be sent */
    size_t out_at;   /* of it is sent */
    bool ended;      /* the last bytes are in out */
};

struct server {
    const struct server_params *p;
    struct MHD_Daemon *daemon;
    int port;
    pthread_mutex_t lock;
    pthread_cond_t arrived; /* signals new work for the loop */
    struct live_request *all;
    int64_t n_all;                      /* in all */
    int64_t n_pending;                  /* accepted and not over */
    int64_t n_gone;                     /* gone, not yet reported to the loop */
    struct live_request *first, **last; /* queue towards the loop */
    int64_t ids;                        /* given out */
    int64_t created_s;
    bool draining;
    int64_t drain_until_ns;
    int64_t polled_ns;
    size_t held_bytes; /* of bodies */
    struct intake *intake;
    int64_t n_read_aside; /* visits read or to be read by intake, not answered yet */
    struct gauges gauges;
    VEC(struct gauge_replica) replicas; /* by index; grows */
    struct conns conns;
    struct conn_limits limits;
    size_t reserve; /* connections above the limit, for /health */

    /* loop side */
    const struct serve_clock *clock;
    const volatile sig_atomic_t *stop;
    volatile sig_atomic_t *abort;
    struct serve_sink sink;      /* called after the server's own hooks */
    struct live_request *handed; /* last request given to serve_run, for prompt_ids */
    struct live_request **by_id; /* ring of live requests by id, [by_id_cap] */
    size_t by_id_cap;
};

/* HTTP side: adds a request to the queue. On LIVE_JOINED the request owns the arena, and *out has
 * two sides. */
enum live_join { LIVE_JOINED, LIVE_FULL, LIVE_DRAINING };
enum live_join live_join(struct server *s, struct arena *a, const struct http_request *request,
                         struct MHD_Connection *c, int fd, struct live_request **out);
/* HTTP side: the connection releases the request. */
void live_leave(struct server *s, struct live_request *l);
/* After the loop: refuses new requests. */
void live_refuse_new(struct server *s);
/* After that: cancels requests without a row, and gives streams a moment to be read. */
void live_end_all(struct server *s);

#endif
