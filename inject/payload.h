/* Payloads of NVTX's extension: bytes with fields named by a schema, attached to a range or a mark.
 * Kept are numbers of up to 8 bytes, at most PAYLOAD_VALUES of one event, and a field that is the
 * event's text; arrays, unions, nested schemas and targets of other pointers are not.
 *
 * Schemas are registered under a lock and read without one: they are never changed or removed. */
#ifndef INJECT_PAYLOAD_H
#define INJECT_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/abi/nvtx.h"

enum { PAYLOAD_VALUES = 6 };

struct payload_value {
    uint64_t bits; /* by type */
    uint32_t name; /* id of the field's name */
    uint8_t type;  /* NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, _INT64 or _DOUBLE */
};

struct payload {
    struct payload_value values[PAYLOAD_VALUES];
    int n;
    uint32_t message; /* id of a text, 0 = none */
};

/* Registers a schema or enumeration and returns its id for payloads: the caller's own, or a new
 * one. 0 when it cannot be stored; such payloads are ignored. */
uint64_t inject_payload_schema(uint16_t domain, const nvtxPayloadSchemaAttr_t *a);
uint64_t inject_payload_enum(uint16_t domain, const nvtxPayloadEnumAttr_t *a);
/* Reads `count` payloads. NULL data is none. */
void inject_payload_read(uint16_t domain, const nvtxPayloadData_t *data, size_t count,
                         struct payload *out);

#endif
