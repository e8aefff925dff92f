#include "base/str.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sv sv_of(const char *s)
{
    return (struct sv){s, strlen(s)};
}

bool sv_eq(struct sv a, const char *b)
{
    return strlen(b) == a.n && memcmp(a.p, b, a.n) == 0;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct sv sv_trim(struct sv s)
{
    while (s.n && is_space(s.p[0]))
        s.p++, s.n--;
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

static void reserve(struct buf *b, size_t more)
{
    if (b->cap - b->n > more)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->n <= more)
        cap *= 2;
    b->p = mem_resize(b->p, cap);
    b->cap = cap;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    reserve(b, n);
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = 0;
}

void buf_puts(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    reserve(b, (size_t)n);
    vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
    va_end(again);
    b->n += (size_t)n;
}

void buf_shell(struct buf *b, const char *word)
{
    buf_putc(b, '\'');
    for (; *word; word++)
        if (*word == '\'')
            buf_puts(b, "'\\''");
        else
            buf_putc(b, *word);
    buf_putc(b, '\'');
}

void buf_word(struct buf *b, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:,=+@%";
    if (*word && word[strspn(word, plain)] == 0)
        buf_puts(b, word);
    else
        buf_shell(b, word);
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    if (b->p)
        b->p[0] = 0;
}

void buf_free(struct buf *b)
{
    mem_free(b->p);
    *b = (struct buf){0};
}

const char *buf_str(const struct buf *b)
{
    return b->p ? b->p : "";
}

bool str_int64(struct sv s, int64_t *out)
{
    if (s.n == 0 || s.n > 20)
        return false;
    bool negative = s.p[0] == '-';
    size_t i = negative;
    if (i == s.n)
        return false;
    uint64_t v = 0;
    for (; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
            return false;
    }
    if (v > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* The C locale whatever the process locale is, so that 0.5 is 0.5 everywhere. */
static locale_t c_locale(void)
{
    static locale_t loc;
    locale_t have = __atomic_load_n(&loc, __ATOMIC_ACQUIRE);
    if (!have) {
        have = newlocale(LC_ALL_MASK, "C", NULL);
        __atomic_store_n(&loc, have, __ATOMIC_RELEASE);
    }
    return have;
}

double strtod_l(const char *restrict s, char **restrict end, locale_t loc);

/* w * 10^exp10 for -19 <= exp10 <= 19, rounded once to nearest even: 128 bits hold the product, or
 * a quotient of at least 63 significant bits whose remainder only has to be zero or not. */
static double scale_exactly(uint64_t w, int exp10)
{
    __extension__ typedef unsigned __int128 u128;
    uint64_t ten = 1;
    for (int i = exp10 < 0 ? -exp10 : exp10; i > 0; i--)
        ten *= 10;
    int exp2 = 0;
    u128 v;
    bool sticky = false;
    if (exp10 >= 0) {
        v = (u128)w * ten;
    } else {
        int lead = __builtin_clzll(w);
        u128 numerator = (u128)(w << lead) << 64;
        v = numerator / ten;
        sticky = v * ten != numerator;
        exp2 = -64 - lead;
    }
    uint64_t high = (uint64_t)(v >> 64);
    int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)v);
    int drop = bits - 53;
    if (drop <= 0)
        return ldexp((double)(uint64_t)v, exp2);
    uint64_t kept = (uint64_t)(v >> drop);
    u128 rest = v & (((u128)1 << drop) - 1), half = (u128)1 << (drop - 1);
    kept += rest > half || (rest == half && (sticky || (kept & 1)));
    return ldexp((double)kept, exp2 + drop);
}

/* Numbers of up to 19 digits and small exponents, which is nearly every number in a file. Exact:
 * one IEEE operation on exact operands, or scale_exactly. False leaves the text to strtod. */
static bool simple_double(struct sv s, double *out)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *p = s.p, *end = s.p + s.n;
    bool negative = p < end && *p == '-', point = false;
    uint64_t w = 0;
    int digits = 0, significant = 0, exp10 = 0;
    for (p += negative; p < end; p++) {
        unsigned d = (unsigned)(*p - '0');
        if (d <= 9) {
            w = w * 10 + d;
            digits++;
            significant += w != 0;
            exp10 -= point;
        } else if (*p == '.' && !point) {
            point = true;
        } else {
            break;
        }
        if (significant > 19)
            return false;
    }
    if (digits == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        bool minus = ++p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        int e = 0, n = 0;
        for (; p < end && *p >= '0' && *p <= '9' && n < 4; p++, n++)
            e = e * 10 + (*p - '0');
        if (n == 0)
            return false;
        exp10 += minus ? -e : e;
    }
    if (p < end)
        return false;
    double v;
    if (w == 0)
        v = 0;
    else if (w <= UINT64_C(1) << 53 && exp10 >= -22 && exp10 <= 22)
        v = exp10 < 0 ? (double)w / tens[-exp10] : (double)w * tens[exp10];
    else if (exp10 >= -19 && exp10 <= 19)
        v = scale_exactly(w, exp10);
    else
        return false;
    *out = negative ? -v : v;
    return true;
}

