/* Threads of a grid by turns. A warp goes on lane by lane until none of its lanes can; then the
 * next warp of the block has its turn, and so on through the blocks, again and again. */
#include "support/gpu_emulator/gpu_emulator.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "support/gpu_emulator/races.h"
#include "support/gpu_emulator/stack.h"

enum {
    BARRIERS = 16,
    COPIES = 256,     /* of a thread, under way */
    GROUPS = 8,       /* of copies, that one may wait for */
    IDLE_TURNS = 2000 /* without a write of any thread: they wait for nothing that comes */
};

struct copy {
    uint32_t to; /* from NULL: an mbarrier, to arrive there */
    int bytes;
    const void *from;
    unsigned copies;           /* of the thread so far: what the mbarrier stands for */
    struct emulator_source at; /* likewise */
};

struct thread {
    struct emulator_place *place; /* on its stack: accesses there are its own */
    struct racer *racer;
    struct warp *warp;
    int lane;
    void *stack;         /* where it stands */
    struct copy *copies; /* [COPIES], a ring; NULL = it never copied */
    unsigned first_copy, n_copies;
    unsigned begun;          /* copies so far */
    unsigned groups[GROUPS]; /* begun when each of the last groups was committed; a ring */
    unsigned n_groups;       /* so far */
};

struct warp {
    struct block *block;
    struct thread *threads;
    uint32_t ready, turned, left; /* lanes that can go on; can with the next turn; are gone */
    uint32_t at_barrier[BARRIERS];
    uint32_t ordered[BARRIERS]; /* of those, by a place that orders */
    uint32_t came, mask;        /* to the operation under way */
    enum emulator_op op;
    struct emulator_lane *lanes[32];
};

struct block {
    struct thread *threads;
    struct warp *warps;
    char *shared;
    struct {
        unsigned expected, came;
        struct meeting meeting;
    } barriers[BARRIERS];
};

static struct {
    struct emulator_launch launch;
    struct emulator_order order;
    struct block *blocks;
    unsigned n_blocks; /* at once */
    struct thread *now;
    void *scheduler; /* where it stands */
    const void *pc;  /* of the ldmatrix under way */
    long writes;     /* counts what a waiting thread may wait for */
    int left;        /* threads that have not ended */
    bool failed;
    char fault[600];
} e;

const struct emulator_place *emulator_place;

static const char *const op_names[EMULATOR_OPS] = {"syncwarp", "shuffle",  "ballot",   "mma",
                                                   "mma",      "ldmatrix", "ldmatrix", "movmatrix"};

/* ---- turns ----------------------------------------------------------------------------------- */

static struct thread *next_lane(struct warp *w, int after)
{
    const uint32_t ready = w->ready;
    if (!ready)
        return NULL;
    if (e.order.falling) {
        const uint32_t below = ready & ((1U << after) - 1);
        return &w->threads[31 - __builtin_clz(below ? below : ready)];
    }
    const uint32_t above = after < 31 ? ready & ~0U << (after + 1) : 0;
    return &w->threads[__builtin_ctz(above ? above : ready)];
}

/* The thread that runs leaves off: to the next lane of its warp, or to the scheduler. */
static void leave_off(void)
{
    if (!e.failed)
        races_settle();
    struct thread *me = e.now, *next = e.failed ? NULL : next_lane(me->warp, me->lane);
    e.now = next;
    emulator_place = next ? next->place : NULL;
    races_turn(next ? next->racer : NULL);
    stack_switch(&me->stack, next ? next->stack : e.scheduler);
}

static void wait_here(void)
{
    e.now->warp->ready &= ~(1U << e.now->lane);
    leave_off();
}

void emulator_fault(const char *fmt, ...)
{
    const struct emulator_dim b = e.now->place->block;
    va_list args;
    va_start(args, fmt);
    vsnprintf(e.fault, sizeof e.fault, fmt, args);
    va_end(args);
    const size_t n = strlen(e.fault);
    snprintf(e.fault + n, sizeof e.fault - n, " (block %u,%u,%u thread %u)", b.x, b.y, b.z,
             e.now->place->thread.x);
    e.failed = true;
    leave_off(); /* and never comes back */
    ASSERT(false);
    __builtin_unreachable();
}

static void copy_some(struct thread *t, unsigned keep);

void emulator_turn(void)
{
    struct thread *me = e.now;
    copy_some(me, 0);
    me->warp->turned |= 1U << me->lane;
    wait_here();
}

