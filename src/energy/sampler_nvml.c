/* Power and energy of a GPU by NVML. */
#include <math.h>
#include <stdbool.h>

#include "energy/sampler.h"
#include "gpu/library.h"

struct nvml_sensor {
    struct gpu_nvml nvml;
    void *device;
};

enum { NVML_NOT_SUPPORTED = 3, NVML_NO_PERMISSION = 4, NVML_NOT_FOUND = 6, NVML_GPU_IS_LOST = 15 };

static enum st failed(struct err *e, const char *call, int result)
{
    static const struct {
        int result;
        const char *words, *remedy;
    } rows[] = {
        {NVML_NOT_SUPPORTED, "not supported by this GPU or in this container",
         "energy.sampler= takes another one; twinfer energy probe says which answer"},
        {NVML_NO_PERMISSION, "not permitted",
         "the container or user lacks the right: run as root, or ask for it"},
        {NVML_NOT_FOUND, "NVML does not know this GPU", NULL},
        {NVML_GPU_IS_LOST, "the GPU is lost", "dmesg shows the driver's messages"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].result == result) {
            err_set(e, ST_DEVICE, "%s: %s (%d)", call, rows[i].words, result);
            return rows[i].remedy ? err_hint(e, "%s", rows[i].remedy) : e->st;
        }
    return err_set(e, ST_DEVICE, "%s: error %d", call, result);
}

static enum st read_counter(void *self, double *joules, struct err *e)
{
    const struct nvml_sensor *s = self;
    unsigned long long mj;
    const int result = s->nvml.nvmlDeviceGetTotalEnergyConsumption(s->device, &mj);
    if (result != 0)
        return failed(e, "nvmlDeviceGetTotalEnergyConsumption", result);
    *joules = (double)mj / 1e3;
    return ST_OK;
}

static enum st read_instant(void *self, double *watts, struct err *e)
{
    const struct nvml_sensor *s = self;
    struct gpu_nvml_field field = {.id = NVML_FIELD_POWER_INSTANT};
    int result = s->nvml.nvmlDeviceGetFieldValues(s->device, 1, &field);
    if (result == 0)
        result = field.result;
    if (result == 0 && field.type != NVML_TYPE_UNSIGNED)
        return err_set(e, ST_DEVICE, "field %d of NVML is of another type (%u)",
                       (int)NVML_FIELD_POWER_INSTANT, field.type);
    if (result != 0)
        return failed(e, "nvmlDeviceGetFieldValues, field 186", result);
    *watts = field.value.u / 1e3;
    return ST_OK;
}

static enum st read_average(void *self, double *watts, struct err *e)
{
    const struct nvml_sensor *s = self;
    unsigned mw;
    const int result = s->nvml.nvmlDeviceGetPowerUsage(s->device, &mw);
    if (result != 0)
        return failed(e, "nvmlDeviceGetPowerUsage", result);
    *watts = mw / 1e3;
    return ST_OK;
}

static enum st open_device(struct arena *a, const struct sampler_params *p,
                           struct nvml_sensor **out, struct err *e)
{
    struct nvml_sensor *s = arena_one(a, struct nvml_sensor);
    *out = s;
    if (!p->uuid)
        return err_set(e, ST_DEVICE, "no GPU was named for NVML");
    TRY(gpu_nvml_open(&s->nvml, e));
    if (!s->nvml.nvmlDeviceGetHandleByUUID)
        return err_set(e, ST_DEVICE, "%s lacks nvmlDeviceGetHandleByUUID", GPU_NVML_LIBRARY);
    const int result = s->nvml.nvmlDeviceGetHandleByUUID(p->uuid, &s->device);
    return result == 0 ? ST_OK : failed(e, "nvmlDeviceGetHandleByUUID", result);
}

/* The first reading shows whether the sensor answers. */
static enum st opened(struct nvml_sensor *s, bool bound, const char *call,
                      enum st (*read)(void *, double *, struct err *), void **self, struct err *e)
{
    double v;
    *self = s;
    if (!bound)
        return err_set(e, ST_DEVICE, "%s lacks %s", GPU_NVML_LIBRARY, call);
    return read(s, &v, e);
}

static enum st open_counter(struct arena *a, const struct sampler_params *p, void **self,
                            struct err *e)
{
    struct nvml_sensor *s;
    TRY(open_device(a, p, &s, e));
    return opened(s, s->nvml.nvmlDeviceGetTotalEnergyConsumption != NULL,
                  "nvmlDeviceGetTotalEnergyConsumption", read_counter, self, e);
}

static enum st open_instant(struct arena *a, const struct sampler_params *p, void **self,
                            struct err *e)
{
    struct nvml_sensor *s;
    TRY(open_device(a, p, &s, e));
    return opened(s, s->nvml.nvmlDeviceGetFieldValues != NULL, "nvmlDeviceGetFieldValues",
                  read_instant, self, e);
}

static enum st open_average(struct arena *a, const struct sampler_params *p, void **self,
                            struct err *e)
{
    struct nvml_sensor *s;
    TRY(open_device(a, p, &s, e));
    return opened(s, s->nvml.nvmlDeviceGetPowerUsage != NULL, "nvmlDeviceGetPowerUsage",
                  read_average, self, e);
}

const struct sampler_ops sampler_nvml_counter = {.name = "nvml_counter",
                                                 .what = "energy counter of the GPU",
                                                 .kind = SAMPLER_ENERGY,
                                                 .averages_s = 0,
                                                 .needs = "NVML",
                                                 .open = open_counter,
                                                 .read = read_counter};
const struct sampler_ops sampler_nvml_instant = {.name = "nvml_instant",
                                                 .what = "power of the GPU now",
                                                 .kind = SAMPLER_POWER,
                                                 .averages_s = 0,
                                                 .needs = "NVML",
                                                 .open = open_instant,
                                                 .read = read_instant};
const struct sampler_ops sampler_nvml_average = {.name = "nvml_average",
                                                 .what = "power of the GPU over the last second",
                                                 .kind = SAMPLER_POWER,
                                                 .averages_s = 1,
                                                 .needs = "NVML",
                                                 .open = open_average,
                                                 .read = read_average};
