/* How large the processor's caches are, in bytes, as the kernel says
 * (/sys/devices/system/cpu/cpu0/cache); where it is silent, as the C library does, which was seen
 * to take an AMD processor's L3 ten times too large. */
#ifndef BASE_CPU_CACHE_H
#define BASE_CPU_CACHE_H

#include <stdint.h>

/* Of level 2 or 3, for data, as the first core sees it: shared by several cores or its own. 0:
 * unknown. */
int64_t cpu_cache_bytes(int level);
/* The same below another folder than /sys. */
int64_t cpu_cache_bytes_below(const char *sys, int level);

#endif
