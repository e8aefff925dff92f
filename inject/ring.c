#include "inject/ring.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/gate.h"
#include "inject/writer.h"

static _Atomic(struct ring *) rings;
static _Atomic uint32_t threads;
static pthread_key_t key;
static bool have_key;

/* Called at thread exit: its open ranges release the gate, and its ring may be reused once the
 * writer has emptied it. */
static void leave(void *ring)
{
    struct ring *r = ring;
    if (guest_thread.generation == atomic_load(&guest.generation)) {
        for (int i = 0; i < r->depth && i < RING_STACK; i++)
            if (r->stack[i].gates)
                inject_gate_range(false);
        atomic_store_explicit(&r->state, RING_LEFT, memory_order_release);
    }
    guest_thread.ring = NULL;
}

bool inject_ring_open(void)
{
    atomic_store(&rings, NULL);
    atomic_store(&threads, 0);
    if (!have_key)
        have_key = pthread_key_create(&key, leave) == 0;
    return have_key;
}

struct ring *inject_ring_first(void)
{
    return atomic_load_explicit(&rings, memory_order_acquire);
}

static struct ring *reuse(void)
{
    for (struct ring *r = inject_ring_first(); r; r = r->next) {
        int is_free = RING_FREE;
        if (atomic_compare_exchange_strong(&r->state, &is_free, RING_USED))
            return r;
    }
    return NULL;
}

static struct ring *make(void)
{
    struct ring *r =
        inject_pages(sizeof *r + sizeof(struct event) * (size_t)guest.settings.ring_events);
    if (!r)
        return NULL;
    atomic_store(&r->state, RING_USED);
    r->next = atomic_load(&rings);
    while (!atomic_compare_exchange_weak(&rings, &r->next, r))
        ;
    return r;
}

static struct ring *new_mine(struct guest_thread *me, uint32_t generation)
{
    if (!have_key || atomic_load_explicit(&guest.state, memory_order_acquire) != GUEST_ON)
        return NULL;
    struct ring *r = reuse();
    if (!r)
        r = make();
    uint32_t id = atomic_fetch_add(&threads, 1) + 1;
    if (!r)
        return NULL;
    r->thread = id < RING_THREADS ? (uint16_t)id : 0;
    r->tid = (uint32_t)syscall(SYS_gettid);
    r->depth = 0;
    r->reserved = 0;
    me->ring = r;
    me->generation = generation;
    pthread_setspecific(key, r);
    return r;
}

struct ring *inject_ring_mine(struct guest_thread *me)
{
    uint32_t generation = atomic_load_explicit(&guest.generation, memory_order_relaxed);
    return me->ring && me->generation == generation ? me->ring : new_mine(me, generation);
}

void inject_ring_count_drop(struct ring *r)
{
    atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
}

_Atomic bool inject_ring_wakes;

/* Appends if room for `more` events remains. */
static bool append(struct ring *r, const struct event *e, uint64_t more)
{
    uint64_t capacity = (uint64_t)guest.settings.ring_events;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t used = head - atomic_load_explicit(&r->tail, memory_order_acquire);
    if (used + more >= capacity) {
        inject_ring_count_drop(r);
        return false;
    }
    r->events[head & (capacity - 1)] = *e;
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    if (used == capacity / 2 || (atomic_load_explicit(&inject_ring_wakes, memory_order_relaxed) &&
                                 atomic_exchange(&inject_ring_wakes, false)))
        inject_writer_wake();
    return true;
}

bool inject_ring_push(struct ring *r, const struct event *e)
{
    return append(r, e, r->reserved);
}

bool inject_ring_push_begin(struct ring *r, const struct event *e)
{
    bool told = append(r, e, r->reserved + 1);
    r->reserved += told;
    return told;
}

void inject_ring_push_end(struct ring *r, const struct event *e)
{
    append(r, e, --r->reserved);
}

int64_t inject_ring_sample_begin(struct ring *r, int64_t now_ns)
{
    return (r->callbacks++ & 63) == 32 ? now_ns : 0; /* not the first: caches are cold */
}

void inject_ring_sample_end(struct ring *r, int64_t began_ns)
{
    if (began_ns == 0)
        return;
    atomic_fetch_add_explicit(&r->sampled_ns, clock_mono_ns() - began_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->all_callbacks, 64, memory_order_relaxed);
}
