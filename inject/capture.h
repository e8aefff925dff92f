/* Capturing a region of the program as a capsule (capsule/format.h), beside its recording.
 *
 * The setting capture=N takes the N-th opening of the gate by range, profiler or graph. Handlers of
 * driver calls (capture_handlers.h) keep what a capsule needs from the start of the process on:
 *
 *     capture_memory.c    allocations of every kind, and what cannot be captured
 *     capture_module.c    images of modules, functions, globals    capture_elf.h
 *     capture_graph.c     CUDA graphs, expanded when they are instantiated
 *     capture_launched.c  launches of CUDA graphs, by whose number a region may begin and end
 *     capture_work.c      inside the region: launches, copies, sets, order
 *     capture_pages.c     memory before and after the region
 *     capture.c           the region: when it begins and ends, refusals, the files
 *
 * inject_capture_begin stops the thread that enters the region until the GPU is idle and memory has
 * been copied; inject_capture_end does so behind it. In between a call costs some microseconds.
 *
 * The files appear in a folder beside the spool, "<host>-<pid>.capsule"; launches.bin appears last.
 * What cannot be captured is refused: a line in refused.txt there names it, nothing else is kept,
 * and the program goes on.
 *
 * Locks: `work` is held over calls of the driver, `memory` and `images` never; the last two may be
 * taken inside callbacks that the driver raises with locks of its own held. */
#ifndef INJECT_CAPTURE_H
#define INJECT_CAPTURE_H

#include "capsule/format.h"
#include "gpu/capture_list.h"
#include "inject/guest.h"
#include "inject/handlers.h"
#include "inject/list.h"

enum capture_state {
    CAPTURE_OFF,     /* not asked for, or over */
    CAPTURE_WAITING, /* for the region */
    CAPTURE_RUNNING, /* inside it */
};

struct capture_driver {
#define X(name, arguments, needed) CUresult(*name) arguments;
    GPU_CAPTURE_LIST(X)
#undef X
};

struct capture {
    _Atomic int state; /* enum capture_state */
    pthread_mutex_t work, memory, images;
    struct capture_driver driver; /* bound when the region begins, or at the first graph */
    bool bound;
    _Atomic(CUcontext) context;          /* in which memory was allocated last; then the region's */
    _Atomic int capturing;               /* streams in capture */
    struct list sections[CAPSULE_KINDS]; /* lock `work`: records of the capsule */
    int64_t start_ns;
    char dir[SETTINGS_PATH + 160];
};
extern struct capture capture;

/* ---- for the rest of the guest ---- */

void inject_capture_reset(void);  /* at the start of recording, settings read */
void inject_capture_forget(void); /* in a child after fork */
bool inject_capture_wanted(void);
/* The driver runs already, or callbacks were off for a while: allocations may have been missed. */
void inject_capture_missed(const char *why);
/* The gate's condition became true: before it opens, after that; became false: after it closed. In
 * the program's thread. */
void inject_capture_begin(void);
void inject_capture_started(void);
void inject_capture_end(void);
/* What ends a region of launches of CUDA graphs before its last one: "cuProfilerStop came". */
void inject_capture_cut(const char *what);
/* The process ends: how far it came with such a region, for who asks why there is no capsule. */
void inject_capture_told(void);

/* ---- for the files of the capture ---- */

static inline bool capture_is(enum capture_state s)
{
    return atomic_load_explicit(&capture.state, memory_order_acquire) == (int)s;
}

/* Ends the capture, with the reason. The first reason stays. */
void capture_refuse(const char *what, ...) __attribute__((format(printf, 1, 2)));
bool capture_bind(void); /* the driver's functions; refuses when one is missing */

/* Lock `work` held. Adds a record, returns its index; CAPSULE_NONE (and a refusal) without memory.
 */
