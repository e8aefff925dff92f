/* Reader of spools (trace/spool.h): block by block, each checked before use. */
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/vec.h"
#include "gpu/abi/cupti.h"
#include "trace/formats.h"
#include "trace/launch_names.h"
#include "trace/spool_scan.h"

enum { MAX_DEFINED = 1 << 24, MAX_THREADS = 1 << 16 };

struct spool_reader {
    const char *path;
    FILE *f;
    struct trace_dict *d;
    const struct trace_sink *sink;
    struct spool_header header;
    uint32_t process;  /* index */
    int64_t shift_ns;  /* added to every time: another host's clock */
    int64_t latest_ns; /* latest end of a record: where open ranges end */
    uint64_t unnamed;  /* records that refer to what the file does not define */
    uint32_t sequence; /* of the next block */
    uint64_t skipped_blocks, skipped_bytes; /* damaged, with whole blocks behind them */
    long skipped_from;                      /* the first of them */
    bool ended;
    bool has_apis;        /* calls were recorded on request ... */
    bool has_driver_apis; /* ... launches among them: SPOOL_LAUNCHES would repeat them */
    /* From the file's ids to those of the dictionary; TRACE_NONE = not defined. */
    VEC(uint32_t) strings, sigs, threads, devices;
    VEC(uint32_t) launch_names;      /* by cbid */
    VEC(struct spool_range) pending; /* ranges that were open when last written */
};

typedef VEC(uint32_t) id_list;

/* Ids come in any order, but close together: one far beyond the known ones is damage, and would
 * cost memory. */
static bool define(void *list, uint32_t id, uint32_t value, uint32_t most)
{
    enum { AHEAD = 1 << 16 };
    id_list *l = list;
    if (id >= most || id > l->n + AHEAD)
        return false;
    while (l->n <= id)
        vec_push(l, TRACE_NONE);
    l->p[id] = value;
    return true;
}

#define LOOKUP(list, id) ((id) < (list).n ? (list).p[id] : TRACE_NONE)

static uint32_t string_of(struct spool_reader *r, uint32_t id)
{
    uint32_t s = LOOKUP(r->strings, id);
    return s == TRACE_NONE ? 0 : s;
}

static uint32_t thread_of(struct spool_reader *r, uint32_t id)
{
    uint32_t t = LOOKUP(r->threads, id);
    return t == TRACE_NONE ? trace_thread_of(r->d, r->process, 0) : t;
}

static uint32_t device_of(struct spool_reader *r, uint32_t ordinal)
{
    uint32_t index = LOOKUP(r->devices, ordinal);
    return index == TRACE_NONE ? ordinal : r->d->devices[index].number;
}

static int64_t time_of(struct spool_reader *r, int64_t ns)
{
    return ns + r->shift_ns;
}

static bool times_ok(struct spool_reader *r, enum trace_record_kind kind, int64_t start_ns,
                     int64_t end_ns)
{
    bool far =
        start_ns < 0 || end_ns > INT64_MAX / 4; /* no clock's time; shifting would overflow */
    if (!trace_times_ok(r->d, kind, far ? 1 : time_of(r, start_ns), far ? 0 : time_of(r, end_ns)))
        return false;
    if (end_ns > r->latest_ns)
        r->latest_ns = end_ns;
    return true;
}

/* ---- definitions ---- */

static enum st take_strings(struct spool_reader *r, const struct spool_block *b,
                            const unsigned char *p, struct err *e)
{
    size_t at = 0;
    (void)e;
    for (uint32_t i = 0; i < b->count; i++) {
        struct spool_string s;
        if (b->bytes - at < sizeof s)
            return err_set(e, ST_INPUT, "%s: block %u: its strings do not fit it", r->path,
                           b->sequence);
        memcpy(&s, p + at, sizeof s);
        at += sizeof s;
        size_t padded = ((size_t)s.bytes + 7) / 8 * 8;
        if (s.bytes > SPOOL_STRING_MAX_BYTES || padded > b->bytes - at)
            return err_set(e, ST_INPUT, "%s: block %u: its strings do not fit it", r->path,
                           b->sequence);
        uint32_t id = trace_string(r->d, (struct sv){(const char *)p + at, s.bytes});
        if (!define(&r->strings, s.id, id, MAX_DEFINED))
            r->unnamed++;
        at += padded;
    }
    return ST_OK;
}

static void take_version(struct spool_reader *r, enum trace_fact_kind kind, uint32_t version)
{
    char text[16];
    snprintf(text, sizeof text, "%u", version);
    trace_fact(r->d, kind, sv_of(text));
}

