#include "replay/source.h"

#include <string.h>

#include "capsule/file.h"

enum { POINTS = 16, RUNS = 3 };

struct search_pass {
    struct load *l;
    const struct source_params *params;
    const uint32_t *ops; /* [n_ops] of the program, in its order */
    size_t n_ops;
    size_t *points; /* [n_points] numbers in ops, rising: looked at when they have ended */
    size_t n_points, at;
    unsigned char *page;
    uint64_t *digests; /* [n_points * n_pages] of the run at hand */
};

static enum st stopped(const struct source_params *p, struct err *e)
{
    return p->stop && *p->stop ? err_set(e, ST_INTERRUPTED, "interrupted") : ST_OK;
}

/* Up to so many in (low, high], high among them. */
static void spread(struct search_pass *x, int64_t low, int64_t high)
{
    const int64_t between = high - low,
                  most = (int64_t)(x->params->points ? x->params->points : POINTS);
    const int64_t n = between < most ? between : most;
    x->n_points = 0;
    for (int64_t k = 1; k <= n; k++)
        x->points[x->n_points++] = (size_t)(low + between * k / n);
}

static enum st take_digests(void *self, size_t op, struct err *e)
{
    struct search_pass *x = self;
    if (x->at == x->n_points || x->ops[x->points[x->at]] != op)
        return ST_OK;
    TRY(stopped(x->params, e));
    for (size_t i = 0; i < x->params->n_pages; i++) {
        const struct place_span *s = &x->params->pages[i];
        TRY(load_read(x->l, s->at, x->page, s->bytes, e));
        x->digests[x->at * x->params->n_pages + i] = capsule_hash(x->page, s->bytes);
    }
    x->at++;
    return ST_OK;
}

static enum st replay_to(struct search_pass *x,
                         enum st (*look)(void *self, size_t op, struct err *e), struct err *e)
{
    struct program p;
    TRY(stopped(x->params, e));
    x->at = 0;
    program_build(x->l->a, x->l->c, 0, x->ops[x->points[x->n_points - 1]] + 1, &p);
    TRY(load_restore(x->l, x->params->fill, e));
    return issue_serial(x->l, &p, look, x, e);
}

/* The first point at which a run differs from the first run; n_points = none. */
static enum st first_apart(struct search_pass *x, size_t *out, struct err *e)
{
    const size_t row = x->params->n_pages;
    uint64_t *of_first = x->digests + x->n_points * row, *of_run = x->digests;
    *out = x->n_points;
    x->digests = of_first;
    enum st st = replay_to(x, take_digests, e);
    x->digests = of_run;
    for (int r = 1; st == ST_OK && r < RUNS; r++) {
        st = replay_to(x, take_digests, e);
        for (size_t k = 0; st == ST_OK && k < *out; k++)
            if (memcmp(of_first + k * row, of_run + k * row, row * sizeof *of_run) != 0)
                *out = k;
    }
    return st;
}

static enum st narrow(struct search_pass *x, struct source *out, struct err *e)
{
    int64_t low = -1, high = (int64_t)x->n_ops - 1;
    do {
        size_t k;
        spread(x, low, high);
        TRY(first_apart(x, &k, e));
        if (k == x->n_points) /* seldom: not in these runs */
            break;
        out->found = true;
        high = (int64_t)x->points[k];
        low = k ? (int64_t)x->points[k - 1] : low;
    } while (high - low > 1);
    out->first = x->ops[low + 1];
    out->last = x->ops[high];
    return ST_OK;
}

static void open_pass(struct search_pass *x, struct load *l, const struct program *p,
                      const struct source_params *params)
{
    uint32_t *ops = arena_array(l->a, uint32_t, p->n_ops);
    const size_t points = params->points ? params->points : POINTS;
    *x = (struct search_pass){.l = l, .params = params, .ops = ops};
    for (size_t s = 0; s < p->n; s++)
        if (p->steps[s].kind == PROGRAM_OP)
            ops[x->n_ops++] = p->steps[s].item;
    x->points = arena_array(l->a, size_t, points);
    x->page = mem_alloc(CAPSULE_PAGE_BYTES);
}

enum st source_find(struct load *l, const struct program *p, const struct source_params *params,
                    struct source *out, struct err *e)
{
    struct search_pass x;
    *out = (struct source){0};
    if (p->n_ops == 0)
        return ST_OK;
    open_pass(&x, l, p, params);
    const size_t points = params->points ? params->points : POINTS;
    x.digests = mem_alloc(2 * points * params->n_pages * sizeof *x.digests + 1);
    const enum st st = narrow(&x, out, e);
    mem_free(x.digests);
    mem_free(x.page);
    return st == ST_OK ? ST_OK : err_add(e, "cannot find where replays begin to differ");
}

/* ---- what is written on the way -------------------------------------------------------------- */

struct rewritten {
    struct search_pass x;
    struct capsule_memory_reader *memory;
    unsigned char *was;
    unsigned char **seen; /* [n_pages] a bit for each byte; NULL = none */
    uint64_t bytes;
};

static enum st count_page(struct rewritten *r, size_t i, struct err *e)
{
    const struct capsule_page *p = &r->x.l->c->pages[i];
    TRY(load_read(r->x.l, p->address, r->x.page, p->bytes, e));
    if (p->flags & CAPSULE_ZERO ? capsule_is_zero(r->x.page, p->bytes)
                                : capsule_hash(r->x.page, p->bytes) == p->hash)
        return ST_OK;
    TRY(capsule_memory_read(r->memory, p, r->was, e));
    if (!r->seen[i])
        r->seen[i] = arena_alloc(r->x.l->a, p->bytes / 8 + 1);
    for (uint32_t k = 0; k < p->bytes; k++) {
        const unsigned char bit = (unsigned char)(1u << k % 8);
        r->bytes += r->x.page[k] != r->was[k] && !(r->seen[i][k / 8] & bit);
        if (r->x.page[k] != r->was[k])
            r->seen[i][k / 8] |= bit;
    }
    return ST_OK;
}

static enum st count_all(void *self, size_t op, struct err *e)
{
    struct rewritten *r = (struct rewritten *)self;
    if (r->x.at == r->x.n_points || r->x.ops[r->x.points[r->x.at]] != op)
        return ST_OK;
    r->x.at++;
    TRY(stopped(r->x.params, e));
    for (size_t i = 0; i < r->x.l->c->n_pages; i++)
        TRY(count_page(r, i, e));
    return ST_OK;
}

enum st source_rewritten(struct load *l, const struct program *p,
                         const struct source_params *params, uint64_t *bytes, struct err *e)
{
    struct rewritten r = {0};
    *bytes = 0;
    if (p->n_ops == 0)
        return ST_OK;
    open_pass(&r.x, l, p, params);
    spread(&r.x, -1, (int64_t)r.x.n_ops - 1);
    r.seen = arena_array(l->a, unsigned char *, l->c->n_pages);
    r.was = mem_alloc(CAPSULE_PAGE_BYTES);
    enum st st = capsule_memory_open(l->c, false, &r.memory, e);
    if (st == ST_OK)
        st = replay_to(&r.x, count_all, e);
    capsule_memory_close(&r.memory);
    mem_free(r.was);
    mem_free(r.x.page);
    *bytes = r.bytes;
    return st == ST_OK ? ST_OK : err_add(e, "cannot see what the region writes");
}
