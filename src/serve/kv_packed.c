/* DeepSeek V4's caches as vLLM 0.33 keeps them with FlashMLA's kernels, its choice but on consumer
 * Blackwell (vllm/models/deepseek_v4: attention.py, compressor.py; v1/attention/backends/mla/
 * sparse_swa.py), in FP8 whatever the model's format is: an entry is 448 bytes in FP8, the rotated
 * part of 64 in 16 bits and 8 of scales. Blocks have sizes of their own: 256 tokens of compressed
 * entries, 64 of the window. What entries are made from is kept as well, in float32: of the tokens
 * that the next entry needs, in blocks of 4 or 8.
 *
 * Pages differ, so they stand side by side in a block (v1/core/kv_cache_planning.py,
 * _get_packed_kv_cache_groups):
 *
 *   1. Specs with as long blocks and as long a use make a bucket, in the order of their first.
 *   2. A bucket with as many layers of each page size repeats a pattern. The bucket that mixes
 *      sizes and repeats most says how often a group repeats it at least; of the numbers from there
 *      on that one counts which pads least.
 *   3. Buckets that repeat are dealt out over as many groups as that makes; others stay whole. */
#include <string.h>

#include "serve/kv_spec.h"

enum {
    BLOCK_TOKENS = 256,
    WINDOW_BLOCK = 64,
    ALIGNMENT = 576,
};

static int64_t divided_up(int64_t n, int64_t parts)
{
    return (n + parts - 1) / parts;
}

/* ---- specs ----------------------------------------------------------------------------------- */

static const struct cache *shared_entries(const struct attention *t)
{
    for (int32_t i = 0; i < t->n_caches; i++)
        if (t->caches[i].ratio > 1)
            return &t->caches[i];
    return NULL;
}

bool kv_is_compressed(const struct attention *t)
{
    /* keys are values too */
    return shared_entries(t) || (t->n_caches == 1 && t->caches[0].whole && t->caches[0].window &&
                                 t->k_dim == t->v_dim && t->caches[0].elements == t->k_dim);
}

static void add_list(struct kv_maker *m, int64_t layer, int64_t block, int64_t window,
                     int64_t bytes, int64_t ratio)
{
    struct kv_spec *s = kv_entry_add(m, layer);
    const int64_t page = block / ratio * bytes;
    s->kind = window ? KV_WINDOW : KV_FULL;
    s->latent = 1;
    s->block_size = block;
    s->span = window;
    s->bytes = bytes;
    s->ratio = ratio;
    s->padded = divided_up(page, ALIGNMENT) * ALIGNMENT;
}

/* Sums and weights of the tokens of an entry, and of the one before where they overlap. */
static void add_sums(struct kv_maker *m, int64_t layer, int64_t dim, int64_t ratio)
{
    const bool overlaps = ratio == 4;
    add_list(m, layer, overlaps ? 4 : 8, (1 + overlaps) * ratio,
             2 * (1 + overlaps) * dim * (int64_t)sizeof(float), 1);
}

bool kv_add_compressed(struct kv_maker *m, const struct attention *t, int64_t layer)
{
    const struct cache *entries = shared_entries(t);
    const int64_t ratio = entries ? entries->ratio : 1, bytes = t->caches[0].packed_fp8;
    if (!bytes || !t->caches[0].window || (entries && ratio != 4 && ratio != 128))
        return false;
    if (attention_index_cache(t) >= 0) {
        const int64_t key = t->caches[attention_index_cache(t)].bytes;
        add_list(m, layer, BLOCK_TOKENS, 0, key, ratio);
        add_sums(m, layer, key - (int64_t)sizeof(float), ratio);
    }
    add_list(m, layer, WINDOW_BLOCK, t->caches[0].window, bytes, 1);
    if (!entries)
        return true;
    add_list(m, layer, BLOCK_TOKENS, 0, bytes, ratio);
    add_sums(m, layer, entries->elements, ratio);
    return true;
}

/* ---- groups ---------------------------------------------------------------------------------- */

enum { BUCKETS = 8, SIZES = 8 };
struct bucket {
    struct kv_spec first;
    int64_t page[SIZES], layers[SIZES];
    int32_t n;             /* page sizes */
    int32_t group, groups; /* the first of its groups */
};

static bool together(const struct kv_spec *a, const struct kv_spec *b)
{
    return a->kind == b->kind && a->block_size == b->block_size && a->span == b->span;
}

static int32_t size_of(const struct bucket *b, int64_t page)
{
    for (int32_t i = 0; i < b->n; i++)
        if (b->page[i] == page)
            return i;
    return b->n;
}

static bool count(struct bucket *b, int64_t page)
{
    const int32_t i = size_of(b, page);
    if (i == SIZES)
        return false;
    if (i == b->n)
        b->page[b->n++] = page;
    b->layers[i]++;
    return true;
}