/* ---- a thread -------------------------------------------------------------------------------- */

static void thread_body(void)
{
    struct thread *me = e.now;
    struct warp *w = me->warp;
    e.launch.kernel(e.launch.args);
    copy_some(me, 0);
    if (w->came && w->mask >> me->lane & 1)
        emulator_fault("a lane ends that others wait for in a %s of mask %08x", op_names[w->op],
                       w->mask);
    w->left |= 1U << me->lane;
    e.left--;
    e.writes++;
    wait_here();
    ASSERT(false);
}

int emulator_lane_id(void)
{
    return e.now->lane;
}

uint64_t emulator_clock(void)
{
    static uint64_t asked;
    return ++asked;
}

unsigned emulator_block_threads(void)
{
    return e.launch.block;
}

/* ---- waiting for others ---------------------------------------------------------------------- */

/* Who has come by a place that orders has what the others who have did before. */
static void order_warp(struct warp *w)
{
    struct meeting m = {0};
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 32; i++) {
            if (!(w->mask >> i & 1) || !races_counts(w->lanes[i]->at))
                continue;
            if (turn == 0)
                races_come(&m, w->threads[i].racer);
            else
                races_leave(&m, w->threads[i].racer);
        }
    races_forget(&m);
}

void emulator_read(int lane, const void *p, size_t bytes)
{
    races_access(e.now->warp->threads[lane].racer, p, bytes, RACES_READ, e.pc);
}

void emulator_fence(struct emulator_source at)
{
    if (races_counts(at))
        races_fence(e.now->racer);
}

uint64_t emulator_atomic(enum emulator_atomic op, void *p, size_t bytes, uint64_t v)
{
    uint64_t before = 0;
    races_atomic(e.now->racer, p, bytes, op != EMULATOR_STORE, op != EMULATOR_LOAD,
                 __builtin_return_address(0));
    memcpy(&before, p, bytes); /* little-endian */
    if (op == EMULATOR_LOAD)
        return before;
    const uint64_t after = op == EMULATOR_ADD                 ? before + v
                           : op == EMULATOR_MAX && before > v ? before
                                                              : v;
    memcpy(p, &after, bytes);
    e.writes++;
    return before;
}

void emulator_warp(enum emulator_op op, unsigned mask, struct emulator_lane *mine)
{
    struct thread *me = e.now;
    struct warp *w = me->warp;
    const uint32_t bit = 1U << me->lane;
    if (!(mask & bit))
        emulator_fault("a %s of mask %08x by a lane that is not in it", op_names[op], mask);
    if (mask & w->left)
        emulator_fault("a %s of mask %08x, of which lanes %08x have ended", op_names[op], mask,
                       mask & w->left);
    if (w->came && (w->op != op || w->mask != mask))
        emulator_fault(
            "lanes of a warp differ: %08x at a %s of mask %08x, this one at a %s of %08x", w->came,
            op_names[w->op], w->mask, op_names[op], mask);
    w->op = op;
    w->mask = mask;
    w->came |= bit;
    w->lanes[me->lane] = mine;
    if (w->came != mask) {
        wait_here();
        return;
    }
    if (op == EMULATOR_SYNCWARP)
        order_warp(w);
    e.pc = __builtin_return_address(0);
    emulator_warp_run(op, mask, w->lanes);
    w->came = 0;
    w->ready |= mask;
    e.writes++;
}

void emulator_barrier(int id, unsigned threads, struct emulator_source at)
{
    struct thread *me = e.now;
    struct block *b = me->warp->block;
    const unsigned warps = e.launch.block / 32;
    if (id < 0 || id >= BARRIERS || threads == 0 || threads % 32 != 0 || threads > e.launch.block)
        emulator_fault("barrier %d for %u threads: there are 16, for whole warps of the block", id,
                       threads);
    if (b->barriers[id].came && b->barriers[id].expected != threads)
        emulator_fault("barrier %d for %u threads, where others came for %u", id, threads,
                       b->barriers[id].expected);
    b->barriers[id].expected = threads;
    e.writes++;
    me->warp->at_barrier[id] |= 1U << me->lane;
    if (races_counts(at)) {
        me->warp->ordered[id] |= 1U << me->lane;
        races_come(&b->barriers[id].meeting, me->racer);
    }
    if (++b->barriers[id].came < threads) {
        wait_here();
        return;
    }
    b->barriers[id].came = 0;
    for (unsigned i = 0; i < warps; i++) {
        struct warp *w = &b->warps[i];
        for (uint32_t left = w->ordered[id]; left; left &= left - 1)
            races_leave(&b->barriers[id].meeting, w->threads[__builtin_ctz(left)].racer);
        w->ready |= w->at_barrier[id];
        w->at_barrier[id] = w->ordered[id] = 0;
    }
    races_forget(&b->barriers[id].meeting);
}

