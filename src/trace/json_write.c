/* Writers of traces as JSON: in the form of PyTorch's profiler, and for Perfetto and
 * chrome://tracing. The same events; for Perfetto with named tracks, and GPUs as processes of their
 * own. */
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"
#include "text/chrome.h"
#include "text/json.h"
#include "trace/formats.h"

struct trace_writer {
    FILE *f;
    char *path;
    const struct trace_dict *d;
    bool tracks;           /* Perfetto's */
    struct chrome list;    /* an event at a time */
    VEC(uint64_t) streams; /* (device, stream) that have a track, sorted */
    VEC(uint32_t) pids;    /* by process: its own, or a unique substitute */
};

/* Processes of the system end at 2^22. */
enum { GPU_PIDS = 1 << 30 };

static void put_text(struct buf *b, const char *key, const char *text)
{
    buf_printf(b, "\"%s\": ", key);
    json_quote(b, sv_of(text));
}

static void put_known(struct buf *b, const char *key, bool known, uint64_t v)
{
    if (known)
        buf_printf(b, ", \"%s\": %llu", key, (unsigned long long)v);
    else
        buf_printf(b, ", \"%s\": null", key);
}

/* Writes a number that is never 0 where known; nothing for 0. */
static void put_nonzero(struct buf *b, const char *key, uint64_t v)
{
    put_known(b, key, v != 0, v);
}

static void put_triple(struct buf *b, const char *key, const uint32_t v[3])
{
    if (v[0])
        buf_printf(b, ", \"%s\": [%u, %u, %u]", key, v[0], v[1], v[2]);
    else
        buf_printf(b, ", \"%s\": null", key);
}

static struct buf *begin_event(struct trace_writer *w, const char *ph)
{
    buf_clear(&w->list.out);
    chrome_event(&w->list);
    buf_printf(&w->list.out, "\"ph\": \"%s\", ", ph);
    return &w->list.out;
}

static enum st end_event(struct trace_writer *w, struct err *e)
{
    buf_puts(&w->list.out, "}");
    if (fwrite(w->list.out.p, 1, w->list.out.n, w->f) != w->list.out.n)
        return err_errno(e, false, "cannot write %s", w->path);
    return ST_OK;
}

static void put_span(struct buf *b, const char *cat, const char *name, int64_t start_ns,
                     int64_t end_ns)
{
    buf_printf(b, "\"cat\": \"%s\", ", cat);
    put_text(b, "name", name);
    chrome_time(b, "ts", start_ns);
    chrome_time(b, "dur", end_ns - start_ns);
}

static uint32_t gpu_pid(const struct trace_writer *w, uint32_t device)
{
    return w->tracks ? GPU_PIDS + device % GPU_PIDS : device;
}

/* A unique pid: JSON distinguishes processes by pid alone. The system's are below 2^22. */
static uint32_t pid_of(struct trace_writer *w, uint32_t process)
{
    enum { STEP = 1 << 22 };
    while (w->pids.n <= process) {
        uint32_t pid = w->d->processes[w->pids.n].pid;
        for (size_t i = 0; pid && i < w->pids.n;) {
            bool taken = w->pids.p[i] == pid && pid < GPU_PIDS - STEP;
            pid += taken ? STEP : 0;
            i = taken ? 0 : i + 1;
        }
        vec_push(&w->pids, pid);
    }
    return w->pids.p[process];
}

static uint32_t thread_pid(struct trace_writer *w, uint32_t thread)
{
    return pid_of(w, w->d->threads[thread].process);
}

static void note_stream(struct trace_writer *w, uint32_t device, uint32_t stream)
{
    uint64_t key = (uint64_t)device << 32 | stream;
    size_t lo = 0, hi = w->streams.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (w->streams.p[mid] < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < w->streams.n && w->streams.p[lo] == key)
        return;
    vec_push(&w->streams, key);
    memmove(w->streams.p + lo + 1, w->streams.p + lo,
            (w->streams.n - 1 - lo) * sizeof *w->streams.p);
    w->streams.p[lo] = key;
}

static void put_op_args(struct trace_writer *w, const struct trace_op *r, const struct trace_sig *s)
{
    struct buf *b = &w->list.out;
    buf_printf(b, ", \"args\": {\"device\": %u, \"context\": %u, \"stream\": %u", s->device,
               s->context, s->stream);
    put_nonzero(b, "correlation", r->correlation);
    if (r->external)
        put_nonzero(b, "External id", r->external);
    if (s->kind == TRACE_KERNEL) {
        put_nonzero(b, "registers per thread", s->registers);
        put_known(b, "shared memory", true, s->static_shared + s->dynamic_shared);
        put_triple(b, "grid", s->grid);
        put_triple(b, "block", s->block);
    }
    if (w->d->processes[s->process].pid)
        buf_printf(b, ", \"process\": %u", pid_of(w, s->process));
    if (s->kind == TRACE_COPY || s->kind == TRACE_SET)
        buf_printf(b, ", \"bytes\": %lld", (long long)s->bytes);
    if (r->graph_node)
        buf_printf(b, ", \"graph node id\": %llu", (unsigned long long)(r->graph_node & INT64_MAX));
    buf_puts(b, "}");
}

