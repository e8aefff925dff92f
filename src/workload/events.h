/* The events of a whole JSON file, plain or gzip: documents of hundreds of megabytes. */
#ifndef WORKLOAD_EVENTS_H
#define WORKLOAD_EVENTS_H

#include "text/gz.h"
#include "text/json.h"

struct events {
    const char *path;
    struct gz_file file;
    struct json_reader *r;
};

enum st events_open(struct events *v, const char *path, struct err *e);
void events_close(struct events *v);                          /* after a failed open too */
enum json_event events_next(struct events *v, struct err *e); /* never JSON_MORE */
/* ST_INPUT at the place of the last event. */
enum st events_bad(const struct events *v, struct err *e, const char *text);
bool events_opens(enum json_event ev); /* a list or a map */
bool events_closes(enum json_event ev);
/* Skips the rest of a value whose first event was `first`. */
enum st events_skip(struct events *v, enum json_event first, struct err *e);

#endif
