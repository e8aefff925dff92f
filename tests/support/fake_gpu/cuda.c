/* libcuda.so.1 on host memory: devices, contexts, modules, kernels. Memory and streams stand in
 * memory.c and stream.c; fake_gpu.h says what it is like. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda.h"
#include "support/fake_gpu/device.h"

#define X(name, arguments, needed) FAKE_EXPORT int name arguments;
GPU_CUDA_FACTS(X)
#undef X

static bool is_up;

int cuInit(unsigned flags)
{
    (void)flags;
    const int error =
        fake_script_number("devices", 1) == 0 ? CUDA_ERROR_NO_DEVICE : fake_script_fail("cuInit");
    is_up = is_up || error == 0;
    return error;
}

int cuDriverGetVersion(int *version)
{
    *version = (int)fake_script_number("driver", 13000);
    return fake_script_fail("cuDriverGetVersion");
}

int cuDeviceGetCount(int *n)
{
    *n = (int)fake_script_number("devices", 1);
    return is_up ? fake_script_fail("cuDeviceGetCount") : CUDA_ERROR_NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal >= 0 && ordinal < fake_script_number("devices", 1) ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "Fake GPU %d", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const int sm = (int)fake_script_number("sm", 90);
    const struct {
        int attribute, value;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, FAKE_SMS},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0x1b},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, sm / 10},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, sm % 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, FAKE_SHARED_MAX},
    };
    (void)device;
    *value = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].attribute == attribute)
            *value = rows[i].value;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = fake_memory_total();
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(i * 16 + device);
    return 0;
}

int cuGetErrorString(int result, const char **text)
{
    *text = result == CUDA_ERROR_NO_DEVICE ? "no CUDA-capable device is detected" : "an error";
    return 0;
}

/* ---- contexts -------------------------------------------------------------------------------- */

struct CUctx_st {
    int retained;
};
static struct CUctx_st context;
static _Thread_local bool is_current;

