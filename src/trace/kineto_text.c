/* Texts of a Kineto trace that are kept: names without escapes, lists of shapes without the white
 * space of a pretty-printer. */
#include <string.h>

#include "trace/kineto_scan.h"

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool takes(struct scan *s, char c)
{
    trace_scan_space(s);
    bool is = s->p < s->end && *s->p == c;
    s->p += is;
    return is;
}

/* ---- names ---- */

static int hex4(const char *p, const char *end)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int c = p + i < end ? (p[i] | 0x20) : 0;
        int d = digit(p + i < end ? p[i] : 'x') ? c - '0' : c >= 'a' && c <= 'f' ? c - 87 : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* The code point of "\\uXXXX" at p, of two where they are a surrogate pair; -1 = none. *n: bytes.
 */
static int code_point(const char *p, const char *end, size_t *n)
{
    enum { HIGH = 0xd800, LOW = 0xdc00, BEHIND = 0xe000, REPLACEMENT = 0xfffd };
    bool escape = end - p >= 2 && p[0] == '\\' && p[1] == 'u';
    int code = escape ? hex4(p + 2, end) : -1;
    *n = 6;
    if (code < HIGH || code >= BEHIND)
        return code == 0 ? REPLACEMENT : code;
    bool pair = code < LOW && end - p >= 12 && p[6] == '\\' && p[7] == 'u';
    int low = pair ? hex4(p + 8, end) : -1;
    if (low < LOW || low >= BEHIND)
        return REPLACEMENT;
    *n = 12;
    return 0x10000 + ((code - HIGH) << 10) + (low - LOW);
}

static void put_utf8(struct buf *b, unsigned code)
{
    if (code < 0x80) {
        buf_putc(b, (char)code);
        return;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    buf_putc(b, (char)(lead[more] | code >> 6 * more));
    while (more-- > 0)
        buf_putc(b, (char)(0x80 | (code >> 6 * more & 0x3f)));
}

struct sv trace_scan_unescape(struct buf *scratch, struct sv raw)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    buf_clear(scratch);
    if (raw.n == 0)
        return (struct sv){"", 0};
    for (const char *p = raw.p, *end = raw.p + raw.n; p < end; p++) {
        const char *known = *p == '\\' && p + 1 < end && p[1] ? strchr(from, p[1]) : NULL;
        size_t n;
        int code = *p == '\\' ? code_point(p, end, &n) : -1;
        if (known) {
            buf_putc(scratch, to[known - from]);
            p++;
        } else if (code >= 0) {
            put_utf8(scratch, (unsigned)code);
            p += n - 1;
        } else {
            buf_putc(scratch, *p);
        }
    }
    return (struct sv){buf_str(scratch), scratch->n};
}

/* ---- lists ---- */

/* One string or integer of a list, copied. */
static bool list_item(struct buf *out, struct scan *s)
{
    const char *from = s->p;
    bool escaped;
    struct sv text;
    if (*from == '"') {
        if (!trace_scan_string(s, &text, &escaped))
            return false;
        for (size_t i = 0; i < text.n; i++)
            if ((unsigned char)text.p[i] < ' ')
                return false;
    } else {
        s->p += *s->p == '-';
        const char *first = s->p;
        while (s->p < s->end && digit(*s->p))
            s->p++;
        if (s->p == first)
            return false;
    }
    buf_add(out, from, (size_t)(s->p - from));
    return true;
}

bool trace_scan_list(struct buf *out, struct sv raw)
{
    struct scan s = {.p = raw.p, .end = raw.p + raw.n};
    long depth = 0;
    buf_clear(out);
    do { /* at an item, or at the end of an empty list */
        trace_scan_space(&s);
        while (takes(&s, '[')) {
            buf_putc(out, '[');
            depth++;
            trace_scan_space(&s);
        }
        if (depth == 0 || s.p >= s.end)
            return false;
        bool empty = *s.p == ']' && out->p[out->n - 1] == '[';
        if (!empty && !list_item(out, &s))
            return false;
        while (depth > 0 && takes(&s, ']')) {
            buf_putc(out, ']');
            depth--;
        }
        if (depth == 0)
            break;
        buf_puts(out, ", ");
    } while (takes(&s, ','));
    return depth == 0 && s.p == s.end;
}
