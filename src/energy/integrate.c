/* Energy and mean power of a window (power_log.h). */
#include <math.h>

#include "base/clock.h"
#include "energy/power_log.h"
#include "metrics/metrics.h"

const char *energy_how_name(unsigned how)
{
    static const char *const names[ENERGY_HOWS] = {"excluded", "one sample", "trapezoids"};
    return how < ENERGY_HOWS ? names[how] : NULL;
}

/* ---- interpolation --------------------------------------------------------------------------- */

/* Power and reading of the counter have the same rows, not the same gaps. */
static double value_of(const struct power_sample *s, bool counter)
{
    return counter ? s->energy_j : s->power_w;
}

/* The first sample at or after ns: n when all are before. */
static size_t first_from(const struct power_log *log, int64_t ns)
{
    size_t low = 0, high = log->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (log->p[mid].ns < ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The value at ns: of the sample there, else on the line between its neighbours, else that of the
 * nearest end. NAN when the log has none. */
static double value_at(const struct power_log *log, int64_t ns, bool counter)
{
    const size_t at = first_from(log, ns);
    size_t before = at, after = at;
    while (before > 0 && isnan(value_of(&log->p[before - 1], counter)))
        before--;
    while (after < log->n && isnan(value_of(&log->p[after], counter)))
        after++;
    if (before == 0 && after == log->n)
        return NAN;
    if (before == 0)
        return value_of(&log->p[after], counter);
    if (after == log->n)
        return value_of(&log->p[before - 1], counter);
    const struct power_sample *x = &log->p[before - 1], *y = &log->p[after];
    const double part = y->ns == x->ns ? 1 : (double)(ns - x->ns) / (double)(y->ns - x->ns);
    return value_of(x, counter) + part * (value_of(y, counter) - value_of(x, counter));
}

/* ---- a window -------------------------------------------------------------------------------- */

/* First and last sample with a power. */
static bool span_of(const struct power_log *log, int64_t *first_ns, int64_t *last_ns)
{
    size_t i = 0, k = log->n;
    while (i < log->n && isnan(log->p[i].power_w))
        i++;
    while (k > i && isnan(log->p[k - 1].power_w))
        k--;
    if (i == k)
        return false;
    *first_ns = log->p[i].ns;
    *last_ns = log->p[k - 1].ns;
    return true;
}

static double counted(const struct power_log *log, int64_t from_ns, int64_t to_ns)
{
    size_t i = 0, k = log->n;
    while (i < log->n && isnan(log->p[i].energy_j))
        i++;
    while (k > i && isnan(log->p[k - 1].energy_j))
        k--;
    if (i == k || log->p[i].ns > from_ns || log->p[k - 1].ns < to_ns)
        return NAN; /* the counter was not read before or after */
    const double j = value_at(log, to_ns, true) - value_at(log, from_ns, true);
    return j >= 0 ? j : NAN; /* it was reset */
}

/* The range of power within late_s of the moment. */
static double range_around(const struct power_log *log, int64_t ns, double late_s)
{
    double low = value_at(log, ns, false), high = low;
    const int64_t from_ns = ns - ns_from_s(late_s), to_ns = ns + ns_from_s(late_s);
    for (size_t i = first_from(log, from_ns); i < log->n && log->p[i].ns <= to_ns; i++)
        if (!isnan(log->p[i].power_w)) {
            low = fmin(low, log->p[i].power_w);
            high = fmax(high, log->p[i].power_w);
        }
    return high - low;
}

static double edges(const struct power_log *log, int64_t from_ns, int64_t to_ns, double gap_s)
{
    const double late_s = fmin(3600, fmax(log->averaged ? 1 : 0.1, gap_s));
    return late_s / 2 * (range_around(log, from_ns, late_s) + range_around(log, to_ns, late_s));
}

static double gap(struct energy *out, int64_t from_ns, int64_t to_ns)
{
    const double s = ns_to_s(to_ns - from_ns);
    out->longest_gap_s = fmax(out->longest_gap_s, s);
    return s;
}

struct energy energy_of(const struct power_log *log, int64_t from_ns, int64_t to_ns)
{
    struct energy out = {.joules = NAN,
                         .counter_j = counted(log, from_ns, to_ns),
                         .duration_s = ns_to_s(to_ns - from_ns),
                         .low_w = NAN,
                         .high_w = NAN};
    int64_t first_ns, last_ns, at_ns = from_ns;
    if (!span_of(log, &first_ns, &last_ns)) {
        out.outside_s = out.duration_s;
        return out;
    }
    const int64_t in_from = first_ns > from_ns ? first_ns : from_ns;
    const int64_t in_to = last_ns < to_ns ? last_ns : to_ns;
    out.outside_s = in_to > in_from ? out.duration_s - ns_to_s(in_to - in_from) : out.duration_s;
    double at_w = value_at(log, from_ns, false), joules = 0, sum_w = 0;
    int64_t rows = 0, last_row_ns = 0;
    for (size_t i = first_from(log, from_ns); i < log->n && log->p[i].ns <= to_ns; i++) {
        const struct power_sample *s = &log->p[i];
        if (isnan(s->power_w))
            continue;
        out.samples += rows == 0 || s->ns != last_row_ns;
        last_row_ns = s->ns;
        rows++;
        sum_w += s->power_w;
        out.low_w = fmin(out.low_w, s->power_w);
        out.high_w = fmax(out.high_w, s->power_w);
        joules += (at_w + s->power_w) / 2 * gap(&out, at_ns, s->ns);
        at_ns = s->ns;
        at_w = s->power_w;
    }
    joules += (at_w + value_at(log, to_ns, false)) / 2 * gap(&out, at_ns, to_ns);
    if (out.samples == 1) {
        out.how = ENERGY_ONE_SAMPLE;
        out.joules = sum_w / (double)rows * out.duration_s;
    } else if (out.samples > 1) {
        out.how = ENERGY_TRAPEZOIDS;
        out.joules = joules;
    }
    out.edge_j = edges(log, from_ns, to_ns, fmin(out.longest_gap_s, out.duration_s / 2));
    return out;
}

/* ---- mean power ------------------------------------------------------------------------------ */

/* Sums over readings of the sensor: of a power, or between two changes of the counter. */
struct power_sums {
    double n, sum, squares, products, last;
};

static void add(struct power_sums *s, double w)
{
    if (s->n > 0)
        s->products += s->last * w;
    s->n++;
    s->sum += w;
    s->squares += w * w;
    s->last = w;
}

/* Readings are taken off a base, so that squares keep their digits. */
static struct power_sums of_power(const struct power_log *log, int64_t from_ns, int64_t to_ns,
                                  double base)
{
    struct power_sums s = {0};
    double before = NAN;
    for (size_t i = first_from(log, from_ns); i < log->n && log->p[i].ns <= to_ns; i++) {
        const double w = log->p[i].power_w;
        if (isnan(w) || w == before)
            continue;
        before = w;
        add(&s, w - base);
    }
    return s;
}

/* Power between two ticks of the counter. A tick is seen up to one interval of the log late, now
 * more, now less; the ticks themselves are regular, so their mean distance is used, or a multiple
 * of it where ticks were missed. */
static struct power_sums of_counter(const struct power_log *log, int64_t from_ns, int64_t to_ns,
                                    double base)
{
    struct power_sums s = {0};
    const struct power_sample *first = NULL, *before = NULL;
    double ticks = -1, tick_s = 0;
    const size_t begin = first_from(log, from_ns);
    for (size_t i = begin; i < log->n && log->p[i].ns <= to_ns; i++)
        if (!isnan(log->p[i].energy_j)) {
            first = first ? first : &log->p[i];
            tick_s = ns_to_s(log->p[i].ns - first->ns);
            ticks++;
        }
    if (ticks < 1 || tick_s <= 0)
        return s;
    tick_s /= ticks;
    for (size_t i = begin; i < log->n && log->p[i].ns <= to_ns; i++) {
        const struct power_sample *x = &log->p[i];
        if (isnan(x->energy_j))
            continue;
        if (before) {
            const double n = fmax(1, round(ns_to_s(x->ns - before->ns) / tick_s));
            add(&s, (x->energy_j - before->energy_j) / (n * tick_s) - base);
        }
        before = x;
    }
    return s;
}

struct power_mean power_mean_of(const struct power_log *log, int64_t from_ns, int64_t to_ns)
{
    const struct energy all = energy_of(log, from_ns, to_ns);
    struct power_mean out = {.mean_w = NAN, .half_w = NAN, .spread_w = NAN};
    if (all.how != ENERGY_EXCLUDED)
        out.mean_w = all.joules / all.duration_s;
    else if (!isnan(all.counter_j))
        out.mean_w = all.counter_j / all.duration_s;
    if (all.duration_s <= 0) /* an instant: the power there */
        out.mean_w = value_at(log, from_ns, false);
    struct power_sums s = of_power(log, from_ns, to_ns, out.mean_w);
    if (s.n < 3 && !isnan(all.counter_j))
        s = of_counter(log, from_ns, to_ns, out.mean_w);
    out.readings = (int64_t)s.n;
    if (s.n < 3)
        return out;
    const double mean = s.sum / s.n,
                 variance = fmax(0, (s.squares - s.n * mean * mean) / (s.n - 1));
    /* Correlation of neighbours, about the mean; its edge terms are left out. */
    const double pairs = s.products / (s.n - 1) - mean * mean;
    const double rho = variance > 0 ? fmin(0.95, fmax(0, pairs / variance)) : 0;
    const double alone = fmax(2, s.n * (1 - rho) / (1 + rho));
    out.spread_w = sqrt(variance);
    out.correlation = rho;
    out.half_w = stats_student_95((size_t)alone - 1) * out.spread_w / sqrt(alone);
    return out;
}
