/* Memory of the fake device. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_gpu/device.h"

struct piece {
    struct piece *next;
    char *at;
    size_t bytes;
    bool host, registered; /* page-locked; of the program's own memory */
};

static struct piece *pieces;
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t fake_memory_total(void)
{
    return (size_t)fake_script_number("memory", 256) << 20;
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
        if (!registered && posix_memalign(&at, 256, bytes) == 0)
            memset(at, 0xcd, bytes);
        *p = (struct piece){pieces, at, bytes, host, registered != NULL};
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
            if (!gone->registered)
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
    fake_stream_drain_all();
    return drop(at, true);
}

CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
    const CUresult result = may("cuMemHostRegister_v2");
    void *same;
    (void)flags;
    return result == CUDA_SUCCESS ? add(bytes, true, at, &same) : result;
}

CUresult cuMemHostUnregister(void *at)
{
    fake_stream_drain_all();
    return drop(at, true);
}
