/* Inside the region: what the program gives to the GPU, and what waits for what. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "capsule/file.h"
#include "inject/capture.h"
#include "inject/capture_rows.h"

/* ---- streams and events; lock `work` ---- */

struct captured_stream {
    uint64_t key;
    uint32_t last; /* its last operation, CAPSULE_NONE = none yet */
};
struct known_event {
    CUevent handle;
    uint32_t op; /* that it stands for, CAPSULE_NONE = none in the region */
};
static struct list streams, events; /* streams: of the same indices as CAPSULE_STREAMS */
/* The stream has called functions of the program, which may have filled page-locked memory. */
static bool host_functions;
enum { LEGACY = 0, LEGACY_HANDLE = 1, PER_THREAD = 2 };

void capture_work_reset(void)
{
    inject_list_free(&streams);
    inject_list_free(&events);
    host_functions = false;
}

/* Of a handle; per_thread: the call is of the variant whose stream 0 is the thread's own. */
static uint64_t key_of(uint64_t handle, bool per_thread)
{
    if (handle == PER_THREAD || (handle == 0 && per_thread))
        return PER_THREAD | (uint64_t)syscall(SYS_gettid) << 8;
    return handle == LEGACY_HANDLE ? LEGACY : handle;
}

static uint32_t stream_of(uint64_t handle, bool per_thread)
{
    uint64_t key = key_of(handle, per_thread);
    for (uint32_t i = 0; i < streams.n; i++)
        if (LIST_AT(&streams, struct captured_stream, i)->key == key)
            return i;
    struct capsule_stream out = {.flags = key == LEGACY ? CAPSULE_STREAM_LEGACY : 0};
    unsigned flags = 0;
    int priority = 0;
    if (key != LEGACY && (key & 0xff) != PER_THREAD &&
        capture.driver.cuStreamGetFlags((CUstream)(uintptr_t)handle, &flags) == CUDA_SUCCESS &&
        (flags & CU_STREAM_NON_BLOCKING))
        out.flags = CAPSULE_STREAM_NON_BLOCKING;
    if (key != LEGACY && (key & 0xff) != PER_THREAD &&
        capture.driver.cuStreamGetPriority((CUstream)(uintptr_t)handle, &priority) == CUDA_SUCCESS)
        out.priority = priority;
    struct captured_stream s = {key, CAPSULE_NONE};
    if (!inject_list_append(&streams, &s, 1, sizeof s))
        capture_refuse("no memory for the list of streams");
    return capture_add(CAPSULE_STREAMS, &out);
}

static struct known_event *event_of(CUevent handle)
{
    for (size_t i = 0; i < events.n; i++)
        if (LIST_AT(&events, struct known_event, i)->handle == handle)
            return LIST_AT(&events, struct known_event, i);
    struct known_event e = {handle, CAPSULE_NONE};
    if (!inject_list_append(&events, &e, 1, sizeof e)) {
        capture_refuse("no memory for the list of events");
        return NULL;
    }
    return LIST_AT(&events, struct known_event, events.n - 1);
}

struct capsule_op capture_op(enum capsule_op_kind kind, uint32_t item, uint32_t stream)
{
    return (struct capsule_op){.kind = kind,
                               .item = item,
                               .stream = stream,
                               .range = CAPSULE_NONE,
                               .call_ns = clock_mono_ns() - capture.start_ns,
                               .return_ns = CAPSULE_NO_TIME,
                               .start_ns = CAPSULE_NO_TIME,
                               .end_ns = CAPSULE_NO_TIME};
}

static uint32_t add_op(enum capsule_op_kind kind, uint32_t item, uint32_t stream)
{
    struct capsule_op o = capture_op(kind, item, stream);
    return capture_add(CAPSULE_OPS, &o);
}

/* The handle that other functions of the driver take for it. */
static CUstream handle_of(uint64_t handle, bool per_thread)
{
    return (CUstream)(uintptr_t)(handle == 0 && per_thread ? PER_THREAD : handle);
}

