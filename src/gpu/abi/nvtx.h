/* The parts of NVTX 3 that a tool sees: events as applications describe them, and the tables
 * through which the copy of NVTX inside each library of a program hands its calls over. Names are
 * NVTX's own; nothing of NVIDIA's is needed to build. Where its headers are found, tests/abi
 * compares every line of this file with them.
 *
 * The first NVTX call of a program loads the library that NVTX_INJECTION64_PATH names and calls its
 * InitializeInjectionNvtx2 with a function that finds tables by id. The table of callbacks leads to
 * one table of function pointers per module, indexed by callback id; what the tool stores there is
 * called from then on. Calls that take payloads of any layout belong to an extension, which is
 * offered apart, by InitializeInjectionNvtxExtension. */
#ifndef GPU_ABI_NVTX_H
#define GPU_ABI_NVTX_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define NVTX_API /* a calling convention, of Windows only */

enum {
    NVTX_VERSION = 3,
    NVTX_NO_PUSH_POP_TRACKING = -2, /* what push and pop return without a tool */
};

/* ---- events ---- */

typedef uint64_t nvtxRangeId_t;
typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st *nvtxStringHandle_t;

typedef enum {
    NVTX_COLOR_ARGB = 1,
} nvtxColorType_t;

typedef enum {
    NVTX_MESSAGE_TYPE_ASCII = 1,
    NVTX_MESSAGE_TYPE_UNICODE = 2,
    NVTX_MESSAGE_TYPE_REGISTERED = 3,
} nvtxMessageType_t;

typedef enum {
    NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1,
    NVTX_PAYLOAD_TYPE_INT64 = 2,
    NVTX_PAYLOAD_TYPE_DOUBLE = 3,
    NVTX_PAYLOAD_TYPE_UNSIGNED_INT32 = 4,
    NVTX_PAYLOAD_TYPE_INT32 = 5,
    NVTX_PAYLOAD_TYPE_FLOAT = 6,
} nvtxPayloadType_t;

typedef union {
    const char *ascii;
    const wchar_t *unicode;
    nvtxStringHandle_t registered;
} nvtxMessageValue_t;

typedef struct {
    uint16_t version;
    uint16_t size; /* of the struct in the application's version */
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType;
    int32_t reserved0; /* with NVTX_PAYLOAD_TYPE_EXT: how many nvtxPayloadData_t */
    union {
        uint64_t ullValue; /* with NVTX_PAYLOAD_TYPE_EXT: their address */
        int64_t llValue;
        double dValue;
        uint32_t uiValue;
        int32_t iValue;
        float fValue;
    } payload;
    int32_t messageType;
    nvtxMessageValue_t message;
} nvtxEventAttributes_t;

/* ---- tables ---- */

typedef enum {
    NVTX_CB_MODULE_CORE = 1,
    NVTX_CB_MODULE_CORE2 = 5,
    NVTX_CB_MODULE_SIZE = 7,
} NvtxCallbackModule;

typedef enum {
    NVTX_CBID_CORE_MarkEx = 1,
    NVTX_CBID_CORE_MarkA = 2,
    NVTX_CBID_CORE_MarkW = 3,
    NVTX_CBID_CORE_RangeStartEx = 4,
    NVTX_CBID_CORE_RangeStartA = 5,
    NVTX_CBID_CORE_RangeStartW = 6,
    NVTX_CBID_CORE_RangeEnd = 7,
    NVTX_CBID_CORE_RangePushEx = 8,
    NVTX_CBID_CORE_RangePushA = 9,
    NVTX_CBID_CORE_RangePushW = 10,
    NVTX_CBID_CORE_RangePop = 11,
    NVTX_CBID_CORE_NameOsThreadA = 14,
    NVTX_CBID_CORE_NameOsThreadW = 15,
    NVTX_CBID_CORE_SIZE = 16,
} NvtxCallbackIdCore;

