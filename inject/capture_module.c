/* Images of modules as they are loaded, and the functions that the program launches from them. */
#define _GNU_SOURCE /* memmem */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capsule/file.h"
#include "inject/capture.h"
#include "inject/elf.h"

struct image {
    unsigned char *p;
    size_t bytes;
    uint64_t hash;
    uint32_t id;         /* CUPTI's of the module; 0 = none */
    bool is_gone;        /* unloaded: handles may be another's by now */
    CUmodule module;     /* NULL = not known yet */
    CUlibrary library;   /* likewise */
    uint32_t in_capsule; /* 1 + its index in CAPSULE_MODULES */
    bool is_shared;      /* p is another's: the same code, loaded once more */
};
static struct list images;        /* lock `images` */
static struct list functions;     /* of struct capture_function; lock `work` */
static struct list params;        /* of struct capsule_param; lock `work` */
static struct list names;         /* of functions, one after the other, with their NUL; likewise */
static _Atomic bool handles_void; /* a module was unloaded: its handles may be given again */
static _Atomic bool lost_image;
static uint64_t unread; /* lock `work` */
/* Words that the driver does not know as pointers: asking takes microseconds, and they repeat. What
 * is allocated later is found among the allocations first. Lock `work`. */
static uint64_t numbers[4096];
static __thread uint32_t loaded_from; /* 1 + the first image of this thread's current call */

void capture_module_reset(void)
{
    for (size_t i = 0; i < images.n; i++)
        if (!LIST_AT(&images, struct image, i)->is_shared)
            munmap(LIST_AT(&images, struct image, i)->p, LIST_AT(&images, struct image, i)->bytes);
    inject_list_free(&images);
    inject_list_free(&functions);
    inject_list_free(&params);
    inject_list_free(&names);
    memset(numbers, 0, sizeof numbers);
    atomic_store(&handles_void, false);
    atomic_store(&lost_image, false);
    unread = 0;
}

/* ---- loading ---- */

static bool wanted(void)
{
    return inject_capture_wanted();
}

/* CUPTI's pointer is valid only now. */
static void loaded(const CUpti_ModuleResourceData *m)
{
    struct image image = {
        .bytes = m->cubinSize, .p = inject_pages(m->cubinSize), .id = m->moduleId};
    if (!image.p) {
        atomic_store(&lost_image, true);
        return;
    }
    memcpy(image.p, m->pCubin, image.bytes);
    pthread_mutex_lock(&capture.images);
    if (!inject_list_append(&images, &image, 1, sizeof image))
        atomic_store(&lost_image, true);
    else if (loaded_from == 0)
        loaded_from = (uint32_t)images.n;
    pthread_mutex_unlock(&capture.images);
}

static void unloaded(uint32_t id)
{
    atomic_store(&handles_void, true);
    pthread_mutex_lock(&capture.images);
    for (size_t i = 0; i < images.n && id; i++)
        if (LIST_AT(&images, struct image, i)->id == id)
            LIST_AT(&images, struct image, i)->is_gone = true;
    pthread_mutex_unlock(&capture.images);
}

/* The hook of handlers.h, for resources. */
static void resource_called(struct guest_thread *me, const CUpti_CallbackData *d,
                            CUpti_CallbackId id)
{
    const CUpti_ResourceData *resource = (const void *)d;
    const CUpti_ModuleResourceData *m = resource->resourceDescriptor;
    (void)me;
    if (capture_is(CAPTURE_OFF))
        return;
    if (id == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING)
        unloaded(m ? m->moduleId : 0);
    else if (m && m->pCubin && m->cubinSize > 0)
        loaded(m);
}

const struct handler inject_handler_capture_image = {WHILE_SUBSCRIBED, wanted, resource_called,
                                                     NULL};

/* Whose image it is that was loaded inside such a call. NULL: cannot be told. */
static CUmodule module_of_function(CUfunction function)
{
    CUmodule module = NULL;
    pthread_mutex_lock(&capture.work);
    const bool can = capture_bind();
    pthread_mutex_unlock(&capture.work);
    return can && capture.driver.cuFuncGetModule(&module, function) == CUDA_SUCCESS ? module : NULL;
}