static enum st take_process(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_process *x = record;
    (void)e;
    struct trace_process *p = &r->d->processes[r->process];
    uint32_t name = string_of(r, x->command);
    p->name = name ? name : p->name;
    p->rank = x->rank >= 0 ? x->rank : p->rank;
    trace_fact(r->d, TRACE_HOST, sv_of(trace_text(r->d, string_of(r, x->host))));
    take_version(r, TRACE_CUDA_DRIVER, x->driver_version);
    take_version(r, TRACE_CUPTI, x->cupti_version);
    return ST_OK;
}

static enum st take_thread(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_thread *x = record;
    (void)e;
    uint32_t id = trace_thread_of(r->d, r->process, x->tid);
    r->d->threads[id].name = string_of(r, x->name);
    if (!define(&r->threads, x->id, id, MAX_THREADS))
        r->unnamed++;
    return ST_OK;
}

static enum st take_device(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_device *x = record;
    (void)e;
    struct trace_device d = {
        .number = x->device,
        .name = string_of(r, x->name),
        .major = x->major,
        .minor = x->minor,
        .sms = x->sms,
        .max_threads_per_sm = x->max_threads_per_sm,
        .memory_bytes = x->memory_bytes,
        .bandwidth_bytes_per_s = x->bandwidth_bytes_per_s,
        .clock_khz = x->sm_clock_khz,
        .l2_bytes = x->l2_bytes,
    };
    memcpy(d.uuid, x->uuid, sizeof d.uuid);
    if (!define(&r->devices, x->device, trace_device_of(r->d, &d), 4096))
        r->unnamed++;
    return ST_OK;
}

static enum st take_shape(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_shape *x = record;
    (void)e;
    struct trace_sig s = {
        .kind = TRACE_KERNEL,
        .name = string_of(r, x->name),
        .process = r->process,
        .device = device_of(r, x->device),
        .context = x->context,
        .stream = x->stream,
        .green_context = x->green_context,
        .graph = x->graph,
        .grid = {x->grid[0], x->grid[1], x->grid[2]},
        .block = {x->block[0], x->block[1], x->block[2]},
        .cluster = {x->cluster[0], x->cluster[1], x->cluster[2]},
        .registers = x->registers,
        .static_shared = x->static_shared_bytes,
        .dynamic_shared = x->dynamic_shared_bytes,
        .executed_shared = x->executed_shared_bytes,
        .local_per_thread = x->local_bytes_per_thread,
        .local_bytes = x->local_bytes,
        .source_device = TRACE_NONE,
        .target_device = TRACE_NONE,
        .launch_type = x->launch_type,
        .cache_config = x->cache_executed,
        .shared_limit = x->shared_limit,
    };
    if (!define(&r->sigs, x->id, trace_sig_id(r->d, &s), MAX_DEFINED))
        r->unnamed++;
    return ST_OK;
}

/* ---- events ---- */

static enum st take_kernel(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_kernel *x = record;
    uint32_t sig = LOOKUP(r->sigs, x->shape);
    if (sig == TRACE_NONE) {
        r->unnamed++;
        return ST_OK;
    }
    if (!times_ok(r, TRACE_OP, x->start_ns, x->end_ns) || !r->sink->op)
        return ST_OK;
    struct trace_op op = {time_of(r, x->start_ns), time_of(r, x->end_ns), sig,
                          x->correlation,          x->graph_node,         0};
    return r->sink->op(r->sink->self, &op, e);
}

static enum st put_op(struct spool_reader *r, struct trace_sig *s, int64_t start_ns, int64_t end_ns,
                      uint32_t correlation, uint64_t node, struct err *e)
{
    if (!times_ok(r, TRACE_OP, start_ns, end_ns) || !r->sink->op)
        return ST_OK;
    s->process = r->process;
    s->device = device_of(r, s->device);
    s->green_context = TRACE_NONE;
    if (s->kind != TRACE_GRAPH)
        s->name = trace_memory_op_name(r->d, s);
    struct trace_op op = {
        time_of(r, start_ns), time_of(r, end_ns), trace_sig_id(r->d, s), correlation, node, 0};
    return r->sink->op(r->sink->self, &op, e);
}

