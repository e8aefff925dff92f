/* Transfers in flight: requests posted by libcurl's multi interface, on sockets (epoll) and one
 * timer.
 *
 * A transfer ends when its answer is over, fails, or takes longer than the limits of client_params
 * allow; client_result then says how (the table in client/client.h). Transfers and the sockets
 * under them are used again. What is sent when, and whether it is sent again, is the caller's
 * (client/client_loop.c), who hears of everything through inflight_watch: on the thread of
 * inflight_step, and never from within libcurl, so that it may send at once.
 *
 * Times are ns since inflight_start, on the monotonic clock. */
#ifndef CLIENT_INFLIGHT_H
#define CLIENT_INFLIGHT_H

#include "client/client.h"

struct inflight;

struct inflight_watch {
    void *self;
    /* Between two sockets: what is due can be sent, however many answers came at once. */
    enum st (*between)(void *self, struct err *e);
    /* client_result.chunks has new ones, from `from` on. */
    void (*chunks)(void *self, size_t request, size_t from);
    /* [DONE] came and the response is still open; told again until it ends. */
    void (*done)(void *self, size_t request);
    /* Over: the result says how. retry_after_s is the wait that the server asks for, 0 = none,
     * INFINITY = more than a request may take. */
    void (*ended)(void *self, size_t request, double retry_after_s);
};

struct inflight_counts {
    int64_t connections; /* opened by the transfers that ended */
    int64_t bytes_received;
    int64_t peak;      /* most transfers in flight at once */
    int64_t waited_ns; /* for events */
};

/* p, watch and *stop are borrowed; largest_bytes: of the bodies, as far as they are known. With
 * https the server is looked up and a connection tried, until *stop; stop may be NULL. ST_DEVICE:
 * curl, epoll or timers refuse. */
enum st inflight_open(const struct client_params *p, const struct inflight_watch *watch,
                      size_t largest_bytes, const volatile sig_atomic_t *stop,
                      struct inflight **out, struct err *e);
void inflight_close(struct inflight **t);

void inflight_start(struct inflight *t); /* this moment is 0 */
int64_t inflight_now(const struct inflight *t);
size_t inflight_n(const struct inflight *t);
struct inflight_counts inflight_counts(const struct inflight *t);

/* Posts a body, which is borrowed until the transfer has ended, and begins an attempt in r:
 * sent_ns is the moment. */
enum st inflight_send(struct inflight *t, size_t request, struct sv body, struct client_result *r,
                      struct err *e);
/* Waits for sockets or, at the latest, until due_ns, when the caller has something to send, and
 * deals with what came. */
enum st inflight_step(struct inflight *t, int64_t due_ns, struct err *e);
/* Ends all that are in flight as cancelled. */
void inflight_cancel(struct inflight *t, const char *why);

#endif
