/* Operator times of the CUDA engine on the fake GPU, whose kernels take 12 us each: recorded passes
 * divide, undisturbed ones count. */
#include "engine/cuda/op_times.h"

#include <math.h>
#include <stdlib.h>

#include "engine/cuda/engine.h"
#include "profile/drive.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

enum { BLOCK = 16, BLOCKS = 64, TOKENS = 32, ROWS = 12, KERNEL_US = 12 };

static const struct grid_limits limits = {.max_tokens = TOKENS,
                                          .max_batch = ROWS,
                                          .max_kv = 64,
                                          .block_size = BLOCK,
                                          .num_blocks = BLOCKS};

struct stage {
    struct model m;
    struct serve_clock clock;
    struct executor ex;
    struct drive *drive;
};

static enum st stage_open(struct test *t, struct stage *s, const char *script)
{
    const char *dir = arena_printf(t->a, "%s/tests/golden/models/llama", TW_SOURCE_DIR);
    assert_ok(model_load(t->a, dir, &s->m, &t->e), t);
    setenv("XDG_CACHE_HOME", test_dir(t), 1);
    fake_gpu_play(script);
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
    TRY(cuda_engine_open(&p, &s->ex, &t->e));
    s->drive = drive_new(t->a, s->ex, &limits, s->m.vocab, 1);
    return ST_OK;
}

static void stage_close(struct stage *s)
{
    s->ex.ops->close(s->ex.self);
    assert_int_equal(fake_gpu_allocations(), 0);
    fake_gpu_play("");
}

static double sum_of(const double op_s[OP_ROWS])
{
    double s = 0;
    for (int k = 0; k < OP_ROWS; k++)
        s += op_s[k];
    return s;
}

/* Two layers: 7 kernels each where few rows fuse, norms and activation apart otherwise. */
static void a_pass_divides_by_its_kernels(void **state)
{
    struct test *t = *state;
    static const char *const scripts[] = {"", "cupti_ns=5000"}; /* records that cost, and do not */
    for (int slow = 0; slow < 2; slow++) {
        struct stage s;
        double op_s[DRIVE_TRAIN][OP_ROWS], spent_s;
        int n;
        assert_ok(stage_open(t, &s, scripts[slow]), t);
        const struct point decode = {POINT_DECODE, 3, 20, 0}, prompt = {POINT_PREFILL, 24, 16, 0};
        assert_ok(drive_point(s.drive, &decode, 4, op_s, &n, &spent_s, &t->e), t);
        assert_int_equal(n, 4);
        const double layer_us = KERNEL_US * (double)s.m.layers;
        for (int i = 0; i < n; i++) {
            /* undisturbed whatever the records cost: the kernels, and two small copies */
            const double whole = KERNEL_US + 6 * layer_us + 2 * KERNEL_US;
            assert_true(sum_of(op_s[i]) * 1e6 > whole && sum_of(op_s[i]) * 1e6 < whole + 1);
            assert_near(op_s[i][OP_ATTN_PRE_PROJ] * 1e6, layer_us, slow ? 1 : 0.1);
            assert_near(op_s[i][OP_ATTN_DECODE] * 1e6, layer_us, slow ? 1 : 0.1);
            assert_near(op_s[i][OP_MLP_UP_PROJ] * 1e6, layer_us, slow ? 1 : 0.1);
            assert_near(op_s[i][OP_SAMPLE] * 1e6, KERNEL_US, slow ? 1 : 0.1);
            assert_near(op_s[i][OP_INPUT_NORM], 0, 1e-12); /* in the projection's kernel */
            assert_near(op_s[i][OP_ATTN_PREFILL], 0, 1e-12);
        }
        assert_ok(drive_point(s.drive, &prompt, 3, op_s, &n, &spent_s, &t->e), t);
        assert_int_equal(n, 3);
        assert_near(op_s[2][OP_ATTN_PREFILL] * 1e6, layer_us, slow ? 2 : 0.2);
        assert_near(op_s[2][OP_INPUT_NORM] * 1e6, layer_us, slow ? 2 : 0.2);
        assert_near(op_s[2][OP_ATTN_DECODE], 0, 1e-12);
        assert_true(op_s[2][OP_GAP] >= 0 && op_s[2][OP_MLP_DOWN_PROJ] > 0);
        assert_true(s.ex.ops->undisturbed(s.ex.self)); /* the power cap is no fault */
        const struct node *facts = s.ex.ops->facts(s.ex.self, t->a);
        assert_int_equal(node_path(facts, "kernel_records.interface")->i, 130000);
        assert_int_equal(node_path(facts, "kernel_records.passes")->i, 9);
        assert_string_equal(
            arena_strn(t->a, node_path(facts, "kernels.decode_1.add.time_in")->s.p, 14),
            "attn_post_proj");
        stage_close(&s);
    }
}

