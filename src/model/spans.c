#include "model/spans.h"

static bool is_all(const struct key_span *s)
{
    return s->unit == 1 && ((s->most == 0 && s->chunk == 0) || s->most >= SPAN_TOKENS_MOST ||
                            s->chunk >= SPAN_TOKENS_MOST);
}

static int32_t number_of(const struct key_spans *l, const struct key_span *s)
{
    if (is_all(s))
        return SPAN_ALL;
    for (int32_t i = 0; i < l->n; i++)
        if (l->of[i].unit == s->unit && l->of[i].most == s->most && l->of[i].chunk == s->chunk &&
            l->of[i].chosen == s->chosen)
            return i + 1;
    return -1;
}

/* ---- of an attention ------------------------------------------------------------------------- */

/* What queries see of a list of its cache. An index chooses among entries, or, where there are
 * none, among tokens. */
static struct key_span seen_of(const struct attention *t, const struct cache *c)
{
    const int64_t window = c->window ? c->window : t->window;
    if (t->type == ATTENTION_CHUNKED)
        return (struct key_span){.unit = 1, .chunk = window};
    if (window)
        return (struct key_span){.unit = 1, .most = window};
    const bool bound = t->top_k > 0 && t->top_k * c->ratio < SPAN_TOKENS_MOST;
    return (struct key_span){.unit = c->ratio, .most = bound ? t->top_k : 0, .chosen = bound};
}

/* Up to one for each list that is attended to. */
static int32_t attended(const struct attention *t, struct key_span out[ATTENTION_CACHES])
{
    const struct cache other = {.ratio = 1, .window = t->window};
    int32_t n = 0;
    if (t->shared_cache)
        out[n++] = seen_of(t, &other);
    for (int32_t i = 0; i < t->n_caches; i++)
        if (i != attention_index_cache(t))
            out[n++] = seen_of(t, &t->caches[i]);
    return n;
}

/* An index reads the keys of all that it chooses from. */
static int32_t indexed(const struct attention *t, struct key_span *out)
{
    const int32_t i = attention_index_cache(t);
    if (i < 0)
        return 0;
    *out = (struct key_span){.unit = t->caches[i].ratio};
    return 1;
}

static bool add_spans(struct key_spans *l, const struct key_span *s, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (number_of(l, &s[i]) >= 0)
            continue;
        if (l->n == SPANS_MOST)
            return false;
        l->of[l->n++] = s[i];
    }
    return true;
}

bool key_spans_of(const struct structure *s, struct key_spans *out)
{
    struct key_span found[ATTENTION_CACHES];
    *out = (struct key_spans){0};
    for (int32_t i = 0; i < s->n_attentions; i++) {
        if (!add_spans(out, found, attended(&s->attention[i], found)))
            return false;
        if (!add_spans(out, found, indexed(&s->attention[i], found)))
            return false;
    }
    return true;
}

static uint32_t set_of(const struct key_spans *l, const struct key_span *s, int32_t n)
{
    uint32_t set = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t number = number_of(l, &s[i]);
        set |= number < 0 ? 0 : UINT32_C(1) << number;
    }
    return set;
}

uint32_t spans_attended(const struct key_spans *l, const struct attention *t)
{
    struct key_span found[ATTENTION_CACHES];
    return set_of(l, found, attended(t, found));
}

uint32_t spans_indexed(const struct key_spans *l, const struct attention *t)
{
    struct key_span found;
    return set_of(l, &found, indexed(t, &found));
}

/* ---- counts ---------------------------------------------------------------------------------- */

int64_t span_seen(const struct key_span *s, int64_t v)
{
    if (s->chunk)
        return v > 0 ? (v - 1) % s->chunk + 1 : 0;
    const int64_t entries = v / s->unit;
    return s->most && entries > s->most ? s->most : entries;
}

int64_t span_period(const struct key_span *s)
{
    return s->chunk ? s->chunk : s->most * s->unit;
}

typedef __int128 wide; /* squares of absurd prompts */

/* Sum of span_seen(v) for v = 1 .. n. */
static wide seen_up_to(const struct key_span *s, int64_t n)
{
    if (s->chunk) {
        const wide c = s->chunk, whole = n / s->chunk, rest = n % s->chunk;
        return whole * (c * (c + 1) / 2) + rest * (rest + 1) / 2;
    }
    const int64_t end = s->most * s->unit, grown = end && n > end ? end : n;
    const wide entries = grown / s->unit, rest = grown % s->unit;
    return s->unit * (entries * (entries - 1) / 2) + entries * (rest + 1) +
           (wide)(n - grown) * s->most;
}

struct span_chunk span_chunk(const struct key_span *s, int64_t before, int64_t tokens)
{
    const wide sum = seen_up_to(s, before + tokens) - seen_up_to(s, before);
    struct span_chunk out = {.pairs = sum > INT64_MAX ? INT64_MAX : (int64_t)sum};
    if (s->chunk)
        out.keys = before % s->chunk + tokens;
    else if (s->chosen || s->unit > 1 || !s->most)
        out.keys = (before + tokens) / s->unit;
    else
        out.keys = (before < s->most ? before : s->most - 1) + tokens;
    if (out.keys > out.pairs)
        out.keys = out.pairs;
    return out;
}
