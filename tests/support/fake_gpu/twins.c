/* Twins of the kernels that twinfer itself brings: they are there without being added, for programs
 * that cannot add them: the command line under LD_LIBRARY_PATH. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cuda/kernels.h"
#include "support/fake_gpu/device.h"

/* ---- src/doctor/kernels/roofs.cu; times as of 400 and 200 GB/s ---- */

enum { THREADS = 512, BLOCK_WORDS = THREADS * 8 * 4 };

static void roof_read(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                      void **params)
{
    const uint32_t *in = *(const uint32_t **)params[0];
    uint32_t *sums = *(uint32_t **)params[1];
    (void)self, (void)block;
    for (unsigned b = 0; b < grid.x; b++) {
        uint32_t sum = 0;
        for (size_t i = 0; i < BLOCK_WORDS; i++)
            sum += in[(size_t)b * BLOCK_WORDS + i];
        sums[b] = sum;
    }
    fake_gpu_spend_s(grid.x * BLOCK_WORDS * 4.0 / 400e9);
}

static void roof_write(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                       void **params)
{
    uint32_t *out = *(uint32_t **)params[0], factor = *(uint32_t *)params[1];
    (void)self, (void)block;
    for (size_t i = 0; i < (size_t)grid.x * BLOCK_WORDS; i++)
        out[i] = (uint32_t)i * factor;
    fake_gpu_spend_s(grid.x * BLOCK_WORDS * 4.0 / 200e9);
}

/* 800 GB/s */
static void roof_read_l2(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                         void **params)
{
    const uint32_t *in = *(const uint32_t **)params[0];
    uint32_t *sums = *(uint32_t **)params[1];
    const uint32_t pieces = *(uint32_t *)params[2], rounds = *(uint32_t *)params[3];
    uint32_t *of_piece = calloc(pieces, sizeof *of_piece);
    (void)self, (void)block;
    for (size_t i = 0; of_piece && i < (size_t)pieces * BLOCK_WORDS; i++)
        of_piece[i / BLOCK_WORDS] += in[i];
    for (uint32_t b = 0; of_piece && b < grid.x; b++)
        for (uint32_t r = 0; r < rounds; r++)
            sums[b] += of_piece[(b + r) % pieces];
    free(of_piece);
    fake_gpu_spend_s(grid.x * (double)rounds * BLOCK_WORDS * 4.0 / 800e9);
}

/* 1, 2 and 4 TFLOP/s of float64, float32, float16 */
static void roof_fma(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                     void **params)
{
    uint32_t *right = *(uint32_t **)params[0];
    const int rounds = *(int *)params[1];
    const uint32_t half = *(uint32_t *)params[2], one = *(uint32_t *)params[3];
    for (unsigned b = 0; b < grid.x; b++)
        right[b] += rounds > 64 && half == 1 && one == 1 ? block.x : 0;
    const double lanes = (double)grid.x * block.x * rounds * 16, flop = self->tag == 4 ? 4 : 2;
    fake_gpu_spend_s(lanes * flop / (self->tag * 1e12));
}

/* value = step / 128 - 1 is exact in float16, whose bits are written by hand. */
static uint16_t half_of(int step)
{
    int magnitude = step < 128 ? 128 - step : step - 128, exponent = 15;
    if (magnitude == 0)
        return 0;
    for (magnitude <<= 3; magnitude < 1024; magnitude *= 2)
        exponent--;
    return (uint16_t)((step < 128 ? 0x8000 : 0) | exponent << 10 | (magnitude & 1023));
}

static void roof_random(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                        void **params)
{
    void *out = *(void **)params[0];
    const uint64_t n = *(uint64_t *)params[1];
    const uint32_t seed = *(uint32_t *)params[2];
    const int type = *(int *)params[3];
    (void)self, (void)grid, (void)block;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)i * 0x9e3779b9u + seed, bits;
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        const float value = (float)(h >> 24) / 128.0f - 1.0f;
        memcpy(&bits, &value, 4);
        if (type == 0)
            ((float *)out)[i] = value;
        else
            ((uint16_t *)out)[i] = type == 1 ? half_of((int)(h >> 24)) : (uint16_t)(bits >> 16);
    }
}

