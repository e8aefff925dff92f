/* Metrics of a server in the text format of Prometheus, as GET /metrics answers.
 *
 *     prom_parse       a snapshot: its samples, with labels and places
 *     prom_counter     the sum of a counter's series, and of what it grew between two snapshots
 *     prom_histogram   the same of a histogram
 *     prom_quantile    a bracket of a quantile: the edges of the buckets that hold it
 *
 * Text. Lines of a sample, NAME{LABEL="VALUE",...} VALUE [TIMESTAMP], and comments, of which "#
 * TYPE NAME KIND" is read. Values are decimal, "NaN", "+Inf" or "-Inf"; label values have \\, \"
 * and \n. OpenMetrics' exemplars (" # {...} VALUE [TIMESTAMP]" behind a sample) and "# EOF" are
 * accepted, and so are \r\n line ends and empty lines. Not read: names in quotes, and histograms
 * without buckets of their own ("native" ones). Faults are ST_INPUT at source:line:column: anything
 * else, a TYPE that contradicts one before, the same series twice, samples after "# EOF".
 *
 * A family may have many series, one for each set of labels: engines of a server, its processes.
 * Sums are over the series whose labels have all of `where`.
 *
 * Growth. Series only grow while their server runs, so the part between two snapshots is their
 * difference; a series that the first lacks began at 0. ST_REJECTED, by name: a series that is
 * smaller in the second or not there any more, and a process_start_time_seconds or a NAME_created
 * that changed: the server was restarted, and the difference would be of nothing.
 *
 * Quantiles. A histogram says how many observations are at most each edge, no more. The q-quantile
 * of n observations lies between the order statistics floor(q (n - 1)) and ceil(q (n - 1)), as with
 * stats_percentile; the bracket goes from the lower edge of the bucket of the one to the upper
 * edge of that of the other. It is exact, and as wide as the server's buckets are. `low` is 0 below
 * the first edge where that is positive (latencies and counts), else -INFINITY; `high` is INFINITY
 * above the last finite edge. The mean, sum / count, needs no bracket. */
#ifndef METRICS_PROMETHEUS_H
#define METRICS_PROMETHEUS_H

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"

struct prom_label {
    struct sv name, value; /* value without escapes */
};

struct prom_sample {
    struct sv name;
    struct prom_label *labels; /* [n_labels], by name */
    uint32_t n_labels;
    double value;
    long line;
    struct sv key; /* name and labels as one text, for comparisons */
};

struct prom_snapshot {
    const char *source;     /* what faults call it */
    struct prom_sample *of; /* [n], in the order of the text */
    size_t n;
    struct map types;  /* family -> kind, its text */
    struct map series; /* name and labels -> index into of */
};

/* Everything lives in a. */
enum st prom_parse(struct arena *a, const char *source, struct sv text, struct prom_snapshot *out,
                   struct err *e);

/* Whether the snapshot has a sample of that name. */
bool prom_has(const struct prom_snapshot *s, const char *name);

/* Labels that a series must have; {0} = any series. */
struct prom_where {
    const struct prom_label *labels;
    size_t n;
};

/* What the counter `name` grew from `before` to `after`; before == NULL: since its server began.
 * *out is NAN where `after` has no such sample (and then neither may `before`). ST_INPUT: a value
 * that is no count. */
enum st prom_counter(struct arena *a, const struct prom_snapshot *before,
                     const struct prom_snapshot *after, const char *name, struct prom_where where,
                     double *out, struct err *e);

struct prom_histogram {
    const char *name;
    size_t n;          /* buckets; 0 = there is no such histogram */
    double *le;        /* [n] upper edges, ascending; the last is INFINITY */
    double *at_most;   /* [n] observations <= le */
    double count, sum; /* observations, and their sum in the metric's unit */
};

/* The same of a histogram. ST_INPUT at the place of a sample: buckets that do not rise, none at
 * +Inf, another count than that one's, an edge twice or none; series of one name with other edges.
 */
enum st prom_histogram(struct arena *a, const struct prom_snapshot *before,
                       const struct prom_snapshot *after, const char *name, struct prom_where where,
                       struct prom_histogram *out, struct err *e);

double prom_mean(const struct prom_histogram *h); /* NAN without observations */

struct prom_bracket {
    double low, high; /* low < the quantile <= high */
};
/* q in [0, 1]. False: no observations. */
bool prom_quantile(const struct prom_histogram *h, double q, struct prom_bracket *out);

#endif
