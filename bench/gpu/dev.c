#include "gpu/dev.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* X(name, arguments): the driver's functions, results are CUresult. */
#define DRIVER(X)                                                                          \
    X(cuInit, (unsigned flags))                                                            \
    X(cuDeviceGet, (int *device, int ordinal))                                             \
    X(cuDeviceGetName, (char *name, int bytes, int device))                                \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                       \
    X(cuDeviceTotalMem_v2, (size_t * bytes, int device))                                   \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                              \
    X(cuCtxSetCurrent, (void *context))                                                    \
    X(cuCtxSynchronize, (void))                                                            \
    X(cuMemAlloc_v2, (dev_ptr * p, size_t bytes))                                          \
    X(cuMemFree_v2, (dev_ptr p))                                                           \
    X(cuMemcpyHtoD_v2, (dev_ptr to, const void *from, size_t bytes))                       \
    X(cuMemcpyDtoH_v2, (void *to, dev_ptr from, size_t bytes))                             \
    X(cuModuleLoadData, (void **module, const void *image))                                \
    X(cuModuleGetFunction, (void **function, void *module, const char *name))              \
    X(cuFuncGetAttribute, (int *value, int attribute, void *function))                     \
    X(cuFuncSetAttribute, (void *function, int attribute, int value))                      \
    X(cuLaunchKernelEx, (const void *config, void *function, void **params, void **extra)) \
    X(cuStreamCreate, (void **stream, unsigned flags))                                     \
    X(cuStreamSynchronize, (void *stream))                                                 \
    X(cuStreamBeginCapture_v2, (void *stream, int mode))                                   \
    X(cuStreamEndCapture, (void *stream, void **graph))                                    \
    X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))   \
    X(cuGraphDestroy, (void *graph))                                                       \
    X(cuGraphExecDestroy, (void *exec))                                                    \
    X(cuGraphLaunch, (void *exec, void *stream))                                           \
    X(cuEventCreate, (void **event, unsigned flags))                                       \
    X(cuEventRecord, (void *event, void *stream))                                          \
    X(cuEventSynchronize, (void *event))                                                   \
    X(cuEventElapsedTime_v2, (float *ms, void *from, void *to))                            \
    X(cuGetErrorName, (int result, const char **name))

#define NVRTC(X)                                                                      \
    X(nvrtcCreateProgram, (void **program, const char *text, const char *name, int n, \
                           const char *const *headers, const char *const *names))     \
    X(nvrtcCompileProgram, (void *program, int n, const char *const *options))        \
    X(nvrtcGetCUBINSize, (void *program, size_t *bytes))                              \
    X(nvrtcGetCUBIN, (void *program, char *cubin))                                    \
    X(nvrtcGetProgramLogSize, (void *program, size_t *bytes))                         \
    X(nvrtcGetProgramLog, (void *program, char *log))                                 \
    X(nvrtcDestroyProgram, (void **program))

#define DECLARE(name, arguments) static int(*name) arguments;
DRIVER(DECLARE)
NVRTC(DECLARE)

struct launch_attribute { /* CUlaunchAttribute */
    int id, pad;
    char value[64];
};

struct launch_config { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct launch_attribute *attributes;
    unsigned n_attributes;
};

enum {
    ATTRIBUTE_SMS = 16,
    ATTRIBUTE_L2 = 38,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    FUNCTION_SHARED = 1,
    FUNCTION_LOCAL = 3,
    FUNCTION_REGISTERS = 4,
    FUNCTION_MOST_SHARED = 8,
    LAUNCH_PROGRAMMATIC = 6,
    CAPTURE_RELAXED = 2
};

static void die(const char *what, int code)
{
    const char *name = "?";
    if (cuGetErrorName)
        cuGetErrorName(code, &name);
    fprintf(stderr, "%s: %d %s\n", what, code, name);
    exit(1);
}

