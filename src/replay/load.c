#include "replay/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/module.h"
#include "gpu/stream.h"
#include "replay/image.h"
#include "trace/trace.h"

#define CHECK(l, call, ...) gpu_check(&(l)->g, (l)->g.driver.call(__VA_ARGS__), #call, e)

/* ---- what the GPU must be -------------------------------------------------------------------- */

static enum st check_gpu(struct load *l, struct err *e)
{
    const struct capsule_facts *f = l->c->facts;
    const struct gpu_device *d = &l->g.facts;
    const struct sv gpu = capsule_text(l->c, f->gpu);
    if (d->major == f->major && d->minor >= f->minor)
        return ST_OK;
    err_set(
        e, ST_DEVICE,
        "the capsule's kernels are machine code for compute capability %u.%u (%.*s); GPU %d, %s, "
        "has %u.%u",
        f->major, f->minor, (int)gpu.n, gpu.p, l->g.ordinal, d->name, d->major, d->minor);
    return err_hint(e, "a GPU of compute capability %u.%u or a later %u.x is needed", f->major,
                    f->minor, f->major);
}

/* Page-locked memory that the machine does not have would end in the kernel's killing something. */
static enum st check_host_memory(struct load *l, struct err *e)
{
    const struct place_spans *lists[] = {&l->place.host, &l->place.host_inside};
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    const uint64_t has = pages > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
    uint64_t bytes = 0; /* below 2^48: spans do not overlap */
    char wanted[STR_BYTES_MAX], has_text[STR_BYTES_MAX];
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->n; i++)
            bytes += lists[k]->p[i].bytes;
    if (bytes <= has)
        return ST_OK;
    str_from_bytes(wanted, (int64_t)bytes);
    str_from_bytes(has_text, (int64_t)has);
    return err_set(e, ST_DEVICE,
                   "the capsule's page-locked memory takes %s, and this machine has %s", wanted,
                   has_text);
}

static enum st check_memory(struct load *l, struct err *e)
{
    uint64_t bytes = 0;
    char wanted[STR_BYTES_MAX], free_text[STR_BYTES_MAX];
    for (size_t i = 0; i < l->place.mapped.n; i++)
        bytes += l->place.mapped.p[i].bytes;
    TRY(check_host_memory(l, e));
    if (bytes <= l->g.free_bytes)
        return ST_OK;
    str_from_bytes(wanted, (int64_t)bytes);
    str_from_bytes(free_text, (int64_t)l->g.free_bytes);
    err_set(e, ST_DEVICE, "the capsule's memory takes %s of GPU %d, and %s are free", wanted,
            l->g.ordinal, free_text);
    return err_hint(e, "other processes may hold its memory: nvidia-smi lists them");
}

/* ---- memory at its addresses ----------------------------------------------------------------- */

static enum st taken(struct load *l, uint64_t at, struct err *e)
{
    l->place.taken = at;
    return err_set(e, ST_DEVICE, "the address 0x%llx cannot be had in this process",
                   (unsigned long long)at);
}

static enum st reserve(struct load *l, struct place_span s, struct err *e)
{
    CUdeviceptr at = 0;
    TRY(CHECK(l, cuMemAddressReserve, &at, s.bytes, 0, s.at, 0));
    if (at == s.at)
        return ST_OK;
    l->g.driver.cuMemAddressFree(at, s.bytes);
    return taken(l, s.at, e);
}

