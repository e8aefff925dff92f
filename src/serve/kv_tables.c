#include "serve/kv_tables.h"

#include "serve/kv_lookup.h"

static int64_t divided_up(int64_t n, int64_t parts)
{
    return (n + parts - 1) / parts;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- the pool -------------------------------------------------------------------------------- */

void kv_pool_init(struct kv *kv, struct arena *a, const struct kv_groups *groups, bool caching,
                  int64_t max_model_len, int64_t in_flight, int64_t batches)
{
    struct kv_pool *p = kv->pool = arena_one(a, struct kv_pool);
    *p = (struct kv_pool){.groups = groups,
                          .caching = caching,
                          .max_model_len = max_model_len,
                          .in_flight = in_flight,
                          .spare = kv_groups_spare(groups, batches)};
    prefix_init(&p->cache, a, groups->hash_tokens, kv->num_blocks);
    p->cache.nameless_first = true;
    for (int32_t i = 0; i < groups->n; i++)
        p->splits |= groups->g[i].aligned;
    kv->ids = NULL;
    kv->cache = caching ? &p->cache : NULL;
}

int64_t kv_pool_needed(const struct kv_pool *p, int64_t tokens)
{
    return kv_groups_needed(p->groups, tokens, p->in_flight) + p->spare;
}

void kv_pool_free(struct kv *kv)
{
    if (kv->pool)
        vec_free(&kv->pool->stepped);
}

void kv_pool_step(struct kv *kv)
{
    kv->pool->stepped.n = 0;
}

struct request_tables *request_tables_new(int32_t n)
{
    struct request_tables *r = mem_alloc(sizeof *r);
    *r = (struct request_tables){.t = mem_alloc((size_t)n * sizeof *r->t), .n = n, .epoch = -1};
    for (int32_t i = 0; i < n; i++)
        r->t[i] = (struct kv_table){.last_state = -1};
    return r;
}

void request_tables_free(struct request_tables **r)
{
    for (int32_t i = 0; *r && i < (*r)->n; i++) {
        mem_free((*r)->t[i].blocks);
        mem_free((*r)->t[i].hits);
    }
    if (*r)
        mem_free((*r)->t);
    mem_free(*r);
    *r = NULL;
}

static void push(struct kv_table *t, int32_t block)
{
    if (t->n == t->cap) {
        t->cap = most(2 * t->cap, 16);
        t->blocks = mem_resize(t->blocks, (size_t)t->cap * sizeof *t->blocks);
    }
    t->blocks[t->n++] = block;
}

static void push_new(struct kv *kv, struct kv_table *t, int64_t n)
{
    ASSERT(n <= kv->free);
    for (int64_t i = 0; i < n; i++)
        push(t, prefix_take(&kv->pool->cache));
    if (n > 0)
        kv_count(kv, n);
}

static void drop(struct kv *kv, struct kv_table *t, int64_t i)
{
    kv->free += prefix_drop(&kv->pool->cache, t->blocks[i]);
    t->blocks[i] = KV_NO_BLOCK;
}

/* ---- blocks that are needed no more ---------------------------------------------------------- */

/* Tokens that no later one reads, once so many were computed. */
static int64_t passed(const struct kv_group *g, int64_t computed)
{
    switch (g->kind) {
    case KV_FULL:
        break;
    case KV_WINDOW:
        return most(computed - g->span + 1, 0);
    case KV_CHUNKED:
        return computed / g->span * g->span;
    case KV_STATE:
        return most(computed - 1, 0);
    }
    return 0;
}

static void drop_states(struct kv *kv, const struct kv_group *g, struct kv_table *t,
                        int64_t processed)
{
    const int64_t to = least(passed(g, processed) / g->block_size, t->n);
    if (processed > 1 && to > t->retired) {
        for (int64_t i = to - 1; i >= t->retired; i--)
            if (t->blocks[i] != KV_NO_BLOCK)
                drop(kv, t, i);
        t->retired = to;
    }
    const int64_t last = t->last_state;
    if (last >= 0 && last < divided_up(processed, g->block_size) - 1 &&
        t->blocks[last] != KV_NO_BLOCK)
        drop(kv, t, last);
}

static void drop_passed(struct kv *kv, struct request *q, int64_t processed)
{
    const struct kv_groups *groups = kv->pool->groups;
    for (int32_t i = 0; i < groups->n; i++) {
        const struct kv_group *g = &groups->g[i];
        struct kv_table *t = &q->tables->t[i];
        if (g->aligned) {
            drop_states(kv, g, t, processed);
            continue;
        }
        const int64_t to = least(passed(g, processed) / g->block_size, t->n);
        for (int64_t k = to - 1; k >= 0 && t->blocks[k] != KV_NO_BLOCK; k--)
            drop(kv, t, k);
    }
}

/* ---- blocks that are needed ------------------------------------------------------------------ */

/* An allocation as vLLM's allocate_slots is asked for it. */
struct kv_want {
    int64_t computed; /* tokens in the cache, those found included */
    int64_t tokens;   /* all that must find room */
    int64_t prefill_end;
    bool found; /* q takes what its look found */
    bool whole; /* asked for the whole prefill, before it is admitted */
};

/* The last boundary that a later prompt can go on from. */
static int64_t checkpoint_before(int64_t tokens, int64_t block)
{
    return most((tokens - 1) / block * block, 0);
}

static bool checkpoint_fits(const struct kv_groups *groups, const struct kv_group *g, int64_t start,
                            int64_t end, int64_t at)
{
    if (g->checkpoint == 0 || start % groups->hash_tokens != 0)
        return false;
    const int64_t first = start > 0 ? (start - 1) / g->block_size : -1;
    return divided_up(end, g->block_size) - 2 > first && start + groups->hash_tokens <= at &&
           start < at && at < end && (at - start) % g->checkpoint == 0;
}

static int64_t evictable(const struct kv_pool *p, const struct kv_table *t, int64_t from)
{
    int64_t n = 0;
    for (int64_t i = from; i < t->n_hits; i++)
        n += t->hits[i] != KV_NO_BLOCK && p->cache.blocks[t->hits[i]].holders == 0;
    return n;
}

static bool stepped(const struct kv_pool *p, const struct kv_table *t)
{
    const int32_t last = t->n_hits ? t->hits[t->n_hits - 1] : KV_NO_BLOCK;
    for (size_t i = 0; last != KV_NO_BLOCK && i < p->stepped.n; i++)
        if (p->stepped.p[i] == p->cache.blocks[last].name)
            return true;
    return false;
}

/* Blocks of aligned states; -1: not in this step. Notes the checkpoint of the chunk. */
static int64_t wanted_states(const struct kv_pool *p, const struct kv_group *g, struct kv_table *t,
                             const struct kv_want *w)
{
    const int64_t hits = w->found ? t->n_hits : 0;
    if (w->found && stepped(p, t))
        return -1;
    int64_t n = divided_up(w->tokens, g->block_size) - hits - t->n;
    const int64_t at = checkpoint_before(w->tokens, p->groups->lcm_tokens);
    const int64_t place = divided_up(w->tokens, g->block_size) - 2;
    const bool checkpoint = w->tokens >= w->prefill_end &&
                            checkpoint_fits(p->groups, g, w->computed, w->tokens, at) &&
                            place >= 0 && (place >= t->n || t->blocks[place] == KV_NO_BLOCK);
    if (!w->whole) {
        t->checkpoint = checkpoint ? at : 0;
        t->checkpoint_at = place;
    }
    if (n > 0)
        n = least(n, 1 + checkpoint);
    return n + (w->found ? evictable(p, t, 0) : 0);
}

static int64_t wanted_others(const struct kv_pool *p, const struct kv_group *g,
                             const struct kv_table *t, const struct kv_want *w)
{
    int64_t needs = divided_up(w->tokens, g->block_size);
    if (w->whole)
        needs = least(needs, kv_group_cap(g, p->in_flight, p->max_model_len));
    if (!w->found)
        return most(needs - t->n, 0);
    const int64_t skipped = passed(g, w->computed) / g->block_size;
    return most(needs - most(skipped, t->n_hits), 0) + evictable(p, t, skipped);
}

/* Blocks that it takes from the free ones; -1: not in this step. */
static int64_t wanted(const struct kv *kv, struct request *q, const struct kv_want *w)
{
    const struct kv_pool *p = kv->pool;
    int64_t sum = 0;
    bool later = false;
    for (int32_t i = 0; i < p->groups->n; i++) {
        const struct kv_group *g = &p->groups->g[i];
        struct kv_table *t = &q->tables->t[i];
        const int64_t n = g->aligned ? wanted_states(p, g, t, w) : wanted_others(p, g, t, w);
        later |= g->aligned && w->found && stepped(p, t);
        sum += n;
    }
    return later ? -1 : sum;
}

/* ---- taking them ----------------------------------------------------------------------------- */

static void take_states(struct kv *kv, const struct kv_group *g, struct kv_table *t, int64_t tokens)
{
    const int64_t needs = divided_up(tokens, g->block_size), had = t->n;
    if (needs <= had && t->checkpoint == 0) {
        t->allocated = true;
        return;
    }
    if (t->allocated || had > 0)
        t->last_state = had - 1;
    for (int64_t i = had; i < needs - 1 - (t->checkpoint > 0); i++)
        push(t, KV_NO_BLOCK);
    push_new(kv, t, most(needs - t->n, 0));
    t->allocated = true;
}

static void take(struct kv *kv, struct request *q, int64_t tokens)
{
    const struct kv_groups *groups = kv->pool->groups;
    for (int32_t i = 0; i < groups->n; i++) {
        const struct kv_group *g = &groups->g[i];
        struct kv_table *t = &q->tables->t[i];
        if (g->aligned)
            take_states(kv, g, t, tokens);
        else
            push_new(kv, t, most(divided_up(tokens, g->block_size) - t->n, 0));
    }
}

/* What the look found becomes the tables' beginning. */
static void adopt(struct kv *kv, struct request *q)
{
    const struct kv_groups *groups = kv->pool->groups;
    int64_t taken = 0;
    for (int32_t i = 0; i < groups->n; i++) {
        const struct kv_group *g = &groups->g[i];
        struct kv_table *t = &q->tables->t[i];
        const int64_t skipped = passed(g, q->kv) / g->block_size;
        for (int64_t k = 0; k < skipped; k++)
            push(t, KV_NO_BLOCK);
        for (int64_t k = skipped; k < t->n_hits; k++) {
            push(t, t->hits[k]);
            if (t->hits[k] != KV_NO_BLOCK)
                taken += prefix_hold(&kv->pool->cache, t->hits[k]);
        }
        t->named = t->n;
    }
    kv_count(kv, taken);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void name_block(struct prefix_cache *c, int32_t block, uint64_t name)
{
    if (c->blocks[block].name == name)
        return;
    if (c->blocks[block].name)
        prefix_unname(c, block);
    prefix_name(c, block, name);
}

/* Whether block i of the group is one that a later prompt goes on from at that boundary. */
static bool before_boundary(const struct kv_groups *groups, const struct kv_group *g, int64_t i,
                            int64_t boundary)
{
    const int64_t end = boundary / groups->lcm_tokens * groups->lcm_tokens / g->block_size;
    const int64_t n = g->kind == KV_WINDOW ? divided_up(g->span - 1, g->block_size) : 1;
    return i < end && i >= end - n;
}

static bool kept(const struct kv_groups *groups, const struct kv_group *g, const struct request *q,
                 int64_t i)
{
    if (g->kind == KV_FULL || g->kind == KV_CHUNKED)
        return true;
    const int64_t junction = q->tables->junction;
    return before_boundary(groups, g, i, q->w.num_prefill_tokens - 1) ||
           (junction && before_boundary(groups, g, i, junction));
}

/* The last part of a prompt, in a block that it does not fill. */
static void name_tail(struct kv_pool *p, struct request *q, int32_t group, int64_t tokens)
{
    const struct kv_group *g = &p->groups->g[group];
    const int64_t h = p->groups->hash_tokens;
    const int64_t end = (q->w.num_prefill_tokens - 1) / h * h;
    const struct kv_table *t = &q->tables->t[group];
    if (end == 0 || end > tokens || end % g->block_size == 0 || end / g->block_size >= t->n)
        return;
    const int32_t block = t->blocks[end / g->block_size];
    if (block != KV_NO_BLOCK && !p->cache.blocks[block].name)
        prefix_name(&p->cache, block,
                    kv_lookup_name(prefix_names(&p->cache, q, end / h)[end / h - 1], group));
}

/* The state that a chunk wrote beside its own, where that is worth a name. */
static void name_checkpoint(struct kv_pool *p, struct request *q, int32_t group)
{
    const struct kv_groups *groups = p->groups;
    const struct kv_table *t = &q->tables->t[group];
    const int32_t block = t->blocks[t->checkpoint_at];
    if (block == KV_NO_BLOCK)
        return;
    const bool prompt =
        t->checkpoint == checkpoint_before(q->w.num_prefill_tokens, groups->lcm_tokens);
    const int64_t n = t->checkpoint / groups->hash_tokens;
    const uint64_t name = kv_lookup_name(prefix_names(&p->cache, q, n)[n - 1], group);
    if (prompt || t->checkpoint == q->tables->junction)
        name_block(&p->cache, block, name);
    else if (p->cache.blocks[block].name)
        prefix_unname(&p->cache, block);
}

/* Only what a hit can end at is named. */
static void name_group(struct kv_pool *p, struct request *q, int32_t group, int64_t tokens)
{
    const struct kv_groups *groups = p->groups;
    const struct kv_group *g = &groups->g[group];
    struct kv_table *t = &q->tables->t[group];
    tokens = tokens / groups->lcm_tokens * groups->lcm_tokens;
    const int64_t ratio = g->block_size / groups->hash_tokens, n = tokens / g->block_size;
    const int64_t from = t->named;
    const uint64_t *names = n > from ? prefix_names(&p->cache, q, n * ratio) : NULL;
    for (; t->named < n; t->named++) {
        const int32_t block = t->blocks[t->named];
        if (block != KV_NO_BLOCK && kept(groups, g, q, t->named))
            name_block(&p->cache, block, kv_lookup_name(names[(t->named + 1) * ratio - 1], group));
    }
    if (g->kind == KV_FULL && ratio > 1)
        name_tail(p, q, group, tokens);
    if (!g->aligned)
        return;
    if (t->checkpoint)
        name_checkpoint(p, q, group);
    for (int64_t i = from; i < n; i++)
        if (t->blocks[i] != KV_NO_BLOCK && p->cache.blocks[t->blocks[i]].name)
            vec_push(&p->stepped, p->cache.blocks[t->blocks[i]].name);
}

static void name_all(struct kv *kv, struct request *q, int64_t tokens)
{
    if (!kv->pool->caching)
        return;
    for (int32_t i = 0; i < kv->pool->groups->n; i++)
        name_group(kv->pool, q, i, tokens);
}

/* ---- requests -------------------------------------------------------------------------------- */

void kv_tables_look(struct kv *kv, struct request *q)
{
    struct kv_pool *p = kv->pool;
    struct request_tables *r = q->tables;
    if (!p->caching || r->epoch == p->cache.epoch)
        return;
    r->epoch = p->cache.epoch;
    q->kv = kv_lookup(p, q);
}

int64_t kv_tables_hits(const struct kv *kv, const struct request *q)
{
    q->tables->epoch = -1;
    return kv_lookup(kv->pool, q);
}

static int64_t prefill_end(const struct request *q)
{
    return most(q->w.num_prefill_tokens, q->prefill - 1);
}

int64_t kv_tables_split(const struct kv *kv, const struct request *q, int64_t tokens,
                        int64_t most_tokens)
{
    const struct kv_groups *groups = kv->pool->groups;
    const int64_t start = q->kv, block = groups->lcm_tokens, goal = prefill_end(q);
    if (!kv->pool->splits || start >= goal)
        return tokens;
    int64_t end = start + tokens, last = checkpoint_before(q->prefill, block);
    const struct kv_group *states = groups->g;
    bool writes = true;
    for (int32_t i = groups->n - 1; i >= 0; i--)
        if (groups->g[i].aligned) {
            states = &groups->g[i];
            writes &= states->checkpoint > 0;
        }
    const bool inside = writes && end >= goal &&
                        checkpoint_fits(groups, states, start, end, checkpoint_before(goal, block));
    if (inside)
        last = 0;
    if (end < goal && (end / block * block > start || block <= most_tokens))
        end = end / block * block;
    const int64_t junction = q->tables->junction;
    const int64_t stops[] = {
        start % block != 0 && !inside ? (start / block + 1) * block : 0, last,
        start < junction && junction < end ? start + (junction - start) / block * block : 0};
    int64_t to = end;
    for (int i = 0; i < 3; i++)
        if (start < stops[i] && stops[i] < end)
            to = least(to, stops[i]);
    return most(to - start, 0);
}

bool kv_tables_admit(struct kv *kv, struct request *q, int64_t tokens, bool whole,
                     int64_t watermark)
{
    struct kv_want w = {.computed = q->kv,
                        .tokens = least(q->prefill, kv->pool->max_model_len),
                        .prefill_end = prefill_end(q),
                        .found = true,
                        .whole = true};
    for (int once = whole ? 0 : 1; once < 2; once++) {
        if (once == 1) {
            w.tokens = q->kv + tokens;
            w.whole = false;
        }
        const int64_t n = wanted(kv, q, &w);
        if (n < 0 || n + watermark > kv->free)
            return false;
    }
    adopt(kv, q);
    take(kv, q, q->kv + tokens);
    name_all(kv, q, q->kv + tokens);
    if (kv->cache) {
        kv->cache->looked_tokens += q->prefill;
        kv->cache->hit_tokens += q->kv;
    }
    return true;
}

bool kv_tables_extend(struct kv *kv, struct request *q, int64_t computed, int64_t tokens,
                      int64_t processed)
{
    const bool prefills = computed < q->prefill;
    const struct kv_want w = {.computed = computed,
                              .tokens = computed + tokens,
                              .prefill_end = prefills ? prefill_end(q) : computed};
    for (int32_t i = 0; kv->pool->caching && !prefills && i < q->tables->n; i++)
        if (kv->pool->groups->g[i].kind == KV_CHUNKED) /* before they are given back */
            name_group(kv->pool, q, i, processed);
    drop_passed(kv, q, most(processed, 0));
    if (wanted(kv, q, &w) > kv->free)
        return false;
    take(kv, q, computed + tokens);
    if (prefills)
        name_all(kv, q, computed + tokens);
    return true;
}

int64_t kv_tables_next(const struct kv *kv, const struct request *q, int64_t computed,
                       int64_t processed)
{
    const struct kv_groups *groups = kv->pool->groups;
    int64_t next = INT64_MAX;
    for (int32_t i = 0; i < groups->n; i++) {
        const struct kv_group *g = &groups->g[i];
        next = least(next, q->tables->t[i].n * g->block_size);
        if (g->kind == KV_FULL || (g->kind == KV_STATE && !g->aligned))
            continue;
        /* the next boundary that what came back passes; it may lag behind what was computed */
        const int64_t block = g->kind == KV_CHUNKED ? g->span : g->block_size;
        const int64_t ahead = g->kind == KV_WINDOW ? g->span - 1 : g->kind == KV_STATE ? 1 : 0;
        const int64_t done = passed(g, processed) / block;
        next = least(next, (done + 1) * block + ahead);
    }
    return most(next, computed + 1);
}

void kv_tables_give(struct kv *kv, struct request *q, int64_t known)
{
    for (int32_t i = 0; kv->pool->caching && i < q->tables->n; i++)
        if (kv->pool->groups->g[i].kind == KV_FULL || kv->pool->groups->g[i].kind == KV_CHUNKED)
            name_group(kv->pool, q, i, known);
    for (int32_t i = 0; i < q->tables->n; i++) {
        struct kv_table *t = &q->tables->t[i];
        for (int64_t k = t->n - 1; k >= 0; k--)
            if (t->blocks[k] != KV_NO_BLOCK)
                drop(kv, t, k);
        t->n = t->named = t->retired = t->checkpoint = 0;
        t->last_state = -1;
        t->allocated = false;
    }
}
