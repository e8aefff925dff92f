#include "gpu/watch.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "gpu/library.h"
#include "text/fields.h"

struct watch_sample {
    double sm_mhz, memory_mhz, power_w, celsius; /* NAN = unknown */
    unsigned long long reasons;
};

struct gpu_watch {
    struct gpu_nvml nvml;
    void *device; /* NULL: sees nothing */
    struct gpu_limits limits;
    int64_t interval_ns;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    bool stop;
    VEC(struct watch_sample) samples;
};

/* ---- one sample ------------------------------------------------------------------------------ */

static double clock_mhz(const struct gpu_watch *w, int clock)
{
    unsigned mhz;
    if (!w->nvml.nvmlDeviceGetClockInfo ||
        w->nvml.nvmlDeviceGetClockInfo(w->device, clock, &mhz) != 0)
        return NAN;
    return mhz;
}

/* The instantaneous reading; GPUs that lack it have the average of the last second. */
static double power_w(const struct gpu_watch *w)
{
    struct gpu_nvml_field field = {.id = NVML_FIELD_POWER_INSTANT};
    unsigned mw;
    if (w->nvml.nvmlDeviceGetFieldValues &&
        w->nvml.nvmlDeviceGetFieldValues(w->device, 1, &field) == 0 && field.result == 0 &&
        field.type == NVML_TYPE_UNSIGNED)
        return field.value.u / 1e3;
    if (w->nvml.nvmlDeviceGetPowerUsage && w->nvml.nvmlDeviceGetPowerUsage(w->device, &mw) == 0)
        return mw / 1e3;
    return NAN;
}

static struct watch_sample take_sample(const struct gpu_watch *w)
{
    enum { GPU_SENSOR = 0 };
    unsigned celsius;
    struct watch_sample s = {.sm_mhz = clock_mhz(w, NVML_CLOCK_SM),
                             .memory_mhz = clock_mhz(w, NVML_CLOCK_MEM),
                             .power_w = power_w(w),
                             .celsius = NAN};
    if (w->nvml.nvmlDeviceGetTemperature &&
        w->nvml.nvmlDeviceGetTemperature(w->device, GPU_SENSOR, &celsius) == 0)
        s.celsius = celsius;
    if (!w->nvml.nvmlDeviceGetCurrentClocksThrottleReasons ||
        w->nvml.nvmlDeviceGetCurrentClocksThrottleReasons(w->device, &s.reasons) != 0)
        s.reasons = 0;
    return s;
}

static void *watch(void *arg)
{
    struct gpu_watch *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        pthread_mutex_unlock(&w->lock);
        const struct watch_sample s = take_sample(w);
        pthread_mutex_lock(&w->lock);
        vec_push(&w->samples, s);
        const int64_t until = clock_wall_ns() + w->interval_ns;
        const struct timespec at = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
        if (!w->stop)
            pthread_cond_timedwait(&w->wake, &w->lock, &at);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static void read_limits(struct gpu_watch *w)
{
    unsigned v, pending;
    struct gpu_limits *l = &w->limits;
    w->nvml.nvmlSystemGetDriverVersion(l->driver, sizeof l->driver - 1);
    if (w->nvml.nvmlDeviceGetEnforcedPowerLimit &&
        w->nvml.nvmlDeviceGetEnforcedPowerLimit(w->device, &v) == 0)
        l->power_limit_w = v / 1e3;
    if (w->nvml.nvmlDeviceGetMaxClockInfo) {
        if (w->nvml.nvmlDeviceGetMaxClockInfo(w->device, NVML_CLOCK_SM, &v) == 0)
            l->max_sm_mhz = v;
        if (w->nvml.nvmlDeviceGetMaxClockInfo(w->device, NVML_CLOCK_MEM, &v) == 0)
            l->max_memory_mhz = v;
    }
    if (w->nvml.nvmlDeviceGetCurrPcieLinkGeneration &&
        w->nvml.nvmlDeviceGetCurrPcieLinkGeneration(w->device, &v) == 0)
        l->pcie_generation = v;
    if (w->nvml.nvmlDeviceGetCurrPcieLinkWidth &&
        w->nvml.nvmlDeviceGetCurrPcieLinkWidth(w->device, &v) == 0)
        l->pcie_lanes = v;
    if (w->nvml.nvmlDeviceGetMigMode && w->nvml.nvmlDeviceGetMigMode(w->device, &v, &pending) == 0)
        l->mig = v != 0;
}

void gpu_watch_open(const char *uuid, int interval_ms, struct gpu_watch **out)
{
    struct err e = {0};
    struct gpu_watch *w = mem_alloc(sizeof *w);
    w->limits.power_limit_w = w->limits.max_sm_mhz = w->limits.max_memory_mhz = NAN;
    w->interval_ns = interval_ms * NS_PER_MS;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    *out = w;
    if (gpu_nvml_open(&w->nvml, &e) != ST_OK || !w->nvml.nvmlDeviceGetHandleByUUID ||
        w->nvml.nvmlDeviceGetHandleByUUID(uuid, &w->device) != 0) {
        w->device = NULL;
        return;
    }
    read_limits(w);
    w->running = pthread_create(&w->thread, NULL, watch, w) == 0;
}

void gpu_watch_close(struct gpu_watch **out)
{
    struct gpu_watch *w = *out;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->running)
        pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    vec_free(&w->samples);
    mem_free(w);
    *out = NULL;
}

