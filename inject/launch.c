/* Functions of the driver that put work on a GPU: entry and return become SPOOL_LAUNCHES, and are
 * registered with the gate. */
#include "base/clock.h"
#include "inject/gate.h"
#include "inject/handlers.h"

static bool wanted(void)
{
    return guest.settings.launches || inject_gate_filters;
}

static void called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    if (d->callbackSite == CUPTI_API_ENTER) {
        bool open = atomic_load_explicit(&inject_gate_is_open, memory_order_acquire);
        int64_t now_ns = open ? clock_mono_ns() : 0;
        if (open && inject_gate_filters && inject_gate_time_is_up(now_ns))
            open = false;
        *d->correlationData = open ? (uint64_t)now_ns : 0;
        if (open && inject_gate_filters)
            inject_gate_launch(d->correlationId);
        return;
    }
    int64_t start_ns = (int64_t)*d->correlationData;
    struct ring *r = start_ns ? inject_ring_mine(me) : NULL;
    if (!r)
        return;
    int64_t now_ns = clock_mono_ns();
    int64_t sample = inject_ring_sample_begin(r, now_ns);
    inject_ring_push(r, &(struct event){.at_ns = start_ns,
                                        .end_ns = now_ns,
                                        .text = d->correlationId,
                                        .type = EVENT_CALL,
                                        .call_domain = CUPTI_CB_DOMAIN_DRIVER_API,
                                        .cbid = (uint16_t)id});
    inject_ring_sample_end(r, sample);
}

static void write_record(struct ring *r, const struct event *e)
{
    if (guest.settings.launches)
        trace_spool_add(&guest.spool, SPOOL_LAUNCHES,
                        &(struct spool_launch){.start_ns = e->at_ns,
                                               .end_ns = e->end_ns,
                                               .correlation = e->text,
                                               .thread = r->thread,
                                               .cbid = e->cbid});
}

const struct handler inject_handler_launch = {WHILE_RECORDING, wanted, called, write_record};
