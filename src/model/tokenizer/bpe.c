#include "model/tokenizer/bpe.h"

#include <string.h>

#include "base/heap.h"
#include "model/tokenizer/utf8.h"

enum { SCAN_MAX = 48 }; /* symbols up to which scanning beats a heap */

struct bpe_symbol {
    int32_t id; /* -1 = joined into its left neighbour */
    int32_t prev, next;
};

/* "The pair at `at` and its right neighbour has this rank and becomes id": true as long as the ids
 * there still give that result. */
struct bpe_candidate {
    uint32_t rank;
    int32_t at;
    int32_t id;
};

void bpe_scratch_free(struct bpe_scratch *s)
{
    vec_free(&s->ids);
    vec_free(&s->symbols);
    vec_free(&s->chain);
    vec_free(&s->heap);
}

/* ---- merges: an open-addressed table of id pairs --------------------------------------------- */

static uint64_t slot_of(const struct bpe *b, uint64_t pair)
{
    uint64_t h = pair * UINT64_C(0x9e3779b97f4a7c15);
    return (h ^ h >> 32) & b->slot_mask;
}

void bpe_merges_init(struct bpe *b, struct arena *a, size_t n)
{
    size_t slots = 16;
    while (slots < n * 2)
        slots *= 2;
    b->slots = arena_array(a, struct bpe_merge, slots);
    b->slot_mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        b->slots[i].rank = UINT32_MAX;
}

void bpe_merges_put(struct bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t i = slot_of(b, pair);
    while (b->slots[i].rank != UINT32_MAX && b->slots[i].pair != pair)
        i = (i + 1) & b->slot_mask;
    b->slots[i] = (struct bpe_merge){pair, rank, (uint32_t)id};
}

static const struct bpe_merge no_merge = {.rank = UINT32_MAX};

static const struct bpe_merge *find_merge(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint64_t i = slot_of(b, pair);; i = (i + 1) & b->slot_mask) {
        const struct bpe_merge *m = &b->slots[i];
        if (m->rank == UINT32_MAX)
            return &no_merge;
        if (m->pair == pair)
            return m;
    }
}

/* ---- a piece as its first symbols ------------------------------------------------------------ */

static bool add_fallback(const struct bpe *b, struct bpe_scratch *s, const char *p, size_t n)
{
    if (!b->byte_fallback)
        return false;
    for (size_t i = 0; i < n; i++)
        if (b->fallback[(unsigned char)p[i]] < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        vec_push(&s->symbols, b->fallback[(unsigned char)p[i]]);
    return true;
}

static int32_t find_character(const struct bpe *b, const char *p, size_t n)
{
    if (n == 1)
        return b->first[(unsigned char)*p];
    const struct map_entry *m = map_find(&b->vocab, p, n);
    return m ? (int32_t)m->i : -1;
}

/* An unk is held back until the next known character, so that a run can be fused; byte tokens do
 * not release it. The `tokenizers` library has the same order. */
static void cut(const struct bpe *b, struct bpe_scratch *s, struct sv piece)
{
    bool unk_waits = false;
    vec_clear(&s->symbols);
    for (size_t i = 0, n; i < piece.n; i += n) {
        n = b->byte_level ? 1 : utf8_length(piece.p[i]);
        int32_t id = find_character(b, piece.p + i, n);
        if (id >= 0) {
            if (unk_waits)
                vec_push(&s->symbols, b->unk);
            unk_waits = false;
            vec_push(&s->symbols, id);
        } else if (!add_fallback(b, s, piece.p + i, n) && b->unk >= 0) {
            if (unk_waits && !b->fuse_unk)
                vec_push(&s->symbols, b->unk);
            unk_waits = true;
        }
    }
    if (unk_waits)
        vec_push(&s->symbols, b->unk);
}

/* ---- merging --------------------------------------------------------------------------------- */

static void merge_by_scan(const struct bpe *b, struct bpe_scratch *s)
{
    int32_t *id = s->symbols.p;
    size_t n = s->symbols.n;
    uint32_t rank[SCAN_MAX], joined[SCAN_MAX];
#define LOOK(i)                                                       \
    do {                                                              \
        const struct bpe_merge *m_ = find_merge(b, id[i], id[i + 1]); \
        rank[i] = m_->rank;                                           \
        joined[i] = m_->id;                                           \
    } while (0)
    for (size_t i = 0; i + 1 < n; i++)
        LOOK(i);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == UINT32_MAX)
            break;
        id[best] = (int32_t)joined[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            id[i] = id[i + 1];
            rank[i - 1] = rank[i];
            joined[i - 1] = joined[i];
        }
        if (best + 1 < n)
            LOOK(best);
        if (best > 0)
            LOOK(best - 1);
    }
