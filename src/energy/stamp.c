#include "energy/stamp.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

enum { FIRST_YEAR = 1970, LAST_YEAR = 2199, EPOCH_FROM_S = 100000000 };

/* ---- reading --------------------------------------------------------------------------------- */

/* n digits at the front of s. */
static bool take_digits(struct sv *s, int n, int low, int high, int *out)
{
    int v = 0;
    for (int i = 0; i < n; i++, s->p++, s->n--) {
        if (s->n == 0 || *s->p < '0' || *s->p > '9')
            return false;
        v = 10 * v + (*s->p - '0');
    }
    *out = v;
    return v >= low && v <= high;
}

static bool take(struct sv *s, char c)
{
    if (s->n == 0 || *s->p != c)
        return false;
    s->p++;
    s->n--;
    return true;
}

static bool leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && leap(year));
}

static int64_t days_since_1970(int year, int month, int day)
{
    int64_t days = day - 1;
    for (int y = FIRST_YEAR; y < year; y++)
        days += leap(y) ? 366 : 365;
    for (int m = 1; m < month; m++)
        days += days_in(year, m);
    return days;
}

static bool take_fraction(struct sv *s, int64_t *ns)
{
    int64_t unit = NS_PER_S / 10;
    int n = 0;
    *ns = 0;
    if (!take(s, '.') && !take(s, ',')) /* ISO 8601 has both; Python's loggers write the latter */
        return true;
    for (; s->n && *s->p >= '0' && *s->p <= '9'; s->p++, s->n--, n++, unit /= 10)
        *ns += unit * (*s->p - '0'); /* unit is 0 beyond nanoseconds */
    return n > 0 && n <= 9;
}

/* "Z", "+02:00", "-0330", "+02", each also behind a blank, or nothing. */
static bool take_zone(struct sv *s, bool *zoned, int64_t *east_s)
{
    int hours, minutes = 0;
    *zoned = s->n > 0;
    *east_s = 0;
    if (s->n == 0)
        return true;
    take(s, ' ');
    if (take(s, 'Z'))
        return true;
    const bool west = *s->p == '-';
    if (!take(s, '+') && !take(s, '-'))
        return false;
    if (!take_digits(s, 2, 0, 15, &hours))
        return false;
    if ((take(s, ':') || s->n > 0) && !take_digits(s, 2, 0, 59, &minutes))
        return false;
    *east_s = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

static bool parse_date(struct sv s, struct stamp *out)
{
    int year, month, day, hour, minute, second;
    int64_t part_ns, east_s;
    if (!take_digits(&s, 4, FIRST_YEAR, LAST_YEAR, &year))
        return false;
    const char between = s.n && *s.p == '/' ? '/' : '-';
    if (!take(&s, between) || !take_digits(&s, 2, 1, 12, &month) || !take(&s, between) ||
        !take_digits(&s, 2, 1, 31, &day) || day > days_in(year, month))
        return false;
    if (!take(&s, ' ') && !take(&s, 'T'))
        return false;
    if (!take_digits(&s, 2, 0, 23, &hour) || !take(&s, ':') ||
        !take_digits(&s, 2, 0, 59, &minute) || !take(&s, ':') ||
        !take_digits(&s, 2, 0, 60, &second)) /* 60: a leap second */
        return false;
    if (!take_fraction(&s, &part_ns) || !take_zone(&s, &out->zoned, &east_s) || s.n > 0)
        return false;
    const int64_t seconds =
        days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - east_s;
    out->ns = seconds * NS_PER_S + part_ns;
    return true;
}

bool stamp_parse(struct sv text, struct stamp *out)
{
    const double last_s = (double)(LAST_YEAR - FIRST_YEAR) * 366 * 86400;
    double s;
    text = sv_trim(text);
    if (parse_date(text, out))
        return true;
    if (!str_double(text, &s) || s < EPOCH_FROM_S || s > last_s)
        return false;
    /* The whole seconds apart: a double of today's ns is off by 100 ns and more. */
    *out = (struct stamp){(int64_t)s * NS_PER_S + ns_from_s(s - floor(s)), true};
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

void stamp_text(int64_t wall_ns, int64_t utc_offset_s, char out[STAMP_MAX])
{
    const int64_t ms = wall_ns / NS_PER_MS + utc_offset_s * 1000;
    const time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char day[24];
    gmtime_r(&s, &tm);
    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(out, STAMP_MAX, "%.19s.%03d", day, (int)(ms % 1000));
}

int64_t stamp_utc_offset_s(int64_t wall_ns)
{
    const time_t s = (time_t)(wall_ns / NS_PER_S);
    struct tm tm;
    localtime_r(&s, &tm);
    return tm.tm_gmtoff;
}
