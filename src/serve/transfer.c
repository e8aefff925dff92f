#include "serve/transfer.h"

#include <math.h>

#include "base/heap.h"

void transfers_init(struct transfers *t, struct arena *a, const struct serve_params *p)
{
    *t = (struct transfers){.bandwidth = p->kv_bandwidth_gb_s * 1e9,
                            .latency_s = p->kv_latency_s,
                            .bytes_per_token = p->kv_bytes_per_token,
                            .link_free_s = arena_array(a, double, p->replicas)};
}

void transfers_free(struct transfers *t)
{
    vec_free(&t->heap);
}

static bool earlier(const struct transfer *a, const struct transfer *b)
{
    return a->end_s < b->end_s || (a->end_s == b->end_s && a->seq < b->seq);
}

void transfers_start(struct transfers *t, struct request *q, int64_t tokens, int32_t from,
                     int32_t to, double now_s, struct serve_counters *n)
{
    double *out = &t->link_free_s[from], *in = &t->link_free_s[to];
    double bytes = (double)tokens * t->bytes_per_token;
    double start_s = fmax(now_s, fmax(*out, *in));
    *out = *in = start_s + bytes / t->bandwidth;
    double end_s = *out + t->latency_s;
    struct transfer x = {end_s, t->seq++, q, from, to};
    heap_push(&t->heap, earlier, x);
    n->kv_transfers++;
    n->kv_transfer_bytes += (int64_t)bytes;
    n->kv_transfer_s += end_s - now_s;
    n->kv_transfer_wait_s += start_s - now_s;
}

double transfers_next_s(const struct transfers *t)
{
    return t->heap.n ? t->heap.p[0].end_s : INFINITY;
}

struct transfer transfers_pop(struct transfers *t)
{
    struct transfer first;
    heap_pop(&t->heap, earlier, &first);
    return first;
}