/* The arrow from a launch to what it launched: "s" on the host, "f" on the GPU. */
static enum st write_flow(struct trace_writer *w, const char *ph, uint32_t pid, uint32_t tid,
                          uint32_t process, uint32_t correlation, int64_t at_ns, struct err *e)
{
    if (!correlation)
        return ST_OK;
    struct buf *b = begin_event(w, ph);
    buf_printf(b, "\"id\": %llu, \"pid\": %u, \"tid\": %u, \"cat\": \"ac2g\", \"name\": \"ac2g\"",
               (unsigned long long)process << 32 | correlation, pid, tid);
    chrome_time(b, "ts", at_ns);
    if (*ph == 'f')
        buf_puts(b, ", \"bp\": \"e\"");
    return end_event(w, e);
}

static enum st write_op(void *self, const struct trace_op *r, struct err *e)
{
    static const char *const cats[TRACE_KINDS] = {"kernel", "gpu_memcpy", "gpu_memset",
                                                  "gpu_graph"};
    struct trace_writer *w = self;
    const struct trace_sig *s = &w->d->sigs[r->sig];
    struct arena *a = arena_new();
    const char *name = s->kind == TRACE_GRAPH ? arena_printf(a, "CUDA graph %u", s->graph)
                                              : trace_demangle(a, trace_text(w->d, s->name));
    struct buf *b = begin_event(w, "X");
    put_span(b, cats[s->kind], name, r->start_ns, r->end_ns);
    buf_printf(b, ", \"pid\": %u, \"tid\": %u", gpu_pid(w, s->device), s->stream);
    put_op_args(w, r, s);
    arena_free(&a);
    note_stream(w, s->device, s->stream);
    TRY(end_event(w, e));
    return write_flow(w, "f", gpu_pid(w, s->device), s->stream, s->process, r->correlation,
                      r->start_ns, e);
}

static enum st write_call(void *self, const struct trace_call *r, struct err *e)
{
    struct trace_writer *w = self;
    uint32_t pid = thread_pid(w, r->thread), tid = w->d->threads[r->thread].tid;
    struct buf *b = begin_event(w, "X");
    put_span(b, r->driver ? "cuda_driver" : "cuda_runtime", trace_text(w->d, r->name), r->start_ns,
             r->end_ns);
    buf_printf(b, ", \"pid\": %u, \"tid\": %u, \"args\": {", pid, tid);
    if (r->correlation)
        buf_printf(b, "\"correlation\": %u", r->correlation);
    buf_puts(b, "}");
    TRY(end_event(w, e));
    return write_flow(w, "s", pid, tid, w->d->threads[r->thread].process, r->correlation,
                      r->start_ns, e);
}

static enum st write_range(void *self, const struct trace_range *r, struct err *e)
{
    struct trace_writer *w = self;
    bool operator= r->style == TRACE_OPERATOR;
    struct buf *b = begin_event(w, "X");
    put_span(b, operator? "cpu_op" : "user_annotation", trace_text(w->d, r->text), r->start_ns,
             r->end_ns);
    buf_printf(b, ", \"pid\": %u, \"tid\": %u", thread_pid(w, r->thread),
               w->d->threads[r->thread].tid);
    if (r->shapes || r->external) {
        buf_puts(b, ", \"args\": {");
        if (r->external)
            buf_printf(b, "\"External id\": %u%s", r->external, r->shapes ? ", " : "");
        if (r->shapes)
            buf_printf(b, "\"Input Dims\": %s, \"Input type\": %s", trace_text(w->d, r->shapes),
                       r->types ? trace_text(w->d, r->types) : "[]");
        buf_puts(b, "}");
    } else if (r->domain || r->values) {
        buf_puts(b, ", \"args\": {");
        if (r->domain)
            put_text(b, "domain", trace_text(w->d, r->domain));
        if (r->values)
            buf_printf(b, "%s\"payload\": %s", r->domain ? ", " : "", trace_text(w->d, r->values));
        buf_puts(b, "}");
    }
    return end_event(w, e);
}

/* ---- the frame around the events ---- */

static enum st write_name(struct trace_writer *w, const char *what, uint32_t pid, uint32_t tid,
                          const char *name, struct err *e)
{
    struct buf *b = begin_event(w, "M");
    buf_printf(b, "\"name\": \"%s\", \"pid\": %u, \"tid\": %u, \"ts\": 0, \"args\": {", what, pid,
               tid);
    put_text(b, "name", name);
    buf_puts(b, "}");
    return end_event(w, e);
}

