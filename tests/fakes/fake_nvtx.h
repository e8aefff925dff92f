/* A stand-in for the copy of NVTX that its headers put into a program: what tests/fakes/app.c calls
 * as an application would. The first call loads the library that NVTX_INJECTION64_PATH names and
 * offers it the tables of gpu/abi/nvtx.h; calls that the tool did not take do nothing. As in NVTX,
 * the payload extension is offered apart, by its own first call, and a tool need not have it.
 *
 * With FAKES_REAL_NVTX (tests/abi, where NVIDIA's headers are found) the real one takes its place.
 */
#ifndef FAKES_FAKE_NVTX_H
#define FAKES_FAKE_NVTX_H

#ifdef FAKES_REAL_NVTX
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#else

#include "gpu/abi/nvtx.h"

#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))

void nvtxInitialize(const void *reserved);
void nvtxMarkA(const char *message);
int nvtxRangePushA(const char *message);
int nvtxRangePop(void);
void nvtxRangeEnd(nvtxRangeId_t id);
nvtxDomainHandle_t nvtxDomainCreateA(const char *name);
nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t domain, const char *string);
int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes);
int nvtxDomainRangePop(nvtxDomainHandle_t domain);
nvtxRangeId_t nvtxDomainRangeStartEx(nvtxDomainHandle_t domain,
                                     const nvtxEventAttributes_t *attributes);
void nvtxDomainRangeEnd(nvtxDomainHandle_t domain, nvtxRangeId_t id);

/* The payload extension. */
uint64_t nvtxPayloadSchemaRegister(nvtxDomainHandle_t domain,
                                   const nvtxPayloadSchemaAttr_t *schema);
uint64_t nvtxPayloadEnumRegister(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t *values);
int nvtxRangePushPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload, size_t count);
int nvtxRangePopPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload, size_t count);
nvtxRangeId_t nvtxRangeStartPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload,
                                    size_t count);
void nvtxRangeEndPayload(nvtxDomainHandle_t domain, nvtxRangeId_t id,
                         const nvtxPayloadData_t *payload, size_t count);
void nvtxMarkPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload, size_t count);

#endif
#endif
