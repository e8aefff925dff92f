/* How many may be in the system at once, over time: the limit of a closed loop.
 *
 * "SECONDS:N" holds a limit, "SECONDS:N-M" moves it by one at a time, in equal steps of time, from
 * the one to the other; the last limit goes on for ever. A limit of 0 lets nothing start. One that
 * falls takes nothing back: what runs goes on, and nothing starts until fewer are left. */
#ifndef WORKLOAD_CONCURRENCY_H
#define WORKLOAD_CONCURRENCY_H

#include "text/node.h"

struct concurrency_stage {
    double s;         /* duration, > 0 */
    int64_t from, to; /* at its beginning and its end, 0 .. CONCURRENCY_MOST; not both 0 */
};

enum { CONCURRENCY_MOST = 1000000 };

struct concurrency {
    const struct concurrency_stage *stages; /* [n], n >= 1; the last `to` is 1 or more */
    size_t n;
};

/* A limit of n; with ramp_s > 0 it grows from 1 to n in that time. */
const struct concurrency *concurrency_of(struct arena *a, int64_t n, double ramp_s);

/* Parses the items of workload.concurrency_stages; ST_USAGE for a malformed item or a last limit of
 * 0. */
enum st concurrency_parse(struct arena *a, const char *const *items, size_t n,
                          const struct concurrency **out, struct err *e);

/* The earliest time from t_s on, in s, at which the limit is above n; INFINITY = never. O(stages).
 */
double concurrency_when(const struct concurrency *c, double t_s, int64_t n);

int64_t concurrency_peak(const struct concurrency *c); /* its highest limit */

/* "8", "10:1-8,60:8": as it is typed. */
const char *concurrency_text(struct arena *a, const struct concurrency *c);

/* Member `concurrency` of workload_meta.json and run_meta.json: a list of {seconds, from, to}. */
struct node *concurrency_node(struct arena *a, const struct concurrency *c);
/* Reads it; NULL where the map has none, or null. */
enum st concurrency_read(struct arena *a, const struct node *map, const struct concurrency **out,
                         struct err *e);

#endif
