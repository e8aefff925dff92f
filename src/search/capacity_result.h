/* Result of `twinfer capacity`, and its files capacity.json and probes.csv (docs/formats.md). */
#ifndef SEARCH_CAPACITY_RESULT_H
#define SEARCH_CAPACITY_RESULT_H

#include "search/capacity.h"

#define CAPACITY_JSON   "capacity.json"
#define CAPACITY_PROBES "probes.csv"

/* Of one field of the operating point over the seeds; NAN = unknown. */
struct capacity_mean {
    double mean, low, high;
};

struct capacity_result {
    struct capacity_params params;
    const char *probe; /* name of the probe: "simulator" */
    struct capacity_seed *seeds;
    size_t n_seeds;
    struct capacity sum;
    struct capacity_long_run long_run;
    double load;                      /* operating point = load * capacity */
    struct capacity_probe *operating; /* [n_seeds] there; NULL when the capacity is 0 */
    const char *const *notes;         /* sentences */
    size_t n_notes;

    /* For capacity.json, whose writer fills them. */
    const char *objective;   /* slo_words */
    const char *interval_of; /* "seeds": 95 %; "bisection": the bracket of one seed */
    size_t n_operating;
    bool has_long_run;
    double operating_per_s;                        /* requests/s */
    struct capacity_mean over_seeds[PROBE_FIELDS]; /* of the operating point */
};
extern const struct fields capacity_result_fields; /* capacity.json */

/* Fills notes from the rest; `extra` (may hold NULLs, [n_extra]) come first. */
void capacity_notes(struct arena *a, struct capacity_result *r, const char *const *extra,
                    size_t n_extra);

/* Mean over the seeds of one field of the operating point, and its range. */
struct capacity_mean capacity_operating(const struct capacity_result *r, int field);

/* "95 % interval 9 to 11"; of one seed, which has no interval, where its search ended: "one seed:
 * held at 9, not at 11". rate is %.4g's. */
const char *capacity_sure(struct arena *a, size_t seeds, double low, double high);
/* Requests of the probes that decided, over the seeds: those at the highest rate that held, else at
 * the last one. */
struct capacity_runs {
    double least, most;
};
struct capacity_runs capacity_runs(const struct capacity_result *r);

struct node *capacity_node(struct arena *a, const struct capacity_result *r);
enum st capacity_write(const struct artifact *art, const struct capacity_result *r, struct err *e);

#endif
