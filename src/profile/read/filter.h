/* Selects the rows of a CSV for one model and configuration; when there are none, reports the
 * nearest. */
#ifndef PROFILE_READ_FILTER_H
#define PROFILE_READ_FILTER_H

#include "text/csv.h"

enum { FILTER_MAX = 10 };

struct filter_column {
    const char *name;
    int64_t want;
    bool is_bool;  /* True/False, true/false, 1/0 */
    bool optional; /* ignored where the file lacks the column */
    int column;    /* filled by filter_bind */
};

struct filter {
    struct filter_column c[FILTER_MAX];
    int n;
    int64_t matched;
    int64_t nearest[FILTER_MAX]; /* of the row with the fewest differences, while matched is 0 */
    int nearest_wrong;
    double nearest_distance;
    bool seen; /* any row was read */
};

void filter_add(struct filter *f, struct filter_column c);
enum st filter_bind(struct filter *f, const struct csv_reader *r, struct err *e);
enum st filter_match(struct filter *f, const struct csv_reader *r, bool *match, struct err *e);
/* ST_OK when a row matched, else ST_INPUT "<path>: no rows for n_head 64, ...". */
enum st filter_done(const struct filter *f, const char *path, struct err *e);
/* Where no row matched and the nearest differs in that column alone: its value there, else NULL. */
const int64_t *filter_lone_difference(const struct filter *f, const char *name);

#endif
