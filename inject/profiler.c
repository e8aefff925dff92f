/* cuProfilerStart, cuProfilerStop and the runtime's functions of that name: they open and close the
 * gate if configured. */
#include "inject/gate.h"
#include "inject/handlers.h"

static bool wanted(void)
{
    return guest.settings.profiler;
}

/* Opens at the return of a start, closes at the entry of a stop. */
static void called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)me;
    bool start = id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart ||
                 id == CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000;
    if ((d->callbackSite == CUPTI_API_EXIT) == start)
        inject_gate_profiler(start);
}

const struct handler inject_handler_profiler = {WHILE_SUBSCRIBED, wanted, called, NULL};
