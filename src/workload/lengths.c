#include <math.h>
#include <string.h>

#include "workload/make.h"

enum { MAX_TOKENS = INT32_MAX };

static enum st need_range(const char *key, int64_t v, int64_t min, struct err *e)
{
    return v >= min && v <= MAX_TOKENS
               ? ST_OK
               : err_set(e, ST_USAGE, "workload.lengths.%s must be %lld to %d, got %lld", key,
                         (long long)min, MAX_TOKENS, (long long)v);
}

/* decode = ceil(total / (1 + ratio)), prefill the rest rounded down, both at least 1. */
static void split_total(double total, double ratio, struct workload_request *r)
{
    double decode = ceil(total / (1 + ratio));
    double prefill = floor(total - decode);
    r->num_decode_tokens = decode < 1 ? 1 : (int64_t)decode;
    r->num_prefill_tokens = prefill < 1 ? 1 : (int64_t)prefill;
}

static enum st check_totals(const struct workload_params *p, struct err *e)
{
    TRY(need_range("min_tokens", p->min_tokens, 1, e));
    TRY(need_range("max_tokens", p->max_tokens, p->min_tokens, e));
    if (!(p->prefill_decode_ratio >= 0) || !isfinite(p->prefill_decode_ratio))
        return err_set(e, ST_USAGE,
                       "workload.lengths.prefill_decode_ratio must not be negative, got %g",
                       p->prefill_decode_ratio);
    return ST_OK;
}

/* ---- zipf: small terms of zeta first: less rounding ---------------------------------------- */

static double power(double x, double y) /* x > 0; exp and log are all that base/rng relies on */
{
    return exp(y * log(x));
}

static struct zipf zipf_init(int64_t items, double theta)
{
    struct zipf z = {.items = (double)items, .theta = theta, .alpha = 1 / (1 - theta)};
    for (int64_t i = items; i >= 1; i--)
        z.zeta += power((double)i, -theta);
    double zeta2 = 1 + power(2, -theta);
    z.eta = items > 2 ? (1 - power(2 / z.items, 1 - theta)) / (1 - zeta2 / z.zeta) : 0;
    return z;
}

/* Rank 0 .. items - 1, 0 the most frequent. */
static double zipf_next(const struct zipf *z, struct rng *rng)
{
    double u = rng_unit(rng), uz = u * z->zeta;
    if (uz < 1)
        return 0;
    if (uz < 1 + power(0.5, z->theta) || z->items <= 2)
        return 1;
    double rank = floor(z->items * power(z->eta * u - z->eta + 1, z->alpha));
    return rank < z->items - 1 ? rank : z->items - 1;
}

/* ---- mean and standard deviation ----------------------------------------------------------- */

static enum st check_moments(const struct workload_params *p, struct err *e)
{
    const struct {
        const char *key;
        double v;
    } rows[] = {{"prefill_stddev", p->prefill_stddev}, {"decode_stddev", p->decode_stddev}};
    TRY(need_range("prefill_tokens", p->prefill_tokens, 1, e));
    TRY(need_range("decode_tokens", p->decode_tokens, 1, e));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(rows[i].v >= 0) || !isfinite(rows[i].v))
            return err_set(e, ST_USAGE, "workload.lengths.%s must not be negative, got %g",
                           rows[i].key, rows[i].v);
    return ST_OK;
}

static int64_t whole(double tokens)
{
    return tokens < 1 ? 1 : tokens > MAX_TOKENS ? MAX_TOKENS : llround(tokens);
}

/* The mean is at least 1, so that more than half of the draws are above 1/2. */
static int64_t draw_normal(struct rng *rng, double mean, double stddev)
{
    double x;
    do
        x = mean + stddev * rng_normal(rng);
    while (x < 0.5);
    return whole(x);
}

static int64_t draw_lognormal(struct rng *rng, double mean, double stddev)
{
    double variance = log(1 + stddev * stddev / (mean * mean));
    return whole(exp(log(mean) - variance / 2 + sqrt(variance) * rng_normal(rng)));
}

/* ---- the kinds ---------------------------------------------------------------------------- */

