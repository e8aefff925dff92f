/* Handlers of the program's CUDA calls: one table by (CUPTI callback domain, callback id).
 *
 * A handler is an object with up to three hooks, in a file of its own; a row gives it a function or
 * a run of neighbouring ids. To add one:
 *   1. its ids in gpu/abi/cupti.h, if missing;
 *   2. a file that defines `const struct handler inject_handler_<name>`;
 *   3. a row below. Nothing else refers to it.
 * A function may stand once in each of the two tables: this one and that of captures. */
#ifndef INJECT_HANDLERS_H
#define INJECT_HANDLERS_H

#include "gpu/abi/cupti.h"
#include "inject/capture_handlers.h"
#include "inject/ring.h"

enum handler_span {
    WHILE_SUBSCRIBED, /* while CUPTI is subscribed, the gate closed or not */
    WHILE_RECORDING,  /* while activity records are on */
};

struct handler {
    enum handler_span span;
    /* Whether the settings enable it; called whenever its span begins. */
    bool (*wanted)(void);
    /* d: a CUpti_ResourceData for ids of that domain. In the program's thread, at entry and at
     * return of the function: must not wait, allocate, or take a lock that callbacks may hold.
     * Pushes results as EVENT_CALL. */
    void (*called)(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id);
    /* Optional. The writer: handles such an event of that ring. */
    void (*write)(struct ring *r, const struct event *e);
};

/* Domain, first and last function, handler. */
/* clang-format off */
#define HANDLER_TABLE(X) \
    X(DRIVER, cuMemcpyHtoD, cuMemcpy3DAsync, launch) \
    X(DRIVER, cuMemsetD8, cu64MemsetD2D32, launch) \
    X(DRIVER, cuLaunch, cuLaunchGridAsync, launch) \
    X(DRIVER, cuMemsetD8Async, cuMemsetD2D32Async, launch) \
    X(DRIVER, cuMemcpy_v2, cuMemsetD2D32_v2, launch) \
    X(DRIVER, cuMemcpyHtoD_v2, cuMemcpyHtoAAsync_v2, launch) \
    X(DRIVER, cuMemcpy, cuLaunchKernel, launch) \
    X(DRIVER, cuProfilerStart, cuProfilerStop, profiler) \
    X(DRIVER, cuMemcpyPeer, cuMemcpy3DPeerAsync, launch) \
    X(DRIVER, cuMemcpyHtoD_v2_ptds, cuMemsetD2D32Async_ptsz, launch) /* per-thread stream */ \
    X(DRIVER, cuLaunchKernel_ptsz, cuLaunchKernel_ptsz, launch) \
    X(DRIVER, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, launch) \
    X(DRIVER, cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, launch) \
    X(DRIVER, cuGraphLaunch, cuGraphLaunch_ptsz, launch) \
    X(DRIVER, cuLaunchKernelEx, cuLaunchKernelEx_ptsz, launch) \
    X(DRIVER, cuMemcpyBatchAsync, cuMemcpy3DBatchAsync_ptsz, launch) \
    X(DRIVER, cuMemcpyBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz, launch) \
    X(RUNTIME, cudaProfilerStart_v4000, cudaProfilerStop_v4000, profiler)
/* clang-format on */
#define X(domain, first, last, name) extern const struct handler inject_handler_##name;
HANDLER_TABLE(X)
CAPTURE_HANDLER_TABLE(X)
#undef X

/* Of HANDLER_TABLE. NULL where the table has no row. From any thread. */
const struct handler *inject_handlers_of(uint32_t domain, uint32_t id);
/* Begins or ends a span of time; lock `control` held. The end switches off what the begin switched
 * on. */
void inject_handlers_switch(enum handler_span span, bool on);
void inject_handlers_forget(void); /* CUPTI has switched all of them off */
/* For cuptiSubscribe. */
void CUPTIAPI inject_handlers_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void *data);

#endif
