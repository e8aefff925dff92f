#include "replay/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "capsule/file.h"
#include "gpu/stream.h"

enum { MOST_REPLAYS = 8, MOST_DIFFERENT = 16 << 20, MOST_RANGES = 64, RANGE_GAP = 4096 };
static const unsigned char fills[] = {0x00, 0xff, 0x5a, 0xa5, 0x33, 0xcc, 0x0f, 0xf0};

/* A stretch of memory with what it should hold: part of a piece of the capsule. */
struct stretch {
    uint64_t at, bytes;
    const struct capsule_page *piece;
    bool after;
};

struct different {
    uint64_t at;
    unsigned char expected, actual;
};

struct different_list {
    struct different *p;
    size_t n, cap;
    bool cut; /* there are more */
};

struct verifier {
    struct load *l;
    const struct verify_params *params;
    struct verified *out;
    VEC(struct stretch) stretches;
    struct capsule_memory_reader *memory, *after;
    unsigned char *expected, *actual; /* of CAPSULE_PAGE_BYTES */
    struct different_list different[MOST_REPLAYS];
    int replays; /* done */
};

/* ---- what is compared ------------------------------------------------------------------------ */

static int by_address(const void *x, const void *y)
{
    const struct stretch *a = x, *b = y;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* [from, to) of a piece as it was at the start, without what was freed. */
static void add_kept(struct verifier *v, const struct capsule_page *p, uint64_t from, uint64_t to)
{
    const struct capsule *c = v->l->c;
    for (size_t i = 0; i < c->n_allocations && from < to; i++) {
        const struct capsule_allocation *x = &c->allocations[i];
        const uint64_t end = x->address + x->bytes;
        if (!(x->flags & CAPSULE_GONE) || (x->flags & CAPSULE_BORN) || end <= from ||
            x->address >= to)
            continue;
        if (x->address > from)
            vec_push(&v->stretches, (struct stretch){from, x->address - from, p, false});
        from = end;
    }
    if (from < to)
        vec_push(&v->stretches, (struct stretch){from, to - from, p, false});
}

static void plan(struct verifier *v)
{
    const struct capsule *c = v->l->c;
    size_t k = 0;
    for (size_t i = 0; i < c->n_after; i++) {
        const struct capsule_page *p = &c->after[i];
        vec_push(&v->stretches, (struct stretch){p->address, p->bytes, p, true});
        v->out->changed += p->bytes;
    }
    for (size_t i = 0; i < c->n_pages; i++) {
        const struct capsule_page *p = &c->pages[i];
        uint64_t from = p->address;
        const uint64_t to = p->address + p->bytes;
        while (k > 0 && c->after[k - 1].address + c->after[k - 1].bytes > from)
            k--;
        for (; k < c->n_after && c->after[k].address < to; k++) {
            const uint64_t begin = c->after[k].address, end = begin + c->after[k].bytes;
            if (end <= from)
                continue;
            if (begin > from)
                add_kept(v, p, from, begin);
            from = end < to ? end : to;
            if (end > to)
                break;
        }
        add_kept(v, p, from, to);
    }
    if (v->stretches.n)
        qsort(v->stretches.p, v->stretches.n, sizeof *v->stretches.p, by_address);
    for (size_t i = 0; i < v->stretches.n; i++)
        v->out->compared += v->stretches.p[i].bytes;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static size_t dtype_bytes(enum verify_dtype t)
{
    static const size_t bytes[] = {1, 4, 2, 2, 8};
    return bytes[t];
}

static double number(const unsigned char *p, enum verify_dtype t)
{
    uint16_t half;
    uint32_t word;
    float f;
    double d;
    switch (t) {
    case VERIFY_F64:
        memcpy(&d, p, 8);
        return d;
    case VERIFY_F32:
        memcpy(&f, p, 4);
        return (double)f;
    case VERIFY_BF16:
        memcpy(&half, p, 2);
        word = (uint32_t)half << 16;
        memcpy(&f, &word, 4);
        return (double)f;
    case VERIFY_F16:
        memcpy(&half, p, 2);
        const int exponent = half >> 10 & 31, mantissa = half & 1023;
        d = exponent == 31  ? (mantissa ? NAN : INFINITY)
            : exponent == 0 ? ldexp(mantissa, -24)
                            : ldexp(mantissa + 1024, exponent - 25);
        return half & 0x8000 ? -d : d;
    case VERIFY_BYTES:
        break;
    }
    return *p;
}

/* Relative difference; 0 for the same number, infinite where only one of them is finite. */
static double apart(double a, double b)
{
    const double large = fmax(fabs(a), fabs(b));
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isfinite(a) && isfinite(b) ? fabs(a - b) / large : INFINITY;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void add_different(struct different_list *d, uint64_t at, unsigned char expected,
                          unsigned char actual)
{
    if (d->n == MOST_DIFFERENT) {
        d->cut = true;
        return;
    }
    vec_push(d, (struct different){at, expected, actual});
}

/* Numbers are aligned in memory: the first bytes of a stretch may be the end of one that is not all
 * there, which is compared as bytes. */
static void compare_bytes(struct verifier *v, uint64_t at, size_t n)
{
    const enum verify_dtype t = v->params->tolerance > 0 ? v->params->dtype : VERIFY_BYTES;
    const size_t unit = dtype_bytes(t);
    for (size_t i = 0; i < n;) {
        const bool whole = t != VERIFY_BYTES && (at + i) % unit == 0 && i + unit <= n;
        const size_t step = whole ? unit : 1;
        if (memcmp(v->expected + i, v->actual + i, step) != 0) {
            const double d =
                whole ? apart(number(v->expected + i, t), number(v->actual + i, t)) : INFINITY;
            if (d <= v->params->tolerance) {
                v->out->tolerated += step;
                v->out->worst = d > v->out->worst ? d : v->out->worst;
            } else {
                for (size_t k = 0; k < step; k++)
                    if (v->expected[i + k] != v->actual[i + k])
                        add_different(&v->different[v->replays], at + i + k, v->expected[i + k],
                                      v->actual[i + k]);
            }
        }
        i += step;
    }
}

static enum st compare_stretch(struct verifier *v, const struct stretch *s, struct err *e)
{
    const struct capsule_page *p = s->piece;
    TRY(load_read(v->l, s->at, v->actual, s->bytes, e));
    if (s->bytes == p->bytes &&
        (p->flags & CAPSULE_ZERO ? capsule_is_zero(v->actual, s->bytes)
                                 : capsule_hash(v->actual, s->bytes) == p->hash))
        return ST_OK;
    TRY(capsule_memory_read(s->after ? v->after : v->memory, p, v->expected, e));
    memmove(v->expected, v->expected + (s->at - p->address), s->bytes);
    compare_bytes(v, s->at, s->bytes);
    return ST_OK;
}

static enum st stopped(const struct verifier *v, struct err *e)
{
    return v->params->stop && *v->params->stop ? err_set(e, ST_INTERRUPTED, "interrupted") : ST_OK;
}

static enum st run_once(struct verifier *v, struct issue *i, struct err *e)
{
    const struct gpu *g = &v->l->g;
    CUgraphExec graph = NULL;
    if (v->params->streams) {
        TRY(issue_streams(i, NULL, e));
        return gpu_wait(g, e);
    }
    TRY(issue_graph(i, NULL, &graph, e));
    enum st st = gpu_graph_launch(g, graph, i->origin, e);
    if (st == ST_OK)
        st = gpu_wait(g, e);
    gpu_graph_close(g, &graph);
    return st;
}

static enum st replay_once(struct verifier *v, struct issue *i, struct err *e)
{
    TRY(stopped(v, e));
    TRY(load_restore(v->l, fills[v->replays], e));
    if (run_once(v, i, e) != ST_OK)
        return err_add(e, "the region fails");
    for (size_t s = 0; s < v->stretches.n; s++)
        TRY(compare_stretch(v, &v->stretches.p[s], e));
    v->replays++;
    return ST_OK;
}

/* ---- what differs, and why ------------------------------------------------------------------- */

static bool is_born(const struct capsule *c, uint64_t at)
{
    for (size_t i = 0; i < c->n_allocations; i++)
        if ((c->allocations[i].flags & CAPSULE_BORN) && at >= c->allocations[i].address &&
            at - c->allocations[i].address < c->allocations[i].bytes)
            return true;
    return false;
}

/* A byte that differs from the capture in some replay, with its value in each. */
struct byte {
    uint64_t at;
    unsigned char expected, actual[MOST_REPLAYS];
    bool wrong;
};

/* The next one, from the sorted lists of all replays. */
static bool next_byte(const struct verifier *v, size_t at[MOST_REPLAYS], struct byte *out)
{
    bool any = false;
    for (int r = 0; r < v->replays; r++) {
        const struct different_list *d = &v->different[r];
        if (at[r] < d->n && (!any || d->p[at[r]].at < out->at)) {
            out->at = d->p[at[r]].at;
            out->expected = d->p[at[r]].expected;
            any = true;
        }
    }
    for (int r = 0; any && r < v->replays; r++) {
        const struct different_list *d = &v->different[r];
        const bool here = at[r] < d->n && d->p[at[r]].at == out->at;
        out->actual[r] = here ? d->p[at[r]].actual : out->expected;
        at[r] += here;
    }
    return any;
}

/* Counts it; false for one that nothing wrote. */
static bool judge(struct verifier *v, struct byte *b)
{
    bool varies = false, untouched = true;
    for (int r = 0; r < v->replays; r++) {
        varies = varies || b->actual[r] != b->actual[0];
        untouched = untouched && b->actual[r] == fills[r];
    }
    b->wrong = false;
    if (untouched && is_born(v->l->c, b->at)) {
        v->out->undefined++;
        return false;
    }
    if (varies) {
        v->out->nondeterministic++;
        return true;
    }
    b->wrong = true;
    if (v->out->wrong++ == 0)
        v->out->first_wrong = b->at;
    return true;
}

/* ---- writers --------------------------------------------------------------------------------- */

struct watched {
    uint64_t at, bytes;
    unsigned char *differs; /* [bytes] 1 nondeterministic, 2 wrong */
    unsigned char *now;
    uint32_t *writer; /* operation + 1; 0 = none */
};

struct watch {
    struct load *l;
    struct watched ranges[MOST_RANGES];
    size_t n;
    uint64_t bytes;
    unsigned char *fresh;
};

/* False when it is full. */
static bool watch_byte(struct arena *a, struct watch *w, const struct byte *b)
{
    struct watched *last = w->n ? &w->ranges[w->n - 1] : NULL;
    if (!last || b->at >= last->at + last->bytes + RANGE_GAP) {
        if (w->n == MOST_RANGES || w->bytes == VERIFY_WATCHED)
            return false;
        last = &w->ranges[w->n++];
        *last = (struct watched){.at = b->at};
        last->differs = arena_alloc(a, 4096);
    }
    const uint64_t offset = b->at - last->at, bytes = offset + 1;
    if (w->bytes + (bytes - last->bytes) > VERIFY_WATCHED)
        return false;
    /* room grows by doubling from 4096 */
    uint64_t room = 4096;
    while (room < last->bytes)
        room *= 2;
    if (bytes > room) {
        uint64_t larger = room;
        while (larger < bytes)
            larger *= 2;
        unsigned char *p = arena_alloc(a, larger);
        memcpy(p, last->differs, last->bytes);
        last->differs = p;
    }
    w->bytes += bytes - last->bytes;
    last->bytes = bytes;
    last->differs[offset] = b->wrong ? 2 : 1;
    return true;
}

static enum st look(void *self, size_t op, struct err *e)
{
    struct watch *w = self;
    for (size_t i = 0; i < w->n; i++) {
        struct watched *r = &w->ranges[i];
        TRY(load_read(w->l, r->at, w->fresh, r->bytes, e));
        for (uint64_t k = 0; k < r->bytes; k++)
            if (w->fresh[k] != r->now[k]) {
                r->now[k] = w->fresh[k];
                r->writer[k] = (uint32_t)op + 1;
            }
    }
    return ST_OK;
}

static int by_bytes(const void *x, const void *y)
{
    const struct verify_writer *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

static void collect(struct arena *a, const struct watch *w, struct verified *out)
{
    const size_t n_ops = w->l->c->n_ops;
    struct verify_writer *all = arena_array(a, struct verify_writer, n_ops);
    for (size_t i = 0; i < n_ops; i++)
        all[i].op = i;
    for (size_t i = 0; i < w->n; i++)
        for (uint64_t k = 0; k < w->ranges[i].bytes; k++)
            if (w->ranges[i].differs[k] && w->ranges[i].writer[k]) {
                struct verify_writer *x = &all[w->ranges[i].writer[k] - 1];
                x->bytes++;
                x->wrong = x->wrong || w->ranges[i].differs[k] == 2;
            }
    if (n_ops)
        qsort(all, n_ops, sizeof *all, by_bytes);
    while (out->n_writers < n_ops && out->n_writers < VERIFY_WRITERS && all[out->n_writers].bytes)
        out->n_writers++;
    out->writers = all;
}

/* Replays operation by operation and looks who changes the bytes. */
static enum st find_writers(struct verifier *v, const struct program *p, struct watch *w,
                            struct err *e)
{
    struct arena *a = v->l->a;
    TRY(load_restore(v->l, fills[0], e));
    w->fresh = arena_alloc(a, w->bytes);
    for (size_t i = 0; i < w->n; i++) {
        struct watched *r = &w->ranges[i];
        r->now = arena_alloc(a, r->bytes);
        r->writer = arena_array(a, uint32_t, r->bytes);
        TRY(load_read(v->l, r->at, r->now, r->bytes, e));
    }
    TRY(issue_serial(v->l, p, look, w, e));
    collect(a, w, v->out);
    return ST_OK;
}

static enum st explain(struct verifier *v, const struct program *p, struct err *e)
{
    struct watch *w = arena_one(v->l->a, struct watch);
    size_t at[MOST_REPLAYS] = {0};
    struct byte b = {0};
    w->l = v->l;
    while (next_byte(v, at, &b))
        if (judge(v, &b) && !watch_byte(v->l->a, w, &b))
            v->out->writers_cut = true;
    for (int r = 0; r < v->replays; r++)
        if (v->different[r].cut) { /* more than could be kept: not one by one */
            v->out->wrong++;
            v->out->writers_cut = true;
        }
    return w->n ? find_writers(v, p, w, e) : ST_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static enum st verify(struct verifier *v, const struct program *p, struct err *e)
{
    struct issue i;
    int replays = v->params->replays ? v->params->replays : 3;
    if (replays > MOST_REPLAYS)
        replays = MOST_REPLAYS;
    plan(v);
    TRY(capsule_memory_open(v->l->c, false, &v->memory, e));
    TRY(capsule_memory_open(v->l->c, true, &v->after, e));
    TRY(issue_open(v->l, p, &i, e));
    enum st st = replay_once(v, &i, e);
    while (st == ST_OK && v->different[0].n && v->replays < replays)
        st = replay_once(v, &i, e);
    issue_close(&i);
    return st == ST_OK ? explain(v, p, e) : st;
}

enum st verify_region(struct load *l, const struct program *p, const struct verify_params *params,
                      struct verified *out, struct err *e)
{
    struct verifier v = {.l = l, .params = params, .out = out};
    *out = (struct verified){0};
    v.expected = mem_alloc(CAPSULE_PAGE_BYTES);
    v.actual = mem_alloc(CAPSULE_PAGE_BYTES);
    const enum st st = verify(&v, p, e);
    capsule_memory_close(&v.memory);
    capsule_memory_close(&v.after);
    for (int r = 0; r < MOST_REPLAYS; r++)
        vec_free(&v.different[r]);
    vec_free(&v.stretches);
    mem_free(v.expected);
    mem_free(v.actual);
    return st;
}