#undef LOOK
    s->symbols.n = n;
}

static bool before(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static bool candidate_at(const struct bpe *b, const struct bpe_symbol *c, int32_t at,
                         struct bpe_candidate *out)
{
    const struct bpe_merge *m =
        at < 0 || c[at].next < 0 ? &no_merge : find_merge(b, c[at].id, c[c[at].next].id);
    *out = (struct bpe_candidate){m->rank, at, (int32_t)m->id};
    return m->rank != UINT32_MAX;
}

static void merge_by_heap(const struct bpe *b, struct bpe_scratch *s)
{
    size_t n = s->symbols.n;
    struct bpe_candidate c;
    vec_clear(&s->heap);
    vec_clear(&s->chain);
    vec_reserve(&s->chain, n);
    for (size_t i = 0; i < n; i++)
        vec_push(&s->chain, (struct bpe_symbol){s->symbols.p[i], (int32_t)i - 1,
                                                i + 1 < n ? (int32_t)i + 1 : -1});
    struct bpe_symbol *chain = s->chain.p;
    for (size_t i = 0; i < n; i++)
        if (candidate_at(b, chain, (int32_t)i, &c))
            vec_push(&s->heap, c);
    heap_make(&s->heap, before);
    while (s->heap.n > 0) {
        struct bpe_candidate top;
        heap_pop(&s->heap, before, &top);
        if (chain[top.at].id < 0 || !candidate_at(b, chain, top.at, &c) || c.id != top.id)
            continue;
        struct bpe_symbol *left = &chain[top.at], *right = &chain[left->next];
        left->id = top.id;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0)
            chain[left->next].prev = top.at;
        if (candidate_at(b, chain, left->prev, &c))
            heap_push(&s->heap, before, c);
        if (candidate_at(b, chain, top.at, &c))
            heap_push(&s->heap, before, c);
    }
    vec_clear(&s->symbols);
    for (size_t i = 0; i < n; i++)
        if (chain[i].id >= 0)
            vec_push(&s->symbols, chain[i].id);
}

static void encode_word(const struct bpe *b, struct bpe_scratch *s, struct sv word)
{
    cut(b, s, word);
    if (s->symbols.n > SCAN_MAX)
        merge_by_heap(b, s);
    else
        merge_by_scan(b, s);
    vec_reserve(&s->ids, s->ids.n + s->symbols.n);
    for (size_t i = 0; i < s->symbols.n; i++)
        vec_push(&s->ids, s->symbols.p[i]);
}

/* The length of the first word: up to the next U+2581 that follows another character. */
static size_t word_length(struct sv text)
{
    bool space = true; /* the character before is U+2581 */
    for (size_t i = 0; i < text.n;) {
        bool is_space = text.n - i >= 3 && memcmp(text.p + i, "\xe2\x96\x81", 3) == 0;
        if (is_space && !space)
            return i;
        space = is_space;
        i += is_space ? 3 : 1;
    }
    return text.n;
}

void bpe_encode(const struct bpe *b, struct bpe_scratch *s, struct sv piece)
{
    const struct map_entry *whole = b->ignore_merges ? map_find(&b->words, piece.p, piece.n) : NULL;
    if (whole) {
        vec_push(&s->ids, (int32_t)whole->i);
        return;
    }
    while (b->cut_at_space && piece.n > 0) {
        size_t n = word_length(piece);
        encode_word(b, s, (struct sv){piece.p, n});
        piece = (struct sv){piece.p + n, piece.n - n};
    }
    if (piece.n > 0)
        encode_word(b, s, piece);
}
