/* inference-perf's per_request_lifecycle_metrics.json: each request with its times, and the counts
 * of client and server. */
#ifndef CALIBRATE_READ_REQUESTS_H
#define CALIBRATE_READ_REQUESTS_H

#include "calibrate/observed.h"

#define REQUESTS_FILE "per_request_lifecycle_metrics.json"

struct requests {
    struct observed_row *rows; /* [n], in order of their start; lengths are the server's counts */
    size_t n;                  /* where `usage`, else the client's */
    bool usage, cached; /* each that ended well says what the server counted, found in its cache */
};

enum st requests_load(struct arena *a, const char *path, struct requests *out, struct err *e);

#endif
