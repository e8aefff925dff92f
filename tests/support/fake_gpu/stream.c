/* Streams, events and graphs of the fake device. A stream is a list of operations; they run when
 * something waits for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_gpu/device.h"
#include "support/fake_gpu/query.h"

enum { MAX_PARAM_BYTES = 1024, MAX_PARAMS = 64 };

struct op {
    struct op *next, *before; /* before: of a graph's, the node it waits for */
    enum { OP_KERNEL, OP_COPY, OP_SET, OP_RECORD, OP_WAIT, OP_CALL } kind;
    struct CUfunc_st *function;
    struct gpu_dim grid, block;
    unsigned char params[MAX_PARAM_BYTES];
    size_t n_params, param_at[MAX_PARAMS];
    uint64_t to, from; /* device or host */
    void *snapshot;    /* the host's bytes, where they are not page-locked; owned */
    bool to_device, from_device;
    size_t n, unit;
    unsigned value;
    CUevent event;
    uint64_t generation;
    void (*run)(void *ctx);
    void *ctx; /* owned */
    bool part; /* a further row of what is one operation to others */
    /* number of the launch, that of the graph or its own; the graph's node from 1, 0 = none */
    uint32_t launch;
    uint64_t node;
};

struct CUstream_st {
    struct CUstream_st *next; /* of all */
    struct op *first, *last;
    CUgraph capture; /* into which graph, NULL = none */
    bool origin;     /* where that capture began */
};

struct CUevent_st {
    uint64_t recorded, done; /* how often */
    double at_s;             /* device time of the last record that ran */
    bool timed;
    CUstream stream; /* of the last record */
    CUgraph capture; /* in which it was recorded */
};

struct CUgraph_st {
    struct op *first, *last;
    size_t n;
    int open_branches; /* streams that joined and did not come back */
    bool invalid;
};

struct CUgraphExec_st {
    struct op *first;
};

static struct CUstream_st default_stream, *streams = &default_stream;
static _Thread_local int capturing;
static double now_s, spent_s;
static CUresult fault;

enum { MAX_ATTRIBUTES = 32 };
static int64_t with_attribute[MAX_ATTRIBUTES]; /* launches, as they were given */

int64_t fake_gpu_attributes(int id)
{
    return id >= 0 && id < MAX_ATTRIBUTES ? with_attribute[id] : 0;
}

static struct count {
    char *kernel;
    int64_t n;
} counts[256];

bool fake_stream_is_capturing(void)
{
    return capturing > 0;
}

void fake_stream_raise(CUresult code)
{
    fault = code;
}

CUresult fake_stream_fault(void)
{
    return fault;
}

void fake_gpu_spend_s(double s)
{
    spent_s = s;
}

int64_t fake_gpu_allocations(void)
{
    return fake_memory_allocations();
}

int64_t fake_gpu_launches(const char *kernel)
{
    int64_t n = 0;
    for (int i = 0; i < 256 && counts[i].kernel; i++)
        if (!kernel || strcmp(kernel, counts[i].kernel) == 0)
            n += counts[i].n;
    return n;
}

void fake_gpu_reset(void)
{
    fault = CUDA_SUCCESS;
    now_s = 0;
    for (int i = 0; i < 256; i++)
        free(counts[i].kernel);
    memset(counts, 0, sizeof counts);
    memset(with_attribute, 0, sizeof with_attribute);
}

static void (*on_work)(const struct fake_work *w);

void fake_gpu_on_work(void (*on)(const struct fake_work *w))
{
    on_work = on;
}

static void tell(const struct op *o, enum fake_work_kind kind, const char *name, double start_s)
{
    if (on_work && !o->part)
        on_work(&(struct fake_work){kind, name, start_s, now_s, o->launch, o->node});
}

static void count_launch(const char *kernel)
{
    int i = 0;
    while (i < 255 && counts[i].kernel && strcmp(counts[i].kernel, kernel) != 0)
        i++;
    if (!counts[i].kernel)
        counts[i].kernel = strdup(kernel);
    counts[i].n++;
}

