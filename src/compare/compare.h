/* Comparison of a real run, or several of one workload, with another run of it: error, and whether
 * it is within the variation of the real side.
 *
 * Alignment. Requests are matched by request_id. Warm-up requests, those that one side lacks, and
 * those that failed on either side are left out and counted. Token series are cut to the tokens of
 * the real run (num_decode_tokens_actual); TPOT and E2E of a cut request are taken at that token on
 * both sides.
 *
 * Cells. One per metric and percentile (linear interpolation between order statistics): error =
 * (sim - real) / real; |error| <= pass_percent is pass, <= warn_percent warn, else fail.
 *
 * Which cells are judged depends on the real side alone, never on the error:
 *   - P50 and P90 of TTFT, TPOT and E2E always;
 *   - P99 only with COMPARE_P99_REQUESTS aligned requests or more;
 *   - P95 and per-token latency not at all with core_only;
 *   - all cells but those of the first rule only where the real run pins them down: the 95 %
 *     order-statistic interval exists and is no wider than twice warn_percent of the value.
 *
 * Repeats. With further real runs on the same arrivals a cell's real value is the mean of the real
 * runs' percentiles, and its interval is Student's around it: with equal arrivals on both sides the
 * only uncertainty is the machine's variation between runs. The diagnosis, the curves and the notes
 * on tokens are of the first run. Spread = (max - min) / median of the real runs' percentiles. A
 * fail whose error is no larger than the spread is excused, and counts as warn, where the spread is
 * at most twice warn_percent; a wider spread makes it inconclusive. Spread runs whose arrivals or
 * lengths differ are refused.
 *
 * Reference passes. Real runs (their mean counts) and profiles carry the times of a few fixed
 * passes (profile/reference.h). Where these show that the machine itself got slower or faster by
 * more than REFERENCE_TOO_MUCH in between, a fail in that direction, and of at most
 * COMPARE_AMPLIFIED times that size, is inconclusive: queues amplify (all operator times 3 % longer
 * made the percentiles of a run at 70 % load 2 to 12 % longer).
 *
 * A fail is inconclusive, too, where the real run or the profile behind the simulated one waited
 * for cores, or their machines were under CPU pressure, more than CONTENTION_TOO_MUCH of the time
 * (from their metas; base/contention.h). Below that it is where what a real run waited made it
 * slower, or what a profile waited the simulation, by COMPARE_AMPLIFIED times that share. And all
 * judged cells are where the two runs have other arrivals or prompt lengths, or the simulation is
 * of another model or machine than the real run. Causes: compare/cause.h.
 *
 * A run that bench rejected because its client was late (`client.verdict` in its meta) leaves all
 * judged cells inconclusive. Such spread runs are refused.
 *
 * Between two real runs, one of them over HTTP, the difference is the result (struct compare_path):
 * no cell is judged.
 *
 * Overall verdict: the worst judged cell, in the order pass, warn, inconclusive, fail. Exit codes:
 * fail 1, inconclusive 5, else 0.
 *
 * Intervals of the simulation. A run simulated with sim.replicas_mc carries an interval of each
 * percentile from the errors of its operators. They are shown; where a cell does not pass although
 * its interval contains the real value, this is noted, and a fail becomes inconclusive: it is
 * within the simulation's stated uncertainty. An interval never makes a cell pass.
 *
 * Iteration log. A real run of a server has no batches.csv; the log of iterations that vLLM writes
 * (metrics/iteration_log.h), given or found in the run's folder, stands for it: what batches held
 * is exact, their times are those of metrics/iteration_times.h, of which host and device parts are
 * not known. A note says how many requests and tokens the batches of both sides held. ST_INPUT for
 * a log of another run.
 *
 * Diagnosis (diagnosed == true when a judged cell is over pass_percent): explains the judged cell
 * with the largest error by the two sides' batch times; see struct compare_part. */
#ifndef COMPARE_COMPARE_H
#define COMPARE_COMPARE_H

#include "compare/cause.h"
#include "compare/curves.h"
#include "text/table.h"

/* VERDICT_NONE: not judged. */
enum verdict { VERDICT_PASS, VERDICT_WARN, VERDICT_INCONCLUSIVE, VERDICT_FAIL, VERDICT_NONE };
const char *verdict_name(enum verdict v); /* "pass", ..., "not judged" */
int verdict_exit_code(enum verdict v);    /* 0, 0, 5, 1, 0 */

