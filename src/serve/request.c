#include "serve/request.h"

#include <string.h>

#include "artifact/run.h"
#include "serve/kv_tables.h"

enum { POOL_CHUNK = 64 };

void request_pool_init(struct request_pool *p, struct arena *a)
{
    p->a = a;
    link_init(&p->free);
}

struct request *request_take(struct request_pool *p)
{
    if (link_empty(&p->free)) {
        struct request *more = arena_array(p->a, struct request, POOL_CHUNK);
        for (int i = 0; i < POOL_CHUNK; i++)
            link_push(&p->free, &more[i].list);
    }
    struct request *q = request_of(p->free.next);
    link_remove(&q->list);
    memset(q, 0, sizeof *q);
    q->slot = q->lane = -1;
    q->scheduled_ns = q->first_token_ns = q->first_start_ns = RUN_NONE;
    return q;
}

void request_give(struct request_pool *p, struct request *q)
{
    mem_free(q->ids);
    mem_free(q->blocks);
    q->ids = q->blocks = NULL;
    request_prefix_free(&q->prefix);
    request_tables_free(&q->tables);
    link_add_after(&p->free, &q->list); /* the next one taken is still in the cache */
}

static void queue_grow(struct request_queue *w)
{
    size_t cap = w->cap ? w->cap * 2 : 64;
    struct request **ring = mem_alloc(cap * sizeof *ring);
    for (size_t i = 0; i < w->n; i++)
        ring[i] = queue_at(w, i);
    mem_free(w->ring);
    *w = (struct request_queue){.ring = ring, .n = w->n, .cap = cap};
}

void request_queue_push(struct request_queue *w, struct request *q)
{
    if (w->n == w->cap)
        queue_grow(w);
    w->ring[(w->head + w->n++) & (w->cap - 1)] = q;
}

void request_queue_push_front(struct request_queue *w, struct request *q)
{
    if (w->n == w->cap)
        queue_grow(w);
    w->head = (w->head - 1) & (w->cap - 1);
    w->ring[w->head] = q;
    w->n++;
}

struct request *request_queue_pop(struct request_queue *w)
{
    struct request *q = w->ring[w->head];
    w->head = (w->head + 1) & (w->cap - 1);
    w->n--;
    return q;
}

struct request *request_queue_take(struct request_queue *w, size_t i)
{
    size_t mask = w->cap - 1;
    struct request *q = queue_at(w, i);
    for (; i > 0; i--)
        w->ring[(w->head + i) & mask] = w->ring[(w->head + i - 1) & mask];
    w->head = (w->head + 1) & mask;
    w->n--;
    return q;
}

void request_queue_remove(struct request_queue *w, size_t i)
{
    size_t mask = w->cap - 1;
    for (; i + 1 < w->n; i++)
        w->ring[(w->head + i) & mask] = w->ring[(w->head + i + 1) & mask];
    w->n--;
}

void request_queue_free(struct request_queue *w)
{
    mem_free(w->ring);
    *w = (struct request_queue){0};
}
