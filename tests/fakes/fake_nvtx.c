#include "fakes/fake_nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { SLOTS = 16, PAYLOAD_SLOTS = 63 };

static NvtxFunctionPointer core[NVTX_CBID_CORE_SIZE], core2[NVTX_CBID_CORE2_SIZE];
static intptr_t payload_slots[PAYLOAD_SLOTS];
static void *tool;

/* ---- what the tool sees ---- */

static int module_table(NvtxCallbackModule module, NvtxFunctionTable *table, unsigned *size)
{
    static NvtxFunctionPointer *tables[2][SLOTS]; /* where each pointer is kept; id 0 is nobody's */
    NvtxFunctionPointer *kept = module == NVTX_CB_MODULE_CORE ? core : core2;
    if (module != NVTX_CB_MODULE_CORE && module != NVTX_CB_MODULE_CORE2)
        return 0;
    *table = tables[module == NVTX_CB_MODULE_CORE2];
    *size = module == NVTX_CB_MODULE_CORE ? NVTX_CBID_CORE_SIZE : NVTX_CBID_CORE2_SIZE;
    for (unsigned i = 1; i < *size; i++)
        (*table)[i] = &kept[i];
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const NvtxExportTableCallbacks callbacks = {
        .struct_size = sizeof callbacks,
        .GetModuleFunctionTable = module_table,
    };
    return id == NVTX_ETID_CALLBACKS ? &callbacks : NULL;
}

static void initialize(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    int (*entry)(NvtxGetExportTableFunc_t) = NULL;
    tool = path ? dlopen(path, RTLD_LAZY) : NULL;
    if (tool)
        *(void **)&entry = dlsym(tool, "InitializeInjectionNvtx2");
    if (entry && entry(export_table) != 0)
        return;
    for (int i = 0; i < SLOTS; i++)
        core[i] = core2[i] = NULL;
}

void nvtxInitialize(const void *reserved)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)reserved;
    pthread_once(&once, initialize);
}

static void initialize_payload(void)
{
    nvtxExtModuleSegment_t segment = {.slotCount = PAYLOAD_SLOTS, .functionSlots = payload_slots};
    nvtxExtModuleInfo_t info = {.nvtxVer = NVTX_VERSION,
                                .structSize = sizeof info,
                                .moduleId = NVTX_EXT_PAYLOAD_MODULEID,
                                .compatId = 0x0104,
                                .segmentsCount = 1,
                                .segments = &segment};
    int (*entry)(nvtxExtModuleInfo_t *) = NULL;
    nvtxInitialize(NULL);
    if (tool)
        *(void **)&entry = dlsym(tool, "InitializeInjectionNvtxExtension");
    if (entry && entry(&info) != 0)
        return;
    for (int i = 0; i < PAYLOAD_SLOTS; i++)
        payload_slots[i] = 0;
}

/* ---- what the program calls ---- */

/* The tool's function for a callback id, to be cast to its type; NULL = none. */
static NvtxFunctionPointer core_function(NvtxCallbackIdCore id)
{
    nvtxInitialize(NULL);
    return core[id];
}

static NvtxFunctionPointer core2_function(NvtxCallbackIdCore2 id)
{
    nvtxInitialize(NULL);
    return core2[id];
}

static NvtxFunctionPointer payload_function(int id)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize_payload);
    return (NvtxFunctionPointer)payload_slots[id];
}

void nvtxMarkA(const char *message)
{
    void (*f)(const char *) = (void (*)(const char *))core_function(NVTX_CBID_CORE_MarkA);
    if (f)
        f(message);
}

int nvtxRangePushA(const char *message)
{
    int (*f)(const char *) = (int (*)(const char *))core_function(NVTX_CBID_CORE_RangePushA);
    return f ? f(message) : NVTX_NO_PUSH_POP_TRACKING;
}

int nvtxRangePop(void)
{
    int (*f)(void) = (int (*)(void))core_function(NVTX_CBID_CORE_RangePop);
    return f ? f() : NVTX_NO_PUSH_POP_TRACKING;
}

void nvtxRangeEnd(nvtxRangeId_t id)
{
    void (*f)(nvtxRangeId_t) = (void (*)(nvtxRangeId_t))core_function(NVTX_CBID_CORE_RangeEnd);
    if (f)
        f(id);
}