static void claim(uint32_t i, CUpti_CallbackId id, const uint64_t *v)
{
    const uint64_t result = v[0] ? *(const uint64_t *)(uintptr_t)v[0] : 0;
    CUmodule module = NULL;
    CUlibrary library = NULL;
    switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData:
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadFromFile:
        library = (CUlibrary)(uintptr_t)result;
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryGetKernel:
        library = (CUlibrary)(uintptr_t)v[1];
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuKernelGetFunction:
        module = module_of_function((CUfunction)(uintptr_t)result);
        break;
    default: /* cuModuleLoad*, cuLibraryGetModule */
        module = (CUmodule)(uintptr_t)result;
        break;
    }
    pthread_mutex_lock(&capture.images);
    struct image *m = LIST_AT(&images, struct image, i);
    m->module = module ? module : m->module;
    m->library = library ? library : m->library;
    pthread_mutex_unlock(&capture.images);
}

static void called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)me;
    const uint64_t *v = d->functionParams;
    if (capture_is(CAPTURE_OFF) || !v)
        return;
    uint32_t first = loaded_from;
    loaded_from = 0;
    if (d->callbackSite == CUPTI_API_ENTER || first == 0 || !d->functionReturnValue ||
        *(const int *)d->functionReturnValue != CUDA_SUCCESS)
        return;
    claim(first - 1, id, v);
}

const struct handler inject_handler_capture_module = {WHILE_SUBSCRIBED, wanted, called, NULL};

/* ---- functions ---- */

/* How well an unclaimed image answers to a kernel: its sizes agree, it has one of that name, the
 * name stands anywhere in it (formats whose sections have no names), 0 = not at all. *code: what
 * would run, which two images may share. */
static int likeness(const struct image *m, const char *name, const struct elf_kernel *want,
                    struct elf_kernel *k)
{
    if (inject_elf_kernel(m->p, m->bytes, name, k))
        return k->registers == want->registers && k->static_shared == want->static_shared ? 3 : 2;
    k->code = m->p;
    k->code_bytes = m->bytes;
    return memmem(m->p, m->bytes, name, strlen(name) + 1) != NULL;
}

static bool same_code(const struct elf_kernel *a, const struct elf_kernel *b)
{
    return a->code && b->code && a->code_bytes == b->code_bytes &&
           memcmp(a->code, b->code, a->code_bytes) == 0;
}

/* The image that is most like it, among those that have a module or those that have none, the last
 * of several that are alike. Returns 1 + its index; 0 = none. *unsure: they are not alike in what
 * they would run. */
static uint32_t most_like(bool claimed, const char *name, const struct elf_kernel *want,
                          bool *unsure)
{
    uint32_t found = 0;
    int best = 1;
    struct elf_kernel before = {0}, k;
    *unsure = false;
    for (size_t i = 0; i < images.n; i++) {
        const struct image *m = LIST_AT(&images, struct image, i);
        const bool fits = !m->is_gone && (m->module != NULL) == claimed;
        const int like = fits ? likeness(m, name, want, &k) : 0;
        if (like < best)
            continue;
        *unsure = found && like == best && (*unsure || !same_code(&before, &k));
        best = like;
        before = k;
        found = (uint32_t)i + 1;
    }
    return found;
}

static uint32_t image_of(CUmodule module, CUlibrary library)
{
    for (size_t i = 0; i < images.n; i++) {
        const struct image *m = LIST_AT(&images, struct image, i);
        if (!m->is_gone && (module ? m->module == module : m->library == library && !m->module))
            return (uint32_t)i + 1;
    }
    return 0;
}

/* The image of a module: known from its load or its library's, loaded just now, or the one that has
 * the kernel. CUPTI may tell once of code that is loaded twice. */
