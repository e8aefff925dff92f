/* A map from strings to 64-bit values (numbers or pointers) that remembers insertion order, so that
 * walking it gives the same bytes every time. Keys are copied into the map's arena. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct map_entry {
    const char *key;
    uint32_t key_len, hash;
    union {
        int64_t i;
        void *p;
        const void *cp;
    };
};

struct map {
    struct arena *a;
    struct map_entry *entries; /* [n] in insertion order */
    uint32_t n, cap;
    uint32_t *slots; /* [slot_mask + 1]: index + 1 into entries, 0 = free */
    uint32_t slot_mask;
};

void map_init(struct map *m, struct arena *a);
/* The entry of that key, or NULL. Valid until the next map_put. */
struct map_entry *map_find(const struct map *m, const char *key, size_t len);
/* The entry of that key, made with value 0 when absent; *is_new (may be NULL) is set accordingly.
 */
struct map_entry *map_put(struct map *m, const char *key, size_t len, bool *is_new);

#endif
