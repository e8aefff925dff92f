/* Recording of a run: the sink of the serving core, the files of the run directory enabled by the
 * plan, the summary, the line of progress. In constant memory. */
#ifndef JOB_RECORD_H
#define JOB_RECORD_H

#include "job/plan.h"
#include "metrics/backlog.h"
#include "metrics/summary.h"
#include "metrics/time_series.h"
#include "serve/serve.h"

struct record;

struct record_params {
    const struct plan *plan;
    const struct serve_params *serve;
    const char *backend;            /* borrowed, as `what` */
    const char *what;               /* "simulate": begins the line of progress */
    int64_t total;                  /* requests */
    bool energy;                    /* rows of requests have it */
    struct time_series_power power; /* of time_series.csv */
    bool sessions;                  /* they have session and turn */
};

/* Opens the files. Afterwards call record_close or record_free. */
enum st record_open(const struct artifact *art, const struct record_params *p, struct record **out,
                    struct err *e);
struct serve_sink record_sink(struct record *r);
/* Closes the files; reports the first error of any of them. */
enum st record_close(struct record *r, struct err *e);
/* Before record_close: the power was measured. */
void record_measured(struct record *r, const struct time_series_power *p);
struct summary *record_summary(struct record *r);
const struct backlog *record_backlog(const struct record *r);
void record_free(struct record **r); /* quiet; NULL is fine */

#endif
