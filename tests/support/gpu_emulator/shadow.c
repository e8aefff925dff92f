#include "support/gpu_emulator/shadow.h"

#include <string.h>

#include "base/arena.h"
#include "base/err.h"

enum {
    GRAIN = 2, /* bytes told apart */
    PAGE = 4096,
    PAGES = 1 << 18,     /* in the table */
    KEPT_PAGES = 1 << 11 /* from launch to launch */
};

/* ---- a mark in 8 bytes ----------------------------------------------------------------------- */

static uint64_t packed(const struct shadow_mark *m)
{
    return (uint64_t)m->thread << 39 | (uint64_t)m->epoch << 24 | m->kind << 22 | m->pc;
}

static struct shadow_mark unpacked(uint64_t v)
{
    return (struct shadow_mark){(unsigned)(v >> 39), v >> 24 & (SHADOW_EPOCHS - 1), v >> 22 & 3,
                                v & (SHADOW_PCS - 1)};
}

static bool behind(const struct racer *t, uint64_t v)
{
    return races_ordered(t, (unsigned)(v >> 39), v >> 24 & (SHADOW_EPOCHS - 1));
}

/* An atomic access is ordered with others by itself. */
static bool conflicts(const struct racer *t, uint64_t v, const struct shadow_mark *m)
{
    if (m->kind == RACES_ATOMIC && (v >> 22 & 3) == RACES_ATOMIC)
        return false;
    return v && v >> 24 != ((uint64_t)m->thread << 15 | m->epoch) && !behind(t, v);
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Lanes of a warp that read in one epoch, the first of them as a mark. */
struct readers {
    uint64_t first;
    uint32_t lanes;
};

struct shared_cell {
    unsigned generation; /* of the block that touched it */
    unsigned n, room;
    uint64_t write; /* the last, or an atomic access */
    struct readers *readers;
};

struct shared {
    uintptr_t at;
    size_t bytes;
    unsigned generation;
    struct shared_cell *cells;
};

static void shared_size(struct shared *s, size_t bytes)
{
    for (size_t i = 0; s->cells && i <= s->bytes / GRAIN; i++)
        mem_free(s->cells[i].readers);
    mem_free(s->cells);
    const size_t n = (bytes / GRAIN + 1) * sizeof *s->cells;
    *s = (struct shared){.bytes = bytes, .cells = memset(mem_alloc(n), 0, n)};
}

/* The reader that is in nobody's way: dropped, since who is not ordered behind it is not ordered
 * behind the one who comes now. */
static bool all_behind(const struct racer *t, const struct readers *a)
{
    const uint64_t one = 1ULL << 39;
    const unsigned lane = (unsigned)(a->first >> 39) % 32;
    for (uint32_t left = a->lanes; left; left &= left - 1)
        if (!behind(t, a->first + one * (unsigned)__builtin_ctz(left) - one * lane))
            return false;
    return true;
}

static void add_reader(const struct racer *t, struct shared_cell *c, uint64_t v)
{
    const unsigned lane = (unsigned)(v >> 39) % 32;
    unsigned kept = 0;
    for (unsigned i = 0; i < c->n; i++) {
        struct readers *a = &c->readers[i];
        if (a->first >> 44 == v >> 44 && (a->first ^ v) >> 24 << 49 == 0) {
            a->lanes |= 1U << lane;
            return;
        }
    }
    for (unsigned i = 0; i < c->n; i++)
        if (!all_behind(t, &c->readers[i]))
            c->readers[kept++] = c->readers[i];
    c->n = kept;
    if (c->n == c->room) {
        c->room = c->room ? 2 * c->room : 4;
        c->readers = mem_resize(c->readers, c->room * sizeof *c->readers);
    }
    c->readers[c->n++] = (struct readers){v, 1U << lane};
}

/* Marks the cell; returns 0, or the mark that was in the way. */
static uint64_t touch_shared(const struct racer *t, struct shared *s, size_t at,
                             const struct shadow_mark *m)
{
    struct shared_cell *c = &s->cells[at / GRAIN];
    const uint64_t v = packed(m);
    if (c->generation != s->generation) {
        c->generation = s->generation;
        c->n = 0;
        c->write = 0;
    }
    uint64_t other = conflicts(t, c->write, m) ? c->write : 0;
    if (m->kind == RACES_READ) {
        add_reader(t, c, v);
        return other;
    }
    for (unsigned i = 0; i < c->n && !other; i++)
        if (!all_behind(t, &c->readers[i]))
            other = c->readers[i].first;
    c->n = 0;
    c->write = v;
    return other;
}

/* ---- other memory ---------------------------------------------------------------------------- */

struct cell {
    uint64_t write, first, last; /* the last write or atomic access; readers since */
};

struct page {
    uintptr_t number; /* 0 = free */
    unsigned launch;
    struct cell *cells;
};

static struct {
    struct page *pages; /* [PAGES] by number */
    unsigned n_pages, launch;
    struct page *last;
    struct shared fixed, *dynamic; /* static of all programs; of each slot */
    unsigned n_dynamic;
} s;

static struct page *page_of(uintptr_t at)
{
    enum { CELLS = PAGE / GRAIN };
    const uintptr_t number = at / PAGE;
    if (!s.last || s.last->number != number) {
        size_t i = number * 0x9e3779b97f4a7c15ULL >> 46;
        while (s.pages[i].number && s.pages[i].number != number)
            i = (i + 1) % PAGES;
        s.last = &s.pages[i];
    }
    struct page *p = s.last;
    if (!p->number) {
        ASSERT(++s.n_pages < PAGES / 2);
        *p = (struct page){number, s.launch - 1, mem_alloc(CELLS * sizeof *p->cells)};
    }
    if (p->launch != s.launch) {
        memset(p->cells, 0, CELLS * sizeof *p->cells);
        p->launch = s.launch;
    }
    return p;
}

static uint64_t touch_other(const struct racer *t, uintptr_t at, const struct shadow_mark *m)
{
    struct cell *c = &page_of(at)->cells[at % PAGE / GRAIN];
    const uint64_t v = packed(m);
    uint64_t other = conflicts(t, c->write, m) ? c->write : 0;
    if (m->kind == RACES_READ) {
        *(c->first && !behind(t, c->first) ? &c->last : &c->first) = v;
        return other;
    }
    if (c->first && !behind(t, c->first))
        other = c->first;
    if (c->last && !behind(t, c->last))
        other = c->last;
    *c = (struct cell){.write = v};
    return other;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The linker's: where static variables begin and end that have no first value. Of those, kernels
 * touch their static shared memory only (device.hpp). */
extern char __bss_start[], _end[];

void shadow_begin(unsigned blocks_at_once, size_t shared_bytes)
{
    if (!s.pages)
        s.pages = memset(mem_alloc(PAGES * sizeof *s.pages), 0, PAGES * sizeof *s.pages);
    if (s.n_pages > KEPT_PAGES) {
        for (size_t i = 0; i < PAGES; i++)
            mem_free(s.pages[i].cells);
        memset(s.pages, 0, PAGES * sizeof *s.pages);
        s.n_pages = 0;
    }
    s.last = NULL;
    s.launch++;
    if (!s.fixed.cells) {
        shared_size(&s.fixed, (size_t)(_end - __bss_start));
        s.fixed.at = (uintptr_t)__bss_start;
    }
    for (unsigned i = 0; i < s.n_dynamic; i++)
        shared_size(&s.dynamic[i], 0);
    for (unsigned i = 0; i < s.n_dynamic; i++)
        mem_free(s.dynamic[i].cells);
    mem_free(s.dynamic);
    s.n_dynamic = blocks_at_once;
    s.dynamic = mem_alloc(blocks_at_once * sizeof *s.dynamic);
    memset(s.dynamic, 0, blocks_at_once * sizeof *s.dynamic);
    for (unsigned i = 0; i < blocks_at_once; i++)
        shared_size(&s.dynamic[i], shared_bytes);
}

void shadow_block(unsigned slot, const void *shared)
{
    s.fixed.generation++;
    s.dynamic[slot].generation++;
    s.dynamic[slot].at = (uintptr_t)shared;
}

static struct shared *shared_of(unsigned slot, uintptr_t at)
{
    return at - s.fixed.at < s.fixed.bytes                   ? &s.fixed
           : at - s.dynamic[slot].at < s.dynamic[slot].bytes ? &s.dynamic[slot]
                                                             : NULL;
}

bool shadow_touch(const struct racer *t, unsigned slot, const void *p, size_t bytes,
                  const struct shadow_mark *m, struct shadow_conflict *c)
{
    const uintptr_t first = (uintptr_t)p, end = first + bytes;
    struct shared *shared = shared_of(slot, first);
    bool found = false;
    for (uintptr_t at = first / GRAIN * GRAIN; at < end; at += GRAIN) {
        const uint64_t other =
            shared ? touch_shared(t, shared, at - shared->at, m) : touch_other(t, at, m);
        if (!other || found)
            continue;
        *c = (struct shadow_conflict){.with = unpacked(other)};
        if (shared) {
            c->shared = shared == &s.fixed ? "static shared memory" : "dynamic shared memory";
            c->at = at - shared->at;
        }
        found = true;
    }
    return found;
}

void shadow_settle(unsigned slot, const void *p, size_t bytes, const struct shadow_mark *m)
{
    const struct shared *shared = &s.dynamic[slot];
    const size_t first = (uintptr_t)p - shared->at;
    for (size_t at = first; at < first + bytes; at += GRAIN) {
        uint64_t *write = &shared->cells[at / GRAIN].write;
        struct shadow_mark now = unpacked(*write);
        if (now.thread != m->thread || now.epoch != SHADOW_PENDING)
            continue;
        now.epoch = m->epoch;
        *write = packed(&now);
    }
}
