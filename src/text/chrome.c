#include "text/chrome.h"

void chrome_begin(struct chrome *c, const char *members)
{
    buf_printf(&c->out, "{%s\"displayTimeUnit\": \"ms\", \"traceEvents\": [", members);
}

void chrome_event(struct chrome *c)
{
    buf_printf(&c->out, "%s\n%s{", c->any ? "," : "", c->indent);
    c->any = true;
}

void chrome_end(struct chrome *c)
{
    buf_puts(&c->out, "\n]");
}

void chrome_time(struct buf *out, const char *key, int64_t ns)
{
    uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    buf_printf(out, ", \"%s\": %s%llu.%03u", key, ns < 0 ? "-" : "", (unsigned long long)(v / 1000),
               (unsigned)(v % 1000));
}
