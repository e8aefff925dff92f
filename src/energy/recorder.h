/* A thread of its own that reads sensors at a steady interval, while something else feeds the GPU.
 *
 *     recorder_open(a, &(struct recorder_params){...}, &r, e);   // measures the update periods
 *     ... work, with from_ns and to_ns by recorder_now() ...
 *     recorder_stop(r, e);                                      // with a sample behind the work
 *     recorder_log(a, r, &log);  energy_of(&log, from_ns, to_ns);
 *     recorder_close(&r);
 *
 * Times are wall-clock time as it was when the recorder started, continued by the monotonic clock:
 * they never jump. A reading's time is the middle of its call. A reading that fails is missing, and
 * counted; when all fail the recorder's end is ST_DEVICE. */
#ifndef ENERGY_RECORDER_H
#define ENERGY_RECORDER_H

#include <signal.h>

#include "energy/power_log.h"
#include "energy/sampler.h"

struct recorder;

struct recorder_params {
    const struct sampler_ops *power, *energy; /* one may be NULL */
    struct sampler_params sampler;
    double interval_s; /* between two readings; 0 = as fast as the sensors answer */
    double learn_s;    /* longest time to find out the update periods; 0 = do not */
    int64_t most;      /* samples that are kept; beyond, the recording ends by ST_REJECTED.
                        * 0 = 100 million */
    const volatile sig_atomic_t *stop; /* ends learning; NULL = never */
};

/* The samplers for a GPU by name: "auto" is nvml_instant and nvml_counter, or what of both answers,
 * or nvml_average. Fills power and energy. ST_USAGE: no such sampler. ST_DEVICE: none answers. */
enum st recorder_pick(struct arena *a, const char *name, struct recorder_params *p, struct err *e);

enum st recorder_open(struct arena *a, const struct recorder_params *p, struct recorder **out,
                      struct err *e);
int64_t recorder_now(const struct recorder *r);
/* The recorder's time at a time of clock_mono_ns(). */
int64_t recorder_at(const struct recorder *r, int64_t mono_ns);
/* Newest power, without waiting for anything: for any thread, as often as it likes. A reading that
 * failed leaves the one before it. NAN = none yet, or only a counter is read. */
double recorder_power_now(const struct recorder *r);

/* Readings of all sensors that ended so far, failed ones too. A busy machine takes fewer of them in
 * a time than the interval says, so what needs some of them waits for them: one more than n may be
 * under way, so reading n + 2 is the first that began after recorder_rounds said n. */
int64_t recorder_rounds(struct recorder *r);
/* Until there were so many, or *stop (NULL = never). */
void recorder_await(struct recorder *r, int64_t rounds, const volatile sig_atomic_t *stop);

/* How a sensor behaved in the first learn_s. */
struct recorder_sensor {
    const struct sampler_ops *ops; /* NULL = none */
    double update_s;               /* median time between two changes; NAN = not seen to change */
    int64_t updates;               /* seen */
    double read_s;                 /* median time of a reading */
};
struct recorder_sensor recorder_sensor(const struct recorder *r, enum sampler_kind kind);
/* The same of readings as fast as the sensor answers; ops NULL. A change counts from the end of the
 * reading that showed it. */
struct recorder_reading {
    int64_t from_ns, to_ns; /* of the call */
    double value;           /* NAN = failed */
};
struct recorder_sensor recorder_learn(const struct recorder_reading *readings, size_t n);

struct recorder_counts {
    int64_t samples, failed; /* readings */
    int64_t late;            /* moments of the interval that passed while the sensors answered */
};

/* Returns when the counter has ticked once more, or after 1 s at most, and then a last reading was
 * made; the thread has ended. */
enum st recorder_stop(struct recorder *r, struct err *e);
struct recorder_counts recorder_counts(const struct recorder *r); /* after stop */
/* All samples, in UTC; lives in a. After stop. Where only a counter was read, power is that between
 * its ticks, at their middle. */
void recorder_log(struct arena *a, const struct recorder *r, const char *what,
                  struct power_log *out);
/* What is there already, while it goes on. */
void recorder_so_far(struct arena *a, struct recorder *r, const char *what, struct power_log *out);
void recorder_close(struct recorder **r); /* stops it first; NULL is fine */

#endif
