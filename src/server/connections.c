#include "server/connections.h"

#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/clock.h"

static const int64_t LOOK_NS = 200 * NS_PER_MS;

static struct in6_addr address_of(const struct sockaddr *from)
{
    struct in6_addr out = {0};
    if (from && from->sa_family == AF_INET) {
        out.s6_addr[10] = out.s6_addr[11] = 0xff;
        memcpy(out.s6_addr + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else if (from && from->sa_family == AF_INET6) {
        out = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
        if (!IN6_IS_ADDR_V4MAPPED(&out)) /* a site has the whole network */
            memset(out.s6_addr + 8, 0, 8);
    }
    return out;
}

static void shut(struct conns *all, struct conn *c)
{
    c->shut = true;
    all->open--;
    shutdown(c->fd, SHUT_RDWR);
}

/* Shuts down the connection that has awaited its request longest, of one address or (NULL) of any;
 * false: none awaits one. */
static bool replace(struct conns *all, const struct in6_addr *from)
{
    struct conn *oldest = NULL;
    for (struct conn *c = all->all; c; c = c->next)
        if (c->awaits_request && !c->shut && (!from || IN6_ARE_ADDR_EQUAL(&c->from, from)) &&
            (!oldest || c->since_ns <= oldest->since_ns))
            oldest = c;
    if (oldest)
        shut(all, oldest);
    return oldest != NULL;
}

static size_t count(const struct conns *all, const struct in6_addr *from)
{
    size_t n = 0;
    for (const struct conn *c = all->all; c; c = c->next)
        n += !c->shut && IN6_ARE_ADDR_EQUAL(&c->from, from);
    return n;
}

/* Room for one more; a scan only where a limit may be reached. */
static bool make_room(struct conns *all, const struct conn_limits *most,
                      const struct in6_addr *from)
{
    if (all->open >= most->of_address && count(all, from) >= most->of_address)
        return replace(all, from);
    return all->open < most->all || replace(all, NULL);
}

struct conn *conn_add(struct conns *all, const struct conn_limits *most, int fd,
                      const struct sockaddr *from, int64_t now_ns)
{
    struct conn *c = mem_alloc(sizeof *c);
    *c = (struct conn){
        .fd = fd, .from = address_of(from), .awaits_request = true, .since_ns = now_ns};
    c->over = !make_room(all, most, &c->from);
    c->next = all->all;
    all->open++;
    if (all->all)
        all->all->prev = c;
    all->all = c;
    return c;
}

void conn_remove(struct conns *all, struct conn *c)
{
    all->open -= !c->shut;
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
        if (c->shut || !c->awaits_request || now_ns - c->since_ns <= limit_ns)
            continue;
        shut(all, c);
        n++;
    }
    return n;
}