typedef enum {
    NVTX_CBID_CORE2_DomainMarkEx = 1,
    NVTX_CBID_CORE2_DomainRangeStartEx = 2,
    NVTX_CBID_CORE2_DomainRangeEnd = 3,
    NVTX_CBID_CORE2_DomainRangePushEx = 4,
    NVTX_CBID_CORE2_DomainRangePop = 5,
    NVTX_CBID_CORE2_DomainRegisterStringA = 10,
    NVTX_CBID_CORE2_DomainRegisterStringW = 11,
    NVTX_CBID_CORE2_DomainCreateA = 12,
    NVTX_CBID_CORE2_DomainCreateW = 13,
    NVTX_CBID_CORE2_DomainDestroy = 14,
    NVTX_CBID_CORE2_Initialize = 15,
    NVTX_CBID_CORE2_SIZE = 16,
} NvtxCallbackIdCore2;

typedef enum {
    NVTX_ETID_CALLBACKS = 1,
} NvtxExportTableID;

typedef void (*NvtxFunctionPointer)(void);       /* cast to the type of the id */
typedef NvtxFunctionPointer **NvtxFunctionTable; /* by id: where the pointer is kept */

typedef struct {
    size_t struct_size;
    int (*GetModuleFunctionTable)(NvtxCallbackModule callback_module, NvtxFunctionTable *out_table,
                                  unsigned *out_size);
} NvtxExportTableCallbacks;

typedef const void *(*NvtxGetExportTableFunc_t)(uint32_t exportTableId);

/* ---- the payload extension ---- */

enum {
    NVTX_EXT_PAYLOAD_MODULEID = 2,
    NVTX_PAYLOAD_TYPE_EXT = (int32_t)0xDFBD0009, /* payloadType of an event with such payloads */
};

typedef struct {
    size_t segmentId;
    size_t slotCount;
    intptr_t *functionSlots; /* by NVTX3EXT_CBID_: the function's address; 0 = the tool has none */
} nvtxExtModuleSegment_t;

typedef struct {
    uint16_t nvtxVer;
    uint16_t structSize;
    uint16_t moduleId;
    uint16_t compatId;
    size_t segmentsCount;
    nvtxExtModuleSegment_t *segments;
    intptr_t (*getExportFunction)(uint32_t exportFunctionId);
    const void *extInfo;
} nvtxExtModuleInfo_t;

typedef struct {
    uint64_t schemaId;
    size_t size; /* bytes; SIZE_MAX = given by the schema */
    const void *payload;
} nvtxPayloadData_t;

enum {
    NVTX3EXT_CBID_nvtxPayloadSchemaRegister = 0,
    NVTX3EXT_CBID_nvtxPayloadEnumRegister = 1,
    NVTX3EXT_CBID_nvtxMarkPayload = 2,
    NVTX3EXT_CBID_nvtxRangePushPayload = 3,
    NVTX3EXT_CBID_nvtxRangePopPayload = 4,
    NVTX3EXT_CBID_nvtxRangeStartPayload = 5,
    NVTX3EXT_CBID_nvtxRangeEndPayload = 6,
    NVTX3EXT_CBID_nvtxDomainIsEnabled = 7,
    NVTX3EXT_CBID_nvtxScopeRegister = 12,
};

/* Types of a field; on 64-bit Linux, whose sizes of C's types are meant. Ids of schemas and
 * enumerations are above them. */