static uint32_t find_image(CUmodule module, CUlibrary library, uint32_t just_now, const char *name,
                           const struct elf_kernel *want, bool *unsure)
{
    uint32_t found = image_of(module, NULL);
    *unsure = false;
    if (found)
        return found;
    if (library)
        found = image_of(NULL, library);
    if (!found && just_now && !LIST_AT(&images, struct image, just_now - 1)->module)
        found = just_now;
    if (!found)
        found = most_like(false, name, want, unsure);
    uint32_t twin = found ? 0 : most_like(true, name, want, unsure);
    if (twin) {
        struct image again = *LIST_AT(&images, struct image, twin - 1);
        again.is_shared = true;
        again.in_capsule = 0;
        found = inject_list_append(&images, &again, 1, sizeof again) ? (uint32_t)images.n : 0;
    }
    if (found && !*unsure)
        LIST_AT(&images, struct image, found - 1)->module = module;
    return found;
}

static int attribute(CUfunction f, CUfunction_attribute which)
{
    int value = 0;
    return capture.driver.cuFuncGetAttribute(&value, which, f) == CUDA_SUCCESS ? value : 0;
}

static bool describe_params(struct capture_function *f)
{
    size_t offset, bytes;
    f->first_param = (uint32_t)params.n;
    while (capture.driver.cuFuncGetParamInfo(f->function, f->n_params, &offset, &bytes) ==
           CUDA_SUCCESS) {
        struct capsule_param p = {(uint32_t)offset, (uint32_t)bytes};
        if (offset + bytes > CAPSULE_PARAMS_MAX_BYTES || bytes == 0 ||
            !inject_list_append(&params, &p, 1, sizeof p)) {
            capture_refuse("kernel %s: its parameters have no known layout", f->shown);
            return false;
        }
        f->params_bytes = p.offset + p.bytes;
        f->n_params++;
    }
    return true;
}

const char *capture_function_name(const struct capture_function *f)
{
    return LIST_AT(&names, char, f->name_at);
}

static bool keep_name(struct capture_function *f, const char *name)
{
    f->name_at = names.n;
    if (!inject_list_append(&names, name, strlen(name) + 1, 1)) {
        capture_refuse("no memory for the names of kernels");
        return false;
    }
    const int n = snprintf(f->shown, sizeof f->shown, "%s", name);
    if (n >= (int)sizeof f->shown)
        memcpy(f->shown + sizeof f->shown - 4, "...", 4);
    return true;
}

static bool describe(const void *handle, struct capture_function *f)
{
    const char *name = NULL;
    CUfunction of_kernel;
    CUlibrary library = NULL;
    loaded_from = 0; /* a kernel's code may be loaded by the questions below */
    f->handle = handle;
    f->function = (CUfunction)(uintptr_t)handle;
    /* usually a CUkernel, of which this fails */
    if (capture.driver.cuFuncGetName(&name, f->function) != CUDA_SUCCESS &&
        (capture.driver.cuKernelGetFunction(&of_kernel, (CUkernel)(uintptr_t)handle) !=
             CUDA_SUCCESS ||
         capture.driver.cuFuncGetName(&name, f->function = of_kernel) != CUDA_SUCCESS)) {
        capture_refuse("a kernel's function has no name, handle %p", handle);
        return false;
    }
    if (!keep_name(f, name ? name : ""))
        return false;
    if (capture.driver.cuFuncGetModule(&f->module, f->function) != CUDA_SUCCESS) {
        capture_refuse("kernel %s has no module", f->shown);
        return false;
    }
    if ((const void *)f->function != handle && capture.driver.cuKernelGetLibrary &&
        capture.driver.cuKernelGetLibrary(&library, (CUkernel)(uintptr_t)handle) != CUDA_SUCCESS)
        library = NULL;
    const uint32_t just_now = loaded_from;
    loaded_from = 0;
    struct elf_kernel want = {
        .registers = (uint32_t)attribute(f->function, CU_FUNC_ATTRIBUTE_NUM_REGS),
        .static_shared = (uint32_t)attribute(f->function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)};
    pthread_mutex_lock(&capture.images);
    f->image =
        find_image(f->module, library, just_now, capture_function_name(f), &want, &f->unsure);
    pthread_mutex_unlock(&capture.images);
    return describe_params(f);
}

