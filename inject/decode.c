#include "inject/decode.h"

#include <string.h>

#include "inject/cupti.h"
#include "inject/gate.h"
#include "inject/guest.h"
#include "inject/names.h"
#include "inject/notes.h"
#include "inject/writer.h"

/* Records are read in their newest layout; newer fields only where the CUPTI version has them. */
enum {                    /* CUPTI API versions that brought a field */
       HAS_GRAPH_ID = 14, /* CUDA 11.1 */
       HAS_CLUSTER = 18,  /* CUDA 11.8 */
};

enum { SHAPES = 1 << 16, SHAPES_FULL = SHAPES / 4 * 3, POINTERS = 1 << 12 };

static struct {
    struct spool_shape *shapes; /* [SHAPES], open addressing; id 0 = free */
    uint32_t n, next_id;
    struct {
        const char *pointer;
        uint32_t name;
    } * pointers; /* [POINTERS]: names by the address at which CUPTI keeps them */
    struct {
        int64_t mono_ns, cupti_ns;
    } clock[2];                           /* the last two pairs */
    int64_t wall_offset_ns, wall_from_ns; /* wall clock - CLOCK_MONOTONIC; times after wall_from_ns
                                             are the wall clock's */
    bool wall_told;
    uint64_t unknown, no_times;
} d;

bool inject_decode_open(void)
{
    if (!d.shapes) {
        d.shapes = inject_pages(sizeof *d.shapes * SHAPES);
        d.pointers = inject_pages(sizeof *d.pointers * POINTERS);
    }
    if (!d.shapes || !d.pointers)
        return false;
    memset(d.shapes, 0, sizeof *d.shapes * SHAPES);
    d.n = 0;
    d.next_id = 1;
    d.unknown = d.no_times = 0;
    d.wall_from_ns = INT64_MAX;
    d.wall_told = false;
    memset(d.clock, 0, sizeof d.clock);
    return true;
}

void inject_decode_clock(int64_t mono_ns, int64_t cupti_ns)
{
    d.clock[0] = d.clock[1];
    d.clock[1].mono_ns = mono_ns;
    d.clock[1].cupti_ns = cupti_ns;
    if (d.clock[0].mono_ns == 0)
        d.clock[0] = d.clock[1];
}

void inject_decode_host_clocks(int64_t mono_ns, int64_t wall_ns)
{
    const int64_t day_ns = INT64_C(86400000000000);
    d.wall_offset_ns = wall_ns - mono_ns;
    d.wall_from_ns = d.wall_offset_ns > day_ns ? mono_ns + d.wall_offset_ns / 2 : INT64_MAX;
}

/* Converts early times: CUPTI uses the registered clock only some time after accepting it; until
 * then it stamps the wall clock. */
static int64_t early(int64_t t)
{
    if (!d.wall_told)
        inject_notes_add(SPOOL_INFO, "first GPU times were shifted from the wall clock%s", "", 0);
    d.wall_told = true;
    return t - d.wall_offset_ns;
}

static int64_t distance(int64_t t, int64_t from_ns, int64_t to_ns)
{
    return t < from_ns ? from_ns - t : t > to_ns ? t - to_ns : 0;
}

/* Converts CUPTI's time to CLOCK_MONOTONIC. Without a common clock it uses one of the last two
 * pairs, so that a step of the wall clock affects only later events: the pair that gives a time
 * closer to the interval between the two, in which most arriving events happened. */
static int64_t time_of(uint64_t cupti_ns)
{
    if (cupti_ns == 0)
        return 0;
    if (inject_cupti_own_clock())
        return (int64_t)cupti_ns < d.wall_from_ns ? (int64_t)cupti_ns : early((int64_t)cupti_ns);
    int64_t t = (int64_t)cupti_ns, from_ns = d.clock[0].mono_ns, to_ns = d.clock[1].mono_ns;
    int64_t old = t - d.clock[0].cupti_ns + from_ns;
    int64_t new = t - d.clock[1].cupti_ns + to_ns;
    return distance(new, from_ns, to_ns) < distance(old, from_ns, to_ns) ? new : old;
}

/* CUPTI keeps a name at one address while its module is loaded; comparing is still needed, as the
 * address may serve another name later. */