/* Its work becomes nodes of a graph: it runs when that is launched. */
static bool is_capturing(uint64_t handle, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return atomic_load(&capture.capturing) > 0 && key_of(handle, per_thread) != LEGACY &&
           capture.driver.cuStreamIsCapturing(handle_of(handle, per_thread), &status) ==
               CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool capture_is_recording_graph(uint64_t handle, bool per_thread)
{
    if (atomic_load(&capture.capturing) == 0)
        return false;
    pthread_mutex_lock(&capture.work);
    const bool is = capture_bind() && is_capturing(handle, per_thread);
    pthread_mutex_unlock(&capture.work);
    return is;
}

/* ---- launches ---- */

static void launch(const void *function, const uint32_t shape[7], void **params, void **extra,
                   const CUlaunchAttribute *attributes, unsigned n_attributes, uint32_t stream)
{
    struct capture_function *f = capture_function_of(function);
    if (!f)
        return;
    unsigned char bytes[CAPSULE_PARAMS_MAX_BYTES];
    struct capsule_launch l = {.function = capture_function_use(f),
                               .grid = {shape[0], shape[1], shape[2]},
                               .block = {shape[3], shape[4], shape[5]},
                               .shared_bytes = shape[6],
                               .first_attribute = CAPTURE_COUNT(ATTRIBUTES)};
    if (l.function == CAPSULE_NONE || !capture_params(f, params, extra, bytes) ||
        !capture_params_check(f, bytes))
        return;
    for (unsigned i = 0; i < n_attributes; i++) {
        struct capsule_attribute a = {.id = (uint32_t)attributes[i].id};
        memcpy(a.value, &attributes[i].value, sizeof a.value);
        if (a.id == 0) /* ignored by the driver too */
            continue;
        if (!capsule_keeps_attribute(a.id)) {
            capture_refuse("not captured: kernel %s is launched with attribute %u", f->shown, a.id);
            return;
        }
        capture_add(CAPSULE_ATTRIBUTES, &a);
        l.n_attributes++;
    }
    l.params = capture_bytes(bytes, f->params_bytes);
    uint32_t item = capture_add(CAPSULE_LAUNCHES, &l);
    if (item != CAPSULE_NONE)
        add_op(CAPSULE_LAUNCH, item, stream);
}

struct launch_kernel { /* arguments of cuLaunchKernel and cuLaunchCooperativeKernel */
    CUfunction f;
    uint32_t shape[7];
    CUstream stream;
    void **params, **extra;
};

static void launch_kernel(const void *params, uint32_t stream, bool cooperative)
{
    enum { COOPERATIVE = 2 };
    const struct launch_kernel *p = params;
    CUlaunchAttribute a;
    memset(&a, 0, sizeof a);
    a.id = (CUlaunchAttributeID)COOPERATIVE;
    a.value.pad[0] = 1;
    launch((const void *)p->f, p->shape, p->params, cooperative ? NULL : p->extra, &a, cooperative,
           stream);
}

struct launch_ex {
    const CUlaunchConfig *config;
    CUfunction f;
    void **params, **extra;
};

static void launch_ex(const struct launch_ex *p, uint32_t stream)
{
    const CUlaunchConfig *c = p->config;
    const uint32_t shape[7] = {c->gridDimX,  c->gridDimY,  c->gridDimZ,      c->blockDimX,
                               c->blockDimY, c->blockDimZ, c->sharedMemBytes};
    launch((const void *)p->f, shape, p->params, p->extra, c->attrs, c->attrs ? c->numAttrs : 0,
           stream);
}

/* ---- copies and sets ---- */

static bool is_host(uint32_t memory)
{
    return memory == CAPSULE_PINNED || memory == CAPSULE_REGISTERED;
}

static uint64_t span_of(const struct capsule_copy *m, uint64_t pitch, uint64_t slice)
{
    return (m->depth - 1) * slice + (m->height - 1) * pitch + m->width;
}

/* 0 = device memory that was not seen. */
static uint32_t place_of(uint64_t at, uint64_t bytes)
{
    CUmemorytype type;
    uint32_t memory = capture_memory_of(at, bytes);
    if (memory)
        return is_host(memory) ? CAPSULE_IN_PINNED : CAPSULE_ON_DEVICE;
    if (capture.driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ==
            CUDA_SUCCESS &&
        type != CU_MEMORYTYPE_HOST)
        return 0;
    return CAPSULE_ON_HOST;
}

bool capture_work_check(void)
{
    if (host_functions && capture_memory_host_is_reached())
        capture_refuse("not captured: a function of the host (cuLaunchHostFunc) beside kernels "
                       "that reach page-locked memory");
    return !capture_is(CAPTURE_OFF);
}

/* Earlier work of the stream may still write the source, the program may after the call. */
bool capture_copy_drain(const struct capsule_copy *m, CUstream handle)
{
    if (!is_host(capture_memory_of(m->from, m->width)))
        return true;
    if (host_functions) /* waiting for one may wait for this thread */
        capture_refuse("not captured: a copy from page-locked memory behind a function of the "
                       "host (cuLaunchHostFunc), at 0x%" PRIx64,
                       m->from);
    else if (atomic_load(&capture.capturing) > 0) /* waiting would break that capture */
        capture_refuse("not captured: a copy from page-locked memory while a stream is in "
                       "capture, at 0x%" PRIx64,
                       m->from);
    else if (capture.driver.cuStreamSynchronize(handle) != CUDA_SUCCESS)
        capture_refuse("the source of a copy cannot be waited for, at 0x%" PRIx64, m->from);
    return !capture_is(CAPTURE_OFF);
}

bool capture_copy_finish(struct capsule_copy *m)
{
    m->to_place = place_of(m->to, span_of(m, m->to_pitch, m->to_slice));
    m->from_place = place_of(m->from, span_of(m, m->from_pitch, m->from_slice));
    if (!m->to_place || !m->from_place) {
        capture_refuse("a copy of memory that was not seen being allocated, at 0x%" PRIx64,
                       m->to_place ? m->from : m->to);
        return false;
    }
    if (m->from_place == CAPSULE_ON_DEVICE)
        return true;
    m->source = (struct capsule_span){CAPTURE_COUNT(BYTES), 0};
    m->source.at = capture.sections[CAPSULE_BYTES].n;
    for (uint64_t z = 0; z < m->depth; z++)
        for (uint64_t y = 0; y < m->height && !capture_is(CAPTURE_OFF); y++)
            m->source.bytes += capture_bytes((const void *)(uintptr_t)(m->from + z * m->from_slice +
                                                                       y * m->from_pitch),
                                             (size_t)m->width)
                                   .bytes;
    return !capture_is(CAPTURE_OFF);
}

static void copy(struct capsule_copy *m, CUstream handle, uint32_t stream)
{
    if (m->width == 0 || m->height == 0 || m->depth == 0)
        return;
    if (!capture_copy_drain(m, handle) || !capture_copy_finish(m))
        return;
    uint32_t item = capture_add(CAPSULE_COPIES, m);
    if (item != CAPSULE_NONE)
        add_op(CAPSULE_COPY, item, stream);
}

static bool end_of(CUmemorytype type, const void *host, CUdeviceptr device, uint64_t *out)
{
    *out = type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
    return type != CU_MEMORYTYPE_ARRAY;
}

bool capture_copy_of_3d(const CUDA_MEMCPY3D *p, struct capsule_copy *out)
{
    uint64_t from, to;
    if (!end_of(p->srcMemoryType, p->srcHost, p->srcDevice, &from) ||
        !end_of(p->dstMemoryType, p->dstHost, p->dstDevice, &to))
        return false;
    uint64_t from_slice = p->srcPitch * p->srcHeight, to_slice = p->dstPitch * p->dstHeight;
    *out = (struct capsule_copy){
        .from = from + p->srcZ * from_slice + p->srcY * p->srcPitch + p->srcXInBytes,
        .to = to + p->dstZ * to_slice + p->dstY * p->dstPitch + p->dstXInBytes,
        .width = p->WidthInBytes,
        .height = p->Height ? p->Height : 1,
        .depth = p->Depth ? p->Depth : 1};
    if (out->height > 1 || out->depth > 1) {
        out->from_pitch = p->srcPitch;
        out->to_pitch = p->dstPitch;
        out->from_slice = out->depth > 1 ? from_slice : 0;
        out->to_slice = out->depth > 1 ? to_slice : 0;
    }
    return true;
}

static bool copy_of_2d(const CUDA_MEMCPY2D *p, struct capsule_copy *out)
{
    const CUDA_MEMCPY3D all = {.srcXInBytes = p->srcXInBytes,
                               .srcY = p->srcY,
                               .srcMemoryType = p->srcMemoryType,
                               .srcHost = p->srcHost,
                               .srcDevice = p->srcDevice,
                               .srcPitch = p->srcPitch,
                               .dstXInBytes = p->dstXInBytes,
                               .dstY = p->dstY,
                               .dstMemoryType = p->dstMemoryType,
                               .dstHost = p->dstHost,
                               .dstDevice = p->dstDevice,
                               .dstPitch = p->dstPitch,
                               .WidthInBytes = p->WidthInBytes,
                               .Height = p->Height,
                               .Depth = 1};
    return capture_copy_of_3d(&all, out);
}

static void set(struct capsule_set s, uint32_t stream)
{
    if (s.width == 0 || s.height == 0)
        return;
    s.value &= s.unit_bytes == 4 ? UINT32_MAX : (1u << 8 * s.unit_bytes) - 1;
    if (!capture_memory_of(s.to, (s.height - 1) * s.pitch + s.width * s.unit_bytes)) {
        capture_refuse("a set of memory that was not seen being allocated, at 0x%" PRIx64, s.to);
        return;
    }
    uint32_t item = capture_add(CAPSULE_SETS, &s);
    if (item != CAPSULE_NONE)
        add_op(CAPSULE_SET, item, stream);
}

/* ---- order ---- */

static void record(uint64_t event, uint32_t stream)
{
    struct known_event *e = event_of((CUevent)(uintptr_t)event);
    uint32_t last = LIST_AT(&streams, struct captured_stream, stream)->last;
    /* On the legacy stream it stands for what all others did, too. */
    if (LIST_AT(&streams, struct captured_stream, stream)->key == LEGACY)
        last = add_op(CAPSULE_EMPTY, CAPSULE_NONE, stream);
    if (e)
        e->op = last;
}

static void wait_for(uint64_t event, uint32_t stream, enum capsule_op_kind kind)
{
    const struct known_event *e = event_of((CUevent)(uintptr_t)event);
    if (e && e->op != CAPSULE_NONE)
        add_op(kind, e->op, stream);
}

/* ---- the calls ---- */

static const struct capture_row *row_of(CUpti_CallbackId id, bool *per_thread)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].id == id || (rows[i].id_per_thread && rows[i].id_per_thread == id)) {
            *per_thread = rows[i].id != id && rows[i].what != WAITED_ALL;
            return &rows[i];
        }
    return NULL;
}

