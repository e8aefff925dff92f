/* Calls as a tool sees them: around the bodies of the other files stand the callbacks of a fake
 * CUPTI, where the program has one loaded; cuInit loads the tool, as the driver does. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/fake_cupti.h"
#include "gpu/abi/cupti.h"
#include "support/fake_gpu/device.h"
#include "support/fake_gpu/query.h"

/* The bodies. */
#include "support/fake_gpu/observed.h"
FAKE_EXPORT CUresult cuInit(unsigned flags);
#define X(name, arguments, needed) FAKE_EXPORT CUresult name arguments;
GPU_DRIVER_LIST(X)
#undef X
#include "support/fake_gpu/unobserved.h"
FAKE_EXPORT CUresult cuInit(unsigned flags);

static struct {
    void (*enter)(struct fake_call *c);
    void (*leave)(struct fake_call *c);
    void (*resource)(uint32_t cbid, uint32_t module, const void *image, size_t bytes);
    void (*kernel)(const struct fake_call *c, const char *name, uint32_t grid, uint32_t block,
                   uint64_t graph_node);
    void (*transfer)(const struct fake_call *c, int is_set, uint64_t bytes, uint64_t graph_node);
} tool;

static void load_tool(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*entry)(void) = NULL;
    if (path && !lib)
        fprintf(stderr, "fake gpu: %s\n", dlerror());
    if (lib)
        *(void **)&entry = dlsym(lib, "InitializeInjection");
    if (entry)
        entry();
    void *cupti = entry ? dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!cupti)
        return;
    *(void **)&tool.enter = dlsym(cupti, "fake_enter");
    *(void **)&tool.leave = dlsym(cupti, "fake_leave");
    *(void **)&tool.resource = dlsym(cupti, "fake_resource");
    *(void **)&tool.kernel = dlsym(cupti, "fake_kernel");
    *(void **)&tool.transfer = dlsym(cupti, "fake_transfer");
}

CUresult cuInit(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CUresult result = fake_cuInit(flags);
    if (result == CUDA_SUCCESS)
        pthread_once(&once, load_tool);
    return result;
}

static struct fake_call enter(uint32_t cbid, const char *name, const void *params)
{
    struct fake_call c = {.cbid = cbid, .name = name, .params = params};
    c.context = fake_context_current();
    if (tool.enter)
        tool.enter(&c);
    return c;
}

static CUresult leave(struct fake_call *c, CUresult result)
{
    c->result = (int)result;
    if (tool.leave)
        tool.leave(c);
    return result;
}

#define WORD(x) ((uint64_t)(uintptr_t)(x))
#define ENTER(name, ...) \
    struct fake_call c = \
        enter(CUPTI_DRIVER_TRACE_CBID_##name, #name, (const uint64_t[]){__VA_ARGS__})
#define OBSERVED(name, arguments, words, call) \
    CUresult name arguments                    \
    {                                          \
        ENTER(name, words);                    \
        return leave(&c, fake_##name call);    \
    }
/* The same of a copy or set of n bytes. */
#define TRANSFER(name, arguments, words, call, is_set, n) \
    CUresult name arguments                               \
    {                                                     \
        ENTER(name, words);                               \
        CUresult result = fake_##name call;               \
        if (tool.transfer && result == CUDA_SUCCESS)      \
            tool.transfer(&c, is_set, n, 0);              \
        return leave(&c, result);                         \
    }
#define W(...) __VA_ARGS__

OBSERVED(cuMemAlloc_v2, (CUdeviceptr * at, size_t n), W(WORD(at), n), (at, n))
OBSERVED(cuMemFree_v2, (CUdeviceptr at), W(at), (at))
OBSERVED(cuMemAllocAsync, (CUdeviceptr * at, size_t n, CUstream s), W(WORD(at), n, WORD(s)),
         (at, n, s))
OBSERVED(cuMemFreeAsync, (CUdeviceptr at, CUstream s), W(at, WORD(s)), (at, s))
#ifndef FAKE_GPU_OLD /* lacks a needed function */
OBSERVED(cuMemHostAlloc, (void **at, size_t n, unsigned f), W(WORD(at), n, f), (at, n, f))
#endif
OBSERVED(cuMemFreeHost, (void *at), W(WORD(at)), (at))
OBSERVED(cuMemHostRegister_v2, (void *at, size_t n, unsigned f), W(WORD(at), n, f), (at, n, f))
OBSERVED(cuMemHostUnregister, (void *at), W(WORD(at)), (at))
OBSERVED(cuMemMap,
         (CUdeviceptr at, size_t n, size_t offset, CUmemGenericAllocationHandle h,
          unsigned long long f),
         W(at, n, offset, h, f), (at, n, offset, h, f))
OBSERVED(cuMemUnmap, (CUdeviceptr at, size_t n), W(at, n), (at, n))
TRANSFER(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s),
         W(to, WORD(from), n, WORD(s)), (to, from, n, s), 0, n)
TRANSFER(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s),
         W(WORD(to), from, n, WORD(s)), (to, from, n, s), 0, n)
