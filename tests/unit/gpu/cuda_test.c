/* The table of driver functions, and the facts of a device, from a driver that stands in this file.
 */
#include "gpu/cuda.h"

#include <dlfcn.h>
#include <stdio.h>

#include "gpu/abi/cuda.h"
#include "support/support.h"

enum { DEVICES = 1, INVALID_DEVICE = 101, INVALID_VALUE = 1 };

static int get_device(int *device, int ordinal)
{
    *device = ordinal + 40;
    return ordinal >= 0 && ordinal < DEVICES ? 0 : INVALID_DEVICE;
}

static int get_name(char *name, int bytes, int device)
{
    memset(name, 'x', (size_t)bytes); /* a driver that forgets the NUL */
    return device == 40 ? 0 : INVALID_DEVICE;
}

static int get_attribute(int *value, int attribute, int device)
{
    static const int values[128] = {
        [CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1980000,
        [CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 132,
        [CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] = 0x1b,
        [CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 3201000,
        [CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 6144,
        [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = -5,
        [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9,
    };
    if (device != 40 || attribute == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
        return INVALID_VALUE;
    *value = values[attribute];
    return 0;
}

static int get_memory(size_t *bytes, int device)
{
    *bytes = (size_t)141 << 30;
    return device == 40 ? 0 : INVALID_DEVICE;
}

static int get_uuid(unsigned char uuid[16], int device)
{
    memset(uuid, device, 16);
    return 0;
}

static int get_uuid_v2(unsigned char uuid[16], int device)
{
    memset(uuid, device + 1, 16);
    return 0;
}

static struct gpu_cuda driver(void)
{
    return (struct gpu_cuda){.cuDeviceGet = get_device,
                             .cuDeviceGetName = get_name,
                             .cuDeviceGetAttribute = get_attribute,
                             .cuDeviceTotalMem_v2 = get_memory,
                             .cuDeviceGetUuid = get_uuid,
                             .cuDeviceGetUuid_v2 = get_uuid_v2};
}

static void facts_of_a_device(void **state)
{
    struct gpu_cuda cuda = driver();
    struct gpu_device d;
    (void)state;
    assert_true(gpu_device_facts(&cuda, 0, &d));
    assert_int_equal(strlen(d.name), sizeof d.name - 1);
    assert_int_equal(d.uuid[0], 41);
    assert_int_equal(d.sms, 132);
    assert_int_equal(d.pci_bus, 0x1b);
    assert_int_equal(d.major, 9);
    assert_int_equal(d.sm_clock_khz, 1980000);
    assert_int_equal(d.memory_bytes, (uint64_t)141 << 30);
    /* 3.201 GHz, both edges, 768 bytes */
    assert_int_equal(d.bandwidth_bytes_per_s, UINT64_C(3201000) * 1000 * 2 * 768);
}

static void what_the_driver_does_not_say_is_zero(void **state)
{
    struct gpu_cuda cuda = driver();
    struct gpu_device d;
    (void)state;
    assert_true(gpu_device_facts(&cuda, 0, &d));
    assert_int_equal(d.l2_bytes, 0);           /* an error */
    assert_int_equal(d.max_threads_per_sm, 0); /* a negative number */
    assert_int_equal(d.minor, 0);
    cuda.cuDeviceGetUuid_v2 = NULL; /* of CUDA 11.4; the older one is asked then */
    assert_true(gpu_device_facts(&cuda, 0, &d));
    assert_int_equal(d.uuid[0], 40);
    cuda.cuDeviceGetUuid = NULL;
    assert_true(gpu_device_facts(&cuda, 0, &d));
    assert_int_equal(d.uuid[0], 0);
}

static void absent_devices_have_no_facts(void **state)
{
    struct gpu_cuda cuda = driver();
    struct gpu_device d = {.sms = 7};
    (void)state;
    assert_false(gpu_device_facts(&cuda, DEVICES, &d));
    assert_int_equal(d.sms, 0);
    assert_false(gpu_device_facts(&cuda, -1, &d));
    assert_false(gpu_device_facts(&(struct gpu_cuda){0}, 0, &d));
}

static void the_first_missing_function_is_named(void **state)
{
    struct gpu_cuda cuda;
    void *self = dlopen(NULL, RTLD_NOW); /* this program has none of them */
    (void)state;
    memset(&cuda, 0xff, sizeof cuda);
    assert_string_equal(gpu_cuda_bind(&cuda, self), "cuInit");
    assert_null(cuda.cuInit);
    assert_null(cuda.cuGraphLaunch);
    dlclose(self);
}

static void uuids_are_written_as_nvidia_smi_does(void **state)
{
    const uint8_t uuid[16] = {0x1b, 0x2c, 0x3d, 0x4e, 0x5f, 0x60, 0x71, 0x82,
                              0x93, 0xa4, 0xb5, 0xc6, 0xd7, 0xe8, 0xf9, 0x0a};
    char text[GPU_UUID_TEXT];
    (void)state;
    gpu_uuid_text(uuid, text);
    assert_string_equal(text, "GPU-1b2c3d4e-5f60-7182-93a4-b5c6d7e8f90a");
    assert_int_equal(strlen(text) + 1, GPU_UUID_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(facts_of_a_device),
        TEST(what_the_driver_does_not_say_is_zero),
        TEST(absent_devices_have_no_facts),
        TEST(the_first_missing_function_is_named),
        TEST(uuids_are_written_as_nvidia_smi_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
