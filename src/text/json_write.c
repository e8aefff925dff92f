#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/json.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd";

static void put_escaped(struct buf *out, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *known = c ? strchr(from, c) : NULL;
    if (known)
        buf_printf(out, "\\%c", to[known - from]);
    else
        buf_printf(out, "\\u%04x", c);
}

/* Control characters beyond ASCII, and those that turn the direction of a text, are written as
 * escapes too: a terminal obeys them. Returns how many bytes at p are written. */
static size_t put_special(struct buf *out, const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    const size_t n = str_unprintable(p);
    if (n == 0 && u[0] >= 0x80) { /* begins a character like one of those; the rest is plain */
        buf_putc(out, *p);
        return 1;
    }
    if (u[0] < 0x7f) {
        put_escaped(out, u[0]);
        return 1;
    }
    const unsigned c = n == 1   ? u[0]
                       : n == 2 ? (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu)
                                : (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
    buf_printf(out, "\\u%04x", c);
    return n;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && c != 0xc2 && c != 0xe2;
}

void json_quote(struct buf *out, struct sv text)
{
    buf_putc(out, '"');
    for (const char *p = text.p, *end = text.p + text.n; p < end;) {
        const char *valid = p + str_utf8_valid(p, (size_t)(end - p));
        while (p < valid) {
            const char *q = p;
            while (q < valid && is_plain((unsigned char)*q))
                q++;
            buf_add(out, p, (size_t)(q - p));
            p = q;
            if (q < valid)
                p += put_special(out, q);
        }
        if (p < end) {
            buf_puts(out, REPLACEMENT);
            p++;
        }
    }
    buf_putc(out, '"');
}

struct style {
    int indent;
    bool sorted;
};

static void write_node(struct buf *out, const struct node *n, struct style s, int level);

static void new_line(struct buf *out, struct style s, int level)
{
    if (s.indent)
        buf_printf(out, "\n%*s", s.indent * level, "");
}

static void write_number(struct buf *out, double v)
{
    char text[STR_DOUBLE_MAX];
    if (!isfinite(v)) {
        buf_puts(out, "null");
        return;
    }
    str_from_double(text, v);
    buf_puts(out, text);
}

static int by_key(const void *a, const void *b)
{
    const struct node_pair *x = a, *y = b;
    size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
    int c = memcmp(x->key.p, y->key.p, n);
    return c ? c : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

static void write_list(struct buf *out, const struct node *n, struct style s, int level)
{
    buf_putc(out, '[');
    for (uint32_t i = 0; i < n->n; i++) {
        if (i)
            buf_putc(out, ',');
        new_line(out, s, level + 1);
        write_node(out, n->items[i], s, level + 1);
    }
    if (n->n)
        new_line(out, s, level);
    buf_putc(out, ']');
}

static void write_map(struct buf *out, const struct node *n, struct style s, int level)
{
    struct node_pair *pairs = n->pairs, *sorted = NULL;
    if (s.sorted && n->n > 1) {
        sorted = mem_alloc(n->n * sizeof *sorted);
        memcpy(sorted, n->pairs, n->n * sizeof *sorted);
        qsort(sorted, n->n, sizeof *sorted, by_key);
        pairs = sorted;
    }
    buf_putc(out, '{');
    for (uint32_t i = 0; i < n->n; i++) {
        if (i)
            buf_putc(out, ',');
        new_line(out, s, level + 1);
        json_quote(out, pairs[i].key);
        buf_puts(out, s.indent ? ": " : ":");
        write_node(out, pairs[i].value, s, level + 1);
    }
    if (n->n)
        new_line(out, s, level);
    buf_putc(out, '}');
    mem_free(sorted);
}

static void write_node(struct buf *out, const struct node *n, struct style s, int level)
{
    switch (n->kind) {
    case NODE_NULL:
        buf_puts(out, "null");
        break;
    case NODE_BOOL:
        buf_puts(out, n->b ? "true" : "false");
        break;
    case NODE_INT:
        buf_printf(out, "%lld", (long long)n->i);
        break;
    case NODE_FLOAT:
        write_number(out, n->f);
        break;
    case NODE_STR:
        json_quote(out, n->s);
        break;
    case NODE_LIST:
        write_list(out, n, s, level);
        break;
    case NODE_MAP:
        write_map(out, n, s, level);
        break;
    }
}

void json_write(struct buf *out, const struct node *n, int indent, bool sorted)
{
    write_node(out, n, (struct style){indent, sorted}, 0);
    if (indent)
        buf_putc(out, '\n');
}
