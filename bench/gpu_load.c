/* Weights on a GPU, from a model's folder and drawn by the GPU itself:
 *
 *     bench_gpu_load DIR SEED CACHE
 *
 * DIR holds what `twinfer model init seed=SEED out=DIR` wrote; CACHE is the folder of compiled
 * kernels. In float32, float16 and bfloat16 both must give the same bytes. Prints how long the
 * kernels, the load and the drawing took. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "engine/cuda/random.h"
#include "gpu/compile.h"
#include "gpu/library.h"

struct bench {
    struct arena *a;
    struct gpu g;
    struct gpu_compiler *c;
    struct model m;
    const char *dir;
    uint64_t seed;
};

static enum st download(struct bench *b, const struct cuda_weights *w, char **out, struct err *e)
{
    *out = mem_alloc(w->bytes);
    TRY(gpu_download(&b->g, *out, w->base, w->bytes, NULL, e));
    return gpu_wait(&b->g, e);
}

static enum st compare(struct bench *b, const struct cuda_weights *file,
                       const struct cuda_weights *drawn, size_t *different, struct err *e)
{
    char *x, *y;
    TRY(download(b, file, &x, e));
    TRY(download(b, drawn, &y, e));
    *different = file->bytes == drawn->bytes ? 0 : SIZE_MAX;
    for (size_t i = 0; i < file->bytes && *different != SIZE_MAX; i++)
        *different += x[i] != y[i];
    mem_free(x);
    mem_free(y);
    return ST_OK;
}

static enum st run_type(struct bench *b, enum dtype dtype, struct err *e)
{
    struct cuda_programs p = {0};
    struct cuda_random_maker maker = {0};
    struct cuda_weights file = {0}, drawn = {0};
    size_t different = 0;
    TRY(cuda_programs_open(&b->g, b->c, cuda_dtype_of(dtype), (int)b->m.head_dim, 0, &p, e));
    TRY(cuda_random_open(&p, &maker, e));
    const struct cuda_random random = cuda_random_of(&maker);
    struct cuda_weights_params w = {.g = &b->g, .model = &b->m, .dtype = dtype, .dir = b->dir};
    const int64_t t0 = clock_mono_ns();
    TRY(cuda_weights_load(&w, &file, e));
    const int64_t t1 = clock_mono_ns();
    TRY(cuda_weights_load(&w, &drawn, e)); /* again, from the page cache */
    const int64_t t2 = clock_mono_ns();
    cuda_weights_free(&b->g, &drawn);
    w.dir = NULL;
    w.seed = b->seed;
    w.random = &random;
    const int64_t t3 = clock_mono_ns();
    TRY(cuda_weights_load(&w, &drawn, e));
    const int64_t t4 = clock_mono_ns();
    TRY(compare(b, &file, &drawn, &different, e));
    printf(
        "%s %s: %.3f GB; kernels ready %.3f s; from files %.2f s, again %.2f s (%.2f GB/s); drawn "
        "%.3f s (%.0f GB/s); %zu bytes differ\n",
        b->m.name, dtype_name(dtype), (double)file.bytes / 1e9, p.ready_s, ns_to_s(t1 - t0),
        ns_to_s(t2 - t1), (double)file.bytes / 1e9 / ns_to_s(t2 - t1), ns_to_s(t4 - t3),
        (double)file.bytes / 1e9 / ns_to_s(t4 - t3), different);
    cuda_weights_free(&b->g, &file);
    cuda_weights_free(&b->g, &drawn);
    cuda_random_close(&maker);
    cuda_programs_close(&p);
    return different ? err_set(e, ST_DEVICE, "%zu bytes differ", different) : ST_OK;
}

static enum st run(struct bench *b, const char *cache, struct err *e)
{
    struct gpu_nvrtc nvrtc;
    TRY(model_load(b->a, b->dir, &b->m, e));
    TRY(gpu_open(0, &b->g, e));
    TRY(gpu_nvrtc_open(b->a, b->g.driver_version, &nvrtc, e));
    gpu_compiler_open(&nvrtc, cache, &b->c);
    for (int start = 0; start < 2; start++) {
        struct cuda_programs p;
        TRY(cuda_programs_open(&b->g, b->c, CUDA_BF16, (int)b->m.head_dim, 0, &p, e));
        const struct gpu_compile_stats s = gpu_compile_stats(b->c);
        printf("%s: kernels of bf16 ready after %.3f s; %lld compiled (%.2f s of NVRTC), %lld from "
               "the "
               "cache\n",
               b->m.name, p.ready_s, (long long)s.compiled, s.compile_s, (long long)s.from_cache);
        cuda_programs_close(&p);
    }
    TRY(run_type(b, DTYPE_F32, e));
    TRY(run_type(b, DTYPE_F16, e));
    return run_type(b, DTYPE_BF16, e);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct bench b = {.a = arena_new()};
    if (argc != 4) {
        fprintf(stderr, "usage: bench_gpu_load DIR SEED CACHE\n");
        return 2;
    }
    b.dir = argv[1];
    b.seed = strtoull(argv[2], NULL, 10);
    const enum st st = run(&b, argv[3], &e);
    if (st != ST_OK)
        err_print(&e, "bench_gpu_load", stderr);
    gpu_compiler_close(&b.c);
    gpu_close(&b.g);
    arena_free(&b.a);
    return err_exit_code(st);
}
