#define _GNU_SOURCE /* dladdr */
#include "gpu/library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "gpu/places.h"

struct library_function {
    const char *name;
    bool needed;
};

#define X(name, arguments, needed) {#name, needed},
static const struct library_function cuda_functions[] = {GPU_CUDA_LIST(X)
                                                             GPU_DRIVER_LIST(X){NULL, false}};
static const struct library_function nvml_functions[] = {GPU_NVML_LIST(X){NULL, false}};
static const struct library_function cupti_functions[] = {GPU_CUPTI_LIST(X){NULL, false}};
static const struct library_function nvrtc_functions[] = {GPU_NVRTC_LIST(X){NULL, false}};
static const struct library_function cublaslt_functions[] = {
    {"cublasLtGetVersion", true},
    GPU_CUBLASLT_LIST(X){"cublasLtGetStatusString", false},
    {NULL, false}};
#undef X
static const struct library_function cudnn_functions[] = {
    {"cudnnCreate", true}, {"cudnnGetVersion", true}, {NULL, false}};
static const struct library_function nccl_functions[] = {
    {"ncclCommInitRank", true}, {"ncclAllReduce", true}, {"ncclGetVersion", true}, {NULL, false}};

enum { MAX_NAMES = 5 };
static const struct {
    const char *names[MAX_NAMES];
    const struct library_function *functions;
} libraries[GPU_LIBS] = {
    [GPU_LIB_CUDA] = {{GPU_CUDA_LIBRARY}, cuda_functions},
    [GPU_LIB_NVML] = {{GPU_NVML_LIBRARY}, nvml_functions},
    [GPU_LIB_CUPTI] = {GPU_CUPTI_NAMES, cupti_functions},
    [GPU_LIB_CUBLASLT] = {GPU_CUBLASLT_NAMES, cublaslt_functions},
    [GPU_LIB_CUDNN] = {{"libcudnn.so.9", "libcudnn.so.8"}, cudnn_functions},
    [GPU_LIB_NVRTC] = {GPU_NVRTC_NAMES, nvrtc_functions},
    [GPU_LIB_NCCL] = {{"libnccl.so.2"}, nccl_functions},
};

/* ---- finding --------------------------------------------------------------------------------- */

/* Says no to a library that was opened; NULL accepts any. */
typedef bool fits_fn(void *lib, int driver_version);

struct library_search {
    struct arena *a;
    enum gpu_library_id id;
    int flags; /* of dlopen */
    fits_fn *fits;
    int driver_version;
    const char *too_new; /* result: a library that was passed over, or NULL */
};

static void *try_one(struct library_search *s, const char *name)
{
    void *lib = dlopen(name, s->flags);
    if (!lib || !s->fits || s->fits(lib, s->driver_version))
        return lib;
    s->too_new = name; /* it stays: what it allocated as it was loaded cannot be freed */
    return NULL;
}

