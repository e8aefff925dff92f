/* From a power log and the times of runs to the energy of a model and of each of its kernels.
 *
 * Two predictions stand beside each other:
 *
 * - `predicted_energy_per_inference_j`, as the system that twinfer replaces has it: a kernel's
 * window energy / benchmark_runs x invocation_count, summed. A kernel alone runs with warm caches,
 * so this is low by 14 to 24 % (FACTS of an H200).
 * - `in_context`: the power of each class while it runs alone x the time that its invocations take
 *   in the whole, plus idle power x the rest of a run. The power of a class alone is within a few
 *   per cent of what it is in the whole, its time is not. It is never scaled to what was measured.
 *
 * Between two kernels of a loop lies a gap of a microsecond, which in_context_us does not hold and
 * the mean power of the loop does. So the gaps' part of it (1 - busy_share) is taken at idle power:
 * running power = idle + (steady - idle) / busy_share. Without a busy share, or idle power, it is
 * the steady power. The same prediction at the loops' mean power stands beside it (`at_loop`).
 * Sets that were repeated with a kernel are no gap: their part of the loop is taken at the mean
 * power of the loops of sets, since the sets' own kind is charged with it.
 *
 * Steady power of a window leaves out its first 0.1 s, an update of the sensor and more (an
 * averaged log: 1.2 s), where that is at most a quarter of it, else it would be said from too
 * little.
 *
 * Intervals of predictions are at 95 %: each power's (power_mean_of), taken as independent, the
 * idle power's with them. Not in them: errors that all readings of a sensor share, and those of the
 * times. Where the powers of kernels that take more than 1 % of the kernels' time have no interval
 * (fewer than three readings), the prediction has none.
 *
 * A kernel without power is excluded and counted. In-context energy then is unknown, unless the
 * excluded ones take at most 1 % of the kernels' time: those are charged the mean power of the
 * rest.
 */
#ifndef ENERGY_ENERGY_REPORT_H
#define ENERGY_ENERGY_REPORT_H

#include "energy/power_log.h"
#include "energy/timing.h"

struct energy_inputs {
    const struct power_log *power;
    const struct full_timing *full;
    const struct isolated_timing *isolated;    /* NULL = none */
    const struct full_timing *application;     /* the program that was captured; NULL = none */
    const struct power_log *application_power; /* NULL = power */
    double idle_w, idle_half_w;                /* NAN = unknown; half of its 95 % interval */
};

/* The first seconds of a window that are not steady power. averaged: by a sensor that averages over
 * a second. */
double energy_settle_s(bool averaged);

/* A run of something, many times over. */
struct energy_whole {
    struct timing_window window;
    int64_t num_runs;
    double inference_us;
    struct energy energy;
    struct power_mean power;
    double total_energy_j, energy_per_inference_j; /* integrated; NAN = excluded */
    double low_j, high_j; /* of an inference: bounds by what its edges may be off (energy_of); of
                           * the counter's energy where there is one */
    double counter_energy_per_inference_j;
    double idle_w, idle_half_w; /* in the windows at rest around it; NAN = none */
    struct timing_under under;
    const char *how;
};

struct energy_kernel {
    const struct kernel_timing *timing;
    struct timing_window window;
    const char *name;
    int64_t tier, invocation_count, benchmark_runs;
    struct energy energy;
    struct power_mean power; /* steady */
    double window_energy_j, energy_per_invocation_j, energy_per_inference_j;
    double power_low_w, power_high_w;
    double busy_share;                    /* NAN = unknown */
    double sets_share;                    /* of its loop, taken at the power of sets; 0 = none */
    double running_power_w;               /* while it runs */
    double single_time_us, in_context_us; /* of one invocation */
    double in_context_energy_j;           /* of all of one run */
    double share_percent;                 /* of the in-context energy of all kernels */
    bool pooled;
    struct timing_under under;
    const char *how;
};

/* What the parts say of a whole, against what was measured of it. */
struct energy_prediction {
    bool known;
    double kernels_us, gap_us; /* of one run */
    double kernels_j, idle_j, energy_j, low_j, high_j;
    double measured_j, measured_low_j, measured_high_j, error_percent;
    double above_idle_j, measured_above_idle_j, above_idle_error_percent;
    double idle_w;                           /* that was taken */
    double at_loop_j, at_loop_error_percent; /* at the mean powers of the loops */
    double at_loop_above_idle_error_percent;
};

struct energy_report {
    struct energy_whole full;
    bool has_application;
    struct energy_whole application;
    struct energy_kernel *kernels; /* dearest in-context, else per inference, first */
    size_t n;
    int64_t num_measured, num_estimated, num_excluded; /* trapezoids, one sample, none */
    double predicted_j;                                /* the original's; NAN without kernels */
    double predicted_error_j, predicted_error_percent, ratio;
    double in_context_j, in_context_low_j, in_context_high_j; /* kernels alone, without gaps */
    double idle_w, idle_low_w, idle_high_w;
    double busy_share; /* of all loops, by the kernels' energy in context; NAN = unknown */
    struct energy_prediction whole, app; /* of the replayed region, of the application */
    const char **notes;
    size_t n_notes;
};

/* ST_INPUT: log and windows of which one has a zone. ST_REJECTED: no sample of power in the window
 * of the whole or the application, or none for more than 5 % of it. Lives in the arena, with what
 * `in` points to. */
enum st energy_report_make(struct arena *a, const struct energy_inputs *in,
                           struct energy_report *out, struct err *e);

/* gpu_energy_report.json (docs/formats.md). */
struct node *energy_report_node(struct arena *a, const struct energy_report *r);
/* The summary for people. */
void energy_report_text(struct arena *a, struct buf *out, const struct energy_report *r);
/* For pages. */
extern const struct fields energy_report_fields;

/* The energy of the whole alone, as `replay power=FILE` prints it; members of its node in `map`. */
enum st energy_whole_of(const struct power_log *log, const struct full_timing *t,
                        struct energy_whole *out, struct err *e);
void energy_whole_text(struct arena *a, struct buf *out, const char *what,
                       const struct energy_whole *w);
struct node *energy_whole_node(struct arena *a, const struct energy_whole *w);

#endif
