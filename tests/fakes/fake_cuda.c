/* A stand-in for libcuda.so.1: as many devices as FAKE_CUDA_DEVICES says (2), and cuInit that loads
 * the library that CUDA_INJECTION64_PATH names, as the driver does. FAKE_CUDA_ERROR makes cuInit
 * fail with that number. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/fake_cupti.h"
#include "gpu/abi/cuda.h"
#include "gpu/cuda.h"

#define X(name, arguments, needed) int name arguments;
GPU_CUDA_LIST(X)
#undef X
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuMemAlloc_v2(uint64_t *at, size_t bytes);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra);
int cuCtxSynchronize(void);

static int number(const char *variable, int otherwise)
{
    const char *s = getenv(variable);
    return s ? (int)strtol(s, NULL, 10) : otherwise;
}

static _Atomic bool is_up;

static void inject(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
    if (path && !lib)
        fprintf(stderr, "fake cuda: %s\n", dlerror());
    int (*entry)(void) = NULL;
    if (lib)
        *(void **)&entry = dlsym(lib, "InitializeInjection");
    if (entry)
        entry();
}

int cuInit(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)flags;
    int error = number("FAKE_CUDA_ERROR", 0);
    if (error == 0) {
        pthread_once(&once, inject);
        is_up = true;
    }
    return error;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *n)
{
    *n = number("FAKE_CUDA_DEVICES", 2);
    return is_up ? 0 : 3; /* CUDA_ERROR_NOT_INITIALIZED */
}

int cuDeviceGet(int *device, int ordinal)
{
    int n;
    cuDeviceGetCount(&n);
    *device = ordinal;
    return ordinal >= 0 && ordinal < n ? 0 : 101;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "Fake GPU %d", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const int values[128] = {
        [CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1980000,
        [CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 132,
        [CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] = 0x1b,
        [CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 3201000,
        [CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 6144,
        [CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 62914560,
        [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
        [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9,
        [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = 233472,
    };
    (void)device;
    *value = attribute >= 0 && attribute < 128 ? values[attribute] : 0;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)141 << 30;
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(i * 16 + device);
    return 0;
}

int cuDeviceGetUuid(unsigned char uuid[16], int device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

int cuGetErrorString(int result, const char **text)
{
    *text = result == 100 ? "no CUDA-capable device is detected" : "an error";
    return 0;
}

int cuKernelGetFunction(void **function, void *kernel)
{
    *function = kernel;
    return 0;
}

int cuFuncGetName(const char **name, void *function)
{
    (void)function;
    *name = "kernel";
    return 0;
}

int cuMemAddressReserve(uint64_t *at, size_t bytes, size_t align, uint64_t want,
                        unsigned long long flags)
{
    (void)bytes, (void)align, (void)flags;
    *at = want;
    return 0;
}

int cuGraphLaunch(void *graph, void *stream)
{
    (void)graph, (void)stream;
    return 0;
}

/* ---- what a program that launches by itself needs (bench/trace/launch_bound.c) ---- */

static void *of_cupti(const char *name)
{
    void *lib = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    return lib ? dlsym(lib, name) : NULL;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = context;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    (void)context;
    return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
    (void)image;
    *module = module;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    *function = strdup(name);
    return *function ? 0 : 2;
}

int cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
    (void)bytes;
    *at = 1 << 20;
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    static uint32_t (*launch)(const struct fake_kernel *k);
    (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)params, (void)extra;
    if (!launch)
        *(void **)&launch = of_cupti("fake_launch");
    if (launch)
        launch(&(struct fake_kernel){.name = function, .grid = gx, .block = bx});
    return 0;
}

int cuCtxSynchronize(void)
{
    static void (*synchronize)(void);
    if (!synchronize)
        *(void **)&synchronize = of_cupti("fake_synchronize");
    if (synchronize)
        synchronize();
    return 0;
}
