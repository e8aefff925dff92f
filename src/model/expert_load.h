/* Load of the busiest of the devices that share a model's experts.
 *
 * ep devices hold E / ep experts each, whole (model/shard.h); a layer's experts are done when the
 * busiest device is. Each of T tokens goes through k of the E experts. An expert is one of a
 * token's with probability p_e:
 *
 *     skew 0     p_e = k / E
 *     skew s     p_e = 1 - exp(-c e^-s), e = 1 .. E, c so that the sum is k: experts as popular as
 *                words are (Zipf), none chosen twice by a token; which device has which is drawn
 *
 * Pairs (token, expert) of a device: binomial, with the mean T sum p_e and the variance T sum
 * p_e (1 - p_e) of its experts. Devices are taken as independent. They are not, as all pairs
 * together are T k, but for skew 0 the two differences cancel: that sum makes the variance of one
 * smaller by 1 - 1 / ep, and makes devices differ (correlation -1 / (ep - 1)) by as much more. So
 *
 *     pairs = E[max] = sum over x >= 0 of 1 - product over devices of P(pairs of a device <= x)
 *
 * and of that device's experts, those are hit that one of its pairs goes to:
 *
 *     hit = sum over its experts of 1 - (1 - p_e pairs / (T sum p_e))^T
 *
 * which for skew 0 and one device is model_experts_hit. Against drawn routings both are right to
 * 5 %, below 16 tokens to 7 %, and with skew to 6 % (tests/unit/model/expert_load_test.c). */
#ifndef MODEL_EXPERT_LOAD_H
#define MODEL_EXPERT_LOAD_H

#include "base/arena.h"
#include "model/model.h"

enum { EXPERT_LOAD_KNOTS = 48 };

struct expert_load {
    int32_t n;
    double tokens[EXPERT_LOAD_KNOTS];
    double pairs[EXPERT_LOAD_KNOTS]; /* per token */
    double hit[EXPERT_LOAD_KNOTS];
};

/* ep divides the experts; skew >= 0. */
void expert_load_make(const struct model *m, int64_t ep, double skew, struct expert_load *out);

/* For tokens >= 1; linear in the logarithm of the tokens between the knots, powers of sqrt(2);
 * above 2^24 as there. */
struct expert_pairs {
    double pairs, hit;
} expert_load_at(const struct expert_load *l, double tokens);

#endif
