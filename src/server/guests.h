/* Connections that are asking: from the moment they are open, or their last answer is sent, until
 * their request is in, headers and body.
 *
 * libmicrohttpd closes connections on which nothing moves; one that sends a byte now and then it
 * keeps for ever, in headers as in bodies. Here each has a time by which its request must be in,
 * and is shut down then. Everything under server.lock. */
#ifndef SERVER_GUESTS_H
#define SERVER_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

struct guest {
    struct guest *prev, *next;
    int fd; /* open as long as the guest is in the list */
    bool asks;
    int64_t since_ns;
};

struct guests {
    struct guest *all;
    int64_t looked_ns;
};

struct guest *guests_add(struct guests *g, int fd, int64_t now_ns); /* it asks */
void guests_remove(struct guests *g, struct guest *one);
void guest_asks(struct guest *one, int64_t now_ns);
void guest_has_asked(struct guest *one);

/* Shuts down those that have been asking for longer than limit_ns; returns how many. Looks no more
 * than a few times a second, however often it is called. */
int64_t guests_hurry(struct guests *g, int64_t now_ns, int64_t limit_ns);

#endif
