#include "gpu/records.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/vec.h"
#include "gpu/library.h"

enum { BUFFER_BYTES = 1 << 20, BUFFER_ALIGN = 8 };

struct gpu_records {
    const struct gpu *gpu;
    struct gpu_cupti cupti;
    struct arena *arena;
    pthread_mutex_t lock; /* of what follows: CUPTI hands buffers over on threads of its own */
    VEC(struct gpu_record) list;
    size_t dropped;
    bool attached; /* CUPTI has our callbacks */
};

/* CUPTI's callbacks carry no data of ours. */
static struct gpu_records *current;

static void lend_buffer(uint8_t **buffer, size_t *size, size_t *most)
{
    *buffer = aligned_alloc(BUFFER_ALIGN, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *most = 0;
}

static void read_buffer(struct gpu_records *r, uint8_t *buffer, size_t valid)
{
    CUpti_Activity *record = NULL;
    while (r->cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
            record->kind != CUPTI_ACTIVITY_KIND_KERNEL)
            continue;
        const CUpti_ActivityKernel10 *k = (const void *)record;
        vec_push(&r->list, ((struct gpu_record){(int64_t)k->start, (int64_t)k->end, k->name}));
    }
}

static void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                        size_t valid)
{
    struct gpu_records *r = current;
    (void)size;
    if (r && buffer && valid) {
        size_t dropped = 0;
        pthread_mutex_lock(&r->lock);
        read_buffer(r, buffer, valid);
        if (r->cupti.cuptiActivityGetNumDroppedRecords &&
            r->cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
            r->dropped += dropped;
        pthread_mutex_unlock(&r->lock);
    }
    free(buffer);
}

static enum st check(const struct gpu_records *r, CUptiResult result, const char *call,
                     struct err *e)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS)
        return ST_OK;
    if (r->cupti.cuptiGetResultString)
        r->cupti.cuptiGetResultString(result, &text);
    err_set(e, ST_DEVICE, "%s: %s (%d)", call, text ? text : "an error", (int)result);
    return err_hint(e, "another profiler may hold CUPTI: end ncu, nsys and other tools around this "
                       "program");
}

#define CHECK(r, call, ...) check(r, (r)->cupti.call(__VA_ARGS__), #call, e)

enum st gpu_records_open(const struct gpu *g, struct gpu_records **out, struct err *e)
{
    struct gpu_records *r = mem_alloc(sizeof *r);
    ASSERT(!current);
    *r = (struct gpu_records){.gpu = g, .arena = arena_new()};
    pthread_mutex_init(&r->lock, NULL);
    *out = current = r;
    if (gpu_cupti_open(r->arena, g->driver_version, &r->cupti, e) == ST_OK)
        return ST_OK;
    gpu_records_close(out);
    return err_add(e, "cannot take records of kernels");
}

void gpu_records_close(struct gpu_records **out)
{
    struct gpu_records *r = *out;
    if (!r)
        return;
    if (r->attached) {
        r->cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
        r->cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    }
    current = NULL;
    pthread_mutex_destroy(&r->lock);
    vec_free(&r->list);
    arena_free(&r->arena);
    mem_free(r);
    *out = NULL;
}

const char *gpu_records_library(const struct gpu_records *r, uint32_t *version)
{
    *version = r->cupti.version;
    return r->cupti.path;
}

static enum st flush(struct gpu_records *r, struct err *e)
{
    return CHECK(r, cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

static enum st attach(struct gpu_records *r, struct err *e)
{
    if (!r->attached && CHECK(r, cuptiActivityRegisterCallbacks, lend_buffer, take_buffer) != ST_OK)
        return err_add(e, "cannot take records of kernels");
    r->attached = true;
    return ST_OK;
}

enum st gpu_records_begin(struct gpu_records *r, struct err *e)
{
    TRY(attach(r, e));
    TRY(gpu_wait(r->gpu, e));
    TRY(CHECK(r, cuptiActivityEnable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    TRY(flush(r, e));
    pthread_mutex_lock(&r->lock);
    vec_clear(&r->list);
    r->dropped = 0;
    pthread_mutex_unlock(&r->lock);
    return ST_OK;
}

static int by_start(const void *pa, const void *pb)
{
    const struct gpu_record *a = pa, *b = pb;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

enum st gpu_records_end(struct gpu_records *r, const struct gpu_record **out, size_t *n,
                        struct err *e)
{
    TRY(gpu_wait(r->gpu, e));
    TRY(flush(r, e));
    TRY(CHECK(r, cuptiActivityDisable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    pthread_mutex_lock(&r->lock);
    const size_t dropped = r->dropped;
    if (r->list.n)
        qsort(r->list.p, r->list.n, sizeof *r->list.p, by_start);
    *out = r->list.p;
    *n = r->list.n;
    pthread_mutex_unlock(&r->lock);
    if (dropped)
        return err_set(e, ST_DEVICE, "CUPTI dropped %zu records", dropped);
    return ST_OK;
}
