/* The power that a run or a traced program draws (energy.record=true): a recorder of its own beside
 * it, power.csv in its folder, and what follows.
 *
 *     energy of the run      of the window from begin to end: the counter's difference where the
 *                            board has one, else power integrated (energy/power_log.h)
 *     of a batch             newest reading of the sensor x its time on the device; shared by the
 *                            requests in it as in simulations, by tokens (serve.h)
 *     idle                   what is left of the run's
 *     J per request, token   energy of the run, idle included, over its requests and output tokens
 *
 *     several GPUs           of a server whose pid is known: each is read, and their energies are
 *                            added up
 *
 * Batches take milliseconds and a sensor changes every 100 ms, so a batch's energy holds for a
 * steady load and on average, and stands in no file. */
#ifndef JOB_POWER_H
#define JOB_POWER_H

#include "artifact/artifact.h"
#include "energy/meter.h"
#include "energy/server_gpus.h"
#include "job/context.h"
#include "serve/executor.h"

/* What computes on the GPU. */
enum job_power_of {
    JOB_POWER_OWN,     /* this process, or one that it asks */
    JOB_POWER_PROGRAM, /* a program that starts after the begin and ends before the end */
    JOB_POWER_SERVER   /* a server: with client.server_pid its processes are known by that, on all
                        * GPUs on which they compute; without, they cannot be told from others,
                        * which are only counted, on one GPU */
};

struct job_power_gpu {
    struct meter meter;
    int64_t rounds; /* recorder_rounds() at the begin */
};

struct job_power {
    bool on;                    /* energy.record=true */
    struct job_power_gpu *gpus; /* [n] */
    struct power_log *logs;     /* [n], after job_power_stop */
    size_t n;
    double interval_s;
    int64_t from_ns, to_ns; /* clock_mono_ns() */
    int others;         /* other processes that computed there at begin or end; -1 = unknown. Of a
                         * server whose pid is known: at any time */
    const char *shared; /* why the power is not that of what is measured alone, so that its energy
                         * is unknown: "1 other process computed on GPU 0"; NULL = it is */
    enum job_power_of of;
    struct server_gpus *server; /* NULL = of no server whose pid is known */
    int64_t server_pid, server_processes;
    struct arena *a;
};

/* Nothing unless the plan wants it. The plan's device= says which GPU, else gpu=; of a server those
 * on which client.server_pid computes. ST_DEVICE: no such GPU, no sensor, none on which the server
 * computes; ST_INPUT: no such server. Close in any case. */
enum st job_power_open(const struct job_context *c, enum job_power_of of, struct job_power *p,
                       struct err *e);
void job_power_close(struct job_power *p); /* zeroed is fine */
/* The window; it is made longer until it holds a reading, which only one of a few ms needs. All of
 * these do nothing without p->on. */
void job_power_begin(struct job_power *p);
void job_power_end(struct job_power *p);

/* An executor whose completions have energy, of `inner`, which stays the caller's. */
struct job_metered {
    struct executor_ops ops;
    struct executor inner;
    const struct recorder *recorder;
};
struct executor job_power_metered(const struct job_power *p, struct executor inner,
                                  struct job_metered *m);

struct job_energy {
    double energy_j;           /* NAN = unknown, for `why`: the counter's, else the integral */
    double integral_j, edge_j; /* edge_j: bound of the integral's error at the edges */
    double counter_j, duration_s;
    const char *why;
};
/* Ends the recording and writes power.csv. After that: what the window took. */
enum st job_power_stop(const struct job_context *c, struct job_power *p, const struct artifact *art,
                       struct err *e);
struct job_energy job_power_energy(const struct job_context *c, const struct job_power *p);
/* Mean power of all GPUs from one second of the window to another, of a bucket narrower than the
 * readings are apart that of its neighbours; NAN = unknown. After job_power_stop; self: a struct
 * job_power. */
double job_power_mean_w(void *self, double from_s, double to_s);
/* ST_REJECTED when others shared the GPU; for when everything is kept. */
enum st job_power_alone(const struct job_power *p, struct err *e);
/* `power` of run_meta.json: sensors, conditions, window; of several GPUs a list. After
 * job_power_stop. */
struct node *job_power_node(const struct job_context *c, struct job_power *p);

/* `energy` of run_meta.json, of real and simulated runs alike, from which compare takes them:
 * {measured, total_j, idle_j, j_per_request, j_per_token, mean_power_w, requests, tokens,
 * unknown_because}. */
struct run_energy {
    bool measured;
    double energy_j, idle_energy_j, duration_s; /* NAN = unknown */
    int64_t requests, tokens;
    const char *why; /* energy is unknown; NULL = it is known */
};
struct node *run_energy_node(struct arena *a, const struct run_energy *x);

#endif