/* Kernels that were recorded longer than the pass took fill it: what rounding leaves over is no
 * gap, and none below 0, which no bundle could hold. */
static void a_pass_shorter_than_its_kernels_has_no_gap(void **state)
{
    (void)state;
    struct cuda_op_times times = {.known = true};
    const struct cuda_pass_shape shape = {.chunks = 0};
    double op_s[OP_ROWS];
    for (int i = 0; i < 1000; i++) {
        double kernels_s = 0;
        for (int k = 0; k < OP_GAP; k++)
            kernels_s += times.kernel_s[k] = 1e-3 / (1.7 + k + 0.37 * i);
        const double pass_s = 1e-5 + 1e-7 * sqrt(i); /* no product of kernels_s */
        assert_true(cuda_op_times_of(&times, &shape, false, pass_s, op_s));
        assert_true(kernels_s > pass_s && op_s[OP_GAP] >= 0 && op_s[OP_GAP] < 1e-15);
        assert_near(sum_of(op_s) / pass_s, 1, 1e-12);
    }
    cuda_op_times_close(&times);
}

static void rows_are_padded_as_graphs_are(void **state)
{
    struct test *t = *state;
    struct stage s;
    assert_ok(stage_open(t, &s, ""), t);
    const int64_t want[] = {1, 2, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    for (int64_t i = 1; i <= ROWS; i++)
        assert_int_equal(s.ex.ops->padded_rows(s.ex.self, i), want[i - 1]);
    stage_close(&s);
}

static void heat_is_reported(void **state)
{
    struct test *t = *state;
    struct stage s;
    assert_ok(stage_open(t, &s, "reasons=32"), t); /* software thermal slowdown */
    assert_false(s.ex.ops->undisturbed(s.ex.self));
    const struct node *facts = s.ex.ops->facts(s.ex.self, t->a);
    assert_int_equal(node_path(facts, "conditions.rejected")->i, 1);
    stage_close(&s);
}

static const char *innermost(const struct err *e)
{
    int i = 0;
    while (err_cause(e, i + 1))
        i++;
    return err_cause(e, i);
}

static void cupti_that_refuses_is_reported(void **state)
{
    struct test *t = *state;
    struct stage s;
    double op_s[DRIVE_TRAIN][OP_ROWS], spent_s;
    const struct point decode = {POINT_DECODE, 3, 20, 0};
    int n;
    static const struct {
        const char *script, *says;
    } rows[] = {
        {"fail cuptiActivityRegisterCallbacks 1 39",
         "cuptiActivityRegisterCallbacks: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"},
        {"fail cuptiActivityEnable 1 1", "cuptiActivityEnable: CUPTI_ERROR (1)"},
        {"fail cuptiActivityFlushAll 1 1", "cuptiActivityFlushAll: CUPTI_ERROR (1)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(stage_open(t, &s, rows[i].script), t);
        assert_int_equal(drive_point(s.drive, &decode, 4, op_s, &n, &spent_s, &t->e), ST_DEVICE);
        assert_string_equal(innermost(&t->e), rows[i].says);
        err_clear(&t->e);
        stage_close(&s);
    }
    assert_ok(stage_open(t, &s, ""), t);
    fake_gpu_play("drop=1");
    assert_int_equal(drive_point(s.drive, &decode, 4, op_s, &n, &spent_s, &t->e), ST_DEVICE);
    assert_non_null(strstr(innermost(&t->e), "CUPTI dropped "));
    err_clear(&t->e);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pass_divides_by_its_kernels),  TEST(a_pass_shorter_than_its_kernels_has_no_gap),
        TEST(rows_are_padded_as_graphs_are),  TEST(heat_is_reported),
        TEST(cupti_that_refuses_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
