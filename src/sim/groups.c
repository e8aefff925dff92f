#include "sim/groups.h"

#include <string.h>

struct groups groups_new(struct arena *a, int64_t n, struct key_spans spans)
{
    return (struct groups){.n = n,
                           .spans = spans,
                           .sequences = arena_array(a, int64_t, n),
                           .tokens = arena_array(a, int64_t, n),
                           .pairs = arena_array(a, double, n)};
}

void groups_begin(struct groups *g)
{
    memset(g->sequences, 0, (size_t)g->n * sizeof *g->sequences);
    memset(g->tokens, 0, (size_t)g->n * sizeof *g->tokens);
    for (int64_t i = 0; i < g->n; i++)
        g->pairs[i] = 0;
}

int64_t groups_deal(struct groups *g, const struct chunk *c)
{
    int64_t at = 0;
    for (int64_t i = 1; i < g->n; i++)
        if (g->sequences[i] < g->sequences[at] ||
            (g->sequences[i] == g->sequences[at] && g->tokens[i] < g->tokens[at]))
            at = i;
    g->sequences[at]++;
    g->tokens[at] += c->tokens;
    g->pairs[at] += (double)c->tokens * ((double)c->start + ((double)c->tokens + 1) / 2);
    return at;
}

static int64_t sequences_of(const struct batch *b)
{
    return (int64_t)b->n_chunks + b->n_decodes;
}

/* Of the keys that they see: what the longest sees, and the mean of the others. */
static void add_spans(const struct key_spans *spans, const struct batch *b, int64_t n,
                      struct op_load *out)
{
    const int64_t longest = b->decode_kv_max + 1 + b->draft_tokens;
    const double rows = b->n_decodes, others = rows > 1 ? ((double)n - 1) / (rows - 1) : 0;
    out->n_spans = spans->n;
    for (int32_t i = 0; i < spans->n; i++) {
        const int64_t all = b->load.spans[i].kv_tokens;
        const int64_t seen =
            b->decode_kv_max > 0 ? span_seen(&spans->of[i], longest) : all / b->n_decodes;
        out->spans[i].kv_tokens += seen + (int64_t)((double)(all - seen) * others + 0.5);
    }
}

/* Decode rows, the longest of all among them. */
static void add_decodes(const struct groups *g, const struct batch *b, int64_t n,
                        struct group_part *out)
{
    if (n <= 0)
        return;
    const double all = (double)b->decode_kv_tokens, rows = b->n_decodes;
    double kv = all / rows * (double)n;
    if (b->decode_kv_max > 0) {
        const double others = rows > 1 ? (all - (double)b->decode_kv_max) / (rows - 1) : 0;
        kv = (double)b->decode_kv_max + others * (double)(n - 1);
    }
    const int64_t tokens = n * (1 + b->draft_tokens);
    out->decodes = n;
    out->decode_kv = (int64_t)(kv + 0.5);
    out->decode_kv_max = b->decode_kv_max;
    out->load.seqs += n;
    out->load.tokens += tokens;
    out->load.rows += tokens;
    out->load.kv_tokens += out->decode_kv + tokens;
    add_spans(&g->spans, b, n, &out->load);
}

/* The part of a group with chunks; most: sequences that a group has. */
static void part_of(struct groups *g, const struct batch *b, int64_t group, int64_t most,
                    struct group_part *out)
{
    *out = (struct group_part){.group = group, .load.n_spans = g->spans.n};
    groups_begin(g);
    for (int32_t i = 0; i < b->n_chunks; i++) {
        const struct chunk *c = &b->chunks[i];
        if (groups_deal(g, c) != group)
            continue;
        out->load.tokens += c->tokens;
        out->load.rows += c->last;
        op_load_add_chunk(&out->load, &g->spans, c->start, c->tokens);
    }
    const int64_t left = most - g->sequences[group];
    add_decodes(g, b, left < b->n_decodes ? left : b->n_decodes, out);
}

int groups_busiest(struct groups *g, const struct batch *b, struct group_part *out)
{
    const int64_t most = (sequences_of(b) + g->n - 1) / g->n;
    int64_t tokens = 0, pairs = 0;
    int n = 0;
    bool decodes = false;
    groups_begin(g);
    for (int32_t i = 0; i < b->n_chunks; i++)
        groups_deal(g, &b->chunks[i]);
    for (int64_t i = 1; i < g->n; i++) {
        tokens = g->tokens[i] > g->tokens[tokens] ? i : tokens;
        pairs = g->pairs[i] > g->pairs[pairs] ? i : pairs;
    }
    if (b->n_chunks > 0)
        part_of(g, b, tokens, most, &out[n++]);
    if (b->n_chunks > 0 && pairs != tokens)
        part_of(g, b, pairs, most, &out[n++]);
    for (int i = 0; i < n; i++)
        decodes = decodes || out[i].decodes > 0;
    if (!decodes) {
        out[n] = (struct group_part){.group = -1, .load.n_spans = g->spans.n};
        add_decodes(g, b, most < b->n_decodes ? most : b->n_decodes, &out[n]);
        n += n == 0 || b->n_decodes > 0;
    }
    return n;
}
