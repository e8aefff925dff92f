/* What the files of the guest library share.
 *
 * Threads. The application's threads run callbacks of CUPTI and NVTX: they write events of fixed
 * size into a ring of their own (ring.h) and look up text in a table that is read without a lock
 * (names.h). One thread of ours, the writer, empties the rings, turns CUPTI's activity buffers
 * into records and writes the spool. Nothing on the application's side waits for the disk.
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

#include "inject/old_symbols.h"
#include "inject/payload.h"
#include "inject/settings.h"
#include "trace/spool.h"

enum guest_state { GUEST_NEW, GUEST_ON, GUEST_ENDED, GUEST_DEAD };

struct guest {
    struct settings settings;
    _Atomic int state;           /* enum guest_state */
    _Atomic uint32_t generation; /* counts forks: what an older one set up is not ours */
    _Atomic int pid;             /* that records: another one has been forked past our handlers */
    pthread_mutex_t control, buffers, names, windows;
    struct spool_writer spool; /* the writer thread's */
    _Atomic int disk_full;
};
extern struct guest guest;

/* Start recording in this process; later calls do nothing. with_cuda: the driver is loading, so
 * CUPTI is looked for first. False when there is nothing to do (no settings) or nothing can be
 * done. */
bool guest_start(bool with_cuda);
/* Flush everything and close the file (exit handler). */
void guest_end(void);
/* Whether it is the caller's to end the recording: true once, and never in a raw clone. */
bool guest_claim_end(void);

/* Of one thread, in one place: finding it is a call, which a callback makes once. */
struct guest_thread {
    int busy; /* > 0 while it runs code of ours: callbacks that our own calls raise do not count */
    uint32_t generation; /* of ring */
    struct ring *ring;   /* NULL = none yet */
};
extern __thread struct guest_thread guest_thread;

/* Pages straight from the kernel; NULL when there are none. */
void *guest_pages(size_t bytes);
void guest_free_pages(void *p, size_t bytes);

/* A note in the spool (a warning) from any thread; text is cut at 240 bytes. `what` may hold one
 * "%s" and one "%d" in any order, for the arguments. */
void guest_note(enum spool_level level, const char *what, const char *s, int64_t d);
void guest_write_notes(void); /* the writer */

/* ---- names.c: text, each once ---- */

enum { NAMES_MAX = 1 << 18 };
struct name {
    const char *text;
    uint32_t bytes;
    uint32_t hash;
    uint8_t gate; /* bit i: settings.patterns[i].range matches */
};
bool names_open(void);
/* Its id, 0 for "" and when the table is full. From any thread. */
uint32_t names_intern(const char *text, size_t bytes);
uint32_t names_intern_wide(const wchar_t *text);
const struct name *names_get(uint32_t id);
uint32_t names_count(void);     /* ids are 1 .. count */
uint64_t names_take_lost(void); /* texts not stored since the last call */

/* ---- ring.c: events of one thread ---- */

enum event_type {
    EVENT_LAUNCH,
    EVENT_PUSH,
    EVENT_POP,
    EVENT_START,
    EVENT_STOP,
    EVENT_MARK,
    EVENT_THREAD_NAME,
    EVENT_VALUE /* of the payload of the event of the same time that follows */
};
struct event {
    int64_t at_ns;
    union {
        int64_t end_ns;   /* EVENT_LAUNCH */
        uint64_t payload; /* NVTX */
    };
    uint32_t text;   /* or the correlation id of EVENT_LAUNCH, the tid of EVENT_THREAD_NAME, the
                      * name of EVENT_VALUE */
    uint32_t domain; /* string */
    uint32_t category, color;
    uint32_t id; /* of EVENT_START and EVENT_STOP */
    uint8_t type, payload_type;
    uint16_t cbid;
};

enum { RING_STACK = 512, RING_THREADS = 61440 /* ids of the others come from the top */ };
struct open_range {
    struct event push;
    struct payload payload;
    uint32_t id;
    bool written;
};
struct ring {
    struct ring *next;
    _Atomic int state; /* RING_FREE, RING_USED, RING_LEFT */
    uint16_t thread;   /* id in the spool */
    uint32_t tid;
    bool told; /* SPOOL_THREADS written; the writer's */
    _Atomic uint64_t head, tail, dropped;
    uint64_t dropped_told; /* the writer's */
    /* the owner's: push/pop nesting, for levels and the gate */
    struct {
        uint16_t domain;
        bool gates, told; /* told: the writer learns of it */
    } stack[RING_STACK];
    int depth;
    uint32_t reserved; /* room kept for the ends of ranges that are open and told */
    uint32_t callbacks;
    _Atomic int64_t sampled_ns;
    _Atomic uint64_t all_callbacks;
    /* the writer's: ranges that are open */
    struct open_range open[RING_STACK];
    int n_open;
    struct payload payload; /* of the event of that time, which is yet to come */
    int64_t payload_at_ns;
    struct event events[]; /* settings.ring_events */
};
enum { RING_FREE, RING_USED, RING_LEFT };

