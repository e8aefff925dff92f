/* Queues of events from the application's threads to the writer: one ring a thread.
 *
 * A thread gets its ring with its first event and releases it when it ends; an emptied one is
 * reused by the next new thread. The owner appends, the writer consumes; neither waits. A full ring
 * drops the event and counts it. */
#ifndef INJECT_RING_H
#define INJECT_RING_H

#include "inject/guest.h"
#include "inject/payload.h"

enum event_type {
    EVENT_CALL, /* of a CUDA function; handled as in handlers.h */
    EVENT_PUSH,
    EVENT_POP,
    EVENT_START,
    EVENT_STOP,
    EVENT_MARK,
    EVENT_THREAD_NAME,
    EVENT_VALUE /* payload of the next event, of the same time */
};
struct event {
    int64_t at_ns;
    union {
        int64_t end_ns;   /* EVENT_CALL */
        uint64_t payload; /* NVTX */
    };
    uint32_t text;   /* or the correlation id of EVENT_CALL, the tid of EVENT_THREAD_NAME, the name
                      * of EVENT_VALUE */
    uint32_t domain; /* string */
    uint32_t category, color;
    uint32_t id; /* of EVENT_START and EVENT_STOP */
    uint8_t type;
    union {
        uint8_t payload_type;
        uint8_t call_domain; /* CUpti_CallbackDomain of EVENT_CALL */
    };
    uint16_t cbid; /* of EVENT_CALL */
};

enum { RING_STACK = 512, RING_THREADS = 61440 /* ids of the others come from the top */ };
struct open_range {
    struct event push;
    struct payload payload;
    uint32_t id;
    bool written;
};
enum { RING_FREE, RING_USED, RING_LEFT };
struct ring {
    struct ring *next;
    _Atomic int state; /* RING_FREE, RING_USED, RING_LEFT */
    uint16_t thread;   /* id in the spool */
    uint32_t tid;
    bool told; /* SPOOL_THREADS written; owned by the writer */
    _Atomic uint64_t head, tail, dropped;
    uint64_t dropped_told; /* owned by the writer */
    /* owned by the thread: push/pop nesting, for levels and the gate */
    struct {
        uint16_t domain;
        bool gates, told; /* told: its begin was pushed */
    } stack[RING_STACK];
    int depth;
    uint32_t reserved; /* room reserved for the ends of pushed open ranges */
    uint32_t callbacks;
    _Atomic int64_t sampled_ns;
    _Atomic uint64_t all_callbacks;
    /* owned by the writer: open ranges */
    struct open_range open[RING_STACK];
    int n_open;
    struct payload payload; /* of a later event of that time */
    int64_t payload_at_ns;
    struct event events[]; /* settings.ring_events */
};

bool inject_ring_open(void); /* once, and again after a fork */
/* The ring of this thread (in its guest_thread); NULL when there is no memory. */
struct ring *inject_ring_mine(struct guest_thread *me);
struct ring *inject_ring_first(void); /* all rings, by next */

/* The writer has had nothing to do for a while: the next event wakes it. One that it misses by a
 * hair waits for its next flush. */
extern _Atomic bool inject_ring_wakes;

/* Append; drops and counts when the ring is full. Wakes the writer when it is half full. */
bool inject_ring_push(struct ring *r, const struct event *e);
/* Begin and end of a nested range. An end has room if its begin had; otherwise neither is pushed,
 * so that a drop never pairs the end of one range with another's begin. */
bool inject_ring_push_begin(struct ring *r, const struct event *e);
void inject_ring_push_end(struct ring *r, const struct event *e);
void inject_ring_count_drop(struct ring *r);

/* Measures the cost of callbacks, by sampling one in 64: begin at entry, end at return. */
int64_t inject_ring_sample_begin(struct ring *r, int64_t now_ns);
void inject_ring_sample_end(struct ring *r, int64_t began_ns);

#endif