/* A kernel that looks back at what blocks before it left, as a sort by radix does: it takes the 10
 * in word 2 that something before it wrote, faults on what is no such state, and waits for one that
 * was taken already, which never comes; with lookback=2 it faults there too. */
static void look_back(unsigned char *out)
{
    uint32_t word;
    const uint32_t taken = 0;
    memcpy(&word, out + 8, sizeof word);
    if (word == taken && fake_script_number("lookback", 0) == 1)
        for (;;)
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    if (word != 10)
        fake_stream_raise(CUDA_ERROR_ILLEGAL_ADDRESS);
    memcpy(out + 8, &taken, sizeof taken);
    fake_gpu_spend_s(7e-6);
}

/* One of four bytes is another than it was, in each call the next. With index=1: asserts that word
 * 2 is the 10 that something before it wrote. */
static void odd_write(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                      void **params)
{
    static unsigned calls;
    unsigned char *out = *(unsigned char **)params[0];
    uint32_t word;
    (void)self, (void)grid, (void)block;
    if (fake_script_number("lookback", 0)) {
        look_back(out);
        return;
    }
    memcpy(&word, out + 8, sizeof word);
    if (fake_script_number("index", 0)) {
        if (word != 10)
            fake_stream_raise(CUDA_ERROR_ASSERT);
        fake_gpu_spend_s(7e-6);
        return;
    }
    out[calls++ % 4] += 1;
}

/* 5 us a tile: the first of each block, and what the blocks draw from a counter. */
static void draw_tiles(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                       void **params)
{
    uint32_t *drawn = *(uint32_t **)params[0], tiles = *(uint32_t *)params[1] - grid.x;
    const uint32_t left = *drawn < tiles ? tiles - *drawn : 0;
    (void)self, (void)block;
    *drawn += left;
    fake_gpu_spend_s((grid.x + left) * 5e-6);
}

static void nothing(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                    void **params)
{
    (void)self, (void)grid, (void)block, (void)params;
}

static const struct {
    const char *kernel;
    struct fake_twin twin;
} twins[] = {
#define BYTES(...)     \
    (const uint16_t[]) \
    {                  \
        __VA_ARGS__, 0 \
    }
    {"roof_read", {.run = roof_read, .param_bytes = BYTES(8, 8)}},
    {"roof_write", {.run = roof_write, .param_bytes = BYTES(8, 4)}},
    {"roof_random", {.run = roof_random, .param_bytes = BYTES(8, 8, 4, 4)}},
    {"roof_read_l2", {.run = roof_read_l2, .param_bytes = BYTES(8, 8, 4, 4)}},
    {"roof_fma_f64", {.run = roof_fma, .param_bytes = BYTES(8, 4, 4, 4), .tag = 1}},
    {"roof_fma_f32", {.run = roof_fma, .param_bytes = BYTES(8, 4, 4, 4), .tag = 2}},
    {"roof_fma_f16", {.run = roof_fma, .param_bytes = BYTES(8, 4, 4, 4), .tag = 4}},
    {"roof_nothing", {.run = nothing}},
    {"odd_write", {.run = odd_write, .param_bytes = BYTES(8)}},
    {"draw_tiles", {.run = draw_tiles, .param_bytes = BYTES(8, 4)}},
};

/* ---- src/engine/cuda/kernels ---- */

static void run(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                void **params)
{
    const struct cuda_kernel *k = self->ctx;
    (void)grid, (void)block;
    k->twin(params[0], (enum cuda_dtype)self->tag);
}

bool fake_twin_builtin(const char *kernel, struct fake_twin *out)
{
    enum cuda_dtype t;
    const struct cuda_kernel *k = cuda_kernel_find(kernel, &t);
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (strcmp(twins[i].kernel, kernel) == 0) {
            *out = twins[i].twin;
            return true;
        }
    if (k)
        *out = (struct fake_twin){
            .run = run, .ctx = k, .tag = (int)t, .one = {(uint16_t)k->args_bytes, 0}};
    return k != NULL;
}
