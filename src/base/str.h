/* Growing strings and borrowed slices.
 *
 * struct buf owns heap bytes, always NUL-terminated once something was added; free with buf_free.
 * struct sv borrows bytes that are not NUL-terminated, struct texts a list of strings. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct sv {
    const char *p;
    size_t n;
};

struct texts {
    const char *const *items; /* [n] */
    size_t n;
};

#define SV(literal) ((struct sv){literal, sizeof(literal) - 1})
struct sv sv_of(const char *s);
bool sv_eq(struct sv a, const char *b);
struct sv sv_trim(struct sv s); /* without ASCII white space at both ends */

struct buf {
    char *p; /* NULL when empty */
    size_t n, cap;
};

void buf_add(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_shell(struct buf *b, const char *word); /* in shell quotes, a quote inside as '\'' */
void buf_word(struct buf *b, const char *word);  /* the same, bare where a shell needs no quotes */
void buf_clear(struct buf *b);                   /* length 0, keeps the memory */
void buf_free(struct buf *b);
const char *buf_str(const struct buf *b); /* "" when empty */

/* Whole-text numbers, no locale, no leading or trailing space. False when s is not exactly one
 * number or it does not fit. */
bool str_int64(struct sv s, int64_t *out);
bool str_double(struct sv s, double *out); /* finite decimal or exponent form; no nan, inf, hex */

/* Shortest decimal text that reads back as exactly v ("0.1", "1e+300", "3"), as JSON numbers are;
 * v is finite. Writes at most 32 bytes with the NUL; returns the length. */
enum { STR_DOUBLE_MAX = 32 };
int str_from_double(char out[STR_DOUBLE_MAX], double v);

/* "3.3 GiB", "640 KiB", "17 bytes": powers of 1,024, a decimal below 100. bytes >= 0. */
enum { STR_BYTES_MAX = 32 };
void str_from_bytes(char out[STR_BYTES_MAX], int64_t bytes);

/* First byte that is not part of valid UTF-8 (no surrogates, no overlong forms, no 5-byte forms),
 * or n when all are. */
size_t str_utf8_valid(const char *p, size_t n);

/* Makes foreign text safe to show, in place: '?' for each byte that is not part of valid UTF-8, and
 * for each byte of control characters (C0, DEL, C1) and of those that turn the direction of the
 * text (U+202A to U+202E, U+2066 to U+2069), which terminals obey. Line feeds and tabs stay if
 * `lines`. */
void str_make_printable(char *text, size_t n, bool lines);
/* Bytes of the character at p, in valid UTF-8, if it is one of those; else 0. */
size_t str_unprintable(const char *p);

/* Levenshtein distance, for "did you mean". */
int str_distance(const char *a, const char *b);

#endif
