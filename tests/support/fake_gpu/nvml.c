/* libnvidia-ml.so.1: the busy GPUs of the fake libcuda, devices=N of them. Device d draws d + 1
 * times what the first one draws. That one's power is power_mw, or FAKE_POWER in the
 * environment: "0:100 1:100 1:300", seconds from the first look and watts, linear in between. Its
 * sensors then follow that every power_tick_ms (100): the counter with its integral, power now with
 * its value, the average with its mean over average_ms (1000).
 *
 * FAKE_READINGS in the environment is a file to which each reading of the counter adds a byte: a
 * test that needs some of them waits for them. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/cuda.h"
#include "gpu/nvml.h"
#include "support/fake_gpu/fake_gpu.h"

#define X(name, arguments, needed) FAKE_EXPORT int name arguments;
GPU_NVML_LIST(X)
#undef X

enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6 };

enum { MAX_DEVICES = 16 };
static int the_devices[MAX_DEVICES];

static unsigned index_of(const void *device)
{
    return (unsigned)((const int *)device - the_devices);
}

static unsigned devices(void)
{
    return (unsigned)fake_script_number("devices", 1);
}

/* That of cuDeviceGetUuid_v2, whose bytes are i * 16 + d. */
static void uuid_text(unsigned d, char *out, size_t bytes)
{
    snprintf(out, bytes, "GPU-0%x1%x2%x3%x-4%x5%x-6%x7%x-8%x9%x-a%xb%xc%xd%xe%xf%x", d, d, d, d, d,
             d, d, d, d, d, d, d, d, d, d, d);
}

int nvmlInit_v2(void)
{
    return fake_script_fail("nvmlInit_v2");
}

int nvmlSystemGetDriverVersion(char *out, unsigned bytes)
{
    snprintf(out, bytes, "580.00.01");
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = devices();
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &the_devices[index % MAX_DEVICES];
    return index < devices() ? NVML_SUCCESS : NVML_NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    for (unsigned d = 0; d < devices(); d++) {
        char mine[GPU_UUID_TEXT];
        uuid_text(d, mine, sizeof mine);
        *device = &the_devices[d];
        if (strcmp(mine, uuid) == 0)
            return NVML_SUCCESS;
    }
    return NVML_NOT_FOUND;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned bytes)
{
    uuid_text(index_of(device), out, bytes);
    return NVML_SUCCESS;
}

int nvmlDeviceGetName(void *device, char *out, unsigned bytes)
{
    snprintf(out, bytes, "Fake GPU %u", index_of(device));
    return NVML_SUCCESS;
}

/* ---- scripted power -------------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Joules up to s, and watts there. */
static double integral(const char *curve, double s, double *watts)
{
    double joules = 0, at = 0, w = NAN;
    for (char *end; *curve; curve = end) {
        const double next_at = strtod(curve, &end);
        if (end == curve || *end != ':')
            abort();
        const double next_w = strtod(end + 1, &end);
        if (isnan(w))
            w = next_w;
        if (next_at > s) {
            const double part = (s - at) / (next_at - at), there = w + part * (next_w - w);
            *watts = there;
            return joules + (w + there) / 2 * (s - at);
        }
        joules += (w + next_w) / 2 * (next_at - at);
        at = next_at;
        w = next_w;
    }
    *watts = w;
    return joules + w * (s - at);
}

/* Seconds since the curve was first looked at, down to the last tick; false = no curve. Several
 * threads look. */
static bool scripted(const char **curve, double *tick_at)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char last[1024];
    static double began;
    *curve = getenv("FAKE_POWER");
    if (!*curve)
        return false;
    const double tick = (double)fake_script_number("power_tick_ms", 100) / 1e3;
    pthread_mutex_lock(&lock);
    if (strcmp(*curve, last) != 0) {
        snprintf(last, sizeof last, "%s", *curve);
        began = now_s();
    }
    *tick_at = floor((now_s() - began) / tick) * tick;
    pthread_mutex_unlock(&lock);
    return true;
}

static void note_reading(void)
{
    const char *path = getenv("FAKE_READINGS");
    FILE *f = path ? fopen(path, "ae") : NULL;
    if (!f)
        return;
    fputc('.', f);
    fclose(f);
}

