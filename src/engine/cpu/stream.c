#include "engine/cpu/stream.h"

#include "base/arena.h"
#include "base/clock.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/pages.h"
#include "engine/cpu/pool.h"
#include "engine/engine.h"

enum { PIECE_FLOATS = 1 << 18 };

struct stream {
    struct pool *pool;
    struct pages pages;
    const struct cpu_kernels *kn;
    size_t floats;
    volatile float sink; /* keeps the sums from being optimised away */
};

enum st stream_open(int threads, size_t bytes, struct stream **out, struct err *e)
{
    size_t n;
    struct stream *s = mem_alloc(sizeof *s);
    s->kn = kernels_usable(&n)[0];
    s->floats = bytes / sizeof(float);
    if (pool_open(threads, &s->pool, e) != ST_OK ||
        pages_alloc(&s->pages, s->floats, "the memory to stream", e) != ST_OK) {
        stream_close(&s);
        return e->st;
    }
    pages_touch(&s->pages, s->pool);
    *out = s;
    return ST_OK;
}

static void read_piece(void *ctx, int64_t item, int thread)
{
    (void)thread;
    struct stream *s = ctx;
    const size_t first = (size_t)item * PIECE_FLOATS, left = s->floats - first;
    const float sum =
        s->kn->sum(left < PIECE_FLOATS ? left : PIECE_FLOATS, (float *)s->pages.base + first);
    if (sum != 0) /* never: the memory is zero */
        s->sink = sum;
}

double stream_pass_s(struct stream *s)
{
    const int64_t start_ns = clock_mono_ns();
    pool_run(s->pool, (int64_t)((s->floats + PIECE_FLOATS - 1) / PIECE_FLOATS), read_piece, s);
    return ns_to_s(clock_mono_ns() - start_ns);
}

void stream_close(struct stream **s)
{
    if (!*s)
        return;
    pool_close(&(*s)->pool);
    pages_free(&(*s)->pages);
    mem_free(*s);
    *s = NULL;
}

double cpu_stream_bandwidth(int threads, size_t bytes, int rounds)
{
    struct err e = {0};
    struct stream *s;
    double best_s = 0;
    if (bytes == 0 || stream_open(threads, bytes, &s, &e) != ST_OK)
        return 0;
    for (int i = 0; i < rounds; i++) {
        const double pass_s = stream_pass_s(s);
        best_s = i == 0 || pass_s < best_s ? pass_s : best_s;
    }
    stream_close(&s);
    return best_s > 0 ? (double)bytes / best_s : 0;
}
