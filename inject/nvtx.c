#include "inject/nvtx.h"

#include <string.h>

#include "base/clock.h"
#include "inject/gate.h"
#include "inject/names.h"
#include "inject/ring.h"

enum { DOMAINS = 512 };
static struct domain {
    uint32_t name;
    uint8_t gate;   /* bit i: settings.patterns.list[i].domain matches */
} domains[DOMAINS]; /* 0 is the default one; handles point here */
static _Atomic uint32_t n_domains = 1;
static _Atomic uint32_t last_start;

static uint8_t gate_bits(uint32_t domain_name)
{
    const struct name *name = inject_names_get(domain_name);
    uint8_t bits = 0;
    for (int p = 0; p < guest.settings.patterns.n; p++)
        if (inject_settings_match(guest.settings.patterns.list[p].domain, name->text, name->bytes))
            bits = (uint8_t)(bits | 1u << p);
    return bits;
}

void inject_nvtx_reset(void)
{
    for (uint32_t i = 0; i < atomic_load(&n_domains); i++)
        domains[i].gate = gate_bits(domains[i].name);
}

static uint16_t domain_of(nvtxDomainHandle_t handle)
{
    const struct domain *d = (const struct domain *)(const void *)handle;
    return d > domains && d < domains + DOMAINS ? (uint16_t)(d - domains) : 0;
}

static nvtxDomainHandle_t create(uint32_t name)
{
    pthread_mutex_lock(&guest.windows); /* rare; any lock held across fork will do */
    uint32_t n = atomic_load(&n_domains), i = 1;
    while (i < n && domains[i].name != name)
        i++;
    if (i == n && n < DOMAINS) {
        domains[i].name = name;
        domains[i].gate = gate_bits(name);
        atomic_store(&n_domains, n + 1);
    }
    pthread_mutex_unlock(&guest.windows);
    return (nvtxDomainHandle_t)(void *)&domains[i < DOMAINS ? i : 0];
}

/* The thread's ring if this event is to be recorded. */
static struct ring *enter(void)
{
    struct guest_thread *me = &guest_thread;
    if (me->busy)
        return NULL;
    int state = atomic_load_explicit(&guest.state, memory_order_acquire);
    if (state == GUEST_NEW && !inject_start(false)) /* first event in a child after fork */
        return NULL;
    if (state > GUEST_ON || (!guest.settings.nvtx && guest.settings.patterns.n == 0))
        return NULL;
    return inject_ring_mine(me);
}

static uint32_t text_of(const char *s)
{
    return s ? inject_names_intern(s, strlen(s)) : 0;
}

/* Numbers of the payload extension fill `p`; a single plain NVTX payload is stored in the event. */
static struct event event_of(uint8_t type, uint16_t domain, const nvtxEventAttributes_t *a,
                             struct payload *p)
{
    struct event e = {
        .at_ns = clock_mono_ns(), .type = type, .domain = domains[domain].name, .text = 0};
    inject_payload_read(domain, NULL, 0, p);
    if (!a || a->size < offsetof(nvtxEventAttributes_t, message) + sizeof a->message)
        return e;
    switch (a->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
        e.text = text_of(a->message.ascii);
        break;
    case NVTX_MESSAGE_TYPE_UNICODE:
        e.text = inject_names_intern_wide(a->message.unicode);
        break;
    case NVTX_MESSAGE_TYPE_REGISTERED:
        e.text = (uint32_t)(uintptr_t)a->message.registered;
        if (e.text > inject_names_count())
            e.text = 0;
        break;
    default:
        break;
    }
    e.category = a->category;
    e.color = a->colorType == NVTX_COLOR_ARGB ? a->color : 0;
    if (a->payloadType == NVTX_PAYLOAD_TYPE_EXT) {
        inject_payload_read(domain, (const nvtxPayloadData_t *)(uintptr_t)a->payload.ullValue,
                            a->reserved0 > 0 ? (size_t)a->reserved0 : 0, p);
        e.text = e.text ? e.text : p->message;
    } else {
        e.payload_type = (uint8_t)a->payloadType;
        e.payload = a->payloadType ? a->payload.ullValue : 0;
    }
    return e;
}

/* Pushes values before their event. */
static void push_values(struct ring *r, const struct event *e, const struct payload *p)
{
    for (int i = 0; p && i < p->n; i++)
        inject_ring_push(r, &(struct event){.at_ns = e->at_ns,
                                            .payload = p->values[i].bits,
                                            .text = p->values[i].name,
                                            .type = EVENT_VALUE,
                                            .payload_type = p->values[i].type});
}

static bool gates(const struct event *e, uint16_t domain)
{
    return (inject_names_get(e->text)->gate & domains[domain].gate) != 0;
}

