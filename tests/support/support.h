/* What every test may use.
 *
 * A test file is a list of functions and one main, which the program of its room calls:
 *
 *     static void a_missing_key_is_named(void **state)
 *     {
 *         struct test *t = *state;                    // arena, error, a folder of its own
 *         struct node *n;
 *         const char *path = test_write(t, "c.yaml", "a: 1\n");
 *         assert_ok(yaml_load(t->a, path, &n, &t->e), t);
 *         assert_err(node_get_int(n, "b", 0, 9, &v, &t->e), ST_INPUT, t, "c.yaml:1:1: b: missing");
 *     }
 *
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {TEST(a_missing_key_is_named)};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * This header brings cmocka and the headers that cmocka wants before it. */
#ifndef SUPPORT_SUPPORT_H
#define SUPPORT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct test {
    struct arena *a;
    struct err e;
    char *dir; /* made on first use of test_dir, removed after the test */
};

/* A cmocka row whose test gets a fresh struct test. */
#define TEST(f) cmocka_unit_test_setup_teardown(f, test_setup, test_teardown)
int test_setup(void **state);
int test_teardown(void **state);

/* ---- files ---- */

const char *test_dir(struct test *t);                    /* an empty folder of this test */
const char *test_path(struct test *t, const char *name); /* dir/name */
/* Writes dir/name (with parents) and returns its path. */
const char *test_write(struct test *t, const char *name, const char *text);
const char *test_write_bytes(struct test *t, const char *name, struct sv bytes);
const char *test_read(struct test *t, const char *path); /* the whole file, NUL-terminated */

/* A file or folder of the large test data beside the repository (../shared/data, or the folder
 * TWINFER_TEST_DATA names). Where it is absent the test says so and is skipped. */
const char *test_data(struct test *t, const char *name);

/* A folder like test_dir for what has no struct test; tmp_free removes it with all in it. */
struct tmp {
    char dir[256];
};
struct tmp tmp_new(void);
void tmp_free(struct tmp *t);
/* A file of those bytes in the folder; returns its path, which the next call overwrites. */
const char *tmp_file(const struct tmp *t, const char *name, const void *p, size_t n);

/* ---- assertions; all fail at the caller's line ---- */

/* A status is ST_OK; otherwise the error chain is printed: that of a struct test or, where a test
 * keeps its own error, of a struct err. */
#define assert_ok(st, t_or_e) test_assert_ok((st), err_of(t_or_e), #st, __FILE__, __LINE__)
/* clang-format off */
#define err_of(t_or_e)                                                                    \
    _Generic((t_or_e),                                                                    \
             struct test *: &((const struct test *)(const void *)(t_or_e))->e,            \
             struct err *: (const struct err *)(const void *)(t_or_e))
/* clang-format on */

/* A status is `want` and the chain in t->e reads exactly `text`: causes from the outermost, a line
 * each, the hint as a last line "hint: ...". "DIR" in text stands for the test's folder. */
#define assert_err(st, want, t, text) test_assert_err((st), want, t, text, #st, __FILE__, __LINE__)

/* The innermost cause of a struct err is exactly `text`; what layers above added is not looked at.
 */
#define assert_cause(e, text) test_assert_cause(e, text, __FILE__, __LINE__)

/* |a - b| <= tolerance; NaN is near nothing. */
#define assert_near(a, b, tolerance) test_assert_near((a), (b), (tolerance), __FILE__, __LINE__)
/* |a - b| <= tolerance * |b| */
#define assert_near_rel(a, b, tolerance) \
    test_assert_near((a), (b), (tolerance) * ((b) < 0 ? -(b) : (b)), __FILE__, __LINE__)

#define assert_sv(got, want) test_assert_sv((got), (want), __FILE__, __LINE__)

/* `got` equals tests/golden/<name>. With UPDATE=1 in the environment the file is rewritten instead;
 * look at the change before you commit it. */
#define assert_golden(t, name, got) test_assert_golden(t, name, (got), __FILE__, __LINE__)

void test_assert_ok(enum st st, const struct err *e, const char *what, const char *file, int line);
void test_assert_cause(const struct err *e, const char *text, const char *file, int line);
void test_assert_err(enum st st, enum st want, struct test *t, const char *text, const char *what,
                     const char *file, int line);
void test_assert_near(double a, double b, double tolerance, const char *file, int line);
void test_assert_sv(struct sv got, const char *want, const char *file, int line);
void test_assert_golden(struct test *t, const char *name, struct sv got, const char *file,
                        int line);

#endif
