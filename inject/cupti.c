#include "inject/cupti.h"

#include <dlfcn.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/cupti_list.h"
#include "inject/buffers.h"
#include "inject/capture.h"
#include "inject/decode.h"
#include "inject/find.h"
#include "inject/gate.h"
#include "inject/handlers.h"
#include "inject/notes.h"

static struct {
#define X(name, arguments, needed) CUptiResult(*name) arguments;
    GPU_CUPTI_LIST(X)
#undef X
} api;

static struct {
    _Atomic bool found, attached, running, own_clock; /* read by the writer */
    _Atomic bool dead; /* a child after fork: the library's state is its parent's */
    _Atomic uint32_t version;
    CUpti_SubscriberHandle subscriber;
    bool before_graphs, level_is_fixed, whole_graphs; /* under control: see fix_graph_level */
} cupti;
static _Atomic bool paused;
static _Atomic bool has_callbacks;

/* ---- the library ---- */

static bool bind(void *lib)
{
    const char *missing = NULL;
#define X(name, arguments, needed)           \
    *(void **)&api.name = dlsym(lib, #name); \
    if (!api.name && (needed))               \
        missing = #name;
    GPU_CUPTI_LIST(X)
#undef X
    if (missing)
        inject_notes_add(SPOOL_ERROR, "no GPU records: CUPTI lacks %s", missing, 0);
    return !missing;
}

bool inject_cupti_open(void)
{
    if (cupti.dead)
        return false;
    if (cupti.found)
        return true;
    void *lib = inject_find_cupti(guest.settings.cupti);
    if (!lib) {
        inject_notes_add(SPOOL_ERROR,
                         "no GPU records: libcupti is not loaded and not found (setting cupti=)",
                         "", 0);
        return false;
    }
    if (!bind(lib))
        return false;
    uint32_t version = 0;
    api.cuptiGetVersion(&version);
    cupti.version = version;
    if (version < 13) {
        inject_notes_add(SPOOL_ERROR, "no GPU records: CUPTI %s%d is older than CUDA 11",
                         "API version ", version);
        return false;
    }
    cupti.found = true;
    return true;
}

/* ---- callbacks ---- */

static uint64_t CUPTIAPI now_for_cupti(void)
{
    return (uint64_t)clock_mono_ns();
}

static void CUPTIAPI request(uint8_t **buffer, size_t *bytes, size_t *records)
{
    *records = 0;
    inject_buffers_request(buffer, bytes);
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                               size_t valid)
{
    (void)context, (void)stream, (void)bytes;
    inject_buffers_completed(buffer, valid);
}

void inject_cupti_callback(CUpti_CallbackDomain domain, uint32_t cbid, bool on)
{
    api.cuptiEnableCallback(on, cupti.subscriber, domain, cbid);
}

/* ---- on and off ---- */

static const char *reason(CUptiResult r)
{
    const char *text = NULL;
    if (api.cuptiGetResultString && api.cuptiGetResultString(r, &text) == CUPTI_SUCCESS && text)
        return text;
    return "error";
}

static void note_refused(const char *kind, CUptiResult r)
{
    char text[160];
    size_t n = strlen(kind), m = strlen(reason(r));
    if (n + m + 8 > sizeof text)
        m = sizeof text - n - 8;
    memcpy(text, kind, n);
    memcpy(text + n, ": ", 2);
    memcpy(text + n + 2, reason(r), m);
    text[n + 2 + m] = 0;
    inject_notes_add(SPOOL_ERROR, "CUPTI records no %s (%d)", text, r);
}

/* CUPTI 13.0 ends the program at the launch of a CUDA graph that was instantiated without
 * graph-level records when they are enabled by then; and, once they have been enabled and disabled,
 * when kernel records are (bench/trace/late_graphs.c shows both without this library). So the level
 * is chosen once: enabled before the first graph it stays, through closed gates and pauses, and
 * unwanted records are dropped; later it cannot be enabled. */
static void fix_graph_level(void)
{
    const struct settings *s = &guest.settings;
    if (cupti.level_is_fixed)
        return;
    cupti.level_is_fixed = true;
    if (!s->kernels || s->graphs != TRACE_GRAPHS_WHOLE)
        return;
    if (!cupti.before_graphs) {
        inject_notes_add(
            SPOOL_WARNING,
            "CUDA graphs are recorded kernel by kernel: graphs=graph must be set before the "
            "first of them, and recording began when the program ran already%s",
            "", 0);
        return;
    }
    CUptiResult r = api.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    cupti.whole_graphs = r == CUPTI_SUCCESS;
    if (r != CUPTI_SUCCESS)
        note_refused("whole graphs", r);
}

static void attach(void)
{
    if (cupti.attached)
        return;
    cupti.own_clock = api.cuptiActivityRegisterTimestampCallback &&
                      api.cuptiActivityRegisterTimestampCallback(now_for_cupti) == CUPTI_SUCCESS;
    if (!cupti.own_clock)
        inject_notes_add(
            SPOOL_WARNING,
            "GPU times are shifted from CUPTI's clock (API version %s%d), which may step", "",
            cupti.version);
    if (api.cuptiSetThreadIdType)
        api.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    CUptiResult r = api.cuptiSubscribe(&cupti.subscriber, inject_handlers_call, NULL);
    atomic_store(&has_callbacks, r == CUPTI_SUCCESS);
    if (r != CUPTI_SUCCESS) {
        inject_notes_add(SPOOL_WARNING, "no launch times: cuptiSubscribe: %s (%d)", reason(r), r);
        inject_capture_missed("CUPTI serves another tool");
    } else
        inject_handlers_switch(WHILE_SUBSCRIBED, true);
    r = api.cuptiActivityRegisterCallbacks(request, completed);
    if (r != CUPTI_SUCCESS)
        inject_notes_add(SPOOL_ERROR, "no GPU records: cuptiActivityRegisterCallbacks: %s (%d)",
                         reason(r), r);
    size_t others = 0; /* dropped while another tool had CUPTI */
    if (api.cuptiActivityGetNumDroppedRecords)
        api.cuptiActivityGetNumDroppedRecords(NULL, 0, &others);
    if (others > 0)
        inject_notes_add(SPOOL_INFO, "CUPTI dropped %d records before this recording%s", "",
                         (int64_t)others);
    fix_graph_level();
    cupti.attached = true;
}

static bool enable(void)
{
    bool any = false;
    for (const struct activity *a = inject_activities; a->kind; a++) {
        if (!a->wanted || !a->wanted(&guest.settings))
            continue;
        CUptiResult r = api.cuptiActivityEnable(a->kind);
        any |= r == CUPTI_SUCCESS;
        if (r != CUPTI_SUCCESS)
            note_refused(a->name, r);
    }
    return any;
}

bool inject_cupti_start(void)
{
    if (cupti.dead || !cupti.found || atomic_load(&paused))
        return false;
    if (cupti.running)
        return true;
    attach();
    if (!atomic_load(&inject_gate_is_open) && inject_gate_filters)
        return true; /* waits for its gate */
    cupti.running = true;
    if (atomic_load(&has_callbacks))
        inject_handlers_switch(WHILE_RECORDING, true);
    return enable();
}

/* Switches kinds and launch callbacks off; the subscriber stays, for cuProfilerStart. */
static void rest(void)
{
    if (!cupti.running)
        return;
    for (const struct activity *a = inject_activities; a->kind; a++)
        if (a->wanted && a->wanted(&guest.settings))
            api.cuptiActivityDisable(a->kind);
    if (atomic_load(&has_callbacks))
        inject_handlers_switch(WHILE_RECORDING, false);
    cupti.running = false;
}

void inject_cupti_rest(void)
{
    if (!cupti.dead && cupti.found)
        rest();
}

void inject_cupti_stop(void)
{
    if (cupti.dead || !cupti.found || !cupti.attached)
        return;
    rest();
    /* Keeps CUPTI: records of whole graphs continue and would fill the buffers of the next client;
     * PyTorch's profiler would free those (bench/trace/late_switches.py). It finds CUPTI taken
     * instead. */
    if (cupti.whole_graphs)
        return;
    inject_capture_missed("recording was paused");
    if (atomic_exchange(&has_callbacks, false))
        api.cuptiUnsubscribe(cupti.subscriber);
    inject_handlers_forget();
    cupti.attached = false;
}

void inject_cupti_pause(bool on)
{
    atomic_store(&paused, on);
}

void inject_cupti_is_early(void)
{
    cupti.before_graphs = true;
}

bool inject_cupti_graphs_can_be(bool whole)
{
    return !cupti.level_is_fixed || cupti.whole_graphs == whole;
}

bool inject_cupti_wanted(void)
{
    return cupti.found && !cupti.dead && !atomic_load(&paused);
}

bool inject_cupti_running(void)
{
    return cupti.running;
}

bool inject_cupti_has_callbacks(void)
{
    return atomic_load(&has_callbacks);
}

void inject_cupti_flush(bool forced)
{
    if (cupti.found && !cupti.dead && cupti.attached)
        api.cuptiActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
}

void inject_cupti_forget(void)
{
    if (cupti.found)
        cupti.dead = true;
    cupti.running = cupti.attached = false;
    inject_handlers_forget();
    atomic_store(&has_callbacks, false);
}

uint64_t inject_cupti_take_dropped(void)
{
    size_t n = 0;
    if (cupti.found && !cupti.dead && cupti.attached && api.cuptiActivityGetNumDroppedRecords)
        api.cuptiActivityGetNumDroppedRecords(NULL, 0, &n);
    return n;
}

uint32_t inject_cupti_version(void)
{
    return cupti.version;
}

int64_t inject_cupti_now_ns(void)
{
    uint64_t t = 0;
    if (cupti.attached && !cupti.dead && api.cuptiGetTimestamp)
        api.cuptiGetTimestamp(&t);
    return (int64_t)t;
}

bool inject_cupti_own_clock(void)
{
    return cupti.own_clock;
}

const char *inject_cupti_api_name(int domain, uint32_t cbid)
{
    const char *name = NULL;
    if (api.cuptiGetCallbackName)
        api.cuptiGetCallbackName((CUpti_CallbackDomain)domain, cbid, &name);
    return name ? name : "";
}

int inject_cupti_next_record(uint8_t *buffer, size_t bytes, void **record)
{
    CUptiResult r = api.cuptiActivityGetNextRecord(buffer, bytes, (CUpti_Activity **)record);
    return r == CUPTI_SUCCESS ? 1 : r == CUPTI_ERROR_MAX_LIMIT_REACHED ? 0 : -1;
}
