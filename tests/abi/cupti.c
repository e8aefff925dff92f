/* Compiled by abi.sh against NVIDIA's cupti.h: compare.awk's lines for gpu/abi/cupti.h follow. */
#include <cupti.h>

/* Functions: declared again, which C takes only for the same types. */
#include "gpu/cupti_list.h"
#define X(name, arguments, needed) CUptiResult CUPTIAPI name arguments;
GPU_CUPTI_LIST(X)
#undef X

/* Records of older releases: each is the front of the newest. */
#include "fakes/records.h"
#define X(since, kind, record, newest, last)                                               \
    _Static_assert(sizeof(record) == FAKE_RECORD_BYTES(newest, last), "size of " #record); \
    _Static_assert(offsetof(record, start) == offsetof(newest, start),                     \
                   "place of " #record ".start");
FAKE_RECORDS(X)
#undef X
#define SAME(record, newest, field)                                    \
    _Static_assert(offsetof(record, field) == offsetof(newest, field), \
                   "place of " #record "." #field)
SAME(CUpti_ActivityKernel5, CUpti_ActivityKernel10, graphNodeId);
SAME(CUpti_ActivityKernel5, CUpti_ActivityKernel10, shmemLimitConfig);
SAME(CUpti_ActivityKernel5, CUpti_ActivityKernel10, graphId);
SAME(CUpti_ActivityKernel6, CUpti_ActivityKernel10, graphId);
SAME(CUpti_ActivityKernel7, CUpti_ActivityKernel10, channelType);
SAME(CUpti_ActivityKernel8, CUpti_ActivityKernel10, clusterX);
SAME(CUpti_ActivityKernel8, CUpti_ActivityKernel10, localMemoryTotal_v2);
SAME(CUpti_ActivityKernel9, CUpti_ActivityKernel10, maxActiveClusters);
SAME(CUpti_ActivityMemcpy3, CUpti_ActivityMemcpy6, graphNodeId);
SAME(CUpti_ActivityMemcpy4, CUpti_ActivityMemcpy6, graphId);
SAME(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, channelType);
SAME(CUpti_ActivityMemcpyPtoP2, CUpti_ActivityMemcpyPtoP4, graphNodeId);
SAME(CUpti_ActivityMemcpyPtoP3, CUpti_ActivityMemcpyPtoP4, graphId);
SAME(CUpti_ActivityMemset2, CUpti_ActivityMemset4, graphNodeId);
SAME(CUpti_ActivityMemset3, CUpti_ActivityMemset4, graphId);
SAME(CUpti_ActivitySynchronization, CUpti_ActivitySynchronization2, cudaEventId);
SAME(CUpti_ActivityGraphTrace, CUpti_ActivityGraphTrace2, streamId);
