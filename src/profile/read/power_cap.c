#include "profile/read/power_cap.h"

#include <math.h>

enum { MOST_ROWS = 64 };

static double excess_of(const struct bundle_power_cap_row *row)
{
    return fmax(row->sustained_s / row->rested_s - 1, 0);
}

static enum st check(const struct node *map, const struct bundle_power_cap *said,
                     const double *table_s, struct err *e)
{
    const struct node *rows = node_find(map, "rows");
    if (!isfinite(said->time_constant_s) || !isfinite(said->decode_ratio))
        return node_err(
            map, ST_INPUT, e,
            "power_cap: where held is true, time_constant_s and decode_ratio are numbers");
    if (said->n_rows == 0 || said->n_rows > MOST_ROWS)
        return node_err(map, ST_INPUT, e, "power_cap.rows: expected 1 to %d", MOST_ROWS);
    double most = 0;
    for (size_t i = 0; i < said->n_rows; i++) {
        if (i > 0 && said->rows[i].tokens <= said->rows[i - 1].tokens)
            return node_err(rows->items[i], ST_INPUT, e, "power_cap.rows: tokens must ascend");
        if (!(table_s[i] > 0))
            return node_err(rows->items[i], ST_INPUT, e,
                            "power_cap.rows: the tables have no time of such a prompt");
        most = fmax(most, excess_of(&said->rows[i]));
    }
    if (!(most > 0))
        return node_err(rows, ST_INPUT, e,
                        "power_cap.rows: held is true, but no sustained_s is above rested_s");
    return ST_OK;
}

enum st power_cap_make(struct arena *a, const struct node *map, const struct bundle_power_cap *said,
                       const double *table_s, const struct power_cap **out, struct err *e)
{
    *out = NULL;
    if (!said->held)
        return ST_OK;
    TRY(check(map, said, table_s, e));
    const size_t n = said->n_rows;
    const double least = said->decode_ratio - 1;
    double x[MOST_ROWS];
    double *rested = arena_array(a, double, n), *sustained = arena_array(a, double, n);
    double *target = arena_array(a, double, n);
    for (size_t i = 0; i < n; i++) {
        const struct bundle_power_cap_row *row = &said->rows[i];
        const double excess = excess_of(row), slope = fmax(excess, least);
        x[i] = log2((double)row->tokens);
        rested[i] = row->rested_s / table_s[i];
        sustained[i] = rested[i] * (1 + slope);
        target[i] = slope > 0 ? excess / slope : 0;
    }
    const struct grid *g = grid_new(a, x, (int32_t)n);
    struct power_cap *c = arena_one(a, struct power_cap);
    *c = (struct power_cap){.time_constant_s = said->time_constant_s,
                            .decode_ratio = said->decode_ratio,
                            .rested = {g, rested},
                            .sustained = {g, sustained},
                            .target = {g, target}};
    *out = c;
    return ST_OK;
}

struct power_cap_factors power_cap_factors(const struct power_cap *c,
                                           const struct power_cap_batch *b)
{
    bool outside;
    if (!b->chunks || b->tokens < 1)
        return (struct power_cap_factors){.rested = 1, .sustained = c->decode_ratio};
    const double x = log2((double)b->tokens), d = b->decode_share, p = 1 - d;
    return (struct power_cap_factors){.rested = p * curve_at(&c->rested, x, &outside) + d,
                                      .sustained = p * curve_at(&c->sustained, x, &outside) +
                                                   d * c->decode_ratio,
                                      .target = p * curve_at(&c->target, x, &outside)};
}

double power_cap_mean(const struct power_cap *c, double held, double target, double seconds)
{
    const double t = seconds / c->time_constant_s;
    return t > 0 ? target + (held - target) * -expm1(-t) / t : held;
}

double power_cap_after(const struct power_cap *c, double held, double target, double seconds)
{
    return seconds > 0 ? target + (held - target) * exp(-seconds / c->time_constant_s) : held;
}

double power_cap_over(const struct power_cap *c, const struct power_cap_factors *f, double seconds,
                      double *held)
{
    const double mean = power_cap_mean(c, *held, f->target, seconds);
    *held = power_cap_after(c, *held, f->target, seconds);
    return f->rested + (f->sustained - f->rested) * mean;
}

double power_cap_run(const struct power_cap *c, const struct power_cap_factors *f,
                     double operators_s, double other_s, double *held)
{
    /* The mean depends on the duration, which depends on the mean. Each step divides the error by
     * some ten: the mean changes less than the duration does, and that by the excess. */
    enum { STEPS = 6 };
    double s = operators_s * f->rested + other_s;
    for (int i = 0; i < STEPS; i++)
        s = operators_s * power_cap_over(c, f, s, &(double){*held}) + other_s;
    *held = power_cap_after(c, *held, f->target, s);
    return s;
}
