/* A tool that listens to NVTX, for gpu/nvtx.h: what it hears stands in nvtx_tool_heard, a line a
 * call. NVTX_TOOL in the environment: "declines" the whole, has "no payloads", declines "payloads"
 * after it has stored its functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/abi/nvtx.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern char nvtx_tool_heard[4096];
char nvtx_tool_heard[4096];

enum { SCHEMA = 77, MOST = 16 };
static char fields[MOST][64];
static size_t n_fields;

static int is(const char *mode)
{
    const char *is_set = getenv("NVTX_TOOL");
    return is_set && strcmp(is_set, mode) == 0;
}

static void hear(const char *text)
{
    const size_t n = strlen(nvtx_tool_heard);
    snprintf(nvtx_tool_heard + n, sizeof nvtx_tool_heard - n, "%s", text);
}

static int push(const nvtxEventAttributes_t *a)
{
    char text[128];
    snprintf(text, sizeof text, "push %s", a->message.ascii);
    hear(text);
    const nvtxPayloadData_t *d = (const void *)(uintptr_t)a->payload.ullValue;
    for (size_t i = 0; a->payloadType == NVTX_PAYLOAD_TYPE_EXT && i < n_fields; i++) {
        snprintf(text, sizeof text, " %s=%lld", fields[i],
                 (long long)((const int64_t *)d->payload)[i]);
        hear(a->reserved0 == 1 && d->schemaId == SCHEMA && d->size == n_fields * 8 ? text : " ?");
    }
    hear("\n");
    return 0;
}

static int pop(void)
{
    hear("pop\n");
    return 0;
}

static uint64_t register_schema(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t *a)
{
    (void)domain;
    hear("schema\n");
    n_fields = a->numEntries < MOST ? a->numEntries : MOST;
    for (size_t i = 0; i < n_fields; i++)
        snprintf(fields[i], sizeof fields[i], "%s", a->entries[i].name);
    return SCHEMA;
}

EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *t = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (is("declines") || get_table(NVTX_ETID_CALLBACKS + 1) ||
        t->GetModuleFunctionTable(NVTX_CB_MODULE_SIZE, &table, &size) ||
        !t->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size))
        return 0;
    *table[NVTX_CBID_CORE_RangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return t->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size);
}

EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *m);
int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *m)
{
    if (m->moduleId != NVTX_EXT_PAYLOAD_MODULEID || is("no payloads"))
        return 0;
    m->segments[0].functionSlots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] =
        (intptr_t)register_schema;
    return !is("payloads");
}
