#include "inject/names.h"

#include <string.h>

#include "inject/guest.h"

enum { SLOTS = NAMES_MAX * 2, TEXT_BYTES = 64 << 20 };

static struct {
    struct name *entries;    /* [NAMES_MAX]; 0 is "" */
    _Atomic uint32_t *slots; /* [SLOTS]: id, 0 = free */
    char *text;
    size_t used;
    _Atomic uint32_t count;
    _Atomic uint64_t lost;
} names;

bool inject_names_open(void)
{
    if (names.text)
        return true;
    names.entries = inject_pages(sizeof *names.entries * NAMES_MAX);
    names.slots = inject_pages(sizeof *names.slots * SLOTS);
    names.text = inject_pages(TEXT_BYTES);
    return names.entries && names.slots && names.text;
}

static uint8_t gate_bits(const char *text, size_t bytes)
{
    uint8_t bits = 0;
    for (int i = 0; i < guest.settings.patterns.n; i++)
        if (inject_settings_match(guest.settings.patterns.list[i].range, text, bytes))
            bits = (uint8_t)(bits | 1u << i);
    return bits;
}

/* Id of the text, or 0 and the slot where the search ended. */
static uint32_t find(const char *text, size_t bytes, uint32_t hash, uint32_t *slot)
{
    for (uint32_t i = hash % SLOTS;; i = (i + 1) % SLOTS) {
        uint32_t id = atomic_load_explicit(&names.slots[i], memory_order_acquire);
        *slot = i;
        if (id == 0)
            return 0;
        const struct name *n = &names.entries[id];
        if (n->hash == hash && n->bytes == bytes && memcmp(n->text, text, bytes) == 0)
            return id;
    }
}

static uint32_t insert(const char *text, size_t bytes, uint32_t hash)
{
    uint32_t slot, id;
    pthread_mutex_lock(&guest.names);
    id = find(text, bytes, hash, &slot);
    uint32_t count = atomic_load_explicit(&names.count, memory_order_relaxed);
    if (id == 0 && count + 1 < NAMES_MAX && names.used + bytes + 1 <= TEXT_BYTES) {
        char *at = names.text + names.used;
        memcpy(at, text, bytes);
        at[bytes] = 0;
        names.used += bytes + 1;
        id = count + 1;
        names.entries[id] = (struct name){
            .text = at, .bytes = (uint32_t)bytes, .hash = hash, .gate = gate_bits(text, bytes)};
        atomic_store_explicit(&names.slots[slot], id, memory_order_release);
        atomic_store_explicit(&names.count, id, memory_order_release);
    }
    pthread_mutex_unlock(&guest.names);
    if (id == 0)
        atomic_fetch_add_explicit(&names.lost, 1, memory_order_relaxed);
    return id;
}

uint32_t inject_names_intern(const char *text, size_t bytes)
{
    if (bytes == 0 || !names.text)
        return 0;
    if (bytes > SPOOL_STRING_MAX_BYTES + 1) /* one byte too many makes the spool cut it */
        bytes = SPOOL_STRING_MAX_BYTES + 1;
    uint64_t sum = trace_spool_checksum(bytes, text, bytes);
    uint32_t hash = (uint32_t)(sum ^ sum >> 32), slot;
    uint32_t id = find(text, bytes, hash, &slot);
    return id ? id : insert(text, bytes, hash);
}

uint32_t inject_names_intern_wide(const wchar_t *text)
{
    char utf8[1024];
    size_t n = 0;
    for (; text && *text && n + 4 < sizeof utf8; text++) {
        uint32_t c = (uint32_t)*text;
        if (c < 0x80) {
            utf8[n++] = (char)c;
        } else if (c < 0x800) {
            utf8[n++] = (char)(0xc0 | c >> 6);
            utf8[n++] = (char)(0x80 | (c & 63));
        } else if (c < 0x10000) {
            utf8[n++] = (char)(0xe0 | c >> 12);
            utf8[n++] = (char)(0x80 | (c >> 6 & 63));
            utf8[n++] = (char)(0x80 | (c & 63));
        } else {
            utf8[n++] = (char)(0xf0 | (c >> 18 & 7));
            utf8[n++] = (char)(0x80 | (c >> 12 & 63));
            utf8[n++] = (char)(0x80 | (c >> 6 & 63));
            utf8[n++] = (char)(0x80 | (c & 63));
        }
    }
    return inject_names_intern(utf8, n);
}

const struct name *inject_names_get(uint32_t id)
{
    static const struct name empty = {.text = ""};
    return id == 0 || !names.entries ? &empty : &names.entries[id];
}

uint32_t inject_names_count(void)
{
    return atomic_load_explicit(&names.count, memory_order_acquire);
}

uint64_t inject_names_take_lost(void)
{
    return atomic_exchange_explicit(&names.lost, 0, memory_order_relaxed);
}
