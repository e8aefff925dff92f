#define _GNU_SOURCE /* dladdr */
#include "gpu/library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/str.h"
#include "gpu/cupti_list.h"

struct function {
    const char *name;
    bool needed;
};

#define X(name, arguments, needed) {#name, needed},
static const struct function cuda_functions[] = {GPU_CUDA_LIST(X){NULL, false}};
static const struct function nvml_functions[] = {GPU_NVML_LIST(X){NULL, false}};
static const struct function cupti_functions[] = {GPU_CUPTI_LIST(X){NULL, false}};
#undef X
static const struct function cublaslt_functions[] = {{"cublasLtCreate", true},
                                                     {"cublasLtMatmul", true},
                                                     {"cublasLtGetVersion", true},
                                                     {NULL, false}};
static const struct function cudnn_functions[] = {
    {"cudnnCreate", true}, {"cudnnGetVersion", true}, {NULL, false}};
static const struct function nvrtc_functions[] = {
    {"nvrtcCompileProgram", true}, {"nvrtcVersion", true}, {NULL, false}};
static const struct function nccl_functions[] = {
    {"ncclCommInitRank", true}, {"ncclAllReduce", true}, {"ncclGetVersion", true}, {NULL, false}};

static const struct {
    const char *names[5];
    const struct function *functions;
} libraries[GPU_LIBS] = {
    [GPU_LIB_CUDA] = {{GPU_CUDA_LIBRARY}, cuda_functions},
    [GPU_LIB_NVML] = {{GPU_NVML_LIBRARY}, nvml_functions},
    [GPU_LIB_CUPTI] = {GPU_CUPTI_NAMES, cupti_functions},
    [GPU_LIB_CUBLASLT] = {{"libcublasLt.so.13", "libcublasLt.so.12"}, cublaslt_functions},
    [GPU_LIB_CUDNN] = {{"libcudnn.so.9", "libcudnn.so.8"}, cudnn_functions},
    [GPU_LIB_NVRTC] = {{"libnvrtc.so.13", "libnvrtc.so.12"}, nvrtc_functions},
    [GPU_LIB_NCCL] = {{"libnccl.so.2"}, nccl_functions},
};

static const char *const folders[] = GPU_FOLDERS;

static void *open_any(struct arena *a, enum gpu_library_id id, const char **name)
{
    for (size_t i = 0; i < 5 && libraries[id].names[i]; i++)
        for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
            *name = arena_printf(a, "%s%s", folders[f], libraries[id].names[i]);
            void *lib = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
            if (lib)
                return lib;
        }
    *name = libraries[id].names[0];
    return NULL;
}

/* Where a function of the library was loaded from. */
static const char *path_of(struct arena *a, void *lib, const char *function)
{
    Dl_info info;
    void *at = dlsym(lib, function);
    return at && dladdr(at, &info) && info.dli_fname ? arena_str(a, info.dli_fname) : NULL;
}

static const char *version_of(struct arena *a, enum gpu_library_id id, void *lib)
{
    union {
        void *p;
        int (*to_int)(int *);
        int (*to_u32)(uint32_t *);
        size_t (*as_size)(void);
        int (*to_two)(int *, int *);
    } f;
    int major = 0, minor = 0;
    uint32_t u = 0;
    size_t n = 0;
    switch (id) {
    case GPU_LIB_CUDA:
        f.p = dlsym(lib, "cuDriverGetVersion");
        if (f.p && f.to_int(&major) == 0)
            return arena_printf(a, "CUDA %d.%d", major / 1000, major % 1000 / 10);
        break;
    case GPU_LIB_CUPTI:
        f.p = dlsym(lib, "cuptiGetVersion");
        if (f.p && f.to_u32(&u) == 0)
            return arena_printf(a, "API %u", u);
        break;
    case GPU_LIB_CUBLASLT:
        f.p = dlsym(lib, "cublasLtGetVersion");
        n = f.p ? f.as_size() : 0;
        break;
    case GPU_LIB_CUDNN:
        f.p = dlsym(lib, "cudnnGetVersion");
        n = f.p ? f.as_size() : 0;
        break;
    case GPU_LIB_NVRTC:
        f.p = dlsym(lib, "nvrtcVersion");
        if (f.p && f.to_two(&major, &minor) == 0)
            return arena_printf(a, "%d.%d", major, minor);
        break;
    case GPU_LIB_NCCL:
        f.p = dlsym(lib, "ncclGetVersion");
        if (f.p && f.to_int(&major) == 0)
            return arena_printf(a, "%d.%d.%d", major / 10000, major / 100 % 100, major % 100);
        break;
    case GPU_LIB_NVML:
    case GPU_LIBS:
        break;
    }
    return n ? arena_printf(a, "%zu", n) : NULL;
}

void gpu_library_look(struct arena *a, enum gpu_library_id id, struct gpu_library *out)
{
    *out = (struct gpu_library){0};
    void *lib = open_any(a, id, &out->name);
    if (!lib)
        return;
    struct buf absent = {0};
    for (const struct function *f = libraries[id].functions; f->name; f++) {
        if (!out->path)
            out->path = path_of(a, lib, f->name);
        if (dlsym(lib, f->name))
            continue;
        if (f->needed && !out->missing)
            out->missing = f->name;
        if (!f->needed)
            buf_printf(&absent, "%s%s", absent.n ? ", " : "", f->name);
    }
    if (!out->path)
        out->path = out->name;
    out->absent = absent.n ? arena_str(a, buf_str(&absent)) : NULL;
    out->version = version_of(a, id, lib);
    buf_free(&absent);
}

static enum st no_driver(struct err *e, const char *library)
{
    err_set(e, ST_DEVICE, "%s is not on this machine", library);
    return err_hint(e, "install the NVIDIA driver, or start the container with GPUs "
                       "(--gpus all); twinfer doctor looks further");
}

enum st gpu_cuda_open(struct gpu_cuda *out, struct err *e)
{
    void *lib = dlopen(GPU_CUDA_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!lib)
        return no_driver(e, GPU_CUDA_LIBRARY);
    const char *missing = gpu_cuda_bind(out, lib);
    if (missing) {
        err_set(e, ST_DEVICE, "%s lacks %s", GPU_CUDA_LIBRARY, missing);
        return err_hint(e, "the driver is too old: CUDA 12.0 (driver 525) or newer is needed");
    }
    int result = out->cuInit(0);
    if (result == 0)
        return ST_OK;
    const char *text = NULL;
    if (out->cuGetErrorString)
        out->cuGetErrorString(result, &text);
    err_set(e, ST_DEVICE, "cuInit: %s (%d)", text ? text : "an error", result);
    return err_hint(e, "nvidia-smi tells whether the driver sees a GPU; CUDA_VISIBLE_DEVICES may "
                       "hide all of them");
}

enum st gpu_nvml_open(struct gpu_nvml *out, struct err *e)
{
    void *lib = dlopen(GPU_NVML_LIBRARY, RTLD_NOW);
    if (!lib)
        return no_driver(e, GPU_NVML_LIBRARY);
    const char *missing = NULL;
#define X(name, arguments, needed)            \
    *(void **)&out->name = dlsym(lib, #name); \
    if (!out->name && (needed) && !missing)   \
        missing = #name;
    GPU_NVML_LIST(X)
#undef X
    if (missing)
        return err_set(e, ST_DEVICE, "%s lacks %s", GPU_NVML_LIBRARY, missing);
    int result = out->nvmlInit_v2();
    if (result == 0)
        return ST_OK;
    return err_set(e, ST_DEVICE, "nvmlInit: error %d", result);
}
