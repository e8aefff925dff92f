/* The power cap of a GPU: a device that computes without pause draws more than its limit allows,
 * and the driver lowers its clock until the draw fits; after some time of lighter work the clock is
 * back. So the time of a batch depends on what ran before it.
 *
 * The state is two numbers, both 0 after rest. `held`, 0 to 1, is how far the clock is down: 1 when
 * prompts that the limit binds have run for long. A batch moves it exponentially towards its
 * target, with one time constant; idle time and decodes towards 0. But a board may draw more than
 * its limit for a while: `spent`, 0 to 1, is how much of that while, delay_s, is over. Work with
 * target T spends (2 T - 1) seconds of it a second, which for T below 1/2 gives back; until it is
 * spent, such work moves held towards 0. While it runs, a batch takes
 *
 *     rested x (1 + slope x (mean of held over the batch))
 *
 * The slope of decodes is measured behind prompts. That of prompts is their own excess, sustained /
 * rested - 1, at target 1: their sustained time is that at their target. Short prompts hold the
 * clock down less than longer ones that went before: their slope is measured behind these where it
 * was, else it is at least that of decodes; their target is the part of it that they show by
 * themselves. In a batch of both, decode attention counts as decodes do, by its share of the time,
 * the rest as a prompt of all its tokens.
 *
 * Prompts were measured rested, sustained and behind long ones, whole; the time at held 0 is what
 * makes a prompt after rest take its rested time; the tables hold their operators at a clock
 * that nobody knows. So the factors on a prediction are ratios of these times to what the tables
 * say of the same prompt. Docs: docs/methodology.md. */
#ifndef PROFILE_READ_POWER_CAP_H
#define PROFILE_READ_POWER_CAP_H

#include "profile/read/curve.h"
#include "profile/read/meta.h"

struct power_cap {
    double time_constant_s, delay_s;
    double decode_ratio;                    /* decodes at held 1 over the same at 0 */
    struct curve rested, sustained, target; /* of prompts, over log2 of tokens */
};

/* NULL in *out: `said` has no power cap that holds the clock. table_s: [n_rows], what the tables
 * say of a prompt of each row's tokens. ST_INPUT at the place in `map`, power_cap of the meta. */
enum st power_cap_make(struct arena *a, const struct node *map, const struct bundle_power_cap *said,
                       const double *table_s, const struct power_cap **out, struct err *e);

/* Of a batch: factors on what the tables say of it, at held 0 and 1, and where it moves held. */
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
    double held, spent;
};
/* Moves *s over so many seconds of work with that target; their mean of held. */
double power_cap_move(const struct power_cap *c, double target, double seconds,
                      struct power_cap_state *s);
/* Factor on what the tables say of a batch that takes so many seconds and begins at *s, which moves
 * to its end. */
double power_cap_over(const struct power_cap *c, const struct power_cap_factors *f, double seconds,
                      struct power_cap_state *s);
/* Seconds of a batch that begins at *s, which moves to its end: operators_s by the tables, and
 * other_s that depend on no clock. */
double power_cap_run(const struct power_cap *c, const struct power_cap_factors *f,
                     double operators_s, double other_s, struct power_cap_state *s);

#endif
