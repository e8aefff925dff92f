#include "profile/read/power_cap.h"

#include <math.h>

enum { MOST_ROWS = 64 };

static double excess_of(const struct bundle_power_cap_row *row)
{
    return fmax(row->sustained_s / row->rested_s - 1, 0);
}

/* Prompts of a row. */
struct row_prompts {
    double free_s; /* at held 0 from begin to end */
    double slope, target;
};

static struct row_prompts prompts_at(const struct power_cap *c,
                                     const struct bundle_power_cap_row *row, double free_s)
{
    const double excess = fmax(row->sustained_s / free_s - 1, 0);
    const double behind = isnan(row->behind_s) ? c->decode_ratio : row->behind_s / free_s;
    const double slope = fmax(excess, behind - 1);
    return (struct row_prompts){free_s, slope, slope > 0 ? excess / slope : 0};
}

/* A prompt that outlasts the delay ends at a lower clock than it began at, so its time after rest
 * is not that at held 0. Each step leaves a tenth of the error or less: a part of the slope. */
static struct row_prompts prompts_of(const struct power_cap *c,
                                     const struct bundle_power_cap_row *row)
{
    enum { STEPS = 8 };
    struct row_prompts p = prompts_at(c, row, row->rested_s);
    for (int i = 0; i < STEPS; i++) {
        struct power_cap_state clock = power_cap_rested(c);
        const double held = power_cap_move(c, p.target, row->rested_s, &clock);
        p = prompts_at(c, row, row->rested_s / (1 + p.slope * held));
    }
    return p;
}

static enum st check(const struct node *map, const struct bundle_power_cap *said,
                     const double *table_s, struct err *e)
{
    const struct node *rows = node_find(map, "rows");
    if (!isfinite(said->smoothing_s) || !isfinite(said->control_s) ||
        !isfinite(said->decode_below) || !isfinite(said->rest_below) ||
        !isfinite(said->decode_ratio))
        return node_err(map, ST_INPUT, e,
                        "power_cap: where held is true, smoothing_s, control_s, decode_below, "
                        "rest_below and decode_ratio are numbers");
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

/* Prompts one after the other that take longer than the tables say by more than any clock does wait
 * for their launches. */
static bool is_launching(const struct bundle_power_cap_row *row, double table_s)
{
    static const double most = 1.25;
    return row->rested_s > most * table_s;
}

enum st power_cap_make(struct arena *a, const struct node *map, const struct bundle_power_cap *said,
                       const double *table_s, const struct power_cap **out, struct err *e)
{
    *out = NULL;
    if (!said->held)
        return ST_OK;
    TRY(check(map, said, table_s, e));
    double x[MOST_ROWS], most = 0;
    double *rested = arena_array(a, double, said->n_rows),
           *sustained = arena_array(a, double, said->n_rows),
           *target = arena_array(a, double, said->n_rows);
    struct power_cap *c = arena_one(a, struct power_cap);
    *c = (struct power_cap){.smoothing_s = said->smoothing_s,
                            .control_s = said->control_s,
                            .decode_below = said->decode_below,
                            .rest_below = said->rest_below,
                            .decode_ratio = said->decode_ratio};
    int32_t n = 0;
    for (size_t i = 0; i < said->n_rows; i++) {
        const struct row_prompts p = prompts_of(c, &said->rows[i]);
        if (is_launching(&said->rows[i], table_s[i]))
            continue;
        x[n] = log2((double)said->rows[i].tokens);
        rested[n] = p.free_s / table_s[i];
        sustained[n] = rested[n] * (1 + p.slope);
        target[n++] = p.target;
        most = fmax(most, p.target);
    }
    if (!(most > 0))
        return ST_OK;
    const struct grid *g = grid_new(a, x, n);
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
        return (struct power_cap_factors){
            .rested = 1, .sustained = c->decode_ratio, .target = -c->decode_below};
    const double x = log2((double)b->tokens), d = b->decode_share, p = 1 - d;
    return (struct power_cap_factors){
        .rested = p * curve_at(&c->rested, x, &outside) + d,
        .sustained = p * curve_at(&c->sustained, x, &outside) + d * c->decode_ratio,
        .target = p * curve_at(&c->target, x, &outside) - d * c->decode_below};
}

struct power_cap_state power_cap_rested(const struct power_cap *c)
{
    return (struct power_cap_state){.excess = -c->rest_below};
}

/* In steps that are short beside both times. Far behind the beginning the state stands still, and
 * where one time is far longer than the other, steps are stable though not short. */
double power_cap_move(const struct power_cap *c, double target, double seconds,
                      struct power_cap_state *s)
{
    enum { STEPS = 16, MOST_STEPS = 4096, TIMES = 40 };
    if (!(seconds > 0))
        return s->held;
    const double moving_s = fmin(seconds, TIMES * (c->smoothing_s + c->control_s));
    const double n = fmin(ceil(moving_s / fmin(c->smoothing_s, c->control_s) * STEPS), MOST_STEPS);
    const double step_s = moving_s / n, nearer = -expm1(-step_s / c->smoothing_s);
    double sum = 0;
    for (double i = 0; i < n; i++) {
        const double held = s->held;
        s->excess += nearer * (target - held - s->excess);
        s->held = fmin(fmax(held + step_s / c->control_s * s->excess, 0), 1);
        sum += step_s * (held + s->held) / 2;
    }
    return (sum + (seconds - moving_s) * s->held) / seconds;
}

void power_cap_rest(const struct power_cap *c, double seconds, struct power_cap_state *s)
{
    (void)power_cap_move(c, -c->rest_below, seconds, s);
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