bool fake_context_is_current(void)
{
    return is_current;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    const int error = fake_script_fail("cuDevicePrimaryCtxRetain");
    (void)device;
    if (error)
        return (CUresult)error;
    context.retained++;
    *out = &context;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    if (context.retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    context.retained--;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext c)
{
    is_current = c != NULL;
    return (CUresult)fake_script_fail("cuCtxSetCurrent");
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    *out = is_current ? &context : NULL;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    static const struct {
        CUresult result;
        const char *name;
    } rows[] = {
#define ROW(name) {name, #name}
        ROW(CUDA_ERROR_INVALID_VALUE),
        ROW(CUDA_ERROR_OUT_OF_MEMORY),
        ROW(CUDA_ERROR_NOT_INITIALIZED),
        ROW(CUDA_ERROR_DEVICE_UNAVAILABLE),
        ROW(CUDA_ERROR_NO_DEVICE),
        ROW(CUDA_ERROR_INVALID_DEVICE),
        ROW(CUDA_ERROR_INVALID_IMAGE),
        ROW(CUDA_ERROR_INVALID_CONTEXT),
        ROW(CUDA_ERROR_ECC_UNCORRECTABLE),
        ROW(CUDA_ERROR_INVALID_HANDLE),
        ROW(CUDA_ERROR_NOT_FOUND),
        ROW(CUDA_ERROR_NOT_READY),
        ROW(CUDA_ERROR_ILLEGAL_ADDRESS),
        ROW(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
        ROW(CUDA_ERROR_LAUNCH_FAILED),
        ROW(CUDA_ERROR_SYSTEM_NOT_READY),
        ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
        ROW(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
        ROW(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),
        ROW(CUDA_ERROR_UNKNOWN),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].result == error) {
            *text = rows[i].name;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- modules --------------------------------------------------------------------------------- */

/* An image is what the fake NVRTC made: a line of its own, then a kernel's name a line. Machine
 * code of a real NVRTC is taken too: it then has every kernel that has a twin. */
struct fake_global {
    struct fake_global *next;
    char name[128];
    CUdeviceptr at;
};

struct CUmod_st {
    char *names; /* "\nname\nname\n", NULL = any */
    struct CUfunc_st *functions;
    struct fake_global *globals;
    struct CUmod_st *next; /* of those that were unloaded */
};
static struct CUmod_st *spare;

static struct {
    fake_twin_find *finds[16];
    int n;
} twins;

void fake_gpu_twins(fake_twin_find *find)
{
    if (twins.n < 16)
        twins.finds[twins.n++] = find;
}

/* "_Z10roof_writeILi1EEvPjj" is an instance of roof_write, as C++ mangles it. */
static bool find_template(const char *name, struct fake_twin *out)
{
    char *rest, plain[64];
    const size_t n = strncmp(name, "_Z", 2) == 0 ? strtoul(name + 2, &rest, 10) : 0;
    if (n == 0 || n >= sizeof plain || strlen(rest) < n)
        return false;
    memcpy(plain, rest, n);
    plain[n] = 0;
    return fake_twin_builtin(plain, out);
}

static bool find_twin(const char *name, struct fake_twin *out)
{
    *out = (struct fake_twin){0};
    for (int i = twins.n; i-- > 0;)
        if (twins.finds[i](name, out))
            return true;
    return fake_twin_builtin(name, out) || find_template(name, out);
}

const char *fake_image_text(const void *image)
{
    const char *p = image;
    if (memcmp(p, ELFMAG, SELFMAG) == 0) {
        Elf64_Ehdr h;
        memcpy(&h, p, sizeof h);
        p = h.e_entry ? p + h.e_entry : NULL;
    }
    return p && strncmp(p, FAKE_IMAGE, strlen(FAKE_IMAGE)) == 0 ? p : NULL;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n,
                            CUjit_option *options, void **values)
{
    const int error = fake_script_fail("cuModuleLoadDataEx");
    const char *text = fake_image_text(image);
    (void)n, (void)options, (void)values;
    if (error)
        return (CUresult)error;
    if (!text && memcmp(image, ELFMAG, SELFMAG) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    struct CUmod_st *m = spare; /* handles come again, as a driver's do */
    spare = m ? m->next : NULL;
    m = m ? memset(m, 0, sizeof *m) : calloc(1, sizeof *m);
    m->names = text ? strdup(text + strlen(FAKE_IMAGE)) : NULL;
    *module = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule m)
{
    fake_stream_drain_all();
    while (m->functions) {
        struct CUfunc_st *f = m->functions;
        m->functions = f->next;
        free(f->name);
        free(f);
    }
    while (m->globals) {
        struct fake_global *g = m->globals;
        m->globals = g->next;
        if (g->at)
            cuMemFree_v2(g->at);
        free(g);
    }
    free(m->names);
    m->next = spare;
    spare = m;
    return CUDA_SUCCESS;
}

/* A line "=name bytes" of an image is a variable. */
CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name)
{
    const int error = fake_script_fail("cuModuleGetGlobal_v2");
    char line[256];
    if (error)
        return (CUresult)error;
    const int n = snprintf(line, sizeof line, "\n=%s ", name);
    const char *found = module->names ? strstr(module->names, line) : NULL;
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    *bytes = strtoull(found + n, NULL, 10);
    for (struct fake_global *g = module->globals; g; g = g->next)
        if (strcmp(g->name, name) == 0) {
            *at = g->at;
            return CUDA_SUCCESS;
        }
    struct fake_global *g = calloc(1, sizeof *g);
    snprintf(g->name, sizeof g->name, "%s", name);
    g->next = module->globals;
    module->globals = g;
    const CUresult result = cuMemAlloc_v2(&g->at, *bytes);
    *at = g->at;
    return result;
}

static bool has_name(const struct CUmod_st *m, const char *name)
{
    const size_t n = strlen(name);
    if (!m->names)
        return true;
    for (const char *at = m->names; (at = strchr(at, '\n')) != NULL;)
        if (strncmp(++at, name, n) == 0 && at[n] == '\n')
            return true;
    return false;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    const int error = fake_script_fail("cuModuleGetFunction");
    struct fake_twin twin;
    if (error)
        return (CUresult)error;
    if (!has_name(module, name))
        return CUDA_ERROR_NOT_FOUND;
    if (!find_twin(name, &twin)) {
        fprintf(stderr, "fake gpu: kernel %s has no twin\n", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    struct CUfunc_st *f = calloc(1, sizeof *f);
    f->twin = twin;
    f->name = strdup(name);
    f->twin.kernel = f->name;
    if (!f->twin.param_bytes)
        f->twin.param_bytes = f->twin.one;
    f->shared_max = 48 << 10;
    f->module = module;
    f->next = module->functions;
    module->functions = f;
    *function = f;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    const int error = fake_script_fail("cuFuncSetAttribute");
    if (error)
        return (CUresult)error;
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
        attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        return CUDA_SUCCESS;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > FAKE_SHARED_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    f->shared_max = value > (48 << 10) ? (unsigned)value : 48 << 10;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
    *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                        ? 32
             : attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? (int)f->shared_max
                                                                            : 0;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int block,
                                                     size_t shared)
{
    (void)f;
    if (block < 1 || block > 1024 || shared > FAKE_SHARED_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = 2048 / block;
    if (shared && (int)(FAKE_SHARED_MAX / shared) < *blocks)
        *blocks = (int)(FAKE_SHARED_MAX / shared);
    return CUDA_SUCCESS;
}
