#include "gpu/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/cuda/twins.h"

/* Behind a size or a float at the end of arguments are four bytes that nobody sets, with half of
 * some address in them, of this memory too. So it lies where the lower half of none of its
 * addresses is a size or a float that kernels take: from 0xa0000000 on (world_device_args). */
static void *host_memory(size_t bytes)
{
    void *p = mmap((void *)0x2a51a0000000, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT(p != MAP_FAILED);
    return p;
}

void world_open(struct world *w, struct dev *g, size_t bytes)
{
    *w = (struct world){.gpu = g, .bytes = bytes};
    w->host = host_memory(bytes);
    w->before = mem_alloc(bytes);
    w->got = mem_alloc(bytes);
    w->device = g ? dev_alloc(g, bytes) : 0;
}

void world_close(struct world *w)
{
    munmap(w->host, w->bytes);
    mem_free(w->before);
    mem_free(w->got);
    if (w->gpu)
        dev_free(w->gpu, w->device);
}

void world_begin(struct world *w, uint64_t seed)
{
    w->rng = rng_stream(seed, "world");
    w->used = 0;
    w->n_outputs = 0;
    if (w->gpu)
        dev_forget_gaps(w->gpu);
}

void *world_take(struct world *w, size_t bytes)
{
    void *p = w->host + w->used;
    const size_t end = w->used + bytes;
    w->used += (bytes + 255) / 256 * 256 + 256; /* the gap shows writes past the end */
    ASSERT(w->used <= w->bytes);
    memset(p, 0, w->used - (size_t)((char *)p - w->host));
    if (w->gpu)
        dev_gap(w->gpu, w->device + end, w->used - end);
    return p;
}

int *world_ints(struct world *w, int n)
{
    return world_take(w, (size_t)n * sizeof(int));
}

float *world_floats(struct world *w, int64_t n)
{
    return world_take(w, (size_t)n * sizeof(float));
}

void world_randomize(struct world *w, enum cuda_dtype t, void *p, int64_t n, double deviation)
{
    const float scale = (float)(deviation * 1.7320508 / 65536);
    for (int64_t i = 0; i < n; i++) { /* a sum of four uniforms: normal enough, and fast */
        const uint64_t u = rng_u64(&w->rng);
        const int64_t sum =
            (int64_t)((u & 0xffff) + (u >> 16 & 0xffff) + (u >> 32 & 0xffff) + (u >> 48));
        twin_put(t, p, i, scale * (float)(sum - 131070));
    }
}

void *world_random(struct world *w, enum cuda_dtype t, int64_t n, double deviation)
{
    void *p = world_take(w, (size_t)n * (size_t)cuda_dtype_bytes(t));
    world_randomize(w, t, p, n, deviation);
    return p;
}

static void add_output(struct world *w, const void *p, size_t bytes, enum cuda_dtype t,
                       bool scratch)
{
    ASSERT(w->n_outputs < WORLD_OUTPUTS);
    w->outputs[w->n_outputs++] =
        (struct world_output){(size_t)((const char *)p - w->host), bytes, t, scratch};
}

void world_changes(struct world *w, const void *p, enum cuda_dtype t, int64_t n)
{
    add_output(w, p, (size_t)n * (size_t)cuda_dtype_bytes(t), t, false);
}

void *world_output(struct world *w, enum cuda_dtype t, int64_t n)
{
    const size_t bytes = (size_t)n * (size_t)cuda_dtype_bytes(t);
    void *p = world_take(w, bytes);
    memset(p, 0xff, bytes);
    add_output(w, p, bytes, t, false);
    return p;
}

void *world_scratch(struct world *w, size_t bytes)
{
    void *p = world_take(w, bytes);
    add_output(w, p, bytes, CUDA_F32, true);
    return p;
}

void world_upload(struct world *w)
{
    memcpy(w->before, w->host, w->used);
    dev_upload(w->gpu, w->device, w->host, w->used);
}

void world_device_args(const struct world *w, const void *args, size_t bytes, void *out)
{
    memcpy(out, args, bytes);
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t v;
        memcpy(&v, (char *)out + i, 8);
        if (v >= (uintptr_t)w->host && v < (uintptr_t)w->host + w->bytes) {
            v = v - (uintptr_t)w->host + w->device;
            memcpy((char *)out + i, &v, 8);
        }
    }
}

/* Tolerances are of means over many roundings. Of fewer numbers than these one that fell to the
 * other side is no error: seven outputs of matmul_few in float16 differed by 6.4e-4, where 4.1e-4
 * is the most of many. */
