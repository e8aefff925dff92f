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

/* An expert is read and computed in part at a time, which takes ||reading, computing||. The
 * exponent is that of 2,048 tokens of Qwen3-30B-A3B on an H100 in 128 prompts, which read all
 * experts: 0.90 ms a layer, of 0.43 for reading and 0.70 for computing. */
static const double OVERLAP = 1.5;

static double both_s(double reading_s, double computing_s)
{
    return pow(pow(reading_s, OVERLAP) + pow(computing_s, OVERLAP), 1 / OVERLAP);
}

static double reading_of(double all_s, double computing_s)
{
    return pow(fmax(pow(all_s, OVERLAP) - pow(computing_s, OVERLAP), 0), 1 / OVERLAP);
}

/* Computing is what a token more takes of a long prompt, which reads no more than one of half its
 * length. The decode of the most rows reads nearly all experts: as many as model_experts_hit. */
void experts_tell_costs(struct bundle *b)
{
    b->expert_costs = (struct expert_costs){0};
    if (b->experts.n == 0 || b->decode_experts.n == 0)
        return;
    const struct model *m = &b->expert_model;
    const double rows = most_of(&b->decode_experts), longest = most_of(&b->experts);
    const double read = model_experts_hit(m, rows) / (double)m->experts;
    const double more_s = sum_s(&b->experts, longest) - sum_s(&b->experts, longest / 2);
    const double token_s = fmax(more_s, 0) / (longest / 2);
    const double reading_s = reading_of(sum_s(&b->decode_experts, rows), token_s * rows) / read;
    b->expert_costs = (struct expert_costs){.reading_s = reading_s, .token_s = token_s};
}

double predict_experts_unread(const struct bundle *b, int64_t tokens, bool decodes)
{
    const struct expert_costs c = b->expert_costs;
    if (!(c.reading_s > 0) || tokens <= 0)
        return 1;
    const double s = sum_s(decodes ? &b->decode_experts : &b->experts, (double)tokens);
    return fmax(1 - reading_of(s, c.token_s * (double)tokens) / c.reading_s, 0);
}

/* Some experts have tokens of prompts alone, some of decodes alone, some of both: as many as are
 * read, if prompts and decodes choose each for itself. */
double predict_experts_more_s(const struct bundle *b, const struct experts_part *prompts,
                              const struct experts_part *decodes)
{
    const struct expert_costs c = b->expert_costs;
    if (!(c.reading_s > 0))
        return 0;
    const double p = 1 - prompts->unread, d = 1 - decodes->unread;
    const double prompts_s = c.token_s * (double)prompts->tokens,
                 decodes_s = c.token_s * (double)decodes->tokens;
    double all_s =
        (1 - d) * both_s(p * c.reading_s, prompts_s) + (1 - p) * both_s(d * c.reading_s, decodes_s);
    if (d > 0)
        all_s += d * both_s(p * c.reading_s, prompts_s + p / d * decodes_s);
    return fmax(all_s - predict_experts_s(b, prompts->tokens + decodes->tokens), 0);
}
