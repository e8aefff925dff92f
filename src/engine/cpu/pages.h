/* Large memory for weights, KV cache and activations: zeroed, page-aligned, huge pages where
 * available, so that streaming does not wait for the TLB. */
#ifndef ENGINE_CPU_PAGES_H
#define ENGINE_CPU_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pool;

struct pages {
    void *base;
    size_t bytes;
};

/* `floats` floats and KERNELS_SLACK more that may be read. ST_USAGE when the system has too little;
 * `what` names the memory. p must be freed or zero. */
enum st pages_alloc(struct pages *p, size_t floats, const char *what, struct err *e);
void pages_free(struct pages *p); /* a zero struct is fine */

/* Touches every page with the pool's threads, so that no run pays for page faults. */
void pages_touch(const struct pages *p, struct pool *pool);
/* The same for `floats` floats from the float `first` on. */
void pages_touch_part(const struct pages *p, size_t first, size_t floats, struct pool *pool);

/* The same for the pages that hold those bytes, by the calling thread; contents and concurrent use
 * are unaffected. False where the kernel cannot (before Linux 5.14). */
bool pages_populate(void *from, size_t bytes);

/* Bytes this process may still take without swapping, from /proc/meminfo and the control group;
 * SIZE_MAX when unknown. */
size_t pages_available_bytes(void);

#endif
