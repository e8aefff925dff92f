/* Operators of a pass over and over on the fake GPU, whose kernels take 12 us each. */
#include "engine/cuda/op_loop.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/cuda/engine.h"
#include "profile/drive.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

enum { BLOCK = 16, BLOCKS = 64, TOKENS = 32, ROWS = 12 };
static const double KERNEL_S = 12e-6;
static const struct point decode = {POINT_DECODE, 3, 20, 0}, prompt = {POINT_PREFILL, 24, 16, 0};

struct stage {
    struct model m;
    struct serve_clock clock;
    struct executor ex;
    struct drive *drive;
};

static void stage_open(struct test *t, struct stage *s)
{
    static const struct grid_limits limits = {.max_tokens = TOKENS,
                                              .max_batch = ROWS,
                                              .max_kv = 64,
                                              .block_size = BLOCK,
                                              .num_blocks = BLOCKS};
    const char *dir = arena_printf(t->a, "%s/tests/golden/models/llama", TW_SOURCE_DIR);
    assert_ok(model_load(t->a, dir, &s->m, &t->e), t);
    setenv("XDG_CACHE_HOME", test_dir(t), 1);
    fake_gpu_play("");
    s->clock = clock_real();
    const struct cuda_engine_params p = {.model = &s->m,
                                         .weights_seed = 3,
                                         .dtype = CUDA_F32,
                                         .block_size = BLOCK,
                                         .num_blocks = BLOCKS,
                                         .max_batch_tokens = TOKENS + ROWS,
                                         .max_rows = ROWS,
                                         .ignore_eos = true,
                                         .op_times = true,
                                         .clock = &s->clock};
    assert_ok(cuda_engine_open(&p, &s->ex, &t->e), t);
    s->drive = drive_new(t->a, s->ex, &limits, s->m.vocab, 1);
}

static void stage_close(struct stage *s)
{
    s->ex.ops->close(s->ex.self);
    assert_int_equal(fake_gpu_allocations(), 0);
    fake_gpu_play("");
}

static struct op_loop_times loop(struct test *t, struct stage *s, const struct point *p,
                                 uint64_t ops)
{
    struct op_loop_times x;
    const int64_t from_ns = clock_mono_ns();
    const struct op_loop l = {.rows = ops, .least_s = 0.002};
    assert_ok(drive_loop(s->drive, p, &l, &x, &t->e), t);
    assert_true(x.passes == 0 ||
                (x.from_ns >= from_ns && x.to_ns >= x.from_ns && x.to_ns <= clock_mono_ns()));
    assert_true(x.kernels_s <= x.pass_s);
    return x;
}

static void only_what_is_wanted_runs(void **state)
{
    struct test *t = *state;
    struct stage s;
    stage_open(t, &s);
    const double layers = (double)s.m.layers;
    const struct {
        const struct point *point;
        uint32_t ops;
        double kernels; /* of a pass */
    } rows[] = {
        {&decode, 1u << OP_ATTN_DECODE, layers},
        {&decode, 1u << OP_LM_HEAD, 1},
        {&decode, 1u << OP_MLP_UP_PROJ | 1u << OP_MLP_DOWN_PROJ, 2 * layers},
        {&prompt, 1u << OP_ATTN_PREFILL, layers},
        {&prompt, 1u << OP_INPUT_NORM, layers},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct op_loop_times now = loop(t, &s, rows[i].point, rows[i].ops);
        assert_true(now.passes > 0);
        assert_near(now.kernels_s / KERNEL_S, rows[i].kernels, 0.01);
        assert_near(now.pass_s / KERNEL_S, rows[i].kernels, 0.01);
    }
    /* products of cuBLASLt one after the other, whose kernels take other times */
    const struct op_loop_times x = loop(t, &s, &prompt, 1u << OP_MLP_DOWN_PROJ);
    assert_true(x.passes > 0 && x.kernels_s > 0 && x.kernels_s <= x.pass_s);
    /* an operator whose work is in another one's kernel, and one of the other regime */
    assert_int_equal(loop(t, &s, &decode, 1u << OP_INPUT_NORM).passes, 0);
    assert_int_equal(loop(t, &s, &decode, 1u << OP_ATTN_PREFILL).passes, 0);
    stage_close(&s);
}

/* All of the pass, and passes afterwards as if nothing had been. */
static void whole_passes_and_the_engine_goes_on(void **state)
{
    struct test *t = *state;
    struct stage s;
    double op_s[DRIVE_TRAIN][OP_ROWS], before_s, spent_s;
    int n;
    stage_open(t, &s);
    assert_ok(drive_point(s.drive, &decode, 2, op_s, &n, &spent_s, &t->e), t);
    before_s = op_s[0][OP_ATTN_DECODE];
    const struct op_loop_times x = loop(t, &s, &decode, 0);
    const double kernels = 3 + 6 * (double)s.m.layers; /* op_times_test counts them */
    assert_near(x.pass_s / KERNEL_S, kernels, 0.01);
    loop(t, &s, &prompt, 0);
    assert_ok(drive_point(s.drive, &decode, 2, op_s, &n, &spent_s, &t->e), t);
    assert_near(op_s[1][OP_ATTN_DECODE], before_s, 1e-7);
    stage_close(&s);
}

static void errors_name_the_loop(void **state)
{
    struct test *t = *state;
    struct stage s;
    struct op_loop_times x;
    const struct op_loop l = {.rows = 1u << OP_LM_HEAD, .least_s = 0.001};
    stage_open(t, &s);
    fake_gpu_play("fail cuStreamEndCapture 1 700");
    assert_int_equal(drive_loop(s.drive, &decode, &l, &x, &t->e), ST_DEVICE);
    bool named = false;
    for (int i = 0; err_cause(&t->e, i); i++)
        named = named || strstr(err_cause(&t->e, i), "cannot capture a loop of operators");
    assert_true(named);
    err_clear(&t->e);
    fake_gpu_play("");
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_what_is_wanted_runs),
        TEST(whole_passes_and_the_engine_goes_on),
        TEST(errors_name_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