enum { FEW_NUMBERS = 64 };

/* From v to the next number of the type. */
static double step_at(enum cuda_dtype t, double v)
{
    static const int bits[CUDA_DTYPES] = {[CUDA_F32] = 23, [CUDA_F16] = 10, [CUDA_BF16] = 7};
    return v == 0 ? 0 : ldexp(1, ilogb(v) - bits[t]);
}

/* NaN where both are is agreement. */
static double error_of(const struct world *w, const struct world_output *o, bool exact)
{
    const void *got = w->got + o->from, *want = w->host + o->from;
    const int64_t n = (int64_t)o->bytes / cuda_dtype_bytes(o->t);
    double difference = 0, norm = 0;
    if (memcmp(got, want, o->bytes) == 0)
        return 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)twin_get(o->t, got, i), b = (double)twin_get(o->t, want, i);
        if (isnan(a) && isnan(b))
            continue;
        if (!(fabs(a - b) >= 0)) /* one is NaN */
            return INFINITY;
        if (exact || n >= FEW_NUMBERS || fabs(a - b) > step_at(o->t, b))
            difference += (a - b) * (a - b);
        norm += b * b;
    }
    return difference > 0 ? sqrt(difference / norm) : 0;
}

static bool is_output(const struct world *w, size_t at)
{
    for (int i = 0; i < w->n_outputs; i++)
        if (at >= w->outputs[i].from && at < w->outputs[i].from + w->outputs[i].bytes)
            return true;
    return false;
}

static bool touched_others(const struct world *w)
{
    if (memcmp(w->got, w->before, w->used) == 0)
        return false;
    for (size_t i = 0; i < w->used; i++)
        if (w->got[i] != w->before[i] && !is_output(w, i))
            return true;
    return false;
}

/* Of the outputs, FNV-1a by words; what is scratch may differ. */
static uint64_t output_hash(const struct world *w)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (int i = 0; i < w->n_outputs; i++) {
        const struct world_output *o = &w->outputs[i];
        for (size_t at = o->from, end = o->from + o->bytes; at < end && !o->scratch; at += 8) {
            uint64_t word = 0;
            memcpy(&word, w->got + at, end - at < 8 ? end - at : 8);
            h = (h ^ word) * 0x100000001b3ULL;
            h ^= h >> 32;
        }
    }
    return h;
}

/* Runs the kernel on a copy of the buffers, into w->got; false, and a line, on a fault. */
static bool run_kernel(struct world *w, const struct cuda_kernel *k, enum cuda_dtype t,
                       int head_dim, const void *args, const struct cuda_launch *l,
                       const char *what)
{
    char device_args[1024];
    const struct gpu_kernel *function = dev_entry(w->gpu, k, t, head_dim);
    world_upload(w);
    world_device_args(w, args, k->args_bytes, device_args);
    dev_launch(w->gpu, function, l, device_args, k->args_bytes, false);
    const char *fault = dev_fault(w->gpu);
    if (fault) {
        fprintf(stderr, "%s_%s %s: %s\n", k->name, cuda_dtype_name(t), what, fault);
        return false;
    }
    dev_download(w->gpu, w->got, w->device, w->used);
    return true;
}

double world_check(struct world *w, const struct cuda_kernel *k, enum cuda_dtype t, int head_dim,
                   const void *args, const struct cuda_sizes *most, const char *what)
{
    struct cuda_launch l;
    double worst = 0;
    if (!w->gpu) { /* a rehearsal: how long the twins take */
        k->launch(args, t, most, &l);
        k->twin(args, t);
        return 0;
    }
    k->launch(args, t, most, &l);
    if (!run_kernel(w, k, t, head_dim, args, &l, what))
        return INFINITY;
    const uint64_t first = output_hash(w);
    if (!run_kernel(w, k, t, head_dim, args, &l, what))
        return INFINITY;
    if (output_hash(w) != first) {
        fprintf(stderr, "%s_%s %s: other bytes the second time\n", k->name, cuda_dtype_name(t),
                what);
        return INFINITY;
    }
    k->twin(args, t);
    for (int i = 0; i < w->n_outputs; i++) {
        const bool exact = k->tolerance[t] == 0;
        const double error = w->outputs[i].scratch ? 0 : error_of(w, &w->outputs[i], exact);
        worst = error > worst || isnan(error) ? error : worst;
    }
    if (touched_others(w)) {
        fprintf(stderr, "%s_%s %s: wrote outside its outputs\n", k->name, cuda_dtype_name(t), what);
        return INFINITY;
    }
    return worst;
}