static void *find(struct library_search *s, const char **name)
{
    struct gpu_places places = {0};
    for (size_t i = 0; i < MAX_NAMES && libraries[s->id].names[i]; i++) {
        *name = libraries[s->id].names[i];
        void *lib = try_one(s, *name);
        if (lib)
            return lib;
        if (!places.folders)
            gpu_places_find(s->a, &places);
        for (size_t f = 0; f < places.n; f++) {
            const char *path = arena_printf(s->a, "%s/%s", places.folders[f], *name);
            if (fs_exists(path) && (lib = try_one(s, path)) != NULL) {
                *name = path;
                return lib;
            }
        }
    }
    *name = libraries[s->id].names[0];
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
    void *lib = find(&(struct library_search){.a = a, .id = id, .flags = RTLD_NOW | RTLD_LOCAL},
                     &out->name);
    if (!lib)
        return;
    struct buf absent = {0};
    for (const struct library_function *f = libraries[id].functions; f->name; f++) {
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

/* ---- opening --------------------------------------------------------------------------------- */

static enum st no_driver(struct err *e, const char *library)
{
    err_set(e, ST_DEVICE, "%s is not on this machine", library);
    return err_hint(e, "install the NVIDIA driver, or start the container with GPUs "
                       "(--gpus all); twinfer doctor looks further");
}

static enum st old_driver(struct err *e, const char *missing)
{
    err_set(e, ST_DEVICE, "%s lacks %s", GPU_CUDA_LIBRARY, missing);
    return err_hint(e, "the driver is too old: CUDA 12.0 (driver 525) or newer is needed");
}

/* Of the driver's own libraries; nothing of the search is kept. */
static void *find_of_driver(enum gpu_library_id id, int flags)
{
    const char *name;
    struct arena *a = arena_new();
    void *lib = find(&(struct library_search){.a = a, .id = id, .flags = flags}, &name);
    arena_free(&a);
    return lib;
}

enum st gpu_cuda_open(struct gpu_cuda *out, struct err *e)
{
    void *lib = find_of_driver(GPU_LIB_CUDA, RTLD_NOW | RTLD_GLOBAL);
    if (!lib)
        return no_driver(e, GPU_CUDA_LIBRARY);
    const char *missing = gpu_cuda_bind(out, lib);
    if (missing)
        return old_driver(e, missing);
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

/* The rows of a list; `missing` is the first needed function that is not there. */
#define BIND(name, arguments, needed)         \
    *(void **)&out->name = dlsym(lib, #name); \
    if (!out->name && (needed) && !missing)   \
        missing = #name;

enum st gpu_driver_open(struct gpu_driver *out, struct err *e)
{
    const char *missing = NULL;
    void *lib = find_of_driver(GPU_LIB_CUDA, RTLD_NOW | RTLD_GLOBAL);
    if (!lib)
        return no_driver(e, GPU_CUDA_LIBRARY);
    GPU_DRIVER_LIST(BIND)
    return missing ? old_driver(e, missing) : ST_OK;
}

enum st gpu_nvml_open(struct gpu_nvml *out, struct err *e)
{
    void *lib = find_of_driver(GPU_LIB_NVML, RTLD_NOW);
    if (!lib)
        return no_driver(e, GPU_NVML_LIBRARY);
    const char *missing = NULL;
    GPU_NVML_LIST(BIND)
    if (missing)
        return err_set(e, ST_DEVICE, "%s lacks %s", GPU_NVML_LIBRARY, missing);
    int result = out->nvmlInit_v2();
    if (result == 0)
        return ST_OK;
    return err_set(e, ST_DEVICE, "nvmlInit: error %d", result);
}

static bool nvrtc_fits(void *lib, int driver_version)
{
    nvrtcResult (*version)(int *, int *) = NULL;
    int major = 0, minor = 0;
    *(void **)&version = dlsym(lib, "nvrtcVersion");
    return driver_version == 0 || !version || version(&major, &minor) != NVRTC_SUCCESS ||
           major <= driver_version / 1000;
}

static bool cublaslt_fits(void *lib, int driver_version)
{
    size_t (*version)(void) = NULL;
    *(void **)&version = dlsym(lib, "cublasLtGetVersion");
    return driver_version == 0 || !version || version() / 10000 <= (size_t)driver_version / 1000;
}

/* Of CUDA 12 and older the interface has numbers of two digits. */
static bool cupti_fits(void *lib, int driver_version)
{
    CUptiResult (*version)(uint32_t *) = NULL;
    uint32_t v = 0;
    *(void **)&version = dlsym(lib, "cuptiGetVersion");
    return driver_version == 0 || !version || version(&v) != CUPTI_SUCCESS || v < 10000 ||
           v / 10000 <= (uint32_t)driver_version / 1000;
}

/* A library that comes with a toolkit or as a wheel. */
static enum st open_part(struct library_search *s, const char *wheel, void **lib, struct err *e)
{
    const char *name;
    s->flags = RTLD_NOW | RTLD_LOCAL;
    *lib = find(s, &name);
    if (*lib)
        return ST_OK;
    if (s->too_new) {
        err_set(e, ST_DEVICE, "%s is newer than the driver, which speaks CUDA %d.%d", s->too_new,
                s->driver_version / 1000, s->driver_version % 1000 / 10);
        return err_hint(e, "pip install %s-cu12, or a newer driver", wheel);
    }
    err_set(e, ST_DEVICE, "%s was not found", name);
    return err_hint(e, "pip install %s; a folder of its own can be named in TWINFER_GPU_LIBRARIES",
                    wheel);
}

static enum st lacks(struct err *e, const char *path, const char *missing)
{
    err_set(e, ST_DEVICE, "%s lacks %s", path, missing);
    return err_hint(e, "the library of CUDA 12.0 or a newer one is needed");
}

enum st gpu_nvrtc_open(struct arena *a, int driver_version, struct gpu_nvrtc *out, struct err *e)
{
    struct library_search s = {
        .a = a, .id = GPU_LIB_NVRTC, .fits = nvrtc_fits, .driver_version = driver_version};
    const char *missing = NULL;
    void *lib;
    *out = (struct gpu_nvrtc){0};
    TRY(open_part(&s, "nvidia-cuda-nvrtc", &lib, e));
    GPU_NVRTC_LIST(BIND)
    out->path = path_of(a, lib, "nvrtcVersion");
    if (missing)
        return lacks(e, out->path ? out->path : "libnvrtc", missing);
    if (out->nvrtcVersion(&out->major, &out->minor) != NVRTC_SUCCESS)
        return err_set(e, ST_DEVICE, "%s gives no version", out->path);
    return ST_OK;
}

enum st gpu_cublaslt_open(struct arena *a, int driver_version, struct gpu_cublaslt *out,
                          struct err *e)
{
    struct library_search s = {
        .a = a, .id = GPU_LIB_CUBLASLT, .fits = cublaslt_fits, .driver_version = driver_version};
    const char *missing = NULL;
    void *lib;
    *out = (struct gpu_cublaslt){0};
    TRY(open_part(&s, "nvidia-cublas", &lib, e));
    GPU_CUBLASLT_LIST(BIND)
    BIND(cublasLtGetVersion, (void), 1)
    BIND(cublasLtGetStatusString, (cublasStatus_t), 0)
    out->path = path_of(a, lib, "cublasLtGetVersion");
    if (missing)
        return lacks(e, out->path ? out->path : "libcublasLt", missing);
    out->version = out->cublasLtGetVersion();
    return ST_OK;
}

enum st gpu_cupti_open(struct arena *a, int driver_version, struct gpu_cupti *out, struct err *e)
{
    struct library_search s = {
        .a = a, .id = GPU_LIB_CUPTI, .fits = cupti_fits, .driver_version = driver_version};
    const char *missing = NULL;
    void *lib;
    *out = (struct gpu_cupti){0};
    TRY(open_part(&s, "nvidia-cuda-cupti", &lib, e));
    GPU_CUPTI_LIST(BIND)
    out->path = path_of(a, lib, "cuptiGetVersion");
    if (missing)
        return lacks(e, out->path ? out->path : "libcupti", missing);
    if (out->cuptiGetVersion(&out->version) != CUPTI_SUCCESS)
        return err_set(e, ST_DEVICE, "%s gives no version", out->path);
    return ST_OK;
}
