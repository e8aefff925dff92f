/* What the program allocates: every kind, from the start of the process on. */
#include <inttypes.h>

#include "base/clock.h"
#include "inject/capture.h"

struct allocation {
    uint64_t at, bytes;
    CUcontext context;
    uint32_t memory;         /* enum capsule_memory, or one of those below */
    uint32_t flags;          /* enum capsule_allocation_flag, once the region has begun */
    bool reached;            /* a kernel of the region has a pointer into it */
    uint64_t handle, offset; /* of a mapping; 0 = of none, or of one that was released */
};
enum { MANAGED = 100, IPC, FOREIGN_POOL, EXTERNAL, IMPORTED, MULTICAST, MAPPED_TWICE };

struct handle { /* of memory that mappings of cannot be captured */
    uint64_t handle;
    uint32_t memory;
};
static struct list handles; /* lock `memory` */

static struct list live;        /* lock `memory`: of struct allocation, in no order */
static bool keeps_gone;         /* inside the region */
static const char *unsupported; /* a function whose results a capsule cannot hold */
static bool out_of_memory;

void capture_memory_reset(void)
{
    inject_list_free(&live);
    inject_list_free(&handles);
    keeps_gone = out_of_memory = false;
    unsupported = NULL;
}

static struct allocation *at(size_t i)
{
    return LIST_AT(&live, struct allocation, i);
}

static void drop(size_t i)
{
    if (keeps_gone)
        at(i)->flags |= CAPSULE_GONE;
    else
        *at(i) = *at(--live.n);
}

static void add(uint64_t address, uint64_t bytes, uint32_t memory, CUcontext context)
{
    if (address == 0 || bytes == 0)
        return;
    struct allocation a = {.at = address, .bytes = bytes, .context = context, .memory = memory};
    pthread_mutex_lock(&capture.memory);
    a.flags = keeps_gone ? CAPSULE_BORN : 0;
    if (!inject_list_append(&live, &a, 1, sizeof a))
        out_of_memory = true;
    pthread_mutex_unlock(&capture.memory);
}

static void freed(uint64_t address)
{
    pthread_mutex_lock(&capture.memory);
    for (size_t i = live.n; i-- > 0;)
        if (at(i)->at == address && !(at(i)->flags & CAPSULE_GONE)) {
            drop(i);
            break;
        }
    pthread_mutex_unlock(&capture.memory);
}

/* A range of a virtual reservation: any number of mappings. */
static void unmapped(uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&capture.memory);
    for (size_t i = live.n; i-- > 0;)
        if ((at(i)->memory == CAPSULE_VIRTUAL || at(i)->memory >= IMPORTED) &&
            at(i)->at >= address && at(i)->at - address < bytes && !(at(i)->flags & CAPSULE_GONE))
            drop(i);
    pthread_mutex_unlock(&capture.memory);
}

static void add_handle(uint64_t handle, uint32_t memory)
{
    pthread_mutex_lock(&capture.memory);
    if (!inject_list_append(&handles, &(struct handle){handle, memory}, 1, sizeof(struct handle)))
        out_of_memory = true;
    pthread_mutex_unlock(&capture.memory);
}

/* What a mapping of the handle is. forget: it is released, and may be given again. */
static uint32_t memory_of_handle(uint64_t handle, bool forget)
{
    uint32_t memory = CAPSULE_VIRTUAL;
    pthread_mutex_lock(&capture.memory);
    for (size_t i = 0; i < handles.n; i++) {
        struct handle *h = LIST_AT(&handles, struct handle, i);
        if (h->handle == handle) {
            memory = h->memory;
            if (forget)
                *h = *LIST_AT(&handles, struct handle, --handles.n);
            break;
        }
    }
    for (size_t i = 0; i < live.n && forget; i++)
        if (at(i)->handle == handle)
            at(i)->handle = 0;
    pthread_mutex_unlock(&capture.memory);
    return memory;
}

/* The part of that handle's memory that was mapped last, at `address`. */
static void mapped(uint64_t address, uint64_t bytes, uint64_t offset, uint64_t handle)
{
    struct allocation *mine = NULL;
    bool twice = false;
    pthread_mutex_lock(&capture.memory);
    for (size_t i = 0; i < live.n; i++) {
        struct allocation *a = at(i);
        if (a->flags & CAPSULE_GONE)
            continue;
        if (a->at == address)
            mine = a;
        else if (a->handle == handle && offset < a->offset + a->bytes && a->offset < offset + bytes)
            twice = true;
    }
    if (mine) {
        mine->handle = handle;
        mine->offset = offset;
        if (twice)
            mine->memory = MAPPED_TWICE;
    }
    pthread_mutex_unlock(&capture.memory);
}

/* NULL: all contexts of a device. */
static void context_ended(CUcontext context)
{
    pthread_mutex_lock(&capture.memory);
    for (size_t i = live.n; i-- > 0;)
        if (!context || at(i)->context == context)
            drop(i);
    pthread_mutex_unlock(&capture.memory);
}

