/* Modules of kernels (images of gpu/compile.h) and their launches. All errors are ST_DEVICE. */
#ifndef GPU_MODULE_H
#define GPU_MODULE_H

#include "base/str.h"
#include "gpu/device.h"

/* image: machine code, or PTX text, NUL-terminated. `name` is for errors, as "norm.cu". */
enum st gpu_module_load(const struct gpu *g, struct sv image, const char *name, CUmodule *out,
                        struct err *e);
void gpu_module_close(const struct gpu *g, CUmodule *m); /* clears it; NULL is fine */

/* A kernel and the shape in which it is launched. */
struct gpu_kernel {
    CUfunction function;
    const char *name;                                /* borrowed */
    int registers, local_bytes, static_shared_bytes; /* as compiled; local > 0: spills or arrays */
    unsigned int dynamic_shared_bytes;               /* most that a launch may ask for */
};
/* dynamic_shared_bytes: what launches need, beyond 48 KiB too; GPU_SHARED_MOST = as much as a block
 * can have beside the static ones. `name`: the extern "C" name. */
#define GPU_SHARED_MOST 0xffffffffu
enum st gpu_kernel_find(const struct gpu *g, CUmodule m, const char *name,
                        unsigned int dynamic_shared_bytes, struct gpu_kernel *out, struct err *e);
/* Blocks of that many threads that one multiprocessor runs at once. */
enum st gpu_kernel_blocks(const struct gpu *g, const struct gpu_kernel *k, unsigned int threads,
                          unsigned int shared_bytes, int *blocks, struct err *e);

struct gpu_dim {
    unsigned int x, y, z; /* y, z: 0 = 1 */
};
struct gpu_launch {
    struct gpu_dim grid, block;
    unsigned int shared_bytes; /* dynamic */
    /* The kernel waits by itself for the one before it (griddepcontrol.wait, sm_90 on) and may be
     * started before that has ended. Without effect on older GPUs. */
    bool early;
};
/* params: addresses of the arguments in order; they are copied before it returns. A launch of an
 * empty grid is a bug of the caller. */
enum st gpu_launch(const struct gpu *g, const struct gpu_kernel *k, const struct gpu_launch *l,
                   void **params, CUstream stream, struct err *e);

#endif