static uint32_t kernel_name(const char *name)
{
    if (!name)
        return 0;
    size_t at = ((uintptr_t)name >> 4) % POINTERS;
    if (d.pointers[at].pointer != name ||
        strcmp(inject_names_get(d.pointers[at].name)->text, name) != 0) {
        d.pointers[at].pointer = name;
        d.pointers[at].name = inject_names_intern(name, strlen(name));
    }
    return inject_writer_string(d.pointers[at].name);
}

/* Hash of a shape, over the fields that nearly always distinguish kernels: hashing all costs more
 * than a rare collision. */
static size_t place(const struct spool_shape *s)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t a = (uint64_t)s->name << 32 | s->grid[0], b = (uint64_t)s->grid[1] << 32 | s->grid[2],
             c = (uint64_t)s->stream << 32 | s->dynamic_shared_bytes,
             g = (uint64_t)s->graph << 32 | s->block[0] << 4 | s->device;
    uint64_t h = a * odd ^ b * (odd << 8 | 1) ^ c * (odd >> 8 | 1) ^ g * (odd << 16 | 1);
    return (size_t)(h >> 32) % SHAPES;
}

static uint32_t shape(struct spool_shape *s)
{
    enum { FROM = offsetof(struct spool_shape, name) };
    const char *key = (const char *)s + FROM;
    if (d.n >= SHAPES_FULL) { /* start over: a shape may get two ids */
        memset(d.shapes, 0, sizeof *d.shapes * SHAPES);
        d.n = 0;
    }
    for (size_t i = place(s);; i = (i + 1) % SHAPES) {
        if (d.shapes[i].id == 0) {
            s->id = d.next_id++;
            d.shapes[i] = *s;
            d.n++;
            trace_spool_add(&guest.spool, SPOOL_SHAPES, s);
            return s->id;
        }
        if (memcmp((const char *)&d.shapes[i] + FROM, key, sizeof *s - FROM) == 0)
            return d.shapes[i].id;
    }
}

/* CUPTI writes 0 where it could not take a time. */
static bool has_times(uint64_t start, uint64_t end)
{
    d.no_times += start == 0 || end == 0;
    return start && end;
}

static void kernel(const void *record)
{
    const CUpti_ActivityKernel10 *k = record;
    uint32_t version = inject_cupti_version();
    if (!has_times(k->start, k->end))
        return;
    int64_t start_ns = time_of(k->start), end_ns = time_of(k->end);
    if (!inject_gate_keeps(k->correlationId, start_ns))
        return;
    struct spool_shape s;
    memset(&s, 0, sizeof s);
    s.name = kernel_name(k->name);
    s.device = k->deviceId;
    s.context = k->contextId;
    s.stream = k->streamId;
    s.green_context = SPOOL_NONE;
    s.grid[0] = (uint32_t)k->gridX;
    s.grid[1] = (uint32_t)k->gridY;
    s.grid[2] = (uint32_t)k->gridZ;
    s.block[0] = (uint32_t)k->blockX;
    s.block[1] = (uint32_t)k->blockY;
    s.block[2] = (uint32_t)k->blockZ;
    s.registers = k->registersPerThread;
    s.static_shared_bytes = (uint32_t)k->staticSharedMemory;
    s.dynamic_shared_bytes = (uint32_t)k->dynamicSharedMemory;
    s.executed_shared_bytes = k->sharedMemoryExecuted;
    s.local_bytes_per_thread = k->localMemoryPerThread;
    s.local_bytes = k->localMemoryTotal;
    s.launch_type = k->launchType;
    s.cache_requested = k->cacheConfig.config.requested;
    s.cache_executed = k->cacheConfig.config.executed;
    s.shared_limit = (uint8_t)k->shmemLimitConfig;
    if (version >= HAS_GRAPH_ID)
        s.graph = k->graphId;
    if (version >= HAS_CLUSTER) {
        s.cluster[0] = k->clusterX;
        s.cluster[1] = k->clusterY;
        s.cluster[2] = k->clusterZ;
        s.local_bytes = k->localMemoryTotal_v2;
    }
    trace_spool_add(&guest.spool, SPOOL_KERNELS,
                    &(struct spool_kernel){.start_ns = start_ns,
                                           .end_ns = end_ns,
                                           .shape = shape(&s),
                                           .correlation = k->correlationId,
                                           .graph_node = k->graphNodeId});
}

