#include "replay/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "capsule/file.h"
#include "gpu/stream.h"
#include "replay/writers.h"

enum { MOST_REPLAYS = VERIFY_REPLAYS, LEAST_REPLAYS = 3, MOST_DIFFERENT = 16 << 20 };
static const unsigned char fills[] = {0x00, 0xff, 0x5a, 0xa5, 0x33, 0xcc, 0x0f, 0xf0};

/* A stretch of memory with what it should hold: part of a piece of the capsule. */
struct verified_stretch {
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
    VEC(struct verified_stretch) stretches;
    struct capsule_memory_reader *memory, *after;
    unsigned char *expected, *actual; /* of CAPSULE_PAGE_BYTES */
    struct different_list different[MOST_REPLAYS];
    int replays; /* done */
};

/* ---- what is compared ------------------------------------------------------------------------ */

static int by_address(const void *x, const void *y)
{
    const struct verified_stretch *a = x, *b = y;
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
            vec_push(&v->stretches, (struct verified_stretch){from, x->address - from, p, false});
        from = end;
    }
    if (from < to)
        vec_push(&v->stretches, (struct verified_stretch){from, to - from, p, false});
}

static void plan(struct verifier *v)
{
    const struct capsule *c = v->l->c;
    size_t k = 0;
    for (size_t i = 0; i < c->n_after; i++) {
        const struct capsule_page *p = &c->after[i];
        vec_push(&v->stretches, (struct verified_stretch){p->address, p->bytes, p, true});
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
    const size_t unit = numbers_bytes(t);
    for (size_t i = 0; i < n;) {
        const bool whole = t != VERIFY_BYTES && (at + i) % unit == 0 && i + unit <= n;
        const size_t step = whole ? unit : 1;
        if (memcmp(v->expected + i, v->actual + i, step) != 0) {
            const double d = whole ? numbers_apart(v->expected + i, v->actual + i, t) : INFINITY;
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

static enum st compare_stretch(struct verifier *v, const struct verified_stretch *s, struct err *e)
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

enum verify_kind { UNDEFINED, VARIES, ALIKE };

static enum verify_kind kind_of(const struct verifier *v, const struct byte *b)
{
    bool varies = false, untouched = true;
    for (int r = 0; r < v->replays; r++) {
        varies = varies || b->actual[r] != b->actual[0];
        untouched = untouched && b->actual[r] == fills[r];
    }
    return untouched && is_born(v->l->c, b->at) ? UNDEFINED : varies ? VARIES : ALIKE;
}

static void count_kinds(const struct verifier *v, uint64_t n[3])
{
    size_t at[MOST_REPLAYS] = {0};
    struct byte b = {0};
    memset(n, 0, 3 * sizeof *n);
    while (next_byte(v, at, &b))
        n[kind_of(v, &b)]++;
}

/* ---- far and near ---------------------------------------------------------------------------- */

static void widen(struct verify_apart *x, uint64_t bytes)
{
    x->low = bytes < x->low ? bytes : x->low;
    x->high = bytes > x->high ? bytes : x->high;
}

/* Bytes in which each two replays differ, and each replay and the program. */
static void measure_apart(struct verifier *v)
{
    uint64_t two[MOST_REPLAYS][MOST_REPLAYS] = {0}, program[MOST_REPLAYS] = {0};
    size_t at[MOST_REPLAYS] = {0};
    struct byte b = {0};
    while (next_byte(v, at, &b)) {
        if (kind_of(v, &b) == UNDEFINED)
            continue;
        for (int r = 0; r < v->replays; r++) {
            program[r] += b.actual[r] != b.expected;
            for (int s = 0; s < r; s++)
                two[r][s] += b.actual[r] != b.actual[s];
        }
    }
    v->out->replays_apart = v->out->program_apart = (struct verify_apart){UINT64_MAX, 0};
    for (int r = 0; r < v->replays; r++) {
        widen(&v->out->program_apart, program[r]);
        for (int s = 0; s < r; s++)
            widen(&v->out->replays_apart, two[r][s]);
    }
    v->out->apart_known = true;
}

/* After measure_apart. */
static bool is_unlike(const struct verified *v)
{
    return v->apart_known && v->program_apart.low > v->replays_apart.high;
}

/* ---- writers --------------------------------------------------------------------------------- */

static int by_bytes(const void *x, const void *y)
{
    const struct verify_writer *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

static void add_wrong(struct verified *out, uint64_t at)
{
    if (out->wrong++ == 0)
        out->first_wrong = at;
}

/* A thread stores up to 16 bytes at once, aligned. What it stores may be what was there in some of
 * them, so that the store before it counts as their writer: whether an operation behind that one,
 * which varies, wrote into the same 16 bytes. Bytes are sorted. */
static bool is_beside_later(const struct writers_byte *bytes, size_t n, size_t i,
                            const bool *varies)
{
    enum { STORE = 16 };
    const uint64_t word = bytes[i].at / STORE;
    size_t k = i;
    while (k > 0 && bytes[k - 1].at / STORE == word)
        k--;
    for (; k < n && bytes[k].at / STORE == word; k++)
        if (bytes[k].writer > bytes[i].writer && varies[bytes[k].writer - 1])
            return true;
    return false;
}

/* all [n_ops + 1]: the last is for bytes without a writer. */
static void settle(struct verifier *v, const struct writers_byte *bytes, size_t n, size_t followed)
{
    const size_t n_ops = v->l->c->n_ops;
    struct verify_writer *all = arena_array(v->l->a, struct verify_writer, n_ops + 1);
    bool *varies = arena_array(v->l->a, bool, n_ops + 1);
    for (size_t i = 0; i < n_ops; i++)
        all[i].op = i;
    for (size_t i = 0; i < followed; i++)
        if (bytes[i].varies && bytes[i].writer)
            varies[bytes[i].writer - 1] = true;
    for (size_t i = 0; i < n; i++) {
        const size_t op = i < followed && bytes[i].writer ? bytes[i].writer - 1 : n_ops;
        all[op].bytes++;
        if (bytes[i].varies)
            continue;
        if (varies[op] || (i < followed && is_beside_later(bytes, followed, i, varies))) {
            v->out->unsettled++;
            all[op].unsettled++;
        } else {
            add_wrong(v->out, bytes[i].at);
            all[op].wrong++;
        }
    }
    qsort(all, n_ops, sizeof *all, by_bytes);
    size_t writers = 0;
    while (writers < n_ops && all[writers].bytes)
        writers++;
    v->out->writers = all;
    v->out->n_writers = writers < VERIFY_WRITERS ? writers : VERIFY_WRITERS;
    v->out->more_writers = writers - v->out->n_writers;
}

static struct writers_byte to_follow(const struct verifier *v, const struct byte *b,
                                     enum verify_kind kind)
{
    struct writers_byte out = {
        .at = b->at, .usual = b->actual[0], .other = b->expected, .varies = kind == VARIES};
    for (int r = 1; r < v->replays && out.other == out.usual; r++)
        out.other = b->actual[r];
    return out;
}

/* Counts all bytes that differ, and finds who wrote the first VERIFY_FOLLOWED of them. Whether the
 * others are wrong is not known if they are alike: they count as wrong. */
static enum st explain(struct verifier *v, const struct program *p, struct err *e)
{
    VEC(struct writers_byte) bytes = {0};
    size_t at[MOST_REPLAYS] = {0}, followed = 0;
    struct byte b = {0};
    while (next_byte(v, at, &b)) {
        const enum verify_kind kind = kind_of(v, &b);
        v->out->undefined += kind == UNDEFINED;
        v->out->nondeterministic += kind == VARIES;
        if (kind == UNDEFINED)
            continue;
        if (bytes.n < VERIFY_FOLLOWED) {
            vec_push(&bytes, to_follow(v, &b, kind));
        } else {
            v->out->writers_cut = true;
            if (kind == ALIKE)
                add_wrong(v->out, b.at);
        }
    }
    const enum st st =
        bytes.n ? writers_find(v->l, p, fills[0], bytes.p, bytes.n, &followed, e) : ST_OK;
    if (st == ST_OK && bytes.n)
        settle(v, bytes.p, bytes.n, followed);
    v->out->writers_cut = v->out->writers_cut || followed < bytes.n;
    vec_free(&bytes);
    return st;
}

/* ---- the source ------------------------------------------------------------------------------ */

static int by_start(const void *x, const void *y)
{
    const struct place_span *a = x, *b = y;
    return a->at < b->at ? -1 : a->at > b->at;
}

static void add_page(struct place_span *pages, size_t *n, const struct capsule_page *p)
{
    pages[(*n)++] = (struct place_span){p->address, p->bytes};
}

/* The captured pages that the program changes, and those in which a replay differs from it. */
static struct place_span *changing_pages(const struct verifier *v, size_t *n)
{
    const struct capsule *c = v->l->c;
    struct place_span *pages = arena_array(v->l->a, struct place_span, c->n_after + c->n_pages);
    size_t after = 0;
    *n = 0;
    for (size_t i = 0; i < c->n_after; i++)
        add_page(pages, n, &c->after[i]);
    size_t at[MOST_REPLAYS] = {0}, page = 0;
    struct byte b = {0};
    uint64_t until = 0;
    while (next_byte(v, at, &b)) {
        if (b.at < until)
            continue;
        while (after < c->n_after && c->after[after].address + c->after[after].bytes <= b.at)
            after++;
        while (page < c->n_pages && c->pages[page].address + c->pages[page].bytes <= b.at)
            page++;
        if (after < c->n_after && c->after[after].address <= b.at) {
            until = c->after[after].address + c->after[after].bytes;
        } else if (page < c->n_pages && c->pages[page].address <= b.at) {
            until = c->pages[page].address + c->pages[page].bytes;
            add_page(pages, n, &c->pages[page]);
        }
    }
    qsort(pages, *n, sizeof *pages, by_start);
    return pages;
}

static struct source_params source_params_of(const struct verifier *v)
{
    return (struct source_params){.fill = fills[0], .stop = v->params->stop};
}

static enum st find_source(struct verifier *v, const struct program *p, struct err *e)
{
    struct source_params params = source_params_of(v);
    params.pages = changing_pages(v, &params.n_pages);
    return source_find(v->l, p, &params, &v->out->source, e);
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool is_cut(const struct verifier *v)
{
    bool cut = false;
    for (int r = 0; r < v->replays; r++)
        cut = cut || v->different[r].cut;
    return cut;
}

/* More replays may tell more: the last found bytes that vary and had not, or, of few replays, none
 * is like the program. */
static bool goes_on(struct verifier *v, const uint64_t n[3], uint64_t varied)
{
    if (n[VARIES] == 0 || is_cut(v))
        return false;
    if (n[ALIKE] && n[VARIES] > varied)
        return true;
    measure_apart(v);
    return is_unlike(v->out);
}

/* As many as are wanted; otherwise three, and on. */
static enum st replay_all(struct verifier *v, struct issue *i, struct err *e)
{
    const int wanted = v->params->replays;
    const int least = wanted ? wanted : LEAST_REPLAYS, most = wanted ? wanted : MOST_REPLAYS;
    uint64_t n[3] = {0}, before;
    TRY(replay_once(v, i, e));
    while (v->different[0].n && v->replays < MOST_REPLAYS && v->replays < least) {
        if (v->replays == least - 1)
            count_kinds(v, n);
        TRY(replay_once(v, i, e));
    }
    if (!v->different[0].n)
        return ST_OK;
    before = n[VARIES];
    count_kinds(v, n);
    while (v->replays < most && goes_on(v, n, before)) {
        before = n[VARIES];
        TRY(replay_once(v, i, e));
        count_kinds(v, n);
    }
    return ST_OK;
}

static enum st judge(struct verifier *v, const struct program *p, struct err *e)
{
    struct verified *out = v->out;
    const bool cut = is_cut(v);
    TRY(explain(v, p, e));
    if (cut) { /* more than could be kept: not one by one */
        out->wrong++;
        out->writers_cut = true;
    }
    if (out->nondeterministic && !cut)
        measure_apart(v);
    if (out->nondeterministic)
        TRY(find_source(v, p, e));
    if (out->changed == 0 && out->wrong == 0) {
        const struct source_params params = source_params_of(v);
        TRY(source_rewritten(v->l, p, &params, &out->rewritten, e));
    }
    out->verdict = out->wrong                       ? VERIFY_WRONG
                   : is_unlike(out)                 ? VERIFY_UNLIKE
                   : out->changed || out->rewritten ? VERIFY_SAME
                                                    : VERIFY_UNCHANGED;
    return ST_OK;
}

static enum st verify(struct verifier *v, const struct program *p, struct err *e)
{
    struct issue i;
    plan(v);
    TRY(capsule_memory_open(v->l->c, false, &v->memory, e));
    TRY(capsule_memory_open(v->l->c, true, &v->after, e));
    TRY(issue_open(v->l, p, &i, e));
    const enum st st = replay_all(v, &i, e);
    issue_close(&i);
    v->out->replays = v->replays;
    return st == ST_OK ? judge(v, p, e) : st;
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
