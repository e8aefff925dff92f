#include "server/detok.h"

#include <string.h>

enum { TAIL = 6, LONGEST_WAIT = 32 };
static const char REPLACEMENT[] = "\xef\xbf\xbd";

static bool ends_open(const struct buf *b)
{
    size_t n = sizeof REPLACEMENT - 1;
    return b->n >= n && memcmp(b->p + b->n - n, REPLACEMENT, n) == 0;
}

void detok_add(struct detok *d, int32_t id, bool last, struct buf *out)
{
    struct err ignored = {0};
    if (!d->t || id < 0)
        return;
    vec_push(&d->ids, id);
    buf_clear(&d->before);
    buf_clear(&d->after);
    tokenizer_decode(d->t, d->ids.p, d->read, true, &d->before, &ignored);
    tokenizer_decode(d->t, d->ids.p, d->ids.n, true, &d->after, &ignored);
    bool waits = ends_open(&d->after) && d->ids.n - d->read < LONGEST_WAIT && !last;
    if (waits || d->after.n < d->before.n)
        return;
    buf_add(out, buf_str(&d->after) + d->before.n, d->after.n - d->before.n);
    d->read = d->ids.n;
    if (d->ids.n > 2 * TAIL) {
        size_t drop = d->ids.n - TAIL;
        memmove(d->ids.p, d->ids.p + drop, TAIL * sizeof *d->ids.p);
        d->ids.n = d->read = TAIL;
    }
}

void detok_free(struct detok *d)
{
    vec_free(&d->ids);
    buf_free(&d->before);
    buf_free(&d->after);
}