static uint64_t stream_handle(const struct capture_row *row, const void *params)
{
    const uint64_t *v = params;
    switch (row->what) {
    case LAUNCH:
    case LAUNCH_COOPERATIVE:
        return (uint64_t)(uintptr_t)((const struct launch_kernel *)params)->stream;
    case LAUNCH_EX:
        return (uint64_t)(uintptr_t)((const struct launch_ex *)params)->config->hStream;
    default:
        return row->stream >= 0 ? v[row->stream] : 0;
    }
}

/* At entry: the arguments are the program's still, and the work is not under way. */
static void put(const struct capture_row *row, const void *params, CUstream handle, uint32_t stream)
{
    const uint64_t *v = params;
    struct capsule_copy m = {.height = 1, .depth = 1};
    switch ((enum what)row->what) {
    case LAUNCH:
    case LAUNCH_COOPERATIVE:
        launch_kernel(params, stream, row->what == LAUNCH_COOPERATIVE);
        break;
    case LAUNCH_EX:
        launch_ex(params, stream);
        break;
    case GRAPH:
        capture_graph_launch((CUgraphExec)(uintptr_t)v[0], handle, stream);
        break;
    case COPY:
        m.to = v[0];
        m.from = v[1];
        m.width = v[2];
        copy(&m, handle, stream);
        break;
    case COPY_2D:
    case COPY_3D:
        if (row->what == COPY_2D ? copy_of_2d((const void *)(uintptr_t)v[0], &m)
                                 : capture_copy_of_3d((const void *)(uintptr_t)v[0], &m))
            copy(&m, handle, stream);
        else
            capture_refuse("not captured: a copy of an array");
        break;
    case SET:
        set((struct capsule_set){v[0], v[2], 1, 0, (uint32_t)v[1], row->unit}, stream);
        break;
    case SET_2D:
        set((struct capsule_set){v[0], v[3], v[4], v[1], (uint32_t)v[2], row->unit}, stream);
        break;
    case RECORD:
        record(v[0], stream);
        break;
    case WAIT:
        wait_for(v[1], stream, CAPSULE_WAIT);
        break;
    case HOST_FUNCTION:
        host_functions = true;
        break;
    case WAITED_STREAM:
    case WAITED_EVENT:
    case WAITED_ALL:
        break;
    }
}