struct capture_function *capture_function_at(uint32_t i)
{
    return LIST_AT(&functions, struct capture_function, i);
}

uint32_t capture_function_index(const struct capture_function *f)
{
    return (uint32_t)(f - capture_function_at(0));
}

/* Handles of unloaded modules may come again: those found so far keep their index, no handle. */
static void forget_handles(void)
{
    if (!atomic_exchange(&handles_void, false))
        return;
    for (size_t i = 0; i < functions.n; i++)
        LIST_AT(&functions, struct capture_function, i)->handle = NULL;
}

struct capture_function *capture_function_of(const void *handle)
{
    forget_handles();
    for (size_t i = 0; i < functions.n; i++)
        if (LIST_AT(&functions, struct capture_function, i)->handle == handle)
            return LIST_AT(&functions, struct capture_function, i);
    struct capture_function f = {0};
    if (!capture_bind() || !describe(handle, &f))
        return NULL;
    if (!inject_list_append(&functions, &f, 1, sizeof f)) {
        capture_refuse("no memory for the list of kernels");
        return NULL;
    }
    return LIST_AT(&functions, struct capture_function, functions.n - 1);
}

/* ---- globals ---- */

struct globals_of {
    CUmodule module;
    uint32_t in_capsule;
};

/* Added under the image's index; made the capsule's when the image is used. */
static void read_global(void *user, const char *name)
{
    enum { LARGEST = 64 << 20 };
    const struct globals_of *of = user;
    CUdeviceptr at = 0;
    size_t bytes = 0;
    struct list *blob = &capture.sections[CAPSULE_BYTES];
    if (capture.driver.cuModuleGetGlobal_v2(&at, &bytes, of->module, name) != CUDA_SUCCESS ||
        bytes == 0 || bytes > LARGEST || at + bytes > CAPSULE_ADDRESS_END) {
        unread++;
        return;
    }
    struct capsule_global g = {.name = capture_bytes(name, strlen(name)),
                               .value = {blob->n, bytes},
                               .address = at,
                               .module = of->in_capsule};
    if (!inject_list_grow(blob, bytes, 1) ||
        capture.driver.cuMemcpyDtoH_v2(blob->p + g.value.at, at, bytes) != CUDA_SUCCESS) {
        unread++;
        return;
    }
    capture_add(CAPSULE_GLOBALS, &g);
}

/* The index of an image in the capsule; its globals are read when it gets one. Inside the region
 * that is before the first launch from it. */
static uint32_t use_image(uint32_t i)
{
    pthread_mutex_lock(&capture.images);
    struct image m = *LIST_AT(&images, struct image, i);
    pthread_mutex_unlock(&capture.images);
    if (m.in_capsule)
        return m.in_capsule - 1;
    m.hash = capsule_hash(m.p, m.bytes);
    uint32_t index =
        capture_add(CAPSULE_MODULES, &(struct capsule_module){.bytes = m.bytes, .hash = m.hash});
    if (index == CAPSULE_NONE)
        return index;
    m.in_capsule = index + 1;
    pthread_mutex_lock(&capture.images);
    LIST_AT(&images, struct image, i)->in_capsule = m.in_capsule;
    pthread_mutex_unlock(&capture.images);
    inject_elf_variables(m.p, m.bytes, read_global, &(struct globals_of){m.module, index});
    return index;
}

/* Modules that earlier launches have shown: some may not be used by the region. */
void capture_modules_start(void)
{
    for (size_t i = 0; i < functions.n && !capture_is(CAPTURE_OFF); i++)
        if (LIST_AT(&functions, struct capture_function, i)->image)
            use_image(LIST_AT(&functions, struct capture_function, i)->image - 1);
}