/* ---- running --------------------------------------------------------------------------------- */

static void run_first(CUstream s);

static void run_until(CUevent event, uint64_t generation)
{
    while (event->done < generation && event->stream->first)
        run_first(event->stream);
}

static bool in_reach(const struct op *o, uint64_t at, size_t bytes, bool device)
{
    (void)o;
    return !device || fake_memory_is_device(at, bytes);
}

static void run_kernel(const struct op *o)
{
    void *params[MAX_PARAMS + 1] = {0};
    char name[128] = "kernel:";
    const char *kernel = o->function->twin.kernel;
    strncat(name, kernel, sizeof name - strlen(name) - 1);
    const int error = fake_script_fail(name);
    if (error) {
        fault = (CUresult)error;
        return;
    }
    for (size_t i = 0; i < o->n_params; i++)
        params[i] = (void *)(uintptr_t)(o->params + o->param_at[i]);
    spent_s = 12e-6;
    o->function->twin.run(&o->function->twin, o->grid, o->block, params);
    now_s += spent_s;
    tell(o, FAKE_WORK_KERNEL, kernel, now_s - spent_s);
    count_launch(kernel);
}

static void run_copy(const struct op *o)
{
    const void *from = o->snapshot ? o->snapshot : (const void *)(uintptr_t)o->from;
    const double start_s = now_s;
    if (!in_reach(o, o->to, o->n, o->to_device) || !in_reach(o, o->from, o->n, o->from_device)) {
        fault = CUDA_ERROR_ILLEGAL_ADDRESS;
        return;
    }
    memmove((void *)(uintptr_t)o->to, from, o->n);
    now_s += (double)o->n / (o->to_device && o->from_device ? 100e9 : 12.5e9);
    tell(o, FAKE_WORK_COPY, NULL, start_s);
}

static void run_set(const struct op *o)
{
    const double start_s = now_s;
    if (!fake_memory_is_device(o->to, o->n * o->unit)) {
        fault = CUDA_ERROR_ILLEGAL_ADDRESS;
        return;
    }
    if (o->unit == 1)
        memset((void *)(uintptr_t)o->to, (int)o->value, o->n);
    for (size_t i = 0; o->unit > 1 && i < o->n; i++) /* little endian */
        memcpy((char *)(uintptr_t)o->to + o->unit * i, &o->value, o->unit);
    now_s += (double)(o->n * o->unit) / 100e9;
    tell(o, FAKE_WORK_SET, NULL, start_s);
}

static void run_first(CUstream s)
{
    struct op *o = s->first;
    s->first = o->next;
    if (!s->first)
        s->last = NULL;
    if (fault == CUDA_SUCCESS) {
        switch (o->kind) {
        case OP_KERNEL:
            run_kernel(o);
            break;
        case OP_COPY:
            run_copy(o);
            break;
        case OP_SET:
            run_set(o);
            break;
        case OP_WAIT:
            run_until(o->event, o->generation);
            break;
        case OP_CALL:
            spent_s = 0;
            o->run(o->ctx);
            now_s += spent_s;
            tell(o, FAKE_WORK_KERNEL, "fake_gemm", now_s - spent_s);
            break;
        case OP_RECORD:
            break;
        }
    }
    if (o->kind == OP_RECORD && o->generation > o->event->done) {
        o->event->done = o->generation;
        o->event->at_s = now_s;
    }
    free(o->snapshot);
    free(o->ctx);
    free(o);
}

static void drain(CUstream s)
{
    while (s->first)
        run_first(s);
}

void fake_stream_drain_all(void)
{
    for (CUstream s = streams; s; s = s->next)
        drain(s);
}

/* ---- appending ------------------------------------------------------------------------------- */

static CUstream of(CUstream s)
{
    return s ? s : &default_stream;
}

static void append(struct op **first, struct op **last, struct op *o)
{
    o->next = NULL;
    o->before = *last;
    if (*last)
        (*last)->next = o;
    else
        *first = o;
    *last = o;
}

