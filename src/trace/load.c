#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/vec.h"
#include "trace/formats.h"
#include "trace/spool.h"
#include "trace/stream.h"

const struct trace_format *const trace_formats[] = {&trace_spool, &trace_sqlite, &trace_kineto,
                                                    &trace_perfetto, NULL};

const struct trace_format *trace_format_named(const char *name)
{
    for (const struct trace_format *const *f = trace_formats; *f; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    return NULL;
}

enum st trace_create_file(const char *path, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        return err_set(e, ST_USAGE, "%s already exists", path);
    if (fd < 0)
        return err_errno(e, false, "cannot create %s", path);
    close(fd);
    return ST_OK;
}

/* ---- which files, of which format ---- */

struct trace_sources {
    const char **paths, **stubs;
    size_t n;
    size_t n_stubs; /* spools whose process was killed before it wrote their header */
    const struct trace_format *format;
};

static enum st recognise(const char *path, const struct trace_format **out, struct err *e)
{
    struct trace_stream *s;
    char head[TRACE_HEAD_BYTES];
    size_t n = 0, got;
    TRY(trace_stream_open(&s, path, e));
    enum st st = ST_OK;
    do {
        st = trace_stream_read(s, head + n, sizeof head - n, &got, e);
        n += got;
    } while (st == ST_OK && got && n < sizeof head);
    trace_stream_close(&s);
    TRY(st);
    for (const struct trace_format *const *f = trace_formats; *f; f++)
        if ((*f)->recognises && (*f)->recognises((struct sv){head, n})) {
            *out = *f;
            return ST_OK;
        }
    err_set(e, ST_INPUT, "%s: is no trace of a known format", path);
    return err_hint(e, "read are our spool, Nsight Systems' SQLite export (nsys export --type "
                       "sqlite) and PyTorch's JSON");
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_stub(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_size < (off_t)sizeof(struct spool_header);
}

/* Files of other tools by their ends. PyTorch writes one for each rank: together they are a trace.
 */
static const struct {
    const char *end;
    bool together;
} foreign[] = {
    {".pt.trace.json", true}, {".pt.trace.json.gz", true}, {".trace.json", true},
    {".trace.json.gz", true}, {".sqlite", false},
};

static bool is_foreign(const char *name, bool together)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (foreign[i].together == together && ends_with(name, foreign[i].end))
            return true;
    return false;
}

/* SGLang leaves a merged file beside those that it was made of. */
static bool is_merged(const char *name)
{
    return strncmp(name, "merged", 6) == 0;
}

typedef VEC(const char *) path_list;

static enum st find_foreign(struct arena *a, const char *dir, const char *const *names, size_t n,
                            path_list *out, struct err *e)
{
    size_t merged = 0;
    for (size_t i = 0; i < n; i++)
        merged += is_foreign(names[i], true) && is_merged(names[i]);
    for (size_t i = 0; i < n; i++)
        if (is_foreign(names[i], true) && !is_merged(names[i]))
            vec_push(out, fs_join(a, dir, names[i]));
    for (size_t i = 0; i < n && !out->n && merged == 1; i++)
        if (is_foreign(names[i], true))
            vec_push(out, fs_join(a, dir, names[i]));
    for (size_t i = 0; i < n && !out->n; i++) {
        size_t others = 0;
        if (!is_foreign(names[i], false))
            continue;
        for (size_t k = 0; k < n; k++)
            others += k != i && is_foreign(names[k], false);
        if (others) {
            err_set(e, ST_INPUT, "%s: %zu files of Nsight Systems", dir, others + 1);
            return err_hint(e, "each is a trace: name one of them, as %s",
                            fs_join(a, dir, names[i]));
        }
        vec_push(out, fs_join(a, dir, names[i]));
    }
    return ST_OK;
}

/* All spools of a folder; else the first file that bears a format's name; else those of other
 * tools. */
static enum st look_into(struct arena *a, const char *dir, struct trace_sources *out, struct err *e)
{
    const char **names;
    size_t n;
    path_list spools = {0};
    TRY(fs_list(a, dir, &names, &n, e));
    out->stubs = arena_array(a, const char *, n);
    for (size_t i = 0; i < n; i++) {
        const char *path = fs_join(a, dir, names[i]);
        if (ends_with(names[i], SPOOL_SUFFIX) && is_stub(path))
            out->stubs[out->n_stubs++] = names[i];
        else if (ends_with(names[i], SPOOL_SUFFIX))
            vec_push(&spools, path);
    }
    for (const struct trace_format *const *f = trace_formats; *f && !spools.n; f++)
        if (fs_exists(fs_join(a, dir, (*f)->file)))
            vec_push(&spools, fs_join(a, dir, (*f)->file));
    bool recorded = spools.n || fs_is_dir(fs_join(a, dir, "spool"));
    if (!recorded && find_foreign(a, dir, names, n, &spools, e) != ST_OK) {
        vec_free(&spools);
        return e->st;
    }
    out->paths = arena_copy(a, spools.p, spools.n * sizeof *spools.p);
    out->n = spools.n;
    vec_free(&spools);
    if (out->n == 0 && fs_is_dir(fs_join(a, dir, "spool")))
        return look_into(a, fs_join(a, dir, "spool"), out, e);
    if (out->n)
        return ST_OK;
    err_set(e, ST_INPUT, "%s: no trace in this folder", dir);
    return err_hint(e, "one of twinfer trace has *.spool files");
}

static enum st find_sources(struct arena *a, const char *path, struct trace_sources *out,
                            struct err *e)
{
    if (fs_is_dir(path)) {
        TRY(look_into(a, path, out, e));
    } else {
        out->paths = arena_array(a, const char *, 1);
        out->paths[0] = path;
        out->n = 1;
    }
    return recognise(out->paths[0], &out->format, e);
}

static enum st read_all(const struct trace_sources *s, struct trace_dict *d,
                        const struct trace_sink *sink, struct err *e)
{
    for (size_t i = 0; i < s->n_stubs; i++) {
        d->incomplete = true;
        trace_note(d, LOG_WARN, "%s: is left out: its process was killed as it made the file",
                   s->stubs[i]);
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct trace_format *f = s->format;
        if (i > 0)
            TRY(recognise(s->paths[i], &f, e));
        TRY(f->read(s->paths[i], d, sink, e));
    }
    return ST_OK;
}

/* ---- windows ---- */

/* Sink that passes on records overlapping the window; with `below` NULL only finds the earliest
 * start. */
struct window_filter {
    const struct trace_sink *below;
    int64_t first_ns, from_ns, to_ns;
};

static bool inside(struct window_filter *f, int64_t start_ns, int64_t end_ns)
{
    f->first_ns = start_ns < f->first_ns ? start_ns : f->first_ns;
    if (!f->below)
        return false;
    return start_ns < f->to_ns && (end_ns > f->from_ns || start_ns >= f->from_ns);
}

static enum st filter_op(void *self, const struct trace_op *r, struct err *e)
{
    struct window_filter *f = self;
    bool pass = inside(f, r->start_ns, r->end_ns) && f->below->op;
    return pass ? f->below->op(f->below->self, r, e) : ST_OK;
}

static enum st filter_call(void *self, const struct trace_call *r, struct err *e)
{
    struct window_filter *f = self;
    bool pass = inside(f, r->start_ns, r->end_ns) && f->below->call;
    return pass ? f->below->call(f->below->self, r, e) : ST_OK;
}

static enum st filter_range(void *self, const struct trace_range *r, struct err *e)
{
    struct window_filter *f = self;
    bool pass = inside(f, r->start_ns, r->end_ns) && f->below->range;
    return pass ? f->below->range(f->below->self, r, e) : ST_OK;
}

static enum st filter_sync(void *self, const struct trace_sync *r, struct err *e)
{
    struct window_filter *f = self;
    bool pass = inside(f, r->start_ns, r->end_ns) && f->below->sync;
    return pass ? f->below->sync(f->below->self, r, e) : ST_OK;
}

static struct trace_sink filter_sink(struct window_filter *f)
{
    return (struct trace_sink){f, filter_op, filter_call, filter_range, filter_sync};
}

static bool no_window(const struct trace_window *w)
{
    return !w || (w->from_ns == 0 && w->to_ns == 0);
}

/* Places the window relative to the earliest record, found by an extra reading. */
static enum st place_window(const struct trace_sources *s, const struct trace_window *w,
                            struct window_filter *f, struct err *e)
{
    struct trace_dict d;
    f->first_ns = INT64_MAX;
    struct trace_sink sink = filter_sink(f);
    trace_dict_init(&d);
    enum st st = read_all(s, &d, &sink, e);
    trace_dict_free(&d);
    TRY(st);
    int64_t first = f->first_ns == INT64_MAX ? 0 : f->first_ns;
    f->from_ns = first + w->from_ns;
    f->to_ns = w->to_ns ? first + w->to_ns : INT64_MAX;
    return ST_OK;
}

static enum st read_window(const struct trace_sources *s, const struct trace_window *w,
                           struct trace_dict *d, const struct trace_sink *sink, struct err *e)
{
    if (no_window(w))
        return read_all(s, d, sink, e);
    struct window_filter f = {0};
    TRY(place_window(s, w, &f, e));
    f.below = sink;
    struct trace_sink windowed = filter_sink(&f);
    return read_all(s, d, &windowed, e);
}

/* ---- front ---- */

enum st trace_load(struct trace *t, const char *path, const struct trace_window *w, struct err *e)
{
    struct trace_sources s = {0};
    trace_begin(t);
    struct trace_sink sink = trace_sink_of(t);
    enum st st = find_sources(t->dict.a, path, &s, e);
    if (st == ST_OK) {
        t->path = arena_str(t->dict.a, path);
        t->format = s.format->name;
        st = read_window(&s, w, &t->dict, &sink, e);
    }
    if (st != ST_OK) {
        trace_free(t);
        return err_add(e, "cannot read the trace %s", path);
    }
    trace_finish(t);
    return ST_OK;
}

enum st trace_convert(const char *from, const struct trace_format *format, const char *to,
                      const struct trace_window *w, struct err *e)
{
    struct trace_dict d;
    struct trace_sources s = {0};
    struct trace_writer *writer = NULL;
    struct trace_sink sink;
    ASSERT(format->create);
    trace_dict_init(&d);
    enum st st = find_sources(d.a, from, &s, e);
    if (st == ST_OK)
        st = format->create(to, &d, &writer, &sink, e);
    if (st == ST_OK) {
        st = read_window(&s, w, &d, &sink, e);
        if (st == ST_OK && d.n_teams)
            st = err_set(e, ST_INPUT,
                         "%s: several processes launch, and operations do not say which did: that "
                         "is found by reading all of it, and is not written",
                         from);
        if (st == ST_OK)
            st = format->finish(&writer, e);
        else
            format->discard(&writer);
    }
    trace_dict_free(&d);
    return st == ST_OK ? ST_OK : err_add(e, "cannot convert %s to %s", from, format->name);
}
