#include "profile/read/power_cap.h"

#include <math.h>

enum { MOST_ROWS = 64 };

static double excess_of(const struct bundle_power_cap_row *row)
{
    return fmax(row->sustained_s / row->rested_s - 1, 0);
}

/* Prompts of a row. */
struct prompts {
    double free_s; /* at held 0 from begin to end */
    double slope, target;
};

static struct prompts prompts_at(const struct power_cap *c, const struct bundle_power_cap_row *row,
                                 double free_s)
{
    const double excess = fmax(row->sustained_s / free_s - 1, 0);
    const double behind = isnan(row->behind_s) ? c->decode_ratio : row->behind_s / free_s;
    const double slope = fmax(excess, behind - 1);
    return (struct prompts){free_s, slope, slope > 0 ? excess / slope : 0};
}

/* A prompt that outlasts the delay ends at a lower clock than it began at, so its time after rest
 * is not that at held 0. Each step leaves a tenth of the error or less: a part of the slope. */
static struct prompts prompts_of(const struct power_cap *c, const struct bundle_power_cap_row *row)
{
    enum { STEPS = 8 };
    struct prompts p = prompts_at(c, row, row->rested_s);
    for (int i = 0; i < STEPS; i++) {
        struct power_cap_state clock = {0};
        const double held = power_cap_move(c, p.target, row->rested_s, &clock);
        p = prompts_at(c, row, row->rested_s / (1 + p.slope * held));
    }
    return p;
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
    double x[MOST_ROWS];
    double *rested = arena_array(a, double, n), *sustained = arena_array(a, double, n);
    double *target = arena_array(a, double, n);
    struct power_cap *c = arena_one(a, struct power_cap);
    *c = (struct power_cap){.time_constant_s = said->time_constant_s,
                            .delay_s = isnan(said->delay_s) ? 0 : said->delay_s,
                            .decode_ratio = said->decode_ratio};
    for (size_t i = 0; i < n; i++) {
        const struct prompts p = prompts_of(c, &said->rows[i]);
        x[i] = log2((double)said->rows[i].tokens);
        rested[i] = p.free_s / table_s[i];
        sustained[i] = rested[i] * (1 + p.slope);
        target[i] = p.target;
    }
    const struct grid *g = grid_new(a, x, (int32_t)n);
    c->rested = (struct curve){g, rested};
    c->sustained = (struct curve){g, sustained};
    c->target = (struct curve){g, target};
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

/* Moves held towards `to`; the integral of held over the seconds. */
static double approach(const struct power_cap *c, double to, double seconds, double *held)
{
    const double t = seconds / c->time_constant_s, from = *held;
    *held = to + (from - to) * exp(-t);
    return to * seconds + (from - to) * c->time_constant_s * -expm1(-t);
}

double power_cap_move(const struct power_cap *c, double target, double seconds,
                      struct power_cap_state *s)
{
    if (!(seconds > 0))
        return s->held;
    const double rate = 2 * target - 1;
    double waiting_s = 0; /* of the seconds: until the delay is spent */
    if (rate > 0)
        waiting_s = fmin(seconds, (1 - s->spent) * c->delay_s / rate);
    const double sum = approach(c, 0, waiting_s, &s->held);
    if (c->delay_s > 0)
        s->spent = fmin(fmax(s->spent + rate * seconds / c->delay_s, 0), 1);
    return (sum + approach(c, target, seconds - waiting_s, &s->held)) / seconds;
}

double power_cap_over(const struct power_cap *c, const struct power_cap_factors *f, double seconds,
                      struct power_cap_state *s)
{
    return f->rested + (f->sustained - f->rested) * power_cap_move(c, f->target, seconds, s);
}

double power_cap_run(const struct power_cap *c, const struct power_cap_factors *f,
                     double operators_s, double other_s, struct power_cap_state *s)
{
    /* The mean depends on the duration, which depends on the mean. Each step divides the error by
     * some ten: the mean changes less than the duration does, and that by the excess. */
    enum { STEPS = 6 };
    double seconds = operators_s * f->rested + other_s;
    for (int i = 0; i < STEPS; i++) {
        struct power_cap_state tried = *s;
        seconds = operators_s * power_cap_over(c, f, seconds, &tried) + other_s;
    }
    (void)power_cap_move(c, f->target, seconds, s);
    return seconds;
}
