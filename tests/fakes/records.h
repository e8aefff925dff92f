/* Which record a CUPTI release writes for each activity kind, as API versions (cuptiGetVersion)
 * count: X(since, kind, record, newest, last). Each record is the front of the newest one, up to
 * and including the field `last`. tests/abi compares the sizes with NVIDIA's headers. */
#ifndef FAKES_RECORDS_H
#define FAKES_RECORDS_H

#define FAKE_RECORDS(X)                                                                          \
    X(13, CONCURRENT_KERNEL, CUpti_ActivityKernel5, CUpti_ActivityKernel10, graphId)             \
    X(15, CONCURRENT_KERNEL, CUpti_ActivityKernel6, CUpti_ActivityKernel10, pAccessPolicyWindow) \
    X(17, CONCURRENT_KERNEL, CUpti_ActivityKernel7, CUpti_ActivityKernel10, channelType)         \
    X(18, CONCURRENT_KERNEL, CUpti_ActivityKernel8, CUpti_ActivityKernel10, localMemoryTotal_v2) \
    X(19, CONCURRENT_KERNEL, CUpti_ActivityKernel9, CUpti_ActivityKernel10, maxActiveClusters)   \
    X(130000, CONCURRENT_KERNEL, CUpti_ActivityKernel10, CUpti_ActivityKernel10, padding3)       \
    X(13, MEMCPY, CUpti_ActivityMemcpy3, CUpti_ActivityMemcpy6, graphNodeId)                     \
    X(14, MEMCPY, CUpti_ActivityMemcpy4, CUpti_ActivityMemcpy6, channelID)                       \
    X(17, MEMCPY, CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, pad2)                            \
    X(26, MEMCPY, CUpti_ActivityMemcpy6, CUpti_ActivityMemcpy6, copyCount)                       \
    X(13, MEMCPY2, CUpti_ActivityMemcpyPtoP2, CUpti_ActivityMemcpyPtoP4, graphNodeId)            \
    X(14, MEMCPY2, CUpti_ActivityMemcpyPtoP3, CUpti_ActivityMemcpyPtoP4, channelID)              \
    X(17, MEMCPY2, CUpti_ActivityMemcpyPtoP4, CUpti_ActivityMemcpyPtoP4, channelType)            \
    X(13, MEMSET, CUpti_ActivityMemset2, CUpti_ActivityMemset4, graphNodeId)                     \
    X(14, MEMSET, CUpti_ActivityMemset3, CUpti_ActivityMemset4, channelID)                       \
    X(17, MEMSET, CUpti_ActivityMemset4, CUpti_ActivityMemset4, pad2)                            \
    X(13, SYNCHRONIZATION, CUpti_ActivitySynchronization, CUpti_ActivitySynchronization2,        \
      cudaEventId)                                                                               \
    X(26, SYNCHRONIZATION, CUpti_ActivitySynchronization2, CUpti_ActivitySynchronization2, pad)  \
    X(17, GRAPH_TRACE, CUpti_ActivityGraphTrace, CUpti_ActivityGraphTrace2, reserved)            \
    X(22, GRAPH_TRACE, CUpti_ActivityGraphTrace2, CUpti_ActivityGraphTrace2, endContextId)       \
    X(13, DRIVER, CUpti_ActivityAPI, CUpti_ActivityAPI, returnValue)                             \
    X(13, RUNTIME, CUpti_ActivityAPI, CUpti_ActivityAPI, returnValue)

/* Bytes of a record: to the end of its last field, in steps of its alignment. */
#define FAKE_RECORD_BYTES(newest, last) \
    ((offsetof(newest, last) + sizeof(((newest *)0)->last) + 7) / 8 * 8)

#endif
