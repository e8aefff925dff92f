/* Load of a run over time: time_series.csv, in constant memory.
 *
 * Time is cut into buckets, at most TIME_SERIES_BUCKETS a replica (fewer beyond 64 replicas: 65,536
 * in all). They begin at 1/512 s; whenever the run outgrows them, they double in width and
 * neighbours become one: so the finest series that fits, and the same one whatever the order. Means
 * over time are exact within the doubles' rounding. */
#ifndef METRICS_TIME_SERIES_H
#define METRICS_TIME_SERIES_H

#include "serve/serve.h"

enum { TIME_SERIES_BUCKETS = 1024 };
#define TIME_SERIES "time_series.csv"

/* ---- while the run goes on ---------------------------------------------------------------- */

struct time_series;
struct time_series *time_series_new(int32_t replicas);
void time_series_free(struct time_series **t); /* NULL is fine */

/* What power_w is made of beside the energy of batches: power that a stage's devices draw while it
 * has no batch, and stages of a replica. Or, where power was measured, its mean from one second of
 * the run to another; NAN = unknown. */
struct time_series_power {
    double idle_w;
    int32_t stages;
    double (*mean_w)(void *self, double from_s, double to_s);
    void *self;
};
/* Before the first batch; mean_w may come any time before the end. Copied. */
void time_series_power(struct time_series *t, const struct time_series_power *p);

/* A completed batch. The replica's state at submission holds until its next batch starts or all its
 * batches have ended; in between it is idle. Batches of a replica come in order of their starts. */
void time_series_add(struct time_series *t, const struct serve_iteration *i);

/* Ends the series: one row a bucket and replica, by time, then replica. A run without batches has
 * no rows. */
enum st time_series_write(struct time_series *t, const struct artifact *art, struct err *e);

/* ---- afterwards --------------------------------------------------------------------------- */

struct time_series_row {
    int64_t time_ns;     /* start of the bucket */
    int64_t duration_ns; /* its width */
    int64_t replica;
    int64_t iterations;                    /* batches that started in it */
    int64_t prefill_tokens, decode_tokens; /* of those */
    double batch_size;                     /* their mean; NAN = none */
    double waiting, running, kv_blocks;    /* means over the bucket's time */
    double busy;                           /* share of the time with a batch running */
    int64_t waiting_max, kv_blocks_max;
    double power_w; /* energy of the bucket's time, idle or not, over its width; NAN = unknown */
};

/* The rows of a folder's time_series.csv, in order; absent gives *n = 0. ST_INPUT at
 * file:line:column for anything that is no such table. */
enum st time_series_load(struct arena *a, const char *dir, struct time_series_row **rows, size_t *n,
                         struct err *e);

#endif
