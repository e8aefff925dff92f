#include "server/guests.h"

#include <sys/socket.h>

#include "base/arena.h"
#include "base/clock.h"

static const int64_t LOOK_NS = 200 * NS_PER_MS;

struct guest *guests_add(struct guests *g, int fd, int64_t now_ns)
{
    struct guest *one = mem_alloc(sizeof *one);
    *one = (struct guest){.next = g->all, .fd = fd, .asks = true, .since_ns = now_ns};
    if (g->all)
        g->all->prev = one;
    g->all = one;
    return one;
}

void guests_remove(struct guests *g, struct guest *one)
{
    if (one->prev)
        one->prev->next = one->next;
    else
        g->all = one->next;
    if (one->next)
        one->next->prev = one->prev;
    mem_free(one);
}

void guest_asks(struct guest *one, int64_t now_ns)
{
    one->asks = true;
    one->since_ns = now_ns;
}

void guest_has_asked(struct guest *one)
{
    one->asks = false;
}

int64_t guests_hurry(struct guests *g, int64_t now_ns, int64_t limit_ns)
{
    int64_t n = 0;
    if (now_ns - g->looked_ns < LOOK_NS)
        return 0;
    g->looked_ns = now_ns;
    for (struct guest *one = g->all; one; one = one->next) {
        if (!one->asks || now_ns - one->since_ns <= limit_ns)
            continue;
        one->asks = false; /* once is enough: the daemon sees its end and closes it */
        shutdown(one->fd, SHUT_RDWR);
        n++;
    }
    return n;
}