bool str_double(struct sv s, double *out)
{
    if (simple_double(s, out))
        return true;
    char text[400];
    if (s.n == 0 || s.n >= sizeof text)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || strchr("+-.eE", s.p[i])) || s.p[i] == 0)
            return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    char *end;
    double v = strtod_l(text, &end, c_locale());
    if (*end || end == text || !isfinite(v))
        return false;
    *out = v;
    return true;
}

int str_from_double(char out[STR_DOUBLE_MAX], double v)
{
    ASSERT(isfinite(v));
    if (v == 0)
        return snprintf(out, STR_DOUBLE_MAX, signbit(v) ? "-0" : "0");
    if (fabs(v) < 1e15 && v == (double)(int64_t)v)
        return snprintf(out, STR_DOUBLE_MAX, "%lld", (long long)v);
    bool subnormal = fabs(v) < DBL_MIN; /* these hold fewer digits */
    for (int digits = subnormal ? 1 : DBL_DIG; digits <= 17; digits++) {
        int n = snprintf(out, STR_DOUBLE_MAX, "%.*g", digits, v);
        if (strtod_l(out, NULL, c_locale()) == v)
            return n;
    }
    return (int)strlen(out);
}

void str_from_bytes(char out[STR_BYTES_MAX], int64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    int unit = 0;
    for (; v >= 1024; unit++)
        v /= 1024;
    snprintf(out, STR_BYTES_MAX, "%.*f %s", unit > 0 && v < 99.95 ? 1 : 0, v, units[unit]);
}

size_t str_utf8_valid(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= sizeof eight) {
            memcpy(&eight, p + i, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        unsigned c = p[i];
        if (c < 0x80) {
            i++;
            continue;
        }
        size_t len = c >= 0xC2 && c <= 0xDF   ? 2
                     : (c & 0xF0) == 0xE0     ? 3
                     : c >= 0xF0 && c <= 0xF4 ? 4
                                              : 0;
        if (len == 0 || n - i < len)
            return i;
        for (size_t k = 1; k < len; k++)
            if ((p[i + k] & 0xC0) != 0x80)
                return i;
        if ((c == 0xE0 && p[i + 1] < 0xA0) || (c == 0xED && p[i + 1] >= 0xA0) ||
            (c == 0xF0 && p[i + 1] < 0x90) || (c == 0xF4 && p[i + 1] >= 0x90))
            return i;
        i += len;
    }
    return n;
}

size_t str_unprintable(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x20 || u[0] == 0x7f)
        return 1;
    if (u[0] == 0xc2 && u[1] < 0xa0)
        return 2;
    const bool turns = u[0] == 0xe2 && ((u[1] == 0x80 && u[2] >= 0xaa && u[2] <= 0xae) ||
                                        (u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9));
    return turns ? 3 : 0;
}

void str_make_printable(char *text, size_t n, bool lines)
{
    for (size_t i = 0; i < n;) {
        const size_t end = i + str_utf8_valid(text + i, n - i);
        while (i < end) {
            const bool line = lines && (text[i] == '\n' || text[i] == '\t');
            const size_t bad = line ? 0 : str_unprintable(text + i);
            memset(text + i, '?', bad);
            i += bad ? bad : 1;
        }
        if (i < n)
            text[i++] = '?';
    }
}

int str_distance(const char *a, const char *b)
{
    enum { MAX = 128 };
    int row[MAX + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > MAX || nb > MAX)
        return MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int cost = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int best = row[j] < row[j - 1] ? row[j] : row[j - 1];
            row[j] = cost < best + 1 ? cost : best + 1;
        }
    }
    return row[nb];
}
