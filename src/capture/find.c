/* What the processes of a program left in the recorder's folder. */
#include <string.h>

#include "base/log.h"
#include "capture/capture.h"
#include "trace/spool.h"

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* *hint: what would help; NULL = the recorder does not say. */
static const char *refusal(struct arena *a, const char *dir, const char **hint)
{
    struct sv text;
    struct err ignored = {0};
    if (fs_read(a, fs_join(a, dir, CAPSULE_REFUSED), 1 << 16, &text, &ignored) != ST_OK)
        return NULL;
    const size_t n = strcspn(text.p, "\n"), begins = strlen(CAPSULE_REFUSED_HINT);
    const char *next = text.p + n + (text.p[n] != 0);
    *hint = strncmp(next, CAPSULE_REFUSED_HINT, begins) == 0
                ? arena_strn(a, next + begins, strcspn(next + begins, "\n"))
                : NULL;
    return arena_strn(a, text.p, n);
}

/* How far a process came that had a region of launches of CUDA graphs: launched.txt. */
struct launch_progress {
    const char *process; /* NULL = none told it */
    bool inside;
    int64_t launched;
};

static bool read_progress(struct arena *a, const char *dir, const char *name,
                          struct launch_progress *out)
{
    struct sv text;
    struct err ignored = {0};
    if (fs_read(a, fs_join(a, dir, CAPSULE_LAUNCHED), 64, &text, &ignored) != ST_OK)
        return false;
    text = sv_trim(text);
    const size_t word = strcspn(text.p, " ");
    *out = (struct launch_progress){
        .process = arena_strn(a, name, strlen(name) - strlen(CAPSULE_RECORDED_SUFFIX)),
        .inside = word == 6 && strncmp(text.p, "inside", word) == 0};
    return word < text.n &&
           str_int64((struct sv){text.p + word + 1, text.n - word - 1}, &out->launched);
}

/* The process that is inside the region, else the one that launched most. */
static bool is_further(const struct launch_progress *x, const struct launch_progress *than)
{
    if (!than->process || x->inside != than->inside)
        return !than->process || x->inside;
    return x->launched > than->launched;
}

struct region_search {
    struct launch_progress progress;      /* the furthest */
    const char *captured, *second;        /* names */
    const char *unended, *refused, *hint; /* hint: of refused; NULL = none */
    size_t spools;
};

static void look(struct arena *a, const char *recording, const char *name, struct region_search *f)
{
    const char *dir = fs_join(a, recording, name), *why, *hint;
    struct launch_progress progress;
    if (ends_with(name, SPOOL_SUFFIX))
        f->spools++;
    if (!ends_with(name, CAPSULE_RECORDED_SUFFIX))
        return;
    if ((why = refusal(a, dir, &hint)) != NULL) {
        log_debug("%s: %s", name, why);
        f->hint = f->refused ? f->hint : hint;
        f->refused = f->refused ? f->refused : why;
    } else if (!fs_exists(fs_join(a, dir, CAPSULE_FILE))) {
        if (!read_progress(a, dir, name, &progress))
            f->unended = name;
        else if (is_further(&progress, &f->progress))
            f->progress = progress;
    } else if (f->captured) {
        f->second = name;
    } else {
        f->captured = name;
    }
}

static const char *words_of(const struct capture_region *r)
{
    if (r->graph_first)
        return r->text;
    return r->range ? r->range : "cuProfilerStart to cuProfilerStop";
}

static enum st no_graph(const struct launch_progress *x, const struct capture_region *r,
                        struct err *e)
{
    const char *counted = r->profiler ? " between cuProfilerStart and cuProfilerStop" : "";
    if (x->process)
        err_set(e, ST_INPUT,
                "process %s ended after launch %lld of a CUDA graph%s, %s the region, which %s "
                "with launch %lld",
                x->process, (long long)x->launched, counted, x->inside ? "inside" : "before",
                x->inside ? "ends" : "begins",
                (long long)(x->inside ? r->graph_last : r->graph_first));
    else
        err_set(e, ST_INPUT, "no process launched a CUDA graph%s", counted);
    return err_hint(e, "each process counts its own launches, from its start%s",
                    r->profiler ? ", while cuProfilerStart lets it" : "");
}

static enum st nothing(const struct region_search *f, const struct capture_region *r, struct err *e)
{
    const char *what = words_of(r);
    if (f->refused) {
        err_set(e, ST_REJECTED, "%s", f->refused);
        if (f->hint)
            err_hint(e, "%s", f->hint);
        return err_add(e, "the region cannot be captured");
    }
    if (f->unended) {
        err_set(e, ST_INPUT, "%s began and did not end before the program did", what);
        return err_hint(e, "%s",
                        r->graph_first
                            ? "it was killed, or did not end within capture.stop_timeout_s"
                            : "a region ends where its NVTX range does, or at "
                              "cuProfilerStop");
    }
    if (f->spools == 0) {
        err_set(e, ST_INPUT, "no process of the command used CUDA or NVTX");
        return err_hint(e, "twinfer doctor says what is there");
    }
    if (r->graph_first)
        return no_graph(&f->progress, r, e);
    err_set(e, ST_INPUT, "%s was entered less than %lld times", what, (long long)r->occurrence);
    return err_hint(e, "twinfer trace -- COMMAND lists the ranges that a program enters");
}

enum st capture_find(struct arena *a, const char *recording, const struct capture_region *region,
                     struct capture_found *out, struct err *e)
{
    const char **names;
    size_t n;
    struct region_search f = {0};
    TRY(fs_list(a, recording, &names, &n, e));
    for (size_t i = 0; i < n; i++)
        look(a, recording, names[i], &f);
    if (f.second) {
        err_set(e, ST_INPUT, "two processes captured the region: %s, %s", f.captured, f.second);
        return err_hint(e, "a capsule holds one GPU of one process: run one rank alone");
    }
    if (!f.captured)
        return nothing(&f, region, e);
    size_t stem = strlen(f.captured) - strlen(CAPSULE_RECORDED_SUFFIX);
    out->dir = fs_join(a, recording, f.captured);
    out->spool = fs_join(a, recording, arena_printf(a, "%.*s" SPOOL_SUFFIX, (int)stem, f.captured));
    return ST_OK;
}