bool ring_open(void); /* once, and again after a fork */
/* Of this thread (its guest_thread); NULL when there is no memory. */
struct ring *ring_mine(struct guest_thread *me);
struct ring *ring_first(void); /* all rings, by next */
/* Append; drops and counts when the ring is full. Wakes the writer when it is half full. */
bool ring_push(struct ring *r, const struct event *e);
/* Begin and end of a nested range. An end always finds room where its begin did; where not, neither
 * is told, so that a drop never takes the end of one range for another's. */
bool ring_push_begin(struct ring *r, const struct event *e);
void ring_push_end(struct ring *r, const struct event *e);
void ring_count_drop(struct ring *r);
/* The cost of callbacks, by sampling one in 64: begin at entry, end at return. */
int64_t ring_sample_begin(struct ring *r, int64_t now_ns);
void ring_sample_end(struct ring *r, int64_t began_ns);

/* ---- gate.c: when to record ---- */

void gate_open(void); /* at the start of recording */
extern _Atomic int gate_is_open;
extern bool gate_filters; /* some condition is set: records are checked against windows */
void gate_range(bool enter);
void gate_profiler(bool start);
void gate_pause(bool paused);
void gate_disk_full(void);
void gate_tick(int64_t now_ns); /* the writer: time limits, before it decodes a buffer */
/* For launches: the gate may be open still, as the writer closes it. */
bool gate_time_is_up(int64_t now_ns);
void gate_launch(uint32_t correlation);
/* The writer: was the work of that launch, or the time span, inside a window? A binary search that
 * takes no lock: the application's threads, which open and close windows, never wait for it. */
bool gate_keeps(uint32_t correlation, int64_t start_ns);
bool gate_overlaps(int64_t start_ns, int64_t end_ns);
/* The writer: windows that ended since the last call go to the spool; at the end the open one
 * too. */
void gate_write(bool end);
/* Closed for so long that CUPTI may be switched off. */
int64_t gate_closed_ns(int64_t now_ns);
uint64_t gate_take_lost(void); /* the writer: records whose window was forgotten */

/* ---- cupti.c, buffers.c, decode.c ---- */

bool cupti_open(void);  /* find the library; notes why not */
bool cupti_start(void); /* subscribe, register, enable; under control */
/* Everything off, unsubscribed; under control. Where graphs are recorded whole, as cupti_rest. */
void cupti_stop(void);
void cupti_rest(void);     /* kinds off, the subscriber stays; under control */
void cupti_pause(bool on); /* whether cupti_start may */
bool cupti_wanted(void);   /* found, and not paused */
bool cupti_running(void);
bool cupti_has_callbacks(void); /* a subscriber is in place */
/* Before the first cupti_start: no CUDA graph can exist yet, so that graphs=graph is possible. */
void cupti_is_early(void);
/* Whether the level at which graphs are recorded is this one, or can still be chosen. */
bool cupti_graphs_can_be(bool whole);
void cupti_flush(bool forced);
void cupti_forget(void); /* in a child after fork */
uint64_t cupti_take_dropped(void);
uint32_t cupti_version(void);
int64_t cupti_now_ns(void); /* its clock, 0 = none */
bool cupti_own_clock(void); /* CUPTI uses CLOCK_MONOTONIC */
const char *cupti_api_name(int domain, uint32_t cbid);
/* 1, 0 at the end, -1 when CUPTI cannot read on. */
int cupti_next_record(uint8_t *buffer, size_t bytes, void **record);

void buffers_reset(void);
void buffers_request(uint8_t **buffer, size_t *bytes);
void buffers_completed(uint8_t *buffer, size_t valid);
/* The writer: a completed buffer, and back to the pool. */
uint8_t *buffers_take(size_t *valid);
void buffers_return(uint8_t *buffer);
void buffers_refill(void); /* keep two at hand */
uint64_t buffers_peak(void);
uint64_t buffers_bytes(void);

bool decode_open(void);
/* The writer: host clocks of the same moment. */
void decode_host_clocks(int64_t mono_ns, int64_t wall_ns);
void decode_buffer(uint8_t *buffer, size_t valid);
void decode_clock(int64_t mono_ns,
                  int64_t cupti_ns); /* a pair, when CUPTI keeps a clock of its own */
uint64_t decode_take_unknown(void);
uint64_t decode_take_no_times(void);

/* ---- nvtx.c, ranges.c ---- */

void ranges_reset(void);
void ranges_event(struct ring *r, const struct event *e);
void ranges_write_open(int64_t now_ns, bool end); /* those open for longer than a flush interval */
void ranges_thread_gone(struct ring *r);

/* ---- writer.c ---- */

bool writer_start(void);
void writer_stop(void); /* final flush, at most some seconds */
void writer_wake(void);
void writer_flush(void); /* and wait for it */
bool writer_is_me(void);
/* All strings up to this id are in the spool; returns id. The writer's thread only. */
uint32_t writer_string(uint32_t id);
uint16_t writer_thread_of(uint32_t tid); /* thread id in the spool of a system thread */

#endif
