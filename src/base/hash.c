#include "base/hash.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/str.h"

uint64_t hash_bytes(const void *p, size_t n)
{
    const unsigned char *b = p;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
}

void hash_sha256(const void *p, size_t n, char hex[HASH_SHA256_HEX + 1])
{
    unsigned char md[32];
    unsigned len = 0;
    int ok = EVP_Digest(p, n, md, &len, EVP_sha256(), NULL);
    ASSERT(ok == 1 && len == sizeof md);
    for (unsigned i = 0; i < len; i++)
        snprintf(hex + 2 * i, 3, "%02x", md[i]);
}

char *hash_stable_id(struct arena *a, const char *prefix, const char *const *parts, size_t n)
{
    struct buf b = {0};
    buf_puts(&b, prefix);
    for (size_t i = 0; i < n; i++) {
        buf_putc(&b, 0x1f);
        buf_puts(&b, parts[i]);
    }
    char hex[HASH_SHA256_HEX + 1];
    hash_sha256(b.p, b.n, hex);
    buf_free(&b);
    return arena_printf(a, "%s_%.10s", prefix, hex);
}