struct gpu_limits gpu_watch_limits(struct gpu_watch *w)
{
    if (w->device)
        read_limits(w);
    return w->limits;
}

/* ---- summaries ------------------------------------------------------------------------------- */

static int compare_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of one member over all samples: median, lowest and highest; NAN when none is known. */
struct range {
    double median, low, high;
};

static struct range range_of(const struct watch_sample *s, size_t n, size_t offset)
{
    struct range r = {NAN, NAN, NAN};
    double *v = mem_alloc((n + 1) * sizeof *v);
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, (const char *)&s[i] + offset, sizeof x);
        if (!isnan(x))
            v[known++] = x;
    }
    qsort(v, known, sizeof *v, compare_double);
    if (known)
        r = (struct range){(v[(known - 1) / 2] + v[known / 2]) / 2, v[0], v[known - 1]};
    mem_free(v);
    return r;
}

struct gpu_conditions gpu_watch_take(struct gpu_watch *w)
{
    struct gpu_conditions c = {0};
    if (w->device) { /* the state now counts too, however short the time was */
        const struct watch_sample now = take_sample(w);
        pthread_mutex_lock(&w->lock);
        vec_push(&w->samples, now);
    } else {
        pthread_mutex_lock(&w->lock);
    }
    const struct watch_sample *s = w->samples.p;
    const size_t n = w->samples.n;
    const struct range sm = range_of(s, n, offsetof(struct watch_sample, sm_mhz));
    const struct range power = range_of(s, n, offsetof(struct watch_sample, power_w));
    c.samples = (int64_t)n;
    c.sm_mhz = sm.median;
    c.sm_mhz_low = sm.low;
    c.memory_mhz = range_of(s, n, offsetof(struct watch_sample, memory_mhz)).median;
    c.power_w = power.median;
    c.power_w_high = power.high;
    c.celsius_high = range_of(s, n, offsetof(struct watch_sample, celsius)).high;
    for (size_t i = 0; i < n; i++)
        c.reasons |= s[i].reasons;
    vec_clear(&w->samples);
    pthread_mutex_unlock(&w->lock);
    return c;
}

static struct node *limits_node(struct arena *a, const void *conditions)
{
    const struct gpu_conditions *c = conditions;
    return node_str(a, gpu_reason_words(a, c->reasons));
}

static const struct field condition_rows[] = {
    FIELD(struct gpu_conditions, samples),      FIELD(struct gpu_conditions, sm_mhz),
    FIELD(struct gpu_conditions, sm_mhz_low),   FIELD(struct gpu_conditions, memory_mhz),
    FIELD(struct gpu_conditions, power_w),      FIELD(struct gpu_conditions, power_w_high),
    FIELD(struct gpu_conditions, celsius_high), FIELD_MADE("clock_limits", limits_node),
};
static const struct fields condition_fields = FIELDS(struct gpu_conditions, condition_rows);

struct node *gpu_conditions_node(struct arena *a, const struct gpu_conditions *c)
{
    return fields_node(a, &condition_fields, c);
}

const char *gpu_reason_words(struct arena *a, unsigned long long reasons)
{
    const char *text = "";
#define X(name, bit, words) \
    if (reasons & (bit))    \
        text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", words);
    GPU_NVML_REASONS(X)
#undef X
    return text;
}

bool gpu_reasons_reject(unsigned long long reasons)
{
    return (reasons & (NVML_REASON_HW_SLOWDOWN | NVML_REASON_SW_THERMAL | NVML_REASON_HW_THERMAL |
                       NVML_REASON_POWER_BRAKE)) != 0;
}