static enum st begin_zipf(const struct workload_params *p, struct lengths *g, struct err *e)
{
    enum { MAX_ITEMS = 10000000 };
    TRY(check_totals(p, e));
    if (!(p->zipf_theta > 0 && p->zipf_theta < 1))
        return err_set(e, ST_USAGE,
                       "workload.lengths.zipf_theta must be above 0 and below 1, got %g",
                       p->zipf_theta);
    int64_t items = p->max_tokens - p->min_tokens + 1;
    if (items > MAX_ITEMS)
        return err_set(e, ST_USAGE,
                       "workload.lengths: zipf over %lld lengths; at most %d are supported",
                       (long long)items, MAX_ITEMS);
    g->zipf = zipf_init(items, p->zipf_theta);
    return ST_OK;
}

static enum st begin_prompts(struct arena *a, const struct workload_params *p, int64_t n,
                             struct lengths *g, struct err *e)
{
    TRY(need_range("decode_tokens", p->decode_tokens, 1, e));
    if (p->n_prompts == 0)
        return err_set(e, ST_USAGE, "workload.lengths.kind=tokenizer needs workload.prompts");
    size_t used = p->n_prompts < (size_t)n ? p->n_prompts : (size_t)n;
    int64_t *counts = arena_array(a, int64_t, used);
    for (size_t i = 0; i < used && !p->tokenizer; i++)
        counts[i] =
            ((int64_t)strlen(p->prompts[i].text) + WORKLOAD_TOKEN_BYTES - 1) / WORKLOAD_TOKEN_BYTES;
    if (p->tokenizer)
        TRY(workload_count_tokens(a, p->tokenizer, p->prompts, used, &counts, e));
    g->prompt_tokens = counts;
    return ST_OK;
}

enum st lengths_begin(struct arena *a, const struct workload_params *p, int64_t n,
                      struct lengths *out, struct err *e)
{
    *out = (struct lengths){.p = p, .rng = rng_stream(p->seed, "workload.lengths")};
    switch ((enum workload_lengths)p->lengths_kind) {
    case LENGTHS_TOKENIZER:
        return begin_prompts(a, p, n, out, e);
    case LENGTHS_FIXED:
        TRY(need_range("prefill_tokens", p->prefill_tokens, 1, e));
        return need_range("decode_tokens", p->decode_tokens, 1, e);
    case LENGTHS_UNIFORM:
        return check_totals(p, e);
    case LENGTHS_ZIPF:
        return begin_zipf(p, out, e);
    case LENGTHS_TRACE:
        return workload_trace_open(p->lengths_trace, false, true, &out->trace, e);
    case LENGTHS_NORMAL:
    case LENGTHS_LOGNORMAL:
        return check_moments(p, e);
    }
    return ST_OK;
}

enum st lengths_next(struct lengths *g, struct workload_request *r, struct err *e)
{
    const struct workload_params *p = g->p;
    double least = (double)p->min_tokens, span = (double)(p->max_tokens - p->min_tokens);
    struct trace_row row;
    switch ((enum workload_lengths)p->lengths_kind) {
    case LENGTHS_TOKENIZER:
        r->num_prefill_tokens = g->prompt_tokens[(uint64_t)g->i % p->n_prompts];
        r->num_decode_tokens = p->decode_tokens;
        break;
    case LENGTHS_FIXED:
        r->num_prefill_tokens = p->prefill_tokens;
        r->num_decode_tokens = p->decode_tokens;
        break;
    case LENGTHS_UNIFORM:
        split_total(least + span * rng_unit(&g->rng), p->prefill_decode_ratio, r);
        break;
    case LENGTHS_ZIPF:
        split_total(least + zipf_next(&g->zipf, &g->rng), p->prefill_decode_ratio, r);
        break;
    case LENGTHS_TRACE:
        TRY(workload_trace_next(&g->trace, &row, e));
        r->num_prefill_tokens = row.prefill;
        r->num_decode_tokens = row.decode;
        break;
    case LENGTHS_NORMAL:
    case LENGTHS_LOGNORMAL: {
        int64_t (*draw)(struct rng *, double, double) =
            p->lengths_kind == LENGTHS_NORMAL ? draw_normal : draw_lognormal;
        r->num_prefill_tokens = draw(&g->rng, (double)p->prefill_tokens, p->prefill_stddev);
        r->num_decode_tokens = draw(&g->rng, (double)p->decode_tokens, p->decode_stddev);
        break;
    }
    }
    g->i++;
    return ST_OK;
}

void lengths_end(struct lengths *g)
{
    workload_trace_close(&g->trace);
}
