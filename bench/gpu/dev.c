#include "gpu/dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/library.h"
#include "gpu/stream.h"

static void must(enum st st, struct err *e)
{
    if (st == ST_OK)
        return;
    err_print(e, "gpu_bench", stderr);
    exit(1);
}

static enum st open_all(struct dev *g, struct arena *a, struct err *e)
{
    struct gpu_nvrtc nvrtc;
    TRY(gpu_open(0, &g->gpu, e));
    TRY(gpu_nvrtc_open(a, g->gpu.driver_version, &nvrtc, e));
    gpu_compiler_open(&nvrtc, NULL, &g->compiler);
    const struct gpu_device *d = &g->gpu.facts;
    if (!gpu_compile_arch(g->compiler, d->major, d->minor, g->arch_name))
        return err_set(e, ST_DEVICE, "NVRTC does not know this GPU");
    return gpu_stream_open(&g->gpu, &g->stream, e);
}

bool dev_open(struct dev *g)
{
    struct err e = {0};
    struct arena *a = arena_new();
    *g = (struct dev){.name = ""};
    const enum st st = open_all(g, a, &e);
    arena_free(&a);
    if (st != ST_OK) {
        err_print(&e, "gpu_bench", stderr);
        dev_close(g);
        return false;
    }
    const struct gpu_device *d = &g->gpu.facts;
    g->name = d->name;
    g->arch = (int)(10 * d->major + d->minor);
    g->sms = (int)d->sms;
    g->l2_bytes = d->l2_bytes;
    return true;
}

void dev_close(struct dev *g)
{
    if (g->gpu.context) {
        gpu_stream_close(&g->gpu, &g->stream);
        gpu_close(&g->gpu);
    }
    gpu_compiler_close(&g->compiler);
}

dev_ptr dev_alloc(struct dev *g, size_t bytes)
{
    struct err e = {0};
    dev_ptr p;
    must(gpu_alloc(&g->gpu, bytes, "a buffer", &p, &e), &e);
    return p;
}

void dev_free(struct dev *g, dev_ptr p)
{
    gpu_free(&g->gpu, &p);
}

void dev_upload(struct dev *g, dev_ptr to, const void *from, size_t bytes)
{
    struct err e = {0};
    must(gpu_upload(&g->gpu, to, from, bytes, g->stream, &e), &e);
    dev_sync(g);
}

void dev_download(struct dev *g, void *to, dev_ptr from, size_t bytes)
{
    struct err e = {0};
    must(gpu_download(&g->gpu, to, from, bytes, g->stream, &e), &e);
    dev_sync(g);
}

void dev_gap(struct dev *g, dev_ptr p, size_t bytes)
{
    (void)g, (void)p, (void)bytes;
}

void dev_forget_gaps(struct dev *g)
{
    (void)g;
}

void dev_sync(struct dev *g)
{
    struct err e = {0};
    must(gpu_stream_wait(&g->gpu, g->stream, &e), &e);
}

const char *dev_fault(struct dev *g)
{
    static struct err e;
    err_clear(&e);
    return gpu_stream_wait(&g->gpu, g->stream, &e) == ST_OK ? NULL : err_cause(&e, 0);
}

/* ---- programs -------------------------------------------------------------------------------- */

static CUmodule compile(struct dev *g, const char *text, const char *name)
{
    static const char *const options[] = {"-std=c++17", "-lineinfo", NULL};
    const struct gpu_source source = {.name = name, .text = text, .options = options};
    struct err e = {0};
    struct arena *a = arena_new();
    struct sv image;
    CUmodule module;
    must(gpu_compile(g->compiler, a, &source, g->arch_name, &image, &e), &e);
    must(gpu_module_load(&g->gpu, image, name, &module, &e), &e);
    arena_free(&a);
    return module;
}

