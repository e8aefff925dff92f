/* Characters of UTF-8 text that is known to be valid. */
#ifndef MODEL_TOKENIZER_UTF8_H
#define MODEL_TOKENIZER_UTF8_H

#include "base/str.h"

/* Bytes of the character that begins with that byte. */
static inline size_t utf8_length(char first)
{
    unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* The character at p; *n its bytes. */
static inline uint32_t utf8_get(const char *p, size_t *n)
{
    const unsigned char *c = (const unsigned char *)p;
    *n = utf8_length(*p);
    switch (*n) {
    case 1:
        return c[0];
    case 2:
        return (uint32_t)(c[0] & 0x1f) << 6 | (c[1] & 0x3f);
    case 3:
        return (uint32_t)(c[0] & 0x0f) << 12 | (uint32_t)(c[1] & 0x3f) << 6 | (c[2] & 0x3f);
    default:
        return (uint32_t)(c[0] & 0x07) << 18 | (uint32_t)(c[1] & 0x3f) << 12 |
               (uint32_t)(c[2] & 0x3f) << 6 | (c[3] & 0x3f);
    }
}

/* The start of the character that ends before p + n; n > 0. */
static inline size_t utf8_back(const char *p, size_t n)
{
    do
        n--;
    while (n > 0 && ((unsigned char)p[n] & 0xc0) == 0x80);
    return n;
}

void utf8_put(struct buf *out, uint32_t c);

/* White space and word characters as in Rust's and Oniguruma's \s and \w. */
bool utf8_is_space(uint32_t c);
bool utf8_is_word(uint32_t c);

/* Append the bytes with every ill-formed sequence replaced by U+FFFD, one per maximal subpart
 * (Unicode 15, section 3.9). */
void utf8_put_lossy(struct buf *out, struct sv bytes);

#endif