enum {
    NVTX_PAYLOAD_ENTRY_TYPE_CHAR = 1,
    NVTX_PAYLOAD_ENTRY_TYPE_UCHAR = 2,
    NVTX_PAYLOAD_ENTRY_TYPE_SHORT = 3,
    NVTX_PAYLOAD_ENTRY_TYPE_USHORT = 4,
    NVTX_PAYLOAD_ENTRY_TYPE_INT = 5,
    NVTX_PAYLOAD_ENTRY_TYPE_UINT = 6,
    NVTX_PAYLOAD_ENTRY_TYPE_LONG = 7,
    NVTX_PAYLOAD_ENTRY_TYPE_ULONG = 8,
    NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG = 9,
    NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG = 10,
    NVTX_PAYLOAD_ENTRY_TYPE_INT8 = 11,
    NVTX_PAYLOAD_ENTRY_TYPE_UINT8 = 12,
    NVTX_PAYLOAD_ENTRY_TYPE_INT16 = 13,
    NVTX_PAYLOAD_ENTRY_TYPE_UINT16 = 14,
    NVTX_PAYLOAD_ENTRY_TYPE_INT32 = 15,
    NVTX_PAYLOAD_ENTRY_TYPE_UINT32 = 16,
    NVTX_PAYLOAD_ENTRY_TYPE_INT64 = 17,
    NVTX_PAYLOAD_ENTRY_TYPE_UINT64 = 18,
    NVTX_PAYLOAD_ENTRY_TYPE_FLOAT = 19,
    NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE = 20,
    NVTX_PAYLOAD_ENTRY_TYPE_SIZE = 22,
    NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS = 23,
    NVTX_PAYLOAD_ENTRY_TYPE_BYTE = 32,
    NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32 = 43,
    NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64 = 44,
    NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY = 68,
    NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB = 69,
    NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID = 70,
    NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32 = 71,
    NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64 = 72,
    NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32 = 73,
    NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64 = 74,
    NVTX_PAYLOAD_ENTRY_TYPE_CSTRING = 75, /* a pointer to it */
    NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8 = 76,
    NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE = 80,
};

enum {
    NVTX_PAYLOAD_SCHEMA_ID_STATIC_START = 1 << 24, /* ids that the tool gives: from 1 << 32 */
};

/* Flags of a field: three bits for the kind of array, two for its purpose. */
enum {
    NVTX_PAYLOAD_ENTRY_FLAG_POINTER = 1 << 1,
    NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE = 1 << 2,
    NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE = 1 << 3,
    NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE = 1 << 4,
    NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED = 2 << 4,
    NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX = 3 << 4,
    NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_PAYLOAD_INDEX = 4 << 4,
    NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE = 1 << 10,
    NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP = 2 << 10,
};

enum {
    NVTX_PAYLOAD_SCHEMA_TYPE_STATIC = 1,
    NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC = 2,
};

/* Which members of the structs below are set. */
enum {
    NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE = 1 << 2,
    NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES = 1 << 4,
    NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES = 1 << 5,
    NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE = 1 << 6,
    NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT = 1 << 7,
    NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID = 1 << 8,
    NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE = 1 << 4,
    NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID = 1 << 5,
};

/* A schema names the fields of a payload's bytes. */
typedef struct {
    uint64_t flags;
    uint64_t type;
    const char *name;
    const char *description;
    uint64_t arrayOrUnionDetail;
    uint64_t offset;
    const void *semantics;
    const void *reserved;
} nvtxPayloadSchemaEntry_t;

typedef struct {
    uint64_t fieldMask;
    const char *name;
    uint64_t type;
    uint64_t flags;
    const nvtxPayloadSchemaEntry_t *entries;
    size_t numEntries;
    size_t payloadStaticSize;
    size_t packAlign;
    uint64_t schemaId;
    void *extension;
} nvtxPayloadSchemaAttr_t;

typedef struct {
    const char *name;
    uint64_t value;
    int8_t isFlag;
} nvtxPayloadEnum_t;

typedef struct {
    uint64_t fieldMask;
    const char *name;
    const nvtxPayloadEnum_t *entries;
    size_t numEntries;
    size_t sizeOfEnum;
    uint64_t schemaId;
    void *extension;
} nvtxPayloadEnumAttr_t;

/* A place in a hierarchy of scopes that counters and events may be given to. */
typedef struct {
    size_t structSize;
    const char *path;
    uint64_t parentScope;
    uint64_t scopeId; /* 0 = the tool gives one */
} nvtxScopeAttr_t;

#endif
