/* Sizes of the processor's caches in bytes, from /sys/devices/system/cpu/cpu0/cache; where that is
 * missing, from the C library, which was seen to report an AMD processor's L3 ten times too large.
 */
#ifndef BASE_CPU_CACHE_H
#define BASE_CPU_CACHE_H

#include <stdint.h>

/* Data cache of level 2 or 3 of the first core, shared with other cores or not. 0: unknown. */
int64_t cpu_cache_bytes(int level);
/* The same below another folder than /sys. */
int64_t cpu_cache_bytes_below(const char *sys, int level);

#endif