uint32_t capture_add(enum capsule_kind kind, const void *record);
uint32_t capture_add_many(enum capsule_kind kind, const void *records, size_t n);
struct capsule_span capture_bytes(const void *p, size_t n);
#define CAPTURE_COUNT(kind) ((uint32_t)capture.sections[CAPSULE_##kind].n)
#define CAPTURE_AT(kind, type, i) \
    LIST_AT(&capture.sections[CAPSULE_##kind], struct capsule_##type, i)

/* ---- capture_memory.c ---- */

void capture_memory_reset(void);
/* A live allocation around [at, at + bytes): 0 = none, else enum capsule_memory. */
uint32_t capture_memory_of(uint64_t at, uint64_t bytes);
/* A kernel of the region has this pointer: whether into live memory, which it may write. */
bool capture_memory_reach(uint64_t at);
/* Whether that memory is the host's, and whether kernels reach its allocation. */
bool capture_memory_is_host(uint64_t at, uint64_t bytes, bool *reached);
/* Whether kernels of the region have pointers into the host's memory. */
bool capture_memory_host_is_reached(void);
/* Refuses what cannot be captured at the start of a region; the bytes that are live. */
bool capture_memory_check(uint64_t *live_bytes);
/* All of the region, sorted, into the section; from the start on, what is freed is kept as gone. */
void capture_memory_start(void);
bool capture_memory_write(void);

/* ---- capture_module.c ---- */

struct capture_function { /* a handle that the program launches */
    const void *handle;   /* CUfunction or CUkernel */
    CUfunction function;
    CUmodule module;
    uint32_t image;      /* 1 + index, 0 = not known */
    bool unsure;         /* other images may be meant as well */
    uint32_t in_capsule; /* 1 + its index in CAPSULE_FUNCTIONS */
    uint32_t first_param, n_params, params_bytes;
    size_t name_at;  /* capture_function_name; a mangled name may have many KiB */
    char shown[128]; /* the name for people, its end left out when it is longer */
};
/* Valid until the next capture_function_of. */
const char *capture_function_name(const struct capture_function *f);
void capture_module_reset(void);
/* Lock `work` held. NULL and a refusal where the driver does not tell. Valid until the next call.
 */
struct capture_function *capture_function_of(const void *handle);
struct capture_function *capture_function_at(uint32_t i);
uint32_t capture_function_index(const struct capture_function *f);
/* Its index in CAPSULE_FUNCTIONS; CAPSULE_NONE after a refusal. */
uint32_t capture_function_use(struct capture_function *f);
/* Bytes of its parameters as they were passed, at their offsets, into `to` (f->params_bytes). */
bool capture_params(const struct capture_function *f, void **params, void **extra,
                    unsigned char *to);
/* Words that are pointers must point into captured memory. */
bool capture_params_check(const struct capture_function *f, const unsigned char *bytes);
void capture_modules_start(void); /* values of the globals of modules that are known */
void capture_functions_end(void); /* what changed about functions in use, when the region ends */
/* Images that are used, into the folder's modules/. *unread: globals without a value. */
bool capture_images_write(const char *dir, uint64_t *unread);

/* ---- capture_graph.c ---- */

void capture_graph_reset(void);
/* Lock `work` held: the graph's operations, in the place of its launch. */
void capture_graph_launch(CUgraphExec graph, CUstream handle, uint32_t stream);

/* ---- capture_work.c ---- */

void capture_work_reset(void);
/* A call of the driver that is in CAPTURE_HANDLER_TABLE as capture_work or capture_launched. */
void capture_work_called(const CUpti_CallbackData *d, CUpti_CallbackId id);
struct capsule_op capture_op(enum capsule_op_kind kind, uint32_t item, uint32_t stream);
/* When the region ends: functions of the host run in their places and are not replayed, so that
 * what they may have written must not be read by the GPU. False after a refusal. */
bool capture_work_check(void);
/* Whether work of that stream becomes nodes of a graph; lock `work` not held. */
bool capture_is_recording_graph(uint64_t stream, bool per_thread);
/* Waits for work that may still write the source. False after a refusal. */
bool capture_copy_drain(const struct capsule_copy *m, CUstream handle);
/* The places of a copy's ends, its source kept. False after a refusal. */
bool capture_copy_finish(struct capsule_copy *m);
bool capture_copy_of_3d(const CUDA_MEMCPY3D *p, struct capsule_copy *out);

/* ---- capture_pages.c ---- */

/* Reads memory into CAPSULE_PAGES and memory.raw; the same after the region. */
bool capture_pages_before(uint64_t live_bytes);
bool capture_pages_after(void);

#endif