static uint32_t launches; /* of graphs, and of what is in none */

static CUresult push(CUstream stream, const struct op *given)
{
    CUstream s = of(stream);
    if (fault != CUDA_SUCCESS)
        return fault;
    if (!fake_context_is_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    struct op *o = malloc(sizeof *o);
    *o = *given;
    if (s->capture) {
        append(&s->capture->first, &s->capture->last, o);
        s->capture->n += o->kind != OP_RECORD && o->kind != OP_WAIT;
    } else {
        if (o->node == 0)
            o->launch = ++launches;
        append(&s->first, &s->last, o);
    }
    return CUDA_SUCCESS;
}

void fake_gpu_enqueue(CUstream stream, void (*run)(void *ctx), void *ctx)
{
    if (push(stream, &(struct op){.kind = OP_CALL, .run = run, .ctx = ctx}) != CUDA_SUCCESS)
        free(ctx);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream, void **params,
                        void **extra)
{
    const int error = fake_script_fail("cuLaunchKernel");
    const uint16_t *bytes = function->twin.param_bytes;
    const char *packed = NULL;
    size_t packed_bytes = 0;
    struct op o = {.kind = OP_KERNEL,
                   .function = function,
                   .grid = {grid_x, grid_y, grid_z},
                   .block = {block_x, block_y, block_z}};
    if (error)
        return (CUresult)error;
    for (void **x = params ? NULL : extra; x && (uintptr_t)*x != CU_LAUNCH_PARAM_END_AS_INT; x += 2)
        if ((uintptr_t)*x == CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT)
            packed = x[1];
        else
            packed_bytes = *(const size_t *)x[1];
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 ||
        block_x == 0 || block_y == 0 || block_z == 0 || block_z > 64 ||
        (uint64_t)block_x * block_y * block_z > 1024 || shared > function->shared_max)
        return CUDA_ERROR_INVALID_VALUE;
    size_t at = 0;
    for (; bytes && bytes[o.n_params]; o.n_params++) {
        const size_t n = bytes[o.n_params], low = n & (~n + 1), align = low > 16 ? 16 : low;
        at = (at + align - 1) / align * align;
        if (o.n_params == MAX_PARAMS || at + n > MAX_PARAM_BYTES)
            return CUDA_ERROR_INVALID_VALUE;
        if (!params && (!packed || at + n > packed_bytes))
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(o.params + at, params ? params[o.n_params] : packed + at, n);
        o.param_at[o.n_params] = at;
        at += n;
    }
    return push(stream, &o);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra)
{
    for (unsigned i = 0; i < config->numAttrs; i++)
        if ((unsigned)config->attrs[i].id < MAX_ATTRIBUTES)
            with_attribute[config->attrs[i].id]++;
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                          config->blockDimX, config->blockDimY, config->blockDimZ,
                          config->sharedMemBytes, config->hStream, params, extra);
}

static CUresult copy_part(const char *call, uint64_t to, bool to_device, uint64_t from,
                          bool from_device, size_t n, bool part, CUstream stream)
{
    const int error = fake_script_fail(call);
    const void *host = (const void *)(uintptr_t)from;
    struct op o = {.kind = OP_COPY,
                   .to = to,
                   .from = from,
                   .to_device = to_device,
                   .from_device = from_device,
                   .n = n,
                   .part = part};
    if (error)
        return (CUresult)error;
    if (!from_device && !fake_memory_is_pinned(host, n)) {
        o.snapshot = malloc(n ? n : 1);
        memcpy(o.snapshot, host, n);
    }
    const CUresult result = push(stream, &o);
    if (result != CUDA_SUCCESS)
        free(o.snapshot);
    return result;
}