/* Memory of the device, or of the host as the device and the host both see it. */
static enum st map(struct load *l, struct place_span s, bool host, struct err *e)
{
    const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, l->g.device};
    const CUmemLocation node = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = host ? node : device};
    const CUmemAccessDesc access[] = {{device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                      {node, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUmemGenericAllocationHandle handle;
    TRY(CHECK(l, cuMemCreate, &handle, s.bytes, &properties, 0));
    const enum st st = CHECK(l, cuMemMap, s.at, s.bytes, 0, handle, 0);
    l->g.driver.cuMemRelease(handle); /* it lives as long as it is mapped */
    TRY(st);
    *(host ? &l->mapped_host : &l->mapped) += 1;
    return CHECK(l, cuMemSetAccess, s.at, s.bytes, access, host ? 2 : 1);
}

static enum st map_host(struct load *l, struct place_span s, struct err *e)
{
    void *want = (void *)(uintptr_t)s.at;
    CUdeviceptr seen = 0;
    void *p = mmap(want, s.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != want) {
        if (p != MAP_FAILED)
            munmap(p, s.bytes);
        return taken(l, s.at, e);
    }
    l->registered++;
    TRY(CHECK(l, cuMemHostRegister_v2, p, s.bytes,
              CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    TRY(CHECK(l, cuMemHostGetDevicePointer_v2, &seen, p, 0));
    return seen == s.at
               ? ST_OK
               : err_set(e, ST_DEVICE, "GPU %d sees host memory at other addresses", l->g.ordinal);
}

static enum st map_all(struct load *l, struct err *e)
{
    for (; l->reserved < l->place.reserved.n; l->reserved++)
        TRY(reserve(l, l->place.reserved.p[l->reserved], e));
    while (l->mapped < l->place.mapped.n)
        TRY(map(l, l->place.mapped.p[l->mapped], false, e));
    while (l->mapped_host < l->place.host_inside.n)
        TRY(map(l, l->place.host_inside.p[l->mapped_host], true, e));
    while (l->registered < l->place.host.n)
        TRY(map_host(l, l->place.host.p[l->registered], e));
    return ST_OK;
}

static void unmap_all(struct load *l)
{
    while (l->registered > 0) {
        const struct place_span s = l->place.host.p[--l->registered];
        l->g.driver.cuMemHostUnregister((void *)(uintptr_t)s.at);
        munmap((void *)(uintptr_t)s.at, s.bytes);
    }
    while (l->mapped_host > 0) {
        const struct place_span s = l->place.host_inside.p[--l->mapped_host];
        l->g.driver.cuMemUnmap(s.at, s.bytes);
    }
    while (l->mapped > 0) {
        const struct place_span s = l->place.mapped.p[--l->mapped];
        l->g.driver.cuMemUnmap(s.at, s.bytes);
    }
    while (l->reserved > 0) {
        const struct place_span s = l->place.reserved.p[--l->reserved];
        l->g.driver.cuMemAddressFree(s.at, s.bytes);
    }
}

/* ---- code ------------------------------------------------------------------------------------ */

static char *text(struct arena *a, struct sv s)
{
    return arena_strn(a, s.p, s.n);
}

static enum st need_module(struct load *l, uint32_t m, struct err *e)
{
    struct arena *scratch;
    struct sv image;
    char name[32];
    if (l->modules[m])
        return ST_OK;
    scratch = arena_new();
    snprintf(name, sizeof name, "module %u", m);
    enum st st = capsule_image(scratch, l->c, m, &image, e);
    if (st == ST_OK)
        st = image_check(image, name, e);
    if (st == ST_OK)
        image.p = arena_strn(scratch, image.p, image.n); /* text ends with NUL */
    if (st == ST_OK)
        st = gpu_module_load(&l->g, image, name, &l->modules[m], e);
    arena_free(&scratch);
    return st;
}

static enum st set_attributes(struct load *l, const struct capsule_function *f, CUfunction function,
                              struct err *e)
{
    const struct {
        CUfunction_attribute attribute;
        int value, usual;
    } rows[] = {
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, f->any_cluster_size, 0},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f->dynamic_shared, 0},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, f->shared_carveout, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value != rows[i].usual)
            TRY(CHECK(l, cuFuncSetAttribute, function, rows[i].attribute, rows[i].value));
    return ST_OK;
}

/* What a module does not have is the capsule's fault, not the GPU's. */
static enum st look_up(const struct load *l, CUresult result, const char *call, uint32_t module,
                       struct err *e)
{
    return result == CUDA_ERROR_NOT_FOUND
               ? err_set(e, ST_INPUT, "module %u of the capsule does not have it", module)
               : gpu_check(&l->g, result, call, e);
}

static enum st take_function(struct load *l, uint32_t i, struct err *e)
{
    const struct capsule_function *f = &l->c->functions[i];
    const char *name = text(l->a, capsule_text(l->c, f->name));
    if (l->functions[i])
        return ST_OK;
    l->names[i] = trace_demangle(l->a, name);
    enum st st = need_module(l, f->module, e);
    if (st == ST_OK)
        st = look_up(l,
                     l->g.driver.cuModuleGetFunction(&l->functions[i], l->modules[f->module], name),
                     "cuModuleGetFunction", f->module, e);
    if (st == ST_OK)
        st = set_attributes(l, f, l->functions[i], e);
    return st == ST_OK ? ST_OK : err_add(e, "cannot take kernel %.200s", l->names[i]);
}

static enum st find_global(struct load *l, size_t i, struct err *e)
{
    const struct capsule_global *g = &l->c->globals[i];
    const char *name = text(l->a, capsule_text(l->c, g->name));
    size_t bytes = 0;
    enum st st = need_module(l, g->module, e);
    if (st == ST_OK)
        st = look_up(
            l,
            l->g.driver.cuModuleGetGlobal_v2(&l->globals[i], &bytes, l->modules[g->module], name),
            "cuModuleGetGlobal", g->module, e);
    if (st == ST_OK && bytes != g->value.bytes)
        st = err_set(e, ST_INPUT, "it has %zu bytes in module %u and %llu in the capsule", bytes,
                     g->module, (unsigned long long)g->value.bytes);
    return st == ST_OK ? ST_OK : err_add(e, "cannot find variable %.200s", name);
}

static enum st load_code(struct load *l, struct err *e)
{
    const struct capsule *c = l->c;
    l->modules = arena_array(l->a, CUmodule, c->n_modules);
    l->functions = arena_array(l->a, CUfunction, c->n_functions);
    l->names = arena_array(l->a, const char *, c->n_functions);
    l->globals = arena_array(l->a, CUdeviceptr, c->n_globals);
    for (size_t i = 0; i < c->n_launches; i++)
        TRY(take_function(l, c->launches[i].function, e));
    for (size_t i = 0; i < c->n_globals; i++)
        TRY(find_global(l, i, e));
    return ST_OK;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static int by_address(const void *x, const void *y)
{
    const struct capsule_global *a = *(const struct capsule_global *const *)x,
                                *b = *(const struct capsule_global *const *)y;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* The variable that lies at a captured address, or NULL. */
static const struct capsule_global *global_at(const struct capsule_global *const *sorted, size_t n,
                                              uint64_t at)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (sorted[mid]->address <= at)
            low = mid + 1;
        else
            high = mid;
    }
    const struct capsule_global *g = low ? sorted[low - 1] : NULL;
    return g && at - g->address < g->value.bytes ? g : NULL;
}

static void move_pointers(struct load *l, const struct capsule_global *const *sorted,
                          unsigned char *params, size_t bytes)
{
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word;
        memcpy(&word, params + at, sizeof word);
        const struct capsule_global *g = global_at(sorted, l->c->n_globals, word);
        if (!g)
            continue;
        word = l->globals[g - l->c->globals] + (word - g->address);
        memcpy(params + at, &word, sizeof word);
    }
}

static void make_params(struct load *l)
{
    const struct capsule *c = l->c;
    const struct capsule_global **sorted =
        arena_array(l->a, const struct capsule_global *, c->n_globals);
    for (size_t i = 0; i < c->n_globals; i++)
        sorted[i] = &c->globals[i];
    if (c->n_globals)
        qsort(sorted, c->n_globals, sizeof *sorted, by_address);
    l->params = arena_array(l->a, const unsigned char *, c->n_launches);
    for (size_t i = 0; i < c->n_launches; i++) {
        const struct sv from = capsule_text(c, c->launches[i].params);
        unsigned char *to = arena_copy(l->a, from.p, from.n);
        if (c->n_globals)
            move_pointers(l, sorted, to, from.n);
        l->params[i] = to;
    }
}

/* ---- the host's ends of copies --------------------------------------------------------------- */

static enum st make_host(struct load *l, struct err *e)
{
    const struct capsule *c = l->c;
    uint64_t sink = 0;
    void *p;
    l->source_at = arena_array(l->a, uint64_t, c->n_copies);
    for (size_t i = 0; i < c->n_copies; i++) {
        const struct capsule_copy *x = &c->copies[i];
        const uint64_t bytes = x->width * x->height * x->depth; /* within limits: capsule_open */
        l->source_at[i] = l->host_bytes;
        /* sources may be the same bytes of the file, so that their sum has no bound */
        if (__builtin_add_overflow(l->host_bytes, (x->source.bytes + 255) / 256 * 256,
                                   &l->host_bytes))
            return err_set(e, ST_INPUT, "the sources of the capsule's copies are too large");
        if (x->to_place == CAPSULE_ON_HOST && bytes > sink)
            sink = bytes;
    }
    l->sink_at = l->host_bytes;
    if (__builtin_add_overflow(l->host_bytes, sink, &l->host_bytes))
        return err_set(e, ST_INPUT, "the sources of the capsule's copies are too large");
    if (l->host_bytes) {
        TRY(gpu_host_alloc(&l->g, l->host_bytes, "the host's ends of copies", &p, e));
        l->host = p;
    }
    for (size_t i = 0; i < c->n_copies; i++)
        if (c->copies[i].source.bytes)
            memcpy(l->host + l->source_at[i], capsule_text(c, c->copies[i].source).p,
                   c->copies[i].source.bytes);
    TRY(gpu_host_alloc(&l->g, CAPSULE_PAGE_BYTES, "a page of memory", &p, e));
    l->page = p;
    return ST_OK;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static enum st open_all(struct load *l, int gpu, struct err *e)
{
    TRY(gpu_open(gpu, &l->g, e));
    TRY(check_gpu(l, e));
    TRY(check_memory(l, e));
    TRY(gpu_stream_open(&l->g, &l->stream, e));
    TRY(map_all(l, e));
    TRY(load_code(l, e));
    make_params(l);
    return make_host(l, e);
}

enum st load_open(struct arena *a, const struct capsule *c, struct place *place, int gpu,
                  struct load *out, struct err *e)
{
    *out = (struct load){.a = a, .c = c, .place = *place};
    const enum st st = open_all(out, gpu, e);
    place->taken = out->place.taken;
    if (st == ST_OK)
        return ST_OK;
    load_close(out);
    return err_add(e, "cannot load the capsule %s", c->dir);
}

void load_close(struct load *l)
{
    if (l->g.context) {
        void *host = l->host, *page = l->page;
        l->g.driver.cuCtxSynchronize();
        gpu_free(&l->g, &l->kept);
        gpu_host_free(&l->g, &host);
        gpu_host_free(&l->g, &page);
        for (size_t i = 0; l->modules && i < l->c->n_modules; i++)
            gpu_module_close(&l->g, &l->modules[i]);
        unmap_all(l);
        gpu_stream_close(&l->g, &l->stream);
        gpu_close(&l->g);
    }
    *l = (struct load){0};
}

/* ---- contents -------------------------------------------------------------------------------- */

static bool in_host(const struct load *l, uint64_t at)
{
    return place_contains(&l->place.host, at, 1) || place_contains(&l->place.host_inside, at, 1);
}

static void *host_at(uint64_t at)
{
    return (void *)(uintptr_t)at;
}

/* Pages are unpacked by several threads, each with a page of page-locked memory and a stream. */
struct restorer {
    struct load *l;
    _Atomic size_t next;
    _Atomic bool failed;
    pthread_mutex_t lock;
    struct err *e; /* of the first that failed */
};

static enum st restore_page(struct restorer *r, struct capsule_memory_reader *reader,
                            const struct capsule_page *p, void *room, CUstream stream,
                            struct err *e)
{
    struct load *l = r->l;
    if (in_host(l, p->address))
        return capsule_memory_read(reader, p, host_at(p->address), e);
    if (p->flags & CAPSULE_ZERO)
        return gpu_fill(&l->g, p->address, 0, p->bytes, stream, e);
    TRY(gpu_stream_wait(&l->g, stream, e)); /* what the room held is there */
    TRY(capsule_memory_read(reader, p, room, e));
    return gpu_upload(&l->g, p->address, room, p->bytes, stream, e);
}

static enum st restore_share(struct restorer *r, struct err *e)
{
    struct load *l = r->l;
    struct capsule_memory_reader *reader = NULL;
    CUstream stream = NULL;
    void *room = NULL;
    enum st st = gpu_use(&l->g, e);
    if (st == ST_OK)
        st = gpu_stream_open(&l->g, &stream, e);
    if (st == ST_OK)
        st = gpu_host_alloc(&l->g, CAPSULE_PAGE_BYTES, "a page of memory", &room, e);
    if (st == ST_OK)
        st = capsule_memory_open(l->c, false, &reader, e);
    for (size_t i; st == ST_OK && !r->failed && (i = r->next++) < l->c->n_pages;)
        st = restore_page(r, reader, &l->c->pages[i], room, stream, e);
    if (stream && st == ST_OK)
        st = gpu_stream_wait(&l->g, stream, e);
    capsule_memory_close(&reader);
    gpu_host_free(&l->g, &room);
    gpu_stream_close(&l->g, &stream);
    return st;
}

static void *restore_thread(void *user)
{
    struct restorer *r = user;
    struct err e = {0};
    if (restore_share(r, &e) == ST_OK)
        return NULL;
    pthread_mutex_lock(&r->lock);
    if (!r->failed)
        *r->e = e;
    r->failed = true;
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static enum st restore_pages(struct load *l, struct err *e)
{
    enum { MOST = 8, PAGES_A_THREAD = 64 };
    struct restorer r = {.l = l, .lock = PTHREAD_MUTEX_INITIALIZER, .e = e};
    pthread_t threads[MOST];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = 0;
    while (n < MOST - 1 && (long)n + 1 < cores && n < l->c->n_pages / PAGES_A_THREAD &&
           pthread_create(&threads[n], NULL, restore_thread, &r) == 0)
        n++;
    restore_thread(&r);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return r.failed ? e->st : ST_OK;
}

static enum st restore_globals(struct load *l, struct err *e)
{
    for (size_t i = 0; i < l->c->n_globals; i++) {
        const struct sv value = capsule_text(l->c, l->c->globals[i].value);
        TRY(gpu_upload(&l->g, l->globals[i], value.p, value.n, l->stream, e));
    }
    return gpu_stream_wait(&l->g, l->stream, e);
}

static enum st fill_born(struct load *l, unsigned char fill, struct err *e)
{
    for (size_t i = 0; i < l->c->n_allocations; i++) {
        const struct capsule_allocation *x = &l->c->allocations[i];
        if (!(x->flags & CAPSULE_BORN))
            continue;
        if (in_host(l, x->address))
            memset(host_at(x->address), fill, x->bytes);
        else
            TRY(gpu_fill(&l->g, x->address, fill, x->bytes, l->stream, e));
    }
    return gpu_stream_wait(&l->g, l->stream, e);
}

enum st load_restore(struct load *l, unsigned char fill, struct err *e)
{
    enum st st = gpu_wait(&l->g, e);
    if (st == ST_OK)
        st = fill_born(l, fill, e);
    if (st == ST_OK)
        st = restore_pages(l, e);
    if (st == ST_OK)
        st = restore_globals(l, e);
    return st == ST_OK ? ST_OK : err_add(e, "cannot restore the capsule's memory");
}

/* ---- the part that the region changes -------------------------------------------------------- */

enum st load_keep(struct load *l, struct err *e)
{
    uint64_t bytes = 0, at = 0;
    for (size_t i = 0; i < l->c->n_after; i++)
        bytes += l->c->after[i].bytes;
    TRY(gpu_free_bytes(&l->g, &l->g.free_bytes, e));
    if (bytes == 0 || l->kept || bytes > l->g.free_bytes / 2)
        return ST_OK;
    TRY(gpu_alloc(&l->g, bytes, "a copy of what the region changes", &l->kept, e));
    for (size_t i = 0; i < l->c->n_after; at += l->c->after[i++].bytes) {
        const struct capsule_page *p = &l->c->after[i];
        if (in_host(l, p->address))
            TRY(gpu_upload(&l->g, l->kept + at, host_at(p->address), p->bytes, l->stream, e));
        else
            TRY(gpu_copy(&l->g, l->kept + at, p->address, p->bytes, l->stream, e));
    }
    return gpu_stream_wait(&l->g, l->stream, e);
}

enum st load_reset(struct load *l, struct err *e)
{
    uint64_t at = 0;
    if (l->as_it_is)
        return ST_OK;
    if (!l->kept)
        return load_restore(l, 0, e);
    TRY(gpu_wait(&l->g, e));
    for (size_t i = 0; i < l->c->n_after; at += l->c->after[i++].bytes) {
        const struct capsule_page *p = &l->c->after[i];
        if (in_host(l, p->address))
            TRY(gpu_download(&l->g, host_at(p->address), l->kept + at, p->bytes, l->stream, e));
        else
            TRY(gpu_copy(&l->g, p->address, l->kept + at, p->bytes, l->stream, e));
    }
    return restore_globals(l, e);
}

/* Pages that follow each other in memory and among what is kept are one copy. */
enum st load_again(struct load *l, CUstream stream, struct err *e)
{
    uint64_t kept = 0;
    for (size_t i = 0; l->kept && !l->as_it_is && i < l->c->n_after;) {
        const struct capsule_page *p = &l->c->after[i];
        const bool host = in_host(l, p->address);
        uint64_t bytes = p->bytes;
        while (++i < l->c->n_after && l->c->after[i].address == p->address + bytes &&
               in_host(l, l->c->after[i].address) == host)
            bytes += l->c->after[i].bytes;
        if (!host)
            TRY(gpu_copy(&l->g, p->address, l->kept + kept, bytes, stream, e));
        kept += bytes;
    }
    return ST_OK;
}

enum st load_read(struct load *l, uint64_t at, void *to, size_t bytes, struct err *e)
{
    char *out = to;
    for (size_t done = 0; done < bytes;) {
        const size_t left = bytes - done;
        const size_t n = left < CAPSULE_PAGE_BYTES ? left : CAPSULE_PAGE_BYTES;
        if (in_host(l, at + done)) {
            memcpy(out + done, host_at(at + done), n);
        } else {
            TRY(gpu_download(&l->g, l->page, at + done, n, l->stream, e));
            TRY(gpu_stream_wait(&l->g, l->stream, e));
            memcpy(out + done, l->page, n);
        }
        done += n;
    }
    return ST_OK;
}

enum st load_gather(struct load *l, const struct place_span *s, size_t n, unsigned char *to,
                    struct err *e)
{
    for (size_t i = 0; i < n; to += s[i++].bytes)
        if (in_host(l, s[i].at))
            memcpy(to, host_at(s[i].at), s[i].bytes);
        else
            TRY(gpu_download(&l->g, to, s[i].at, s[i].bytes, l->stream, e));
    return gpu_stream_wait(&l->g, l->stream, e);
}

enum st load_scatter(struct load *l, const struct place_span *s, size_t n,
                     const unsigned char *from, struct err *e)
{
    for (size_t i = 0; i < n; from += s[i++].bytes)
        if (in_host(l, s[i].at))
            memcpy(host_at(s[i].at), from, s[i].bytes);
        else
            TRY(gpu_upload(&l->g, s[i].at, from, s[i].bytes, l->stream, e));
    return gpu_stream_wait(&l->g, l->stream, e);
}

const char *load_name(const struct load *l, size_t i)
{
    const struct capsule_op *op = &l->c->ops[i];
    if (op->kind == CAPSULE_LAUNCH)
        return l->names[l->c->launches[op->item].function];
    if (op->kind == CAPSULE_SET)
        return "Memset";
    const struct capsule_copy *x = &l->c->copies[op->item];
    if (x->from_place != CAPSULE_ON_DEVICE)
        return x->to_place == CAPSULE_ON_DEVICE ? "Memcpy HtoD" : "Memcpy HtoH";
    return x->to_place == CAPSULE_ON_DEVICE ? "Memcpy DtoD" : "Memcpy DtoH";
}
