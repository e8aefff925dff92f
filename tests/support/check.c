#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

static const char *innermost(const struct err *e)
{
    const char *text = "";
    for (int i = 0; err_cause(e, i); i++)
        text = err_cause(e, i);
    return text;
}

void check_error_at(const struct err *e, const char *text, const char *file, int line)
{
    _assert_string_equal(innermost(e), text, file, line);
}

void check_ok_at(enum st st, const struct err *e, const char *file, int line)
{
    if (st == ST_OK)
        return;
    print_error("status %d\n", (int)st);
    err_print(e, "unexpected error", stderr);
    _fail(file, line);
}

void check_near_at(double got, double want, double tolerance, const char *file, int line)
{
    if (fabs(got - want) <= tolerance)
        return;
    print_error("got %.17g, want %.17g, tolerance %g\n", got, want, tolerance);
    _fail(file, line);
}

struct tmp tmp_new(void)
{
    struct tmp t;
    const char *root = getenv("TMPDIR");
    snprintf(t.dir, sizeof t.dir, "%s/twinfer-test-XXXXXX", root && *root ? root : "/tmp");
    if (!mkdtemp(t.dir))
        fail_msg("cannot make %s", t.dir);
    return t;
}

void tmp_free(struct tmp *t)
{
    struct err e = {0};
    check_ok(fs_remove_tree(t->dir, &e), &e);
}

const char *tmp_file(const struct tmp *t, const char *name, const void *p, size_t n)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", t->dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0)
        fail_msg("cannot write %s", path);
    return path;
}
