/* The stages of compare_runs, in their order. Private to compare/. */
#ifndef COMPARE_INTERN_H
#define COMPARE_INTERN_H

#include "base/vec.h"
#include "compare/compare.h"
#include "text/document.h"
#include "text/words.h"

/* Sentences collected while comparing; strings live in the arena. */
struct notes {
    struct arena *a;
    VEC(const char *) v;
};
void compare_note(struct notes *n, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Moves them into the arena; returns how many there are. */
size_t compare_notes_end(struct notes *n, const char *const **out);

/* Requests that succeeded on both sides, by request_id. */
struct alignment {
    int64_t *ids;
    int64_t *max_tokens; /* output tokens both sides have */
    size_t n;
};

/* Fills the counts of c, adds notes. ST_INPUT when nothing aligns. */
enum st align_runs(struct arena *a, struct comparison *c, struct alignment *out,
                   struct notes *notes, struct err *e);

/* ST_INPUT unless `other` has the aligned requests of the real run with the same arrivals and
 * lengths. */
enum st align_check_spread(const struct run *real, const struct alignment *al,
                           const struct run *other, struct err *e);

/* Whether two runs planned the same moments. In closed loops, and for later turns of sessions,
 * these follow from ends (workload/release.h) and differ between runs of one workload: there the
 * place in the workload counts, and that both loops had the same limit. */
struct moments {
    bool closed;     /* both are closed loops */
    bool same_limit; /* of the same concurrency; both open: true */
};
struct moments align_moments(const struct run *x, const struct run *y);
bool align_same_moment(const struct moments *m, const struct run_request *x,
                       const struct run_request *y);
/* "8", "1:1-8": concurrency of a run as typed; "none, an open loop". */
const char *align_limit(struct arena *a, const struct run *r);

/* Batches of the real run from the log of its server's iterations, where there is one and the run
 * has none of its own. Notes what they are made of and how those of both sides are composed. */
enum st compare_take_log(struct arena *a, struct comparison *c, struct notes *notes, struct err *e);

/* Notes first tokens of the real run as its server_metrics.json splits them; nothing without one.
 */
enum st compare_tell_first_tokens(struct arena *a, const struct comparison *c, struct notes *notes,
                                  struct err *e);

/* Notes settings of the other run that the log of the real run's server contradicts, where its
 * folder has one. */
enum st compare_tell_server_log(struct arena *a, const struct comparison *c, struct notes *notes,
                                struct err *e);

/* The aligned requests only; spread runs lack those of *al that failed there. */
struct metrics_params align_params(const struct alignment *al, bool include_token0);

/* Fills c->energy from the metas. */
void compare_energy_find(struct arena *a, struct comparison *c);

/* Notes of a side whose load is above what it carries (metrics/backlog.h). */
void compare_saturated_tell(const struct comparison *c, struct notes *notes);

/* Whether the two are a run over HTTP and one without; compare_path_repeat for each spread run
 * and compare_path_tell afterwards fill the rest. */
void compare_path_find(struct arena *a, struct comparison *c, const struct alignment *al);
void compare_path_repeat(struct comparison *c, const struct alignment *al, const struct run *again);
void compare_path_tell(struct arena *a, struct comparison *c);

/* Adds causes found in the metas to c->found; align_runs and compare_judge add theirs. */
void causes_find(struct arena *a, struct comparison *c, struct notes *notes);
/* Enters one; cause_figure adds to its figures. */
struct compare_reason *cause_found(struct arena *a, struct compare_reason found[CAUSES],
                                   enum compare_cause cause, const char *clause, const char *text);
void cause_figure(struct arena *a, struct compare_reason *r, const char *key, double value);
/* A cell that these causes (bits) leave inconclusive. */
void causes_count(struct compare_reason found[CAUSES], uint32_t set, double error_percent);
/* Collects causes that left cells inconclusive, by weight; returns their number. */
size_t causes_weigh(const struct compare_reason found[CAUSES], struct compare_reason out[CAUSES]);
/* "<what> waited for cores 12 % of the time", by the larger of its own share and the pressure on
 * its machine. */
const char *cause_waited(struct arena *a, const struct contention *busy, const char *what);
/* p99 of the schedule delay in ms where bench rejected the run because of it; else negative. */
double cause_late_client_ms(const struct run *r);

/* ---- shared by a comparison with a simulation and one of runs (ab.h) ------------------------- */

bool compare_same_folder(const char *x, const char *y);
enum st compare_check_limits(double pass_percent, double warn_percent, size_t n_spread,
                             struct err *e);
/* Loads dirs[i] as a repeat of `of`: same workload, same settings, a client that kept its schedule,
 * and not given before. */
enum st compare_load_repeat(struct arena *a, const struct run *of, const struct alignment *al,
                            const char *const *dirs, size_t i, struct run *out, struct err *e);

/* Members of every compare.json, and of a run in it: a struct run and its struct run_metrics. */
extern const struct fields compare_told_fields;
struct compare_told compare_told_of(enum verdict v, const struct compare_reason *reasons, size_t n,
                                    const char *outcome);
#define COMPARE_RUN_ROWS(T, run, metrics)                                                  \
    FIELD_AS(T, run.dir, "dir"), FIELD_AS(T, run.meta, "meta"),                            \
        FIELD_AS(T, metrics.duration_s, "duration_s", .optional = true),                   \
        FIELD_AS(T, metrics.output_tokens, "output_tokens"),                               \
        FIELD_AS(T, metrics.output_tokens_per_s, "output_tokens_per_s", .optional = true), \
        FIELD_AS(T, metrics.requests_per_s, "requests_per_s", .optional = true)
const struct node *compare_meta_shown(struct arena *a, const struct run *r);
const char *compare_percentile_key(unsigned p); /* compare_percentile_name */
struct node *compare_cause_ids(struct arena *a, uint32_t causes);
/* summary.md, compare.json, the tables behind the figures, and the figures. */
enum st compare_write_texts(const struct artifact *art, const struct buf *summary,
                            const struct buf *json, const struct curves *curves, struct err *e);

/* Values, errors, intervals, verdicts. spread: metrics of the further real runs. */
void compare_judge(struct arena *a, struct comparison *c, const struct run_metrics *spread);

struct ab;
/* settings, lines, outcome, notes. */
void ab_tell(struct arena *a, struct ab *x);

/* ---- words of both documents ----------------------------------------------------------------- */

extern const enum document_tone compare_tones[];                   /* by verdict */
const char *compare_sentence(struct arena *a, const char *clause); /* with a capital letter */
/* The reasons for inconclusive cells, as a section; nothing where there is none. */
void compare_tell_causes(struct document *d, const struct compare_told *told);

/* parts, findings, diagnosed. */
void compare_diagnose(struct arena *a, struct comparison *c, const struct alignment *al);

#endif
