/* A program that computes on the fake GPU, for captures: capture_app [STEP...]. Each step adds one
 * thing that a region may hold; the region is the NVTX range "step", run as often as "times=" says.
 * What it computed goes to stdout as one number, the same whether it was captured or not. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "fakes/fake_nvtx.h"
#include "gpu/driver.h"

CUresult cuInit(unsigned flags);
#define X(name, arguments, needed) CUresult name arguments;
GPU_DRIVER_LIST(X)
#undef X

enum { WORDS = 512 * 8 * 4, GRID = 4, BYTES = GRID * WORDS * 4 };

CUresult cuMemAllocManaged(CUdeviceptr *at, size_t bytes, unsigned flags);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *user);

CUresult fake_cuMemAlloc_v2(CUdeviceptr *at, size_t bytes); /* past all tools */
CUresult cuFutureLaunch(void);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
CUresult cuFutureGetThing(void);
CUresult cuMemBatchDecompressAsync(void *p, size_t n, unsigned f, size_t *error, CUstream s);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, const void *handle, unsigned flags);
CUresult cuMemPoolImportPointer(CUdeviceptr *at, void *pool, void *from);
CUresult cuTexObjectCreate(uint64_t *out, const void *r, const void *t, const void *v);
CUresult cuIpcCloseMemHandle(CUdeviceptr at);
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *at, void *memory, void *desc);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from, int type);
CUresult cuLibraryLoadData(CUlibrary *library, const void *image, void *o, void **v, unsigned n,
                           void *options, void **values, unsigned n_options);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);

static CUfunction write_it, read_it;
static CUstream streams[2];
static CUdeviceptr values, sums, more, late, constants;
static uint32_t *pinned, *buffer, *registered;
static CUgraphExec graph;
static CUevent event;
static CUmodule module;

/* What a word of the command line adds: to the program, or to each step. */
/* clang-format off */
#define STEPS(X) \
    X(graph) X(streams) X(allocates) X(captures) X(managed) X(unseen) X(host) X(library) \
    X(alike) X(reload) X(virtual) X(twice) X(imported) X(external) X(ipc) X(ipc_closed) \
    X(decompress) X(future) X(future_get) X(pinned) X(reached) X(round_trip) X(written_source) \
    X(limits) X(quits) X(registered) X(managed_inside) X(texture) X(pool_imported) X(mangled) X(reserves) X(constants)
/* clang-format on */
#define X(name) STEP_##name,
enum { STEPS(X) N_STEPS };
#undef X
#define X(name) #name,
static const char *const step_names[] = {STEPS(X)};
#undef X
static bool does[N_STEPS];
static unsigned long disk_mib; /* free, "disk=N"; 0 = as it is */
#define DOES(name) does[STEP_##name]

static void check(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    fprintf(stderr, "capture_app: %s: %d\n", what, (int)r);
    exit(1);
}
#define CHECK(call) check(call, #call)

static void launch_write(CUdeviceptr to, uint32_t factor, CUstream s)
{
    void *params[] = {&to, &factor};
    CHECK(cuLaunchKernel(write_it, GRID, 1, 1, 512, 1, 1, 0, s, params, NULL));
}

/* Packed parameters, launch attributes: what cuBLASLt does. */
static void launch_read(CUdeviceptr from, CUdeviceptr to, CUstream s)
{
    CUdeviceptr params[] = {from, to};
    size_t bytes = sizeof params;
    void *extra[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, params,
                     (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT, &bytes,
                     (void *)CU_LAUNCH_PARAM_END_AS_INT};
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                           .value = {.programmaticStreamSerializationAllowed = 1}};
    CUlaunchConfig c = {GRID, 1, 1, 512, 1, 1, 0, s, &a, 1};
    CHECK(cuLaunchKernelEx(&c, read_it, NULL, extra));
}

/* Kernels as cuLibraryLoadData gives them: CUkernel handles, code that is loaded at first use. */
static void from_library(const char *image, CUfunction *to_write, CUfunction *to_read)
{
    CUlibrary library;
    CUkernel k[2];
    CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&k[0], library, "roof_write"));
    CHECK(cuLibraryGetKernel(&k[1], library, "roof_read"));
    *to_write = (CUfunction)(void *)k[0];
    *to_read = (CUfunction)(void *)k[1];
}