/* ---- shared memory --------------------------------------------------------------------------- */

enum { SHARED_BASE = 1024 }; /* so that 0 is no address */

void *emulator_shared(void)
{
    return e.now->warp->block->shared;
}

uint32_t emulator_shared_address(const void *p)
{
    const char *shared = e.now->warp->block->shared;
    if ((const char *)p < shared || (const char *)p > shared + e.launch.shared_bytes)
        emulator_fault("an address that is not in the block's dynamic shared memory");
    return SHARED_BASE + (uint32_t)((const char *)p - shared);
}

void *emulator_shared_at(uint32_t address, size_t bytes, size_t align)
{
    const size_t at = (size_t)address - SHARED_BASE;
    if (address < SHARED_BASE || at + bytes > e.launch.shared_bytes)
        emulator_fault("%zu bytes at %zd of shared memory, which has %zu", bytes,
                       (ptrdiff_t)address - SHARED_BASE, e.launch.shared_bytes);
    if (at % align != 0)
        emulator_fault("%zu bytes at %zu of shared memory are not aligned", bytes, at);
    return e.now->warp->block->shared + at;
}

const void *emulator_aligned(const void *p, size_t align)
{
    if ((uintptr_t)p % align != 0)
        emulator_fault("an access of %zu bytes at %p, which is not aligned", align, p);
    return p;
}

/* ---- copies and mbarriers -------------------------------------------------------------------- */

/* An mbarrier in its 8 bytes: arrivals that end a phase, those still to come, number of the phase,
 * and what says that it was made. */
struct mbarrier {
    uint16_t arrivals, missing, phase, made;
};
enum { MADE = 0x4d42 };

static struct mbarrier *mbarrier_at(uint32_t at)
{
    struct mbarrier *b = emulator_shared_at(at, sizeof *b, sizeof *b);
    if (b->made != MADE)
        emulator_fault("an mbarrier at %u of shared memory that was not initialized",
                       at - SHARED_BASE);
    return b;
}

void emulator_mbarrier_init(uint32_t mbarrier, int arrivals)
{
    struct mbarrier *b = emulator_shared_at(mbarrier, sizeof *b, sizeof *b);
    races_access(e.now->racer, b, sizeof *b, RACES_WRITE, __builtin_return_address(0));
    *b = (struct mbarrier){(uint16_t)arrivals, (uint16_t)arrivals, 0, MADE};
}

static void arrive(struct thread *t, uint32_t mbarrier, struct emulator_source at)
{
    struct mbarrier *b = mbarrier_at(mbarrier);
    e.writes++;
    races_mbarrier_arrive(t->racer, b, races_counts(at), b->missing == 1);
    if (--b->missing == 0) {
        b->missing = b->arrivals;
        b->phase++;
    }
}

void emulator_mbarrier_arrive(uint32_t mbarrier, struct emulator_source at)
{
    const struct mbarrier *b = mbarrier_at(mbarrier);
    races_access(e.now->racer, b, sizeof *b, RACES_ATOMIC, __builtin_return_address(0));
    arrive(e.now, mbarrier, at);
}

/* Whether the phase of that parity is complete; if not, after the others' turn. */
bool emulator_mbarrier_test(uint32_t mbarrier, uint32_t parity, struct emulator_source at)
{
    const struct mbarrier *b = mbarrier_at(mbarrier);
    races_access(e.now->racer, b, sizeof *b, RACES_ATOMIC, __builtin_return_address(0));
    if ((b->phase & 1) == parity)
        emulator_turn();
    if ((b->phase & 1) == parity)
        return false;
    races_mbarrier_passed(e.now->racer, b, races_counts(at));
    return true;
}

static void copy_now(struct thread *t, const struct copy *c)
{
    if (!c->from) {
        if (races_counts(c->at))
            races_copied(t->racer, c->copies);
        arrive(t, c->to, c->at);
        return;
    }
    char *to = emulator_shared_at(c->to, 16, 16);
    races_access(t->racer, c->from, (size_t)c->bytes, RACES_READ, NULL);
    memset(to, 0, 16);
    memcpy(to, c->from, (size_t)c->bytes);
}

