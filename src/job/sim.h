/* Shared by the commands that simulate: the plan's predictor, and the simulator as a probe. */
#ifndef JOB_SIM_H
#define JOB_SIM_H

#include "job/job.h"
#include "search/capacity.h"
#include "search/monte_carlo.h"
#include "search/probe_sim.h"

/* The plan's predictor. *params has its sources: bundle, NULL where it reads none; host_overhead,
 * whether host time is included. Both live in c->a. m is borrowed. */
enum st job_predictor(const struct job_context *c, const struct job_model *m,
                      struct predictor_params *params, struct predictor *out, struct err *e);

/* Peaks of the plan's hardware. */
struct iteration_hardware job_hardware(const struct plan *p);

/* Remark for results: nothing was measured for these times. NULL = something was. */
const char *job_predictor_uncalibrated(const struct job_context *c, const struct predictor *p);
/* Remark for results: the bundle was measured on a busy machine. NULL = it was not. */
const char *job_predictor_disturbed(const struct job_context *c,
                                    const struct predictor_params *params);
/* Remark for results: it is not known how many devices a node has, and all of a replica are taken
 * to be in one. NULL = it is, or a replica is one device. */
const char *job_predictor_placement(const struct job_context *c, const struct predictor *p);
/* Remark for results: settings of the run that the bundle's times do not hold for. NULL = none. */
const char *job_predictor_settings(const struct job_context *c,
                                   const struct predictor_params *params);
/* Members of run_meta.json: profiling_root, predictor, host_overhead; where they apply also
 * uncalibrated, iteration_model (parameters and peaks), request_overheads. */
void job_predictor_facts(const struct job_context *c, const struct predictor_params *params,
                         const struct predictor *p, struct node *extra);
/* From the bundle, where scheduler.async_scheduling is not chosen: that host and device overlap. */
void job_predictor_async(const struct job_context *c, const struct predictor_params *params,
                         struct serve_params *serve);
/* From the bundle, where scheduler.hybrid_kv_cache is not chosen: our own engines keep every block
 * of every layer, so *serve and *plan (may be NULL) are those of hybrid_kv_cache=false. *serve and
 * *plan: as job_serve_params made them, of a simulation. */
enum st job_predictor_blocks(const struct job_context *c, const struct predictor_params *params,
                             struct serve_params *serve, struct engine_plan *plan, struct err *e);
/* Both, and what requests pay outside the engine, from predictor.request_overheads. */
enum st job_predictor_serving(const struct job_context *c, const struct predictor_params *params,
                              struct serve_params *serve, struct engine_plan *plan, struct err *e);

/* Remark for results: no host time although it was requested, a draft model that takes no memory.
 * NULL = none. */
const char *job_predictor_warning(const struct job_context *c,
                                  const struct predictor_params *params);

/* The root of the bundle, or the folder of Vidur's tables; NULL for predictors
 * that read none: profiling_root of run_meta.json. */
const char *job_profiling_root(const struct job_context *c, const struct predictor_params *params);

/* The system of a plan as a probe. Arrivals are the plan's at any rate; those of a given workload
 * (workload.dir, workload.trace, arrival traces) are stretched. */
struct job_probe {
    const struct job_context *c;
    struct job_model m;
    struct predictor_params params;
    struct predictor predictor;
    struct serve_params serve;
    struct job_setup setup;
    struct slo slo;
    struct rate_probe probe;
    bool one_draw; /* requests are given: the seed does not matter */
};

/* *out must not move until job_probe_close. */
enum st job_probe_open(const struct job_context *c, struct job_probe *out, struct err *e);
void job_probe_close(struct job_probe *p);
struct capacity_params job_capacity_params(const struct plan *p, const struct slo *slo,
                                           bool one_draw, bool engine);
/* capacity.seeds, or its default when unset. */
int64_t job_capacity_seeds(const struct plan *p, bool engine);
/* Checks common to all capacity commands: no SLO, no rate, more seeds than draws. */
enum st job_capacity_check(const struct job_context *c, struct slo *slo, bool *one_draw,
                           struct err *e);
/* The plan's workload of that seed at a mean rate of 1 request/s, in the arena; close it. ids: as
 * job_probe_workload, NULL = not needed. */
enum st job_unit_workload(const struct job_context *c, const struct job_model *m, struct arena *a,
                          uint64_t seed, int32_t ***ids, struct job_workload *out, struct err *e);
/* Whether arrivals are given: other rates stretch them instead of drawing anew. */
bool job_is_stretched(const struct plan *p);

/* sim.replicas_mc: the `more` of a simulated run, with this as its self. The first four members
 * are the caller's; open refuses what has no uncertainty, by the name of ops, and loads the
 * workload, which the caller closes. */
struct job_monte_carlo {
    const struct job_context *c;
    const struct job_model *m;
    const struct predictor_params *params;
    const struct predictor_ops *ops; /* without the cost of drafts */
    struct serve_params serve;
    struct job_workload w;
    int32_t **ids; /* of the prompts, for prefix caching; NULL = unknown */
};
/* Requests in c->a, with the token ids of their prompts where prefix caching needs them; else *ids
 * stays NULL. */
enum st job_probe_workload(const struct job_context *c, const struct job_model *m,
                           struct job_workload *out, int32_t ***ids, struct err *e);

enum st job_monte_carlo_open(struct job_monte_carlo *j, struct err *e);
enum st job_monte_carlo(void *self, const struct artifact *art, struct node *extra,
                        struct node *shown, struct err *e);

#endif
