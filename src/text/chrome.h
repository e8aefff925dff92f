/* Events in the JSON of chrome://tracing, which Perfetto and PyTorch's tools read, too:
 *
 *     {<members>"displayTimeUnit": "ms", "traceEvents": [
 *     {<an event>},
 *     {<an event>}
 *     ]<members>}
 *
 * Here are the list and its unit; what an event says is its writer's. Only bytes are made: whole
 * ones are the caller's to write out, and `out` may be emptied between two calls. */
#ifndef TEXT_CHROME_H
#define TEXT_CHROME_H

#include "base/str.h"

struct chrome {
    struct buf out;
    const char *indent; /* before each event; "" or spaces */
    bool any;           /* an event stands in the list */
};

void chrome_begin(struct chrome *c, const char *members); /* "" or "\"name\": value, " */
void chrome_event(struct chrome *c);                      /* the caller adds "members}" */
void chrome_end(struct chrome *c);                        /* the caller adds ", members}" */

/* , "key": ns as microseconds with three decimals */
void chrome_time(struct buf *out, const char *key, int64_t ns);

#endif
