/* What a run counted and what it cost: `counters` of its run_meta.json, and the result that the
 * command prints. */
#ifndef JOB_COUNTERS_H
#define JOB_COUNTERS_H

#include "job/job.h"
#include "job/power.h"
#include "metrics/summary.h"

struct run_counters;

/* What one run counted; setup_s: CPU time until its first request. measured: what its GPU took;
 * NULL = that was not measured. */
struct run_counters *run_counters_of(const struct job_context *c, const struct job_run *r,
                                     const struct serve_counters *n, double setup_s,
                                     const struct job_energy *measured);
/* `energy` of run_meta.json; NULL where a real run's was not measured. */
struct node *run_counters_energy(const struct job_context *c, const struct job_run *r,
                                 const struct run_counters *k);
struct node *run_counters_node(struct arena *a, const struct run_counters *k);

/* The result's members, in the order in which they are printed. dir: the run's folder. */
struct node *run_result_node(struct arena *a, const struct run_counters *k, const char *dir,
                             struct summary *s);

#endif
