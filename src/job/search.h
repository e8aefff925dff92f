/* A search: every configuration of a space (search/space.h), each a variant of the plan with the
 * words of one combination after the command's own; with its capacity and its results under several
 * loads.
 *
 *     open -> resume (the leading process alone) -> run -> collect -> close
 *
 * Settings that the policy of a combination does not read are dropped: combinations that differ in
 * nothing else are merged. A configuration that cannot be simulated is a result, too. */
#ifndef JOB_SEARCH_H
#define JOB_SEARCH_H

#include "base/log.h"
#include "base/vec.h"
#include "job/job.h"
#include "search/launch.h"
#include "search/search_journal.h"
#include "search/search_result.h"

enum { JOB_SEARCH_LOADS = 32 };

/* A configuration to try: the command's words and, after them, those of the space. */
struct job_candidate {
    const char **words;
    size_t n_words;
    const char **values; /* [n_axes] */
};

struct job_search {
    struct job_context *c;
    struct space space;
    double loads[JOB_SEARCH_LOADS]; /* fractions of the capacity, [n_loads] */
    size_t n_loads;
    VEC(struct job_candidate) candidates;
    struct search_journal journal;
    struct progress progress; /* the caller begins and ends it */
    bool met;                 /* by any configuration, at any rate */
};

/* Call job_search_close in any case. */
enum st job_search_open(struct job_context *c, struct job_search *out, struct err *e);
/* Opens the journal beside dir, with the results of an interrupted search of the same settings and
 * files. */
enum st job_search_resume(struct job_search *s, const char *dir, struct err *e);
/* Runs the remaining jobs by the launcher's workers. */
enum st job_search_run(struct job_search *s, const struct launcher_ops *launcher, struct err *e);
/* ST_INPUT: no configuration can be simulated. */
enum st job_search_collect(struct job_search *s, struct search_result *r, struct err *e);
void job_search_close(struct job_search *s); /* not the journal */

/* The settings of a configuration. */
enum st job_search_config(struct arena *a, const struct job_search *s,
                          const struct job_candidate *x, struct config *out, struct err *e);
/* search_inputs.c: an id of the contents of the files that the configurations read (bundles,
 * tables, a given workload, models), in s->c->a. */
enum st job_search_inputs(const struct job_search *s, const char **out, struct err *e);

#endif