static unsigned instant_mw(void)
{
    const char *curve;
    double at, w;
    if (!scripted(&curve, &at))
        return (unsigned)fake_script_number("power_mw", 650000);
    integral(curve, at, &w);
    return (unsigned)lround(w * 1e3);
}

static unsigned average_mw(void)
{
    const char *curve;
    double at, w;
    if (!scripted(&curve, &at))
        return (unsigned)fake_script_number("power_mw", 650000);
    const double width = (double)fake_script_number("average_ms", 1000) / 1e3;
    const double from = at > width ? at - width : 0;
    double joules = integral(curve, at, &w) - integral(curve, from, &w);
    integral(curve, 0, &w);
    joules += w * (width - (at - from)); /* before the curve begins */
    return (unsigned)lround(joules / width * 1e3);
}

static int give(const char *key, int64_t value, unsigned *out)
{
    *out = (unsigned)fake_script_number(key, value);
    return fake_script_fail(key);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw)
{
    *mw = average_mw() * (index_of(device) + 1);
    return fake_script_fail("power_mw");
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw)
{
    (void)device;
    return give("limit_mw", 700000, mw);
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj)
{
    const char *curve;
    double at, w;
    *mj = (unsigned long long)fake_script_number("energy_mj", 1000);
    if (scripted(&curve, &at))
        *mj += (unsigned long long)llround(integral(curve, at, &w) * 1e3 * (index_of(device) + 1));
    note_reading();
    return fake_script_fail("nvmlDeviceGetTotalEnergyConsumption");
}

int nvmlDeviceGetFieldValues(void *device, int n, struct gpu_nvml_field *fields)
{
    for (int i = 0; i < n; i++) {
        fields[i].type = NVML_TYPE_UNSIGNED;
        fields[i].result = fields[i].id == NVML_FIELD_POWER_INSTANT ? fake_script_fail("field_186")
                                                                    : NVML_NOT_SUPPORTED;
        fields[i].value.u = instant_mw() * (index_of(device) + 1);
    }
    return fake_script_fail("nvmlDeviceGetFieldValues");
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz)
{
    (void)device;
    return clock == NVML_CLOCK_SM ? give("sm_mhz", 1755, mhz) : give("mem_mhz", 3201, mhz);
}

int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz)
{
    (void)device;
    return clock == NVML_CLOCK_SM ? give("max_sm_mhz", 1980, mhz) : give("max_mem_mhz", 3201, mhz);
}

int nvmlDeviceGetPersistenceMode(void *device, int *on)
{
    (void)device;
    *on = 1;
    return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, struct gpu_nvml_memory *memory)
{
    (void)device;
    *memory = (struct gpu_nvml_memory){256 << 20, 256 << 20, 0};
    return NVML_SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, struct gpu_nvml_utilization *u)
{
    (void)device;
    *u = (struct gpu_nvml_utilization){100, 50};
    return NVML_SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    (void)device, (void)sensor;
    return give("celsius", 55, celsius);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *set)
{
    (void)device;
    *set = (unsigned long long)fake_script_number("reasons", 4);
    return fake_script_fail("nvmlDeviceGetCurrentClocksThrottleReasons");
}

int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *generation)
{
    (void)device;
    return give("pcie_generation", 5, generation);
}

int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *lanes)
{
    (void)device;
    return give("pcie_lanes", 16, lanes);
}

static void add_scripted(const char *key, const void *device, unsigned *k,
                         struct gpu_nvml_process *of)
{
    char name[16];
    snprintf(name, sizeof name, "%s%u", key, index_of(device));
    const int64_t pid = fake_script_number(name, 0);
    if (pid)
        of[(*k)++].pid = (unsigned)pid;
}

/* own=1: this process is one of them; processes=N others; pid<d>=PID and also<d>=PID those, on
 * device d. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, struct gpu_nvml_process *of)
{
    unsigned k = 0;
    add_scripted("pid", device, &k, of);
    add_scripted("also", device, &k, of);
    if (fake_script_number("own", 0))
        of[k++].pid = (unsigned)getpid();
    for (int64_t i = 0; i < fake_script_number("processes", 0); i++)
        of[k++].pid = 4000000000u + (unsigned)i;
    *n = k;
    return fake_script_fail("nvmlDeviceGetComputeRunningProcesses_v3");
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    (void)device;
    *current = *pending = 0;
    return NVML_SUCCESS;
}
