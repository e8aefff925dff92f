#include "model/tokenizer/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "model/tokenizer/utf8.h"

size_t tokenizer_find_text(struct sv text, struct sv what)
{
    const char *p = text.p, *end = text.p + text.n;
    while ((size_t)(end - p) >= what.n && p < end) {
        p = memchr(p, what.p[0], (size_t)(end - p) - what.n + 1);
        if (!p)
            break;
        if (memcmp(p, what.p, what.n) == 0)
            return (size_t)(p - text.p);
        p++;
    }
    return text.n;
}

void tokenizer_replace_all(struct buf *out, struct sv text, struct sv what, struct sv with)
{
    for (size_t n; (n = tokenizer_find_text(text, what)) < text.n;) {
        buf_add(out, text.p, n);
        buf_add(out, with.p, with.n);
        text = (struct sv){text.p + n + what.n, text.n - n - what.n};
    }
    buf_add(out, text.p, text.n);
}

/* ---- NFC ------------------------------------------------------------------------------------ */

struct combining_mark {
    utf8proc_int32_t c;
    utf8proc_propval_t class;
    uint32_t at; /* keeps the sort stable */
};

static int by_class(const void *va, const void *vb)
{
    const struct combining_mark *a = va, *b = vb;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

/* Canonical order: each run of characters whose class is not 0, by class. utf8proc's own ordering
 * is quadratic in the length of a run. */
static void order_marks(utf8proc_int32_t *c, size_t n)
{
    VEC(struct combining_mark) run = {0};
    for (size_t i = 0; i <= n; i++) {
        utf8proc_propval_t class = i < n ? utf8proc_get_property(c[i])->combining_class : 0;
        if (class != 0) {
            vec_push(&run, (struct combining_mark){c[i], class, (uint32_t)run.n});
            continue;
        }
        if (run.n > 1) {
            qsort(run.p, run.n, sizeof *run.p, by_class);
            for (size_t j = 0; j < run.n; j++)
                c[i - run.n + j] = run.p[j].c;
        }
        vec_clear(&run);
    }
    vec_free(&run);
}

/* Append the NFC form of text. */
static void add_nfc(struct buf *out, struct sv text)
{
    VEC(utf8proc_int32_t) chars = {0};
    int boundary = 0;
    for (size_t i = 0, n; i < text.n; i += n) {
        enum { MAX_PARTS = 32 };
        utf8proc_int32_t c = (utf8proc_int32_t)utf8_get(text.p + i, &n);
        vec_reserve(&chars, chars.n + MAX_PARTS);
        utf8proc_ssize_t parts =
            utf8proc_decompose_char(c, chars.p + chars.n, MAX_PARTS, UTF8PROC_DECOMPOSE, &boundary);
        ASSERT(parts >= 0 && parts <= MAX_PARTS);
        chars.n += (size_t)parts;
    }
    order_marks(chars.p, chars.n);
    utf8proc_ssize_t n = utf8proc_normalize_utf32(chars.p, (utf8proc_ssize_t)chars.n,
                                                  UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    ASSERT(n >= 0);
    for (utf8proc_ssize_t i = 0; i < n; i++)
        utf8_put(out, (uint32_t)chars.p[i]);
    vec_free(&chars);
}

/* Characters below U+0300 are normal, and none joins what stands before it: a text is cut before
 * the last of them that another character follows. Most text is copied whole. The byte is the first
 * of a high character (U+0300 is cc 80) or else part of a low one. */
static bool is_low(char c)
{
    return (unsigned char)c < 0xcc;
}

static void nfc(struct buf *out, struct sv text)
{
    size_t done = 0;
    while (done < text.n) {
        size_t high = done;
        while (high < text.n && is_low(text.p[high]))
            high++;
        size_t begin = high < text.n && high > done ? utf8_back(text.p, high) : high;
        buf_add(out, text.p + done, begin - done);
        if (begin == text.n)
            return;
        size_t end = high;
        while (end < text.n && !is_low(text.p[end]))
            end += utf8_length(text.p[end]);
        add_nfc(out, (struct sv){text.p + begin, end - begin});
        done = end;
    }
}

void tokenizer_normalize(const struct normalizers *n, struct sv text, struct buf *out,
                         struct buf *spare)
{
    buf_clear(out);
    buf_add(out, text.p, text.n);
    for (size_t i = 0; i < n->steps.n; i++) {
        const struct normalizer *s = &n->steps.p[i];
        struct sv in = {out->p, out->n};
        buf_clear(spare);
        switch (s->kind) {
        case NORMALIZE_NFC:
            nfc(spare, in);
            break;
        case NORMALIZE_PREPEND:
            if (in.n > 0)
                buf_add(spare, s->what.p, s->what.n);
            buf_add(spare, in.p, in.n);
            break;
        case NORMALIZE_REPLACE:
            tokenizer_replace_all(spare, in, s->what, s->with);
            break;
        }
        struct buf t = *out;
        *out = *spare;
        *spare = t;
    }
}