nvtxDomainHandle_t nvtxDomainCreateA(const char *name)
{
    nvtxDomainHandle_t (*f)(const char *) =
        (nvtxDomainHandle_t(*)(const char *))core2_function(NVTX_CBID_CORE2_DomainCreateA);
    return f ? f(name) : NULL;
}

nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t domain, const char *string)
{
    typedef nvtxStringHandle_t (*function)(nvtxDomainHandle_t, const char *);
    function f = (function)core2_function(NVTX_CBID_CORE2_DomainRegisterStringA);
    return f ? f(domain, string) : NULL;
}

int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    typedef int (*function)(nvtxDomainHandle_t, const nvtxEventAttributes_t *);
    function f = (function)core2_function(NVTX_CBID_CORE2_DomainRangePushEx);
    return f ? f(domain, attributes) : NVTX_NO_PUSH_POP_TRACKING;
}

int nvtxDomainRangePop(nvtxDomainHandle_t domain)
{
    typedef int (*function)(nvtxDomainHandle_t);
    function f = (function)core2_function(NVTX_CBID_CORE2_DomainRangePop);
    return f ? f(domain) : NVTX_NO_PUSH_POP_TRACKING;
}

nvtxRangeId_t nvtxDomainRangeStartEx(nvtxDomainHandle_t domain,
                                     const nvtxEventAttributes_t *attributes)
{
    typedef nvtxRangeId_t (*function)(nvtxDomainHandle_t, const nvtxEventAttributes_t *);
    function f = (function)core2_function(NVTX_CBID_CORE2_DomainRangeStartEx);
    return f ? f(domain, attributes) : 0;
}

void nvtxDomainRangeEnd(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
    typedef void (*function)(nvtxDomainHandle_t, nvtxRangeId_t);
    function f = (function)core2_function(NVTX_CBID_CORE2_DomainRangeEnd);
    if (f)
        f(domain, id);
}

uint64_t nvtxPayloadSchemaRegister(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t *schema)
{
    typedef uint64_t (*function)(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t *);
    function f = (function)payload_function(NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
    return f ? f(domain, schema) : 0;
}

uint64_t nvtxPayloadEnumRegister(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t *values)
{
    typedef uint64_t (*function)(nvtxDomainHandle_t, const nvtxPayloadEnumAttr_t *);
    function f = (function)payload_function(NVTX3EXT_CBID_nvtxPayloadEnumRegister);
    return f ? f(domain, values) : 0;
}

typedef int (*nested)(nvtxDomainHandle_t, const nvtxPayloadData_t *, size_t);

int nvtxRangePushPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload, size_t count)
{
    nested f = (nested)payload_function(NVTX3EXT_CBID_nvtxRangePushPayload);
    return f ? f(domain, payload, count) : NVTX_NO_PUSH_POP_TRACKING;
}

int nvtxRangePopPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload, size_t count)
{
    nested f = (nested)payload_function(NVTX3EXT_CBID_nvtxRangePopPayload);
    return f ? f(domain, payload, count) : NVTX_NO_PUSH_POP_TRACKING;
}

nvtxRangeId_t nvtxRangeStartPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload,
                                    size_t count)
{
    typedef nvtxRangeId_t (*function)(nvtxDomainHandle_t, const nvtxPayloadData_t *, size_t);
    function f = (function)payload_function(NVTX3EXT_CBID_nvtxRangeStartPayload);
    return f ? f(domain, payload, count) : 0;
}

void nvtxRangeEndPayload(nvtxDomainHandle_t domain, nvtxRangeId_t id,
                         const nvtxPayloadData_t *payload, size_t count)
{
    typedef void (*function)(nvtxDomainHandle_t, nvtxRangeId_t, const nvtxPayloadData_t *, size_t);
    function f = (function)payload_function(NVTX3EXT_CBID_nvtxRangeEndPayload);
    if (f)
        f(domain, id, payload, count);
}

void nvtxMarkPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload, size_t count)
{
    typedef void (*function)(nvtxDomainHandle_t, const nvtxPayloadData_t *, size_t);
    function f = (function)payload_function(NVTX3EXT_CBID_nvtxMarkPayload);
    if (f)
        f(domain, payload, count);
}
