#define _GNU_SOURCE /* sched_getaffinity */
#include "engine/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"

enum { MAX_THREADS = 1024, SPINS = 1500, CACHE_LINE = 64 };

/* Own cache lines for words that different threads write often. */
struct pool_share {
    _Atomic int64_t next; /* first item not taken */
    int64_t end;
    char apart[2 * CACHE_LINE - 2 * sizeof(int64_t)];
};

struct pool_worker {
    struct pool *pool;
    pthread_t id;
    int thread;
};

/* Protocol. The caller fills the job, then sets `open` to its number. A worker that sees a new
 * number increments `inside` and checks again: it may touch the job only if that is still open. The
 * caller, out of items, sets open to 0 and waits for inside == 0. Both sides write, then read the
 * other's word (sequentially consistent), so at least one of them sees the other. */
struct pool {
    _Atomic uint64_t open; /* number of the open job, 0 = none */
    char apart0[2 * CACHE_LINE];
    _Atomic int inside;
    char apart1[2 * CACHE_LINE];
    _Atomic int sleepers;
    _Atomic bool stop, awake;

    pool_fn *fn;
    void *ctx;
    uint64_t jobs;
    int threads;
    struct pool_share *shares;   /* [threads] */
    struct pool_worker *workers; /* [threads]; 0 is the caller */

    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void work(struct pool *p, int thread)
{
    for (int i = 0; i < p->threads; i++) {
        struct pool_share *s = &p->shares[(thread + i) % p->threads];
        while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
            const int64_t item = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
            if (item >= s->end)
                break;
            p->fn(p->ctx, item, thread);
        }
    }
}

/* The number of a job this worker has not seen, or 0 when the pool closes. */
static uint64_t wait_job(struct pool *p, uint64_t seen)
{
    for (int i = 0; i < SPINS || atomic_load(&p->awake); i += i < SPINS) {
        const uint64_t open = atomic_load(&p->open);
        if (open != 0 && open != seen)
            return open;
        if (atomic_load(&p->stop))
            return 0;
        relax();
    }
    uint64_t open;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    for (;;) {
        open = atomic_load(&p->open);
        if ((open != 0 && open != seen) || atomic_load(&p->stop))
            break;
        pthread_cond_wait(&p->wake, &p->lock);
    }
    atomic_fetch_sub(&p->sleepers, 1);
    const bool stop = atomic_load(&p->stop);
    pthread_mutex_unlock(&p->lock);
    return stop ? 0 : open;
}

static void *worker_main(void *arg)
{
    const struct pool_worker *w = arg;
    struct pool *p = w->pool;
    uint64_t seen = 0;
    while ((seen = wait_job(p, seen)) != 0) {
        atomic_fetch_add(&p->inside, 1);
        if (atomic_load(&p->open) == seen)
            work(p, w->thread);
        atomic_fetch_sub(&p->inside, 1);
    }
    return NULL;
}

static void wake_sleepers(struct pool *p)
{
    if (atomic_load(&p->sleepers) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, int64_t n, pool_fn *fn, void *ctx)
{
    if (n <= 1 || p->threads == 1) {
        for (int64_t i = 0; i < n; i++)
            fn(ctx, i, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    for (int t = 0; t < p->threads; t++) {
        atomic_store_explicit(&p->shares[t].next, n * t / p->threads, memory_order_relaxed);
        p->shares[t].end = n * (t + 1) / p->threads;
    }
    atomic_store(&p->open, ++p->jobs);
    wake_sleepers(p);
    work(p, 0);
    atomic_store(&p->open, 0);
    for (int spins = 0; atomic_load(&p->inside) != 0; spins++) {
        if (spins < SPINS)
            relax();
        else
            sched_yield();
    }
}

int pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return CPU_COUNT(&set);
}

int pool_threads(const struct pool *p)
{
    return p->threads;
}

void pool_keep_awake(struct pool *p, bool awake)
{
    atomic_store(&p->awake, awake);
}

enum st pool_open(int threads, struct pool **out, struct err *e)
{
    *out = NULL;
    if (threads < 0 || threads > MAX_THREADS)
        return err_set(e, ST_USAGE, "threads: %d is not between 0 and %d", threads, MAX_THREADS);
    struct pool *p = mem_alloc(sizeof *p);
    const int want = threads ? threads : pool_cores();
    p->shares = mem_alloc((size_t)want * sizeof *p->shares);
    p->workers = mem_alloc((size_t)want * sizeof *p->workers);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    for (p->threads = 1; p->threads < want; p->threads++) {
        struct pool_worker *w = &p->workers[p->threads];
        *w = (struct pool_worker){.pool = p, .thread = p->threads};
        const int failed = pthread_create(&w->id, NULL, worker_main, w);
        if (failed) {
            err_set(e, ST_IO, "cannot start thread %d of %d: %s", p->threads + 1, want,
                    strerror(failed));
            pool_close(&p);
            return e->st;
        }
    }
    *out = p;
    return ST_OK;
}

void pool_close(struct pool **pp)
{
    struct pool *p = *pp;
    if (!p)
        return;
    *pp = NULL;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int t = 1; t < p->threads; t++)
        pthread_join(p->workers[t].id, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    mem_free(p->workers);
    mem_free(p->shares);
    mem_free(p);
}
