/* The writer: the recorder's own thread. It empties rings and buffers whenever it is woken, and
 * twice a second (settings.flush_ns) writes everything to the spool. A server may be killed after
 * its last batch: when nothing has come for a fiftieth of that, all is written too, and again after
 * twice as long, four times ..., since work may end on the GPU later than it was launched. While
 * work comes, the header of the spool has a sign of life that often; one that rests is woken by the
 * next event. Only this thread touches guest.spool. */
#ifndef INJECT_WRITER_H
#define INJECT_WRITER_H

#include <stdbool.h>
#include <stdint.h>

bool inject_writer_start(void);
void inject_writer_stop(void);  /* final flush, at most some seconds */
void inject_writer_wake(void);  /* from any thread */
void inject_writer_flush(void); /* and wait for it, at most some seconds */

/* The writer's thread only. Writes all strings up to this id to the spool; returns id. */
uint32_t inject_writer_string(uint32_t id);
/* The id in the spool of a system thread; 0 when there are too many. */
uint16_t inject_writer_thread_of(uint32_t tid);

#endif
