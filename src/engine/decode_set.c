#include "engine/decode_set.h"

#include <string.h>

#include "base/arena.h"

/* Index of the first slot >= slot. */
static int32_t place_of(const struct decode_set *s, int32_t slot)
{
    int32_t low = 0, high = s->n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->slots[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void leave(struct decode_set *s, int32_t slot)
{
    const int32_t at = place_of(s, slot);
    ASSERT(at < s->n && s->slots[at] == slot);
    s->n--;
    memmove(s->slots + at, s->slots + at + 1, (size_t)(s->n - at) * sizeof *s->slots);
}

static void enter(struct decode_set *s, int32_t slot)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->slots = mem_resize(s->slots, (size_t)s->cap * sizeof *s->slots);
    }
    const int32_t at = place_of(s, slot);
    ASSERT(at == s->n || s->slots[at] != slot);
    memmove(s->slots + at + 1, s->slots + at, (size_t)(s->n - at) * sizeof *s->slots);
    s->slots[at] = slot;
    s->n++;
}

void decode_set_apply(struct decode_set *s, const struct batch *b)
{
    for (int32_t i = 0; i < b->n_left; i++)
        leave(s, b->left[i]);
    for (int32_t i = 0; i < b->n_entered; i++)
        enter(s, b->entered[i]);
    ASSERT(b->n_decodes == 0 || b->n_decodes == s->n);
}

void decode_set_free(struct decode_set *s)
{
    mem_free(s->slots);
    *s = (struct decode_set){0};
}
