#include "serve/prefix.h"

#include <string.h>

#include "base/hash.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

void prefix_init(struct prefix_cache *c, struct arena *a, int64_t block_size, int64_t num_blocks)
{
    *c = (struct prefix_cache){.block_size = block_size,
                               .blocks = arena_array(a, struct prefix_block, num_blocks),
                               .oldest = 0,
                               .newest = (int32_t)(num_blocks - 1)};
    uint64_t n = 1;
    while (n < (uint64_t)num_blocks)
        n *= 2;
    c->mask = n - 1;
    c->buckets = arena_array(a, int32_t, n);
    for (uint64_t i = 0; i < n; i++)
        c->buckets[i] = -1;
    for (int32_t i = 0; i < num_blocks; i++)
        c->blocks[i] = (struct prefix_block){
            .older = i - 1, .newer = i + 1 < num_blocks ? i + 1 : -1, .same = -1, .same_of = -1};
}

static void queue_leave(struct prefix_cache *c, const struct prefix_block *b)
{
    *(b->older < 0 ? &c->oldest : &c->blocks[b->older].newer) = b->newer;
    *(b->newer < 0 ? &c->newest : &c->blocks[b->newer].older) = b->older;
}

static void forget(struct prefix_cache *c, struct prefix_block *b)
{
    int32_t *before = b->same_of < 0 ? &c->buckets[b->name & c->mask] : &c->blocks[b->same_of].same;
    *before = b->same;
    if (b->same >= 0)
        c->blocks[b->same].same_of = b->same_of;
    b->name = 0;
}

int32_t prefix_take(struct prefix_cache *c)
{
    int32_t id = c->oldest;
    ASSERT(id >= 0);
    struct prefix_block *b = &c->blocks[id];
    queue_leave(c, b);
    c->epoch++;
    b->holders = 1;
    if (b->name) {
        forget(c, b);
        c->evictions++;
    }
    return id;
}

void prefix_forget(struct prefix_cache *c, int64_t n)
{
    c->epoch++;
    for (int32_t id = c->oldest; n > 0; n--, id = c->blocks[id].newer) {
        ASSERT(id >= 0);
        if (!c->blocks[id].name)
            continue;
        forget(c, &c->blocks[id]);
        c->evictions++;
    }
}

bool prefix_hold(struct prefix_cache *c, int32_t block)
{
    struct prefix_block *b = &c->blocks[block];
    c->epoch++;
    if (b->holders++)
        return false;
    queue_leave(c, b);
    return true;
}

bool prefix_drop(struct prefix_cache *c, int32_t block)
{
    struct prefix_block *b = &c->blocks[block];
    ASSERT(b->holders > 0);
    c->epoch++;
    if (--b->holders)
        return false;
    if (c->nameless_first && !b->name) {
        b->older = -1;
        b->newer = c->oldest;
        *(c->oldest < 0 ? &c->newest : &c->blocks[c->oldest].older) = block;
        c->oldest = block;
        return true;
    }
    b->older = c->newest;
    b->newer = -1;
    *(c->newest < 0 ? &c->oldest : &c->blocks[c->newest].newer) = block;
    c->newest = block;
    return true;
}

void prefix_name(struct prefix_cache *c, int32_t block, uint64_t name)
{
    struct prefix_block *b = &c->blocks[block];
    int32_t *bucket = &c->buckets[name & c->mask];
    ASSERT(b->holders > 0 && !b->name);
    c->epoch++;
    b->name = name;
    if (c->nameless_first && *bucket >= 0) {
        int32_t last = *bucket;
        while (c->blocks[last].same >= 0)
            last = c->blocks[last].same;
        c->blocks[last].same = block;
        b->same = -1;
        b->same_of = last;
        return;
    }
    b->same = *bucket;
    b->same_of = -1;
    if (*bucket >= 0)
        c->blocks[*bucket].same_of = block;
    *bucket = block;
}

void prefix_unname(struct prefix_cache *c, int32_t block)
{
    ASSERT(c->blocks[block].name);
    c->epoch++;
    forget(c, &c->blocks[block]);
}

