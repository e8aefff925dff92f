/* What most tests need beyond cmocka: error texts, closeness, a folder to write in. */
#ifndef SUPPORT_CHECK_H
#define SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"

/* The innermost cause of e is exactly this text. */
#define check_error(e, text) check_error_at(e, text, __FILE__, __LINE__)
void check_error_at(const struct err *e, const char *text, const char *file, int line);

/* The call succeeds; otherwise the test fails with the error's text. */
#define check_ok(call, e) check_ok_at(call, e, __FILE__, __LINE__)
void check_ok_at(enum st st, const struct err *e, const char *file, int line);

/* |got - want| <= tolerance; cmocka 1.1.5 has none for doubles. */
#define check_near(got, want, tolerance) check_near_at(got, want, tolerance, __FILE__, __LINE__)
void check_near_at(double got, double want, double tolerance, const char *file, int line);

/* An empty folder under $TMPDIR or /tmp; tmp_free removes it with all in it. */
struct tmp {
    char dir[256];
};
struct tmp tmp_new(void);
void tmp_free(struct tmp *t);

/* A file of those bytes in the folder; returns its path, which the next call overwrites. */
const char *tmp_file(const struct tmp *t, const char *name, const void *p, size_t n);

#endif