/* Kernels and modules stay until the program ends. */
static const struct gpu_kernel *find(struct dev *g, CUmodule module, const char *entry)
{
    struct err e = {0};
    struct gpu_kernel *k = mem_alloc(sizeof *k);
    const size_t n = strlen(entry) + 1;
    char *name = memcpy(mem_alloc(n), entry, n);
    must(gpu_kernel_find(&g->gpu, module, name, GPU_SHARED_MOST, k, &e), &e);
    return k;
}

const struct gpu_kernel *dev_entry(struct dev *g, const struct cuda_kernel *k, enum cuda_dtype t,
                                   int head_dim)
{
    enum { MOST = 128 };
    static struct known {
        const char *source;
        enum cuda_dtype t;
        int head_dim;
        CUmodule module;
        const struct gpu_kernel *kernel[CUDA_KERNELS];
    } known[MOST];
    static int n;
    int i = 0;
    head_dim = k->head_dim ? head_dim : 0;
    while (i < n && !(known[i].t == t && known[i].head_dim == head_dim &&
                      strcmp(known[i].source, k->source) == 0))
        i++;
    struct arena *a = arena_new();
    if (i == n) {
        ASSERT(n < MOST);
        known[n++] = (struct known){.source = k->source, .t = t, .head_dim = head_dim};
        known[i].module = compile(g, cuda_program(a, k->source, t, head_dim), k->source);
    }
    const struct gpu_kernel **kernel = &known[i].kernel[k - cuda_kernels];
    if (!*kernel)
        *kernel = find(g, known[i].module, cuda_kernel_entry(a, k, t));
    arena_free(&a);
    return *kernel;
}

const struct gpu_kernel *dev_entry_of(struct dev *g, const char *text, const char *entry)
{
    return find(g, compile(g, text, entry), entry);
}

void dev_launch(struct dev *g, const struct gpu_kernel *k, const struct cuda_launch *l,
                const void *args, size_t args_bytes, bool dependent)
{
    char copy[1024];
    void *params[] = {copy};
    struct err e = {0};
    const struct gpu_launch shape = {.grid = {l->grid[0], l->grid[1], l->grid[2]},
                                     .block.x = l->block,
                                     .shared_bytes = l->shared_bytes,
                                     .early = dependent};
    ASSERT(args_bytes <= sizeof copy);
    memcpy(copy, args, args_bytes);
    must(gpu_launch(&g->gpu, k, &shape, params, g->stream, &e), &e);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

void dev_graph_begin(struct dev *g)
{
    struct err e = {0};
    must(gpu_capture_begin(&g->gpu, g->stream, &e), &e);
}

CUgraphExec dev_graph_end(struct dev *g)
{
    struct err e = {0};
    CUgraphExec exec;
    must(gpu_capture_end(&g->gpu, g->stream, &exec, NULL, &e), &e);
    return exec;
}

void dev_graph_free(struct dev *g, CUgraphExec graph)
{
    gpu_graph_close(&g->gpu, &graph);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double dev_graph_time(struct dev *g, CUgraphExec graph, int n, int inner)
{
    double s[256];
    CUevent from, to;
    struct err e = {0};
    ASSERT(n <= 256);
    must(gpu_event_open(&g->gpu, true, &from, &e), &e);
    must(gpu_event_open(&g->gpu, true, &to, &e), &e);
    for (int i = 0; i < 3; i++)
        must(gpu_graph_launch(&g->gpu, graph, g->stream, &e), &e);
    for (int i = 0; i < n; i++) {
        must(gpu_event_record(&g->gpu, from, g->stream, &e), &e);
        for (int j = 0; j < inner; j++)
            must(gpu_graph_launch(&g->gpu, graph, g->stream, &e), &e);
        must(gpu_event_record(&g->gpu, to, g->stream, &e), &e);
        must(gpu_event_wait(&g->gpu, to, &e), &e);
        must(gpu_event_s(&g->gpu, from, to, &s[i], &e), &e);
    }
    gpu_event_close(&g->gpu, &from);
    gpu_event_close(&g->gpu, &to);
    qsort(s, (size_t)n, sizeof *s, compare);
    return s[n / 2] / inner;
}
