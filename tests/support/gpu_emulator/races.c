#include "support/gpu_emulator/races.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "support/gpu_emulator/clocks.h"
#include "support/gpu_emulator/shadow.h"
#include "support/gpu_emulator/stack.h"

enum { PLACES = 256, PLACE_TEXT = 64, KEYS = 1 << 14 };

/* What hands over by the address of a word: atomics, mbarriers. */
struct word {
    uintptr_t at; /* 0 = free */
    unsigned n, room;
    unsigned *handovers;          /* that a reader sees */
    struct meeting phase, passed; /* of an mbarrier: the arrivals now, those of the last phase */
};

/* What a fence in front of an atomic write gave out. */
struct handover {
    unsigned block;
    struct clock *fenced;
};

struct racer {
    unsigned slot, block, index; /* block: number in the grid; thread in it */
    uint32_t epoch;
    struct clock *now;    /* behind that it is ordered */
    struct clock *fenced; /* what its atomic writes hand over */
    struct clock *seen;   /* what its next fence orders it behind */
    uintptr_t *copies;    /* begun; those from `copied` on are under way */
    unsigned n_copies, copied, room;
};

static struct {
    bool on;
    unsigned n_slots, n_threads;
    struct racer *racers;
    struct racer *now;  /* NULL: the emulator itself */
    struct word *words; /* [KEYS] */
    bool mbarriers;     /* are among them */
    struct handover *handovers;
    unsigned n_handovers, handovers_room;
    char places[PLACES][PLACE_TEXT];
    int n_places;
    char without[PLACE_TEXT];
    struct {
        struct shadow_conflict with; /* with.at: of `bytes` at p, which held `before` */
        struct shadow_mark m;
        const char *p;
        size_t bytes;
        char before[16];
    } doubt; /* bytes 0: none */
    long found;
} r;

bool emulator_finds_races(void)
{
#if defined(EMULATOR_RACES)
    return true;
#else
    return false;
#endif
}

long emulator_races(void)
{
    return r.found;
}

/* ---- places that order ----------------------------------------------------------------------- */

const char *emulator_order_place(int i)
{
    return i < r.n_places ? r.places[i] : NULL;
}

void emulator_forget_order_places(void)
{
    r.n_places = 0;
}

void emulator_without(const char *place)
{
    snprintf(r.without, sizeof r.without, "%s", place ? place : "");
}

bool races_counts(struct emulator_source at)
{
    static struct emulator_source last;
    static int last_of;
    static char text[PLACE_TEXT];
    if (!r.on)
        return true;
    if (at.line != last.line || at.file != last.file || last_of >= r.n_places) {
        const char *name = strrchr(at.file, '/');
        snprintf(text, sizeof text, "%s:%d", name ? name + 1 : at.file, at.line);
        last = at;
        for (last_of = 0; last_of < r.n_places; last_of++)
            if (strcmp(r.places[last_of], text) == 0)
                break;
        ASSERT(last_of < PLACES);
        if (last_of == r.n_places)
            memcpy(r.places[r.n_places++], text, sizeof text);
    }
    return strcmp(r.without, text) != 0;
}

/* ---- a launch -------------------------------------------------------------------------------- */

static void *zeros(size_t bytes)
{
    return memset(mem_alloc(bytes), 0, bytes);
}

/* Room for twice as many, at least for 16. */
static void *grown(void *old, unsigned *room, size_t each)
{
    *room = *room ? 2 * *room : 16;
    return mem_resize(old, *room * each);
}

void races_begin(bool on, unsigned blocks_at_once, unsigned threads, size_t shared_bytes)
{
    r.on = on && emulator_finds_races();
    if (!r.on)
        return;
    r.n_slots = blocks_at_once;
    r.n_threads = threads;
    r.racers = zeros((size_t)blocks_at_once * threads * sizeof *r.racers);
    if (!r.words)
        r.words = zeros(KEYS * sizeof *r.words);
    clocks_begin(threads);
    shadow_begin(blocks_at_once, shared_bytes);
}

static void drop_clocks(struct racer *t)
{
    clock_drop(&t->now);
    clock_drop(&t->fenced);
    clock_drop(&t->seen);
}

void races_forget(struct meeting *m)
{
    clock_drop(&m->now);
    clock_drop(&m->fenced);
    clock_drop(&m->seen);
    clock_drop(&m->last);
}

static void forget_mbarriers(void)
{
    for (unsigned i = 0; r.mbarriers && i < KEYS; i++) {
        races_forget(&r.words[i].phase);
        races_forget(&r.words[i].passed);
    }
    r.mbarriers = false;
}

void races_end(void)
{
    if (!r.on)
        return;
    forget_mbarriers();
    for (unsigned i = 0; i < r.n_slots * r.n_threads; i++) {
        drop_clocks(&r.racers[i]);
        mem_free(r.racers[i].copies);
    }
    for (unsigned i = 0; i < KEYS; i++)
        mem_free(r.words[i].handovers);
    memset(r.words, 0, KEYS * sizeof *r.words);
    for (unsigned i = 0; i < r.n_handovers; i++)
        clock_drop(&r.handovers[i].fenced);
    mem_free(r.handovers);
    mem_free(r.racers);
    r.handovers = NULL;
    r.n_handovers = r.handovers_room = 0;
    r.now = NULL;
    r.on = false;
}