int32_t prefix_find(const struct prefix_cache *c, uint64_t name)
{
    int32_t id = c->buckets[name & c->mask];
    while (id >= 0 && c->blocks[id].name != name)
        id = c->blocks[id].same;
    return id;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* splitmix64's finish over both: order counts. */
static uint64_t mix(uint64_t h, uint64_t x)
{
    h ^= x + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

enum { BY_IDS = 1, BY_HASH_IDS, BY_PROMPT, BY_REQUEST };

static uint64_t name_by_hash_ids(uint64_t h, const struct workload_request *w, int64_t from,
                                 int64_t to)
{
    for (int64_t i = from / w->hash_tokens; i <= (to - 1) / w->hash_tokens; i++)
        h = mix(h, (uint64_t)w->hash_ids[i]);
    return mix(mix(h, BY_HASH_IDS), (uint64_t)to);
}

/* Name of the block with the tokens [from, to), after a block named h. */
static uint64_t name_of(const struct prefix_cache *c, const struct request *q, uint64_t h,
                        int64_t from, int64_t to)
{
    const struct workload_request *w = &q->w;
    int64_t known = w->num_prefill_tokens + (c->knows_output ? q->delivered : 0);
    if (q->ids && to <= known)
        return mix(mix(h, BY_IDS), hash_bytes(q->ids + from, (size_t)(to - from) * sizeof *q->ids));
    bool covered = !c->knows_output && w->hash_ids && to <= w->hash_covers;
    if (to > w->num_prefill_tokens && !covered)
        return mix(mix(h, BY_REQUEST), (uint64_t)q->seq);
    if (w->hash_ids)
        return name_by_hash_ids(h, w, from, to);
    if (w->prompt_id)
        return mix(mix(h, BY_PROMPT), hash_bytes(w->prompt_id, strlen(w->prompt_id)));
    return mix(mix(h, BY_REQUEST), (uint64_t)q->seq);
}

const uint64_t *prefix_names(const struct prefix_cache *c, const struct request *q, int64_t n)
{
    struct request_prefix *p = q->prefix;
    if (n > p->cap) {
        p->cap = n;
        p->names = mem_resize(p->names, (size_t)n * sizeof *p->names);
    }
    for (; p->n < n; p->n++) {
        uint64_t before = p->n ? p->names[p->n - 1] : 0;
        uint64_t name = name_of(c, q, before, p->n * c->block_size, (p->n + 1) * c->block_size);
        p->names[p->n] = name ? name : 1;
    }
    return p->names;
}

/* ---- requests -------------------------------------------------------------------------------- */

struct request_prefix *request_prefix_new(void)
{
    struct request_prefix *p = mem_alloc(sizeof *p);
    *p = (struct request_prefix){.epoch = -1};
    return p;
}

void request_prefix_free(struct request_prefix **p)
{
    if (*p)
        mem_free((*p)->names);
    mem_free(*p);
    *p = NULL;
}

int64_t prefix_hits(const struct prefix_cache *c, const struct request *q)
{
    int64_t n = (q->prefill - 1) / c->block_size, hits = 0;
    const uint64_t *names = prefix_names(c, q, n);
    while (hits < n && prefix_find(c, names[hits]) >= 0)
        hits++;
    return hits;
}

void prefix_look(struct prefix_cache *c, struct request *q)
{
    struct request_prefix *p = q->prefix;
    if (p->epoch == c->epoch)
        return;
    p->epoch = c->epoch;
    p->hits = prefix_hits(c, q);
    p->shared = 0;
    for (int64_t i = 0; i < p->hits; i++)
        p->shared += c->blocks[prefix_find(c, p->names[i])].holders > 0;
    q->kv = p->hits * c->block_size;
}

void prefix_name_blocks(struct prefix_cache *c, struct request *q, int64_t tokens)
{
    struct request_prefix *p = q->prefix;
    int64_t n = tokens / c->block_size;
    if (n <= p->named)
        return;
    const uint64_t *names = prefix_names(c, q, n);
    for (; p->named < n; p->named++)
        prefix_name(c, q->blocks[p->named], names[p->named]);
}
