/* API keys: control access to paths below /v1/.
 *
 * Only the sha256 of a key is kept, and comparing takes the same time whether and where a key
 * differs. */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/vec.h"

struct key_digest {
    char hex[HASH_SHA256_HEX + 1];
};

/* Zeroed: no keys, none is required. */
struct keys {
    VEC(struct key_digest) all;
};

enum { KEY_BYTES_MIN = 8, KEY_BYTES_MAX = 512 };

/* One key: KEY_BYTES_MIN to KEY_BYTES_MAX visible ASCII characters. ST_USAGE otherwise, as
 * "source: ..."; a message never holds the key. */
enum st keys_add(struct keys *k, const char *source, struct sv key, struct err *e);
/* A file with a key on each line; blank lines and lines that begin with # are skipped, blanks
 * around a key are dropped. ST_USAGE names file and line, or an empty file. */
enum st keys_add_file(struct keys *k, const char *path, struct err *e);
void keys_free(struct keys *k);

enum keys_verdict { KEYS_GOOD, KEYS_MISSING, KEYS_WRONG };
/* Checks the value of an Authorization header, "Bearer KEY"; NULL = absent. Without keys,
 * everything is good. */
enum keys_verdict keys_check(const struct keys *k, const char *authorization);

#endif
