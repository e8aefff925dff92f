/* Traces of GPU work, from any recorder.
 *
 *     file --trace_format.read--> records --trace_sink--> struct trace | another file
 *
 * Readers (spool, Nsight Systems' SQLite export, PyTorch's Kineto JSON) stream: they hand records
 * to a sink one by one and hold no more than the dictionary (dict.h) and a few buffers. A sink is
 * the trace in memory that the reports read, or a writer. All times are int64 ns of the file's own
 * clock, the same for host and GPU.
 *
 * Files are untrusted: lengths are checked before use, unpacking is bounded, SQLite is opened
 * defensively, and a fault is ST_INPUT naming the file and the place. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "base/err.h"
#include "trace/dict.h"

/* ---- records ------------------------------------------------------------------------------- */

/* A kernel, copy, set or (at graph level) whole graph on a device. */
struct trace_op {
    int64_t start_ns, end_ns;
    uint32_t sig;         /* trace_dict.sigs */
    uint32_t correlation; /* of the call that launched it, in its process; 0 = unknown */
    uint64_t graph_node;  /* 0 = none */
    uint32_t external;    /* trace_range.external of its operator; 0 = unknown */
};

/* A call of the runtime or driver API, on the host. */
struct trace_call {
    int64_t start_ns, end_ns;
    uint32_t correlation, thread, name, result;
    bool driver; /* of the driver API */
};

enum trace_style {
    TRACE_PUSH_POP,   /* NVTX: nests inside its thread and domain */
    TRACE_START_END,  /* NVTX: may overlap others and end on another thread */
    TRACE_ANNOTATION, /* PyTorch's record_function and the profiler's steps */
    TRACE_OPERATOR,   /* PyTorch's cpu_op */
    TRACE_STYLES
};

struct trace_range {
    int64_t start_ns, end_ns;
    uint32_t text, domain; /* strings; domain "" = the default */
    uint32_t thread, end_thread;
    uint32_t shapes, types; /* strings, JSON lists as PyTorch wrote them; of matrix products only */
    uint32_t values;        /* string, a JSON object: named numbers of an NVTX payload */
    uint32_t category, color;
    uint32_t external; /* PyTorch's id of an operator, in its process; 0 = none */
    uint8_t style;     /* enum trace_style */
    bool open;         /* never closed: end_ns is the end of the recording */
};

struct trace_sync {
    int64_t start_ns, end_ns;
    uint32_t kind;                                         /* CUpti_ActivitySynchronizationType */
    uint32_t process, context, stream, event, correlation; /* stream, event: TRACE_NONE */
};

struct trace_sink {
    void *self;
    /* Each may be NULL: such records are skipped. An error ends the reading. */
    enum st (*op)(void *self, const struct trace_op *r, struct err *e);
    enum st (*call)(void *self, const struct trace_call *r, struct err *e);
    enum st (*range)(void *self, const struct trace_range *r, struct err *e);
    enum st (*sync)(void *self, const struct trace_sync *r, struct err *e);
};

/* ---- the trace in memory ------------------------------------------------------------------- */

/* Columns of equal length n. */
struct trace_ops {
    size_t n, cap;
    int64_t *start_ns, *end_ns;
    uint32_t *sig, *correlation;
    uint32_t *call;       /* index into calls, TRACE_NONE = its launch was not recorded */
    uint32_t *external;   /* NULL when no operation has one */
    uint32_t *range;      /* its operator by that id, where `call` is TRACE_NONE; TRACE_NONE = not
                             known. NULL = of none */
    uint64_t *graph_node; /* NULL when no operation has one */
};

struct trace_calls {
    size_t n, cap;
    int64_t *start_ns, *end_ns;
    uint32_t *correlation, *thread, *name;
};

struct trace {
    struct trace_dict dict;
    const char *path;           /* of the file or folder */
    const char *format;         /* its format's name */
    struct trace_ops ops;       /* by start_ns */
    struct trace_calls calls;   /* by (thread, start_ns) */
    struct trace_range *ranges; /* by (thread, start_ns, longest first) */
    struct trace_sync *syncs;   /* by start_ns */
    size_t n_ranges, n_syncs;
    size_t ranges_cap, syncs_cap;
    int64_t start_ns, end_ns; /* of everything */
};

/* Keeps only records that overlap [from_ns, to_ns), counted from the earliest record of the trace;
 * both 0 = all. The file is read twice then. */
struct trace_window {
    int64_t from_ns, to_ns;
};

/* Read a file of any format, or a folder: one with trace.spool or trace.sqlite in it, or with any
 * number of *.spool files, which are read as one trace; or with PyTorch's *.pt.trace.json[.gz] or
 * *.trace.json[.gz], one for each rank; or with one *.sqlite. */
enum st trace_load(struct trace *t, const char *path, const struct trace_window *w, struct err *e);
void trace_free(struct trace *t); /* of a zeroed one too */

/* The sink that fills t, for readers by hand and tests; trace_begin first, trace_finish last: it
 * sorts and joins operations to the calls that launched them. */
void trace_begin(struct trace *t);
struct trace_sink trace_sink_of(struct trace *t);
void trace_finish(struct trace *t);

/* ---- formats ------------------------------------------------------------------------------- */

enum { TRACE_HEAD_BYTES = 64 };

struct trace_writer;

struct trace_format {
    const char *name, *help;
    const char *file; /* "trace.sqlite": its name in a trace folder */
    /* By the first bytes (unpacked), at most TRACE_HEAD_BYTES. NULL: it is only written. */
    bool (*recognises)(struct sv head);
    enum st (*read)(const char *path, struct trace_dict *d, const struct trace_sink *s,
                    struct err *e);
    /* Optional: a file that must not exist yet. The dictionary is the reader's, and is complete
     * only at finish. */
    enum st (*create)(const char *path, const struct trace_dict *d, struct trace_writer **w,
                      struct trace_sink *s, struct err *e);
    enum st (*finish)(struct trace_writer **w, struct err *e); /* *w is cleared either way */
    void (*discard)(struct trace_writer **w);                  /* quiet; NULL is fine */
};

extern const struct trace_format *const trace_formats[]; /* ends with NULL */
const struct trace_format *trace_format_named(const char *name);

/* Stream the records of `from` (as trace_load takes it) into a new file. */
enum st trace_convert(const char *from, const struct trace_format *format, const char *to,
                      const struct trace_window *w, struct err *e);

/* ---- names --------------------------------------------------------------------------------- */

/* "void f<4>(int)" of "_Z1fILi4EEvi"; name itself when it is no mangled name or one too long
 * (names over 16 KiB, results over 64 KiB). */
const char *trace_demangle(struct arena *a, const char *name);
/* The function alone, as Nsight Systems' short names: without return type, namespaces, template
 * arguments and parameters. */
const char *trace_short_name(struct arena *a, const char *demangled);
/* The function with its template arguments, of each qualified name the last part alone, without
 * parameters: "elementwise_kernel<128, 4, MulFunctor<float>>". At most 120 bytes: a longer one is
 * cut in the middle. */
const char *trace_label(struct arena *a, const char *demangled);
/* Labels of n names, different where the names are: of several that would read the same each has
 * its number among them, in the order of the names, behind it: "k<...> #2". */
const char **trace_labels(struct arena *a, const char *const *names, size_t n);
/* The byte behind the brackets that open at p. */
const char *trace_past_brackets(const char *p);

#endif