void races_block(unsigned slot, unsigned number, const void *shared)
{
    if (!r.on)
        return;
    ASSERT((number + 1ULL) * r.n_threads <= SHADOW_THREADS);
    if (r.n_slots == 1)
        forget_mbarriers();
    shadow_block(slot, shared);
    for (unsigned i = 0; i < r.n_threads; i++) {
        struct racer *t = &r.racers[slot * r.n_threads + i];
        drop_clocks(t);
        mem_free(t->copies);
        *t = (struct racer){.slot = slot, .block = number, .index = i, .epoch = 1};
    }
}

struct racer *races_thread(unsigned slot, unsigned thread)
{
    return r.on ? &r.racers[slot * r.n_threads + thread] : NULL;
}

void races_turn(struct racer *now)
{
    r.now = now;
}

/* ---- what orders ----------------------------------------------------------------------------- */

/* What the thread does from here on is not what it has handed over. */
static void next_epoch(struct racer *t)
{
    if (++t->epoch >= SHADOW_PENDING)
        emulator_fault("more than %d barriers and fences of a thread: no room to look for races",
                       SHADOW_PENDING);
}

void races_come(struct meeting *m, struct racer *t)
{
    if (!r.on)
        return;
    if (t->now != m->last) {
        clock_join(&m->now, t->now);
        clock_drop(&m->last);
        m->last = clock_share(t->now);
    }
    clock_own(&m->now)->epochs[t->index] = t->epoch;
    clock_join(&m->fenced, t->fenced);
    clock_join(&m->seen, t->seen);
    next_epoch(t);
}

static void become(struct clock **mine, struct clock *theirs)
{
    clock_drop(mine);
    *mine = clock_share(theirs);
}

/* Of one who came: there is nothing in its own clocks that is not in those of the meeting. */
void races_leave(const struct meeting *m, struct racer *t)
{
    if (!r.on)
        return;
    become(&t->now, m->now);
    become(&t->fenced, m->fenced);
    become(&t->seen, m->seen);
}

void races_fence(struct racer *t)
{
    if (!r.on)
        return;
    clock_join(&t->now, t->seen);
    clock_drop(&t->fenced);
    t->fenced = clock_share(t->now);
    clock_own(&t->fenced)->epochs[t->index] = t->epoch;
    next_epoch(t);
}

static struct word *word_at(const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    size_t i = at / 4 * 0x9e3779b97f4a7c15ULL >> 50;
    for (int tries = 0; r.words[i].at && r.words[i].at != at; i = (i + 1) % KEYS)
        ASSERT(++tries < KEYS);
    r.words[i].at = at;
    return &r.words[i];
}

static void hand_over(struct word *w, struct racer *t)
{
    if (w->n > 0 && r.handovers[w->handovers[w->n - 1]].fenced == t->fenced)
        return;
    if (r.n_handovers == r.handovers_room)
        r.handovers = grown(r.handovers, &r.handovers_room, sizeof *r.handovers);
    if (w->n == w->room)
        w->handovers = grown(w->handovers, &w->room, sizeof *w->handovers);
    r.handovers[r.n_handovers] = (struct handover){t->block, clock_share(t->fenced)};
    w->handovers[w->n++] = r.n_handovers++;
}

/* A write that is not a read too ends what writes before it handed over. Words without fences are
 * many, and hand nothing over. */
void races_atomic(struct racer *t, const void *p, size_t bytes, bool takes, bool gives,
                  const void *pc)
{
    if (!r.on)
        return;
    races_access(t, p, bytes, RACES_ATOMIC, pc);
    if (r.n_handovers == 0 && !t->fenced)
        return;
    struct word *w = word_at(p);
    for (unsigned i = 0; takes && i < w->n; i++) {
        const struct handover *h = &r.handovers[w->handovers[i]];
        if (h->block == t->block)
            clock_join(&t->seen, h->fenced);
        clock_saw(&t->seen, w->handovers[i], h->fenced);
    }
    if (gives && !takes)
        w->n = 0;
    if (gives && t->fenced)
        hand_over(w, t);
}

void races_mbarrier_arrive(struct racer *t, const void *mbarrier, bool counts, bool completes)
{
    if (!r.on)
        return;
    struct word *w = word_at(mbarrier);
    r.mbarriers = true;
    if (counts)
        races_come(&w->phase, t);
    if (completes) {
        races_forget(&w->passed);
        w->passed = w->phase;
        w->phase = (struct meeting){0};
    }
}

void races_mbarrier_passed(struct racer *t, const void *mbarrier, bool counts)
{
    if (!r.on || !counts)
        return;
    const struct meeting *m = &word_at(mbarrier)->passed;
    clock_join(&t->now, m->now);
    clock_join(&t->fenced, m->fenced);
    clock_join(&t->seen, m->seen);
}

