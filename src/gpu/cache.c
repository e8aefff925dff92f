#include "gpu/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/hash.h"

/* First line of a file: the format, then the sha256 of all behind the line. */
static const char magic[] = "twinfer cache 1 ";
enum { MAX_BYTES = 64 << 20, HEADER_BYTES = sizeof magic - 1 + HASH_SHA256_HEX + 1 };

const char *gpu_cache_dir(struct arena *a, const char *name)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && *xdg == '/')
        return arena_printf(a, "%s/twinfer/%s", xdg, name);
    return home && *home ? arena_printf(a, "%s/.cache/twinfer/%s", home, name) : NULL;
}

void gpu_cache_key_add(struct buf *key, const char *part)
{
    buf_printf(key, "%zu:%s", strlen(part), part);
}

static const char *path_of(struct arena *a, const char *dir, const struct buf *key,
                           const char *suffix)
{
    char hex[HASH_SHA256_HEX + 1];
    hash_sha256(key->p, key->n, hex);
    return arena_printf(a, "%s/%s.%s", dir, hex, suffix);
}

bool gpu_cache_get(struct arena *a, const char *dir, const struct buf *key, const char *suffix,
                   struct sv *out)
{
    struct err e = {0};
    struct sv file;
    char hex[HASH_SHA256_HEX + 1];
    const size_t at = sizeof magic - 1;
    const char *path = dir ? path_of(a, dir, key, suffix) : NULL;
    if (!path || !fs_exists(path) || fs_read(a, path, MAX_BYTES, &file, &e) != ST_OK ||
        file.n < HEADER_BYTES || memcmp(file.p, magic, at) != 0 || file.p[HEADER_BYTES - 1] != '\n')
        return false;
    *out = (struct sv){file.p + HEADER_BYTES, file.n - HEADER_BYTES};
    hash_sha256(out->p, out->n, hex);
    return memcmp(file.p + at, hex, HASH_SHA256_HEX) == 0;
}

enum st gpu_cache_put(const char *dir, const struct buf *key, const char *suffix, struct sv bytes,
                      struct err *e)
{
    struct arena *a = arena_new();
    struct buf file = {0};
    char hex[HASH_SHA256_HEX + 1];
    hash_sha256(bytes.p, bytes.n, hex);
    buf_printf(&file, "%s%s\n", magic, hex);
    buf_add(&file, bytes.p, bytes.n);
    enum st st = fs_mkdirs(dir, e);
    if (st == ST_OK)
        st = fs_write_atomic(path_of(a, dir, key, suffix), file.p, file.n, e);
    buf_free(&file);
    arena_free(&a);
    return st;
}
