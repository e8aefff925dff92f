/* Connections and the time by which each must have sent its request, headers and body.
 *
 * libmicrohttpd closes idle connections, but keeps one that sends a byte now and then for ever, in
 * headers as in bodies. So a connection awaits its request from the moment it is open, or its last
 * answer is sent, and is shut down when that takes too long. Everything under server.lock. */
#ifndef SERVER_CONNECTIONS_H
#define SERVER_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct conn {
    struct conn *prev, *next;
    int fd; /* open as long as the connection is in the list */
    bool awaits_request;
    int64_t since_ns; /* start of that wait */
};

struct conns {
    struct conn *all;
    int64_t looked_ns; /* last scan by conn_expire */
};

struct conn *conn_add(struct conns *all, int fd, int64_t now_ns); /* awaits its request */
void conn_remove(struct conns *all, struct conn *c);
void conn_awaits_request(struct conn *c, int64_t now_ns);
void conn_has_request(struct conn *c);

/* Shuts down connections that have awaited a request for longer than limit_ns; returns how many.
 * Scans at most a few times a second, however often it is called. */
int64_t conn_expire(struct conns *all, int64_t now_ns, int64_t limit_ns);

#endif
