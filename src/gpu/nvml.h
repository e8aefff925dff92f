/* NVML, opened at run time. Many machines have its library but no header: the functions used are
 * declared here. X(name, arguments, needed). Results are nvmlReturn_t's numbers (0 = success);
 * devices are opaque pointers. One call takes 1 to 4 ms in a virtual machine: never from a thread
 * that feeds a GPU (gpu/watch.h). */
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
/* nvmlProcessInfo_v2_t */
struct gpu_nvml_process {
    unsigned pid; /* in the host's namespace */
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};
/* nvmlFieldValue_t */
struct gpu_nvml_field {
    unsigned id, scope;
    long long timestamp_us, latency_us;
    unsigned type; /* of the value: NVML_TYPE_... */
    int result;    /* of this field */
    union {
        double d;
        unsigned u;
        unsigned long long ull;
        long long sll;
    } value;
};
enum {
    NVML_TYPE_DOUBLE,
    NVML_TYPE_UNSIGNED,
    NVML_TYPE_UNSIGNED_LONG,
    NVML_TYPE_UNSIGNED_LONG_LONG
};
enum { NVML_FIELD_POWER_INSTANT = 186 }; /* mW, newer by up to 100 ms, not averaged */

#define GPU_NVML_LIST(X)                                                                     \
    X(nvmlInit_v2, (void), 1)                                                                \
    X(nvmlSystemGetDriverVersion, (char *out, unsigned bytes), 1)                            \
    X(nvmlDeviceGetCount_v2, (unsigned *n), 1)                                               \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **device), 1)                     \
    X(nvmlDeviceGetHandleByUUID, (const char *uuid, void **device), 0)                       \
    X(nvmlDeviceGetUUID, (void *device, char *out, unsigned bytes), 1)                       \
    X(nvmlDeviceGetName, (void *device, char *out, unsigned bytes), 1)                       \
    X(nvmlDeviceGetPowerUsage, (void *device, unsigned *mw), 0)                              \
    X(nvmlDeviceGetEnforcedPowerLimit, (void *device, unsigned *mw), 0)                      \
    X(nvmlDeviceGetTotalEnergyConsumption, (void *device, unsigned long long *mj), 0)        \
    X(nvmlDeviceGetFieldValues, (void *device, int n, struct gpu_nvml_field *fields), 0)     \
    X(nvmlDeviceGetClockInfo, (void *device, int clock, unsigned *mhz), 0)                   \
    X(nvmlDeviceGetMaxClockInfo, (void *device, int clock, unsigned *mhz), 0)                \
    X(nvmlDeviceGetPersistenceMode, (void *device, int *on), 0)                              \
    X(nvmlDeviceGetMemoryInfo, (void *device, struct gpu_nvml_memory *memory), 0)            \
    X(nvmlDeviceGetUtilizationRates, (void *device, struct gpu_nvml_utilization *u), 0)      \
    X(nvmlDeviceGetTemperature, (void *device, int sensor, unsigned *celsius), 0)            \
    X(nvmlDeviceGetCurrentClocksThrottleReasons, (void *device, unsigned long long *set), 0) \
    X(nvmlDeviceGetCurrPcieLinkGeneration, (void *device, unsigned *generation), 0)          \
    X(nvmlDeviceGetCurrPcieLinkWidth, (void *device, unsigned *lanes), 0)                    \
    X(nvmlDeviceGetComputeRunningProcesses_v3,                                               \
      (void *device, unsigned *n, struct gpu_nvml_process *of), 0)                           \
    X(nvmlDeviceGetMigMode, (void *device, unsigned *current, unsigned *pending), 0)

struct gpu_nvml {
#define X(name, arguments, needed) int(*name) arguments;
    GPU_NVML_LIST(X)
#undef X
};

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };

/* Bits of nvmlDeviceGetCurrentClocksThrottleReasons: what holds the clocks down. */
#define GPU_NVML_REASONS(X)                          \
    X(GPU_IDLE, 0x1, "idle")                         \
    X(SETTING, 0x2, "clock setting")                 \
    X(POWER_CAP, 0x4, "power cap")                   \
    X(HW_SLOWDOWN, 0x8, "hardware slowdown")         \
    X(SYNC_BOOST, 0x10, "sync boost")                \
    X(SW_THERMAL, 0x20, "software thermal slowdown") \
    X(HW_THERMAL, 0x40, "hardware thermal slowdown") \
    X(POWER_BRAKE, 0x80, "power brake")              \
    X(DISPLAY, 0x100, "display clock setting")
#define X(name, bit, words) NVML_REASON_##name = bit,
enum { GPU_NVML_REASONS(X) };
#undef X

#define GPU_NVML_LIBRARY "libnvidia-ml.so.1"

#endif