uint32_t capture_function_use(struct capture_function *f)
{
    static const char *const collectives[] = {"ncclDevKernel", "ncclKernel", "nvshmem"};
    const char *name = capture_function_name(f);
    if (f->in_capsule)
        return f->in_capsule - 1;
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        if (strncmp(name, collectives[i], strlen(collectives[i])) == 0) {
            capture_refuse("not captured: communication with other GPUs: kernel %s", f->shown);
            return CAPSULE_NONE;
        }
    if (!f->image) {
        capture_refuse("no image was seen of the module of kernel %s, among %zu", f->shown,
                       images.n);
        return CAPSULE_NONE;
    }
    if (f->unsure) {
        capture_refuse("not captured: kernel %s is in several modules, with different code, whose "
                       "loading was not seen apart",
                       f->shown);
        return CAPSULE_NONE;
    }
    struct capsule_function out = {
        .module = use_image(f->image - 1),
        .name = capture_bytes(name, strlen(name)),
        .first_param = capture_add_many(
            CAPSULE_PARAMS, LIST_AT(&params, struct capsule_param, f->first_param), f->n_params),
        .n_params = f->n_params,
        .params_bytes = f->params_bytes,
        .dynamic_shared = attribute(f->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
        .shared_carveout =
            attribute(f->function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
        .any_cluster_size =
            attribute(f->function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED),
        .registers = attribute(f->function, CU_FUNC_ATTRIBUTE_NUM_REGS),
        .static_shared = attribute(f->function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
        .local_bytes = attribute(f->function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
    };
    uint32_t index = capture_is(CAPTURE_OFF) ? CAPSULE_NONE : capture_add(CAPSULE_FUNCTIONS, &out);
    if (index != CAPSULE_NONE)
        f->in_capsule = index + 1;
    return index;
}

/* A program may raise a limit between two launches. */
void capture_functions_end(void)
{
    for (size_t i = 0; i < functions.n; i++) {
        const struct capture_function *f = capture_function_at((uint32_t)i);
        if (!f->in_capsule || !f->handle)
            continue;
        struct capsule_function *out = CAPTURE_AT(FUNCTIONS, function, f->in_capsule - 1);
        const int now = attribute(f->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
        out->dynamic_shared = now > out->dynamic_shared ? now : out->dynamic_shared;
    }
}

/* ---- parameters ---- */

bool capture_params(const struct capture_function *f, void **values, void **extra,
                    unsigned char *to)
{
    enum { END, POINTER, SIZE }; /* CU_LAUNCH_PARAM_... */
    const unsigned char *packed = NULL;
    size_t bytes = 0;
    for (size_t i = 0; extra && (uintptr_t)extra[i] != END; i += 2) {
        if ((uintptr_t)extra[i] == POINTER)
            packed = extra[i + 1];
        else if ((uintptr_t)extra[i] == SIZE)
            bytes = *(const size_t *)extra[i + 1];
        else
            break;
    }
    memset(to, 0, f->params_bytes);
    if (f->params_bytes == 0)
        return true;
    if (packed) {
        memcpy(to, packed, bytes < f->params_bytes ? bytes : f->params_bytes);
        return true;
    }
    for (uint32_t i = 0; values && i < f->n_params; i++) {
        const struct capsule_param *p = LIST_AT(&params, struct capsule_param, f->first_param + i);
        memcpy(to + p->offset, values[i], p->bytes);
    }
    if (!values)
        capture_refuse("kernel %s is launched without parameters", f->shown);
    return values != NULL;
}

static bool in_globals(uint64_t at)
{
    for (uint32_t i = 0; i < CAPTURE_COUNT(GLOBALS); i++) {
        const struct capsule_global *g = CAPTURE_AT(GLOBALS, global, i);
        if (at >= g->address && at - g->address < g->value.bytes)
            return true;
    }
    return false;
}

/* A variable of a module that no launch has shown: compilers put constants into one of their own.
 */
struct variable_at {
    CUmodule module;
    uint64_t word;
    bool found;
};

static void look_at_variable(void *user, const char *name)
{
    struct variable_at *v = user;
    CUdeviceptr at = 0;
    size_t bytes = 0;
    v->found = v->found ||
               (capture.driver.cuModuleGetGlobal_v2(&at, &bytes, v->module, name) == CUDA_SUCCESS &&
                v->word >= at && v->word - at < bytes);
}

static bool is_of_unused_module(uint64_t word)
{
    bool found = false;
    pthread_mutex_lock(&capture.images);
    const size_t n = images.n;
    pthread_mutex_unlock(&capture.images);
    for (size_t i = 0; i < n && !found; i++) {
        pthread_mutex_lock(&capture.images);
        const struct image m = *LIST_AT(&images, struct image, i);
        pthread_mutex_unlock(&capture.images);
        struct variable_at v = {m.module, word, false};
        if (!m.module || m.is_gone || m.in_capsule)
            continue;
        inject_elf_variables(m.p, m.bytes, look_at_variable, &v);
        found = v.found && use_image((uint32_t)i) != CAPSULE_NONE && in_globals(word);
    }
    return found;
}

static bool is_pointer(uint64_t word)
{
    enum { SLOTS = sizeof numbers / sizeof *numbers };
    CUmemorytype type;
    uint64_t *slot = &numbers[(word * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS];
    if (*slot == word)
        return false;
    if (capture.driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) ==
        CUDA_SUCCESS)
        return true;
    *slot = word;
    return false;
}

bool capture_params_check(const struct capture_function *f, const unsigned char *bytes)
{
    enum { LOWEST = 1 << 16 };
    for (uint32_t i = 0; i < f->n_params; i++) {
        const struct capsule_param *p = LIST_AT(&params, struct capsule_param, f->first_param + i);
        for (uint32_t at = (p->offset + 7) / 8 * 8; at + 8 <= p->offset + p->bytes; at += 8) {
            uint64_t word;
            memcpy(&word, bytes + at, sizeof word);
            if (word < LOWEST || word >= CAPSULE_ADDRESS_END || capture_memory_reach(word) ||
                !is_pointer(word) || in_globals(word) || is_of_unused_module(word))
                continue;
            capture_refuse("kernel %s: parameter %u points to memory that was not seen being "
                           "allocated, at 0x%" PRIx64,
                           f->shown, i, word);
            return false;
        }
    }
    return true;
}

/* ---- writing ---- */

static bool write_image(const char *path, const struct image *m)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool ok = fd >= 0;
    for (size_t at = 0; ok && at < m->bytes;) {
        ssize_t n = write(fd, m->p + at, m->bytes - at);
        if (n < 0 && errno == EINTR)
            continue;
        ok = n > 0;
        at += ok ? (size_t)n : 0;
    }
    if (fd >= 0 && close(fd) != 0)
        ok = false;
    if (!ok)
        capture_refuse("cannot write %s: errno %d", path, errno);
    return ok;
}

bool capture_images_write(const char *dir, uint64_t *globals_unread)
{
    char path[sizeof capture.dir + 64];
    *globals_unread = unread;
    if (atomic_load(&lost_image))
        capture_refuse("no memory to keep the image of a module");
    snprintf(path, sizeof path, "%s/" CAPSULE_IMAGES, dir);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        capture_refuse("cannot create %s: errno %d", path, errno);
        return false;
    }
    bool ok = true;
    pthread_mutex_lock(&capture.images);
    size_t n = images.n;
    pthread_mutex_unlock(&capture.images);
    for (size_t i = 0; i < n && ok && !capture_is(CAPTURE_OFF); i++) {
        pthread_mutex_lock(&capture.images);
        struct image m = *LIST_AT(&images, struct image, i);
        pthread_mutex_unlock(&capture.images);
        if (!m.in_capsule)
            continue;
        snprintf(path, sizeof path, "%s/" CAPSULE_IMAGES "/%04u.cubin", dir, m.in_capsule - 1);
        ok = write_image(path, &m);
    }
    return ok && !capture_is(CAPTURE_OFF);
}
