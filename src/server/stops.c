#include "server/stops.h"

#include <string.h>

static const size_t NOWHERE = SIZE_MAX;

static size_t find(const struct buf *text, size_t from, struct sv what)
{
    for (size_t i = from; i + what.n <= text->n; i++)
        if (memcmp(text->p + i, what.p, what.n) == 0)
            return i;
    return NOWHERE;
}

/* Length of the longest end of the text that could begin one of the strings. */
static size_t open_end(const struct buf *text, const struct sv *strings, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = strings[i].n - 1; k > most; k--)
            if (k <= text->n && memcmp(text->p + text->n - k, strings[i].p, k) == 0)
                most = k;
    return most;
}

bool stops_add(struct stops *s, const struct sv *strings, size_t n, int32_t id, bool last)
{
    const size_t before = s->text.n, already = s->upto.n ? vec_last(&s->upto) : 0;
    size_t first = NOWHERE;
    detok_add(&s->detok, id, last, &s->text);
    for (size_t i = 0; i < n && s->text.n > before; i++) {
        const size_t from = before >= strings[i].n ? before - strings[i].n + 1 : 0;
        const size_t at = find(&s->text, from, strings[i]);
        first = at < first ? at : first;
    }
    if (first != NOWHERE)
        s->text.n = first;
    const bool ends = last || first != NOWHERE;
    const size_t safe = s->text.n - (ends ? 0 : open_end(&s->text, strings, n));
    vec_push(&s->upto, safe > already ? safe : already);
    return first != NOWHERE;
}

void stops_free(struct stops *s)
{
    detok_free(&s->detok);
    buf_free(&s->text);
    vec_free(&s->upto);
}
