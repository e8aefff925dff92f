#include "energy/stamp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
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

/* Up to two digits. */
static bool take_short(struct sv *s, int low, int high, int *out)
{
    const bool two = s->n > 1 && s->p[1] >= '0' && s->p[1] <= '9';
    return take_digits(s, two ? 2 : 1, low, high, out);
}

static bool take_word(struct sv *s, const char *word)
{
    const size_t n = strlen(word);
    if (s->n < n || strncasecmp(s->p, word, n) != 0)
        return false;
    s->p += n;
    s->n -= n;
    return true;
}

static bool take_fraction(struct sv *s, int64_t *ns, int *digits)
{
    int64_t unit = NS_PER_S / 10;
    int n = 0;
    *ns = 0;
    *digits = 0;
    if (!take(s, '.') && !take(s, ',')) /* ISO 8601 has both; Python's loggers write the latter */
        return true;
    for (; s->n && *s->p >= '0' && *s->p <= '9'; s->p++, s->n--, n++, unit /= 10)
        *ns += unit * (*s->p - '0'); /* unit is 0 beyond nanoseconds */
    *digits = n;
    return n > 0 && n <= 9;
}

/* "Z", "UTC", "+02:00", "-0330", "+02", each also behind a blank, "+0000 UTC", or nothing. */
static bool take_zone(struct sv *s, bool *zoned, int64_t *east_s)
{
    int hours, minutes = 0;
    *zoned = s->n > 0;
    *east_s = 0;
    if (s->n == 0)
        return true;
    take(s, ' ');
    if (take_word(s, "UTC") || take_word(s, "GMT") || take(s, 'Z'))
        return true;
    const bool west = s->n && *s->p == '-';
    if (!take(s, '+') && !take(s, '-'))
        return false;
    if (!take_digits(s, 2, 0, 15, &hours))
        return false;
    if ((take(s, ':') || (s->n > 0 && *s->p != ' ')) && !take_digits(s, 2, 0, 59, &minutes))
        return false;
    if (hours == 0 && minutes == 0)
        take_word(s, " UTC");
    *east_s = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

struct date {
    int year, month, day;
    bool either; /* day and month may be the other way round */
};

static bool year_first(struct sv *s, struct date *d)
{
    if (!take_digits(s, 4, FIRST_YEAR, LAST_YEAR, &d->year))
        return false;
    const char between = s->n && (*s->p == '/' || *s->p == '-') ? *s->p : 0;
    return (!between || take(s, between)) && take_digits(s, 2, 1, 12, &d->month) &&
           (!between || take(s, between)) && take_digits(s, 2, 1, 31, &d->day);
}

/* "7/18/2026" and "18.7.2026". */
static bool year_last(struct sv *s, struct date *d)
{
    int first, second;
    if (!take_short(s, 1, 31, &first) || s->n == 0)
        return false;
    const char between = *s->p;
    if ((between != '/' && between != '.') || !take(s, between) || !take_short(s, 1, 31, &second) ||
        !take(s, between) || !take_digits(s, 4, FIRST_YEAR, LAST_YEAR, &d->year))
        return false;
    const bool day_first = between == '.' || first > 12;
    d->day = day_first ? first : second;
    d->month = day_first ? second : first;
    d->either = between == '/' && first <= 12 && second <= 12 && first != second;
    return d->month <= 12;
}

static bool take_date(struct sv *s, struct date *d)
{
    struct sv other = *s;
    *d = (struct date){0};
    if (!year_first(s, d)) {
        if (!year_last(&other, d))
            return false;
        *s = other;
    }
    return d->day <= days_in(d->year, d->month);
}

/* "3:51:25 PM": the hour of the day. Without the word the hour is as it is. */
static bool take_half(struct sv *s, int *hour, bool *half)
{
    struct sv rest = *s;
    if (!take_word(&rest, "\xe2\x80\xaf")) /* a narrow blank, which newer Windows writes */
        take(&rest, ' ');
    const bool pm = take_word(&rest, "PM");
    *half = pm || take_word(&rest, "AM");
    if (!*half)
        return true;
    *s = rest;
    if (*hour < 1 || *hour > 12)
        return false;
    *hour = *hour % 12 + (pm ? 12 : 0);
    return true;
}

static bool parse_date(struct sv s, struct stamp *out)
{
    struct date d;
    int hour, minute, second;
    int64_t part_ns, east_s;
    bool half;
    if (!take_date(&s, &d) || (!take(&s, ' ') && !take(&s, 'T')))
        return false;
    if (!take_short(&s, 0, 23, &hour) || !take(&s, ':') || !take_digits(&s, 2, 0, 59, &minute) ||
        !take(&s, ':') || !take_digits(&s, 2, 0, 60, &second)) /* 60: a leap second */
        return false;
    if (!take_fraction(&s, &part_ns, &out->digits) || !take_half(&s, &hour, &half) ||
        (d.either && !half) || !take_zone(&s, &out->zoned, &east_s) || s.n > 0)
        return false;
    const int64_t seconds = days_since_1970(d.year, d.month, d.day) * 86400 + hour * 3600 +
                            minute * 60 + second - east_s;
    out->ns = seconds * NS_PER_S + part_ns;
    return true;
}

/* Units in which a second has 1, 1e3, 1e6 and 1e9 of them; by magnitude when unit_ns is 0. */
static int64_t unit_of(double value, int64_t unit_ns)
{
    const double last_s = (double)(LAST_YEAR - FIRST_YEAR) * 366 * 86400;
    for (int64_t unit = NS_PER_S; unit >= 1; unit /= 1000) {
        const double s = value / (double)(NS_PER_S / unit);
        if ((unit_ns == 0 || unit_ns == unit) && s >= EPOCH_FROM_S && s <= last_s)
            return unit;
    }
    return 0;
}

/* A double of today's nanoseconds is off by 100 and more: digits are added up. */
static bool exact_number(struct sv s, int64_t unit, struct stamp *out)
{
    int64_t whole = 0, part_unit = unit;
    int decimals = 0;
    for (; s.n && *s.p >= '0' && *s.p <= '9'; s.p++, s.n--)
        whole = 10 * whole + (*s.p - '0'); /* at most 19 digits: the value is in range */
    out->ns = whole * unit;
    if (take(&s, '.'))
        for (; s.n && *s.p >= '0' && *s.p <= '9'; s.p++, s.n--, decimals++)
            out->ns += (part_unit /= 10) * (*s.p - '0');
    out->digits += decimals;
    return s.n == 0;
}

static bool parse_number(struct sv text, int64_t unit_ns, struct stamp *out)
{
    double value;
    if (!str_double(text, &value))
        return false;
    const int64_t unit = unit_of(value, unit_ns);
    if (unit == 0)
        return false;
    *out = (struct stamp){.zoned = true};
    for (int64_t u = NS_PER_S; u > unit; u /= 10)
        out->digits++;
    if (exact_number(text, unit, out))
        return true;
    /* with an exponent: nothing tells how many of its digits are decimals of a second */
    out->digits = 0;
    out->ns = (int64_t)value * unit + (int64_t)((value - floor(value)) * (double)unit);
    return true;
}

bool stamp_parse_unit(struct sv text, int64_t unit_ns, struct stamp *out)
{
    text = sv_trim(text);
    *out = (struct stamp){0};
    return parse_date(text, out) || parse_number(text, unit_ns, out);
}

bool stamp_parse(struct sv text, struct stamp *out)
{
    return stamp_parse_unit(text, 0, out);
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
