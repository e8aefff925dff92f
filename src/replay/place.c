#define _GNU_SOURCE /* MAP_FIXED_NOREPLACE */
#include "replay/place.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>

enum { HOST_PAGE_BYTES = 4096 };

static bool is_host(const struct capsule_allocation *x)
{
    return x->memory == CAPSULE_PINNED || x->memory == CAPSULE_REGISTERED;
}

static uint64_t down(uint64_t v, uint64_t grain)
{
    return v / grain * grain;
}

static uint64_t up(uint64_t v, uint64_t grain)
{
    return down(v + grain - 1, grain);
}

/* Allocations are sorted by address; they may overlap, one having been freed before the other. */
static void add(struct place_spans *s, uint64_t from, uint64_t to)
{
    struct place_span *last = s->n ? &s->p[s->n - 1] : NULL;
    if (last && from <= last->at + last->bytes) {
        if (to > last->at + last->bytes)
            last->bytes = to - last->at;
        return;
    }
    s->p[s->n++] = (struct place_span){from, to - from};
}

static struct place_spans cover(struct arena *a, const struct capsule *c, uint64_t grain)
{
    struct place_spans s = {arena_array(a, struct place_span, c->n_allocations), 0};
    for (size_t i = 0; i < c->n_allocations; i++) {
        const struct capsule_allocation *x = &c->allocations[i];
        if (!is_host(x) && x->bytes)
            add(&s, down(x->address, grain), up(x->address + x->bytes, grain));
    }
    return s;
}

/* The last span that begins at or before an address, or NULL. */
static const struct place_span *span_before(const struct place_spans *s, uint64_t at)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->p[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &s->p[low - 1] : NULL;
}

/* from < to */
static bool overlaps(const struct place_spans *s, uint64_t from, uint64_t to)
{
    const struct place_span *x = span_before(s, to - 1);
    return x && from < x->at + x->bytes;
}

static struct place_spans reservations(struct arena *a, const struct place_spans *mapped)
{
    struct place_spans s = {arena_array(a, struct place_span, mapped->n), 0};
    for (size_t i = 0; i < mapped->n; i++)
        add(&s, down(mapped->p[i].at, PLACE_RESERVE_BYTES),
            up(mapped->p[i].at + mapped->p[i].bytes, PLACE_RESERVE_BYTES));
    return s;
}

/* Pages of host memory that are, or are not, inside the reservations. */
static struct place_spans host_spans(struct arena *a, const struct capsule *c,
                                     const struct place_spans *reserved, bool inside)
{
    struct place_spans s = {arena_array(a, struct place_span, c->n_allocations), 0};
    const uint64_t grain = inside ? PLACE_MAP_BYTES : HOST_PAGE_BYTES;
    for (size_t i = 0; i < c->n_allocations; i++) {
        const struct capsule_allocation *x = &c->allocations[i];
        if (is_host(x) && x->bytes &&
            overlaps(reserved, x->address, x->address + x->bytes) == inside)
            add(&s, down(x->address, grain), up(x->address + x->bytes, grain));
    }
    return s;
}

enum st place_plan(struct arena *a, const struct capsule *c, struct place *out, struct err *e)
{
    *out = (struct place){.mapped = cover(a, c, PLACE_MAP_BYTES)};
    out->reserved = reservations(a, &out->mapped);
    out->host = host_spans(a, c, &out->reserved, false);
    out->host_inside = host_spans(a, c, &out->reserved, true);
    for (size_t i = 0; i < out->host_inside.n; i++) {
        const struct place_span *h = &out->host_inside.p[i];
        if (overlaps(&out->mapped, h->at, h->at + h->bytes) ||
            !place_contains(&out->reserved, h->at, h->bytes))
            return err_set(
                e, ST_INPUT,
                "host memory of the capsule lies in one page of 2 MiB with device memory, "
                "at 0x%llx",
                (unsigned long long)h->at);
    }
    return ST_OK;
}

bool place_randomise(bool on)
{
    const int now = personality(0xffffffff);
    const int want = on ? now & ~ADDR_NO_RANDOMIZE : now | ADDR_NO_RANDOMIZE;
    return now != -1 && (now == want || personality((unsigned long)want) != -1);
}

static bool is_free(struct place_span s)
{
    void *want = (void *)(uintptr_t)s.at;
    void *p = mmap(want, s.bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != MAP_FAILED) /* elsewhere: a kernel before 4.17, which takes the address for a wish */
        munmap(p, s.bytes);
    return p == want;
}

enum st place_check(struct place *p, struct err *e)
{
    const struct place_spans *lists[] = {&p->reserved, &p->host};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (!is_free(lists[l]->p[i])) {
                p->taken = lists[l]->p[i].at;
                return err_set(e, ST_DEVICE,
                               "this process has something at a captured address, in the %llu KiB "
                               "from 0x%llx",
                               (unsigned long long)lists[l]->p[i].bytes >> 10,
                               (unsigned long long)lists[l]->p[i].at);
            }
    return ST_OK;
}

bool place_contains(const struct place_spans *s, uint64_t at, uint64_t bytes)
{
    const struct place_span *x = span_before(s, at);
    return x && at - x->at <= x->bytes && bytes <= x->bytes - (at - x->at);
}
