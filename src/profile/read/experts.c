#include <math.h>

#include "profile/read/read.h"

static double sum_s(const struct curve_sum *sum, double tokens)
{
    double s = 0;
    bool outside = false; /* counted once, with the sum over all operators */
    for (int i = 0; tokens > 0 && i < sum->n; i++)
        s += curve_scaled_at(&sum->curve[i], tokens, &outside);
    return s;
}

static double most_of(const struct curve_sum *sum)
{
    const struct grid *g = sum->curve[0].grid;
    return g->x[g->n - 1];
}

double predict_experts_s(const struct bundle *b, int64_t tokens)
{
    return sum_s(&b->experts, (double)tokens);
}

double predict_experts_part_s(const struct bundle *b, int64_t tokens, double pairs,
                              double experts_hit, double shards)
{
    const double *f = b->experts_fit, t = (double)tokens;
    const struct model *m = &b->expert_model;
    if (tokens <= 0 || m->experts == 0)
        return 0;
    const double whole = f[0] + f[1] * model_experts_hit(m, t) + f[2] * t;
    const double part =
        f[0] + shards * (f[1] * experts_hit + f[2] * pairs / (double)m->experts_per_token);
    return whole > 0 ? predict_experts_s(b, tokens) * part / whole : 0;
}

/* ---- prompts and decodes of a batch choose experts each for itself --------------------------- */

/* Of all layers. Tokens that read a part of the experts take hypot(part reading_s, tokens token_s).
 */
struct costs {
    double reading_s, token_s; /* all experts, once; computing a token */
};

static bool tells_costs(const struct bundle *b)
{
    return b->experts.n > 0 && b->decode_experts.n > 0;
}

/* The decode of the most rows reads nearly all experts: as many as model_experts_hit. */
static struct costs costs_of(const struct bundle *b)
{
    const struct model *m = &b->expert_model;
    const double rows = most_of(&b->decode_experts), longest = most_of(&b->experts);
    const double read = model_experts_hit(m, rows) / (double)m->experts;
    return (struct costs){.reading_s = sum_s(&b->decode_experts, rows) / read,
                          .token_s = sum_s(&b->experts, longest) / longest};
}

double predict_experts_unread(const struct bundle *b, int64_t tokens, bool decodes)
{
    if (!tells_costs(b) || tokens <= 0)
        return 1;
    const struct costs c = costs_of(b);
    const double s = sum_s(decodes ? &b->decode_experts : &b->experts, (double)tokens);
    const double computing = decodes ? 0 : c.token_s * (double)tokens;
    return fmax(1 - sqrt(fmax(s * s - computing * computing, 0)) / c.reading_s, 0);
}

double predict_experts_more_s(const struct bundle *b, double unread, int64_t tokens)
{
    if (!tells_costs(b))
        return 0;
    const struct costs c = costs_of(b);
    const double all = hypot((1 - unread) * c.reading_s, c.token_s * (double)tokens);
    return fmax(all - predict_experts_s(b, tokens), 0);
}