/* At a successful return. */
static void waited(const struct capture_row *row, const uint64_t *v, uint32_t stream)
{
    if (row->what == WAITED_ALL)
        add_op(CAPSULE_SYNC, CAPSULE_NONE, stream);
    else if (row->what == WAITED_STREAM || row->waits) {
        if (LIST_AT(&streams, struct captured_stream, stream)->last != CAPSULE_NONE ||
            LIST_AT(&streams, struct captured_stream, stream)->key == LEGACY)
            add_op(CAPSULE_SYNC, stream, stream);
    } else if (row->what == WAITED_EVENT)
        wait_for(v[0], stream, CAPSULE_SYNC_OP);
}

static __thread uint32_t first_op, n_ops; /* of this thread's current call */

static void entered(const CUpti_CallbackData *d, const struct capture_row *row, uint64_t handle,
                    bool per_thread)
{
    if (d->context && d->context != atomic_load(&capture.context)) {
        capture_refuse("not captured: work in a second CUDA context or on a second GPU (%s)",
                       d->functionName ? d->functionName : "");
        return;
    }
    uint32_t stream = stream_of(handle, per_thread);
    if (stream == CAPSULE_NONE)
        return;
    first_op = CAPTURE_COUNT(OPS);
    put(row, d->functionParams, handle_of(handle, per_thread), stream);
    n_ops = CAPTURE_COUNT(OPS) - first_op;
    for (uint32_t i = first_op; i < first_op + n_ops; i++)
        CAPTURE_AT(OPS, op, i)->correlation = d->correlationId;
    if (n_ops > 0)
        LIST_AT(&streams, struct captured_stream, stream)->last = first_op + n_ops - 1;
}

