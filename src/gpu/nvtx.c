#include "gpu/nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/abi/nvtx.h"

enum { PAYLOAD_SLOTS = NVTX3EXT_CBID_nvtxScopeRegister + 1 };

/* What the tool stored: by callback id; 0 = it does not take these calls. */
static NvtxFunctionPointer core[NVTX_CBID_CORE_SIZE], core2[NVTX_CBID_CORE2_SIZE];
static intptr_t payload[PAYLOAD_SLOTS];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of schemas */
static bool heard;                                       /* written under `once` */

/* ---- what the tool sees ---- */

static int module_table(NvtxCallbackModule module, NvtxFunctionTable *table, unsigned *size)
{
    static NvtxFunctionPointer *of_core[NVTX_CBID_CORE_SIZE], *of_core2[NVTX_CBID_CORE2_SIZE];
    NvtxFunctionPointer *const kept = module == NVTX_CB_MODULE_CORE ? core : core2;
    if (module != NVTX_CB_MODULE_CORE && module != NVTX_CB_MODULE_CORE2)
        return 0;
    *table = module == NVTX_CB_MODULE_CORE ? of_core : of_core2;
    *size = module == NVTX_CB_MODULE_CORE ? (unsigned)NVTX_CBID_CORE_SIZE
                                          : (unsigned)NVTX_CBID_CORE2_SIZE;
    for (unsigned i = 1; i < *size; i++) /* id 0 is nobody's */
        (*table)[i] = &kept[i];
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const NvtxExportTableCallbacks callbacks = {.struct_size = sizeof callbacks,
                                                       .GetModuleFunctionTable = module_table};
    return id == NVTX_ETID_CALLBACKS ? &callbacks : NULL;
}

static void offer_payloads(void *tool)
{
    enum { COMPATIBLE = 0x0104 }; /* NVTX_EXT_PAYLOAD_COMPATID */
    static nvtxExtModuleSegment_t segment = {.slotCount = PAYLOAD_SLOTS, .functionSlots = payload};
    nvtxExtModuleInfo_t info = {.nvtxVer = NVTX_VERSION,
                                .structSize = sizeof info,
                                .moduleId = NVTX_EXT_PAYLOAD_MODULEID,
                                .compatId = COMPATIBLE,
                                .segmentsCount = 1,
                                .segments = &segment};
    int (*entry)(nvtxExtModuleInfo_t *) = NULL;
    *(void **)&entry = dlsym(tool, "InitializeInjectionNvtxExtension");
    if (!entry || entry(&info) == 0) /* what a tool stored before it declined does not count */
        memset(payload, 0, sizeof payload);
}

static void initialize(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    int (*entry)(NvtxGetExportTableFunc_t) = NULL;
    void *tool = path && *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (tool)
        *(void **)&entry = dlsym(tool, "InitializeInjectionNvtx2");
    if (!entry || entry(export_table) == 0)
        return;
    offer_payloads(tool);
    heard = core[NVTX_CBID_CORE_RangePushEx] && core[NVTX_CBID_CORE_RangePop];
}

/* ---- ranges ---- */

bool gpu_ranges_heard(void)
{
    pthread_once(&once, initialize);
    return heard;
}

/* The tool's id of these names; 0 = it takes no payloads. */
static uint64_t schema_of(struct gpu_range_names *names)
{
    typedef uint64_t (*function)(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t *);
    const function f = (function)payload[NVTX3EXT_CBID_nvtxPayloadSchemaRegister];
    pthread_mutex_lock(&lock);
    if (!names->schema && f) {
        nvtxPayloadSchemaEntry_t fields[GPU_RANGE_NUMBERS] = {{0}};
        for (size_t i = 0; i < names->n; i++)
            fields[i] = (nvtxPayloadSchemaEntry_t){.type = NVTX_PAYLOAD_ENTRY_TYPE_INT64,
                                                   .name = names->names[i],
                                                   .offset = i * sizeof(int64_t)};
        const nvtxPayloadSchemaAttr_t a = {.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                                                        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                                                        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                                                        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE,
                                           .type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
                                           .entries = fields,
                                           .numEntries = names->n,
                                           .payloadStaticSize = names->n * sizeof(int64_t)};
        names->schema = f(NULL, &a);
    }
    const uint64_t schema = names->schema;
    pthread_mutex_unlock(&lock);
    return schema;
}

void gpu_range_begin(const char *name, struct gpu_range_names *names, const int64_t *values)
{
    typedef int (*function)(const nvtxEventAttributes_t *);
    if (!gpu_ranges_heard())
        return;
    nvtxPayloadData_t data = {.schemaId = names ? schema_of(names) : 0,
                              .size = names ? names->n * sizeof *values : 0,
                              .payload = values};
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = sizeof a,
                               .messageType = NVTX_MESSAGE_TYPE_ASCII,
                               .message = {.ascii = name}};
    if (data.schemaId) {
        a.payloadType = NVTX_PAYLOAD_TYPE_EXT;
        a.reserved0 = 1;
        a.payload.ullValue = (uint64_t)(uintptr_t)&data;
    }
    ((function)core[NVTX_CBID_CORE_RangePushEx])(&a);
}

void gpu_range_end(void)
{
    if (gpu_ranges_heard())
        ((int (*)(void))core[NVTX_CBID_CORE_RangePop])();
}