static void copy(const void *record)
{
    const CUpti_ActivityMemcpy6 *m = record;
    if (!has_times(m->start, m->end))
        return;
    int64_t start_ns = time_of(m->start), end_ns = time_of(m->end);
    if (!inject_gate_keeps(m->correlationId, start_ns))
        return;
    trace_spool_add(
        &guest.spool, SPOOL_COPIES,
        &(struct spool_copy){.start_ns = start_ns,
                             .end_ns = end_ns,
                             .bytes = m->bytes,
                             .graph_node = m->graphNodeId,
                             .correlation = m->correlationId,
                             .device = m->deviceId,
                             .context = m->contextId,
                             .stream = m->streamId,
                             .source_device = SPOOL_NONE,
                             .source_context = SPOOL_NONE,
                             .target_device = SPOOL_NONE,
                             .target_context = SPOOL_NONE,
                             .graph = inject_cupti_version() >= HAS_GRAPH_ID ? m->graphId : 0,
                             .copy_kind = m->copyKind,
                             .source_kind = m->srcKind,
                             .target_kind = m->dstKind,
                             .flags = m->flags});
}

static void peer_copy(const void *record)
{
    const CUpti_ActivityMemcpyPtoP4 *m = record;
    if (!has_times(m->start, m->end))
        return;
    int64_t start_ns = time_of(m->start), end_ns = time_of(m->end);
    if (!inject_gate_keeps(m->correlationId, start_ns))
        return;
    trace_spool_add(
        &guest.spool, SPOOL_COPIES,
        &(struct spool_copy){.start_ns = start_ns,
                             .end_ns = end_ns,
                             .bytes = m->bytes,
                             .graph_node = m->graphNodeId,
                             .correlation = m->correlationId,
                             .device = m->deviceId,
                             .context = m->contextId,
                             .stream = m->streamId,
                             .source_device = m->srcDeviceId,
                             .source_context = m->srcContextId,
                             .target_device = m->dstDeviceId,
                             .target_context = m->dstContextId,
                             .graph = inject_cupti_version() >= HAS_GRAPH_ID ? m->graphId : 0,
                             .copy_kind = m->copyKind,
                             .source_kind = m->srcKind,
                             .target_kind = m->dstKind,
                             .flags = m->flags});
}

static void set(const void *record)
{
    const CUpti_ActivityMemset4 *m = record;
    if (!has_times(m->start, m->end))
        return;
    int64_t start_ns = time_of(m->start), end_ns = time_of(m->end);
    if (!inject_gate_keeps(m->correlationId, start_ns))
        return;
    trace_spool_add(
        &guest.spool, SPOOL_SETS,
        &(struct spool_set){.start_ns = start_ns,
                            .end_ns = end_ns,
                            .bytes = m->bytes,
                            .graph_node = m->graphNodeId,
                            .correlation = m->correlationId,
                            .device = m->deviceId,
                            .context = m->contextId,
                            .stream = m->streamId,
                            .value = m->value,
                            .graph = inject_cupti_version() >= HAS_GRAPH_ID ? m->graphId : 0,
                            .memory_kind = (uint8_t)m->memoryKind,
                            .flags = (uint8_t)m->flags});
}

static void sync_wait(const void *record)
{
    const CUpti_ActivitySynchronization2 *y = record;
    if (!has_times(y->start, y->end))
        return;
    int64_t start_ns = time_of(y->start), end_ns = time_of(y->end);
    if (!inject_gate_overlaps(start_ns, end_ns))
        return;
    trace_spool_add(&guest.spool, SPOOL_SYNCS,
                    &(struct spool_sync){.start_ns = start_ns,
                                         .end_ns = end_ns,
                                         .correlation = y->correlationId,
                                         .context = y->contextId,
                                         .stream = y->streamId,
                                         .event = y->cudaEventId,
                                         .kind = (uint32_t)y->type});
}