static int level_of(const struct ring *r, uint16_t domain)
{
    int level = 0;
    for (int i = 0; i < r->depth && i < RING_STACK; i++)
        level += r->stack[i].domain == domain;
    return level;
}

static int push(uint16_t domain, struct event e, const struct payload *p)
{
    struct ring *r = enter();
    if (!r)
        return NVTX_NO_PUSH_POP_TRACKING;
    int64_t sample = inject_ring_sample_begin(r, e.at_ns);
    bool gate = gates(&e, domain), deep = r->depth >= RING_STACK;
    if (!deep)
        push_values(r, &e, p);
    bool told = !deep && inject_ring_push_begin(r, &e);
    int level = level_of(r, domain);
    inject_ring_sample_end(r, sample);
    if (deep) {
        inject_ring_count_drop(r);
    } else {
        r->stack[r->depth].domain = domain;
        r->stack[r->depth].gates = gate;
        r->stack[r->depth].told = told;
        if (gate)
            inject_gate_range(true);
    }
    r->depth++;
    return level;
}

static int pop(uint16_t domain, const struct payload *p)
{
    struct ring *r = enter();
    if (!r || r->depth == 0)
        return NVTX_NO_PUSH_POP_TRACKING;
    if (r->depth > RING_STACK) {
        r->depth--;
        return RING_STACK;
    }
    struct event e = {.at_ns = clock_mono_ns(), .type = EVENT_POP, .domain = domains[domain].name};
    int64_t sample = inject_ring_sample_begin(r, e.at_ns);
    int i = r->depth - 1;
    while (i >= 0 && r->stack[i].domain != domain)
        i--;
    if (i < 0)
        return NVTX_NO_PUSH_POP_TRACKING; /* pushed before recording began */
    if (r->stack[i].told) {
        push_values(r, &e, p);
        inject_ring_push_end(r, &e);
    }
    bool gate = r->stack[i].gates;
    for (r->depth--; i < r->depth; i++)
        r->stack[i] = r->stack[i + 1];
    int level = level_of(r, domain);
    inject_ring_sample_end(r, sample);
    if (gate)
        inject_gate_range(false);
    return level;
}

/* The lowest bit of the id: the range holds the gate open. */
static nvtxRangeId_t start(uint16_t domain, struct event e, const struct payload *p)
{
    struct ring *r = enter();
    if (!r)
        return 0;
    e.id = atomic_fetch_add(&last_start, 1) + 1;
    bool gate = gates(&e, domain);
    push_values(r, &e, p);
    inject_ring_push(r, &e);
    if (gate)
        inject_gate_range(true);
    return (nvtxRangeId_t)e.id << 1 | gate;
}

static void stop(nvtxRangeId_t id, const struct payload *p)
{
    struct ring *r = id ? enter() : NULL;
    if (!r)
        return;
    struct event e = {.at_ns = clock_mono_ns(), .type = EVENT_STOP, .id = (uint32_t)(id >> 1)};
    push_values(r, &e, p);
    inject_ring_push(r, &e);
    if (id & 1)
        inject_gate_range(false);
}

static void mark(struct event e, const struct payload *p)
{
    struct ring *r = enter();
    if (!r)
        return;
    push_values(r, &e, p);
    inject_ring_push(r, &e);
}

static struct event plain(uint8_t type, uint32_t text)
{
    return (struct event){.at_ns = clock_mono_ns(), .type = type, .text = text};
}

/* ---- what NVTX calls ---- */

