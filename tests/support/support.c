#include "support/support.h"

#include <math.h>
#include <stdlib.h>

#include "base/fs.h"

int test_setup(void **state)
{
    struct test *t = mem_alloc(sizeof *t);
    t->a = arena_new();
    *state = t;
    return 0;
}

int test_teardown(void **state)
{
    struct test *t = *state;
    struct err e = {0};
    bool ok = !t->dir || fs_remove_tree(t->dir, &e) == ST_OK;
    if (!ok)
        err_print(&e, "teardown", stderr);
    arena_free(&t->a);
    mem_free(t);
    return ok ? 0 : -1;
}

struct tmp tmp_new(void)
{
    struct tmp t;
    const char *root = getenv("TMPDIR");
    snprintf(t.dir, sizeof t.dir, "%s/twinfer_test_XXXXXX", root && *root ? root : "/tmp");
    assert_non_null(mkdtemp(t.dir));
    return t;
}

void tmp_free(struct tmp *t)
{
    struct err e = {0};
    assert_ok(fs_remove_tree(t->dir, &e), &e);
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

const char *test_dir(struct test *t)
{
    if (!t->dir)
        t->dir = arena_str(t->a, tmp_new().dir);
    return t->dir;
}

const char *test_path(struct test *t, const char *name)
{
    return fs_join(t->a, test_dir(t), name);
}

const char *test_write_bytes(struct test *t, const char *name, struct sv bytes)
{
    const char *path = test_path(t, name);
    assert_ok(fs_mkdirs(fs_dir(t->a, path), &t->e), t);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *test_write(struct test *t, const char *name, const char *text)
{
    return test_write_bytes(t, name, sv_of(text));
}

const char *test_read(struct test *t, const char *path)
{
    struct sv bytes;
    assert_ok(fs_read(t->a, path, (size_t)1 << 30, &bytes, &t->e), t);
    return bytes.p;
}

const char *test_data(struct test *t, const char *name)
{
    const char *root = getenv("TWINFER_TEST_DATA");
    const char *path = fs_join(t->a, root ? root : TW_SOURCE_DIR "/../shared/data", name);
    if (!fs_exists(path)) {
        print_message("skipped: no test data at %s\n", path);
        skip();
    }
    return path;
}

static char *chain(struct arena *a, const struct err *e)
{
    struct buf b = {0};
    for (int i = 0; err_cause(e, i); i++)
        buf_printf(&b, "%s%s", i ? "\n" : "", err_cause(e, i));
    if (err_hint_text(e))
        buf_printf(&b, "\nhint: %s", err_hint_text(e));
    char *s = arena_str(a, buf_str(&b));
    buf_free(&b);
    return s;
}

/* text with every `from` replaced by `to` */
static char *replace(struct arena *a, const char *text, const char *from, const char *to)
{
    struct buf b = {0};
    for (const char *hit; (hit = strstr(text, from)); text = hit + strlen(from)) {
        buf_add(&b, text, (size_t)(hit - text));
        buf_puts(&b, to);
    }
    buf_puts(&b, text);
    char *s = arena_str(a, buf_str(&b));
    buf_free(&b);
    return s;
}

void test_assert_ok(enum st st, const struct err *e, const char *what, const char *file, int line)
{
    if (st == ST_OK)
        return;
    struct arena *a = arena_new();
    print_error("%s gave status %d: %s\n", what, st, chain(a, e));
    arena_free(&a);
    _fail(file, line);
}

void test_assert_cause(const struct err *e, const char *text, const char *file, int line)
{
    const char *cause = "";
    for (int i = 0; err_cause(e, i); i++)
        cause = err_cause(e, i);
    _assert_string_equal(cause, text, file, line);
}

void test_assert_err(enum st st, enum st want, struct test *t, const char *text, const char *what,
                     const char *file, int line)
{
    const char *expected = t->dir ? replace(t->a, text, "DIR", t->dir) : text;
    const char *got = chain(t->a, &t->e);
    if (st == want && t->e.st == want && strcmp(got, expected) == 0)
        return;
    print_error("%s\n  gave     %d \"%s\"\n  expected %d \"%s\"\n", what, st, got, want, expected);
    _fail(file, line);
}

void test_assert_near(double a, double b, double tolerance, const char *file, int line)
{
    if (fabs(a - b) <= tolerance)
        return;
    print_error("%.17g is not within %g of %.17g\n", a, tolerance, b);
    _fail(file, line);
}

void test_assert_sv(struct sv got, const char *want, const char *file, int line)
{
    if (sv_eq(got, want))
        return;
    print_error("\"%.*s\" is not \"%s\"\n", (int)got.n, got.p, want);
    _fail(file, line);
}

static void show_first_difference(const char *want, struct sv got)
{
    size_t i = 0, start = 0;
    long at_line = 1;
    for (; i < got.n && want[i] && want[i] == got.p[i]; i++) {
        at_line += want[i] == '\n';
        start = want[i] == '\n' ? i + 1 : start;
    }
    print_error("  first difference in line %ld\n  golden: %.*s\n  now:    %.*s\n", at_line,
                (int)strcspn(want + start, "\n"), want + start, (int)strcspn(got.p + start, "\n"),
                got.p + start);
}

void test_assert_golden(struct test *t, const char *name, struct sv got, const char *file, int line)
{
    const char *path = fs_join(t->a, TW_SOURCE_DIR "/tests/golden", name);
    const char *update = getenv("UPDATE");
    got.p = arena_strn(t->a, got.p, got.n);
    if (update && strcmp(update, "1") == 0) {
        assert_ok(fs_mkdirs(fs_dir(t->a, path), &t->e), t);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(got.p, 1, got.n, f), got.n);
        assert_int_equal(fclose(f), 0);
        return;
    }
    struct sv want = {"", 0};
    if (fs_exists(path))
        assert_ok(fs_read(t->a, path, (size_t)1 << 30, &want, &t->e), t);
    if (want.n == got.n && memcmp(want.p, got.p, got.n) == 0)
        return;
    print_error("%s differs; UPDATE=1 rewrites it\n", path);
    show_first_difference(want.p, got);
    _fail(file, line);
}
