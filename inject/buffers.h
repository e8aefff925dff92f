/* The buffers that CUPTI writes activity records into: a pool of pages, at most settings.buffers of
 * settings.buffer_bytes each.
 *
 * CUPTI requests and completes them from threads of its own; the writer takes completed ones in
 * order, returns them and keeps two at hand. All under the lock `buffers`. When none is left CUPTI
 * drops records and counts them (SPOOL_FROM_CUPTI). */
#ifndef INJECT_BUFFERS_H
#define INJECT_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

void inject_buffers_reset(
    void); /* at the start, and in a child after fork: existing buffers stay the parent's */

void inject_buffers_request(uint8_t **buffer, size_t *bytes); /* NULL = none free */
/* Ignores foreign buffers: another profiler may have had CUPTI during a pause. */
void inject_buffers_completed(uint8_t *buffer, size_t valid);

/* The writer: takes a completed buffer (NULL = none), and returns it to the pool. */
uint8_t *inject_buffers_take(size_t *valid);
void inject_buffers_return(uint8_t *buffer);
void inject_buffers_refill(void); /* keep two at hand */

uint64_t inject_buffers_peak(void);  /* most in use at once */
uint64_t inject_buffers_bytes(void); /* held */

#endif
