#include "engine/cuda/programs.h"

#include <string.h>

#include "base/clock.h"

enum cuda_dtype cuda_dtype_of(enum dtype t)
{
    ASSERT(t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16);
    return t == DTYPE_F32 ? CUDA_F32 : t == DTYPE_F16 ? CUDA_F16 : CUDA_BF16;
}

/* A program: a source, made for a head size or for none. */
struct kernel_program {
    const char *source;
    int head_dim;
};

/* The program of a row; source NULL: there is none for this type, head size and GPU. */
static struct kernel_program program_of(const struct gpu *g, const struct cuda_kernel *k,
                                        enum cuda_dtype t, int head_dim)
{
    const int arch = (int)(g->facts.major * 10 + g->facts.minor);
    const bool fits = k->dtypes & 1U << t && arch >= k->min_arch &&
                      (!k->head_dim || head_dim == 64 || head_dim == 128);
    return fits ? (struct kernel_program){k->source, k->head_dim ? head_dim : 0}
                : (struct kernel_program){0};
}

/* The programs of all rows, each once; index[i] is that of row i, -1 = none. */
static int list_programs(const struct gpu *g, enum cuda_dtype t, int head_dim,
                         struct kernel_program programs[CUDA_KERNELS], int index[CUDA_KERNELS])
{
    int n = 0;
    for (int i = 0; i < CUDA_KERNELS; i++) {
        const struct kernel_program p = program_of(g, &cuda_kernels[i], t, head_dim);
        index[i] = -1;
        if (!p.source)
            continue;
        int at = 0;
        while (at < n &&
               (strcmp(programs[at].source, p.source) != 0 || programs[at].head_dim != p.head_dim))
            at++;
        if (at == n)
            programs[n++] = p;
        index[i] = at;
    }
    return n;
}

static enum st compile_all(struct cuda_programs *p, struct gpu_compiler *compiler,
                           const struct kernel_program *programs, int n, int threads,
                           struct gpu_compile_job *jobs, struct err *e)
{
    static const char *const options[] = {"-std=c++17", NULL};
    const struct gpu_device *d = &p->g->facts;
    char *arch = arena_alloc(p->arena, GPU_ARCH_MAX);
    if (!gpu_compile_arch(compiler, d->major, d->minor, arch))
        return err_set(e, ST_DEVICE, "NVRTC knows no GPU of compute capability %u.%u", d->major,
                       d->minor);
    for (int i = 0; i < n; i++) {
        const char *text =
            cuda_program(p->arena, programs[i].source, p->dtype, programs[i].head_dim);
        ASSERT(text);
        jobs[i] = (struct gpu_compile_job){
            .source = {.name = programs[i].source, .text = text, .options = options}, .arch = arch};
    }
    return gpu_compile_all(compiler, p->arena, jobs, (size_t)n, threads, e);
}

static enum st open_programs(struct cuda_programs *p, struct gpu_compiler *compiler, int head_dim,
                             int threads, struct err *e)
{
    struct kernel_program programs[CUDA_KERNELS];
    struct gpu_compile_job jobs[CUDA_KERNELS];
    int index[CUDA_KERNELS];
    const int n = list_programs(p->g, p->dtype, head_dim, programs, index);
    TRY(compile_all(p, compiler, programs, n, threads, jobs, e));
    for (; p->n_modules < n; p->n_modules++)
        TRY(gpu_module_load(p->g, jobs[p->n_modules].image, programs[p->n_modules].source,
                            &p->modules[p->n_modules], e));
    for (int i = 0; i < CUDA_KERNELS; i++)
        if (index[i] >= 0)
            TRY(gpu_kernel_find(p->g, p->modules[index[i]],
                                cuda_kernel_entry(p->arena, &cuda_kernels[i], p->dtype),
                                GPU_SHARED_MOST, &p->kernel[i], e));
    return ST_OK;
}

enum st cuda_programs_open(const struct gpu *g, struct gpu_compiler *compiler, enum cuda_dtype t,
                           int head_dim, int threads, struct cuda_programs *out, struct err *e)
{
    const int64_t start_ns = clock_mono_ns();
    *out = (struct cuda_programs){.g = g, .dtype = t, .arena = arena_new()};
    if (open_programs(out, compiler, head_dim, threads, e) != ST_OK) {
        cuda_programs_close(out);
        return err_add(e, "cannot make the engine's kernels");
    }
    out->ready_s = ns_to_s(clock_mono_ns() - start_ns);
    return ST_OK;
}

void cuda_programs_close(struct cuda_programs *p)
{
    for (int i = 0; i < p->n_modules; i++)
        gpu_module_close(p->g, &p->modules[i]);
    arena_free(&p->arena);
    *p = (struct cuda_programs){0};
}

enum st cuda_programs_launch(const struct cuda_programs *p, enum cuda_kernel_id id,
                             const void *args, const struct cuda_sizes *most, bool early,
                             CUstream stream, struct err *e)
{
    struct cuda_launch rule;
    void *params[] = {(void *)(uintptr_t)args}; /* it is read, not written */
    ASSERT(p->kernel[id].function);
    cuda_kernels[id].launch(args, p->dtype, most, &rule);
    const struct gpu_launch l = {.grid = {rule.grid[0], rule.grid[1], rule.grid[2]},
                                 .block.x = rule.block,
                                 .shared_bytes = rule.shared_bytes,
                                 .early = early};
    return gpu_launch(p->g, &p->kernel[id], &l, params, stream, e);
}
