#include <math.h>
#include <string.h>

#include "text/yaml.h"
#include "text/yaml_scalar.h"

/* Words that YAML 1.1 readers (PyYAML, hence Hydra) parse as booleans. */
static bool old_bool(struct sv s)
{
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off", "true", "false"};
    char lower[6];
    if (s.n >= sizeof lower)
        return false;
    for (size_t i = 0; i < s.n; i++)
        lower[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] + 32) : s.p[i];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == s.n && memcmp(words[i], lower, s.n) == 0)
            return true;
    return false;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Text that every YAML reader parses as a plain string: a word, a path, a few words. */
static bool plain_text(struct sv s)
{
    if (s.n == 0 || !(is_letter(s.p[0]) || s.p[0] == '_' || s.p[0] == '/') || s.p[s.n - 1] == ' ')
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == 0 || !(is_letter(c) || (c >= '0' && c <= '9') || strchr("_/.+@=% -", c)))
            return false;
    }
    struct node typed = {.kind = NODE_STR};
    return !yaml_type_scalar(s, &typed) && typed.kind == NODE_STR && !old_bool(s);
}

static bool printable_ascii(struct sv s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < 0x20 || s.p[i] > 0x7e)
            return false;
    return true;
}

/* Length of the character at p, its code in *c; a byte that is not UTF-8 is U+FFFD. */
static size_t take_char(const char *p, size_t n, unsigned *c)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t len = u[0] < 0x80 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    if (len > n || str_utf8_valid(p, len) != len) {
        *c = 0xfffd;
        return 1;
    }
    *c = len == 1 ? u[0] : u[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        *c = *c << 6 | (u[i] & 0x3f);
    return len;
}

/* Characters that YAML calls not printable or takes for a line break. */
static bool needs_escape(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
           c == 0xfffe || c == 0xffff;
}

static void double_quoted(struct buf *out, struct sv s)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < s.n;) {
        unsigned c;
        size_t len = take_char(s.p + i, s.n - i, &c);
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", (char)c);
        else if (c == '\n')
            buf_puts(out, "\\n");
        else if (c == '\t')
            buf_puts(out, "\\t");
        else if (needs_escape(c))
            buf_printf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
        else if (c == 0xfffd)
            buf_puts(out, "\xef\xbf\xbd");
        else
            buf_add(out, s.p + i, len);
        i += len;
    }
    buf_putc(out, '"');
}

static void write_text(struct buf *out, struct sv s, bool quote)
{
    if (!quote && plain_text(s)) {
        buf_add(out, s.p, s.n);
    } else if (printable_ascii(s)) {
        buf_putc(out, '\'');
        for (size_t i = 0; i < s.n; i++) {
            if (s.p[i] == '\'')
                buf_putc(out, '\'');
            buf_putc(out, s.p[i]);
        }
        buf_putc(out, '\'');
    } else {
        double_quoted(out, s);
    }
}

/* With a point, so that it reads back as a float, in YAML 1.1 too. */
static void write_float(struct buf *out, double v)
{
    char text[STR_DOUBLE_MAX];
    if (!isfinite(v)) {
        buf_puts(out, "null");
        return;
    }
    str_from_double(text, v);
    size_t mantissa = strcspn(text, "e");
    buf_add(out, text, mantissa);
    if (!memchr(text, '.', mantissa))
        buf_puts(out, ".0");
    buf_puts(out, text + mantissa);
}

static void write_scalar(struct buf *out, const struct node *n)
{
    if (n->kind == NODE_NULL)
        buf_puts(out, "null");
    else if (n->kind == NODE_BOOL)
        buf_puts(out, n->b ? "true" : "false");
    else if (n->kind == NODE_INT)
        buf_printf(out, "%lld", (long long)n->i);
    else if (n->kind == NODE_FLOAT)
        write_float(out, n->f);
    else if (n->kind == NODE_STR)
        write_text(out, n->s, n->quoted);
    else
        buf_puts(out, n->kind == NODE_LIST ? "[]" : "{}");
}

static bool is_block(const struct node *n)
{
    return (n->kind == NODE_LIST || n->kind == NODE_MAP) && n->n > 0;
}

static void indent(struct buf *out, int level)
{
    buf_printf(out, "%*s", 2 * level, "");
}

/* "key:", or the long form "? key" newline ":" for what libyaml does not take for a simple key. */
static void write_key(struct buf *out, struct sv key, int level)
{
    enum { SIMPLE_BYTES = 1000 };
    struct buf text = {0};
    write_text(&text, key, sv_eq(key, "<<"));
    if (text.n <= SIMPLE_BYTES) {
        buf_printf(out, "%s:", text.p);
    } else {
        buf_printf(out, "? %s\n", text.p);
        indent(out, level);
        buf_putc(out, ':');
    }
    buf_free(&text);
}

static void write_block(struct buf *out, const struct node *n, int level, bool started)
{
    for (uint32_t i = 0; i < n->n; i++) {
        if (i > 0 || !started)
            indent(out, level);
        const struct node *v = n->kind == NODE_LIST ? n->items[i] : n->pairs[i].value;
        if (n->kind == NODE_LIST)
            buf_putc(out, '-');
        else
            write_key(out, n->pairs[i].key, level);
        if (!is_block(v)) {
            buf_putc(out, ' ');
            write_scalar(out, v);
            buf_putc(out, '\n');
        } else if (n->kind == NODE_LIST) {
            buf_putc(out, ' ');
            write_block(out, v, level + 1, true);
        } else {
            buf_putc(out, '\n');
            write_block(out, v, level + 1, false);
        }
    }
}

void yaml_write(struct buf *out, const struct node *n)
{
    if (is_block(n)) {
        write_block(out, n, 0, false);
        return;
    }
    write_scalar(out, n);
    buf_putc(out, '\n');
}
