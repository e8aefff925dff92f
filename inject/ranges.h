/* Assembles NVTX events of the rings into ranges and marks (SPOOL_RANGES). The writer's thread
 * only.
 *
 * Push/pop ranges nest in their thread and domain. Start/end ranges may end on another thread,
 * whose ring may be emptied first, so that an end may come before its start. A range that is open
 * for longer than a flush interval is written as open, and once more when it ends. */
#ifndef INJECT_RANGES_H
#define INJECT_RANGES_H

#include "inject/ring.h"

void inject_ranges_reset(void);
void inject_ranges_event(struct ring *r, const struct event *e);
void inject_ranges_write_open(int64_t now_ns,
                              bool end); /* those open for longer than a flush interval */
void inject_ranges_thread_gone(struct ring *r);

#endif