#define CHECK(call)              \
    do {                         \
        const int code = (call); \
        if (code)                \
            die(#call, code);    \
    } while (0)

static void *open_first(const char *const *names)
{
    for (; *names; names++) {
        void *p = dlopen(*names, RTLD_NOW);
        if (p)
            return p;
    }
    return NULL;
}

bool dev_open(struct dev *g)
{
    static const char *const cuda[] = {"libcuda.so.1", NULL};
    static const char *const nvrtc[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so", NULL};
    void *driver = open_first(cuda), *compiler = open_first(nvrtc);
    int device, major, minor, l2;
    void *context;
    *g = (struct dev){0};
    if (!driver || !compiler) {
        fprintf(stderr, "%s was not found\n", driver ? "libnvrtc" : "libcuda");
        return false;
    }
#define BIND(name, arguments)                                  \
    *(void **)&name = dlsym(driver, #name);                    \
    if (!name)                                                 \
        *(void **)&name = dlsym(compiler, #name);              \
    if (!name && strcmp(#name, "cuEventElapsedTime_v2") == 0)  \
        *(void **)&name = dlsym(driver, "cuEventElapsedTime"); \
    if (!name) {                                               \
        fprintf(stderr, "%s is missing\n", #name);             \
        return false;                                          \
    }
    DRIVER(BIND)
    NVRTC(BIND)
    if (cuInit(0) || cuDeviceGet(&device, 0)) {
        fprintf(stderr, "there is no GPU\n");
        return false;
    }
    CHECK(cuDeviceGetName(g->name, sizeof g->name, device));
    CHECK(cuDeviceGetAttribute(&major, ATTRIBUTE_MAJOR, device));
    CHECK(cuDeviceGetAttribute(&minor, ATTRIBUTE_MINOR, device));
    CHECK(cuDeviceGetAttribute(&g->sms, ATTRIBUTE_SMS, device));
    CHECK(cuDeviceGetAttribute(&l2, ATTRIBUTE_L2, device));
    CHECK(cuDeviceTotalMem_v2(&g->memory_bytes, device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&g->stream, 1));
    g->arch = 10 * major + minor;
    g->l2_bytes = l2;
    return true;
}

dev_ptr dev_alloc(size_t bytes)
{
    dev_ptr p;
    CHECK(cuMemAlloc_v2(&p, bytes));
    return p;
}

void dev_free(dev_ptr p)
{
    CHECK(cuMemFree_v2(p));
}

void dev_upload(dev_ptr to, const void *from, size_t bytes)
{
    CHECK(cuMemcpyHtoD_v2(to, from, bytes));
    CHECK(cuCtxSynchronize()); /* a copy out of pageable memory may return before it is complete */
}

void dev_download(void *to, dev_ptr from, size_t bytes)
{
    CHECK(cuMemcpyDtoH_v2(to, from, bytes));
}

void dev_sync(struct dev *g)
{
    CHECK(cuStreamSynchronize(g->stream));
}

const char *dev_fault(struct dev *g)
{
    const char *name = NULL;
    const int code = cuStreamSynchronize(g->stream);
    if (code)
        cuGetErrorName(code, &name);
    return name;
}

/* ---- programs -------------------------------------------------------------------------------- */

static void *compile(struct dev *g, const char *text, const char *name)
{
    char arch[64];
    const char *options[] = {arch, "-std=c++17", "-lineinfo"};
    void *program, *module;
    size_t n;
    const int64_t from_ns = clock_mono_ns();
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%s", g->arch, g->arch >= 90 ? "a" : "");
    CHECK(nvrtcCreateProgram(&program, text, name, 0, NULL, NULL));
    const int failed = nvrtcCompileProgram(program, 3, options);
    CHECK(nvrtcGetProgramLogSize(program, &n));
    if (n > 1) {
        char *log = mem_alloc(n);
        nvrtcGetProgramLog(program, log);
        fprintf(stderr, "%s:\n%s\n", name, log);
        mem_free(log);
    }
    if (failed)
        die(name, failed);
    CHECK(nvrtcGetCUBINSize(program, &n));
    char *cubin = mem_alloc(n);
    CHECK(nvrtcGetCUBIN(program, cubin));
    g->compile_s += ns_to_s(clock_mono_ns() - from_ns);
    g->programs++;
    CHECK(cuModuleLoadData(&module, cubin));
    mem_free(cubin);
    nvrtcDestroyProgram(&program);
    return module;
}

void *dev_entry(struct dev *g, const struct cuda_kernel *k, enum cuda_dtype t, int head_dim)
{
    enum { MOST = 128 };
    static struct {
        char source[64];
        enum cuda_dtype t;
        int head_dim;
        void *module;
    } known[MOST];
    static int n;
    void *function, *module = NULL;
    head_dim = k->head_dim ? head_dim : 0;
    struct arena *a = arena_new();
    for (int i = 0; i < n; i++)
        if (known[i].t == t && known[i].head_dim == head_dim && !strcmp(known[i].source, k->source))
            module = known[i].module;
    if (!module) {
        ASSERT(n < MOST);
        module = compile(g, cuda_program(a, k->source, t, head_dim), k->source);
        snprintf(known[n].source, sizeof known[n].source, "%s", k->source);
        known[n].t = t;
        known[n].head_dim = head_dim;
        known[n++].module = module;
    }
    CHECK(cuModuleGetFunction(&function, module, cuda_kernel_entry(a, k, t)));
    arena_free(&a);
    return function;
}

void *dev_entry_of(struct dev *g, const char *text, const char *entry)
{
    void *function;
    CHECK(cuModuleGetFunction(&function, compile(g, text, entry), entry));
    return function;
}

void dev_entry_costs(void *function, int *registers, int *local_bytes, int *shared_bytes)
{
    CHECK(cuFuncGetAttribute(registers, FUNCTION_REGISTERS, function));
    CHECK(cuFuncGetAttribute(local_bytes, FUNCTION_LOCAL, function));
    CHECK(cuFuncGetAttribute(shared_bytes, FUNCTION_SHARED, function));
}

void dev_launch(struct dev *g, void *function, const struct cuda_launch *l, const void *args,
                size_t args_bytes, bool dependent)
{
    char copy[1024];
    void *params[] = {copy};
    struct launch_attribute programmatic = {.id = LAUNCH_PROGRAMMATIC, .value = {1}};
    struct launch_config config = {.grid = {l->grid[0], l->grid[1], l->grid[2]},
                                   .block = {l->block, 1, 1},
                                   .shared_bytes = l->shared_bytes,
                                   .stream = g->stream,
                                   .attributes = &programmatic,
                                   .n_attributes = dependent && g->arch >= 90};
    ASSERT(args_bytes <= sizeof copy);
    memcpy(copy, args, args_bytes);
    if (l->shared_bytes > 48 * 1024)
        CHECK(cuFuncSetAttribute(function, FUNCTION_MOST_SHARED, (int)l->shared_bytes));
    CHECK(cuLaunchKernelEx(&config, function, params, NULL));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

void dev_graph_begin(struct dev *g)
{
    CHECK(cuStreamBeginCapture_v2(g->stream, CAPTURE_RELAXED));
}

void *dev_graph_end(struct dev *g)
{
    void *graph, *exec;
    CHECK(cuStreamEndCapture(g->stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return exec;
}

void dev_graph_free(void *graph)
{
    CHECK(cuGraphExecDestroy(graph));
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double dev_graph_time(struct dev *g, void *graph, int n, int inner)
{
    float ms[256];
    void *from, *to;
    ASSERT(n <= 256);
    CHECK(cuEventCreate(&from, 0));
    CHECK(cuEventCreate(&to, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cuGraphLaunch(graph, g->stream));
    for (int i = 0; i < n; i++) {
        CHECK(cuEventRecord(from, g->stream));
        for (int j = 0; j < inner; j++)
            CHECK(cuGraphLaunch(graph, g->stream));
        CHECK(cuEventRecord(to, g->stream));
        CHECK(cuEventSynchronize(to));
        CHECK(cuEventElapsedTime_v2(&ms[i], from, to));
    }
    qsort(ms, (size_t)n, sizeof *ms, compare);
    return (double)ms[n / 2] / 1e3 / inner;
}
