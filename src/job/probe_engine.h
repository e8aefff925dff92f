/* `capacity engine=`: the plan's real engine as a probe (search/probe_bench.h). */
#ifndef JOB_PROBE_ENGINE_H
#define JOB_PROBE_ENGINE_H

#include "job/sim.h"
#include "search/probe_bench.h"

struct job_engine_probe {
    const struct job_context *c;
    struct job_model m;
    struct job_setup setup;
    struct slo slo;
    bool one_draw;
    struct arena *a; /* of the workload below */
    struct job_workload w;
    uint64_t seed; /* of w */
    bool made;
    struct rate_probe probe;
};

/* Everything is checked before anything is written: the engine's name, the SLO, the workload. *out
 * must not move until job_engine_probe_close. */
enum st job_engine_probe_open(const struct job_context *c, struct job_engine_probe *out,
                              struct err *e);
/* Creates the folder of the probes inside the artifact, with their files. */
enum st job_engine_probe_begin(struct job_engine_probe *p, const struct artifact *art,
                               struct err *e);
/* Whether a run is in that folder already: worth keeping when the search fails. */
bool job_engine_probe_measured(const struct job_engine_probe *p, const struct artifact *art);
void job_engine_probe_close(struct job_engine_probe *p);

/* Whether the number of a probe's requests follows from its rate: for generated ones without an
 * explicit number. */
bool job_probe_follows_rate(const struct job_context *c);
/* The number that arrives in capacity.probe_s, within the bounds. */
int64_t job_probe_requests(const struct plan *p, double rate);

#endif
