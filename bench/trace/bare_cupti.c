/* CUPTI with nothing but kernel records: the floor that the recorder's overhead is held against.
 * Built by run_h200.sh where it runs; loaded with ctypes by overhead.py, linked into launch_bound.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cupti.h>

#define EXPORT __attribute__((visibility("default")))

static _Atomic uint64_t records, buffers;
static struct {
    __typeof__(&cuptiActivityRegisterCallbacks) cuptiActivityRegisterCallbacks;
    __typeof__(&cuptiActivityEnable) cuptiActivityEnable;
    __typeof__(&cuptiActivityDisable) cuptiActivityDisable;
    __typeof__(&cuptiActivityFlushAll) cuptiActivityFlushAll;
    __typeof__(&cuptiActivityGetNextRecord) cuptiActivityGetNextRecord;
    __typeof__(&cuptiSubscribe) cuptiSubscribe;
    __typeof__(&cuptiUnsubscribe) cuptiUnsubscribe;
    __typeof__(&cuptiEnableCallback) cuptiEnableCallback;
} api;
static CUpti_SubscriberHandle subscriber;
static int subscribed;

enum { BYTES = 4 << 20, KEPT = 64 };
static _Atomic(uint8_t *) kept[KEPT];

static void CUPTIAPI request(uint8_t **buffer, size_t *bytes, size_t *most)
{
    *most = 0;
    *bytes = BYTES;
    for (int i = 0; i < KEPT; i++)
        if ((*buffer = atomic_exchange(&kept[i], NULL)))
            return;
    *buffer = aligned_alloc(4096, BYTES);
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                               size_t valid)
{
    (void)context, (void)stream, (void)bytes;
    CUpti_Activity *record = NULL;
    while (api.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        atomic_fetch_add_explicit(&records, 1, memory_order_relaxed);
    atomic_fetch_add(&buffers, 1);
    for (int i = 0; i < KEPT; i++) {
        uint8_t *none = NULL;
        if (atomic_compare_exchange_strong(&kept[i], &none, buffer))
            return;
    }
    free(buffer);
}

/* library: path of the libcupti that the process has loaded. 0 or CUPTI's error. */
EXPORT int bare_start(const char *library)
{
    void *lib = dlopen(library, RTLD_NOW);
    if (!lib)
        return -1;
#define BIND(name) *(void **)&api.name = dlsym(lib, #name)
    BIND(cuptiActivityRegisterCallbacks);
    BIND(cuptiActivityEnable);
    BIND(cuptiActivityDisable);
    BIND(cuptiActivityFlushAll);
    BIND(cuptiActivityGetNextRecord);
    BIND(cuptiSubscribe);
    BIND(cuptiUnsubscribe);
    BIND(cuptiEnableCallback);
#undef BIND
    int error = (int)api.cuptiActivityRegisterCallbacks(request, completed);
    return error ? error : (int)api.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                            const void *data)
{
    (void)user, (void)domain, (void)id, (void)data;
}

/* After bare_start: callbacks of the launching calls too, that do nothing. 0 or CUPTI's error. */
EXPORT int bare_subscribe(void)
{
    int error = (int)api.cuptiSubscribe(&subscriber, called, NULL);
    subscribed = error == 0;
    static const CUpti_CallbackId ids[] = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                           CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx};
    for (int i = 0; i < 2 && !error; i++)
        error = (int)api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, ids[i]);
    return error;
}

EXPORT void bare_flush(void)
{
    api.cuptiActivityFlushAll(0);
}

EXPORT uint64_t bare_stop(void)
{
    if (subscribed)
        api.cuptiUnsubscribe(subscriber);
    subscribed = 0;
    api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    api.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    return atomic_exchange(&records, 0);
}