/* ---- the calls ---- */

static bool wanted(void)
{
    return inject_capture_wanted();
}

static uint64_t pointed(uint64_t address)
{
    return address ? *(const uint64_t *)(uintptr_t)address : 0;
}

/* Arguments of these functions are 8 bytes each, or padded to them. */
static void returned(const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    const uint64_t *v = d->functionParams;
#define ID(name) CUPTI_DRIVER_TRACE_CBID_##name
    switch (id) {
    case ID(cuMemAlloc_v2):
        add(pointed(v[0]), v[1], CAPSULE_DEVICE, d->context);
        break;
    case ID(cuMemAllocPitch_v2):
        add(pointed(v[0]), pointed(v[1]) * v[3], CAPSULE_DEVICE, d->context);
        break;
    case ID(cuMemAllocAsync):
    case ID(cuMemAllocAsync_ptsz):
    case ID(cuMemAllocFromPoolAsync):
    case ID(cuMemAllocFromPoolAsync_ptsz):
        add(pointed(v[0]), v[1], CAPSULE_POOL, d->context);
        break;
    case ID(cuMemHostAlloc):
    case ID(cuMemHostAlloc_v2):
    case ID(cuMemAllocHost_v2):
        add(pointed(v[0]), v[1], CAPSULE_PINNED, d->context);
        break;
    case ID(cuMemHostRegister):
    case ID(cuMemHostRegister_v2):
        add(v[0], v[1], CAPSULE_REGISTERED, d->context);
        break;
    case ID(cuMemMap):
        add(v[0], v[1], memory_of_handle(v[3], false), d->context);
        mapped(v[0], v[1], v[2], v[3]);
        break;
    case ID(cuMemAllocManaged):
        add(pointed(v[0]), v[1], MANAGED, d->context);
        break;
    case ID(cuIpcOpenMemHandle):
    case ID(cuIpcOpenMemHandle_v2):
        add(pointed(v[0]), 1, IPC, d->context);
        break;
    case ID(cuExternalMemoryGetMappedBuffer):
        add(pointed(v[0]), 1, EXTERNAL, d->context);
        break;
    case ID(cuMemImportFromShareableHandle):
        add_handle(pointed(v[0]), IMPORTED);
        break;
    case ID(cuMemRetainAllocationHandle):
        add_handle(pointed(v[0]), MAPPED_TWICE);
        break;
    case ID(cuMulticastCreate):
        add_handle(pointed(v[0]), MULTICAST);
        break;
    case ID(cuMemPoolImportPointer):
        add(pointed(v[0]), 1, FOREIGN_POOL, d->context);
        break;
    case ID(cuArrayCreate_v2):
    case ID(cuArray3DCreate_v2):
    case ID(cuMipmappedArrayCreate):
    case ID(cuExternalMemoryGetMappedMipmappedArray):
    case ID(cuTexObjectCreate):
    case ID(cuSurfObjectCreate):
        pthread_mutex_lock(&capture.memory);
        unsupported = d->functionName ? d->functionName : "textures";
        pthread_mutex_unlock(&capture.memory);
        break;
    default:
        break;
    }
#undef ID
}

/* Freed at entry: another thread may get the address before this call returns. */
static void entered(const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    const uint64_t *v = d->functionParams;
    switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost:
    case CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister:
    case CUPTI_DRIVER_TRACE_CBID_cuIpcCloseMemHandle:
        freed(v[0]);
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemRelease:
        memory_of_handle(v[0], true);
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemUnmap:
        unmapped(v[0], v[1]);
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy:
    case CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2:
        context_ended((CUcontext)(uintptr_t)v[0]);
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset:
    case CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2:
        context_ended(NULL);
        break;
    default:
        break;
    }
}

/* Allocations of a stream in capture are nodes of its graph. */
static bool is_of_graph(const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    const uint64_t *v = d->functionParams;
    switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz:
        return capture_is_recording_graph(v[2], id == CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz);
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz:
        return capture_is_recording_graph(
            v[3], id == CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz);
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz:
        return capture_is_recording_graph(v[1], id == CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz);
    default:
        return false;
    }
}

static void called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)me;
    if (capture_is(CAPTURE_OFF) || !d->functionParams)
        return;
    if (is_of_graph(d, id))
        return;
    if (d->callbackSite == CUPTI_API_ENTER) {
        entered(d, id);
    } else if (d->functionReturnValue && *(const int *)d->functionReturnValue == CUDA_SUCCESS) {
        if (d->context && !capture_is(CAPTURE_RUNNING))
            atomic_store(&capture.context, d->context);
        returned(d, id);
    }
}

const struct handler inject_handler_capture_memory = {WHILE_SUBSCRIBED, wanted, called, NULL};

/* ---- for the region ---- */

/* Lock `memory` held. */
static struct allocation *around(uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < live.n; i++) {
        struct allocation *a = at(i);
        if (address >= a->at && address - a->at < a->bytes &&
            bytes <= a->bytes - (address - a->at) && !(a->flags & CAPSULE_GONE))
            return a;
    }
    return NULL;
}

