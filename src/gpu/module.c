#include "gpu/module.h"

#include <string.h>

#define CHECK(g, call, ...) gpu_check(g, (g)->driver.call(__VA_ARGS__), #call, e)

enum st gpu_module_load(const struct gpu *g, struct sv image, const char *name, CUmodule *out,
                        struct err *e)
{
    enum { LOG_BYTES = 2048 };
    char log[LOG_BYTES] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)LOG_BYTES};
    ASSERT(image.n > 0);
    *out = NULL;
    const CUresult result = g->driver.cuModuleLoadDataEx(out, image.p, 2, options, values);
    if (result == CUDA_SUCCESS)
        return ST_OK;
    gpu_check(g, result, "cuModuleLoadDataEx", e);
    log[LOG_BYTES - 1] = 0;
    if (log[0])
        err_add(e, "%.*s", (int)strcspn(log, "\n"), log);
    return err_add(e, "cannot load the kernels of %s onto %s", name, g->facts.name);
}

void gpu_module_close(const struct gpu *g, CUmodule *m)
{
    if (*m)
        g->driver.cuModuleUnload(*m);
    *m = NULL;
}

static enum st find(const struct gpu *g, CUmodule m, const char *name, struct gpu_kernel *k,
                    struct err *e)
{
    const struct {
        CUfunction_attribute attribute;
        int *at;
    } rows[] = {{CU_FUNC_ATTRIBUTE_NUM_REGS, &k->registers},
                {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &k->local_bytes},
                {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &k->static_shared_bytes}};
    TRY(CHECK(g, cuModuleGetFunction, &k->function, m, name));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TRY(CHECK(g, cuFuncGetAttribute, rows[i].at, rows[i].attribute, k->function));
    if (k->dynamic_shared_bytes == GPU_SHARED_MOST)
        k->dynamic_shared_bytes =
            g->facts.max_shared_bytes_per_block - (unsigned int)k->static_shared_bytes;
    if (k->dynamic_shared_bytes > 0)
        TRY(CHECK(g, cuFuncSetAttribute, k->function,
                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)k->dynamic_shared_bytes));
    return ST_OK;
}

enum st gpu_kernel_find(const struct gpu *g, CUmodule m, const char *name,
                        unsigned int dynamic_shared_bytes, struct gpu_kernel *out, struct err *e)
{
    *out = (struct gpu_kernel){.name = name, .dynamic_shared_bytes = dynamic_shared_bytes};
    if (find(g, m, name, out, e) == ST_OK)
        return ST_OK;
    return err_add(e, "cannot take kernel %s", name);
}

enum st gpu_kernel_blocks(const struct gpu *g, const struct gpu_kernel *k, unsigned int threads,
                          unsigned int shared_bytes, int *blocks, struct err *e)
{
    return CHECK(g, cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks, k->function, (int)threads,
                 shared_bytes);
}

static unsigned int at_least_one(unsigned int n)
{
    return n ? n : 1;
}

static CUresult launch_early(const struct gpu *g, const struct gpu_kernel *k,
                             const struct gpu_launch *l, void **params, CUstream stream)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    early.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config = {.gridDimX = l->grid.x,
                                   .gridDimY = at_least_one(l->grid.y),
                                   .gridDimZ = at_least_one(l->grid.z),
                                   .blockDimX = l->block.x,
                                   .blockDimY = at_least_one(l->block.y),
                                   .blockDimZ = at_least_one(l->block.z),
                                   .sharedMemBytes = l->shared_bytes,
                                   .hStream = stream,
                                   .attrs = &early,
                                   .numAttrs = 1};
    return g->driver.cuLaunchKernelEx(&config, k->function, params, NULL);
}

enum st gpu_launch(const struct gpu *g, const struct gpu_kernel *k, const struct gpu_launch *l,
                   void **params, CUstream stream, struct err *e)
{
    ASSERT(l->grid.x > 0 && l->block.x > 0 && l->shared_bytes <= k->dynamic_shared_bytes);
    CUresult result;
    if (l->early && g->facts.major >= 9)
        result = launch_early(g, k, l, params, stream);
    else
        result = g->driver.cuLaunchKernel(k->function, l->grid.x, at_least_one(l->grid.y),
                                          at_least_one(l->grid.z), l->block.x,
                                          at_least_one(l->block.y), at_least_one(l->block.z),
                                          l->shared_bytes, stream, params, NULL);
    if (result == CUDA_SUCCESS)
        return ST_OK;
    gpu_check(g, result, "cuLaunchKernel", e);
    return err_add(e, "cannot launch kernel %s on %u x %u x %u blocks of %u x %u x %u threads",
                   k->name, l->grid.x, at_least_one(l->grid.y), at_least_one(l->grid.z), l->block.x,
                   at_least_one(l->block.y), at_least_one(l->block.z));
}
