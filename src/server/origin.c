#include "server/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool same(struct sv s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

/* "[::1]:80", "a.b.:80" without port, brackets and the dot of the root. */
static struct sv name_of(struct sv s)
{
    const char *end = s.n && s.p[0] == '[' ? memchr(s.p, ']', s.n) : NULL;
    if (end)
        return (struct sv){s.p + 1, (size_t)(end - s.p) - 1};
    const char *colon = s.n ? memchr(s.p, ':', s.n) : NULL;
    if (colon)
        s.n = (size_t)(colon - s.p);
    if (s.n > 1 && s.p[s.n - 1] == '.')
        s.n--;
    return s;
}

enum address { NOT_NUMERIC, NUMERIC, LOOPBACK, ANY };

static enum address address_of(struct sv s)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    if (s.n >= sizeof text)
        return NOT_NUMERIC;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    if (inet_pton(AF_INET, text, &v4) == 1)
        return v4.s_addr == htonl(INADDR_ANY)  ? ANY
               : ntohl(v4.s_addr) >> 24 == 127 ? LOOPBACK
                                               : NUMERIC;
    if (inet_pton(AF_INET6, text, &v6) == 1)
        return IN6_IS_ADDR_UNSPECIFIED(&v6) ? ANY : IN6_IS_ADDR_LOOPBACK(&v6) ? LOOPBACK : NUMERIC;
    return NOT_NUMERIC;
}

/* This machine's name, or what stands before its first dot. */
static bool is_this_machine(struct sv s)
{
    char own[256] = "";
    if (gethostname(own, sizeof own - 1) != 0 || !own[0])
        return false;
    return same(s, own) || (own[s.n] == '.' && strncasecmp(s.p, own, s.n) == 0);
}

bool origin_host_ok(const char *value, const char *host, struct texts more)
{
    if (!value)
        return true;
    static const char below[] = ".localhost";
    const size_t m = sizeof below - 1;
    const struct sv name = name_of(sv_trim(sv_of(value)));
    const enum address it = address_of(name), listens = address_of(sv_of(host));
    if (it == LOOPBACK || same(name, "localhost") || same(name, host) ||
        (name.n > m && strncasecmp(name.p + name.n - m, below, m) == 0))
        return true;
    if (listens == ANY && (it == NUMERIC || (name.n < 256 && is_this_machine(name))))
        return true;
    for (size_t i = 0; i < more.n; i++)
        if (strcmp(more.items[i], "*") == 0 || same(name, more.items[i]))
            return true;
    return false;
}

bool origin_is_json(const char *content_type)
{
    if (!content_type)
        return false;
    const struct sv type = {content_type, strcspn(content_type, ";")};
    return same(sv_trim(type), "application/json");
}
