/* What a person reads: diagnostics on stderr, and texts of results on stdout (log_result).
 *
 * Levels: error, warn, info (default), debug. log.level= sets it. A line is
 * "twinfer: <level>: <text>" (info lines carry no level) and is written with one call, so lines of
 * several threads do not mix. Texts of other people's files and programs may be passed as they are:
 * what a terminal would obey becomes '?' here, and in log_result. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
bool log_shows(enum log_level level); /* lines of that level are written */
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Prints a text of results, made printable in place, or a JSON document, which holds nothing that
 * needs it. */
void log_result(struct buf *text);

#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

/* A line of progress on stderr for a stage of known size: "bench: 120/400 requests, 12 s, about 28
 * s left". Redrawn in place on a terminal, printed every 10 s otherwise; at most 5 times a second.
 */
struct progress {
    const char *what, *unit;
    int64_t total; /* 0 = unknown: no estimate */
    int64_t start_ns, last_ns;
    bool terminal, drawn;
};

void progress_begin(struct progress *p, const char *what, const char *unit, int64_t total);
void progress_at(struct progress *p, int64_t done, const char *note); /* note may be NULL */
void progress_end(struct progress *p);

#endif
