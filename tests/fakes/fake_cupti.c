#include "fakes/fake_cupti.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fakes/records.h"
#include "gpu/abi/cupti.h"
#include "gpu/cupti_list.h"

#define X(name, arguments, needed) CUptiResult name arguments;
GPU_CUPTI_LIST(X)
#undef X

enum { KIND_COUNT = 64, CBIDS = 1024, WAITING = 1 << 16, GRAPHS = 64 };
enum { UNBORN, BORN_UNSEEN, BORN_WITH_KERNELS, BORN_WHOLE }; /* under which records */

static struct {
    pthread_mutex_t lock;
    _Atomic(CUpti_CallbackFunc) callback;
    void *user;
    _Atomic int subscribers;
    _Atomic bool callbacks[4][CBIDS];
    _Atomic bool enabled[KIND_COUNT];
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    _Atomic(CUpti_TimestampCallbackFunc) clock, late_clock;
    uint8_t *buffer;
    size_t size, used;
    uint64_t dropped, dropped_told, made;
    _Atomic int64_t step;
    _Atomic bool graph_level_was_on;
    _Atomic int graphs[GRAPHS];
    CUpti_ActivityKernel10 *waiting; /* the largest record; others share its front */
    size_t n_waiting;
} f = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Atomic uint32_t correlations;

static const char *script(const char *word)
{
    const char *s = getenv("FAKE_CUPTI");
    size_t n = strlen(word);
    for (; s && *s; s += strcspn(s, ","), s += *s == ',')
        if (strncmp(s, word, n) == 0)
            return s + n;
    return NULL;
}

static long script_number(const char *word, long otherwise)
{
    const char *s = script(word);
    return s ? strtol(s, NULL, 10) : otherwise;
}

static uint64_t clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(void)
{
    CUpti_TimestampCallbackFunc clock = f.clock;
    return clock ? clock() : clock_of(CLOCK_REALTIME) + (uint64_t)f.step;
}

static uint32_t version_of(void)
{
    static _Atomic uint32_t version;
    if (version == 0)
        version = (uint32_t)script_number("version=", 130001);
    return version;
}

/* ---- the client's side ---- */

CUptiResult CUPTIAPI cuptiGetVersion(uint32_t *version)
{
    *version = version_of();
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                : "CUPTI_ERROR";
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
                                    void *user)
{
    long error = script_number("subscribe=", 0);
    if (error)
        return (CUptiResult)error;
    if (f.subscribers)
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    f.callback = callback;
    f.user = user;
    f.subscribers = 1;
    *subscriber = (CUpti_SubscriberHandle)(void *)&f;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    (void)subscriber;
    f.subscribers = 0;
    f.callback = NULL;
    for (int i = 0; i < 4 * CBIDS; i++)
        f.callbacks[i / CBIDS][i % CBIDS] = false;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                         CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
    (void)subscriber;
    if (!f.subscribers || (int)domain > 3 || cbid >= CBIDS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    f.callbacks[domain][cbid] = enable;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                          const char **name)
{
    *name = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? "cudaLaunchKernel_v7000" : "cuLaunchKernel";
    (void)cbid;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind)
{
    const char *s = script("enable=");
    char *end;
    if (s && strtol(s, &end, 10) == (long)kind)
        return (CUptiResult)strtol(end + 1, NULL, 10);
    f.enabled[kind] = true;
    if (kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
        f.graph_level_was_on = true;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind)
{
    f.enabled[kind] = false;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete)
{
    f.request = request;
    f.complete = complete;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t *t)
{
    *t = now();
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    (void)type;
    return CUPTI_SUCCESS;
}

#ifndef FAKE_OLD
CUptiResult CUPTIAPI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock)
{
    if (script("lateclock"))
        f.late_clock = clock;
    else
        f.clock = clock;
    return CUPTI_SUCCESS;
}
#endif

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
                                                       size_t *dropped)
{
    (void)context, (void)stream;
    pthread_mutex_lock(&f.lock);
    *dropped = f.dropped - f.dropped_told;
    f.dropped_told = f.dropped;
    pthread_mutex_unlock(&f.lock);
    return CUPTI_SUCCESS;
}

/* Of the record that the scripted version writes; 0 = it has no such kind. */
static size_t bytes_of(CUpti_ActivityKind kind)
{
    static const struct {
        uint32_t since, kind;
        size_t bytes;
    } rows[] = {
#define X(since, kind, record, newest, last) \
    {since, CUPTI_ACTIVITY_KIND_##kind, FAKE_RECORD_BYTES(newest, last)},
        FAKE_RECORDS(X)
#undef X
    };
    uint32_t version = version_of();
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kind == (uint32_t)kind && rows[i].since <= version)
            bytes = rows[i].bytes;
    return bytes;
}

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                                CUpti_Activity **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + bytes_of((*record)->kind) : buffer;
    if (next >= buffer + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)next;
    return bytes_of((*record)->kind) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}