TRANSFER(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
         W(to, from, n, WORD(s)), (to, from, n, s), 0, n)
OBSERVED(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p, CUstream s), W(WORD(p), WORD(s)), (p, s))
TRANSFER(cuMemsetD8Async, (CUdeviceptr to, unsigned char v, size_t n, CUstream s),
         W(to, v, n, WORD(s)), (to, v, n, s), 1, n)
TRANSFER(cuMemsetD32Async, (CUdeviceptr to, unsigned v, size_t n, CUstream s), W(to, v, n, WORD(s)),
         (to, v, n, s), 1, 4 * n)
OBSERVED(cuStreamSynchronize, (CUstream s), W(WORD(s)), (s))
OBSERVED(cuStreamWaitEvent, (CUstream s, CUevent v, unsigned f), W(WORD(s), WORD(v), f), (s, v, f))
OBSERVED(cuEventRecord, (CUevent v, CUstream s), W(WORD(v), WORD(s)), (v, s))
OBSERVED(cuEventSynchronize, (CUevent v), W(WORD(v)), (v))
OBSERVED(cuCtxSynchronize, (void), W(0), ())
OBSERVED(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode m), W(WORD(s), m), (s, m))
OBSERVED(cuStreamEndCapture, (CUstream s, CUgraph *g), W(WORD(s), WORD(g)), (s, g))
OBSERVED(cuGraphInstantiateWithFlags, (CUgraphExec * x, CUgraph g, unsigned long long f),
         W(WORD(x), WORD(g), f), (x, g, f))
OBSERVED(cuGraphExecDestroy, (CUgraphExec x), W(WORD(x)), (x))

/* ---- modules ---- */

static struct {
    CUmodule module;
    uint32_t number; /* by which tools know it */
} loaded[256];
static uint32_t modules;

static void tell_loaded(CUmodule module, const char *image)
{
    const char *text = fake_image_text(image);
    if (!tool.resource || !text)
        return;
    size_t i = 0;
    while (i < 255 && loaded[i].module)
        i++;
    loaded[i].module = module;
    loaded[i].number = ++modules;
    tool.resource(CUPTI_CBID_RESOURCE_MODULE_LOADED, modules, image,
                  (size_t)(text - image) + strlen(text) + 1);
}

static CUresult unload(CUmodule module)
{
    for (size_t i = 0; i < 256; i++)
        if (module && loaded[i].module == module) {
            tool.resource(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, loaded[i].number, NULL, 0);
            loaded[i].module = NULL;
        }
    return fake_cuModuleUnload(module);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n,
                            CUjit_option *options, void **values)
{
    ENTER(cuModuleLoadDataEx, WORD(module), WORD(image), n, WORD(options), WORD(values));
    CUresult result = fake_cuModuleLoadDataEx(module, image, n, options, values);
    if (result == CUDA_SUCCESS)
        tell_loaded(*module, image);
    return leave(&c, result);
}

