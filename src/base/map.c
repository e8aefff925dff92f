#include "base/map.h"

#include <string.h>

#include "base/hash.h"

void map_init(struct map *m, struct arena *a)
{
    *m = (struct map){.a = a};
}

static uint32_t *slot_of(const struct map *m, const char *key, size_t len, uint32_t hash)
{
    for (uint32_t i = hash & m->slot_mask;; i = (i + 1) & m->slot_mask) {
        uint32_t at = m->slots[i];
        if (at == 0)
            return &m->slots[i];
        const struct map_entry *e = &m->entries[at - 1];
        if (e->hash == hash && e->key_len == len && memcmp(e->key, key, len) == 0)
            return &m->slots[i];
    }
}

struct map_entry *map_find(const struct map *m, const char *key, size_t len)
{
    if (m->n == 0)
        return NULL;
    uint32_t at = *slot_of(m, key, len, (uint32_t)hash_bytes(key, len));
    return at ? &m->entries[at - 1] : NULL;
}

static void grow(struct map *m)
{
    uint32_t cap = m->cap ? m->cap * 2 : 8;
    struct map_entry *entries = arena_array(m->a, struct map_entry, cap);
    if (m->n)
        memcpy(entries, m->entries, m->n * sizeof *entries);
    m->entries = entries;
    m->cap = cap;
    m->slots = arena_array(m->a, uint32_t, cap * 2);
    m->slot_mask = cap * 2 - 1;
    for (uint32_t i = 0; i < m->n; i++)
        *slot_of(m, entries[i].key, entries[i].key_len, entries[i].hash) = i + 1;
}

struct map_entry *map_put(struct map *m, const char *key, size_t len, bool *is_new)
{
    if (m->n == m->cap)
        grow(m);
    uint32_t hash = (uint32_t)hash_bytes(key, len);
    uint32_t *slot = slot_of(m, key, len, hash);
    if (is_new)
        *is_new = *slot == 0;
    if (*slot == 0) {
        m->entries[m->n] = (struct map_entry){
            .key = arena_strn(m->a, key, len), .key_len = (uint32_t)len, .hash = hash};
        *slot = ++m->n;
    }
    return &m->entries[*slot - 1];
}