enum {
    COMPARE_PERCENTILES = 4,
    COMPARE_MAX_SPREAD = 32,
    COMPARE_P99_REQUESTS = 1000,
    COMPARE_AMPLIFIED = 4
};
extern const double compare_percentiles[COMPARE_PERCENTILES]; /* 50 90 95 99 */
const char *compare_percentile_name(int p);                   /* "p50", ... */
const char *compare_metric_title(enum metric m);              /* "TTFT", "Per-token latency", ... */

struct compare_params {
    const char *real_dir, *sim_dir;
    const char *iteration_log;      /* of the real run; NULL = the one in its folder, if any */
    const char *const *spread_dirs; /* [n_spread], more real runs; at most COMPARE_MAX_SPREAD */
    size_t n_spread;
    bool include_token0;
    bool core_only;                    /* judge P50, P90 and P99 of TTFT, TPOT and E2E alone */
    double pass_percent, warn_percent; /* 5, 9; pass <= warn */
};

/* NAN in a double below means "unknown": no samples, no spread runs, too few for an interval. */
struct compare_cell {
    double real_ns, sim_ns;
    double error_percent;             /* signed, + = the simulation is slower */
    double real_low_ns, real_high_ns; /* 95 % interval: order statistics; with repeats Student's */
    double sim_low_ns, sim_high_ns;   /* interval of the simulated one (percentile_intervals.csv) */
    double spread_percent;
    enum verdict verdict;
    bool excused;
    uint32_t causes; /* bit k: enum compare_cause k leaves it inconclusive */
    const char *why; /* a clause: why not judged, excused or inconclusive; NULL = nothing to add */
};

/* One kind of time on both sides. Batches are of a kind (prefill only, decode only, mixed) and,
 * within it, of a size class: powers of two of tokens for batches with prefill, of sequences for
 * decode. Kinds are compared class by class at the real run's mix, so that a different mix is not
 * mistaken for a different speed; n counts all batches of the kind. */
struct compare_part {
    const char *name;     /* "decode batches", "decode batches of 4-7", ... */
    bool detail;          /* a size class of the part before it */
    int64_t real_n;       /* batches of the real side; requests for waits */
    int64_t sim_n;        /* the same of the simulated side */
    double real_s, sim_s; /* mean */
    double real_device_s, sim_device_s, real_host_s, sim_host_s; /* of it; NAN for waits */
    double share; /* of the difference explained by batch times, 0..1; NAN = not attributed */
};

/* A simulated run's own uncertainty (percentile_intervals.csv): ends of intervals, relative to the
 * percentile; NAN = none. */
enum { UNCERTAINTY_DELAY = METRICS, UNCERTAINTIES }; /* metrics, and the scheduling delay */
struct compare_uncertainty {
    bool known, uneven;                              /* uneven: some mean is not the percentile */
    double mean[UNCERTAINTIES][COMPARE_PERCENTILES]; /* over the replicas; 1 = not known */
    double low[UNCERTAINTIES][COMPARE_PERCENTILES], high[UNCERTAINTIES][COMPARE_PERCENTILES];
};
/* Without the file all are NAN. */
enum st compare_uncertainty_read(struct arena *a, const char *dir, struct compare_uncertainty *out,
                                 struct err *e);

/* Cost of HTTP: difference per request between a real run over HTTP (run_meta.json has `http`) and
 * one without. Only requests with equal numbers of tokens. */
struct compare_path_cost {
    size_t n;
    double median_ns;       /* median of the differences */
    double low_ns, high_ns; /* its 95 % order-statistic interval; NAN */
    double p10_ns, p90_ns;  /* of the differences; NAN without requests */
    /* The same median between the real run and a spread run, the largest in size; NAN without
     * spread runs: the variation between runs without HTTP. */
    double repeat_ns;
};
struct compare_path {
    bool is;                              /* one of the two runs is over HTTP: nothing is judged */
    bool real_is;                         /* that one is the real run */
    struct compare_path_cost of[METRICS]; /* not of METRIC_TOKEN_LATENCY */
    const char *const *lines;             /* [n_lines] the result in words */
    size_t n_lines;
};

/* Energy of both sides, over all of a run: `energy` of the metas. NAN = unknown. Nothing is judged
 * by it. */
struct compare_energy_of {
    double real, sim;
    double error_percent; /* signed, + = the simulation takes more */
};
struct compare_energy {
    bool known;                                      /* of both */
    struct compare_energy_of per_token, per_request; /* J */
    struct compare_energy_of power_w;
    const char *const *lines; /* [n_lines] in words; where one side alone has it: that, and why */
    size_t n_lines;
};

