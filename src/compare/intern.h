/* The stages of compare_runs, in their order. Private to compare/. */
#ifndef COMPARE_INTERN_H
#define COMPARE_INTERN_H

#include "base/vec.h"
#include "compare/compare.h"
#include "compare/words.h"

/* Sentences collected while comparing; strings live in the arena. */
struct notes {
    struct arena *a;
    VEC(const char *) v;
};
void note(struct notes *n, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Requests that ended well on both sides, by request_id. */
struct alignment {
    int64_t *ids;
    int64_t *max_tokens; /* output tokens both sides have */
    size_t n;
};

/* Fills the counts of c, adds notes. ST_INPUT when nothing aligns. */
enum st align_runs(struct arena *a, struct comparison *c, struct alignment *out,
                   struct notes *notes, struct err *e);

/* ST_INPUT unless the aligned requests of the real run stand in `other` with the same arrivals and
 * lengths. */
enum st align_check_spread(const struct comparison *c, const struct alignment *al,
                           const struct run *other, struct err *e);

/* The aligned requests only; spread runs lack those of *al that did not end well there. */
struct metrics_params align_params(const struct alignment *al, bool include_token0);

/* Whether the two are a run over HTTP and one without; path_repeat for each spread run and
 * path_tell afterwards fill the rest. */
void path_find(struct arena *a, struct comparison *c, const struct alignment *al);
void path_repeat(struct comparison *c, const struct alignment *al, const struct run *again);
void path_tell(struct arena *a, struct comparison *c);

/* Values, errors, intervals, verdicts. spread: metrics of the further real runs. */
void judge_cells(struct arena *a, struct comparison *c, const struct run_metrics *spread);

/* parts, findings, diagnosed. */
void diagnose(struct arena *a, struct comparison *c, const struct alignment *al);

#endif