static enum st take_copy(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_copy *x = record;
    struct trace_sig s = {.kind = TRACE_COPY,
                          .device = x->device,
                          .context = x->context,
                          .stream = x->stream,
                          .bytes = (int64_t)(x->bytes & INT64_MAX),
                          .graph = x->graph,
                          .copy_kind = x->copy_kind,
                          .source_kind = x->source_kind,
                          .target_kind = x->target_kind,
                          .flags = x->flags,
                          .source_device = x->source_device,
                          .target_device = x->target_device};
    return put_op(r, &s, x->start_ns, x->end_ns, x->correlation, x->graph_node, e);
}

static enum st take_set(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_set *x = record;
    struct trace_sig s = {.kind = TRACE_SET,
                          .device = x->device,
                          .context = x->context,
                          .stream = x->stream,
                          .bytes = (int64_t)(x->bytes & INT64_MAX),
                          .value = x->value,
                          .graph = x->graph,
                          .target_kind = x->memory_kind,
                          .flags = x->flags,
                          .source_device = TRACE_NONE,
                          .target_device = TRACE_NONE};
    return put_op(r, &s, x->start_ns, x->end_ns, x->correlation, x->graph_node, e);
}

static enum st take_graph(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_graph *x = record;
    struct trace_sig s = {.kind = TRACE_GRAPH,
                          .device = x->device,
                          .context = x->context,
                          .stream = x->stream,
                          .graph = x->graph,
                          .source_device = TRACE_NONE,
                          .target_device = TRACE_NONE};
    return put_op(r, &s, x->start_ns, x->end_ns, x->correlation, 0, e);
}

static uint32_t name_of_launch(struct spool_reader *r, uint16_t cbid)
{
    uint32_t id = LOOKUP(r->launch_names, cbid);
    if (id != TRACE_NONE)
        return id;
    char other[32];
    const char *name = trace_launch_name(cbid);
    if (!name) {
        snprintf(other, sizeof other, "driver function %u", cbid);
        name = other;
    }
    id = trace_string(r->d, sv_of(name));
    define(&r->launch_names, cbid, id, 1 << 16);
    return id;
}

static enum st take_launch(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_launch *x = record;
    if (r->has_driver_apis || !times_ok(r, TRACE_CALL, x->start_ns, x->end_ns) || !r->sink->call)
        return ST_OK;
    struct trace_call c = {.start_ns = time_of(r, x->start_ns),
                           .end_ns = time_of(r, x->end_ns),
                           .correlation = x->correlation,
                           .thread = thread_of(r, x->thread),
                           .name = name_of_launch(r, x->cbid),
                           .driver = true};
    return r->sink->call(r->sink->self, &c, e);
}

static enum st take_api(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_api *x = record;
    r->has_apis = true;
    if (!times_ok(r, TRACE_CALL, x->start_ns, x->end_ns) || !r->sink->call)
        return ST_OK;
    struct trace_call c = {.start_ns = time_of(r, x->start_ns),
                           .end_ns = time_of(r, x->end_ns),
                           .correlation = x->correlation,
                           .thread = thread_of(r, x->thread),
                           .name = string_of(r, x->name),
                           .result = x->result,
                           .driver = x->domain == CUPTI_CB_DOMAIN_DRIVER_API};
    return r->sink->call(r->sink->self, &c, e);
}

static enum st put_range(struct spool_reader *r, const struct spool_range *x, int64_t end_ns,
                         struct err *e)
{
    if (x->kind == SPOOL_MARK || !times_ok(r, TRACE_RANGE, x->start_ns, end_ns) || !r->sink->range)
        return ST_OK;
    struct trace_range range = {.start_ns = time_of(r, x->start_ns),
                                .end_ns = time_of(r, end_ns),
                                .text = string_of(r, x->text),
                                .domain = string_of(r, x->domain),
                                .thread = thread_of(r, x->thread),
                                .end_thread = thread_of(r, x->end_thread),
                                .category = x->category,
                                .color = x->color,
                                .values = string_of(r, x->values),
                                .style =
                                    x->kind == SPOOL_START_END ? TRACE_START_END : TRACE_PUSH_POP,
                                .open = x->end_ns == SPOOL_OPEN_NS};
    return r->sink->range(r->sink->self, &range, e);
}

static enum st take_range(struct spool_reader *r, const void *record, struct err *e)
{
    enum { MOST_PENDING = 1 << 12 }; /* open at one time; each end searches them */
    const struct spool_range *x = record;
    size_t i = r->pending.n;
    while (i > 0 && r->pending.p[i - 1].id != x->id)
        i--;
    if (i > 0) { /* replaces the record written while it was open */
        r->pending.p[i - 1] = vec_last(&r->pending);
        (void)vec_pop(&r->pending);
    }
    if (x->end_ns != SPOOL_OPEN_NS)
        return put_range(r, x, x->end_ns, e);
    if (r->pending.n < MOST_PENDING)
        vec_push(&r->pending, *x);
    else
        r->unnamed++;
    return ST_OK;
}

