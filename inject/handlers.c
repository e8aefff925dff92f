#include "inject/handlers.h"

#include "inject/cupti.h"

static const struct row {
    CUpti_CallbackDomain domain;
    uint16_t first, last;
    const struct handler *handler;
} rows[] = {
#define X(domain, first, last, name)                                      \
    {CUPTI_CB_DOMAIN_##domain##_API, CUPTI_##domain##_TRACE_CBID_##first, \
     CUPTI_##domain##_TRACE_CBID_##last, &inject_handler_##name},
    HANDLER_TABLE(X)
#undef X
};
enum { ROWS = sizeof rows / sizeof *rows, DOMAINS = CUPTI_CB_DOMAIN_RUNTIME_API + 1, IDS = 1024 };

/* Read by every thread, written by none. */
/* clang-format off */
static const struct handler *const by_id[DOMAINS][IDS] = {
#define X(domain, first, last, name) \
    [CUPTI_CB_DOMAIN_##domain##_API] \
    [CUPTI_##domain##_TRACE_CBID_##first ... CUPTI_##domain##_TRACE_CBID_##last] = \
        &inject_handler_##name,
    HANDLER_TABLE(X)
#undef X
};
/* clang-format on */
static bool is_on[ROWS]; /* lock `control` held */

const struct handler *inject_handlers_of(uint32_t domain, uint32_t id)
{
    return domain < DOMAINS && id < IDS ? by_id[domain][id] : NULL;
}

void inject_handlers_switch(enum handler_span span, bool on)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        bool want = on && r->handler->wanted();
        if (r->handler->span != span || want == is_on[i])
            continue;
        is_on[i] = want;
        for (uint32_t id = r->first; id <= r->last; id++)
            inject_cupti_callback(r->domain, id, want);
    }
}

void inject_handlers_forget(void)
{
    for (size_t i = 0; i < ROWS; i++)
        is_on[i] = false;
}

void CUPTIAPI inject_handlers_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void *data)
{
    (void)user;
    struct guest_thread *me = &guest_thread;
    if (me->busy || atomic_load_explicit(&guest.state, memory_order_acquire) != GUEST_ON)
        return;
    const struct handler *h = inject_handlers_of(domain, id);
    if (!h)
        return;
    me->busy++;
    h->called(me, data, id);
    me->busy--;
}