/* A call that failed did nothing. */
static void returned(const CUpti_CallbackData *d, const struct capture_row *row, uint64_t handle,
                     bool per_thread)
{
    bool ok = d->functionReturnValue && *(const int *)d->functionReturnValue == CUDA_SUCCESS;
    int64_t now_ns = clock_mono_ns() - capture.start_ns;
    for (uint32_t i = first_op; i < first_op + n_ops && i < CAPTURE_COUNT(OPS); i++) {
        struct capsule_op *o = CAPTURE_AT(OPS, op, i);
        o->return_ns = now_ns;
        if (!ok) {
            o->kind = CAPSULE_EMPTY;
            o->item = CAPSULE_NONE;
        }
    }
    first_op = n_ops = 0;
    uint32_t stream = ok ? stream_of(handle, per_thread) : CAPSULE_NONE;
    if (stream != CAPSULE_NONE)
        waited(row, d->functionParams, stream);
}

/* In an earlier occurrence: which functions the region launches. */
static void learn(const struct capture_row *row, const void *params)
{
    if (row->what == LAUNCH || row->what == LAUNCH_COOPERATIVE)
        capture_function_of((const void *)((const struct launch_kernel *)params)->f);
    else if (row->what == LAUNCH_EX)
        capture_function_of((const void *)((const struct launch_ex *)params)->f);
}

static bool wanted(void)
{
    return inject_capture_wanted();
}

void capture_work_called(const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    if (capture_is(CAPTURE_OFF) || !d->functionParams)
        return;
    bool per_thread = false, entry = d->callbackSite == CUPTI_API_ENTER;
    const struct capture_row *row = row_of(id, &per_thread);
    pthread_mutex_lock(&capture.work);
    if (capture_is(CAPTURE_WAITING)) {
        if (row && entry)
            learn(row, d->functionParams);
    } else if (capture_is(CAPTURE_RUNNING)) {
        uint64_t handle = row ? stream_handle(row, d->functionParams) : 0;
        if (!row && entry)
            capture_refuse("not captured: %s", d->functionName ? d->functionName : "a call");
        else if (row && !is_capturing(handle, per_thread))
            (entry ? entered : returned)(d, row, handle, per_thread);
    }
    pthread_mutex_unlock(&capture.work);
}

static void called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)me;
    capture_work_called(d, id);
}

const struct handler inject_handler_capture_work = {WHILE_RECORDING, wanted, called, NULL};

/* What a driver younger than this recorder has: nobody knows what it does. */
static void younger_called(struct guest_thread *me, const CUpti_CallbackData *d,
                           CUpti_CallbackId id)
{
    const char *name = d->functionName ? d->functionName : "";
    (void)me, (void)id;
    if (d->callbackSite == CUPTI_API_ENTER && capture_is(CAPTURE_RUNNING) && !strstr(name, "Get"))
        capture_refuse("not captured: %s, which is younger than this recorder", name);
}

const struct handler inject_handler_capture_younger = {WHILE_RECORDING, wanted, younger_called,
                                                       NULL};