static enum st write_names(struct trace_writer *w, struct err *e)
{
    char text[160];
    for (uint32_t i = 0; i < w->d->n_processes; i++) {
        const struct trace_process *p = &w->d->processes[i];
        if (p->name)
            TRY(write_name(w, "process_name", pid_of(w, i), 0, trace_text(w->d, p->name), e));
    }
    for (uint32_t i = 1; i < w->d->n_threads; i++)
        if (w->d->threads[i].name)
            TRY(write_name(w, "thread_name", thread_pid(w, i), w->d->threads[i].tid,
                           trace_text(w->d, w->d->threads[i].name), e));
    for (size_t i = 0; i < w->streams.n && w->tracks; i++) {
        uint32_t device = (uint32_t)(w->streams.p[i] >> 32), stream = (uint32_t)w->streams.p[i];
        snprintf(text, sizeof text, "GPU %u", device);
        TRY(write_name(w, "process_name", gpu_pid(w, device), 0, text, e));
        snprintf(text, sizeof text, "stream %u", stream);
        TRY(write_name(w, "thread_name", gpu_pid(w, device), stream, text, e));
    }
    return ST_OK;
}

static void put_devices(struct buf *b, const struct trace_dict *d)
{
    buf_puts(b, "\"deviceProperties\": [");
    for (uint32_t i = 0; i < d->n_devices; i++) {
        const struct trace_device *g = &d->devices[i];
        buf_printf(b, "%s{\"id\": %u, ", i ? ", " : "", g->number);
        put_text(b, "name", trace_text(d, g->name));
        put_nonzero(b, "totalGlobalMem", g->memory_bytes & INT64_MAX);
        put_nonzero(b, "computeMajor", g->major);
        put_known(b, "computeMinor", g->major != 0, g->minor);
        put_nonzero(b, "maxThreadsPerMultiprocessor", g->max_threads_per_sm);
        put_nonzero(b, "numSms", g->sms);
        buf_puts(b, "}");
    }
    buf_puts(b, "]");
}

/* Writes the first version of each kind: PyTorch has a file per process. */
static void put_versions(struct buf *b, const struct trace_dict *d)
{
    int64_t version;
    for (int kind = 0; kind < TRACE_FACTS; kind++)
        for (uint32_t i = 0; i < d->n_facts && trace_fact_names[kind].kineto; i++)
            if ((int)d->facts[i].kind == kind && str_int64(sv_of(d->facts[i].text), &version)) {
                buf_printf(b, ", \"%s\": %lld", trace_fact_names[kind].kineto, (long long)version);
                break;
            }
}

static void close_all(struct trace_writer **wp)
{
    struct trace_writer *w = *wp;
    if (w->f)
        fclose(w->f);
    buf_free(&w->list.out);
    vec_free(&w->streams);
    vec_free(&w->pids);
    mem_free(w->path);
    mem_free(w);
    *wp = NULL;
}

static enum st create(const char *path, const struct trace_dict *d, bool tracks,
                      struct trace_writer **out, struct trace_sink *sink, struct err *e)
{
    TRY(trace_create_file(path, e));
    FILE *f = fopen(path, "wb");
    if (!f)
        return err_errno(e, false, "cannot create %s", path);
    struct trace_writer *w = mem_alloc(sizeof *w);
    size_t n = strlen(path) + 1;
    w->path = mem_alloc(n);
    memcpy(w->path, path, n);
    w->f = f;
    w->d = d;
    w->tracks = tracks;
    w->list.indent = "  ";
    chrome_begin(&w->list, "\"schemaVersion\": 1, ");
    fwrite(w->list.out.p, 1, w->list.out.n, f);
    *out = w;
    *sink = (struct trace_sink){w, write_op, write_call, write_range, NULL};
    return ST_OK;
}

static enum st create_kineto(const char *path, const struct trace_dict *d,
                             struct trace_writer **out, struct trace_sink *sink, struct err *e)
{
    return create(path, d, false, out, sink, e);
}

static enum st create_perfetto(const char *path, const struct trace_dict *d,
                               struct trace_writer **out, struct trace_sink *sink, struct err *e)
{
    return create(path, d, true, out, sink, e);
}

static enum st finish(struct trace_writer **wp, struct err *e)
{
    struct trace_writer *w = *wp;
    enum st st = write_names(w, e);
    if (st == ST_OK) {
        buf_clear(&w->list.out);
        chrome_end(&w->list);
        buf_puts(&w->list.out, ", ");
        put_devices(&w->list.out, w->d);
        put_versions(&w->list.out, w->d);
        buf_puts(&w->list.out, "}\n");
        fwrite(w->list.out.p, 1, w->list.out.n, w->f);
        bool bad = ferror(w->f) != 0;
        if (fclose(w->f) != 0 || bad)
            st = err_errno(e, false, "cannot write %s", w->path);
        w->f = NULL;
    }
    close_all(wp);
    return st;
}

static void discard(struct trace_writer **wp)
{
    if (!wp || !*wp)
        return;
    struct err e = {0};
    (void)fs_remove_tree((*wp)->path, &e);
    close_all(wp);
}

const struct trace_format trace_kineto = {
    .name = "kineto",
    .help = "JSON of PyTorch's profiler",
    .file = "kineto.json",
    .recognises = trace_kineto_recognises,
    .read = trace_kineto_read,
    .create = create_kineto,
    .finish = finish,
    .discard = discard,
};

const struct trace_format trace_perfetto = {
    .name = "perfetto",
    .help = "JSON for ui.perfetto.dev and chrome://tracing",
    .file = "trace.json",
    .create = create_perfetto,
    .finish = finish,
    .discard = discard,
};
