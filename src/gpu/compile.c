#include "gpu/compile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpu/cache.h"

struct gpu_compiler {
    struct gpu_nvrtc nvrtc;
    struct arena *arena; /* of the next two */
    const char *cache;
    int *archs; /* those NVRTC knows, ascending: 90 = sm_90 */
    int n_archs;
    pthread_mutex_t lock; /* of the stats */
    struct gpu_compile_stats stats;
    bool warned; /* that the cache cannot be written */
};

static int compare_int(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

void gpu_compiler_open(const struct gpu_nvrtc *nvrtc, const char *cache, struct gpu_compiler **out)
{
    struct arena *arena = arena_new();
    struct gpu_compiler *c = arena_one(arena, struct gpu_compiler);
    int n = 0;
    c->nvrtc = *nvrtc;
    c->arena = arena;
    c->cache = cache ? arena_str(arena, cache) : NULL;
    pthread_mutex_init(&c->lock, NULL);
    if (nvrtc->nvrtcGetNumSupportedArchs(&n) == NVRTC_SUCCESS && n > 0) {
        c->archs = arena_array(arena, int, n);
        if (nvrtc->nvrtcGetSupportedArchs(c->archs) == NVRTC_SUCCESS)
            c->n_archs = n;
        qsort(c->archs, (size_t)c->n_archs, sizeof *c->archs, compare_int);
    }
    *out = c;
}

void gpu_compiler_close(struct gpu_compiler **c)
{
    if (!c || !*c)
        return;
    pthread_mutex_destroy(&(*c)->lock);
    struct arena *arena = (*c)->arena;
    *c = NULL;
    arena_free(&arena);
}

bool gpu_compile_arch(const struct gpu_compiler *c, uint32_t major, uint32_t minor,
                      char out[GPU_ARCH_MAX])
{
    const int own = (int)(major * 10 + minor);
    int below = 0;
    for (int i = 0; i < c->n_archs; i++) {
        if (c->archs[i] == own) { /* the variants "a" came with Hopper */
            snprintf(out, GPU_ARCH_MAX, "sm_%d%s", own, major >= 9 ? "a" : "");
            return true;
        }
        if (c->archs[i] < own)
            below = c->archs[i];
    }
    if (below)
        snprintf(out, GPU_ARCH_MAX, "compute_%d", below);
    return below != 0;
}

struct gpu_compile_stats gpu_compile_stats(struct gpu_compiler *c)
{
    pthread_mutex_lock(&c->lock);
    const struct gpu_compile_stats out = c->stats;
    pthread_mutex_unlock(&c->lock);
    return out;
}

/* ---- the cache ------------------------------------------------------------------------------- */

static void make_key(const struct gpu_compiler *c, const struct gpu_source *s, const char *arch,
                     struct buf *key)
{
    buf_printf(key, "kernel %d.%d ", c->nvrtc.major, c->nvrtc.minor);
    gpu_cache_key_add(key, arch);
    gpu_cache_key_add(key, s->name);
    for (size_t i = 0; s->options && s->options[i]; i++)
        gpu_cache_key_add(key, s->options[i]);
    gpu_cache_key_add(key, ""); /* ends the options */
    gpu_cache_key_add(key, s->text);
}

/* ---- compiling ------------------------------------------------------------------------------- */

enum { MAX_OPTIONS = 64, LOG_LINES = 6 };

static const char *log_of(const struct gpu_nvrtc *n, struct arena *a, nvrtcProgram program)
{
    size_t bytes = 0;
    if (n->nvrtcGetProgramLogSize(program, &bytes) != NVRTC_SUCCESS || bytes < 2)
        return "";
    char *text = arena_alloc(a, bytes + 1);
    return n->nvrtcGetProgramLog(program, text) == NVRTC_SUCCESS ? text : "";
}

/* The first lines of the log are causes, the first of them outermost. */
static enum st refuse(struct err *e, const struct gpu_source *s, const char *arch,
                      nvrtcResult result, const char *log)
{
    const char *lines[LOG_LINES];
    size_t lengths[LOG_LINES];
    int n = 0;
    for (const char *p = log; *p && n < LOG_LINES;) {
        const size_t length = strcspn(p, "\n");
        if (length > 0) {
            lines[n] = p;
            lengths[n++] = length < 300 ? length : 300;
        }
        p += length + (p[length] == '\n');
    }
    err_clear(e);
    if (n == 0)
        err_set(e, ST_DEVICE, "NVRTC gives error %d and no log", (int)result);
    for (int i = n - 1; i >= 0; i--)
        if (i == n - 1)
            err_set(e, ST_DEVICE, "%.*s", (int)lengths[i], lines[i]);
        else
            err_add(e, "%.*s", (int)lengths[i], lines[i]);
    if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
        err_hint(e, "libnvrtc-builtins of the same version must stand beside libnvrtc");
    return err_add(e, "%s does not compile for %s", s->name, arch);
}

static enum st get_image(const struct gpu_nvrtc *n, struct arena *a, nvrtcProgram program,
                         const char *arch, struct sv *image)
{
    const bool ptx = strncmp(arch, "compute_", 8) == 0;
    size_t bytes = 0;
    nvrtcResult result =
        ptx ? n->nvrtcGetPTXSize(program, &bytes) : n->nvrtcGetCUBINSize(program, &bytes);
    if (result != NVRTC_SUCCESS || bytes == 0)
        return ST_DEVICE;
    char *p = arena_alloc(a, bytes + 1);
    result = ptx ? n->nvrtcGetPTX(program, p) : n->nvrtcGetCUBIN(program, p);
    *image = (struct sv){p, bytes};
    return result == NVRTC_SUCCESS ? ST_OK : ST_DEVICE;
}

static enum st compile(const struct gpu_nvrtc *n, struct arena *a, const struct gpu_source *s,
                       const char *arch, struct sv *image, struct err *e)
{
    const char *options[MAX_OPTIONS];
    int n_options = 0;
    options[n_options++] = arena_printf(a, "--gpu-architecture=%s", arch);
    for (size_t i = 0; s->options && s->options[i]; i++) {
        ASSERT(n_options < MAX_OPTIONS);
        options[n_options++] = s->options[i];
    }
    nvrtcProgram program = NULL;
    nvrtcResult result = n->nvrtcCreateProgram(&program, s->text, s->name, 0, NULL, NULL);
    if (result != NVRTC_SUCCESS)
        return refuse(e, s, arch, result, "");
    result = n->nvrtcCompileProgram(program, n_options, options);
    const char *log = log_of(n, a, program);
    enum st st = ST_OK;
    if (result != NVRTC_SUCCESS)
        st = refuse(e, s, arch, result, log);
    else if (get_image(n, a, program, arch, image) != ST_OK)
        st = err_set(e, ST_DEVICE, "NVRTC gives no image of %s for %s", s->name, arch);
    else if (*log)
        log_debug("%s for %s: %s", s->name, arch, log);
    n->nvrtcDestroyProgram(&program);
    return st;
}

static void count(struct gpu_compiler *c, double compile_s, bool stored)
{
    pthread_mutex_lock(&c->lock);
    c->stats.compiled++;
    c->stats.compile_s += compile_s;
    if (c->cache)
        *(stored ? &c->stats.stored : &c->stats.not_stored) += 1;
    pthread_mutex_unlock(&c->lock);
}

/* Refusals of the cache are reported once. */
static bool store(struct gpu_compiler *c, const struct buf *key, const char *arch, struct sv image)
{
    struct err e = {0};
    if (!c->cache || gpu_cache_put(c->cache, key, arch, image, &e) == ST_OK)
        return true;
    pthread_mutex_lock(&c->lock);
    const bool first = !c->warned;
    c->warned = true;
    pthread_mutex_unlock(&c->lock);
    if (first)
        log_debug("compiled kernels are not kept: %s", err_cause(&e, 0));
    return false;
}

static enum st compile_and_store(struct gpu_compiler *c, struct arena *a,
                                 const struct gpu_source *s, const char *arch,
                                 const struct buf *key, struct sv *image, struct err *e)
{
    const int64_t start_ns = clock_mono_ns();
    TRY(compile(&c->nvrtc, a, s, arch, image, e));
    const double compile_s = ns_to_s(clock_mono_ns() - start_ns);
    count(c, compile_s, store(c, key, arch, *image));
    return ST_OK;
}

enum st gpu_compile(struct gpu_compiler *c, struct arena *a, const struct gpu_source *s,
                    const char *arch, struct sv *image, struct err *e)
{
    struct buf key = {0};
    enum st st = ST_OK;
    make_key(c, s, arch, &key);
    if (gpu_cache_get(a, c->cache, &key, arch, image)) {
        pthread_mutex_lock(&c->lock);
        c->stats.from_cache++;
        pthread_mutex_unlock(&c->lock);
    } else {
        st = compile_and_store(c, a, s, arch, &key, image, e);
    }
    buf_free(&key);
    return st;
}

/* ---- several --------------------------------------------------------------------------------- */

struct compile_share {
    struct gpu_compiler *c;
    struct gpu_compile_job *jobs;
    struct err *errors; /* [n] */
    struct sv *images;  /* [n] in the threads' arenas */
    size_t n;
    pthread_mutex_t lock;
    size_t next;
};

static void *work(void *arg)
{
    struct compile_share *s = arg;
    struct arena *a = arena_new();
    for (;;) {
        pthread_mutex_lock(&s->lock);
        const size_t i = s->next++;
        pthread_mutex_unlock(&s->lock);
        if (i >= s->n)
            return a;
        gpu_compile(s->c, a, &s->jobs[i].source, s->jobs[i].arch, &s->images[i], &s->errors[i]);
    }
}

enum st gpu_compile_all(struct gpu_compiler *c, struct arena *a, struct gpu_compile_job *jobs,
                        size_t n, int threads, struct err *e)
{
    enum { MAX_THREADS = 64 };
    pthread_t ids[MAX_THREADS];
    void *arenas[MAX_THREADS + 1];
    struct compile_share s = {.c = c, .jobs = jobs, .n = n};
    const long cores = threads > 0 ? threads : sysconf(_SC_NPROCESSORS_ONLN);
    const size_t want = (size_t)(cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : cores);
    size_t extra = 0;
    s.errors = mem_alloc((n + 1) * sizeof *s.errors);
    s.images = arena_array(a, struct sv, n);
    for (size_t i = 0; i < n; i++)
        err_clear(&s.errors[i]);
    pthread_mutex_init(&s.lock, NULL);
    while (extra + 1 < want && extra + 1 < n && pthread_create(&ids[extra], NULL, work, &s) == 0)
        extra++;
    arenas[extra] = work(&s);
    for (size_t i = 0; i < extra; i++)
        pthread_join(ids[i], &arenas[i]);
    pthread_mutex_destroy(&s.lock);
    size_t bad = 0;
    while (bad < n && s.errors[bad].st == ST_OK)
        bad++;
    for (size_t i = 0; bad == n && i < n; i++)
        jobs[i].image = (struct sv){arena_strn(a, s.images[i].p, s.images[i].n), s.images[i].n};
    if (bad < n)
        *e = s.errors[bad];
    for (size_t i = 0; i <= extra; i++)
        arena_free((struct arena *[]){arenas[i]});
    mem_free(s.errors);
    return bad < n ? e->st : ST_OK;
}