/* ---- records ---- */

static void hand_over(void)
{
    uint8_t *buffer = f.buffer;
    f.buffer = NULL;
    if (buffer)
        f.complete(NULL, 0, buffer, f.size, f.used);
}

static void put(const void *record)
{
    size_t bytes = bytes_of(((const CUpti_Activity *)record)->kind);
    if (f.buffer && f.used + bytes > f.size)
        hand_over();
    if (!f.buffer) {
        size_t records = 0;
        f.used = 0;
        if (f.request)
            f.request(&f.buffer, &f.size, &records);
    }
    if (!f.buffer) {
        f.dropped++;
        return;
    }
    memcpy(f.buffer + f.used, record, bytes);
    f.used += bytes;
}

/* The GPU runs what waits, one after the other, 2 us each. */
static void complete(void)
{
    uint64_t t = now();
    bool reverse = script("reverse");
    bool null_times = script("nulltimes");
    for (size_t i = 0; i < f.n_waiting; i++) {
        CUpti_ActivityKernel10 *k = &f.waiting[i];
        if (k->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && k->start == 0) {
            k->start = t - (f.n_waiting - i) * 2000;
            k->end = k->start + 1500;
            if (null_times && i % 10 == 9)
                k->start = k->end = 0;
        }
    }
    for (size_t i = 0; i < f.n_waiting; i++) {
        size_t at = reverse ? f.n_waiting - 1 - i : i;
        put(&f.waiting[at]);
    }
    f.n_waiting = 0;
}

CUptiResult CUPTIAPI cuptiActivityFlushAllReal(uint32_t flag);
CUptiResult CUPTIAPI cuptiActivityFlushAllReal(uint32_t flag)
{
    (void)flag;
    pthread_mutex_lock(&f.lock);
    complete();
    hand_over();
    pthread_mutex_unlock(&f.lock);
    return CUPTI_SUCCESS;
}

#ifndef FAKE_BROKEN
CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag)
{
    return cuptiActivityFlushAllReal(flag);
}
#endif

static void wait_with(const void *record, size_t bytes)
{
    pthread_mutex_lock(&f.lock);
    if (!f.waiting)
        f.waiting = calloc(WAITING, sizeof *f.waiting);
    if (f.n_waiting == WAITING)
        complete();
    memcpy(&f.waiting[f.n_waiting++], record, bytes);
    pthread_mutex_unlock(&f.lock);
}

static void call(CUpti_CallbackDomain domain, uint32_t cbid, uint32_t correlation,
                 CUpti_ApiCallbackSite site, uint64_t *data)
{
    CUpti_CallbackFunc callback = f.callback;
    if (!callback || !f.callbacks[domain][cbid])
        return;
    CUpti_CallbackData d = {
        .callbackSite = site, .correlationData = data, .correlationId = correlation};
    callback(f.user, domain, cbid, &d);
}

struct driver_call {
    uint32_t correlation, cbid;
    uint64_t data;
};

static struct driver_call enter(uint32_t cbid)
{
    struct driver_call c = {.correlation = ++correlations, .cbid = cbid};
    call(CUPTI_CB_DOMAIN_DRIVER_API, cbid, c.correlation, CUPTI_API_ENTER, &c.data);
    return c;
}

static uint32_t leave(struct driver_call *c)
{
    call(CUPTI_CB_DOMAIN_DRIVER_API, c->cbid, c->correlation, CUPTI_API_EXIT, &c->data);
    return c->correlation;
}

static CUpti_ActivityKernel10 kernel_of(const struct fake_kernel *k, uint32_t correlation)
{
    CUpti_ActivityKernel10 r = {
        .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
        .registersPerThread = 40,
        .contextId = 1,
        .streamId = k->stream ? k->stream : 7,
        .gridX = (int32_t)k->grid,
        .gridY = 1,
        .gridZ = 1,
        .blockX = (int32_t)k->block,
        .blockY = 1,
        .blockZ = 1,
        .correlationId = correlation,
        .name = k->name,
        .graphNodeId = k->graph_node,
        .graphId = k->graph,
        .clusterX = 2,
        .clusterY = 1,
        .clusterZ = 1,
        .localMemoryTotal = 1024,
        .localMemoryTotal_v2 = 4096,
    };
    return r;
}

