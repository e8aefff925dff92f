#include "client/proxy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

static const char *value_of(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* Of "http://[::1]:8000/v1": "::1". */
static struct sv host_of(const char *url)
{
    const char *at = strstr(url, "://");
    at = at ? at + 3 : url;
    if (*at == '[')
        return (struct sv){at + 1, strcspn(at + 1, "]/")};
    return (struct sv){at, strcspn(at, ":/?#")};
}

/* "example.org", ".example.org" and "*.example.org" are the host and all below it. */
static bool covers(struct sv entry, struct sv host)
{
    if (entry.n > 1 && entry.p[0] == '*' && entry.p[1] == '.')
        entry = (struct sv){entry.p + 1, entry.n - 1};
    if (entry.n > 0 && entry.p[0] == '.')
        entry = (struct sv){entry.p + 1, entry.n - 1};
    if (entry.n == 0 || entry.n > host.n)
        return false;
    const size_t before = host.n - entry.n;
    return strncasecmp(host.p + before, entry.p, entry.n) == 0 &&
           (before == 0 || host.p[before - 1] == '.');
}

static bool is_left_out(struct sv host)
{
    const char *list = value_of("no_proxy");
    list = list ? list : value_of("NO_PROXY");
    while (list && *list) {
        const struct sv entry = {list, strcspn(list, ", ")};
        if (sv_eq(entry, "*") || covers(entry, host))
            return true;
        list += entry.n;
        list += strspn(list, ", ");
    }
    return false;
}

const char *proxy_of_environment(const char *url)
{
    static const char *const names[][4] = {
        {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"},
        {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}};
    const char *const *of = names[strncmp(url, "https://", 8) == 0];
    if (is_left_out(host_of(url)))
        return NULL;
    for (int i = 0; i < 4; i++)
        if (value_of(of[i]))
            return of[i];
    return NULL;
}