static void graph(const void *record)
{
    const CUpti_ActivityGraphTrace2 *g = record;
    if (!has_times(g->start, g->end))
        return;
    int64_t start_ns = time_of(g->start), end_ns = time_of(g->end);
    /* Graph records come during pauses too, when launches are not seen. */
    if (!guest.settings.kernels ||
        !(inject_gate_filters ? inject_gate_keeps(g->correlationId, start_ns)
                              : inject_gate_overlaps(start_ns, start_ns)))
        return;
    trace_spool_add(&guest.spool, SPOOL_GRAPHS,
                    &(struct spool_graph){.start_ns = start_ns,
                                          .end_ns = end_ns,
                                          .correlation = g->correlationId,
                                          .device = g->deviceId,
                                          .context = g->contextId,
                                          .stream = g->streamId,
                                          .graph = g->graphId});
}

/* Strips versions of four digits, as nsys does in its reports: cudaLaunchKernel_v7000, but not
 * cudaGraphLaunch_v10000. Versions of the driver (_v2) are other functions. */
static uint32_t api_name(int domain, uint32_t cbid)
{
    const char *name = inject_cupti_api_name(domain, cbid);
    size_t n = strlen(name);
    if (n > 6 && memcmp(name + n - 6, "_v", 2) == 0)
        n -= 6;
    return inject_writer_string(inject_names_intern(name, n));
}

static void call(const void *record)
{
    const CUpti_ActivityAPI *a = record;
    if (!has_times(a->start, a->end))
        return;
    int64_t start_ns = time_of(a->start), end_ns = time_of(a->end);
    int domain = a->kind == CUPTI_ACTIVITY_KIND_DRIVER ? CUPTI_CB_DOMAIN_DRIVER_API
                                                       : CUPTI_CB_DOMAIN_RUNTIME_API;
    if (!inject_gate_overlaps(start_ns, end_ns))
        return;
    trace_spool_add(&guest.spool, SPOOL_APIS,
                    &(struct spool_api){.start_ns = start_ns,
                                        .end_ns = end_ns,
                                        .correlation = a->correlationId,
                                        .result = a->returnValue,
                                        .thread = inject_writer_thread_of(a->threadId),
                                        .domain = (uint16_t)domain,
                                        .cbid = (uint16_t)a->cbid,
                                        .name = api_name(domain, a->cbid)});
}

/* ---- the kinds ---- */

static bool kernels(const struct settings *s)
{
    return s->kernels;
}
static bool copies(const struct settings *s)
{
    return s->copies;
}
static bool syncs(const struct settings *s)
{
    return s->sync;
}
static bool driver_calls(const struct settings *s)
{
    return (s->api & TRACE_API_DRIVER) != 0;
}
static bool runtime_calls(const struct settings *s)
{
    return (s->api & TRACE_API_RUNTIME) != 0;
}

#define KIND(name) CUPTI_ACTIVITY_KIND_##name
const struct activity inject_activities[] = {
    {KIND(CONCURRENT_KERNEL), kernel, kernels, "kernels"},
    {KIND(KERNEL), kernel, NULL, NULL},
    {KIND(MEMCPY), copy, copies, "copies"},
    {KIND(MEMCPY2), peer_copy, copies, "copies between devices"},
    {KIND(MEMSET), set, copies, "sets"},
    {KIND(SYNCHRONIZATION), sync_wait, syncs, "synchronization"},
    {KIND(GRAPH_TRACE), graph, NULL, NULL},
    {KIND(DRIVER), call, driver_calls, "driver calls"},
    {KIND(RUNTIME), call, runtime_calls, "runtime calls"},
    {KIND(INVALID), NULL, NULL, NULL},
};

void inject_decode_buffer(uint8_t *buffer, size_t valid)
{
    void *record = NULL;
    int more;
    while ((more = inject_cupti_next_record(buffer, valid, &record)) > 0) {
        CUpti_ActivityKind kind = ((const CUpti_Activity *)record)->kind;
        const struct activity *a = inject_activities; /* most records are of its first row */
        while (a->kind && a->kind != kind)
            a++;
        if (a->decode)
            a->decode(record);
    }
    d.unknown += more < 0; /* at least one: the rest of the buffer is not reached */
}

uint64_t inject_decode_take_no_times(void)
{
    uint64_t n = d.no_times;
    d.no_times = 0;
    return n;
}

uint64_t inject_decode_take_unknown(void)
{
    uint64_t n = d.unknown;
    d.unknown = 0;
    return n;
}