uint32_t capture_memory_of(uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&capture.memory);
    const struct allocation *a = around(address, bytes);
    const uint32_t memory = a ? a->memory : 0;
    pthread_mutex_unlock(&capture.memory);
    return memory;
}

bool capture_memory_reach(uint64_t address)
{
    pthread_mutex_lock(&capture.memory);
    struct allocation *a = around(address, 0);
    if (a)
        a->reached = true;
    pthread_mutex_unlock(&capture.memory);
    return a != NULL;
}

bool capture_memory_is_host(uint64_t address, uint64_t bytes, bool *reached)
{
    pthread_mutex_lock(&capture.memory);
    const struct allocation *a = around(address, bytes);
    const bool host = a && (a->memory == CAPSULE_PINNED || a->memory == CAPSULE_REGISTERED);
    *reached = a && a->reached;
    pthread_mutex_unlock(&capture.memory);
    return host;
}

bool capture_memory_host_is_reached(void)
{
    bool any = false;
    pthread_mutex_lock(&capture.memory);
    for (size_t i = 0; i < live.n; i++)
        any |= at(i)->reached &&
               (at(i)->memory == CAPSULE_PINNED || at(i)->memory == CAPSULE_REGISTERED);
    pthread_mutex_unlock(&capture.memory);
    return any;
}

static const char *refused_kind(uint32_t memory)
{
    return memory == MANAGED        ? "managed memory (cuMemAllocManaged)"
           : memory == IPC          ? "memory of another process (cuIpcOpenMemHandle)"
           : memory == FOREIGN_POOL ? "memory of another process (cuMemPoolImportPointer)"
           : memory == IMPORTED     ? "memory of another process (cuMemImportFromShareableHandle)"
           : memory == EXTERNAL     ? "memory of another API (cuExternalMemoryGetMappedBuffer)"
           : memory == MAPPED_TWICE ? "memory that is mapped twice (cuMemMap)"
           : memory == MULTICAST    ? "memory of several GPUs (cuMulticastCreate)"
                                    : NULL;
}

bool capture_memory_check(uint64_t *live_bytes)
{
    const char *why = NULL;
    uint64_t where = 0;
    CUcontext context = atomic_load(&capture.context);
    *live_bytes = 0;
    pthread_mutex_lock(&capture.memory);
    for (size_t i = 0; i < live.n && !why; i++) {
        where = at(i)->at;
        why = refused_kind(at(i)->memory);
        if (!why && at(i)->context && context && at(i)->context != context)
            why = "memory of a second CUDA context or GPU";
        if (!why && at(i)->at + at(i)->bytes > CAPSULE_ADDRESS_END)
            why = "memory beyond 47 bits of address";
        *live_bytes += at(i)->bytes;
    }
    pthread_mutex_unlock(&capture.memory);
    if (!why && out_of_memory)
        why = "more allocations than there is memory to list them";
    if (why)
        capture_refuse("not captured: %s, at 0x%" PRIx64, why, where);
    else if (unsupported)
        capture_refuse("not captured: textures, surfaces and arrays (%s)", unsupported);
    return !why && !unsupported;
}

void capture_memory_start(void)
{
    pthread_mutex_lock(&capture.memory);
    keeps_gone = true;
    pthread_mutex_unlock(&capture.memory);
}

static bool before(const struct capsule_allocation *a, const struct capsule_allocation *b)
{
    /* those that were live first: of two at one address the other took its place */
    uint32_t x = a->flags & CAPSULE_BORN, y = b->flags & CAPSULE_BORN;
    return a->address != b->address ? a->address < b->address : x < y;
}

bool capture_memory_write(void)
{
    struct list *out = &capture.sections[CAPSULE_ALLOCATIONS];
    const char *why = NULL;
    uint64_t where = 0;
    bool ok = true;
    out->n = 0;
    pthread_mutex_lock(&capture.memory);
    for (size_t i = 0; i < live.n && ok && !why; i++) {
        struct capsule_allocation a = {at(i)->at, at(i)->bytes, at(i)->memory, at(i)->flags};
        why = refused_kind(a.memory);
        where = a.address;
        ok = inject_list_append(out, &a, 1, sizeof a);
    }
    pthread_mutex_unlock(&capture.memory);
    if (why || unsupported || !ok) {
        capture_refuse("not captured: %s, used inside the region, at 0x%" PRIx64,
                       why           ? why
                       : unsupported ? unsupported
                                     : "allocations without number",
                       where);
        return false;
    }
    struct capsule_allocation *v = LIST_AT(out, struct capsule_allocation, 0);
    for (size_t gap = out->n / 2; gap > 0; gap /= 2) /* Shell's sort: qsort may call malloc */
        for (size_t i = gap; i < out->n; i++) {
            struct capsule_allocation x = v[i];
            size_t k = i;
            for (; k >= gap && before(&x, &v[k - gap]); k -= gap)
                v[k] = v[k - gap];
            v[k] = x;
        }
    return true;
}
