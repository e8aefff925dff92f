/* NVML, opened at run time. Many machines have its library but no header: the functions used are
 * declared here. X(name, arguments, needed). Results are nvmlReturn_t's numbers (0 = success);
 * devices are opaque pointers. */
#ifndef GPU_NVML_H
#define GPU_NVML_H

#include <stddef.h>
#include <stdint.h>

struct gpu_nvml_memory {
    unsigned long long total, free, used; /* bytes */
};
struct gpu_nvml_utilization {
    unsigned gpu, memory; /* % */
};

#define GPU_NVML_LIST(X)                                                                \
    X(nvmlInit_v2, (void), 1)                                                           \
    X(nvmlSystemGetDriverVersion, (char *out, unsigned bytes), 1)                       \
    X(nvmlDeviceGetCount_v2, (unsigned *n), 1)                                          \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **device), 1)                \
    X(nvmlDeviceGetHandleByUUID, (const char *uuid, void **device), 0)                  \
    X(nvmlDeviceGetUUID, (void *device, char *out, unsigned bytes), 1)                  \
    X(nvmlDeviceGetName, (void *device, char *out, unsigned bytes), 1)                  \
    X(nvmlDeviceGetPowerUsage, (void *device, unsigned *mw), 0)                         \
    X(nvmlDeviceGetEnforcedPowerLimit, (void *device, unsigned *mw), 0)                 \
    X(nvmlDeviceGetTotalEnergyConsumption, (void *device, unsigned long long *mj), 0)   \
    X(nvmlDeviceGetClockInfo, (void *device, int clock, unsigned *mhz), 0)              \
    X(nvmlDeviceGetMaxClockInfo, (void *device, int clock, unsigned *mhz), 0)           \
    X(nvmlDeviceGetPersistenceMode, (void *device, int *on), 0)                         \
    X(nvmlDeviceGetMemoryInfo, (void *device, struct gpu_nvml_memory *memory), 0)       \
    X(nvmlDeviceGetUtilizationRates, (void *device, struct gpu_nvml_utilization *u), 0) \
    X(nvmlDeviceGetTemperature, (void *device, int sensor, unsigned *celsius), 0)

struct gpu_nvml {
#define X(name, arguments, needed) int(*name) arguments;
    GPU_NVML_LIST(X)
#undef X
};

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };

#define GPU_NVML_LIBRARY "libnvidia-ml.so.1"

#endif
