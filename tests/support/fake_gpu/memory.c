/* Memory of the fake device. */
#define _GNU_SOURCE /* MAP_FIXED_NOREPLACE */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/fake_gpu/device.h"

struct piece {
    struct piece *next;
    char *at;
    size_t bytes;
    bool host, registered; /* page-locked; of the program's own memory */
    bool apart;
};

static struct piece *pieces;
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t fake_memory_total(void)
{
    return (size_t)fake_script_number("memory", 256) << 20;
}

/* Under "apart": places of its own for every piece, as a driver gives them, far from the heap. The
 * device's and the host's never come near each other. */
static void *apart(size_t bytes, bool host)
{
    enum { SLOT = 32 << 20 };
    static uint64_t next[2] = {UINT64_C(0x300000000000), UINT64_C(0x310000000000)};
    void *want = (void *)(uintptr_t)next[host];
    next[host] += (bytes / SLOT + 1) * SLOT;
    void *p = mmap(want, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static CUresult add(size_t bytes, bool host, void *registered, void **out)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!host && bytes > fake_memory_total() - used) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        struct piece *p = calloc(1, sizeof *p);
        void *at = registered;
        if (!registered && fake_script_number("apart", 0))
            at = apart(bytes, host); /* NULL where the place is taken, as in a replay */
        const bool is_apart = !registered && at;
        if (!registered && (at || posix_memalign(&at, 256, bytes) == 0))
            memset(at, (int)fake_script_number("fresh", 0xcd), bytes);
        *p = (struct piece){pieces, at, bytes, host, registered != NULL, is_apart};
        pieces = p;
        used += host ? 0 : bytes;
        *out = p->at;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult drop(const void *at, bool host)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct piece **p = &pieces; *p; p = &(*p)->next)
        if ((*p)->at == at && (*p)->host == host) {
            struct piece *gone = *p;
            *p = gone->next;
            used -= host ? 0 : gone->bytes;
            if (gone->apart)
                munmap(gone->at, gone->bytes);
            else if (!gone->registered)
                free(gone->at);
            free(gone);
            result = CUDA_SUCCESS;
            break;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

static bool contains(const void *at, size_t bytes, bool host)
{
    bool found = false;
    const char *p = at;
    pthread_mutex_lock(&lock);
    for (const struct piece *q = pieces; q && !found; q = q->next)
        found = q->host == host && p >= q->at && p + bytes <= q->at + q->bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool overlaps(const void *at, size_t bytes)
{
    bool found = false;
    const char *p = at;
    pthread_mutex_lock(&lock);
    for (const struct piece *q = pieces; q && !found; q = q->next)
        found = p < q->at + q->bytes && q->at < p + bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

bool fake_memory_is_device(uint64_t at, size_t bytes)
{
    return contains((const void *)(uintptr_t)at, bytes, false);
}

bool fake_memory_is_pinned(const void *at, size_t bytes)
{
    return contains(at, bytes, true);
}

int64_t fake_memory_allocations(void)
{
    int64_t n = 0;
    for (const struct piece *p = pieces; p; p = p->next)
        n++;
    return n;
}

enum { HOST_MEMORY_ALREADY_REGISTERED = 712 };

static CUresult may(const char *call)
{
    const int error = fake_script_fail(call);
    if (error)
        return (CUresult)error;
    if (!fake_context_is_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fake_stream_is_capturing())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return fake_stream_fault();
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    const CUresult result = may("cuMemGetInfo_v2");
    *total = fake_memory_total();
    *free_bytes = *total - used;
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    void *p = NULL;
    CUresult result = may("cuMemAlloc_v2");
    if (result == CUDA_SUCCESS)
        result = bytes ? add(bytes, false, NULL, &p) : CUDA_ERROR_INVALID_VALUE;
    *at = (CUdeviceptr)(uintptr_t)p;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
    if (fake_stream_is_capturing())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    fake_stream_drain_all();
    return drop((const void *)(uintptr_t)at, false);
}

CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemAlloc_v2(at, bytes);
}

CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream)
{
    const CUresult result = cuStreamSynchronize(stream);
    return result == CUDA_SUCCESS ? drop((const void *)(uintptr_t)at, false) : result;
}

CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
    const CUresult result = may("cuMemHostAlloc");
    (void)flags;
    return result == CUDA_SUCCESS ? add(bytes, true, NULL, at) : result;
}

CUresult cuMemFreeHost(void *at)
{
    if (fake_stream_is_capturing())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    fake_stream_drain_all();
    return drop(at, true);
}

CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
    const CUresult result = may("cuMemHostRegister_v2");
    void *same;
    (void)flags;
    if (result != CUDA_SUCCESS)
        return result;
    if (!at || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return overlaps(at, bytes) ? (CUresult)HOST_MEMORY_ALREADY_REGISTERED
                               : add(bytes, true, at, &same);
}

