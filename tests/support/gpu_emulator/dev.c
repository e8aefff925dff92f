/* bench/gpu/dev.h on the emulator: what the checks of gpu_bench want of a GPU. */
#include "gpu/dev.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/gpu_emulator/gpu_emulator.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#if defined(WITH_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 256, MOST_GAPS = 64, MOST_KERNELS = 5 * CUDA_KERNELS };

static struct {
    char *from;
    size_t bytes;
} gaps[MOST_GAPS];
static int n_gaps;
static unsigned launches;
static const char *fault;

static char *at(dev_ptr p)
{
    return (char *)(uintptr_t)p;
}

dev_ptr dev_alloc(struct dev *g, size_t bytes)
{
    (void)g;
    void *p = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    ASSERT(p);
    return (dev_ptr)(uintptr_t)p;
}

void dev_free(struct dev *g, dev_ptr p)
{
    (void)g;
    free(at(p));
}

void dev_upload(struct dev *g, dev_ptr to, const void *from, size_t bytes)
{
    (void)g;
    memcpy(at(to), from, bytes);
}

void dev_download(struct dev *g, void *to, dev_ptr from, size_t bytes)
{
    (void)g;
    memcpy(to, at(from), bytes);
}

void dev_gap(struct dev *g, dev_ptr p, size_t bytes)
{
    (void)g;
    ASSERT(n_gaps < MOST_GAPS);
    gaps[n_gaps].from = at(p);
    gaps[n_gaps++].bytes = bytes;
}

void dev_forget_gaps(struct dev *g)
{
    (void)g;
    n_gaps = 0;
}

/* A gpu_kernel whose function is the row of the emulator's table. */
const struct gpu_kernel *dev_entry(struct dev *g, const struct cuda_kernel *k, enum cuda_dtype t,
                                   int head_dim)
{
    static struct gpu_kernel known[MOST_KERNELS];
    const struct emulator_entry *e = emulator_entry(k->name, (int)t, k->head_dim ? head_dim : 0);
    int i = 0;
    (void)g;
    ASSERT(e);
    while (known[i].function && known[i].function != (CUfunction)(uintptr_t)e)
        i++;
    ASSERT(i < MOST_KERNELS);
    known[i].function = (CUfunction)(uintptr_t)e;
    return &known[i];
}

/* One launch in rising order with copies at once, the next in falling order with late ones. Of
 * blocks that run together the second alone looks for races: it takes 5 times as long. */
void dev_launch(struct dev *g, const struct gpu_kernel *k, const struct cuda_launch *l,
                const void *args, size_t args_bytes, bool dependent)
{
    const struct emulator_entry *e = (const void *)k->function;
    const bool odd = launches++ % 2, together = strcmp(e->name, "decode_step") == 0;
    (void)g, (void)args_bytes, (void)dependent;
    for (int i = 0; i < n_gaps; i++)
        ASAN_POISON_MEMORY_REGION(gaps[i].from, gaps[i].bytes);
    const char *text = emulator_run(
        &(struct emulator_launch){.kernel = e->kernel,
                                  .args = args,
                                  .grid = {l->grid[0], l->grid[1], l->grid[2]},
                                  .block = l->block,
                                  .shared_bytes = l->shared_bytes,
                                  .together = together},
        (struct emulator_order){.falling = odd, .late = odd, .races = odd || !together});
    for (int i = 0; i < n_gaps; i++)
        ASAN_UNPOISON_MEMORY_REGION(gaps[i].from, gaps[i].bytes);
    if (text)
        fault = text;
}

const char *dev_fault(struct dev *g)
{
    const char *text = fault;
    (void)g;
    fault = NULL;
    return text;
}