static enum st take_sync(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_sync *x = record;
    if (!times_ok(r, TRACE_SYNC, x->start_ns, x->end_ns) || !r->sink->sync)
        return ST_OK;
    struct trace_sync s = {.start_ns = time_of(r, x->start_ns),
                           .end_ns = time_of(r, x->end_ns),
                           .kind = x->kind,
                           .process = r->process,
                           .context = x->context,
                           .stream = x->stream,
                           .event = x->event,
                           .correlation = x->correlation};
    return r->sink->sync(r->sink->self, &s, e);
}

static enum st take_drop(struct spool_reader *r, const void *record, struct err *e)
{
    const struct spool_drop *x = record;
    (void)e;
    r->d->dropped += x->count < UINT64_MAX / 2 ? x->count : 0;
    return ST_OK;
}

static enum st take_note(struct spool_reader *r, const void *record, struct err *e)
{
    static const uint32_t levels[] = {LOG_INFO, LOG_INFO, LOG_WARN, LOG_ERROR};
    const struct spool_note *x = record;
    (void)e;
    trace_note(r->d, levels[x->level < 4 ? x->level : 0], "%s: %s", fs_base(r->path),
               trace_text(r->d, string_of(r, x->text)));
    return ST_OK;
}

static enum st take_end(struct spool_reader *r, const void *record, struct err *e)
{
    (void)record;
    (void)e;
    r->ended = true;
    return ST_OK;
}

static enum st (*const takers[SPOOL_KINDS])(struct spool_reader *, const void *, struct err *) = {
    [SPOOL_PROCESS] = take_process, [SPOOL_THREADS] = take_thread, [SPOOL_DEVICES] = take_device,
    [SPOOL_SHAPES] = take_shape,    [SPOOL_KERNELS] = take_kernel, [SPOOL_LAUNCHES] = take_launch,
    [SPOOL_COPIES] = take_copy,     [SPOOL_SETS] = take_set,       [SPOOL_SYNCS] = take_sync,
    [SPOOL_GRAPHS] = take_graph,    [SPOOL_RANGES] = take_range,   [SPOOL_APIS] = take_api,
    [SPOOL_DROPS] = take_drop,      [SPOOL_NOTES] = take_note,     [SPOOL_END] = take_end,
};

/* ---- blocks ---- */

static enum st take_records(struct spool_reader *r, const struct spool_block *b,
                            const unsigned char *p, struct err *e)
{
    enum { MOST = 256 }; /* no record of this version is larger */
    size_t mine = trace_spool_record_bytes(b->kind);
    ASSERT(mine <= MOST);
    if (b->record_bytes == 0 || b->count > b->bytes / b->record_bytes)
        return err_set(e, ST_INPUT, "%s: block %u: its records do not fit it", r->path,
                       b->sequence);
    _Alignas(8) unsigned char record[MOST] = {0};
    bool in_place = b->record_bytes >= mine && b->record_bytes % 8 == 0;
    for (uint32_t i = 0; i < b->count; i++, p += b->record_bytes) {
        if (in_place) {
            TRY(takers[b->kind](r, p, e));
            continue;
        }
        memcpy(record, p, b->record_bytes < mine ? b->record_bytes : mine);
        TRY(takers[b->kind](r, record, e));
    }
    return ST_OK;
}

/* Moves to the next valid block behind damage at `at`; *skipped blocks lie between. ST_END when
 * there is none. */
static enum st find_block(struct spool_reader *r, long at, uint32_t *skipped, long *to,
                          struct err *e)
{
    struct fs_map map;
    TRY(fs_map(r->path, &map, e));
    uint64_t next = trace_spool_find(&map, (uint64_t)at, r->sequence);
    bool found = next < map.n;
    if (found)
        *skipped =
            ((const struct spool_block *)(const void *)(map.p + next))->sequence - r->sequence;
    fs_unmap(&map);
    *to = (long)next;
    if (!found)
        return ST_END;
    return fseek(r->f, *to, SEEK_SET) == 0 ? ST_OK : err_errno(e, true, "cannot read %s", r->path);
}