static void NVTX_API domain_mark_ex(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
    struct payload p;
    struct event e = event_of(EVENT_MARK, domain_of(d), a, &p);
    mark(e, &p);
}
static nvtxRangeId_t NVTX_API domain_start_ex(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
    struct payload p;
    struct event e = event_of(EVENT_START, domain_of(d), a, &p);
    return start(domain_of(d), e, &p);
}
static int NVTX_API domain_push_ex(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
    struct payload p;
    struct event e = event_of(EVENT_PUSH, domain_of(d), a, &p);
    return push(domain_of(d), e, &p);
}
static void NVTX_API mark_ex(const nvtxEventAttributes_t *a)
{
    domain_mark_ex(NULL, a);
}
static void NVTX_API mark_a(const char *s)
{
    mark(plain(EVENT_MARK, text_of(s)), NULL);
}
static void NVTX_API mark_w(const wchar_t *s)
{
    mark(plain(EVENT_MARK, inject_names_intern_wide(s)), NULL);
}
static nvtxRangeId_t NVTX_API start_ex(const nvtxEventAttributes_t *a)
{
    return domain_start_ex(NULL, a);
}
static nvtxRangeId_t NVTX_API start_a(const char *s)
{
    return start(0, plain(EVENT_START, text_of(s)), NULL);
}
static nvtxRangeId_t NVTX_API start_w(const wchar_t *s)
{
    return start(0, plain(EVENT_START, inject_names_intern_wide(s)), NULL);
}
static void NVTX_API range_end(nvtxRangeId_t id)
{
    stop(id, NULL);
}
static int NVTX_API push_ex(const nvtxEventAttributes_t *a)
{
    return domain_push_ex(NULL, a);
}
static int NVTX_API push_a(const char *s)
{
    return push(0, plain(EVENT_PUSH, text_of(s)), NULL);
}
static int NVTX_API push_w(const wchar_t *s)
{
    return push(0, plain(EVENT_PUSH, inject_names_intern_wide(s)), NULL);
}
static int NVTX_API range_pop(void)
{
    return pop(0, NULL);
}
static void NVTX_API name_thread_a(uint32_t tid, const char *s)
{
    struct event e = plain(EVENT_THREAD_NAME, tid);
    e.domain = text_of(s);
    mark(e, NULL);
}
static void NVTX_API name_thread_w(uint32_t tid, const wchar_t *s)
{
    struct event e = plain(EVENT_THREAD_NAME, tid);
    e.domain = inject_names_intern_wide(s);
    mark(e, NULL);
}
static void NVTX_API domain_range_end(nvtxDomainHandle_t d, nvtxRangeId_t id)
{
    (void)d;
    stop(id, NULL);
}
static int NVTX_API domain_pop(nvtxDomainHandle_t d)
{
    return pop(domain_of(d), NULL);
}
static nvtxStringHandle_t NVTX_API register_a(nvtxDomainHandle_t d, const char *s)
{
    (void)d;
    return (nvtxStringHandle_t)(uintptr_t)text_of(s);
}
static nvtxStringHandle_t NVTX_API register_w(nvtxDomainHandle_t d, const wchar_t *s)
{
    (void)d;
    return (nvtxStringHandle_t)(uintptr_t)inject_names_intern_wide(s);
}
static nvtxDomainHandle_t NVTX_API create_a(const char *s)
{
    return create(text_of(s));
}
static nvtxDomainHandle_t NVTX_API create_w(const wchar_t *s)
{
    return create(inject_names_intern_wide(s));
}
static void NVTX_API destroy(nvtxDomainHandle_t d)
{
    (void)d; /* its ranges may not be written yet */
}

/* ---- what its payload extension calls ---- */

static struct event event_with(uint8_t type, uint16_t domain, const nvtxPayloadData_t *data,
                               size_t count, struct payload *p)
{
    inject_payload_read(domain, data, count, p);
    return (struct event){
        .at_ns = clock_mono_ns(), .type = type, .domain = domains[domain].name, .text = p->message};
}
static uint64_t NVTX_API register_schema(nvtxDomainHandle_t d, const nvtxPayloadSchemaAttr_t *a)
{
    return inject_payload_schema(domain_of(d), a);
}
static uint64_t NVTX_API register_enum(nvtxDomainHandle_t d, const nvtxPayloadEnumAttr_t *a)
{
    return inject_payload_enum(domain_of(d), a);
}
static uint64_t NVTX_API register_scope(nvtxDomainHandle_t d, const nvtxScopeAttr_t *a)
{
    (void)d;
    return a && a->structSize >= sizeof *a ? a->scopeId : 0;
}
static void NVTX_API mark_payload(nvtxDomainHandle_t d, const nvtxPayloadData_t *data, size_t n)
{
    struct payload p;
    struct event e = event_with(EVENT_MARK, domain_of(d), data, n, &p);
    mark(e, &p);
}
static int NVTX_API push_payload(nvtxDomainHandle_t d, const nvtxPayloadData_t *data, size_t n)
{
    struct payload p;
    struct event e = event_with(EVENT_PUSH, domain_of(d), data, n, &p);
    return push(domain_of(d), e, &p);
}
static int NVTX_API pop_payload(nvtxDomainHandle_t d, const nvtxPayloadData_t *data, size_t n)
{
    struct payload p;
    inject_payload_read(domain_of(d), data, n, &p);
    return pop(domain_of(d), &p);
}
static nvtxRangeId_t NVTX_API start_payload(nvtxDomainHandle_t d, const nvtxPayloadData_t *data,
                                            size_t n)
{
    struct payload p;
    struct event e = event_with(EVENT_START, domain_of(d), data, n, &p);
    return start(domain_of(d), e, &p);
}
static void NVTX_API end_payload(nvtxDomainHandle_t d, nvtxRangeId_t id,
                                 const nvtxPayloadData_t *data, size_t n)
{
    struct payload p;
    inject_payload_read(domain_of(d), data, n, &p);
    stop(id, &p);
}

