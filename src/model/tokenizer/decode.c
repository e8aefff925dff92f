#include "model/tokenizer/decode.h"

#include <string.h>

#include "model/tokenizer/normalize.h"
#include "model/tokenizer/utf8.h"

int tokenizer_byte_of(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xff && c != 0xad))
        return (int)c;
    if (c >= 0x100 && c <= 0x120) /* bytes 00..20 */
        return (int)(c - 0x100);
    if (c >= 0x121 && c <= 0x142) /* bytes 7f..a0 */
        return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

struct text_list {
    struct arena *a;
    struct sv *text;
    size_t n;
};

static struct sv kept(struct arena *a, struct buf *b)
{
    struct sv s = {arena_strn(a, buf_str(b), b->n), b->n};
    buf_free(b);
    return s;
}

static struct sv replaced(struct arena *a, struct sv text, struct sv what, struct sv with)
{
    struct buf b = {0};
    if (tokenizer_find_text(text, what) == text.n)
        return text;
    tokenizer_replace_all(&b, text, what, with);
    return kept(a, &b);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* "<0xNN>" */
static int byte_token(struct sv t)
{
    if (t.n != 6 || memcmp(t.p, "<0x", 3) != 0 || t.p[5] != '>')
        return -1;
    int high = hex_digit(t.p[3]), low = hex_digit(t.p[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static void byte_fallback(struct text_list *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n;) {
        struct buf run = {0};
        size_t begin = i;
        for (int b; i < l->n && (b = byte_token(l->text[i])) >= 0; i++)
            buf_putc(&run, (char)b);
        if (i == begin) {
            l->text[n++] = l->text[i++];
            continue;
        }
        if (str_utf8_valid(run.p, run.n) != run.n) {
            buf_clear(&run);
            for (size_t j = begin; j < i; j++)
                buf_puts(&run, "\xef\xbf\xbd");
        }
        l->text[n++] = kept(l->a, &run);
    }
    l->n = n;
}

static void fuse(struct text_list *l)
{
    struct buf all = {0};
    for (size_t i = 0; i < l->n; i++)
        buf_add(&all, l->text[i].p, l->text[i].n);
    l->text[0] = kept(l->a, &all);
    l->n = 1;
}

static struct sv stripped(struct sv t, const struct decoder *d)
{
    size_t w = d->what.n;
    for (int64_t i = 0; i < d->start && t.n >= w && memcmp(t.p, d->what.p, w) == 0; i++)
        t = (struct sv){t.p + w, t.n - w};
    for (int64_t i = 0; i < d->stop && t.n >= w && memcmp(t.p + t.n - w, d->what.p, w) == 0; i++)
        t.n -= w;
    return t;
}

/* A text with a character outside the alphabet is taken as it stands. */
static void add_bytes(struct buf *out, struct sv t)
{
    size_t start = out->n;
    for (size_t i = 0, n; i < t.n; i += n) {
        int b = tokenizer_byte_of(utf8_get(t.p + i, &n));
        if (b < 0) {
            out->n = start;
            buf_add(out, t.p, t.n);
            return;
        }
        buf_putc(out, (char)b);
    }
}

static void byte_level(struct text_list *l)
{
    struct buf bytes = {0}, text = {0};
    for (size_t i = 0; i < l->n; i++)
        add_bytes(&bytes, l->text[i]);
    utf8_put_lossy(&text, (struct sv){bytes.p, bytes.n});
    buf_free(&bytes);
    l->text[0] = kept(l->a, &text);
    l->n = 1;
}

static void run(const struct decoder *d, struct text_list *l)
{
    switch (d->kind) {
    case DECODE_REPLACE:
        for (size_t i = 0; i < l->n; i++)
            l->text[i] = replaced(l->a, l->text[i], d->what, d->with);
        break;
    case DECODE_BYTE_FALLBACK:
        byte_fallback(l);
        break;
    case DECODE_FUSE:
        fuse(l);
        break;
    case DECODE_STRIP:
        for (size_t i = 0; i < l->n; i++)
            l->text[i] = stripped(l->text[i], d);
        break;
    case DECODE_BYTE_LEVEL:
        byte_level(l);
        break;
    case DECODE_METASPACE:
        for (size_t i = 0; i < l->n; i++)
            l->text[i] = replaced(l->a, l->text[i], d->what,
                                  i == 0 && d->drop_first ? (struct sv){"", 0} : SV(" "));
        break;
    }
}

void tokenizer_join(const struct decoders *d, struct arena *a, struct sv *texts, size_t n,
                    struct buf *out)
{
    struct text_list l = {a, texts, n};
    for (size_t i = 0; i < d->steps.n && l.n > 0; i++)
        run(&d->steps.p[i], &l);
    for (size_t i = 0; i < l.n; i++) {
        if (i > 0 && d->steps.n == 0)
            buf_putc(out, ' ');
        buf_add(out, l.text[i].p, l.text[i].n);
    }
}
