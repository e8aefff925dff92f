/* Launches of CUDA graphs: they are work of a region, and their numbers may say where it begins and
 * ends. So they are seen while nothing is recorded, too. A region begins in front of its first
 * launch and ends behind its last one: both are inside. */
#include "inject/capture.h"
#include "inject/gate.h"

static bool wanted(void)
{
    return inject_capture_wanted();
}

static void called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    const bool entry = d->callbackSite == CUPTI_API_ENTER;
    if (entry)
        me->graph_launch = inject_gate_graph_begins();
    capture_work_called(d, id);
    if (!entry) {
        inject_gate_graph_ends(me->graph_launch);
        me->graph_launch = 0;
    }
}

const struct handler inject_handler_capture_launched = {WHILE_SUBSCRIBED, wanted, called, NULL};
