#include <stdio.h>

#include "base/clock.h"
#include "engine/bench.h"
#include "engine/cpu/pool.h"

static void nothing(void *ctx, int64_t item, int thread)
{
    (void)ctx;
    (void)item;
    (void)thread;
}

static void pool_job(const struct options *o)
{
    enum { JOBS = 20000 };
    struct err e = {0};
    struct pool *pool;
    if (pool_open(o->threads, &pool, &e) != ST_OK)
        return;
    double *ns = mem_alloc(JOBS * sizeof *ns);
    for (int i = 0; i < JOBS; i++) {
        const int64_t start_ns = clock_mono_ns();
        pool_run(pool, 8, nothing, NULL);
        ns[i] = (double)(clock_mono_ns() - start_ns);
    }
    const struct spread s = spread_of(ns, JOBS);
    printf("pool job of 8 empty items, %d threads: %.0f ns (quartiles %.0f .. %.0f, p99 %.0f)\n",
           pool_threads(pool), s.median, s.low, s.high, ns[JOBS * 99 / 100]);
    mem_free(ns);
    pool_close(&pool);
}

/* The demo model's shape: Qwen3 with hidden 256 and 6 layers. */
static struct model demo_model(void)
{
    struct model m = bench_model(0);
    m.family = MODEL_QWEN3;
    m.qk_norm = true;
    m.layers = 6;
    m.hidden = 256;
    m.heads = 8;
    m.kv_heads = 4;
    m.head_dim = 32;
    m.intermediate = 768;
    m.vocab = 2048;
    return m;
}

static void print_ops(const struct model *m, struct drive *d, const char *what, int p1, int d1)
{
    enum { STEPS = 400 };
    static double op[OP_KINDS][STEPS], whole[STEPS];
    struct op_list l;
    for (int i = -20; i < STEPS; i++) {
        if (i % 100 == 0 || d1 == 0) {
            drive_restart(d);
            if (d1)
                drive_step(d, 0, d1, 0, 0);
        }
        const double s = drive_step(d, 0, p1, 0, d1);
        if (i < 0)
            continue;
        whole[i] = s;
        for (int k = 0; k < OP_KINDS; k++)
            op[k][i] = drive_op_s(d)[k];
    }
    const struct spread w = spread_of(whole, STEPS);
    printf("%s: %.1f us (quartiles %.1f .. %.1f, p99 %.1f)\n", what, w.median * 1e6, w.low * 1e6,
           w.high * 1e6, whole[STEPS * 99 / 100] * 1e6);
    model_ops(m, &l);
    for (int i = 0; i < l.n; i++) {
        const enum op_kind k = l.ops[i].kind;
        const struct spread s = spread_of(op[k], STEPS);
        const double n = l.ops[i].repeat;
        printf("  %-26s %9.2f us each (quartiles %.2f .. %.2f)\n", op_name(k), s.median / n * 1e6,
               s.low / n * 1e6, s.high / n * 1e6);
    }
}

int bench_small(const struct options *o)
{
    const struct model m = demo_model();
    pool_job(o);
    struct drive *d = drive_open(&m, o, 8, 512, 256);
    print_ops(&m, d, "decode, 1 sequence after 256 tokens", 0, 1);
    print_ops(&m, d, "decode, 8 sequences after 256 tokens", 0, 8);
    print_ops(&m, d, "prefill, 256 tokens", 1, 0);
    drive_close(&d);
    return 0;
}
