#include "support/gpu_emulator/clocks.h"

#include <string.h>

#include "base/arena.h"

static unsigned n_threads;
static struct {
    struct clock *a, *b, *both;
} joined;

static struct clock *copy_of(const struct clock *c)
{
    const size_t bytes = sizeof *c + n_threads * sizeof *c->epochs;
    struct clock *r = mem_alloc(bytes);
    if (!c)
        return memset(r, 0, bytes), r->owners = 1, r;
    memcpy(r, c, bytes);
    r->owners = 1;
    if (c->handovers) {
        r->handovers = mem_alloc(c->words * sizeof *c->handovers);
        memcpy(r->handovers, c->handovers, c->words * sizeof *c->handovers);
    }
    return r;
}

struct clock *clock_share(struct clock *c)
{
    if (c)
        c->owners++;
    return c;
}

void clock_drop(struct clock **c)
{
    if (*c && --(*c)->owners == 0) {
        mem_free((*c)->handovers);
        mem_free(*c);
    }
    *c = NULL;
}

struct clock *clock_own(struct clock **c)
{
    if (!*c || (*c)->owners > 1) {
        struct clock *mine = copy_of(*c);
        clock_drop(c);
        *c = mine;
    }
    return *c;
}

static void forget_joined(void)
{
    clock_drop(&joined.a);
    clock_drop(&joined.b);
    clock_drop(&joined.both);
}

void clocks_begin(unsigned threads)
{
    forget_joined();
    n_threads = threads;
}

static void make_room(struct clock *c, unsigned words)
{
    if (c->words >= words)
        return;
    uint64_t *more = mem_alloc(words * sizeof *more);
    memset(more, 0, words * sizeof *more);
    if (c->handovers)
        memcpy(more, c->handovers, c->words * sizeof *more);
    mem_free(c->handovers);
    c->handovers = more;
    c->words = words;
}

static void join_handovers(struct clock *c, const struct clock *from)
{
    make_room(c, from->words);
    for (unsigned i = 0; i < from->words; i++)
        c->handovers[i] |= from->handovers[i];
}

static void join(struct clock *c, const struct clock *from)
{
    for (unsigned i = 0; i < n_threads; i++)
        c->epochs[i] = c->epochs[i] > from->epochs[i] ? c->epochs[i] : from->epochs[i];
    join_handovers(c, from);
}

/* Lanes of a warp mostly have one clock and join the same to it: the last join is kept. */
void clock_join(struct clock **into, struct clock *from)
{
    if (!from || *into == from)
        return;
    if (!*into) {
        *into = clock_share(from);
        return;
    }
    if ((*into)->owners == 1) {
        join(*into, from);
        return;
    }
    if (*into != joined.a || from != joined.b) {
        forget_joined();
        joined.a = clock_share(*into);
        joined.b = clock_share(from);
        joined.both = copy_of(*into);
        join(joined.both, from);
    }
    clock_drop(into);
    *into = clock_share(joined.both);
}

void clock_saw(struct clock **into, unsigned handover, const struct clock *of)
{
    if (clock_has_seen(*into, handover))
        return;
    struct clock *c = clock_own(into);
    make_room(c, handover / 64 + 1);
    c->handovers[handover / 64] |= 1ULL << handover % 64;
    join_handovers(c, of);
}

bool clock_has_seen(const struct clock *c, unsigned handover)
{
    return c && handover / 64 < c->words && c->handovers[handover / 64] >> handover % 64 & 1;
}

unsigned clock_handovers_end(const struct clock *c)
{
    return c ? c->words * 64 : 0;
}
