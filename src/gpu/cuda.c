#include "gpu/cuda.h"

#include <dlfcn.h>
#include <string.h>

#include "gpu/abi/cuda.h"

const char *gpu_cuda_bind(struct gpu_cuda *cuda, void *library)
{
    const char *missing = NULL;
#define X(name, arguments, needed)                 \
    *(void **)&cuda->name = dlsym(library, #name); \
    if (!cuda->name && (needed) && !missing)       \
        missing = #name;
    GPU_CUDA_LIST(X)
#undef X
    return missing;
}

bool gpu_device_facts(const struct gpu_cuda *cuda, int ordinal, struct gpu_device *out)
{
    *out = (struct gpu_device){0};
    int device = 0;
    if (!cuda->cuDeviceGet || cuda->cuDeviceGet(&device, ordinal) != 0)
        return false;
    cuda->cuDeviceGetName(out->name, sizeof out->name, device);
    out->name[sizeof out->name - 1] = 0;
    if (cuda->cuDeviceGetUuid_v2)
        cuda->cuDeviceGetUuid_v2(out->uuid, device);
    else if (cuda->cuDeviceGetUuid)
        cuda->cuDeviceGetUuid(out->uuid, device);
    size_t bytes = 0;
    if (cuda->cuDeviceTotalMem_v2(&bytes, device) == 0)
        out->memory_bytes = bytes;
    const struct {
        CUdevice_attribute attribute;
        uint32_t *at;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &out->sm_clock_khz},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->sms},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &out->pci_bus},
        {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &out->pci_device},
        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &out->pci_domain},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &out->memory_clock_khz},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &out->bus_width_bits},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &out->l2_bytes},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &out->max_threads_per_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &out->max_shared_bytes_per_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &out->max_shared_bytes_per_block},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &out->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &out->minor},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int value = 0;
        if (cuda->cuDeviceGetAttribute(&value, (int)rows[i].attribute, device) == 0 && value > 0)
            *rows[i].at = (uint32_t)value;
    }
    out->bandwidth_bytes_per_s =
        (uint64_t)out->memory_clock_khz * 1000 * 2 * (out->bus_width_bits / 8);
    return true;
}

void gpu_uuid_text(const uint8_t uuid[16], char out[GPU_UUID_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    memcpy(out, "GPU-", 4);
    size_t n = 4;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out[n++] = '-';
        out[n++] = digits[uuid[i] >> 4];
        out[n++] = digits[uuid[i] & 15];
    }
    out[n] = 0;
}
