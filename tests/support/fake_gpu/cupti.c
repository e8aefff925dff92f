/* libcupti of the fake device: records of the operations that ran while their kind was enabled, on
 * its virtual clock. They are handed over when they are flushed, as CUPTI may. */
#include <stdlib.h>
#include <string.h>

#include "gpu/cupti.h"
#include "support/fake_gpu/fake_gpu.h"

#define X(name, arguments, needed) FAKE_EXPORT CUptiResult name arguments;
GPU_CUPTI_LIST(X)
#undef X

enum { MOST = 1 << 16 };

static struct {
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    bool enabled[FAKE_WORK_SET + 1];
    union record {
        CUpti_Activity any;
        CUpti_ActivityKernel10 kernel;
        CUpti_ActivityMemcpy6 copy;
        CUpti_ActivityMemset4 set;
    } * waiting;
    size_t n, dropped;
} f;

static CUptiResult failed(const char *call)
{
    return (CUptiResult)fake_script_fail(call);
}

/* Kinds of CUPTI by ours. */
static const CUpti_ActivityKind kinds[] = {[FAKE_WORK_KERNEL] =
                                               CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           [FAKE_WORK_COPY] = CUPTI_ACTIVITY_KIND_MEMCPY,
                                           [FAKE_WORK_SET] = CUPTI_ACTIVITY_KIND_MEMSET};

static union record record_of(const struct fake_work *w, uint64_t slow_ns)
{
    const uint64_t start = 1000 + (uint64_t)(w->start_s * 1e9) + slow_ns,
                   end = 1000 + (uint64_t)(w->end_s * 1e9) + slow_ns;
    union record r = {0};
    if (w->kind == FAKE_WORK_KERNEL)
        r.kernel = (CUpti_ActivityKernel10){.start = start,
                                            .end = end,
                                            .name = w->name,
                                            .correlationId = w->launch,
                                            .graphNodeId = w->node};
    else if (w->kind == FAKE_WORK_COPY)
        r.copy = (CUpti_ActivityMemcpy6){
            .start = start, .end = end, .correlationId = w->launch, .graphNodeId = w->node};
    else
        r.set = (CUpti_ActivityMemset4){
            .start = start, .end = end, .correlationId = w->launch, .graphNodeId = w->node};
    r.any.kind = kinds[w->kind];
    return r;
}

static void on_work(const struct fake_work *w)
{
    if (!f.enabled[w->kind])
        return;
    if (!f.waiting)
        f.waiting = calloc(MOST, sizeof *f.waiting);
    if (f.n == MOST || fake_script_number("drop", 0) > 0) {
        f.dropped++;
        return;
    }
    const int64_t slow =
        fake_script_number("cupti_ns", 0); /* what recording adds between kernels */
    f.waiting[f.n] = record_of(w, (uint64_t)slow * f.n);
    f.n++;
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
    *version = (uint32_t)fake_script_number("cupti", 130000);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                : "CUPTI_ERROR";
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
                           void *user)
{
    (void)callback, (void)user;
    *subscriber = NULL;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    (void)subscriber;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
    (void)enable, (void)subscriber, (void)domain, (void)cbid;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    f.request = request;
    f.complete = complete;
    return failed("cuptiActivityRegisterCallbacks");
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    const CUptiResult error = failed("cuptiActivityEnable");
    for (size_t i = 0; error == CUPTI_SUCCESS && i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i] == kind) {
            fake_gpu_on_work(on_work);
            f.enabled[i] = true;
        }
    return error;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        f.enabled[i] = f.enabled[i] && kinds[i] != kind;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    for (size_t i = 0; i < f.n;) {
        uint8_t *buffer;
        size_t size, most;
        f.request(&buffer, &size, &most);
        size_t k = size / sizeof *f.waiting;
        k = k < f.n - i ? k : f.n - i;
        memcpy(buffer, f.waiting + i, k * sizeof *f.waiting);
        f.complete(NULL, 0, buffer, size, k * sizeof *f.waiting);
        i += k;
    }
    f.n = 0;
    if (f.dropped) { /* is told with a buffer */
        uint8_t *buffer;
        size_t size, most;
        f.request(&buffer, &size, &most);
        memset(buffer, 0, sizeof(CUpti_Activity));
        f.complete(NULL, 0, buffer, size, sizeof(CUpti_Activity));
    }
    return failed("cuptiActivityFlushAll");
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + sizeof(union record) : buffer;
    if (next + sizeof(union record) > buffer + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (void *)next;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context, (void)stream;
    *dropped = f.dropped;
    f.dropped = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock)
{
    (void)clock;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
    *timestamp = 1000;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    (void)type;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char **name)
{
    (void)domain, (void)cbid;
    *name = "cuLaunchKernel";
    return CUPTI_SUCCESS;
}