uint32_t fake_launch(const struct fake_kernel *k)
{
    struct driver_call c = enter(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
    uint64_t from = now();
    if (f.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]) {
        CUpti_ActivityKernel10 r = kernel_of(k, c.correlation);
        wait_with(&r, sizeof r);
    }
    if (f.enabled[CUPTI_ACTIVITY_KIND_RUNTIME]) {
        CUpti_ActivityAPI a = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME,
                               .cbid = 211,
                               .start = from,
                               .end = now(),
                               .threadId = 99,
                               .correlationId = c.correlation};
        wait_with(&a, sizeof a);
    }
    return leave(&c);
}

static void die_as_cupti_does(uint32_t graph)
{
    bool whole = f.enabled[CUPTI_ACTIVITY_KIND_GRAPH_TRACE];
    bool kernels = f.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL];
    _Atomic int *born = &f.graphs[graph % GRAPHS];
    if (*born == UNBORN)
        *born = whole ? BORN_WHOLE : kernels ? BORN_WITH_KERNELS : BORN_UNSEEN;
    if ((whole && *born != BORN_WHOLE) || (kernels && f.graph_level_was_on && *born == BORN_UNSEEN))
        raise(SIGSEGV);
}

uint32_t fake_graph_launch(uint32_t graph, int n)
{
    die_as_cupti_does(graph);
    struct driver_call c = enter(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch);
    uint64_t t = now();
    if (f.enabled[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]) {
        CUpti_ActivityGraphTrace2 r = {.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
                                       .correlationId = c.correlation,
                                       .start = t,
                                       .end = t + (uint64_t)n * 1000,
                                       .graphId = graph,
                                       .contextId = 1,
                                       .streamId = 7};
        wait_with(&r, sizeof r);
    } else if (f.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]) {
        for (int i = 0; i < n; i++) {
            CUpti_ActivityKernel10 r =
                kernel_of(&(struct fake_kernel){.name = "node",
                                                .grid = 1,
                                                .block = 32,
                                                .graph = graph,
                                                .graph_node = 100u + (unsigned)i},
                          c.correlation);
            r.start = t + (uint64_t)i * 1000;
            r.end = r.start + 900;
            wait_with(&r, sizeof r);
        }
    }
    return leave(&c);
}

uint32_t fake_copy(uint64_t bytes, uint8_t kind)
{
    struct driver_call c = enter(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2);
    if (f.enabled[CUPTI_ACTIVITY_KIND_MEMCPY]) {
        CUpti_ActivityMemcpy6 r = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                                   .copyKind = kind,
                                   .bytes = bytes,
                                   .start = now(),
                                   .end = now() + 500,
                                   .contextId = 1,
                                   .streamId = 7,
                                   .correlationId = c.correlation,
                                   .graphId = 6};
        if (script("nulltimes"))
            r.start = r.end = 0;
        wait_with(&r, sizeof r);
    }
    return leave(&c);
}

uint32_t fake_set(uint64_t bytes)
{
    struct driver_call c = enter(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async);
    if (f.enabled[CUPTI_ACTIVITY_KIND_MEMSET]) {
        CUpti_ActivityMemset4 r = {.kind = CUPTI_ACTIVITY_KIND_MEMSET,
                                   .bytes = bytes,
                                   .start = now(),
                                   .end = now() + 500,
                                   .contextId = 1,
                                   .streamId = 7,
                                   .correlationId = c.correlation,
                                   .graphId = 6};
        if (script("nulltimes"))
            r.start = r.end = 0;
        wait_with(&r, sizeof r);
    }
    return leave(&c);
}

/* ---- calls of another stand-in for the driver ---- */

static void call_back(struct fake_call *c, CUpti_ApiCallbackSite site)
{
    CUpti_CallbackFunc callback = f.callback;
    if (!callback || !f.callbacks[CUPTI_CB_DOMAIN_DRIVER_API][c->cbid])
        return;
    CUpti_CallbackData d = {.callbackSite = site,
                            .functionName = c->name,
                            .functionParams = c->params,
                            .functionReturnValue = site == CUPTI_API_EXIT ? &c->result : NULL,
                            .context = c->context,
                            .correlationData = &c->data,
                            .correlationId = c->correlation};
    callback(f.user, CUPTI_CB_DOMAIN_DRIVER_API, c->cbid, &d);
}

void fake_enter(struct fake_call *c)
{
    c->correlation = ++correlations;
    call_back(c, CUPTI_API_ENTER);
}

void fake_leave(struct fake_call *c)
{
    call_back(c, CUPTI_API_EXIT);
}

