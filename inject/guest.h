/* State of the recorder in this process, from the first callback to the exit handler.
 *
 * The library is a guest in another program (tw_trace.h lists what it never does). Each file here
 * is a module with a header as its manual:
 *
 *     program's threads:  handlers.h  nvtx.h payload.h      entry points of CUPTI and NVTX
 *                         gate.h                            whether to record
 *                         names.h ring.h                    text, and events of fixed size
 *     CUPTI's threads:    buffers.h                         its activity buffers
 *     the writer:         writer.h <- ring.h ranges.h decode.h facts.h notes.h -> trace/spool.h
 *     on and off:         guest.h settings.h cupti.h find.h  under `control`
 *     a region captured:  capture.h capture_handlers.h elf.h list.h -> capsule/file.h
 *
 * Threads. The application's threads run callbacks of CUPTI and NVTX: they write events of fixed
 * size into a ring of their own and look up text in a table that is read without a lock. One thread
 * of the library, the writer, empties the rings, turns CUPTI's activity buffers into records and
 * writes the spool. Nothing on the application's side waits for the disk.
 *
 * Locks, in the order in which they may be taken: control (CUPTI is switched on and off, the
 * recorder starts and ends), buffers, names, windows. All are held across fork. */
#ifndef INJECT_GUEST_H
#define INJECT_GUEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/settings.h"
#include "trace/spool.h"

enum guest_state { GUEST_NEW, GUEST_ON, GUEST_ENDED, GUEST_DEAD };

struct guest {
    struct settings settings;
    _Atomic int state;           /* enum guest_state */
    _Atomic uint32_t generation; /* counts forks: state of an older generation is the parent's */
    _Atomic int pid; /* process that records; differs in a child forked without the handlers */
    pthread_mutex_t control, buffers, names, windows;
    struct spool_writer spool; /* the writer thread's */
    _Atomic int disk_full;
};
extern struct guest guest;

/* Start recording in this process; later calls do nothing. with_cuda: the driver is loading, so
 * CUPTI is opened first. False without settings, or when recording is impossible. */
bool inject_start(bool with_cuda);
/* Claims the right to end the recording: true once, and never in a raw clone. */
bool inject_claim_end(void);

/* Thread-local state in one place: finding it is a call, made once per callback. Aligned to a cache
 * line, so that threads share none; also, LeakSanitizer of GCC 12 mistakes a thread's block that
 * begins 16 bytes into a page for one of an older C library, and follows the bytes before it. */
struct guest_thread {
    /* > 0 while it runs this library's code: callbacks raised by that are ignored */
    _Alignas(64) int busy;
    uint32_t generation;  /* of ring */
    struct ring *ring;    /* NULL = none yet (ring.h) */
    int64_t graph_launch; /* number of the CUDA graph's launch that it is in (gate.h); 0 = none */
};
extern __thread struct guest_thread guest_thread;

/* Zeroed pages straight from the kernel, never given back; NULL when there are none. */
void *inject_pages(size_t bytes);

#endif
