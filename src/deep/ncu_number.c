/* Numbers and units as ncu writes them, in any locale. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "deep/ncu_csv.h"

/* Bytes of the separator at p: 1 for , . ' and space, 2 or 3 for the no-break spaces and the
 * typographic apostrophe; 0 = none. */
static size_t separator(const char *p, size_t n)
{
    static const char *const wide[] = {"\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x99"};
    if (n && strchr(",.' ", *p))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (n >= strlen(wide[i]) && memcmp(p, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits(const char *p, size_t n)
{
    size_t k = 0;
    while (k < n && is_digit(p[k]))
        k++;
    return k;
}

int ncu_locale_hint(struct sv s, bool whole)
{
    size_t points = 0, commas = 0, after = 0, before = 0;
    char last = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '.' || s.p[i] == ',') {
            points += s.p[i] == '.';
            commas += s.p[i] == ',';
            last = s.p[i];
            before = i;
            after = digits(s.p + i + 1, s.n - i - 1);
        } else if (!is_digit(s.p[i]) && !separator(s.p + i, s.n - i) &&
                   !(i == 0 && (s.p[i] == '-' || s.p[i] == '+')) && (unsigned char)s.p[i] < 0x80) {
            return 0; /* no plain number */
        }
    }
    int sign = last == '.' ? 1 : -1;
    if (points && commas)
        return sign;
    if (points > 1)
        return -1; /* they separate thousands */
    if (commas > 1)
        return 1;
    if (!last)
        return 0;
    if (after != 3 || before > 3 || (before == 1 && s.p[0] == '0') || before == 0)
        return sign; /* thousands have three digits behind and one to three before */
    return whole ? -sign : 0;
}

bool ncu_is_count(struct sv metric, struct sv unit)
{
    static const char *const counted[] = {"byte",       "inst",   "sector", "block",
                                          "warp",       "thread", "cycle",  "register/thread",
                                          "byte/block", "request"};
    static const char sum[] = ".sum", launch[] = "launch__";
    bool is_sum = metric.n > sizeof sum - 1 &&
                  memcmp(metric.p + metric.n - (sizeof sum - 1), sum, sizeof sum - 1) == 0;
    bool of_launch =
        metric.n > sizeof launch - 1 && memcmp(metric.p, launch, sizeof launch - 1) == 0;
    for (size_t i = 0; (is_sum || of_launch) && i < sizeof counted / sizeof *counted; i++)
        if (sv_eq(unit, counted[i]))
            return true;
    return false;
}

bool ncu_number(struct sv s, struct ncu_locale l, double *out)
{
    enum { MOST = 64 };
    char plain[MOST];
    size_t n = 0;
    bool fraction = false;
    s = sv_trim(s);
    if (!s.n)
        return false;
    for (size_t i = 0; i < s.n;) {
        size_t wide = separator(s.p + i, s.n - i);
        if (n + 1 >= MOST)
            return false;
        if (wide && s.p[i] == l.decimal) {
            if (fraction)
                return false;
            fraction = true;
            plain[n++] = '.';
            i++;
        } else if (wide) {
            if (fraction || i == 0 || !is_digit(s.p[i - 1]))
                return false;
            i += wide;
            size_t group = digits(s.p + i, s.n - i);
            bool more = separator(s.p + i + group, s.n - i - group) && s.p[i + group] != l.decimal;
            if (group < (more ? 2 : 3)) /* lakhs have groups of two */
                return false;
        } else {
            plain[n++] = s.p[i++];
        }
    }
    return str_double((struct sv){plain, n}, out);
}

/* Names of base units; a prefix may stand before one. Times are brought to ns. */
static const struct ncu_unit {
    const char *name;
    double factor;
} units[] = {
    {"byte", 1},     {"bytes", 1},    {"b", 1},      {"hz", 1},    {"inst", 1}, {"cycle", 1},
    {"sector", 1},   {"warp", 1},     {"thread", 1}, {"block", 1}, {"op", 1},   {"request", 1},
    {"register", 1}, {"second", 1e9}, {"s", 1e9},    {"sec", 1e9},
};

static bool unit_factor(struct sv unit, double *out)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].name) == unit.n && strncasecmp(units[i].name, unit.p, unit.n) == 0) {
            *out = units[i].factor;
            return true;
        }
    return false;
}

static double factor_of(struct sv unit)
{
    static const struct {
        const char *text;
        double factor;
    } prefixes[] = {{"Ki", 1024},       {"Mi", 1024.0 * 1024},
                    {"Gi", 1073741824}, {"Ti", 1099511627776},
                    {"K", 1e3},         {"k", 1e3},
                    {"M", 1e6},         {"G", 1e9},
                    {"T", 1e12},        {"P", 1e15},
                    {"u", 1e-6},        {"\xc2\xb5", 1e-6},
                    {"\xce\xbc", 1e-6}, {"m", 1e-3},
                    {"n", 1e-9}};
    double factor;
    if (unit_factor(unit, &factor))
        return factor;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = strlen(prefixes[i].text);
        if (unit.n > n && memcmp(unit.p, prefixes[i].text, n) == 0 &&
            unit_factor((struct sv){unit.p + n, unit.n - n}, &factor))
            return factor * prefixes[i].factor;
    }
    return 0;
}

/* A rate is per second: what stands below the line is a time, or none that is converted ("block").
 */
double ncu_unit_factor(struct sv unit)
{
    unit = sv_trim(unit);
    const char *slash = memchr(unit.p, '/', unit.n);
    size_t above = slash ? (size_t)(slash - unit.p) : unit.n;
    double up = factor_of((struct sv){unit.p, above}), per_s = 1;
    if (slash) {
        struct sv below = {slash + 1, unit.n - above - 1};
        static const char *const times[] = {"s", "sec", "second"};
        for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
            size_t n = strlen(times[i]);
            if (below.n >= n && memcmp(below.p + below.n - n, times[i], n) == 0 &&
                factor_of(below) > 0)
                per_s = 1e9 / factor_of(below);
        }
    }
    return (up > 0 ? up : 1) * per_s;
}