struct function_row {
    unsigned id;
    NvtxFunctionPointer function;
};

#define F(function) (NvtxFunctionPointer) function
static const struct function_row core[] = {
    {NVTX_CBID_CORE_MarkEx, F(mark_ex)},
    {NVTX_CBID_CORE_MarkA, F(mark_a)},
    {NVTX_CBID_CORE_MarkW, F(mark_w)},
    {NVTX_CBID_CORE_RangeStartEx, F(start_ex)},
    {NVTX_CBID_CORE_RangeStartA, F(start_a)},
    {NVTX_CBID_CORE_RangeStartW, F(start_w)},
    {NVTX_CBID_CORE_RangeEnd, F(range_end)},
    {NVTX_CBID_CORE_RangePushEx, F(push_ex)},
    {NVTX_CBID_CORE_RangePushA, F(push_a)},
    {NVTX_CBID_CORE_RangePushW, F(push_w)},
    {NVTX_CBID_CORE_RangePop, F(range_pop)},
    {NVTX_CBID_CORE_NameOsThreadA, F(name_thread_a)},
    {NVTX_CBID_CORE_NameOsThreadW, F(name_thread_w)},
};
static const struct function_row core2[] = {
    {NVTX_CBID_CORE2_DomainMarkEx, F(domain_mark_ex)},
    {NVTX_CBID_CORE2_DomainRangeStartEx, F(domain_start_ex)},
    {NVTX_CBID_CORE2_DomainRangeEnd, F(domain_range_end)},
    {NVTX_CBID_CORE2_DomainRangePushEx, F(domain_push_ex)},
    {NVTX_CBID_CORE2_DomainRangePop, F(domain_pop)},
    {NVTX_CBID_CORE2_DomainRegisterStringA, F(register_a)},
    {NVTX_CBID_CORE2_DomainRegisterStringW, F(register_w)},
    {NVTX_CBID_CORE2_DomainCreateA, F(create_a)},
    {NVTX_CBID_CORE2_DomainCreateW, F(create_w)},
    {NVTX_CBID_CORE2_DomainDestroy, F(destroy)},
};
static const struct function_row payload[] = {
    {NVTX3EXT_CBID_nvtxPayloadSchemaRegister, F(register_schema)},
    {NVTX3EXT_CBID_nvtxPayloadEnumRegister, F(register_enum)},
    {NVTX3EXT_CBID_nvtxScopeRegister, F(register_scope)},
    {NVTX3EXT_CBID_nvtxMarkPayload, F(mark_payload)},
    {NVTX3EXT_CBID_nvtxRangePushPayload, F(push_payload)},
    {NVTX3EXT_CBID_nvtxRangePopPayload, F(pop_payload)},
    {NVTX3EXT_CBID_nvtxRangeStartPayload, F(start_payload)},
    {NVTX3EXT_CBID_nvtxRangeEndPayload, F(end_payload)},
};
#undef F

static bool install(const NvtxExportTableCallbacks *t, NvtxCallbackModule module,
                    const struct function_row *rows, size_t n)
{
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!t->GetModuleFunctionTable(module, &table, &size) || !table)
        return false;
    for (size_t i = 0; i < n; i++)
        if (rows[i].id < size && table[rows[i].id])
            *table[rows[i].id] = rows[i].function;
    return true;
}

/* Called once by every copy of NVTX in the process (each library has one). */
int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *t =
        get_table ? (const NvtxExportTableCallbacks *)get_table(NVTX_ETID_CALLBACKS) : NULL;
    if (!t || t->struct_size < sizeof *t || !inject_start(false))
        return 0;
    if (!guest.settings.nvtx && guest.settings.patterns.n == 0)
        return 0;
    bool ok = install(t, NVTX_CB_MODULE_CORE, core, sizeof core / sizeof *core);
    install(t, NVTX_CB_MODULE_CORE2, core2, sizeof core2 / sizeof *core2);
    return ok;
}

/* Called once for every extension that a copy of NVTX offers. Slots left unset do nothing;
 * returning 0 leaves all unset. */
int NVTX_API InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *m)
{
    if (!m || m->structSize < sizeof *m || m->moduleId != NVTX_EXT_PAYLOAD_MODULEID ||
        m->segmentsCount == 0 || !inject_start(false))
        return 0;
    if (!guest.settings.nvtx && guest.settings.patterns.n == 0)
        return 0;
    for (size_t i = 0; i < sizeof payload / sizeof *payload; i++)
        if (payload[i].id < m->segments[0].slotCount)
            m->segments[0].functionSlots[payload[i].id] = (intptr_t)payload[i].function;
    return 1;
}
