/* How much memory this process may still take: the machine's, and that of its control group. */
#ifndef INJECT_ROOM_H
#define INJECT_ROOM_H

#include <stdint.h>

uint64_t inject_room_bytes(void); /* UINT64_MAX = not known */

/* Of the contents of those files, "" where there is none: /proc/meminfo, and of the control group
 * memory.max and memory.current (version 2), or memory.limit_in_bytes and memory.usage_in_bytes. */
uint64_t inject_room_of(const char *meminfo, const char *limit, const char *used);

#endif
