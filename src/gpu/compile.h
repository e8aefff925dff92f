/* Kernels compiled when they are needed: CUDA C text to a module image, by NVRTC, with a cache on
 * disk, so that later starts compile nothing.
 *
 * A cached image (gpu/cache.h) is found by all that it depends on: name and text of the source,
 * architecture, options, NVRTC's version. The user's folder is gpu_cache_dir(a, "kernels"). A cache
 * that cannot be written, or none, costs time and is no error.
 *
 * Threads: gpu_compile may be called from several at once. */
#ifndef GPU_COMPILE_H
#define GPU_COMPILE_H

#include "base/str.h"
#include "gpu/nvrtc.h"

struct gpu_source {
    const char *name;           /* "norm.cu", as compiler messages show it */
    const char *text;           /* NUL-terminated, no #include of files */
    const char *const *options; /* "-DHEAD_DIM=128", ends with NULL; NULL = none. The architecture
                                 * is not among them. */
};

struct gpu_compiler;

/* nvrtc is copied. cache: folder of images, made when it is first written to; NULL = no cache. */
void gpu_compiler_open(const struct gpu_nvrtc *nvrtc, const char *cache, struct gpu_compiler **out);
void gpu_compiler_close(struct gpu_compiler **c); /* clears *c; NULL and cleared are fine */

/* arch: "sm_90a" gives machine code of that GPU, "compute_90" PTX, which newer GPUs' drivers take
 * too. The image lives in the arena, is NUL-terminated (PTX is text), and is what
 * gpu_module_load takes. ST_DEVICE: the text does not compile; the error's causes hold the first
 * lines of the compiler's log. Warnings go to the debug log. */
enum st gpu_compile(struct gpu_compiler *c, struct arena *a, const struct gpu_source *s,
                    const char *arch, struct sv *image, struct err *e);

/* One image of several. */
struct gpu_compile_job {
    struct gpu_source source;
    const char *arch;
    struct sv image; /* result */
};
/* All of them, on `threads` threads (0 = as many as there are cores). The first error in the order
 * of jobs is reported. */
enum st gpu_compile_all(struct gpu_compiler *c, struct arena *a, struct gpu_compile_job *jobs,
                        size_t n, int threads, struct err *e);

/* The best architecture for a device of compute capability major.minor: its own machine code, with
 * the features of that one generation where it has such ("sm_90a", "sm_100a"), or, for a GPU that
 * this NVRTC does not know, PTX of the newest one below it ("compute_90"). Returns false when there
 * is none. */
enum { GPU_ARCH_MAX = 24 };
bool gpu_compile_arch(const struct gpu_compiler *c, uint32_t major, uint32_t minor,
                      char out[GPU_ARCH_MAX]);

/* What has happened so far. */
struct gpu_compile_stats {
    int64_t compiled, from_cache;
    int64_t stored, not_stored; /* of those compiled: written to the cache, or refused by it */
    double compile_s;           /* in NVRTC, summed over threads */
};
struct gpu_compile_stats gpu_compile_stats(struct gpu_compiler *c);

#endif
