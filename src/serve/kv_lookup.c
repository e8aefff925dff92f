#include "serve/kv_lookup.h"

#include <string.h>

#include "base/hash.h"

uint64_t kv_lookup_name(uint64_t name, int32_t group)
{
    const uint64_t both[] = {name, (uint64_t)group + 1};
    const uint64_t h = hash_bytes(both, sizeof both);
    return h ? h : 1;
}

/* One look. Groups of equal specs have equal lengths and are looked up together. */
struct kv_look {
    struct kv_pool *p;
    const struct request *q;
    const uint64_t *names;
    int32_t first, end; /* groups of the spec at hand */
};

static const struct kv_group *group(const struct kv_look *l)
{
    return &l->p->groups->g[l->first];
}

static void set_length(struct kv_look *l, int64_t n)
{
    for (int32_t g = l->first; g < l->end; g++) {
        struct kv_table *t = &l->q->tables->t[g];
        if (n > t->hits_cap) {
            t->hits_cap = n;
            t->hits = mem_resize(t->hits, (size_t)n * sizeof *t->hits);
        }
        for (int64_t i = t->n_hits; i < n; i++)
            t->hits[i] = KV_NO_BLOCK;
        t->n_hits = n;
    }
}

/* Block i in all groups of the spec, noted where there is one. */
static bool find(struct kv_look *l, int64_t i)
{
    int32_t found[KV_GROUPS_MOST];
    const int64_t ratio = group(l)->block_size / l->p->groups->hash_tokens;
    for (int32_t g = l->first; g < l->end; g++) {
        found[g] = prefix_find(&l->p->cache, kv_lookup_name(l->names[(i + 1) * ratio - 1], g));
        if (found[g] < 0)
            return false;
    }
    for (int32_t g = l->first; g < l->end; g++)
        l->q->tables->t[g].hits[i] = found[g];
    return true;
}

/* ---- one spec: tokens found, at most so many ------------------------------------------------- */

static int64_t look_full(struct kv_look *l, int64_t tokens)
{
    const int64_t block = group(l)->block_size, align = l->p->groups->lcm_tokens;
    int64_t n = 0;
    set_length(l, tokens / block);
    while (n < tokens / block && find(l, n))
        n++;
    const int64_t hit = n * block / align * align;
    set_length(l, hit / block);
    return hit;
}

static int64_t look_window(struct kv_look *l, int64_t tokens)
{
    const int64_t block = group(l)->block_size, align = l->p->groups->lcm_tokens;
    const int64_t needs = (group(l)->span - 1 + block - 1) / block, all = tokens / block;
    int64_t run = 0;
    set_length(l, 0);
    set_length(l, all);
    for (int64_t i = all - 1; i >= 0; i--) {
        if (!find(l, i)) {
            run = 0;
            continue;
        }
        if (run == 0 && (i + 1) * block % align != 0) {
            for (int32_t g = l->first; g < l->end; g++)
                l->q->tables->t[g].hits[i] = KV_NO_BLOCK;
            continue;
        }
        if (++run >= needs) {
            set_length(l, i + run);
            return (i + run) * block;
        }
    }
    while (run * block % align != 0)
        run--;
    set_length(l, run);
    return run * block;
}

static int64_t look_chunked(struct kv_look *l, int64_t tokens)
{
    const int64_t block = group(l)->block_size, all = tokens / block;
    int64_t n = tokens / group(l)->span * group(l)->span / block;
    set_length(l, 0);
    set_length(l, all > n ? all : n);
    while (n < all && find(l, n))
        n++;
    set_length(l, n);
    return n * block;
}

static int64_t look_state(struct kv_look *l, int64_t tokens)
{
    const int64_t block = group(l)->block_size, align = l->p->groups->lcm_tokens;
    set_length(l, 0);
    set_length(l, tokens / block);
    for (int64_t n = tokens / block; n > 0; n--) {
        if (!find(l, n - 1))
            continue;
        if (n * block % align == 0) {
            set_length(l, n);
            return n * block;
        }
        for (int32_t g = l->first; g < l->end; g++)
            l->q->tables->t[g].hits[n - 1] = KV_NO_BLOCK;
    }
    set_length(l, 0);
    return 0;
}

static int64_t look_spec(struct kv_look *l, int64_t tokens)
{
    switch (group(l)->kind) {
    case KV_FULL:
        return look_full(l, tokens);
    case KV_WINDOW:
        return look_window(l, tokens);
    case KV_CHUNKED:
        return look_chunked(l, tokens);
    case KV_STATE:
        break;
    }
    return look_state(l, tokens);
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct specs {
    struct {
        int32_t first, end;
        bool full;
    } s[KV_GROUPS_MOST];
    int32_t n;
};

static void list_specs(const struct kv_groups *g, bool full, struct specs *out)
{
    for (int32_t i = 0, end; i < g->n; i = end) {
        for (end = i + 1; end < g->n && g->g[end].spec == g->g[i].spec;)
            end++;
        if ((g->g[i].kind == KV_FULL) != full)
            continue;
        out->s[out->n].first = i;
        out->s[out->n].end = end;
        out->s[out->n++].full = full;
    }
}

int64_t kv_lookup(struct kv_pool *p, const struct request *q)
{
    struct specs specs = {0};
    int64_t full_hit[KV_GROUPS_MOST], longest = 0, hit = q->prefill - 1;
    struct kv_look l = {.p = p, .q = q};
    list_specs(p->groups, true, &specs);
    list_specs(p->groups, false, &specs);
    l.names = prefix_names(&p->cache, q, hit / p->groups->hash_tokens);
    for (int32_t i = 0; i < specs.n; i++)
        full_hit[i] = -1;
    for (;;) {
        int64_t at = hit;
        for (int32_t i = 0; i < specs.n; i++) {
            if (specs.s[i].full && full_hit[i] >= 0) {
                at = full_hit[i] < at ? full_hit[i] : at;
                continue;
            }
            l.first = specs.s[i].first;
            l.end = specs.s[i].end;
            at = look_spec(&l, at);
            if (specs.s[i].full)
                full_hit[i] = at;
            longest = at > longest ? at : longest;
        }
        if (at >= hit)
            break;
        hit = at;
        if (specs.n == 1 || (specs.n == 2 && specs.s[0].full))
            break;
    }
    for (int32_t i = 0; i < specs.n; i++) {
        l.first = specs.s[i].first;
        l.end = specs.s[i].end;
        if (specs.s[i].full)
            set_length(&l, (hit + group(&l)->block_size - 1) / group(&l)->block_size);
    }
    q->tables->junction = longest > hit ? longest : 0;
    return hit;
}
