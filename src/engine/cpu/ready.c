#include "engine/cpu/ready.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/clock.h"

enum { STEP_BYTES = 256 << 10 };             /* of a part at a time */
static const int64_t NAP_NS = NS_PER_MS / 2; /* interval of polling a busy engine */

struct ready {
    struct ready_params p;
    int64_t step; /* blocks at a time */
    pthread_t thread;
    atomic_bool busy, stop;
    atomic_llong in_use, next;
};

static void *run(void *self)
{
    struct ready *r = self;
    const struct ready_params *p = &r->p;
    for (int64_t from = p->first; from < p->blocks; from += r->step) {
        int64_t n = p->blocks - from < r->step ? p->blocks - from : r->step;
        for (int64_t part = 0; part < p->parts; part++) {
            while (atomic_load(&r->busy) && !atomic_load(&r->stop) &&
                   atomic_load(&r->in_use) + 2 * r->step < from)
                clock_sleep_until_ns(clock_mono_ns() + NAP_NS);
            if (atomic_load(&r->stop))
                return NULL;
            pages_populate(p->base + part * p->part_floats + from * p->block_floats,
                           (size_t)(n * p->block_floats) * sizeof(float));
        }
        atomic_store(&r->next, from + n);
    }
    return NULL;
}

struct ready *ready_begin(const struct ready_params *p)
{
    if (p->first >= p->blocks ||
        !pages_populate(p->base + p->first * p->block_floats, sizeof(float)))
        return NULL;
    struct ready *r = mem_alloc(sizeof *r);
    r->p = *p;
    r->step = STEP_BYTES / (int64_t)sizeof(float) / p->block_floats;
    r->step = r->step > 0 ? r->step : 1;
    atomic_store(&r->next, p->first);
    atomic_store(&r->busy, p->busy);
    if (pthread_create(&r->thread, NULL, run, r) != 0) {
        mem_free(r);
        return NULL;
    }
    return r;
}

void ready_busy(struct ready *r, bool busy)
{
    if (r)
        atomic_store(&r->busy, busy);
}

void ready_in_use(struct ready *r, int64_t block)
{
    if (r && block > atomic_load_explicit(&r->in_use, memory_order_relaxed))
        atomic_store_explicit(&r->in_use, block, memory_order_relaxed);
}

int64_t ready_blocks(const struct ready *r)
{
    return atomic_load(&r->next);
}

void ready_end(struct ready **r)
{
    if (!*r)
        return;
    atomic_store(&(*r)->stop, true);
    pthread_join((*r)->thread, NULL);
    mem_free(*r);
    *r = NULL;
}
