#include "engine/cuda/random.h"

#include "model/random.h"

enum { QUANTILES = 1 << 16, JUMP_WORDS = CUDA_RANDOM_JUMPS * CUDA_RANDOM_JUMP_WORDS };

static enum st upload_tables(struct cuda_random_maker *r, uint64_t *jumps, struct err *e)
{
    const struct gpu *g = r->programs->g;
    const size_t quantile_bytes = QUANTILES * sizeof(float), jump_bytes = JUMP_WORDS * 8;
    TRY(gpu_alloc(g, quantile_bytes, "the quantiles of random weights", &r->quantiles, e));
    TRY(gpu_alloc(g, jump_bytes, "the jumps of random weights", &r->jumps, e));
    cuda_random_jumps(jumps);
    TRY(gpu_upload(g, r->quantiles, random_weights_quantiles(), quantile_bytes, NULL, e));
    TRY(gpu_upload(g, r->jumps, jumps, jump_bytes, NULL, e));
    return gpu_wait(g, e); /* other streams read them */
}

enum st cuda_random_open(const struct cuda_programs *p, struct cuda_random_maker *out,
                         struct err *e)
{
    uint64_t *jumps = mem_alloc(JUMP_WORDS * sizeof *jumps);
    *out = (struct cuda_random_maker){.programs = p};
    enum st st = upload_tables(out, jumps, e);
    mem_free(jumps);
    if (st != ST_OK)
        cuda_random_close(out);
    return st;
}

void cuda_random_close(struct cuda_random_maker *r)
{
    if (r->programs) {
        gpu_free(r->programs->g, &r->quantiles);
        gpu_free(r->programs->g, &r->jumps);
    }
    *r = (struct cuda_random_maker){0};
}

static const int64_t most_elements = INT64_C(4) * CUDA_RANDOM_DRAWS << CUDA_RANDOM_JUMPS;

static void *pointer(CUdeviceptr at)
{
    return (void *)(uintptr_t)at;
}

static enum st make(void *self, const struct tensor *t, uint64_t seed, enum dtype dtype,
                    CUdeviceptr to, CUstream stream, struct err *e)
{
    const struct cuda_random_maker *r = self;
    const struct cuda_programs *p = r->programs;
    const struct random_weights w = random_weights_begin(t, seed);
    const int64_t n = tensor_elements(t);
    const struct cuda_sizes most = {.sms = (int)p->g->facts.sms};
    ASSERT(cuda_dtype_of(dtype) == p->dtype);
    if (w.constant) {
        const struct cuda_fill_args a = {.out = pointer(to), .n = n, .value = w.value};
        return cuda_programs_launch(p, CUDA_FILL, &a, &most, false, stream, e);
    }
    if (n > most_elements)
        return err_set(e, ST_INPUT, "%s: random tensors have at most %lld elements", t->name,
                       (long long)most_elements);
    struct cuda_random_args a = {
        .out = pointer(to), .n = n, .quantiles = pointer(r->quantiles), .jumps = pointer(r->jumps)};
    for (int i = 0; i < 4; i++)
        a.state[i] = w.rng.s[i];
    return cuda_programs_launch(p, CUDA_RANDOM, &a, &most, false, stream, e);
}

struct cuda_random cuda_random_of(struct cuda_random_maker *r)
{
    return (struct cuda_random){make, r};
}