static bool header_fits(const struct spool_block *b)
{
    return b->magic == SPOOL_BLOCK_MAGIC && b->bytes <= SPOOL_BLOCK_MAX_BYTES && b->bytes % 8 == 0;
}

/* 1 whole, 0 the end, -1 damaged or cut. */
static int take_block(struct spool_reader *r, struct spool_block *b, unsigned char *payload)
{
    size_t n = fread(b, 1, sizeof *b, r->f);
    if (n == 0)
        return 0;
    if (n < sizeof *b || !header_fits(b) || fread(payload, 1, b->bytes, r->f) != b->bytes)
        return -1;
    uint64_t sum = trace_spool_checksum(0, b, offsetof(struct spool_block, checksum));
    return trace_spool_checksum(sum, payload, b->bytes) == b->checksum ? 1 : -1;
}

/* Reads the next valid block; skips and counts damage before it. ST_END after the last. */
static enum st next_block(struct spool_reader *r, struct spool_block *b, unsigned char *payload,
                          struct err *e)
{
    for (;;) {
        long at = ftell(r->f), to;
        int got = take_block(r, b, payload);
        if (ferror(r->f))
            return err_set(e, ST_INPUT, "%s: cannot be read", r->path);
        if (got == 0)
            return ST_END;
        if (got > 0) {
            r->sequence = b->sequence + 1;
            return ST_OK;
        }
        uint32_t skipped;
        enum st st = find_block(r, at, &skipped, &to, e);
        if (st == ST_END)
            trace_note(r->d, LOG_WARN,
                       "%s: cut or damaged at byte %ld: the %ld bytes from there hold no whole "
                       "block",
                       fs_base(r->path), at, to - at);
        if (st != ST_OK)
            return st;
        r->skipped_from = r->skipped_bytes ? r->skipped_from : at;
        r->skipped_bytes += (uint64_t)(to - at);
        r->skipped_blocks += skipped;
        r->sequence += skipped;
    }
}

static enum st read_blocks(struct spool_reader *r, struct err *e)
{
    struct spool_block b;
    unsigned char *payload = mem_alloc(SPOOL_BLOCK_MAX_BYTES);
    enum st st;
    while ((st = next_block(r, &b, payload, e)) == ST_OK && !r->ended) {
        if (b.kind == SPOOL_STRINGS)
            st = take_strings(r, &b, payload, e);
        else if (b.kind < SPOOL_KINDS && takers[b.kind])
            st = take_records(r, &b, payload, e);
        if (st != ST_OK)
            break;
    }
    mem_free(payload);
    return st == ST_END ? ST_OK : st;
}

static enum st read_header(struct spool_reader *r, struct err *e)
{
    struct spool_header *h = &r->header;
    if (fread(h, 1, sizeof *h, r->f) != sizeof *h || memcmp(h->magic, SPOOL_MAGIC, 8) != 0)
        return err_set(e, ST_INPUT, "%s: is no spool", r->path);
    if (h->version != SPOOL_VERSION || h->header_bytes < sizeof *h || h->header_bytes > 4096)
        return err_set(e, ST_INPUT, "%s: spool of version %u; this program reads version %d",
                       r->path, h->version, SPOOL_VERSION);
    if (fseek(r->f, (long)h->header_bytes, SEEK_SET) != 0)
        return err_errno(e, true, "cannot read %s", r->path);
    return ST_OK;
}

/* The first spool's clock is the trace's. Clocks of another host are tied to it by wall time. */
static void place_clock(struct spool_reader *r)
{
    const struct spool_header *h = &r->header;
    bool sane = h->start_wall_ns >= 0 && h->start_ns >= 0 && h->start_wall_ns < INT64_MAX / 4 &&
                h->start_ns < INT64_MAX / 4;
    int64_t wall_less_mono = sane ? h->start_wall_ns - h->start_ns : 0;
    if (!r->d->has_clock) {
        r->d->has_clock = true;
        r->d->clock_host = h->host_id;
        r->d->wall_less_clock_ns = wall_less_mono;
    } else if (sane && h->host_id != r->d->clock_host) {
        r->shift_ns = wall_less_mono - r->d->wall_less_clock_ns;
    }
}

/* Makes every spool a process of its own, even where another has the same pid: after an exec, a
 * reuse of the pid, or in another container of the host. */
static void place_process(struct spool_reader *r)
{
    char host[48];
    uint32_t known = r->d->n_processes;
    for (uint32_t i = 1; r->d->n_processes == known; i++) {
        int n = snprintf(host, sizeof host, "%016llx", (unsigned long long)r->header.host_id);
        if (i > 1)
            snprintf(host + n, sizeof host - (size_t)n, "/%u", i);
        r->process = trace_process_of(r->d, r->header.pid, trace_string(r->d, sv_of(host)));
    }
}

