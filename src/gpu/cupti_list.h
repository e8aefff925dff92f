/* The functions of libcupti that twinfer uses, found at run time: X(name, arguments, needed).
 * `needed` is whether recording is possible without it. All return CUptiResult. The guest library
 * makes its table of pointers from this list (types: gpu/abi/cupti.h), `twinfer doctor` looks the
 * names up. */
#ifndef GPU_CUPTI_LIST_H
#define GPU_CUPTI_LIST_H

#define GPU_CUPTI_LIST(X)                                                                        \
    X(cuptiGetVersion, (uint32_t * version), 1)                                                  \
    X(cuptiSubscribe,                                                                            \
      (CUpti_SubscriberHandle * subscriber, CUpti_CallbackFunc callback, void *userdata), 1)     \
    X(cuptiUnsubscribe, (CUpti_SubscriberHandle subscriber), 1)                                  \
    X(cuptiEnableCallback,                                                                       \
      (uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,          \
       CUpti_CallbackId cbid),                                                                   \
      1)                                                                                         \
    X(cuptiActivityEnable, (CUpti_ActivityKind kind), 1)                                         \
    X(cuptiActivityDisable, (CUpti_ActivityKind kind), 1)                                        \
    X(cuptiActivityRegisterCallbacks,                                                            \
      (CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete), 1) \
    X(cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, CUpti_Activity * *record), 1) \
    X(cuptiActivityFlushAll, (uint32_t flag), 1)                                                 \
    X(cuptiActivityGetNumDroppedRecords, (CUcontext context, uint32_t stream, size_t * dropped), \
      0)                                                                                         \
    X(cuptiActivityRegisterTimestampCallback, (CUpti_TimestampCallbackFunc clock), 0) /* 11.6 */ \
    X(cuptiGetTimestamp, (uint64_t * timestamp), 0)                                              \
    X(cuptiSetThreadIdType, (CUpti_ActivityThreadIdType type), 0)                                \
    X(cuptiGetCallbackName, (CUpti_CallbackDomain domain, uint32_t cbid, const char **name), 0)  \
    X(cuptiGetResultString, (CUptiResult result, const char **text), 0)

/* Names under which the library is found, best first: by the loader, then in gpu/folders.h. */
#define GPU_CUPTI_NAMES                                                     \
    {                                                                       \
        "libcupti.so.13", "libcupti.so.12", "libcupti.so.11", "libcupti.so" \
    }

#endif
