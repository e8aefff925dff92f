#include "inject/handlers.h"

#include <string.h>

#include "inject/cupti.h"

enum { RECORDER, CAPTURE, LAYERS }; /* the two tables */
static const struct callback_row {
    CUpti_CallbackDomain domain;
    uint16_t first, last;
    const struct handler *handler;
} rows[] = {
#define X(domain, first, last, name)                                                            \
    {(CUpti_CallbackDomain)CUPTI_CB_DOMAIN_##domain##_API, CUPTI_##domain##_TRACE_CBID_##first, \
     CUPTI_##domain##_TRACE_CBID_##last, &inject_handler_##name},
    HANDLER_TABLE(X) CAPTURE_HANDLER_TABLE(X)
#undef X
};
#define X(domain, first, last, name) +1
enum { RECORDER_ROWS = 0 HANDLER_TABLE(X) };
#undef X
enum { ROWS = sizeof rows / sizeof *rows, DOMAINS = CUPTI_CB_DOMAIN_RESOURCE + 1, IDS = 1024 };

/* Read by every thread, written by none. */
/* clang-format off */
#define X(domain, first, last, name) \
    [CUPTI_CB_DOMAIN_##domain##_API] \
    [CUPTI_##domain##_TRACE_CBID_##first ... CUPTI_##domain##_TRACE_CBID_##last] = \
        &inject_handler_##name,
static const struct handler *const by_id[LAYERS][DOMAINS][IDS] = {
    [RECORDER] = { HANDLER_TABLE(X) },
    [CAPTURE] = { CAPTURE_HANDLER_TABLE(X) },
};
#undef X
/* clang-format on */
static _Atomic bool captures;       /* a handler of the second table was on */
static bool is_on[ROWS];            /* lock `control` held */
static uint8_t users[DOMAINS][IDS]; /* rows that are on; lock `control` held */

const struct handler *inject_handlers_of(uint32_t domain, uint32_t id)
{
    return domain < DOMAINS && id < IDS ? by_id[RECORDER][domain][id] : NULL;
}

void inject_handlers_switch(enum handler_span span, bool on)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct callback_row *r = &rows[i];
        bool want = on && r->handler->wanted();
        if (r->handler->span != span || want == is_on[i])
            continue;
        is_on[i] = want;
        if (want && i >= RECORDER_ROWS)
            atomic_store(&captures, true);
        for (uint32_t id = r->first; id <= r->last; id++) {
            uint8_t *n = &users[r->domain][id];
            *n = (uint8_t)(want ? *n + 1 : *n - 1);
            if (*n == want) /* the first, or none is left */
                inject_cupti_callback(r->domain, id, want);
        }
    }
}

void inject_handlers_forget(void)
{
    memset(is_on, 0, sizeof is_on);
    memset(users, 0, sizeof users);
}

void CUPTIAPI inject_handlers_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void *data)
{
    (void)user;
    struct guest_thread *me = &guest_thread;
    /* A call of this library may load a module of the program's. */
    if ((me->busy && domain != CUPTI_CB_DOMAIN_RESOURCE) ||
        atomic_load_explicit(&guest.state, memory_order_acquire) != GUEST_ON)
        return;
    if ((uint32_t)domain >= DOMAINS || id >= IDS)
        return;
    const struct handler *recorder = by_id[RECORDER][domain][id];
    const struct handler *of_capture =
        atomic_load_explicit(&captures, memory_order_relaxed) ? by_id[CAPTURE][domain][id] : NULL;
    me->busy++;
    const CUpti_CallbackData *d = data;
    bool first =
        recorder && of_capture && d->callbackSite == CUPTI_API_EXIT; /* takes its time before */
    if (first)
        recorder->called(me, d, id);
    if (of_capture)
        of_capture->called(me, d, id);
    if (recorder && !first)
        recorder->called(me, d, id);
    me->busy--;
}
