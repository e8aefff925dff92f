#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu_cache.h"
#include "engine/bench.h"
#include "engine/cpu/kernels.h"

static const struct {
    const char *name;
    int (*run)(const struct options *);
    const char *help;
} parts[] = {
    {"floor", bench_floor, "batch-1 decode against streaming the weights once"},
    {"batching", bench_batching, "8 requests together against one after another"},
    {"gemm", bench_gemm, "matrix products against OpenBLAS, one thread"},
    {"small", bench_small, "operators of a small model, cost of a pool job"},
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread spread_of(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return (struct spread){x[n / 2], x[n / 4], x[n - 1 - n / 4]};
}

double bench_last_level_gib(void)
{
    return (double)cpu_cache_bytes(3) / (double)(1 << 30);
}

double bench_matrix_bytes(const struct model *m)
{
    struct op_list l;
    double floats = 0;
    model_ops(m, &l);
    for (int i = 0; i < l.n; i++)
        floats += (double)l.ops[i].repeat * (double)(l.ops[i].m * l.ops[i].k);
    return floats * sizeof(float);
}

struct model bench_model(double gib)
{
    struct model m = {.name = "bench",
                      .family = MODEL_LLAMA,
                      .norm = NORM_RMS,
                      .act = ACT_SILU_GATED,
                      .position = POSITION_ROPE,
                      .hidden = 3072,
                      .heads = 24,
                      .kv_heads = 8,
                      .head_dim = 128,
                      .intermediate = 8192,
                      .vocab = 32000,
                      .max_positions = 8192,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5,
                      .tied = true,
                      .bos_id = -1};
    do
        m.layers++;
    while (bench_matrix_bytes(&m) < gib * (double)(1 << 30));
    return m;
}

static int usage(void)
{
    fprintf(stderr, "usage: engine_bench PART [threads=0] [gib=0] [rounds=N]\n");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        fprintf(stderr, "  %-9s %s\n", parts[i].name, parts[i].help);
    return 2;
}

int main(int argc, char **argv)
{
    struct options o = {.rounds = 15};
    for (int i = 2; i < argc; i++)
        if (sscanf(argv[i], "threads=%d", &o.threads) != 1 &&
            sscanf(argv[i], "gib=%lf", &o.gib) != 1 && sscanf(argv[i], "rounds=%d", &o.rounds) != 1)
            return usage();
    if (o.gib == 0)
        o.gib = 8 * bench_last_level_gib();
    size_t n;
    for (size_t i = 0; argc > 1 && i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(argv[1], parts[i].name) == 0) {
            printf("kernels %s\n", kernels_usable(&n)[0]->name);
            return parts[i].run(&o);
        }
    return usage();
}
