/* What a board's sensors are worth, measured: how often they are updated, over how long they
 * average, how much they scatter, and how long something must run until its mean power is known
 * well enough. And the idle power. */
#ifndef ENERGY_PROBE_H
#define ENERGY_PROBE_H

#include <signal.h>

#include "energy/board.h"
#include "energy/recorder.h"
#include "text/fields.h"

/* ---- pure parts ------------------------------------------------------------------------------ */

/* A step of the load at step_ns, as a sensor showed it. base and top: mean power before, and in the
 * last third until end_ns. The sensor's answer is a ramp as long as its window: from 10 to 90 % it
 * takes 0.8 of that. NAN where the step is below five times the spread. */
struct probe_step {
    double base_w, top_w;
    double averages_s; /* width of the window */
    double lag_s;      /* from the step to half of the answer */
};
struct probe_step probe_step_of(const struct power_log *log, int64_t from_ns, int64_t step_ns,
                                int64_t end_ns);

/* Seconds that something steady must run until the 95 % interval of its mean power is at most
 * +-percent: the sensor's window, then so many updates that their scatter averages out, ten at
 * least. NAN where spread or update period is unknown. */
double probe_window_s(const struct power_mean *p, double update_s, double averages_s,
                      double percent);

/* ---- a board --------------------------------------------------------------------------------- */

struct probe_params {
    int gpu;
    double idle_s, load_s;             /* how long each is measured, at least; 0 = 2 and 3 */
    double learn_s;                    /* recorder.h; 0 = 2 */
    double percent;                    /* interval that is wanted, of a mean power */
    const volatile sig_atomic_t *stop; /* raised by a signal; NULL = never */
};

struct probe_sensor {
    const char *name, *what, *missing; /* missing: why it does not answer; NULL = it does */
    int64_t updates;                   /* seen */
    double update_s, read_s;           /* NAN = unknown, as all of these */
    double stated_averages_s;          /* of its row (sampler.h) */
    double averages_s, lag_s;          /* measured; below two updates: none */
    double idle_w, idle_spread_w, load_w, load_spread_w;
    double window_s; /* for the wanted interval, under the load */
};
enum { PROBE_SENSORS = 3 }; /* nvml_counter, nvml_instant, nvml_average */

struct probe {
    struct board board;
    struct gpu_limits limits;
    struct probe_sensor sensors[PROBE_SENSORS];
    size_t n;
    double percent;
    double idle_w, idle_low_w, idle_high_w, load_w;
    struct gpu_conditions idle_under, load_under;
};

/* Takes some 10 s and the GPU for itself. ST_DEVICE: no GPU, or no sensor answers. ST_REJECTED:
 * another process computes there, or heat held the clocks down. */
enum st probe_run(struct arena *a, const struct probe_params *p, struct probe *out, struct err *e);
struct node *probe_node(struct arena *a, const struct probe *p);
void probe_text(struct arena *a, struct buf *out, const struct probe *p);

/* ---- idle power ------------------------------------------------------------------------------ */

struct idle_params {
    int gpu;
    double duration_s; /* at least, once power has settled: for 20 s at most */
    bool context;      /* hold a context of CUDA: the clocks stay where a program has them */
    const char *sampler;
    const volatile sig_atomic_t *stop;
};
struct idle {
    struct board board;
    bool context;
    double duration_s;
    double power_w, low_w, high_w, spread_w;
    int64_t readings;
    double counter_w; /* by the counter; NAN = none */
    struct gpu_conditions under;
};
/* As probe_run. */
enum st idle_run(struct arena *a, const struct idle_params *p, struct idle *out, struct err *e);
struct node *idle_node(struct arena *a, const struct idle *i);
void idle_text(struct arena *a, struct buf *out, const struct idle *i);

#endif