/* ---- accesses -------------------------------------------------------------------------------- */

static bool ordered_behind_block(const struct clock *c, unsigned block, unsigned index,
                                 uint32_t epoch)
{
    for (unsigned i = 0; i < clock_handovers_end(c); i++)
        if (clock_has_seen(c, i) && r.handovers[i].block == block &&
            r.handovers[i].fenced->epochs[index] >= epoch)
            return true;
    return false;
}

/* Whether what `t` does now is ordered behind that. */
bool races_ordered(const struct racer *t, unsigned thread, uint32_t epoch)
{
    const unsigned index = thread - t->block * r.n_threads;
    if (epoch == SHADOW_PENDING)
        return false;
    if (index < r.n_threads)
        return index == t->index || (t->now && t->now->epochs[index] >= epoch);
    return ordered_behind_block(t->now, thread / r.n_threads, thread % r.n_threads, epoch);
}

static const char *doing(const struct shadow_mark *m)
{
    return m->kind == RACES_ATOMIC      ? "touched by an atomic"
           : m->epoch == SHADOW_PENDING ? "being copied to"
           : m->kind == RACES_WRITE     ? "written"
                                        : "read";
}

/* Of the call, not behind it; 0: not known. */
static unsigned place_of(const struct shadow_mark *m)
{
    return m->pc ? m->pc - 1 : 0;
}

static void tell(const struct shadow_conflict *c, const struct shadow_mark *m, const void *p)
{
    char where[64];
    if (c->shared)
        snprintf(where, sizeof where, "byte %zu of %s", c->at, c->shared);
    else
        snprintf(where, sizeof where, "%p", p);
    const struct shadow_mark *a = &c->with;
    r.found++;
    r.now = NULL;
    r.doubt.bytes = 0;
    emulator_fault("a race at %s: %s by thread %u of block %u, then %s by thread %u of block %u, "
                   "and nothing orders them; addr2line -Cfie PROGRAM %#x %#x says where",
                   where, doing(a), a->thread % r.n_threads, a->thread / r.n_threads, doing(m),
                   m->thread % r.n_threads, m->thread / r.n_threads, place_of(a), place_of(m));
}

/* The store that was in doubt is done: it is a race unless it changed nothing. */
void races_settle(void)
{
    if (r.doubt.bytes == 0)
        return;
    if (memcmp(r.doubt.before, r.doubt.p, r.doubt.bytes) != 0)
        tell(&r.doubt.with, &r.doubt.m, r.doubt.p);
    r.doubt.bytes = 0;
}

static struct shadow_mark mark_of(const struct racer *t, enum races_kind kind, const void *pc)
{
    extern const char __executable_start[];
    const size_t place = pc ? (size_t)((const char *)pc - __executable_start) : 0;
    return (struct shadow_mark){.thread = t->block * r.n_threads + t->index,
                                .epoch = t->epoch,
                                .kind = kind,
                                .pc = place < SHADOW_PCS ? (unsigned)place : 0};
}

static void touch(struct racer *t, const void *p, size_t bytes, const struct shadow_mark *m)
{
    struct shadow_conflict c;
    races_settle();
    if (!shadow_touch(t, t->slot, p, bytes, m, &c))
        return;
    if (m->kind != RACES_WRITE || m->epoch == SHADOW_PENDING || bytes > sizeof r.doubt.before)
        tell(&c, m, p);
    r.doubt.with = c;
    r.doubt.m = *m;
    r.doubt.p = p;
    r.doubt.bytes = bytes;
    memcpy(r.doubt.before, p, bytes);
}

void races_access(struct racer *t, const void *p, size_t bytes, enum races_kind kind,
                  const void *pc)
{
    if (!r.on)
        return;
    const struct shadow_mark m = mark_of(t, kind, pc);
    touch(t, p, bytes, &m);
}

void races_hook(const void *p, size_t bytes, enum races_kind kind, const void *pc)
{
    if (r.now && !stacks_hold(p))
        races_access(r.now, p, bytes, kind, pc);
}

void races_copy(struct racer *t, const void *to, const void *pc)
{
    if (!r.on)
        return;
    struct shadow_mark m = mark_of(t, RACES_WRITE, pc);
    m.epoch = SHADOW_PENDING;
    touch(t, to, 16, &m);
    if (t->n_copies == t->room)
        t->copies = grown(t->copies, &t->room, sizeof *t->copies);
    t->copies[t->n_copies++] = (uintptr_t)to;
}

unsigned races_copies(const struct racer *t)
{
    return r.on ? t->n_copies : 0;
}

void races_copied(struct racer *t, unsigned n)
{
    if (!r.on)
        return;
    const struct shadow_mark m = mark_of(t, RACES_WRITE, NULL);
    for (; t->copied < n; t->copied++)
        shadow_settle(t->slot, (const void *)t->copies[t->copied], 16, &m);
}