static void load(const char *image)
{
    CHECK(cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
    CHECK(cuModuleGetFunction(&write_it, module, "roof_write"));
    CHECK(cuModuleGetFunction(&read_it, module, "roof_read"));
}

/* Kernels whose names have 20 KiB, as those of templates may. */
static void load_mangled(void)
{
    enum { ARGUMENTS = 5000 };
    static char names[2][ARGUMENTS * 4 + 64], image[2 * sizeof names[0] + 16];
    static const char *const parts[2][2] = {{"_Z9roof_readI", "EvPKjPj"},
                                            {"_Z10roof_writeI", "EvPjj"}};
    for (int i = 0; i < 2; i++) {
        char *to = stpcpy(names[i], parts[i][0]);
        for (int k = 0; k < ARGUMENTS; k++)
            to = stpcpy(to, "Li1E");
        strcpy(to, parts[i][1]);
    }
    snprintf(image, sizeof image, "fake image\n%s\n%s\n", names[0], names[1]);
    CHECK(cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
    CHECK(cuModuleGetFunction(&read_it, module, names[0]));
    CHECK(cuModuleGetFunction(&write_it, module, names[1]));
}

/* Constants in a module of their own, of which nothing is launched: what XLA does. */
static CUdeviceptr load_constants(void)
{
    static struct {
        Elf64_Ehdr h;
        Elf64_Shdr s[4]; /* strings of symbols, names of sections, symbols, variables */
        Elf64_Sym symbol;
        char strings[16], names[16], text[64];
    } m;
    CUmodule constants_module;
    CUdeviceptr at;
    size_t bytes;
    memcpy(m.h.e_ident, ELFMAG, SELFMAG);
    m.h.e_ident[EI_CLASS] = ELFCLASS64;
    m.h.e_shoff = (uintptr_t)((char *)m.s - (char *)&m);
    m.h.e_shentsize = sizeof *m.s;
    m.h.e_shnum = 4;
    m.h.e_shstrndx = 1;
    m.h.e_entry = (uintptr_t)(m.text - (char *)&m);
    strcpy(m.strings + 1, "weights");
    strcpy(m.names + 1, ".nv.global");
    snprintf(m.text, sizeof m.text, "fake image\n=weights %d\n", BYTES);
    m.s[0] = (Elf64_Shdr){.sh_offset = (uintptr_t)(m.strings - (char *)&m), .sh_size = 16};
    m.s[1] = (Elf64_Shdr){.sh_offset = (uintptr_t)(m.names - (char *)&m), .sh_size = 16};
    m.s[2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                          .sh_offset = (uintptr_t)((char *)&m.symbol - (char *)&m),
                          .sh_size = sizeof m.symbol};
    m.s[3].sh_name = 1;
    m.symbol = (Elf64_Sym){.st_name = 1,
                           .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                           .st_shndx = 3,
                           .st_size = BYTES};
    CHECK(cuModuleLoadDataEx(&constants_module, &m, 0, NULL, NULL));
    CHECK(cuModuleGetGlobal_v2(&at, &bytes, constants_module, "weights"));
    return at;
}

/* Code with kernels of the same names in the place of the old, as compilers at run time do. */
static void reload(uint32_t i)
{
    char image[128];
    const CUmodule old = module;
    CHECK(cuModuleUnload(module));
    snprintf(image, sizeof image, "fake image\nroof_read\nroof_write\nof step %u\n", i);
    load(image);
    if (module != old) { /* the fake gives handles again */
        fprintf(stderr, "capture_app: another handle\n");
        exit(1);
    }
}

/* Memory by cuMemMap, in the place of `more`. */
static void map(bool imported)
{
    enum { MIB_2 = 2 << 20, MIB_32 = 32 << 20 };
    const CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = p.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    CHECK(cuMemAddressReserve(&more, MIB_32, 0, 0x320000000000, 0));
    if (imported)
        CHECK(cuMemImportFromShareableHandle(&h, NULL, 1));
    else
        CHECK(cuMemCreate(&h, MIB_2, &p, 0));
    CHECK(cuMemMap(more, MIB_2, 0, h, 0));
    if (DOES(twice))
        CHECK(cuMemMap(more + MIB_2, MIB_2, 0, h, 0));
    CHECK(cuMemRelease(h));
    CHECK(cuMemSetAccess(more, MIB_2, &access, 1));
}

static void make(void)
{
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    DOES(mangled) ? load_mangled() : load("fake image\nroof_read\nroof_write\n");
    CHECK(cuMemAlloc_v2(&values, BYTES));
    CHECK(cuMemAlloc_v2(&sums, GRID * 4));
    CHECK(cuMemAllocAsync(&more, BYTES, NULL));
    void *host;
    CHECK(cuMemHostAlloc(&host, GRID * 4, 0));
    pinned = host;
    CHECK(cuMemHostAlloc(&host, BYTES, 0));
    buffer = host;
    memset(buffer, 0, BYTES);
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemsetD32Async(values, 0, BYTES / 4, streams[0]));
    CHECK(cuMemsetD8Async(more, 0, BYTES, streams[0]));
    CHECK(cuMemsetD32Async(sums, 5, GRID, streams[0]));
    CHECK(cuStreamSynchronize(streams[0]));
}

static void make_graph(void)
{
    CUgraph g;
    CHECK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_write(more, 3, streams[0]);
    CHECK(cuMemcpyDtoDAsync_v2(values + 4096, more, 4096, streams[0]));
    launch_read(values, sums, streams[0]);
    CHECK(cuMemsetD32Async(more, 9, 10, streams[0]));
    if (DOES(round_trip)) /* by way of the host */
        CHECK(cuMemcpyDtoHAsync_v2(buffer, more, 4096, streams[0]));
    if (DOES(round_trip) || DOES(written_source))
        CHECK(cuMemcpyHtoDAsync_v2(more + 8192, buffer, 4096, streams[0]));
    CHECK(cuStreamEndCapture(streams[0], &g));
    CHECK(cuGraphInstantiateWithFlags(&graph, g, 0));
    CHECK(cuGraphDestroy(g)); /* as PyTorch does */
}

static void nothing(void *user)
{
    (void)user;
}

static void step(uint32_t i)
{
    CUstream second = streams[DOES(streams)];
    uint32_t input[4] = {i, 17, 4, 9};
    if (DOES(reload))
        reload(i);
    if (DOES(limits))
        CHECK(cuFuncSetAttribute(write_it, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50000));
    CHECK(cuMemsetD32Async(sums, 0, GRID, streams[0]));
    launch_write(values, 2 + i, streams[0]);
    if (DOES(limits))
        CHECK(cuFuncSetAttribute(write_it, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 90000));
    if (DOES(pinned)) /* the program's own work in page-locked memory, some of it the GPU's */
        memset(buffer, (int)i + 1, BYTES);
    if (DOES(pinned) || DOES(written_source))
        CHECK(cuMemcpyDtoHAsync_v2(buffer + 16, values, 64, streams[0]));
    if (DOES(reached))
        launch_write((CUdeviceptr)(uintptr_t)buffer, i + 1, streams[0]);
    if (DOES(registered)) { /* the GPU writes the program's own memory, and reads it */
        launch_write((CUdeviceptr)(uintptr_t)registered, i + 3, streams[0]);
        CHECK(cuMemcpyHtoDAsync_v2(values + 128, registered, 64, streams[0]));
    }
    if (DOES(managed_inside))
        CHECK(cuMemAllocManaged(&late, 4096, 1));
    CHECK(cuMemcpyHtoDAsync_v2(values + 64, input, sizeof input, streams[0]));
    memset(input, 0xff, sizeof input); /* the source may change after the call */
    if (DOES(streams)) {
        CHECK(cuEventRecord(event, streams[0]));
        CHECK(cuStreamWaitEvent(second, event, 0));
    }
    nvtxRangePushA("inner");
    launch_read(values, sums, second);
    nvtxRangePop();
    if (DOES(graph))
        CHECK(cuGraphLaunch(graph, second));
    if (DOES(allocates)) {
        CHECK(cuMemAlloc_v2(&late, BYTES));
        launch_write(late, i, second);
    }
    if (DOES(unseen)) {
        CHECK(fake_cuMemAlloc_v2(&late, BYTES));
        launch_write(late, i, second);
    }
    if (DOES(constants))
        launch_read(constants, sums, second);
    if (DOES(host))
        CHECK(cuLaunchHostFunc(second, nothing, NULL));
    if (DOES(decompress))
        CHECK(cuMemBatchDecompressAsync(NULL, 0, 0, NULL, second));
    if (DOES(future))
        CHECK(cuFutureLaunch());
    if (DOES(future_get))
        CHECK(cuFutureGetThing());
    if (DOES(virtual))
        launch_write(more, 1 + i, second);
    if (DOES(quits))
        exit(7);
    CHECK(cuMemcpyDtoHAsync_v2(pinned, sums, GRID * 4, second));
    CHECK(cuStreamSynchronize(second));
    if (DOES(allocates))
        CHECK(cuMemFree_v2(late));
}

/* In the place of libc's, for the recorder too. */
int statvfs(const char *path, struct statvfs *out)
{
    int (*real)(const char *, struct statvfs *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "statvfs");
    const int result = real(path, out);
    if (disk_mib)
        out->f_bavail = (disk_mib << 20) / out->f_frsize;
    return result;
}

/* What a program leaves to its driver is not lost. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

int main(int argc, char **argv)
{
    uint32_t times = 3, total = 0;
    unsigned long profiled[2] = {-1UL,
                                 -1UL}; /* "profiles=1-2": in front of step 1, behind step 2 */
    const char *range = "step";
    for (int i = 1; i < argc; i++) {
        for (int k = 0; k < N_STEPS; k++)
            does[k] |= strcmp(argv[i], step_names[k]) == 0;
        if (strncmp(argv[i], "range=", 6) == 0)
            range = argv[i] + 6;
        if (strncmp(argv[i], "disk=", 5) == 0)
            disk_mib = strtoul(argv[i] + 5, NULL, 10);
        if (strncmp(argv[i], "profiles=", 9) == 0) {
            char *dash;
            profiled[0] = strtoul(argv[i] + 9, &dash, 10);
            profiled[1] = strtoul(dash + 1, NULL, 10);
        }
        if (strncmp(argv[i], "times=", 6) == 0)
            times = (uint32_t)strtoul(argv[i] + 6, NULL, 10);
    }
    make();
    if (DOES(constants))
        constants = load_constants();
    if (DOES(reserves)) /* three quarters of a GPU of 128 MiB */
        CHECK(cuMemAlloc_v2(&late, 96 << 20));
    if (DOES(managed))
        CHECK(cuMemAllocManaged(&late, 4096, 1));
    if (DOES(ipc) || DOES(ipc_closed))
        CHECK(cuIpcOpenMemHandle_v2(&late, NULL, 0));
    if (DOES(ipc_closed))
        CHECK(cuIpcCloseMemHandle(late));
    if (DOES(pool_imported))
        CHECK(cuMemPoolImportPointer(&late, NULL, NULL));
    if (DOES(texture)) {
        uint64_t object;
        CHECK(cuTexObjectCreate(&object, NULL, NULL, NULL));
    }
    if (DOES(registered)) {
        registered = mmap((void *)0x310000000000, BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(registered == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        CHECK(cuMemHostRegister_v2(registered, BYTES, 0));
    }
    if (DOES(external))
        CHECK(cuExternalMemoryGetMappedBuffer(&late, NULL, NULL));
    if (DOES(virtual) || DOES(imported) || DOES(twice))
        map(DOES(imported));
    if (DOES(library))
        from_library("fake image\nroof_write\nroof_read\nof a library\n", &write_it, &read_it);
    if (DOES(alike)) { /* both are loaded by launches that no tool looks at */
        from_library("fake image\nroof_read\nof another\nroof_write\nroof_write", &write_it,
                     &read_it);
        launch_write(values, 1, streams[0]);
        from_library("fake image\nroof_read\nof a third\nroof_write\nroof_write", &write_it,
                     &read_it);
        launch_write(values, 1, streams[0]);
    }
    if (DOES(graph))
        make_graph();
    if (DOES(captures)) /* the region begins inside a stream capture */
        CHECK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (uint32_t i = 0; i < times; i++) {
        if (i == profiled[0])
            CHECK(cuProfilerStart());
        nvtxRangePushA(range);
        if (!DOES(captures))
            step(i);
        nvtxRangePop();
        if (i == profiled[1])
            CHECK(cuProfilerStop());
        for (int k = 0; k < GRID; k++)
            total = total * 31 + pinned[k];
    }
    printf("%u\n", DOES(captures) ? 0 : total);
    return 0;
}