/* What every compare.json says first. */
struct compare_told {
    const char *cause; /* id of the heaviest cause of an inconclusive verdict, else NULL */
    const struct compare_reason *causes; /* [n_causes] by weight */
    size_t n_causes;
    const char *outcome; /* what was found and why, in one line */
};

/* A metric in compare.json. */
struct compare_metric {
    struct compare_cell cells[COMPARE_PERCENTILES];
    size_t real_n, sim_n; /* values */
};

struct comparison {
    struct compare_params params; /* borrowed from the caller */
    struct run real, sim;
    const struct node *const *spread_meta; /* [n_spread] run_meta.json of the further real runs */
    struct run_metrics real_metrics, sim_metrics; /* of the aligned requests */
    size_t n_aligned, n_only_real, n_only_sim, n_not_ok, n_warmup;
    size_t n_early_stop; /* aligned requests whose tokens were cut */
    struct compare_cell cells[METRICS][COMPARE_PERCENTILES];
    /* of all simulated requests, while cells are of the aligned ones */
    struct compare_uncertainty uncertainty;
    enum verdict verdict;
    /* Machine time in the real run / in the profile or other run - 1; NAN = unknown. */
    double drift;
    /* contention_worst of the real runs and of what the simulation rests on; 0 = unknown. */
    double waited_real, waited_sim;

    struct compare_reason found[CAUSES];   /* indexed by cause; text NULL = does not hold */
    struct compare_reason reasons[CAUSES]; /* [n_reasons] the causes that made cells inconclusive */
    size_t n_reasons;
    struct compare_path path;
    struct compare_energy energy;

    bool diagnosed;
    enum metric worst_metric; /* the judged cell with the largest error */
    int worst_percentile;     /* index into compare_percentiles */
    const struct compare_part *parts;
    size_t n_parts;
    const char *const *findings; /* sentences, the largest share first */
    size_t n_findings;

    const char *const *notes; /* sentences on alignment, early stop, sample sizes */
    size_t n_notes;
    const struct curves *curves;

    /* For compare.json, whose writer fills them. */
    struct compare_told told;
    struct compare_metric metrics[METRICS];
};
/* compare.json. Of the runs it has folder, meta and rates. */
extern const struct fields comparison_fields;

/* Kind of comparison of two folders. */
enum compare_pair {
    PAIR_SIMULATION, /* a real run and a simulated one: judged */
    PAIR_HTTP_PATH,  /* two real runs, one of them over HTTP */
    PAIR_RUNS        /* two runs of one kind: compare/ab.h */
};
/* ST_USAGE: the same folder twice; a simulated run given as the real one of a real run. */
enum st compare_sides(struct arena *a, const char *real_dir, const char *sim_dir,
                      enum compare_pair *out, struct err *e);

/* Refusals (ST_INPUT): a run that is not there, incomplete or not a run; no request that ended well
 * on both sides; spread runs of another workload, named by the first request that differs.
 * ST_USAGE: more than COMPARE_MAX_SPREAD spread runs, pass_percent above warn_percent. */
enum st compare_runs(struct arena *a, const struct compare_params *p, struct comparison *out,
                     struct err *e);

/* ---- output ----------------------------------------------------------------- */

/* summary.md, compare.json, tables/, figs/ into the artifact being built. tables/ holds the four
 * percentile tables and the data behind the figures: cdf.csv (metric, quantile, real_ns, sim_ns)
 * and over_time.csv (time_ns and what is plotted). */
enum st compare_write(const struct artifact *art, const struct comparison *c, struct err *e);

/* compare.json as a tree. */
struct node *compare_node(struct arena *a, const struct comparison *c);

/* The outcome and its cause, in one line: "inconclusive: the machine itself was 12 % slower in the
 * real run than while it was profiled", "fail: largest judged error -9.1 % (TTFT P50)". */
const char *compare_outcome(struct arena *a, const struct comparison *c);

/* The table of cells, for the terminal: metric, percentile, real, simulated, error, interval,
 * spread (with spread runs only), verdict. */
struct table *compare_table(struct arena *a, const struct comparison *c);

struct comparison compare_shown(struct arena *a,
                                const struct comparison *c); /* as in compare.json */
double compare_known(size_t n); /* a count of it that was read loosely: -1 is NAN */
/* All that it says. Its Markdown is summary.md; the page draws its figures "legend",
 * "distributions" and "over_time" and the pictures "error", each of a struct compare_cell. Of
 * compare_shown or of compare.json. */
struct document;
struct document *compare_document(struct arena *a, const struct comparison *c, const char *title);

#endif
