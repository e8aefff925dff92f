/* The power cap of a GPU: a device that computes without pause draws more than its limit allows,
 * and the driver lowers its clock until the draw fits; after some time of lighter work the clock is
 * back. So the time of a batch depends on what ran before it.
 *
 * The state is two numbers. `held`, 0 to 1, is how far the clock is down: 1 when long prompts have
 * followed each other for long. `excess` is the board's draw, smoothed, less its limit, in units of
 * what long prompts draw above the limit at the full clock. Work with target T draws T - held: 1 -
 * held of long prompts, so that at held 1 they draw the limit; T below 0 of what draws less than
 * the limit at the full clock, decodes and, by far, rest. The driver lowers the clock while the
 * smoothed draw is above the limit:
 *
 *     excess' = (T - held - excess) / smoothing_s
 *     held'   = excess / control_s, between 0 and 1
 *
 * So a board may draw more than its limit for a while, behind rest for longer than behind decodes.
 * While it runs, a batch takes
 *
 *     at held 0 x (1 + slope x (mean of held over the batch))
 *
 * The slope of decodes is measured behind prompts. That of prompts is their own excess, sustained /
 * at held 0 - 1, at target 1: their sustained time is that at their target. Short prompts hold the
 * clock down less than longer ones that went before: their slope is measured behind these where it
 * was, else it is at least that of decodes; their target is the part of it that they show by
 * themselves. In a batch of both, decode attention counts as decodes do, by its share of the time,
 * the rest as a prompt of all its tokens.
 *
 * Prompts were measured rested, sustained and behind long ones, whole; the time at held 0 is what
 * makes a prompt after rest take its rested time; the tables hold their operators at a clock that
 * nobody knows. So the factors on a prediction are ratios of these times to what the tables say of
 * the same prompt. Docs: docs/methodology.md. */
#ifndef PROFILE_READ_POWER_CAP_H
#define PROFILE_READ_POWER_CAP_H

#include "profile/read/curve.h"
#include "profile/read/meta.h"

struct power_cap {
    double smoothing_s, control_s;
    double decode_below, rest_below;        /* -T of decodes and of rest; above 0 */
    double decode_ratio;                    /* decodes at held 1 over the same at 0 */
    struct curve rested, sustained, target; /* of prompts, over log2 of tokens */
};

/* NULL in *out: `said` has no power cap that holds the clock. table_s: [n_rows], what the tables
 * say of a prompt of each row's tokens; rows far above that wait for launches, and do not count.
 * ST_INPUT at the place in `map`, power_cap of the meta. */
enum st power_cap_make(struct arena *a, const struct node *map, const struct bundle_power_cap *said,
                       const double *table_s, const struct power_cap **out, struct err *e);

/* Of a batch: factors on what the tables say of it, at held 0 and 1, and its target. */
struct power_cap_factors {
    double rested, sustained, target;
};
/* Outside the measured sizes as at the nearest. */
struct power_cap_batch {
    int64_t tokens;      /* all of them */
    bool chunks;         /* it has prefill chunks */
    double decode_share; /* with chunks: of its operators' time, decode attention */
};
struct power_cap_factors power_cap_factors(const struct power_cap *c,
                                           const struct power_cap_batch *b);

struct power_cap_state {
    double held, excess;
};
struct power_cap_state power_cap_rested(const struct power_cap *c);
/* Moves *s over so many seconds of work with that target; their mean of held. */
double power_cap_move(const struct power_cap *c, double target, double seconds,
                      struct power_cap_state *s);
/* Moves *s over rest. */
void power_cap_rest(const struct power_cap *c, double seconds, struct power_cap_state *s);
/* Factor on what the tables say of a batch that takes so many seconds and begins at *s, which moves
 * to its end. */
double power_cap_over(const struct power_cap *c, const struct power_cap_factors *f, double seconds,
                      struct power_cap_state *s);
/* Seconds of a batch that begins at *s, which moves to its end: operators_s by the tables, and
 * other_s that depend on no clock. */
double power_cap_run(const struct power_cap *c, const struct power_cap_factors *f,
                     double operators_s, double other_s, struct power_cap_state *s);

#endif
