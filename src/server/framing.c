#include "server/framing.h"

#include <string.h>
#include <strings.h>

static bool is_token(struct sv s)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.p[i];
        const bool alnum =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!alnum && (c == 0 || !strchr(others, c)))
            return false;
    }
    return s.n > 0;
}

static bool is_number(struct sv s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0;
}

static bool is(struct sv s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

/* What libmicrohttpd 0.9 makes of such a header when its value stands in a folded line. */
static bool is_folded(struct sv s)
{
    static const char *const names[] = {"content-length", "transfer-encoding"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (s.n > strlen(names[i]) && strncasecmp(s.p, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

void framing_add(struct framing *f, struct sv name, struct sv value)
{
    const char *fault = NULL;
    if (!is_token(name))
        fault = "the name of a header holds a character that is not allowed there";
    else if (is_folded(name))
        fault = "a header goes on in another line";
    else if (is(name, "content-length") && ++f->lengths > 1)
        fault = "Content-Length is there twice";
    else if (is(name, "content-length") && !is_number(value))
        fault = "Content-Length is no number";
    else if (is(name, "transfer-encoding") && ++f->encodings > 1)
        fault = "Transfer-Encoding is there twice";
    else if (is(name, "transfer-encoding") && !is(value, "chunked"))
        fault = "Transfer-Encoding is not chunked";
    if (!f->fault)
        f->fault = fault;
}

const char *framing_fault(const struct framing *f, bool http_1_0)
{
    if (f->fault)
        return f->fault;
    if (f->lengths && f->encodings)
        return "Content-Length and Transfer-Encoding exclude each other";
    return f->encodings && http_1_0 ? "HTTP/1.0 knows no Transfer-Encoding" : NULL;
}