void fake_resource(uint32_t cbid, uint32_t module, const void *image, size_t bytes)
{
    CUpti_CallbackFunc callback = f.callback;
    CUpti_ModuleResourceData m = {.moduleId = module, .cubinSize = bytes, .pCubin = image};
    CUpti_ResourceData d = {.resourceDescriptor = &m};
    if (callback && f.callbacks[CUPTI_CB_DOMAIN_RESOURCE][cbid])
        callback(f.user, CUPTI_CB_DOMAIN_RESOURCE, cbid, &d);
}

void fake_transfer(const struct fake_call *c, int is_set, uint64_t bytes, uint64_t graph_node)
{
    CUpti_ActivityMemset4 set = {.kind = CUPTI_ACTIVITY_KIND_MEMSET,
                                 .bytes = bytes,
                                 .start = now(),
                                 .end = now() + 500,
                                 .contextId = 1,
                                 .streamId = 7,
                                 .correlationId = c->correlation,
                                 .graphNodeId = graph_node};
    CUpti_ActivityMemcpy6 copy = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                                  .copyKind = 1,
                                  .bytes = bytes,
                                  .start = set.start,
                                  .end = set.end,
                                  .contextId = 1,
                                  .streamId = 7,
                                  .correlationId = c->correlation,
                                  .graphNodeId = graph_node};
    if (is_set && f.enabled[CUPTI_ACTIVITY_KIND_MEMSET])
        wait_with(&set, sizeof set);
    if (!is_set && f.enabled[CUPTI_ACTIVITY_KIND_MEMCPY])
        wait_with(&copy, sizeof copy);
}

void fake_kernel(const struct fake_call *c, const char *name, uint32_t grid, uint32_t block,
                 uint64_t graph_node)
{
    if (!f.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL])
        return;
    CUpti_ActivityKernel10 r = kernel_of(&(struct fake_kernel){.name = name,
                                                               .grid = grid,
                                                               .block = block,
                                                               .graph = graph_node > 0,
                                                               .graph_node = graph_node},
                                         c->correlation);
    wait_with(&r, sizeof r);
}

void fake_synchronize(void)
{
    uint32_t correlation = ++correlations;
    uint64_t t = now();
    if (f.enabled[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION]) {
        CUpti_ActivitySynchronization2 r = {
            .kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
            .type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE,
            .start = t,
            .end = now(),
            .correlationId = correlation,
            .contextId = 1,
            .streamId = 7};
        wait_with(&r, sizeof r);
    }
    fake_complete();
}

void fake_profiler(int start)
{
    struct driver_call c = enter(start ? CUPTI_DRIVER_TRACE_CBID_cuProfilerStart
                                       : CUPTI_DRIVER_TRACE_CBID_cuProfilerStop);
    leave(&c);
}

void fake_complete(void)
{
    pthread_mutex_lock(&f.lock);
    complete();
    pthread_mutex_unlock(&f.lock);
}

void fake_burst(uint64_t n)
{
    static const char *const names[] = {"_Z4gemmPfS_S_", "_Z9attentionPKfPf", "_Z4normPf"};
    uint32_t correlation = ++correlations;
    uint64_t t = now();
    pthread_mutex_lock(&f.lock);
    for (uint64_t i = 0; i < n && f.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]; i++) {
        CUpti_ActivityKernel10 r = kernel_of(&(struct fake_kernel){.name = names[i % 3],
                                                                   .grid = 1 + (uint32_t)(i % 30),
                                                                   .block = 128,
                                                                   .graph = 3,
                                                                   .graph_node = 1 + i % 300},
                                             correlation);
        r.start = t + i;
        r.end = t + i + 1;
        put(&r);
    }
    pthread_mutex_unlock(&f.lock);
}

void fake_step(int64_t ns)
{
    f.step += ns;
}

void fake_take_clock(void)
{
    f.clock = f.late_clock;
}

void fake_lose(uint64_t n)
{
    pthread_mutex_lock(&f.lock);
    f.dropped += n;
    pthread_mutex_unlock(&f.lock);
}

uint64_t fake_dropped(void)
{
    pthread_mutex_lock(&f.lock);
    uint64_t n = f.dropped;
    pthread_mutex_unlock(&f.lock);
    return n;
}

/* As a profiler that took CUPTI over a pause and left a buffer of its own in it. */
static uint8_t foreign[4096];
void fake_foreign_buffer(void)
{
    f.complete(NULL, 0, foreign + 64, sizeof foreign - 64, 0);
}

int fake_subscribers(void)
{
    return f.subscribers;
}

int fake_called(int cbid)
{
    return f.callbacks[CUPTI_CB_DOMAIN_DRIVER_API][cbid];
}

int fake_enabled(int kind)
{
    return f.enabled[kind];
}
