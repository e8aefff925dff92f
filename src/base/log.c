#include "base/log.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static enum log_level threshold = LOG_INFO;
static bool line_open; /* a progress line is on the terminal and has no newline yet */

void log_set_level(enum log_level level)
{
    threshold = level;
}

bool log_shows(enum log_level level)
{
    return level <= threshold;
}

void log_write(enum log_level level, const char *fmt, ...)
{
    static const char *const names[] = {"error: ", "warning: ", "", "debug: "};
    if (!log_shows(level))
        return;
    char text[2000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    str_make_printable(text, strlen(text), true);
    fprintf(stderr, "%stwinfer: %s%s\n", line_open ? "\n" : "", names[level], text);
    line_open = false;
}

void log_result(struct buf *text)
{
    if (text->n)
        str_make_printable(text->p, text->n, true);
    fputs(buf_str(text), stdout);
}

void progress_begin(struct progress *p, const char *what, const char *unit, int64_t total)
{
    int64_t now = clock_mono_ns();
    *p = (struct progress){.what = what,
                           .unit = unit,
                           .total = total,
                           .start_ns = now,
                           .last_ns = now,
                           .terminal = isatty(STDERR_FILENO) == 1};
}

void progress_at(struct progress *p, int64_t done, const char *note)
{
    int64_t now = clock_mono_ns();
    if (threshold < LOG_INFO || now - p->last_ns < (p->terminal ? NS_PER_S / 5 : 10 * NS_PER_S))
        return;
    p->last_ns = now;
    double spent_s = ns_to_s(now - p->start_ns);
    char left[64] = "";
    if (p->total > 0 && done > 0)
        snprintf(left, sizeof left, ", about %.0f s left",
                 spent_s * (double)(p->total - done) / (double)done);
    char of[32] = "";
    if (p->total > 0)
        snprintf(of, sizeof of, "/%lld", (long long)p->total);
    char text[512];
    snprintf(text, sizeof text, "%s: %lld%s %s, %.0f s%s%s%s", p->what, (long long)done, of,
             p->unit, spent_s, left, note ? ", " : "", note ? note : "");
    str_make_printable(text, strlen(text), false);
    fprintf(stderr, "%s%s%s", p->terminal ? "\r\x1b[K" : "", text, p->terminal ? "" : "\n");
    p->drawn = line_open = p->terminal;
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        fputs("\r\x1b[K", stderr);
    p->drawn = line_open = false;
}
