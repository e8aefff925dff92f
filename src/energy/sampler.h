/* Sensors of power and energy. One row of an ops table each:
 *
 *     nvml_counter   the energy counter of a GPU (nvmlDeviceGetTotalEnergyConsumption)
 *     nvml_instant   its power now (field 186)
 *     nvml_average   its power over the last second (nvmlDeviceGetPowerUsage)
 *     rapl           the counters of the processor packages (powercap), where they can be read
 *     csv            a power log, played from its first sample on
 *     fake           a curve: "0:100 1:100 1:300 3:300", seconds and watts, linear in between
 *
 * A reading of NVML takes 1 to 4 ms in a virtual machine: only the recorder's own thread reads
 * (energy/recorder.h). What a sensor averages over is stated in its row, as measured on an H200
 * (driver 580); how often it is updated is measured when a recorder starts.
 *
 * To add one: its row in sampler.c; tests/conform/sampler_test.c takes it up. */
#ifndef ENERGY_SAMPLER_H
#define ENERGY_SAMPLER_H

#include "base/arena.h"
#include "base/str.h"

struct sampler_params {
    const char *uuid;  /* of the GPU, "GPU-1b2c..."; for NVML */
    const char *path;  /* csv: the log; rapl: NULL = /sys/class/powercap */
    int64_t gpu;       /* csv: whose rows */
    const char *curve; /* fake */
};

struct sampler_ops {
    const char *name, *what; /* what = "power of the GPU now" */
    enum sampler_kind {
        SAMPLER_POWER,  /* watts */
        SAMPLER_ENERGY, /* joules since some moment, never falling */
    } kind;
    double
        averages_s; /* a reading is the mean over that long before it; 0 = no mean; NAN = unknown */
    const char *needs; /* for --help and errors: "NVML", "the curve" */
    /* Texts of *self live in the arena. ST_DEVICE: not there, not permitted, not supported, each
     * with its remedy; ST_INPUT of a file, ST_USAGE of a curve. */
    enum st (*open)(struct arena *a, const struct sampler_params *p, void **self, struct err *e);
    /* The newest reading. ST_DEVICE when the sensor failed now; the next one may come. From one
     * thread at a time, which need not be the opener's. */
    enum st (*read)(void *self, double *value, struct err *e);
    void (*close)(void *self); /* frees what the arena does not hold; NULL = nothing */
};

extern const struct sampler_ops *const samplers[]; /* ends with NULL */
/* NULL when there is none of that name. */
const struct sampler_ops *sampler_find(const char *name);
/* "nvml_counter, nvml_instant, ..." */
void sampler_names(struct buf *out);

extern const struct sampler_ops sampler_nvml_counter, sampler_nvml_instant, sampler_nvml_average,
    sampler_rapl, sampler_csv, sampler_fake;

/* A curve of the fake sensor: linear between its points, constant beyond. */
struct power_curve {
    double *s, *w;
    size_t n;
};
enum st power_curve_parse(struct arena *a, const char *text, struct power_curve *out,
                          struct err *e);
double power_curve_at(const struct power_curve *c, double s);

#endif
