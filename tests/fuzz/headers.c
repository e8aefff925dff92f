/* Header lines, "name: value", as a client may send them: framing finds a fault or says in one way
 * where the body ends, and no key but the one is good. */
#include "fuzz.h"

#include <string.h>

#include "server/framing.h"
#include "server/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct keys keys;
    struct err e = {0};
    struct framing f = {0};
    struct arena *a = arena_new();
    int lengths = 0, encodings = 0;
    if (keys.all.n == 0)
        REQUIRE(keys_add(&keys, "key", SV("sk-the-one-key"), &e) == ST_OK);
    const char *p = (const char *)data, *end = p + size;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        const char *colon = memchr(p, ':', (size_t)(stop - p));
        const struct sv name = {p, (size_t)((colon ? colon : stop) - p)};
        const struct sv value =
            sv_trim(colon ? (struct sv){colon + 1, (size_t)(stop - colon - 1)} : SV(""));
        framing_add(&f, name, value);
        lengths += sv_eq(name, "Content-Length");
        encodings += sv_eq(name, "Transfer-Encoding");
        const char *text = arena_strn(a, value.p, value.n);
        if (keys_check(&keys, text) == KEYS_GOOD)
            REQUIRE(strstr(text, "sk-the-one-key"));
        p = stop + (stop < end);
    }
    if (!framing_fault(&f, false))
        REQUIRE(lengths + encodings <= 1);
    arena_free(&a);
    return 0;
}