static CUresult copy(const char *call, uint64_t to, bool to_device, uint64_t from, bool from_device,
                     size_t n, CUstream stream)
{
    return copy_part(call, to, to_device, from, from_device, n, false, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy("cuMemcpyHtoDAsync_v2", to, true, (uintptr_t)from, false, bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy("cuMemcpyDtoHAsync_v2", (uintptr_t)to, false, from, true, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy("cuMemcpyDtoDAsync_v2", to, true, from, true, bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    const int error = fake_script_fail("cuMemsetD8Async");
    const struct op o = {.kind = OP_SET, .to = to, .n = n, .unit = 1, .value = value};
    return error ? (CUresult)error : push(stream, &o);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
    const int error = fake_script_fail("cuMemsetD32Async");
    const struct op o = {.kind = OP_SET, .to = to, .n = n, .unit = 4, .value = value};
    return error ? (CUresult)error : push(stream, &o);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream stream)
{
    const int error = fake_script_fail("cuMemsetD16Async");
    const struct op o = {.kind = OP_SET, .to = to, .n = n, .unit = 2, .value = value};
    return error ? (CUresult)error : push(stream, &o);
}

/* Row by row. */
static CUresult set_rows(uint64_t to, size_t pitch, unsigned value, size_t unit, size_t width,
                         size_t height, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t y = 0; result == CUDA_SUCCESS && y < height; y++)
        result = push(stream, &(struct op){.kind = OP_SET,
                                           .to = to + y * pitch,
                                           .n = width,
                                           .unit = unit,
                                           .value = value,
                                           .part = y > 0});
    return result;
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream)
{
    return set_rows(to, pitch, value, 1, width, height, stream);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream)
{
    return set_rows(to, pitch, value, 2, width, height, stream);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream)
{
    return set_rows(to, pitch, value, 4, width, height, stream);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
    const bool to_device = c->dstMemoryType == CU_MEMORYTYPE_DEVICE;
    const bool from_device = c->srcMemoryType == CU_MEMORYTYPE_DEVICE;
    const uint64_t to = to_device ? c->dstDevice : (uintptr_t)c->dstHost;
    const uint64_t from = from_device ? c->srcDevice : (uintptr_t)c->srcHost;
    CUresult result = CUDA_SUCCESS;
    if (c->srcPitch < c->WidthInBytes || c->dstPitch < c->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t y = 0; result == CUDA_SUCCESS && y < c->Height; y++)
        result = copy_part("cuMemcpy2DAsync_v2", to + c->dstXInBytes + (c->dstY + y) * c->dstPitch,
                           to_device, from + c->srcXInBytes + (c->srcY + y) * c->srcPitch,
                           from_device, c->WidthInBytes, y > 0, stream);
    return result;
}

/* ---- streams --------------------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    const int error = fake_script_fail("cuStreamCreate");
    (void)flags;
    if (error)
        return (CUresult)error;
    *stream = calloc(1, sizeof **stream);
    (*stream)->next = streams;
    streams = *stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    (void)priority;
    return cuStreamCreate(stream, flags);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    drain(stream);
    for (CUstream *s = &streams; *s; s = &(*s)->next)
        if (*s == stream) {
            *s = stream->next;
            break;
        }
    free(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    const int error = fake_script_fail("cuStreamSynchronize");
    if (error)
        return (CUresult)error;
    if (of(stream)->capture) {
        of(stream)->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    drain(of(stream));
    return fault;
}

/* A question makes progress too: programs ask until it is done. */
CUresult cuStreamQuery(CUstream stream)
{
    CUstream s = of(stream);
    if (s->first)
        run_first(s);
    else
        return fault;
    return fault != CUDA_SUCCESS ? fault : CUDA_ERROR_NOT_READY;
}

CUresult cuCtxSynchronize(void)
{
    const int error = fake_script_fail("cuCtxSynchronize");
    if (error)
        return (CUresult)error;
    if (fake_stream_is_capturing())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    fake_stream_drain_all();
    return fault;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    CUstream s = of(stream);
    (void)flags;
    if (event->capture && event->capture != s->capture) { /* the stream joins the capture */
        s->capture = event->capture;
        event->capture->open_branches++;
        return CUDA_SUCCESS;
    }
    if (event->capture && event->stream != s && s->origin && event->stream->capture) {
        event->stream->capture = NULL; /* that branch came back */
        s->capture->open_branches--;
        return CUDA_SUCCESS;
    }
    if (s->capture)
        return CUDA_SUCCESS;
    return push(s, &(struct op){.kind = OP_WAIT, .event = event, .generation = event->recorded});
}

/* ---- events ---------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    const int error = fake_script_fail("cuEventCreate");
    if (error)
        return (CUresult)error;
    *event = calloc(1, sizeof **event);
    (*event)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    (*event)->stream = &default_stream;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    fake_stream_drain_all();
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUstream s = of(stream);
    const int error = fake_script_fail("cuEventRecord");
    if (error)
        return (CUresult)error;
    event->stream = s;
    event->capture = s->capture;
    if (s->capture)
        return CUDA_SUCCESS;
    return push(s,
                &(struct op){.kind = OP_RECORD, .event = event, .generation = ++event->recorded});
}

CUresult cuEventQuery(CUevent event)
{
    if (event->done >= event->recorded)
        return fault;
    run_first(event->stream);
    return fault != CUDA_SUCCESS ? fault : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    const int error = fake_script_fail("cuEventSynchronize");
    if (error)
        return (CUresult)error;
    run_until(event, event->recorded);
    return fault;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    if (!start->timed || !end->timed || !start->recorded || !end->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->done < start->recorded || end->done < end->recorded)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((end->at_s - start->at_s) * 1e3);
    return fault;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void free_ops(struct op *o)
{
    while (o) {
        struct op *next = o->next;
        free(o->snapshot);
        free(o);
        o = next;
    }
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    const int error = fake_script_fail("cuStreamBeginCapture_v2");
    (void)mode;
    if (error)
        return (CUresult)error;
    if (!stream || stream->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream->capture = calloc(1, sizeof *stream->capture);
    stream->origin = true;
    capturing++;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    const int error = fake_script_fail("cuStreamEndCapture");
    CUgraph g = stream->capture;
    CUresult result = (CUresult)error;
    if (!g || !stream->origin)
        return CUDA_ERROR_INVALID_VALUE;
    capturing--;
    if (g->open_branches > 0)
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    else if (g->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (CUstream s = streams; s; s = s->next)
        if (s->capture == g) {
            s->capture = NULL;
            s->origin = false;
        }
    if (result != CUDA_SUCCESS) {
        cuGraphDestroy(g);
        g = NULL;
    }
    *graph = g;
    return result;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    for (struct op *o = graph->first; o; o = o->next)
        free(o->ctx);
    free_ops(graph->first);
    free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    size_t i = 0;
    for (struct op *o = graph->first; nodes && o && i < *n; o = o->next)
        if (o->kind != OP_RECORD && o->kind != OP_WAIT)
            nodes[i++] = (CUgraphNode)(void *)o;
    *n = graph->n;
    return CUDA_SUCCESS;
}

static struct op *clone(const struct op *o, void *ctx)
{
    struct op *c = malloc(sizeof *c);
    *c = *o;
    c->ctx = ctx;
    if (o->snapshot) {
        c->snapshot = malloc(o->n ? o->n : 1);
        memcpy(c->snapshot, o->snapshot, o->n);
    }
    return c;
}

/* A context begins with its size (fake_gpu.h). */
static void *copy_ctx(const void *ctx)
{
    size_t bytes;
    if (!ctx)
        return NULL;
    memcpy(&bytes, ctx, sizeof bytes);
    void *c = malloc(bytes);
    memcpy(c, ctx, bytes);
    return c;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    const int error = fake_script_fail("cuGraphInstantiateWithFlags");
    (void)flags;
    if (error)
        return (CUresult)error;
    struct op *last = NULL;
    *out = calloc(1, sizeof **out);
    for (const struct op *o = graph->first; o; o = o->next)
        append(&(*out)->first, &last, clone(o, copy_ctx(o->ctx)));
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
    const int error = fake_script_fail("cuGraphLaunch");
    uint64_t node = 0;
    if (error)
        return (CUresult)error;
    const uint32_t launch = ++launches;
    for (const struct op *o = graph->first; o; o = o->next) {
        struct op *c = clone(o, copy_ctx(o->ctx));
        c->launch = launch;
        c->node = ++node;
        const CUresult result = push(stream, c);
        if (result != CUDA_SUCCESS) {
            free(c->snapshot);
            free(c->ctx);
        }
        free(c);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return fault;
}

CUresult cuGraphUpload(CUgraphExec graph, CUstream stream)
{
    (void)graph, (void)stream;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec graph)
{
    for (struct op *o = graph->first; o; o = o->next)
        free(o->ctx);
    free_ops(graph->first);
    free(graph);
    return CUDA_SUCCESS;
}

/* ---- what a graph's nodes are: one chain ----------------------------------------------------- */

static const struct op *op_of(CUgraphNode node)
{
    return (const struct op *)(const void *)node;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    switch ((int)op_of(node)->kind) {
    case OP_KERNEL:
        *type = CU_GRAPH_NODE_TYPE_KERNEL;
        break;
    case OP_COPY:
        *type = CU_GRAPH_NODE_TYPE_MEMCPY;
        break;
    case OP_SET:
        *type = CU_GRAPH_NODE_TYPE_MEMSET;
        break;
    default:
        *type = CU_GRAPH_NODE_TYPE_HOST;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out)
{
    static _Thread_local void *params[MAX_PARAMS + 1];
    const struct op *o = op_of(node);
    for (size_t i = 0; i < o->n_params; i++)
        params[i] = (void *)(uintptr_t)(o->params + o->param_at[i]);
    *out = (CUDA_KERNEL_NODE_PARAMS){.func = o->function,
                                     .gridDimX = o->grid.x,
                                     .gridDimY = o->grid.y,
                                     .gridDimZ = o->grid.z,
                                     .blockDimX = o->block.x,
                                     .blockDimY = o->block.y,
                                     .blockDimZ = o->block.z,
                                     .kernelParams = params};
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUlaunchAttributeID id,
                                       CUlaunchAttributeValue *value)
{
    (void)node, (void)id;
    memset(value, 0, sizeof *value);
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *out)
{
    const struct op *o = op_of(node);
    const void *host = o->snapshot ? o->snapshot : (const void *)(uintptr_t)o->from;
    *out =
        (CUDA_MEMCPY3D){.srcMemoryType = o->from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                        .srcHost = host,
                        .srcDevice = o->from,
                        .dstMemoryType = o->to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                        .dstHost = (void *)(uintptr_t)o->to,
                        .dstDevice = o->to,
                        .WidthInBytes = o->n,
                        .Height = 1,
                        .Depth = 1};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out)
{
    const struct op *o = op_of(node);
    *out = (CUDA_MEMSET_NODE_PARAMS){.dst = o->to,
                                     .value = o->value,
                                     .elementSize = (unsigned)o->unit,
                                     .width = o->n,
                                     .height = 1};
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    (void)node, (void)graph;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                                       size_t *n)
{
    struct op *before = op_of(node)->before;
    while (before && (before->kind == OP_RECORD || before->kind == OP_WAIT))
        before = before->before;
    if (nodes && before) {
        nodes[0] = (CUgraphNode)(void *)before;
        edges[0] = (CUgraphEdgeData){0};
    }
    *n = before != NULL;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    *status = of(stream)->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

void fake_graph_nodes(CUgraphExec graph,
                      void (*each)(void *user, const char *kernel, uint64_t bytes, uint64_t node),
                      void *user)
{
    uint64_t node = 1000;
    for (const struct op *o = graph->first; o; o = o->next)
        if (o->kind == OP_KERNEL || o->kind == OP_COPY || o->kind == OP_SET)
            each(user, o->kind == OP_KERNEL ? o->function->name : NULL,
                 o->n * (o->unit ? o->unit : 1) | (uint64_t)(o->kind == OP_SET) << 63, ++node);
}