static bool has_driver_api(struct spool_reader *r, const struct spool_block *b, long at)
{
    struct spool_api x;
    for (uint32_t i = 0; b->record_bytes >= sizeof x && i < b->bytes / b->record_bytes; i++)
        if (fseek(r->f, at + (long)i * b->record_bytes, SEEK_SET) == 0 &&
            fread(&x, sizeof x, 1, r->f) == 1 && x.domain == CUPTI_CB_DOMAIN_DRIVER_API)
            return true;
    return false;
}

/* Scans the headers for calls of the driver; payloads are checked when read. */
static enum st look_for_apis(struct spool_reader *r, struct err *e)
{
    struct spool_block b;
    long at = (long)r->header.header_bytes;
    while (!r->has_driver_apis && fread(&b, 1, sizeof b, r->f) == sizeof b) {
        uint32_t skipped;
        if (!header_fits(&b)) {
            enum st st = find_block(r, at, &skipped, &at, e);
            if (st == ST_END)
                break;
            TRY(st);
            continue;
        }
        at += (long)sizeof b;
        r->has_driver_apis = b.kind == SPOOL_APIS && has_driver_api(r, &b, at);
        r->sequence = b.sequence + 1;
        at += (long)b.bytes;
        if (fseek(r->f, at, SEEK_SET) != 0)
            break;
    }
    r->sequence = 0;
    clearerr(r->f);
    if (fseek(r->f, (long)r->header.header_bytes, SEEK_SET) != 0)
        return err_errno(e, true, "cannot read %s", r->path);
    return ST_OK;
}

static enum st read_rest(struct spool_reader *r, struct err *e)
{
    TRY(read_header(r, e));
    TRY(look_for_apis(r, e));
    place_clock(r);
    place_process(r);
    trace_thread_of(r->d, r->process, 0);
    TRY(read_blocks(r, e));
    for (size_t i = 0; i < r->pending.n; i++) {
        const struct spool_range *x = &r->pending.p[i];
        TRY(put_range(r, x, r->latest_ns > x->start_ns ? r->latest_ns : x->start_ns, e));
    }
    if (r->skipped_bytes) {
        r->d->incomplete = true;
        trace_note(r->d, LOG_WARN,
                   "%s: %llu damaged blocks (%llu bytes, from byte %ld) were skipped; what follows "
                   "them is read",
                   fs_base(r->path), (unsigned long long)r->skipped_blocks,
                   (unsigned long long)r->skipped_bytes, r->skipped_from);
    }
    if (!r->ended) {
        char since[SPOOL_SINCE_TEXT];
        r->d->incomplete = true;
        trace_note(r->d, LOG_WARN,
                   "%s: the process was killed, or still runs: the trace is valid "
                   "up to its last flush%s",
                   fs_base(r->path), trace_spool_since_flush(&r->header, since));
    }
    if (r->unnamed)
        trace_note(r->d, LOG_WARN, "%s: %llu records without sense were left out", fs_base(r->path),
                   (unsigned long long)r->unnamed);
    if (!r->has_apis)
        r->d->launches_only = true;
    return ST_OK;
}

static enum st spool_read(const char *path, struct trace_dict *d, const struct trace_sink *sink,
                          struct err *e)
{
    struct spool_reader *r = mem_alloc(sizeof *r);
    r->path = path;
    r->d = d;
    r->sink = sink;
    r->f = fopen(path, "rb");
    enum st st;
    if (r->f) {
        setvbuf(r->f, NULL, _IOFBF, 1 << 18);
        st = read_rest(r, e);
        fclose(r->f);
    } else {
        st = err_errno(e, true, "cannot open %s", path);
    }
    vec_free(&r->strings);
    vec_free(&r->sigs);
    vec_free(&r->threads);
    vec_free(&r->devices);
    vec_free(&r->launch_names);
    vec_free(&r->pending);
    mem_free(r);
    return st;
}

static bool spool_recognises(struct sv head)
{
    return head.n >= 8 && memcmp(head.p, SPOOL_MAGIC, 8) == 0;
}

const struct trace_format trace_spool = {
    .name = "spool",
    .help = "what twinfer trace records",
    .file = "trace.spool",
    .recognises = spool_recognises,
    .read = spool_read,
};
