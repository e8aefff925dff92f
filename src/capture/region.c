#include <string.h>

#include "capture/capture.h"

static enum st wrong(const char *text, struct err *e)
{
    err_set(e, ST_USAGE, "region: '%s' is not a range#occurrence", text);
    return err_hint(e, "region=decode#3 is the third time that NVTX range decode is entered, "
                       "region=profiler what lies between cuProfilerStart and cuProfilerStop");
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

enum st capture_region_parse(struct arena *a, const char *text, struct capture_region *out,
                             struct err *e)
{
    const char *sign = sign_of(text);
    size_t n = sign ? (size_t)(sign - text) : strlen(text);
    *out = (struct capture_region){.occurrence = 1};
    if (sign && (!str_int64(sv_of(sign + 1), &out->occurrence) || out->occurrence < 1 ||
                 out->occurrence > 1 << 30))
        return wrong(text, e);
    if (n == 0 || text[0] == '@' || strchr(text, '\n') || strchr(text, ','))
        return wrong(text, e);
    if (n != strlen("profiler") || strncmp(text, "profiler", n) != 0)
        out->range = without_escapes(a, text, n);
    return ST_OK;
}
