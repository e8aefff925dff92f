/* libnvidia-ml.so.1: one busy GPU, the fake libcuda's. */
#include <stdio.h>
#include <string.h>

#include "gpu/cuda.h"
#include "gpu/nvml.h"
#include "support/fake_gpu/fake_gpu.h"

#define X(name, arguments, needed) FAKE_EXPORT int name arguments;
GPU_NVML_LIST(X)
#undef X

enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6 };

static int the_device;

static void uuid_text(char *out, size_t bytes)
{
    snprintf(out, bytes, "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0");
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
    *n = 1;
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &the_device;
    return index == 0 ? NVML_SUCCESS : NVML_NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    char mine[GPU_UUID_TEXT];
    uuid_text(mine, sizeof mine);
    *device = &the_device;
    return strcmp(mine, uuid) == 0 ? NVML_SUCCESS : NVML_NOT_FOUND;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned bytes)
{
    (void)device;
    uuid_text(out, bytes);
    return NVML_SUCCESS;
}

int nvmlDeviceGetName(void *device, char *out, unsigned bytes)
{
    (void)device;
    snprintf(out, bytes, "Fake GPU 0");
    return NVML_SUCCESS;
}

static int give(const char *key, int64_t value, unsigned *out)
{
    *out = (unsigned)fake_script_number(key, value);
    return fake_script_fail(key);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw)
{
    (void)device;
    return give("power_mw", 650000, mw);
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw)
{
    (void)device;
    return give("limit_mw", 700000, mw);
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj)
{
    (void)device;
    *mj = (unsigned long long)fake_script_number("energy_mj", 1000);
    return NVML_SUCCESS;
}

int nvmlDeviceGetFieldValues(void *device, int n, struct gpu_nvml_field *fields)
{
    (void)device;
    for (int i = 0; i < n; i++) {
        fields[i].type = NVML_TYPE_UNSIGNED;
        fields[i].result =
            fields[i].id == NVML_FIELD_POWER_INSTANT ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
        fields[i].value.u = (unsigned)fake_script_number("power_mw", 650000);
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

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    (void)device;
    *current = *pending = 0;
    return NVML_SUCCESS;
}