/* The oldest copies of the thread, until `keep` are left. */
static void copy_some(struct thread *t, unsigned keep)
{
    while (t->n_copies > keep) {
        const struct copy c = t->copies[t->first_copy];
        t->first_copy = (t->first_copy + 1) % COPIES;
        t->n_copies--;
        copy_now(t, &c);
    }
}

static void copy_later(const struct copy *c)
{
    struct thread *me = e.now;
    if (!e.order.late) {
        copy_now(me, c);
        return;
    }
    if (!me->copies)
        me->copies = mem_alloc(COPIES * sizeof *me->copies);
    copy_some(me, COPIES - 1);
    me->copies[(me->first_copy + me->n_copies++) % COPIES] = *c;
}

void emulator_copy(uint32_t to, const void *from, int bytes)
{
    if (bytes < 0 || bytes > 16)
        emulator_fault("a copy of %d bytes, of at most 16", bytes);
    races_copy(e.now->racer, emulator_shared_at(to, 16, 16), __builtin_return_address(0));
    e.now->begun++;
    copy_later(&(struct copy){.to = to, .bytes = bytes, .from = emulator_aligned(from, 16)});
}

void emulator_copy_commit(void)
{
    e.now->groups[e.now->n_groups++ % GROUPS] = e.now->begun;
}

/* Copies behind the group that is waited for stay under way. Of those that arrive at an mbarrier
 * none may be among them. */
void emulator_copy_wait_groups(unsigned keep, struct emulator_source at)
{
    struct thread *me = e.now;
    if (keep >= GROUPS)
        emulator_fault("waits for all but %u groups of copies, of at most %d", keep, GROUPS - 1);
    if (me->n_groups <= keep)
        return;
    const unsigned done = me->groups[(me->n_groups - 1 - keep) % GROUPS], later = me->begun - done;
    copy_some(me, later);
    const unsigned all = races_copies(me->racer);
    if (races_counts(at) && all > 0)
        races_copied(me->racer, all - later);
}

void emulator_copy_arrive(uint32_t mbarrier, struct emulator_source at)
{
    copy_later(&(struct copy){.to = mbarrier, .copies = races_copies(e.now->racer), .at = at});
}

void emulator_copy_wait(struct emulator_source at)
{
    copy_some(e.now, 0);
    if (races_counts(at))
        races_copied(e.now->racer, races_copies(e.now->racer));
}

/* ---- a launch -------------------------------------------------------------------------------- */

static void run_warp(struct warp *w)
{
    w->ready |= w->turned;
    w->turned = 0;
    struct thread *t = next_lane(w, e.order.falling ? 0 : 31);
    if (!t)
        return;
    e.now = t;
    emulator_place = t->place;
    races_turn(t->racer);
    stack_switch(&e.scheduler, t->stack);
}

/* Where the threads stand that have not ended. */
static void say_who_waits(void)
{
    unsigned in_op = 0, in_loop = 0, ended = 0, at[BARRIERS] = {0};
    for (unsigned i = 0; i < e.n_blocks * (e.launch.block / 32); i++) {
        const struct warp *w =
            &e.blocks[i / (e.launch.block / 32)].warps[i % (e.launch.block / 32)];
        in_op += (unsigned)__builtin_popcount(w->came);
        in_loop += (unsigned)__builtin_popcount(w->turned);
        ended += (unsigned)__builtin_popcount(w->left);
        for (int j = 0; j < BARRIERS; j++)
            at[j] += (unsigned)__builtin_popcount(w->at_barrier[j]);
    }
    size_t n = (size_t)snprintf(e.fault, sizeof e.fault,
                                "threads wait for what does not come: %u ended", ended);
    for (int j = 0; j < BARRIERS; j++)
        if (at[j])
            n += (size_t)snprintf(e.fault + n, sizeof e.fault - n, ", %u at barrier %d", at[j], j);
    if (in_op)
        n += (size_t)snprintf(e.fault + n, sizeof e.fault - n, ", %u in an operation of their warp",
                              in_op);
    if (in_loop)
        snprintf(e.fault + n, sizeof e.fault - n, ", %u in a loop", in_loop);
    e.failed = true;
}

static void run_blocks(void)
{
    const unsigned warps = e.launch.block / 32, all = e.n_blocks * warps;
    for (int idle = 0; e.left > 0 && !e.failed;) {
        const long before = e.writes;
        for (unsigned i = 0; i < all && !e.failed; i++) {
            const unsigned at = e.order.falling ? all - 1 - i : i;
            run_warp(&e.blocks[at / warps].warps[at % warps]);
        }
        idle = e.writes == before ? idle + 1 : 0;
        if (idle > IDLE_TURNS && !e.failed)
            say_who_waits();
    }
}

