/* The functions of libcupti that twinfer uses, found at run time: X(name, needed). `needed` is
 * whether recording is possible without it. The guest library makes its table of pointers from
 * this list (typed by CUPTI's header), `twinfer doctor` looks the names up. */
#ifndef GPU_CUPTI_LIST_H
#define GPU_CUPTI_LIST_H

#define GPU_CUPTI_LIST(X)                                        \
    X(cuptiGetVersion, 1)                                        \
    X(cuptiSubscribe, 1)                                         \
    X(cuptiUnsubscribe, 1)                                       \
    X(cuptiEnableCallback, 1)                                    \
    X(cuptiActivityEnable, 1)                                    \
    X(cuptiActivityDisable, 1)                                   \
    X(cuptiActivityRegisterCallbacks, 1)                         \
    X(cuptiActivityGetNextRecord, 1)                             \
    X(cuptiActivityFlushAll, 1)                                  \
    X(cuptiActivityGetNumDroppedRecords, 0)                      \
    X(cuptiActivityRegisterTimestampCallback, 0) /* CUDA 11.6 */ \
    X(cuptiGetTimestamp, 0)                                      \
    X(cuptiSetThreadIdType, 0)                                   \
    X(cuptiGetCallbackName, 0)                                   \
    X(cuptiGetResultString, 0)

/* Names under which the library is found, best first. */
#define GPU_CUPTI_NAMES                                                     \
    {                                                                       \
        "libcupti.so.13", "libcupti.so.12", "libcupti.so.11", "libcupti.so" \
    }

#endif
