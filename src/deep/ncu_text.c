#include "deep/ncu_text.h"

#include <string.h>

#include "base/arena.h"

/* ---- encodings ---- */

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[n] | c);
    return n;
}

static struct sv from_utf16(struct arena *a, struct sv s, bool big)
{
    char *out = arena_alloc(a, s.n / 2 * 3 + 4);
    size_t n = 0;
    for (size_t i = 0; i + 1 < s.n; i += 2) {
        const unsigned char *p = (const unsigned char *)s.p + i;
        uint32_t c = (uint32_t)(big ? p[0] << 8 | p[1] : p[1] << 8 | p[0]);
        if (c >= 0xd800 && c < 0xdc00 && i + 3 < s.n) { /* the first of a pair */
            uint32_t low = (uint32_t)(big ? p[2] << 8 | p[3] : p[3] << 8 | p[2]);
            if (low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                i += 2;
            }
        }
        n += put_utf8(out + n, c >= 0xd800 && c < 0xe000 ? '?' : c);
    }
    return (struct sv){out, n};
}

struct sv ncu_utf8(struct arena *a, struct sv text)
{
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        return (struct sv){text.p + 3, text.n - 3};
    if (text.n >= 2 && (memcmp(text.p, "\xff\xfe", 2) == 0 || memcmp(text.p, "\xfe\xff", 2) == 0))
        return from_utf16(a, (struct sv){text.p + 2, text.n - 2}, text.p[0] == '\xfe');
    return text;
}

/* ---- lines ---- */

struct ncu_lines ncu_lines_of(struct sv text)
{
    return (struct ncu_lines){text.p, text.p + text.n, 1, 0};
}

bool ncu_line(struct ncu_lines *l, struct sv *line)
{
    if (l->p >= l->end)
        return false;
    const char *stop = memchr(l->p, '\n', (size_t)(l->end - l->p));
    *line = (struct sv){l->p, (size_t)((stop ? stop : l->end) - l->p)};
    l->p = stop ? stop + 1 : l->end;
    l->at = l->next++;
    if (line->n && line->p[line->n - 1] == '\r')
        line->n--;
    return true;
}

/* ---- cells ---- */

/* The quoted cell at `from`, behind its quote; *stop: behind the closing one. False: none closes.
 * strict: a quote that neither closes nor is doubled is a fault. */
static bool quoted(struct ncu_cells *c, struct sv s, size_t from, char separator, bool strict,
                   size_t *stop)
{
    size_t extra = 0, i = from;
    for (; i < s.n; i++) {
        if (s.p[i] != '"')
            continue;
        bool doubled = i + 1 < s.n && s.p[i + 1] == '"';
        if (!doubled && (i + 1 == s.n || s.p[i + 1] == separator || s.p[i + 1] == '\r'))
            break;
        if (!doubled && strict)
            return false;
        extra += doubled;
        i += doubled;
    }
    if (i >= s.n)
        return false;
    *stop = i + 1;
    struct sv cell = {s.p + from, i - from};
    if (extra) {
        char *out = arena_alloc(c->a, cell.n + 1);
        size_t n = 0;
        for (size_t k = 0; k < cell.n; k++) {
            out[n++] = cell.p[k];
            k += cell.p[k] == '"' && k + 1 < cell.n && cell.p[k + 1] == '"';
        }
        cell = (struct sv){out, n};
    }
    vec_push(&c->v, cell);
    return true;
}

static enum ncu_fate split(struct ncu_cells *c, struct sv s, char separator, bool strict)
{
    vec_clear(&c->v);
    for (size_t i = 0; i <= s.n; i++) {
        if (c->v.n == NCU_MAX_COLUMNS)
            return NCU_WIDE;
        if (i < s.n && s.p[i] == '"') {
            if (!quoted(c, s, i + 1, separator, strict, &i))
                return NCU_OPEN;
            while (i < s.n && s.p[i] != separator)
                i++;
            continue;
        }
        const char *stop = i < s.n ? memchr(s.p + i, separator, s.n - i) : NULL;
        size_t end = stop ? (size_t)(stop - s.p) : s.n;
        vec_push(&c->v, (struct sv){s.p + i, end - i});
        i = end;
    }
    return NCU_ROW;
}

enum ncu_fate ncu_split(struct ncu_cells *c, struct sv line, char separator)
{
    return split(c, line, separator, false);
}

bool ncu_split_on(struct ncu_cells *c, struct ncu_lines *l, struct sv line, char separator)
{
    enum { MOST_LINES = 200 };
    struct ncu_lines ahead = *l;
    struct sv more;
    for (int i = 0; i < MOST_LINES && ncu_line(&ahead, &more); i++) {
        struct sv all = {line.p, (size_t)(more.p + more.n - line.p)};
        if (!memchr(more.p, '"', more.n) || split(c, all, separator, true) != NCU_ROW)
            continue;
        ahead.at = l->at;
        *l = ahead;
        return true;
    }
    return false;
}

struct sv ncu_cell(const struct ncu_cells *c, int column)
{
    return column >= 0 && (size_t)column < c->v.n ? c->v.p[column] : (struct sv){"", 0};
}

void ncu_swap(struct ncu_cells *a, struct ncu_cells *b)
{
    struct ncu_cells keep = *a;
    *a = *b;
    *b = keep;
}