static void *zeros(size_t bytes)
{
    return memset(mem_alloc(bytes), 0, bytes);
}

static void begin_block(struct block *b, unsigned number)
{
    const struct emulator_launch *l = &e.launch;
    const struct emulator_place place = {.block = {number % l->grid[0],
                                                   number / l->grid[0] % l->grid[1],
                                                   number / l->grid[0] / l->grid[1]},
                                         .block_dim = {l->block, 1, 1},
                                         .grid_dim = {l->grid[0], l->grid[1], l->grid[2]}};
    if (l->shared_bytes)
        memset(b->shared, 0xff, l->shared_bytes);
    for (int i = 0; i < BARRIERS; i++)
        races_forget(&b->barriers[i].meeting);
    memset(b->barriers, 0, sizeof b->barriers);
    races_block((unsigned)(b - e.blocks), number, b->shared);
    for (unsigned i = 0; i < l->block / 32; i++)
        b->warps[i] =
            (struct warp){.block = b, .threads = b->threads + (size_t)32 * i, .ready = 0xffffffffU};
    for (unsigned i = 0; i < l->block; i++) {
        struct thread *t = &b->threads[i];
        const size_t slot = (size_t)(b - e.blocks) * l->block + i;
        t->place = stack_top(slot);
        *t->place = place;
        t->place->thread.x = i;
        t->racer = races_thread((unsigned)(b - e.blocks), i);
        t->warp = &b->warps[i / 32];
        t->lane = (int)(i % 32);
        t->first_copy = t->n_copies = t->begun = t->n_groups = 0;
        t->stack = stack_begin(slot, thread_body);
    }
    e.left += (int)l->block;
}

const char *emulator_run(const struct emulator_launch *l, struct emulator_order order)
{
    const unsigned all = l->grid[0] * l->grid[1] * l->grid[2];
    ASSERT(l->block > 0 && l->block % 32 == 0 && l->block <= 1024 && all > 0);
    e.launch = *l;
    e.order = order;
    e.n_blocks = l->together ? all : 1;
    e.failed = false;
    e.left = 0;
    e.blocks = zeros(e.n_blocks * sizeof *e.blocks);
    stacks_open((size_t)e.n_blocks * l->block);
    races_begin(order.races, e.n_blocks, l->block, l->shared_bytes);
    for (unsigned i = 0; i < e.n_blocks; i++) {
        struct block *b = &e.blocks[i];
        b->threads = zeros(l->block * sizeof *b->threads);
        b->warps = zeros(l->block / 32 * sizeof *b->warps);
        b->shared = mem_alloc(l->shared_bytes + 1);
    }
    for (unsigned i = 0; i < all && !e.failed; i += e.n_blocks) {
        for (unsigned j = 0; j < e.n_blocks; j++)
            begin_block(&e.blocks[j], l->together ? j : order.falling ? all - 1 - i : i);
        run_blocks();
    }
    if (e.failed)
        stacks_forget();
    for (unsigned i = 0; i < e.n_blocks; i++) {
        for (unsigned j = 0; j < l->block; j++)
            mem_free(e.blocks[i].threads[j].copies);
        for (int j = 0; j < BARRIERS; j++)
            races_forget(&e.blocks[i].barriers[j].meeting);
        mem_free(e.blocks[i].threads);
        mem_free(e.blocks[i].warps);
        mem_free(e.blocks[i].shared);
    }
    mem_free(e.blocks);
    races_end();
    return e.failed ? e.fault : NULL;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Tables of programs.cpp, by dtype and head_dim. */
extern const struct emulator_entry emulator_f32_0[], emulator_f16_64[], emulator_f16_128[],
    emulator_bf16_64[], emulator_bf16_128[];

const struct emulator_entry *emulator_entry(const char *name, int dtype, int head_dim)
{
    const struct emulator_entry *const tables[][2] = {{emulator_f32_0, emulator_f32_0},
                                                      {emulator_f16_64, emulator_f16_128},
                                                      {emulator_bf16_64, emulator_bf16_128}};
    for (const struct emulator_entry *i = tables[dtype][head_dim == 128]; i->name; i++)
        if (strcmp(i->name, name) == 0)
            return i;
    return NULL;
}