CUresult cuModuleUnload(CUmodule module)
{
    return unload(module);
}

/* ---- libraries, whose code is loaded when a kernel is used first ---- */

struct CUlib_st {
    char *image;
    CUmodule module; /* NULL = not loaded */
};
/* CUPTI keeps the names of kernels in its records, their modules unloaded or not. */
static const char *kept(const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *names[256];
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < 255 && names[i] && strcmp(names[i], name) != 0)
        i++;
    if (!names[i])
        names[i] = strdup(name);
    pthread_mutex_unlock(&lock);
    return names[i];
}

struct CUkern_st {
    CUlibrary library;
    const char *name; /* kept */
    CUfunction function;
};
static struct CUkern_st kernels[64];
static size_t n_kernels;

FAKE_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *o,
                                       void **v, unsigned n, void *options, void **values,
                                       unsigned n_options);
CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *o, void **v,
                           unsigned n, void *options, void **values, unsigned n_options)
{
    ENTER(cuLibraryLoadData, WORD(library), WORD(image), WORD(o), WORD(v), n, WORD(options),
          WORD(values), n_options);
    *library = calloc(1, sizeof **library);
    (*library)->image = strdup(image);
    return leave(&c, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    ENTER(cuLibraryGetKernel, WORD(kernel), WORD(library), WORD(name));
    *kernel = &kernels[n_kernels++ % 64];
    **kernel = (struct CUkern_st){.library = library};
    (*kernel)->name = kept(name);
    return leave(&c, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryUnload(CUlibrary library)
{
    CUresult result = library->module ? unload(library->module) : CUDA_SUCCESS;
    free(library->image);
    free(library);
    return result;
}

bool fake_is_kernel(const void *handle)
{
    const struct CUkern_st *k = handle;
    return k >= kernels && k < kernels + 64;
}

static CUresult function_of(CUkernel k, CUfunction *out)
{
    CUlibrary library = k->library;
    CUresult result = CUDA_SUCCESS;
    if (!library->module) {
        result = fake_cuModuleLoadDataEx(&library->module, library->image, 0, NULL, NULL);
        if (result == CUDA_SUCCESS)
            tell_loaded(library->module, library->image);
    }
    if (result == CUDA_SUCCESS && !k->function)
        result = cuModuleGetFunction(&k->function, library->module, k->name);
    *out = k->function;
    return result;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    ENTER(cuKernelGetFunction, WORD(function), WORD(kernel));
    return leave(&c, fake_is_kernel(kernel) ? function_of(kernel, function)
                                            : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    *library = kernel->library;
    return CUDA_SUCCESS;
}

/* Inside the launch: its kernel's code may be loaded there. */
static CUresult resolve(CUfunction *function)
{
    return fake_is_kernel(*function) ? function_of((CUkernel)(void *)*function, function)
                                     : CUDA_SUCCESS;
}

/* ---- launches ---- */

struct launch {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void **params, **extra;
};

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                        CUstream stream, void **params, void **extra)
{
    const struct launch p = {function, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, extra};
    struct fake_call c = enter(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &p);
    CUresult result = resolve(&function);
    if (result == CUDA_SUCCESS)
        result =
            fake_cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
    if (tool.kernel && result == CUDA_SUCCESS)
        tool.kernel(&c, kept(function->name), gx, bx, 0);
    return leave(&c, result);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra)
{
    ENTER(cuLaunchKernelEx, WORD(config), WORD(function), WORD(params), WORD(extra));
    CUresult result = resolve(&function);
    if (result == CUDA_SUCCESS)
        result = fake_cuLaunchKernelEx(config, function, params, extra);
    if (tool.kernel && result == CUDA_SUCCESS)
        tool.kernel(&c, kept(function->name), config->gridDimX, config->blockDimX, 0);
    return leave(&c, result);
}

static void put_node(void *call, const char *kernel, uint64_t bytes, uint64_t node)
{
    if (kernel && tool.kernel)
        tool.kernel(call, kept(kernel), 1, 32, node);
    else if (!kernel && tool.transfer)
        tool.transfer(call, bytes >> 63 != 0, bytes & INT64_MAX, node);
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
    ENTER(cuGraphLaunch, WORD(graph), WORD(stream));
    CUresult result = fake_cuGraphLaunch(graph, stream);
    if (result == CUDA_SUCCESS)
        fake_graph_nodes(graph, put_node, &c);
    return leave(&c, result);
}

/* ---- what this device does not do, for tools that must notice ---- */

FAKE_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *at, size_t n, unsigned flags);
CUresult cuMemAllocManaged(CUdeviceptr *at, size_t n, unsigned flags)
{
    ENTER(cuMemAllocManaged, WORD(at), n, flags);
    return leave(&c, fake_cuMemAlloc_v2(at, n));
}

FAKE_EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *user);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *user)
{
    ENTER(cuLaunchHostFunc, WORD(stream), WORD(function), WORD(user));
    CUresult result = fake_cuStreamSynchronize(stream);
    if (result == CUDA_SUCCESS)
        function(user);
    return leave(&c, result);
}

