#include "text/svg_scale.h"

#include <math.h>
#include <stdio.h>

enum { MAX_PARTS = 6 };

static const double NEAR = 0.1; /* of a step: so near to a tick, an end moves there */

static double power_of_ten(int k)
{
    return k < 0 ? 1 / pow(10, -k) : pow(10, k);
}

/* The smallest round step that cuts a span into no more than MAX_PARTS. */
static double round_step(double span)
{
    static const double factors[] = {1, 2, 5};
    double unit = power_of_ten((int)floor(log10(span / MAX_PARTS)));
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (span / (factors[i] * unit) <= MAX_PARTS * (1 + 1e-9))
            return factors[i] * unit;
    return 10 * unit;
}

struct tick_unit {
    double from, size;
    const char *suffix;
};

/* The suffix for an axis whose largest tick is v: 20k, 1.5M. */
static struct tick_unit unit_of(double v)
{
    static const struct tick_unit units[] = {
        {1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (fabs(v) >= units[i].from * (1 - 1e-9))
            return units[i];
    return (struct tick_unit){0, 1, ""};
}

/* Exponents only where plain digits would be too long to read. */
static void label(char out[SCALE_LABEL_MAX], double v, double step, double largest)
{
    if (v == 0) {
        snprintf(out, SCALE_LABEL_MAX, "0");
    } else if (step < 1e-5 || fabs(largest) >= 1e15) {
        snprintf(out, SCALE_LABEL_MAX, "%.6g", v);
    } else {
        struct tick_unit u = unit_of(largest);
        int decimals = (int)ceil(-log10(step / u.size) - 1e-9);
        decimals = decimals < 0 ? 0 : decimals > 9 ? 9 : decimals;
        snprintf(out, SCALE_LABEL_MAX, "%.*f%s", decimals, v / u.size, u.suffix);
    }
}

static void add_tick(struct scale *s, double v, double step, double largest)
{
    double slack = s->log ? 1e-9 * v : 1e-9 * (s->max - s->min);
    if (s->n_ticks == SCALE_MAX_TICKS || v < s->min - slack || v > s->max + slack)
        return;
    s->ticks[s->n_ticks] = v;
    label(s->labels[s->n_ticks], v, step, largest);
    s->n_ticks++;
}

static void linear_ticks(struct scale *s, double step)
{
    double first = ceil(s->min / step - 1e-9), last = floor(s->max / step + 1e-9);
    double largest = fmax(fabs(first), fabs(last)) * step;
    for (double i = first; i <= last && s->n_ticks < SCALE_MAX_TICKS; i++)
        add_tick(s, i == 0 ? 0 : i * step, step, largest);
}

struct scale svg_scale_linear(double min, double max, bool whole)
{
    if (max - min <= 1e-12 * fmax(fabs(min), fabs(max))) {
        double room = min == 0 ? 1 : fabs(min) * 0.1;
        min -= min == 0 ? 0 : room; /* counts and durations have nothing below 0 */
        max += room;
    }
    struct scale s = {.min = min, .max = max};
    double step = round_step(max - min);
    double low = floor(min / step + 1e-9) * step, high = ceil(max / step - 1e-9) * step;
    if (whole || min - low < NEAR * step)
        s.min = low;
    if (whole || high - max < NEAR * step)
        s.max = high;
    linear_ticks(&s, step);
    return s;
}

struct scale svg_scale_log(double min, double max)
{
    if (max < min * 1.001) {
        min /= 2;
        max *= 2;
    }
    struct scale s = {.min = min, .max = max, .log = true};
    double decades = log10(max / min);
    if (decades < 1) {
        linear_ticks(&s, round_step(max - min));
        return s;
    }
    static const int with_two_and_five[] = {1, 2, 5}, alone[] = {1};
    const int *factors = decades <= 3 ? with_two_and_five : alone;
    int n = decades <= 3 ? 3 : 1;
    int every = 1 + (int)decades / 8;
    int first = (int)floor(log10(min) + 1e-9), last = (int)ceil(log10(max));
    for (int k = first; k <= last; k++)
        for (int i = 0; i < n && (k - first) % every == 0; i++) {
            double v = factors[i] * power_of_ten(k);
            add_tick(&s, v, power_of_ten(k), v);
        }
    return s;
}

double svg_scale_at(const struct scale *s, double v)
{
    if (s->log)
        return log(v / s->min) / log(s->max / s->min);
    return (v - s->min) / (s->max - s->min);
}
