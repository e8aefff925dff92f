#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void err_clear(struct err *e)
{
    e->st = ST_OK;
    e->n = e->hint = e->used = 0;
}

/* Appends one NUL-terminated text and returns its offset; a text that does not fit is cut. */
PRINTF_LIKE(2, 0)
static int append(struct err *e, const char *fmt, va_list ap)
{
    if (e->used == 0)
        e->used = 1;
    int at = e->used;
    int room = ERR_TEXT_BYTES - at;
    if (room < 8)
        return 0;
    int n = vsnprintf(e->text + at, (size_t)room, fmt, ap);
    if (n >= room) {
        n = room - 1;
        memcpy(e->text + at + n - 3, "...", 3);
    }
    str_make_printable(e->text + at, (size_t)n, false); /* it quotes the input it complains about */
    e->used = at + n + 1;
    return at;
}

PRINTF_LIKE(2, 0)
static void push(struct err *e, const char *fmt, va_list ap)
{
    if (e->n == ERR_MAX_CAUSES)
        return;
    int at = append(e, fmt, ap);
    if (at)
        e->at[e->n++] = at;
}

enum st err_set(struct err *e, enum st st, const char *fmt, ...)
{
    err_clear(e);
    e->st = st;
    va_list ap;
    va_start(ap, fmt);
    push(e, fmt, ap);
    va_end(ap);
    return st;
}

enum st err_at(struct err *e, enum st st, const char *file, long line, long column, const char *fmt,
               ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof text)
        memcpy(text + sizeof text - 4, "...", 4);
    if (line > 0 && column > 0)
        return err_set(e, st, "%s:%ld:%ld: %s", file, line, column, text);
    if (line > 0)
        return err_set(e, st, "%s:%ld: %s", file, line, text);
    return err_set(e, st, "%s: %s", file, text);
}

enum st err_errno(struct err *e, bool reading, const char *fmt, ...)
{
    int code = errno;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    bool input = reading && code != ENOMEM && code != EMFILE && code != ENFILE && code != EIO;
    err_set(e, input ? ST_INPUT : ST_IO, "%s: %s", text, strerror(code));
    if (code == EFBIG)
        err_hint(e, "a limit of this process on the size of files (ulimit -f)");
    if (code == EMFILE)
        err_hint(e, "a limit of this process on open files (ulimit -n)");
    return e->st;
}

enum st err_add(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    push(e, fmt, ap);
    va_end(ap);
    return e->st;
}

enum st err_hint(struct err *e, const char *fmt, ...)
{
    if (e->hint == 0) {
        va_list ap;
        va_start(ap, fmt);
        e->hint = append(e, fmt, ap);
        va_end(ap);
    }
    return e->st;
}

const char *err_cause(const struct err *e, int i)
{
    return i >= 0 && i < e->n ? e->text + e->at[e->n - 1 - i] : NULL;
}

const char *err_hint_text(const struct err *e)
{
    return e->hint ? e->text + e->hint : NULL;
}

void err_print(const struct err *e, const char *prefix, FILE *to)
{
    for (int i = 0; i < e->n; i++)
        fprintf(to, i == 0 ? "%s: %s\n" : "%s%s\n",
                i == 0 ? prefix : "  because: ", err_cause(e, i));
    if (e->hint)
        fprintf(to, "  hint: %s\n", err_hint_text(e));
}

int err_exit_code(enum st st)
{
    switch (st) {
    case ST_OK:
    case ST_END:
        return 0;
    case ST_USAGE:
        return 2;
    case ST_INPUT:
    case ST_IO:
        return 3;
    case ST_DEVICE:
        return 4;
    case ST_REJECTED:
        return 5;
    case ST_INTERRUPTED:
        return 130;
    }
    return 70;
}

void err_bug(const char *what, const char *file, int line)
{
    fprintf(stderr, "twinfer: bug: %s:%d: %s\n  hint: please report this line\n", file, line, what);
    fflush(NULL);
    _Exit(70);
}
