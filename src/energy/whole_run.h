/* Measures the energy of something that can be run as a whole and in parts, from idle to idle:
 *
 *     what the sensor needs (probe.h), unless the caller says how long a window is
 *     idle power, with a context open
 *     power recorded from a thread of its own, while
 *         the whole runs over and over, then each kernel alone
 *     idle power again
 *
 * and makes the report of it (energy_report.h). The whole's window leaves out its first 0.2 s and
 * its last 0.1 s, with their share of the runs: so it lies inside a steady load, and a sensor that
 * is an update late does not matter.
 *
 * Rejected: another process on the GPU at any time, and clocks held down by heat or the hardware.
 */
#ifndef ENERGY_WHOLE_RUN_H
#define ENERGY_WHOLE_RUN_H

#include "energy/energy_report.h"
#include "energy/probe.h"

struct energy_wish {
    int64_t runs;    /* of the whole, at least, and for window_s at least */
    double window_s; /* for each kernel, without gaps of the host */
};

/* How long each kernel runs. Steady power leaves out the window's first settle_s
 * (energy_settle_s), so a window is that and what the sensor needs behind it for a 95 % interval of
 * +-percent, at the scatter that a probe saw under a steady load (probe_window_s). */
struct energy_window {
    double s;
    enum energy_window_from {
        ENERGY_WINDOW_GIVEN,
        ENERGY_WINDOW_PROBED,
        ENERGY_WINDOW_ASSUMED, /* the probe saw no scatter or no updates: ENERGY_WINDOW_S */
    } from;
    double percent;     /* that was wanted; NAN = given */
    double update_s;    /* of the sensor, by the probe; NAN = unknown */
    const char *sensor; /* NULL = given */
};
#define ENERGY_WINDOW_S 1.2
const char *energy_window_from_name(unsigned from); /* "given", "probe", "assumed" */
/* sensor: whose readings are taken. */
struct energy_window energy_window_of(const struct probe *p, const char *sensor, bool averaged);

/* What is measured. */
struct energy_subject {
    void *self;
    bool child; /* it runs in a process of its own, the one other process that is allowed */
    /* Runs all of it. Windows are clock_wall_ns() times, zoned; their texts are set here later.
     * What could not be run alone has benchmark_runs 0. */
    enum st (*run)(void *self, struct arena *a, const struct energy_wish *wish,
                   struct full_timing *full, struct isolated_timing *isolated, struct err *e);
};

struct energy_run_params {
    int gpu;
    double interval_s;       /* between two samples */
    double idle_s;           /* how long idle power is measured, before and after; 0 = 3 */
    struct energy_wish wish; /* window_s 0: the probe's */
    double percent;          /* interval of a mean power that is wanted of the probe; 0 = 1 */
    double probe_s;          /* how long the probe's load runs; 0 = 3 */
    const char *sampler;
    const struct full_timing *application; /* NULL = none, as its power */
    const struct power_log *application_power;
    const volatile sig_atomic_t *stop;
};

struct energy_run {
    struct board board;
    struct energy_window window;
    struct idle before, after;
    struct recorder_sensor sensors[2]; /* by enum sampler_kind; ops NULL = none */
    struct recorder_counts counts;
    struct power_log log; /* in UTC */
    int64_t utc_offset_s;
    struct full_timing full;
    struct isolated_timing isolated;
    struct gpu_conditions under;
    struct energy_report report;
};

/* ST_DEVICE: no GPU or no sensor; ST_REJECTED: see above; what the subject says. */
enum st energy_run(struct arena *a, const struct energy_run_params *p,
                   const struct energy_subject *s, struct energy_run *out, struct err *e);

/* The window without its first and last moments, and as many whole runs as fit. Windows below 1 s
 * stay as they are. */
void energy_trim(struct full_timing *t);

#endif
