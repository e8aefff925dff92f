#include "replay/writers.h"

#include <string.h>

#include "base/vec.h"
#include "gpu/stream.h"

enum { RANGE_GAP = 256 }; /* bytes nearer than that are read together */

struct watch {
    struct load *l;
    struct writers_byte *bytes;
    size_t n;
    VEC(struct place_span) ranges;
    size_t *place;             /* [n] of a byte, in the ranges one after the other */
    unsigned char *now, *seen; /* page-locked, as long as all ranges; [n] */
    uint64_t room;
};

static void lay_out(struct watch *w)
{
    size_t i = 0;
    for (; i < w->n; i++) {
        const uint64_t at = w->bytes[i].at;
        struct place_span *last = w->ranges.n ? &vec_last(&w->ranges) : NULL;
        const bool apart = !last || at >= last->at + last->bytes + RANGE_GAP ||
                           at / PLACE_MAP_BYTES != last->at / PLACE_MAP_BYTES; /* host, device */
        const uint64_t more = apart ? 1 : at + 1 - (last->at + last->bytes);
        if (w->room + more > WRITERS_BYTES)
            break;
        if (apart)
            vec_push(&w->ranges, (struct place_span){at, 1});
        else
            last->bytes += more;
        w->room += more;
        w->place[i] = w->room - 1;
    }
    w->n = i;
}

static enum st look(void *self, size_t op, struct err *e)
{
    struct watch *w = self;
    TRY(load_gather(w->l, w->ranges.p, w->ranges.n, w->now, e));
    for (size_t i = 0; i < w->n; i++)
        if (w->now[w->place[i]] != w->seen[i]) {
            w->seen[i] = w->now[w->place[i]];
            w->bytes[i].writer = (uint32_t)op + 1;
        }
    return ST_OK;
}

static enum st begin(struct watch *w, struct err *e)
{
    TRY(load_gather(w->l, w->ranges.p, w->ranges.n, w->now, e));
    for (size_t i = 0; i < w->n; i++) {
        struct writers_byte *b = &w->bytes[i];
        b->writer = 0;
        if (w->now[w->place[i]] == b->usual)
            w->now[w->place[i]] = b->other;
        w->seen[i] = w->now[w->place[i]];
    }
    return load_scatter(w->l, w->ranges.p, w->ranges.n, w->now, e);
}

static enum st follow(struct watch *w, const struct program *p, unsigned char fill, struct err *e)
{
    void *now;
    TRY(load_restore(w->l, fill, e));
    TRY(gpu_host_alloc(&w->l->g, w->room, "the bytes that differ", &now, e));
    w->now = now;
    enum st st = begin(w, e);
    if (st == ST_OK)
        st = issue_serial(w->l, p, look, w, e);
    gpu_host_free(&w->l->g, &now);
    return st;
}

enum st writers_find(struct load *l, const struct program *p, unsigned char fill,
                     struct writers_byte *bytes, size_t n, size_t *followed, struct err *e)
{
    struct watch w = {.l = l, .bytes = bytes, .n = n};
    w.place = mem_alloc(n * sizeof *w.place);
    w.seen = mem_alloc(n);
    lay_out(&w);
    *followed = w.n;
    const enum st st = w.n ? follow(&w, p, fill, e) : ST_OK;
    vec_free(&w.ranges);
    mem_free(w.place);
    mem_free(w.seen);
    return st;
}
