#include <string.h>

#include "capture/capture.h"

static enum st wrong(const char *text, struct err *e)
{
    err_set(e, ST_USAGE, "region: '%s' is not a range#occurrence", text);
    return err_hint(e, "region=decode#3 is the third time that NVTX range decode is entered, "
                       "region=profiler what lies between cuProfilerStart and cuProfilerStop, "
                       "region=graph:3 the third launch of a CUDA graph");
}

/* The last # without a backslash before it. */
static const char *sign_of(const char *text)
{
    const char *found = NULL;
    for (const char *p = text; *p; p++)
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '#')
            found = p;
    return found;
}

/* The recorder's settings write # themselves. */
static char *without_escapes(struct arena *a, const char *text, size_t n)
{
    char *out = arena_alloc(a, n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] != '\\' || text[i + 1] != '#')
            out[k++] = text[i];
    return out;
}

/* "3" or "3-6". */
static bool parse_launches(struct sv text, struct capture_region *out)
{
    enum { MOST = 1 << 30 };
    const char *dash = memchr(text.p, '-', text.n);
    const size_t n = dash ? (size_t)(dash - text.p) : text.n;
    if (!str_int64((struct sv){text.p, n}, &out->graph_first))
        return false;
    out->graph_last = out->graph_first;
    if (dash && !str_int64((struct sv){dash + 1, text.n - n - 1}, &out->graph_last))
        return false;
    return out->graph_first >= 1 && out->graph_last >= out->graph_first && out->graph_last <= MOST;
}

/* Behind "graph:" or "profiler/graph:"; NULL = the text is of another kind. */
static const char *launches_of(const char *text, bool *profiler)
{
    static const char graph[] = "graph:", both[] = "profiler/graph:";
    *profiler = strncmp(text, both, sizeof both - 1) == 0;
    if (*profiler)
        return text + sizeof both - 1;
    return strncmp(text, graph, sizeof graph - 1) == 0 ? text + sizeof graph - 1 : NULL;
}

static enum st wrong_launches(const char *text, struct err *e)
{
    err_set(e, ST_USAGE, "region: '%s' is not graph:first or graph:first-last", text);
    return err_hint(e, "region=graph:3-6 begins with the third launch of a CUDA graph and ends "
                       "with the sixth; region=profiler/graph:3 counts from cuProfilerStart on; "
                       "an NVTX range of that name is written with #1 behind it");
}

enum st capture_region_parse(struct arena *a, const char *text, struct capture_region *out,
                             struct err *e)
{
    const char *sign = sign_of(text), *launches;
    size_t n = sign ? (size_t)(sign - text) : strlen(text);
    bool profiler;
    *out = (struct capture_region){.text = arena_str(a, text), .occurrence = 1};
    if (!sign && (launches = launches_of(text, &profiler)) != NULL) {
        out->profiler = profiler;
        return parse_launches(sv_of(launches), out) ? ST_OK : wrong_launches(text, e);
    }
    if (sign && (!str_int64(sv_of(sign + 1), &out->occurrence) || out->occurrence < 1 ||
                 out->occurrence > 1 << 30))
        return wrong(text, e);
    if (n == 0 || text[0] == '@' || strchr(text, '\n') || strchr(text, ','))
        return wrong(text, e);
    out->profiler = n == strlen("profiler") && strncmp(text, "profiler", n) == 0;
    if (!out->profiler)
        out->range = without_escapes(a, text, n);
    return ST_OK;
}
