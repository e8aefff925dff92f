#include "server/keys.h"

#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#include "base/fs.h"

enum { FILE_MAX_BYTES = 1 << 20 };

enum st keys_add(struct keys *k, const char *source, struct sv key, struct err *e)
{
    struct key_digest d;
    if (key.n < KEY_BYTES_MIN || key.n > KEY_BYTES_MAX)
        return err_set(e, ST_USAGE, "%s: a key has %d to %d characters, this one %zu", source,
                       KEY_BYTES_MIN, KEY_BYTES_MAX, key.n);
    for (size_t i = 0; i < key.n; i++)
        if (key.p[i] <= ' ' || key.p[i] > '~')
            return err_set(e, ST_USAGE, "%s: character %zu of the key is not visible ASCII", source,
                           i + 1);
    hash_sha256(key.p, key.n, d.hex);
    vec_push(&k->all, d);
    return ST_OK;
}

static enum st add_lines(struct keys *k, struct arena *a, const char *path, struct sv text,
                         struct err *e)
{
    const size_t before = k->all.n;
    size_t line = 1;
    for (const char *p = text.p, *end = text.p + text.n; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const size_t n = (size_t)((stop ? stop : end) - p);
        const struct sv key = sv_trim((struct sv){p, n});
        if (key.n > 0 && key.p[0] != '#')
            TRY(keys_add(k, arena_printf(a, "%s:%zu", path, line), key, e));
        p += n + 1;
    }
    if (k->all.n == before)
        return err_set(e, ST_USAGE, "%s: there is no key in it", path);
    return ST_OK;
}

enum st keys_add_file(struct keys *k, const char *path, struct err *e)
{
    struct arena *a = arena_new();
    struct sv text;
    enum st st = fs_read(a, path, FILE_MAX_BYTES, &text, e);
    if (st == ST_OK)
        st = add_lines(k, a, path, text, e);
    arena_free(&a);
    return st;
}

void keys_free(struct keys *k)
{
    vec_free(&k->all);
}

enum keys_verdict keys_check(const struct keys *k, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    const size_t n = sizeof scheme - 1;
    struct key_digest d;
    int found = 0;
    if (k->all.n == 0)
        return KEYS_GOOD;
    if (!authorization || strncasecmp(authorization, scheme, n) != 0)
        return KEYS_MISSING;
    const struct sv given = sv_trim(sv_of(authorization + n));
    hash_sha256(given.p, given.n, d.hex);
    for (size_t i = 0; i < k->all.n; i++) /* always all of them, for constant time */
        found |= CRYPTO_memcmp(d.hex, k->all.p[i].hex, HASH_SHA256_HEX) == 0;
    return found ? KEYS_GOOD : KEYS_WRONG;
}
