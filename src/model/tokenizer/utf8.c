#include "model/tokenizer/utf8.h"

#include <utf8proc.h>

void utf8_put(struct buf *out, uint32_t c)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)c, bytes);
    buf_add(out, bytes, (size_t)n);
}

/* The property White_Space. */
bool utf8_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Alphabetic, marks, decimal digits, connectors and joiners. Alphabetic is the letters, the letter
 * numbers, most marks, and the circled, parenthesised and squared letters among the symbols. */
bool utf8_is_word(uint32_t c)
{
    static const bool word[32] = {
        [UTF8PROC_CATEGORY_LU] = true, [UTF8PROC_CATEGORY_LL] = true, [UTF8PROC_CATEGORY_LT] = true,
        [UTF8PROC_CATEGORY_LM] = true, [UTF8PROC_CATEGORY_LO] = true, [UTF8PROC_CATEGORY_MN] = true,
        [UTF8PROC_CATEGORY_MC] = true, [UTF8PROC_CATEGORY_ME] = true, [UTF8PROC_CATEGORY_ND] = true,
        [UTF8PROC_CATEGORY_NL] = true, [UTF8PROC_CATEGORY_PC] = true,
    };
    return word[utf8proc_category((utf8proc_int32_t)c)] || c == 0x200c || c == 0x200d ||
           (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

/* Bytes of the longest beginning of a character at p that could still become well-formed; at least
 * 1. *whole: it is well-formed. */
static size_t maximal_subpart(const unsigned char *p, size_t n, bool *whole)
{
    unsigned char c = p[0];
    size_t want = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    *whole = want == 1;
    if (want < 2)
        return 1;
    /* the second byte's range keeps out overlong forms, surrogates and values over U+10FFFF */
    unsigned low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    size_t i = 1;
    for (; i < want && i < n && p[i] >= low && p[i] <= high; i++) {
        low = 0x80;
        high = 0xbf;
    }
    *whole = i == want;
    return i;
}

void utf8_put_lossy(struct buf *out, struct sv bytes)
{
    while (bytes.n > 0) {
        size_t good = str_utf8_valid(bytes.p, bytes.n);
        buf_add(out, bytes.p, good);
        bytes = (struct sv){bytes.p + good, bytes.n - good};
        if (bytes.n == 0)
            return;
        bool whole;
        size_t bad = maximal_subpart((const unsigned char *)bytes.p, bytes.n, &whole);
        ASSERT(!whole);
        buf_puts(out, "\xef\xbf\xbd");
        bytes = (struct sv){bytes.p + bad, bytes.n - bad};
    }
}
