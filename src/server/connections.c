#include "server/connections.h"

#include <sys/socket.h>

#include "base/arena.h"
#include "base/clock.h"

static const int64_t LOOK_NS = 200 * NS_PER_MS;

struct conn *conn_add(struct conns *all, int fd, int64_t now_ns)
{
    struct conn *c = mem_alloc(sizeof *c);
    *c = (struct conn){.next = all->all, .fd = fd, .awaits_request = true, .since_ns = now_ns};
    if (all->all)
        all->all->prev = c;
    all->all = c;
    return c;
}

void conn_remove(struct conns *all, struct conn *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        all->all = c->next;
    if (c->next)
        c->next->prev = c->prev;
    mem_free(c);
}

void conn_awaits_request(struct conn *c, int64_t now_ns)
{
    c->awaits_request = true;
    c->since_ns = now_ns;
}

void conn_has_request(struct conn *c)
{
    c->awaits_request = false;
}

int64_t conn_expire(struct conns *all, int64_t now_ns, int64_t limit_ns)
{
    int64_t n = 0;
    if (now_ns - all->looked_ns < LOOK_NS)
        return 0;
    all->looked_ns = now_ns;
    for (struct conn *c = all->all; c; c = c->next) {
        if (!c->awaits_request || now_ns - c->since_ns <= limit_ns)
            continue;
        c->awaits_request = false; /* shut down once: the daemon then closes it */
        shutdown(c->fd, SHUT_RDWR);
        n++;
    }
    return n;
}
