#include "replay/issue.h"

#include <string.h>

#include "base/clock.h"
#include "gpu/stream.h"

#define CHECK(l, call, ...) gpu_check(&(l)->g, (l)->g.driver.call(__VA_ARGS__), #call, e)

/* ---- launches -------------------------------------------------------------------------------- */

/* Attributes that name events or handles of the program, or are set by `early`, are left out. */
static bool keeps(uint32_t id)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return false;
    default:
        return true;
    }
}

enum { MOST_ATTRIBUTES = 32 };

static unsigned take_attributes(const struct capsule *c, const struct capsule_launch *x, bool early,
                                CUlaunchAttribute out[MOST_ATTRIBUTES])
{
    unsigned n = 0;
    for (uint32_t i = 0; i < x->n_attributes && n + 1 < MOST_ATTRIBUTES; i++) {
        const struct capsule_attribute *from = &c->attributes[x->first_attribute + i];
        if (!keeps(from->id))
            continue;
        out[n] = (CUlaunchAttribute){.id = (CUlaunchAttributeID)from->id};
        memcpy(&out[n++].value, from->value, CAPSULE_ATTRIBUTE_BYTES);
    }
    if (early) {
        out[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
        out[n++].value.programmaticStreamSerializationAllowed = 1;
    }
    return n;
}

static enum st launch(struct load *l, uint32_t item, bool early, CUstream stream, struct err *e)
{
    const struct capsule_launch *x = &l->c->launches[item];
    CUlaunchAttribute attributes[MOST_ATTRIBUTES];
    size_t bytes = x->params.bytes;
    void *extra[] = {(void *)(uintptr_t)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT,
                     (void *)(uintptr_t)l->params[item],
                     (void *)(uintptr_t)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT, &bytes,
                     (void *)(uintptr_t)CU_LAUNCH_PARAM_END_AS_INT};
    const CUlaunchConfig config = {.gridDimX = x->grid[0],
                                   .gridDimY = x->grid[1],
                                   .gridDimZ = x->grid[2],
                                   .blockDimX = x->block[0],
                                   .blockDimY = x->block[1],
                                   .blockDimZ = x->block[2],
                                   .sharedMemBytes = x->shared_bytes,
                                   .hStream = stream,
                                   .attrs = attributes,
                                   .numAttrs = take_attributes(l->c, x, early, attributes)};
    return CHECK(l, cuLaunchKernelEx, &config, l->functions[x->function], NULL,
                 bytes ? extra : NULL);
}

/* ---- copies, sets ---------------------------------------------------------------------------- */

/* One slice; the host's ends are packed rows of our own memory, or captured page-locked memory. */
static enum st copy_rows(struct load *l, const struct capsule_copy *x, uint32_t item, uint64_t z,
                         CUstream stream, struct err *e)
{
    const bool to_device = x->to_place == CAPSULE_ON_DEVICE;
    const bool from_device = x->from_place == CAPSULE_ON_DEVICE;
    const bool to_sink = x->to_place == CAPSULE_ON_HOST;
    const uint64_t to = to_sink ? (uintptr_t)l->host + l->sink_at + z * x->width * x->height
                                : x->to + z * x->to_slice;
    const uint64_t from = from_device
                              ? x->from + z * x->from_slice
                              : (uintptr_t)l->host + l->source_at[item] + z * x->width * x->height;
    if (x->height == 1) {
        if (to_device && from_device)
            return gpu_copy(&l->g, to, from, x->width, stream, e);
        return to_device ? gpu_upload(&l->g, to, (const void *)(uintptr_t)from, x->width, stream, e)
                         : gpu_download(&l->g, (void *)(uintptr_t)to, from, x->width, stream, e);
    }
    const CUDA_MEMCPY2D rows = {
        .srcMemoryType = from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .srcHost = from_device ? NULL : (const void *)(uintptr_t)from,
        .srcDevice = from_device ? from : 0,
        .srcPitch = from_device ? x->from_pitch : x->width,
        .dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .dstHost = to_device ? NULL : (void *)(uintptr_t)to,
        .dstDevice = to_device ? to : 0,
        .dstPitch = to_sink ? x->width : x->to_pitch,
        .WidthInBytes = x->width,
        .Height = x->height};
    return CHECK(l, cuMemcpy2DAsync_v2, &rows, stream);
}

static enum st copy(struct load *l, uint32_t item, CUstream stream, struct err *e)
{
    const struct capsule_copy *x = &l->c->copies[item];
    if (x->width == 0 || x->height == 0)
        return ST_OK;
    if (x->from_place != CAPSULE_ON_DEVICE && x->to_place != CAPSULE_ON_DEVICE)
        return err_set(e, ST_INPUT, "a copy from host to host memory cannot be replayed");
    for (uint64_t z = 0; z < x->depth; z++)
        TRY(copy_rows(l, x, item, z, stream, e));
    return ST_OK;
}

static enum st set(struct load *l, uint32_t item, CUstream stream, struct err *e)
{
    const struct capsule_set *x = &l->c->sets[item];
    const bool rows = x->height > 1;
    if (x->width == 0 || x->height == 0)
        return ST_OK;
    switch (x->unit_bytes) {
    case 1:
        return rows ? CHECK(l, cuMemsetD2D8Async, x->to, x->pitch, (unsigned char)x->value,
                            x->width, x->height, stream)
                    : CHECK(l, cuMemsetD8Async, x->to, (unsigned char)x->value, x->width, stream);
    case 2:
        return rows ? CHECK(l, cuMemsetD2D16Async, x->to, x->pitch, (unsigned short)x->value,
                            x->width, x->height, stream)
                    : CHECK(l, cuMemsetD16Async, x->to, (unsigned short)x->value, x->width, stream);
    default:
        return rows ? CHECK(l, cuMemsetD2D32Async, x->to, x->pitch, x->value, x->width, x->height,
                            stream)
                    : CHECK(l, cuMemsetD32Async, x->to, x->value, x->width, stream);
    }
}

enum st issue_op(struct load *l, size_t i, bool early, CUstream stream, struct err *e)
{
    const struct capsule_op *op = &l->c->ops[i];
    enum st st;
    if (op->kind == CAPSULE_LAUNCH)
        st = launch(l, op->item, early, stream, e);
    else if (op->kind == CAPSULE_COPY)
        st = copy(l, op->item, stream, e);
    else
        st = set(l, op->item, stream, e);
    return st == ST_OK ? ST_OK
                       : err_add(e, "cannot issue operation %zu, %.200s", i, load_name(l, i));
}

/* ---- programs -------------------------------------------------------------------------------- */

static enum st open_streams(struct issue *i, struct err *e)
{
    struct load *l = i->l;
    TRY(gpu_stream_open(&l->g, &i->origin, e));
    TRY(gpu_event_open(&l->g, false, &i->fork, e));
    for (uint32_t k = 0; k < i->p->n_lanes; k++) {
        TRY(CHECK(l, cuStreamCreateWithPriority, &i->lanes[k], CU_STREAM_NON_BLOCKING,
                  i->p->priority[k]));
        TRY(gpu_event_open(&l->g, false, &i->joins[k], e));
    }
    for (uint32_t k = 0; k < i->p->n_events; k++)
        TRY(gpu_event_open(&l->g, false, &i->events[k], e));
    return ST_OK;
}

enum st issue_open(struct load *l, const struct program *p, struct issue *out, struct err *e)
{
    *out = (struct issue){.l = l,
                          .p = p,
                          .lanes = arena_array(l->a, CUstream, p->n_lanes),
                          .joins = arena_array(l->a, CUevent, p->n_lanes),
                          .events = arena_array(l->a, CUevent, p->n_events)};
    const enum st st = open_streams(out, e);
    if (st != ST_OK)
        issue_close(out);
    return st;
}

void issue_close(struct issue *i)
{
    if (i->l) {
        const struct gpu *g = &i->l->g;
        for (uint32_t k = 0; k < i->p->n_events; k++)
            gpu_event_close(g, &i->events[k]);
        for (uint32_t k = 0; k < i->p->n_lanes; k++) {
            gpu_event_close(g, &i->joins[k]);
            gpu_stream_close(g, &i->lanes[k]);
        }
        gpu_event_close(g, &i->fork);
        gpu_stream_close(g, &i->origin);
    }
    *i = (struct issue){0};
}

/* Sleeping ends late by tens of microseconds: the last half millisecond is waited out awake. */
static void wait_for_pace(struct issue *i, size_t op)
{
    const int64_t call_ns = i->l->c->ops[op].call_ns;
    if (!i->begun) {
        i->begun = true;
        i->zero_ns = clock_mono_ns() - call_ns;
    }
    const int64_t until_ns = i->zero_ns + call_ns;
    if (until_ns - clock_mono_ns() > 1000000)
        clock_sleep_until_ns(until_ns - 500000);
    while (clock_mono_ns() < until_ns)
        ;
}

static enum st issue_step(struct issue *i, const struct program_step *s,
                          const struct issue_repeat *repeat, struct err *e)
{
    struct load *l = i->l;
    const CUstream stream = i->lanes[s->lane];
    if (s->kind == PROGRAM_WAIT)
        return gpu_stream_after(&l->g, stream, i->events[i->p->steps[s->item].event], e);
    if (s->kind == PROGRAM_OP) {
        if (i->paced)
            wait_for_pace(i, s->item);
        const bool many = repeat && repeat->class_of && repeat->class_of[s->item] == repeat->class;
        for (int k = 0; k < (many ? repeat->times : 1); k++) {
            for (size_t n = 0; k > 0 && repeat->with && n < repeat->with[s->item].n; n++)
                TRY(issue_op(l, repeat->with[s->item].ops[n], false, stream, e));
            TRY(issue_op(l, s->item, s->early, stream, e));
        }
    }
    return s->event == CAPSULE_NONE ? ST_OK
                                    : gpu_event_record(&l->g, i->events[s->event], stream, e);
}

enum st issue_streams(struct issue *i, const struct issue_repeat *repeat, struct err *e)
{
    const struct gpu *g = &i->l->g;
    i->begun = false;
    TRY(gpu_event_record(g, i->fork, i->origin, e));
    for (uint32_t k = 0; k < i->p->n_lanes; k++)
        TRY(gpu_stream_after(g, i->lanes[k], i->fork, e));
    for (size_t s = 0; s < i->p->n; s++)
        TRY(issue_step(i, &i->p->steps[s], repeat, e));
    for (uint32_t k = 0; k < i->p->n_lanes; k++) {
        TRY(gpu_event_record(g, i->joins[k], i->lanes[k], e));
        TRY(gpu_stream_after(g, i->origin, i->joins[k], e));
    }
    return ST_OK;
}

enum st issue_graph(struct issue *i, const struct issue_repeat *repeat, CUgraphExec *out,
                    struct err *e)
{
    struct err ended = {0};
    *out = NULL;
    TRY(gpu_capture_begin(&i->l->g, i->origin, e));
    enum st st = issue_streams(i, repeat, e);
    const enum st end = gpu_capture_end(&i->l->g, i->origin, out, NULL, &ended);
    if (st == ST_OK && end != ST_OK) {
        *e = ended;
        st = end;
    }
    if (st == ST_OK)
        return ST_OK;
    gpu_graph_close(&i->l->g, out);
    err_hint(e, "replay.order=streams runs it without a graph");
    return err_add(e, "cannot make a graph of the region");
}

enum st issue_serial(struct load *l, const struct program *p,
                     enum st (*after)(void *self, size_t op, struct err *e), void *self,
                     struct err *e)
{
    for (size_t s = 0; s < p->n; s++) {
        if (p->steps[s].kind != PROGRAM_OP)
            continue;
        const size_t i = p->steps[s].item;
        TRY(issue_op(l, i, false, l->stream, e));
        if (gpu_stream_wait(&l->g, l->stream, e) != ST_OK)
            return err_add(e, "operation %zu, %.200s, fails", i, load_name(l, i));
        if (after)
            TRY(after(self, i, e));
    }
    return ST_OK;
}
