/* Connections: how many there may be, and the time by which each must have sent its request,
 * headers and body.
 *
 * libmicrohttpd closes idle connections, but keeps one that sends a byte now and then for ever, in
 * headers as in bodies. So a connection awaits its request from the moment it is open, or its last
 * answer is sent, and is shut down when that takes too long.
 *
 * A client that opens connections and sends nothing must not keep others out. When there are too
 * many, of one address or in all, a new one takes the place of the one that has awaited its request
 * longest; when all are busy, it is over the limit and gets nothing but /health.
 *
 * Everything under server.lock. */
#ifndef SERVER_CONNECTIONS_H
#define SERVER_CONNECTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

struct conn {
    struct conn *prev, *next;
    int fd;               /* open as long as the connection is in the list */
    struct in6_addr from; /* IPv4 mapped; of IPv6 the network, 64 bits */
    bool awaits_request;
    bool shut;        /* by us: the daemon closes it soon */
    bool over;        /* the limit, for as long as it is open */
    int64_t since_ns; /* start of that wait */
};

struct conns {
    struct conn *all;
    size_t open;       /* in it and not shut */
    int64_t looked_ns; /* last scan by conn_expire */
};

struct conn_limits {
    size_t all, of_address;
};

/* A new connection, which awaits its request, within the limits as above. */
struct conn *conn_add(struct conns *all, const struct conn_limits *most, int fd,
                      const struct sockaddr *from, int64_t now_ns);
void conn_remove(struct conns *all, struct conn *c);
void conn_awaits_request(struct conn *c, int64_t now_ns);
void conn_has_request(struct conn *c);

/* Shuts down connections that have awaited a request for longer than limit_ns; returns how many.
 * Scans at most a few times a second, however often it is called. */
int64_t conn_expire(struct conns *all, int64_t now_ns, int64_t limit_ns);

#endif
