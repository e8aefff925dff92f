#include "deep/nsys.h"

#include <string.h>

#include "base/fs.h"

/* "repeat:3" of "repeat:" */
static bool counted(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 && text[n] >= '1' && text[n] <= '9' &&
           !text[n + strspn(text + n, "0123456789")];
}

enum st nsys_check(const struct nsys_settings *s, struct err *e)
{
    static const char *const ends[] = {"none", "stop", "stop-shutdown", "repeat"};
    const char *end = s->capture_end;
    bool known = !end || counted(end, "repeat:") || counted(end, "repeat-shutdown:");
    for (size_t i = 0; !known && i < sizeof ends / sizeof *ends; i++)
        known = strcmp(end, ends[i]) == 0;
    if (!known) {
        err_set(e, ST_USAGE, "nsys.capture_end: nsys does not know '%s'", end);
        return err_hint(e, "there are none, stop, stop-shutdown, repeat, repeat:N and "
                           "repeat-shutdown:N");
    }
    if (s->capture_range == NSYS_RANGE_NVTX && !(s->nvtx_capture && *s->nvtx_capture)) {
        err_set(e, ST_USAGE, "nsys.capture_range=nvtx: no range is named");
        return err_hint(e, "nsys.nvtx_capture=RANGE@DOMAIN names it; RANGE@* is in any domain");
    }
    return ST_OK;
}

void nsys_profile(struct argv *v, const struct nsys_settings *s, bool light, const char *output,
                  struct texts command)
{
    static const char *const few[] = {"cuda", "nvtx"};
    static const char *const ranges[] = {"none", "nvtx", "cudaProfilerApi"};
    argv_add(v, s->path);
    argv_add(v, "profile");
    argv_option(v, "--output", output);
    argv_option(v, "--force-overwrite", "true");
    argv_joined(v, "--trace", light ? (struct texts){few, 2} : s->trace);
    argv_option(v, "--sample", light ? "none" : s->sample);
    argv_option(v, "--cpuctxsw", "none");
    argv_option(v, "--capture-range", ranges[s->capture_range]);
    if (s->capture_range == NSYS_RANGE_NVTX) {
        argv_option(v, "--nvtx-capture", s->nvtx_capture);
        argv_option(v, "--env-var", "NSYS_NVTX_PROFILER_REGISTER_ONLY=0");
    }
    if (s->capture_range != NSYS_RANGE_NONE)
        argv_option(v, "--capture-range-end", s->capture_end);
    argv_option(v, "--cuda-graph-trace", "node");
    argv_all(v, s->args);
    argv_all(v, command);
}

void nsys_stats(struct argv *v, const struct nsys_settings *s, const char *recording,
                const char *output)
{
    argv_add(v, s->path);
    argv_add(v, "stats");
    argv_each(v, "--report", s->reports);
    argv_option(v, "--format", "csv");
    argv_option(v, "--output", output);
    argv_option(v, "--force-export", "true");
    argv_add(v, recording);
}

void nsys_export(struct argv *v, const struct nsys_settings *s, const char *recording,
                 const char *sqlite)
{
    argv_add(v, s->path);
    argv_add(v, "export");
    argv_option(v, "--type", "sqlite");
    argv_option(v, "--output", sqlite);
    argv_option(v, "--force-overwrite", "true");
    argv_add(v, recording);
}

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

/* By number: run.2 before run.10. */
static bool before(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    return n != m ? n < m : strcmp(a, b) < 0;
}

const char *nsys_recording(struct arena *a, const char *output, size_t *more)
{
    static const char *const endings[] = {".nsys-rep", ".qdrep"};
    const char *base = fs_base(output), **names, *first = NULL;
    const char *folder = arena_strn(a, output, (size_t)(base - output));
    struct err ignored = {0};
    size_t n = 0;
    *more = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *path = arena_printf(a, "%s%s", output, endings[i]);
        if (fs_exists(path))
            return path;
    }
    if (fs_list(a, *folder ? folder : ".", &names, &n, &ignored) != ST_OK)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(names[i], base, strlen(base)) != 0 ||
            (!ends_with(names[i], endings[0]) && !ends_with(names[i], endings[1])))
            continue;
        *more += first != NULL;
        if (!first || before(names[i], first))
            first = names[i];
    }
    return first ? arena_printf(a, "%s%s", folder, first) : NULL;
}