FAKE_EXPORT CUresult cuProfilerStart(void);
CUresult cuProfilerStart(void)
{
    ENTER(cuProfilerStart, 0);
    return leave(&c, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult cuProfilerStop(void);
CUresult cuProfilerStop(void)
{
    ENTER(cuProfilerStop, 0);
    return leave(&c, CUDA_SUCCESS);
}

/* A function that the tool cannot know. */
FAKE_EXPORT CUresult cuFutureLaunch(void);
CUresult cuFutureLaunch(void)
{
    struct fake_call c = enter(900, "cuFutureLaunch", (const uint64_t[]){0});
    return leave(&c, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult cuFutureGetThing(void);
CUresult cuFutureGetThing(void)
{
    struct fake_call c = enter(901, "cuFutureGetThing", (const uint64_t[]){0});
    return leave(&c, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult cuMemBatchDecompressAsync(void *p, size_t n, unsigned f, size_t *error,
                                               CUstream s);
CUresult cuMemBatchDecompressAsync(void *p, size_t n, unsigned f, size_t *error, CUstream s)
{
    ENTER(cuMemBatchDecompressAsync, WORD(p), n, f, WORD(error), WORD(s));
    return leave(&c, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, const void *handle, unsigned flags);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, const void *handle, unsigned flags)
{
    ENTER(cuIpcOpenMemHandle_v2, WORD(at), WORD(handle), flags);
    return leave(&c, fake_cuMemAlloc_v2(at, 4096));
}

FAKE_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *at, void *pool, void *from);
CUresult cuMemPoolImportPointer(CUdeviceptr *at, void *pool, void *from)
{
    ENTER(cuMemPoolImportPointer, WORD(at), WORD(pool), WORD(from));
    return leave(&c, fake_cuMemAlloc_v2(at, 4096));
}

FAKE_EXPORT CUresult cuTexObjectCreate(uint64_t *out, const void *r, const void *t, const void *v);
CUresult cuTexObjectCreate(uint64_t *out, const void *r, const void *t, const void *v)
{
    ENTER(cuTexObjectCreate, WORD(out), WORD(r), WORD(t), WORD(v));
    *out = 1;
    return leave(&c, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr at);
CUresult cuIpcCloseMemHandle(CUdeviceptr at)
{
    ENTER(cuIpcCloseMemHandle, at);
    return leave(&c, fake_cuMemFree_v2(at));
}

FAKE_EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *at, void *memory, void *desc);
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *at, void *memory, void *desc)
{
    ENTER(cuExternalMemoryGetMappedBuffer, WORD(at), WORD(memory), WORD(desc));
    return leave(&c, fake_cuMemAlloc_v2(at, 4096));
}

FAKE_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from,
                                                    int type);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from, int type)
{
    ENTER(cuMemImportFromShareableHandle, WORD(out), WORD(from), (uint64_t)type);
    const CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    return leave(&c, cuMemCreate(out, 2 << 20, &p, 0));
}
