#include "text/words.h"

#include <math.h>
#include <stdio.h>

#include "base/str.h"

const char *words_duration(char out[WORDS_MAX], double seconds)
{
    static const struct {
        double from;
        const char *unit;
        double scale;
    } units[] = {{10, "s", 1}, {1e-3, "ms", 1e3}, {1e-6, "µs", 1e6}, {0, "ns", 1e9}};
    if (!isfinite(seconds)) {
        snprintf(out, WORDS_MAX, "n/a");
        return out;
    }
    /* Rounds first, so that a value that rounds up to the next power of ten is printed as that. */
    char rounded[WORDS_MAX];
    double v = seconds;
    snprintf(rounded, sizeof rounded, "%.3e", seconds);
    str_double(sv_of(rounded), &v);
    size_t u = 0;
    while (fabs(v) < units[u].from)
        u++;
    v *= units[u].scale;
    double size = fabs(v) * (1 + 1e-12);
    int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    snprintf(out, WORDS_MAX, "%.*f %s", units[u].from == 0 ? 0 : decimals, v, units[u].unit);
    return out;
}

const char *words_ms(char out[WORDS_MAX], double seconds)
{
    double ms = seconds * 1e3;
    int decimals = 3;
    if (!isfinite(seconds)) {
        snprintf(out, WORDS_MAX, "n/a");
        return out;
    }
    for (double size = 10; decimals > 0 && fabs(ms) * (1 + 1e-12) >= size; size *= 10)
        decimals--;
    for (double size = 1; decimals < 6 && fabs(ms) > 0 && fabs(ms) < size; size /= 10)
        decimals++;
    snprintf(out, WORDS_MAX, "%.*f", decimals, ms);
    return out;
}

static const char *percent(char out[WORDS_MAX], double v, const char *plus)
{
    int decimals = fabs(v) < 9.95 ? 1 : 0;
    const char *sign = fabs(v) < 0.05 ? "" : v > 0 ? plus : "-";
    if (isfinite(v))
        snprintf(out, WORDS_MAX, "%s%.*f %%", sign, decimals, fabs(v));
    else
        snprintf(out, WORDS_MAX, "n/a");
    return out;
}

const char *words_percent(char out[WORDS_MAX], double v)
{
    return percent(out, v, "");
}

const char *words_change(char out[WORDS_MAX], double v)
{
    return percent(out, v, "+");
}

const char *words_share(char out[WORDS_MAX], double share)
{
    if (isfinite(share))
        snprintf(out, WORDS_MAX, "%.0f %%", fabs(share) < 0.005 ? 0 : 100 * share);
    else
        out[0] = 0;
    return out;
}

const char *words_count(char out[WORDS_MAX], int64_t n)
{
    char digits[WORDS_MAX];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n), o = 0;
    for (int i = 0; i < len; i++) {
        out[o++] = digits[i];
        int left = len - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-')
            out[o++] = ',';
    }
    out[o] = 0;
    return out;
}
