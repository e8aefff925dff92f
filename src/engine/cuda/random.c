#include "engine/cuda/random.h"

#include "model/random.h"

static enum st upload(struct cuda_random_maker *r, struct err *e)
{
    const struct gpu *g = r->programs->g;
    const size_t bytes = RANDOM_WEIGHTS_QUANTILES * sizeof(float);
    TRY(gpu_alloc(g, bytes, "the quantiles of random weights", &r->quantiles, e));
    TRY(gpu_upload(g, r->quantiles, random_weights_quantiles(), bytes, NULL, e));
    return gpu_wait(g, e); /* other streams read them */
}

enum st cuda_random_open(const struct cuda_programs *p, struct cuda_random_maker *out,
                         struct err *e)
{
    *out = (struct cuda_random_maker){.programs = p};
    if (upload(out, e) == ST_OK)
        return ST_OK;
    cuda_random_close(out);
    return e->st;
}

void cuda_random_close(struct cuda_random_maker *r)
{
    if (r->programs)
        gpu_free(r->programs->g, &r->quantiles);
    *r = (struct cuda_random_maker){0};
}

static void *pointer(CUdeviceptr at)
{
    return (void *)(uintptr_t)at;
}

static enum st make(void *self, const struct tensor *t, uint64_t seed, enum dtype dtype,
                    const struct cuda_random_piece *piece, CUstream stream, struct err *e)
{
    const struct cuda_random_maker *r = self;
    const struct cuda_programs *p = r->programs;
    const struct random_weights w = random_weights_of(t, seed);
    const struct cuda_sizes most = {.sms = (int)p->g->facts.sms};
    ASSERT(cuda_dtype_of(dtype) == p->dtype);
    if (w.constant) {
        const struct cuda_fill_args a = {
            .out = pointer(piece->to), .n = piece->n, .value = w.value};
        return cuda_programs_launch(p, CUDA_FILL, &a, &most, false, stream, e);
    }
    const struct cuda_random_args a = {.out = pointer(piece->to),
                                       .n = piece->n,
                                       .first = piece->first,
                                       .width = (int)piece->width,
                                       .pairs = piece->pairs,
                                       .key = {w.key[0], w.key[1]},
                                       .stream = {w.stream[0], w.stream[1]},
                                       .quantiles = pointer(r->quantiles)};
    return cuda_programs_launch(p, CUDA_RANDOM, &a, &most, false, stream, e);
}

struct cuda_random cuda_random_of(struct cuda_random_maker *r)
{
    return (struct cuda_random){make, r};
}
