/* Results that are dear to find, kept on disk for later starts: compiled kernels, choices of matrix
 * products. One file a result, named after the sha256 of its key; written whole or not at all, with
 * a checksum of its own, so that a damaged file counts as absent. No folder, or one that cannot be
 * written, only costs time. Any number of processes may use one folder. */
#ifndef GPU_CACHE_H
#define GPU_CACHE_H

#include "base/str.h"

/* The user's: $XDG_CACHE_HOME/twinfer/<name>, else ~/.cache/twinfer/<name>; NULL when neither
 * variable is set. */
const char *gpu_cache_dir(struct arena *a, const char *name);

/* Keys are lists of parts; no two different lists give the same key. */
void gpu_cache_key_add(struct buf *key, const char *part);

/* *out lives in the arena, NUL-terminated. False: absent or damaged. dir NULL: never there. */
bool gpu_cache_get(struct arena *a, const char *dir, const struct buf *key, const char *suffix,
                   struct sv *out);
/* Makes dir where needed. */
enum st gpu_cache_put(const char *dir, const struct buf *key, const char *suffix, struct sv bytes,
                      struct err *e);

#endif
