/* Hashes: a fast one for tables inside the process, sha256 for names that must be the same for
 * ever. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

uint64_t hash_bytes(const void *p, size_t n); /* 64-bit FNV-1a, finished with a mix; never stored */

enum { HASH_SHA256_HEX = 64 };
/* Lower-case hex of the sha256, NUL-terminated. */
void hash_sha256(const void *p, size_t n, char hex[HASH_SHA256_HEX + 1]);

/* prefix + "_" + the first 10 hex digits of sha256(prefix and parts joined by byte 0x1f). */
char *hash_stable_id(struct arena *a, const char *prefix, const char *const *parts, size_t n);

#endif