CUresult cuMemHostUnregister(void *at)
{
    fake_stream_drain_all();
    return drop(at, true);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *at, unsigned int flags)
{
    (void)flags;
    *out = (uintptr_t)at;
    return fake_memory_is_pinned(at, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- reservations and what is mapped into them: pages of the process ---- */

enum { RESERVE_GRAIN = 32 << 20, MAP_GRAIN = 2 << 20 };

/* Reservations and handles that are there, by their number: lock `lock`. */
enum { MOST = 4096 };
static struct {
    uint64_t at, bytes;
} reserved[MOST];
static uint64_t created[MOST];

/* The slot of the reservation around [at, at + bytes), exact: of that one; MOST = none. */
static int reservation(uint64_t at, uint64_t bytes, bool exact)
{
    int i = 0;
    while (i < MOST && !(exact ? reserved[i].at == at && reserved[i].bytes == bytes && bytes
                               : at >= reserved[i].at && bytes <= reserved[i].bytes &&
                                     at - reserved[i].at <= reserved[i].bytes - bytes))
        i++;
    return i;
}

static bool is_reserved(uint64_t at, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    const bool is = reservation(at, bytes, false) < MOST;
    pthread_mutex_unlock(&lock);
    return is;
}

/* Puts the new in the place of the old; false: there is no such one. 0 = a free slot. */
static bool swap_handle(uint64_t from, uint64_t to)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < MOST && created[i] != from)
        i++;
    if (i < MOST)
        created[i] = to;
    pthread_mutex_unlock(&lock);
    return i < MOST;
}

/* Elsewhere where the place is taken, as the driver does. */
CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr want,
                             unsigned long long flags)
{
    const CUresult result = may("cuMemAddressReserve");
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p = MAP_FAILED;
    (void)align, (void)flags;
    if (result != CUDA_SUCCESS)
        return result;
    if (bytes == 0 || bytes % MAP_GRAIN)
        return CUDA_ERROR_INVALID_VALUE;
    if (want && want % RESERVE_GRAIN == 0)
        p = mmap((void *)(uintptr_t)want, bytes, PROT_NONE, how | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED)
        p = mmap(NULL, bytes, PROT_NONE, how, -1, 0);
    *at = (uintptr_t)p;
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    const int slot = reservation(0, 0, false);
    if (slot < MOST) {
        reserved[slot].at = (uintptr_t)p;
        reserved[slot].bytes = bytes;
    }
    pthread_mutex_unlock(&lock);
    return slot < MOST ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* All of a reservation, and nothing is mapped there any more. */
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
    if (overlaps((const void *)(uintptr_t)at, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const int slot = reservation(at, bytes, true);
    if (slot < MOST)
        reserved[slot].at = reserved[slot].bytes = 0;
    pthread_mutex_unlock(&lock);
    if (slot == MOST)
        return CUDA_ERROR_INVALID_VALUE;
    return munmap((void *)(uintptr_t)at, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A handle is a number of its own, its size, and 1 for memory of the host: what is mapped has no
 * contents before. */
enum { HANDLE_BITS = 44 };

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
    const CUresult result = may("cuMemCreate");
    const bool host = properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    static _Atomic uint64_t made;
    (void)flags;
    if (result != CUDA_SUCCESS)
        return result;
    if (bytes == 0 || bytes % MAP_GRAIN || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        (!host && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE))
        return CUDA_ERROR_INVALID_VALUE;
    if (!host && bytes > fake_memory_total() - used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = ++made << HANDLE_BITS | bytes | host;
    return swap_handle(0, *out) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return handle && swap_handle(handle, 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Nothing can be read there before cuMemSetAccess. */
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    const CUresult result = may("cuMemMap");
    void *p = (void *)(uintptr_t)at, *same;
    (void)flags;
    if (result != CUDA_SUCCESS)
        return result;
    if (at % MAP_GRAIN || bytes == 0 || bytes % MAP_GRAIN || offset != 0 ||
        bytes > (handle & ((1ull << HANDLE_BITS) - 2)) || !swap_handle(handle, handle) ||
        !is_reserved(at, bytes) || overlaps(p, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(p, 0xcd, bytes);
    mprotect(p, bytes, PROT_NONE);
    return add(bytes, handle & 1, p, &same);
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    const CUresult result = may("cuMemSetAccess");
    if (result != CUDA_SUCCESS)
        return result;
    const bool host = fake_memory_is_pinned((void *)(uintptr_t)at, bytes);
    for (size_t i = 0; i < n; i++)
        if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    if (n == 0 || at % MAP_GRAIN || !(host || fake_memory_is_device(at, bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    return mprotect((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE) == 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    void *p = (void *)(uintptr_t)at;
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    fake_stream_drain_all();
    const CUresult result = drop(p, fake_memory_is_pinned(p, bytes));
    return result == CUDA_SUCCESS && mmap(p, bytes, PROT_NONE, how, -1, 0) != p
               ? CUDA_ERROR_INVALID_VALUE
               : result;
}