static int32_t bucket_of(const struct bucket *all, int32_t n, const struct kv_spec *s)
{
    for (int32_t i = 0; i < n; i++)
        if (together(&all[i].first, s))
            return i;
    return n;
}

/* -1: more than there is room for. */
static int32_t fill(const struct kv_maker *m, struct bucket *all)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->n; i++) {
        const struct kv_spec *s = &m->entries[i].spec;
        const int32_t k = bucket_of(all, n, s);
        if (k == BUCKETS)
            return -1;
        if (k == n)
            all[n++].first = *s;
        if (!count(&all[k], kv_spec_page(m, s)))
            return -1;
    }
    return n;
}

static int64_t most_layers(const struct bucket *b)
{
    int64_t most = 0;
    for (int32_t i = 0; i < b->n; i++)
        most = b->layers[i] > most ? b->layers[i] : most;
    return most;
}

static bool repeats(const struct bucket *b)
{
    for (int32_t i = 1; i < b->n; i++)
        if (b->layers[i] != b->layers[0])
            return false;
    return true;
}

/* Of the numbers from `least` on the one that pads the buckets' layers least; of equals the larger.
 */
static int64_t repeats_of_group(const struct bucket *all, int32_t n, int64_t least)
{
    int64_t best = least, least_pad = INT64_MAX, most = least;
    for (int32_t i = 0; i < n; i++)
        if (repeats(&all[i]) && most_layers(&all[i]) > most)
            most = most_layers(&all[i]);
    for (int64_t d = least; d <= most; d++) {
        int64_t pad = 0;
        for (int32_t i = 0; i < n; i++)
            if (repeats(&all[i]))
                pad += divided_up(most_layers(&all[i]), d) * d - most_layers(&all[i]);
        if (pad > least_pad)
            continue;
        least_pad = pad;
        best = d;
    }
    return best;
}

static int64_t all_layers(const struct bucket *b)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < b->n; i++)
        sum += b->layers[i];
    return sum;
}

/* Bytes of a block of the largest of so many groups. */
static int64_t widest(const struct bucket *b, int64_t groups)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < b->n; i++)
        bytes += divided_up(b->layers[i], groups) * b->page[i];
    return bytes;
}

/* Where no bucket repeats a pattern: windows may not widen the block that full layers need. */
static void deal_windows(const struct kv_maker *m, struct bucket *all, int32_t n)
{
    int64_t block = 0;
    for (int32_t i = 0; i < n; i++) {
        const int64_t bytes =
            widest(&all[i], all[i].first.kind == KV_WINDOW ? all_layers(&all[i]) : 1);
        block = bytes > block ? bytes : block;
    }
    for (int32_t i = 0; i < n; i++) {
        const int64_t fit = block / kv_spec_page(m, &all[i].first);
        if (all[i].first.kind == KV_WINDOW)
            all[i].groups = (int32_t)divided_up(all_layers(&all[i]), fit > 1 ? fit : 1);
    }
}

static void deal(const struct kv_maker *m, struct bucket *all, int32_t n)
{
    int64_t least = 0;
    for (int32_t i = 0; i < n; i++)
        if (all[i].n > 1 && repeats(&all[i]) && most_layers(&all[i]) > least)
            least = most_layers(&all[i]);
    const int64_t each = least ? repeats_of_group(all, n, least) : 0;
    for (int32_t i = 0; i < n; i++)
        all[i].groups =
            each && repeats(&all[i]) ? (int32_t)divided_up(most_layers(&all[i]), each) : 1;
    if (!each)
        deal_windows(m, all, n);
    for (int32_t i = 0, group = 0; i < n; group += all[i++].groups)
        all[i].group = group;
}

bool kv_pack(const struct kv_maker *m, struct kv_groups *out)
{
    struct bucket all[BUCKETS] = {0};
    int32_t seen[BUCKETS][SIZES] = {{0}};
    const int32_t n = fill(m, all);
    if (n < 0)
        return false;
    deal(m, all, n);
    out->n = all[n - 1].group + all[n - 1].groups;
    if (out->n > KV_GROUPS_MOST)
        return false;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < all[i].groups; k++) {
            out->g[all[i].group + k] = kv_spec_group(m, &all[i].first);
            out->g[all[i].group + k].spec = i;
        }
    for (int32_t i = 0; i < m->n; i++) {
        const struct kv_spec *s = &m->entries[i].spec;
        const int32_t at = bucket_of(all, n, s), size = size_of(&all[at], kv_spec_page(m, s));
        kv_groups_add(m, out, &m->entries[i], all[at].group + seen[at][size]++ % all[at].groups);
    }
    return true;
}
