/* Experts of one device of many, predicted from a table of all of them, against what was measured.
 *
 * vLLM 0.20's fused MoE on an H200, bfloat16, the experts of Qwen3-235B-A22B (128, 8 per token,
 * hidden 4096, intermediate 1536), balanced routing: ms of one layer by tokens of the batch, on one
 * device that has all experts and on one of 64. Published by github.com/ai-dynamo/aiconfigurator
 * (Apache-2.0), campaign_checkpoints/h200_sxm/moe_perf.txt. */
#include <math.h>

#include "profile/read/read.h"
#include "support/support.h"

static const struct {
    double tokens, whole_ms, part_ms;
} measured[] = {{1, 0.09098, 0.03572},  {2, 0.15845, 0.03542},   {4, 0.29343, 0.03579},
                {8, 0.56895, 0.03710},  {16, 1.09092, 0.05060},  {32, 1.09757, 0.05166},
                {64, 1.12407, 0.06042}, {128, 1.16418, 0.07643}, {256, 1.19509, 0.08884},
                {1024, 1.38536, 0},     {4096, 2.67336, 0},      {16384, 10.9910, 0}};
enum { N = sizeof measured / sizeof *measured, DEVICES = 64 };

static const struct model qwen = {.experts = 128, .experts_per_token = 8};

static void make(struct arena *a, struct bundle *b)
{
    struct surface_point *p = arena_array(a, struct surface_point, N);
    struct grid_set known = {0};
    for (int i = 0; i < N; i++)
        p[i] = (struct surface_point){measured[i].tokens, 0, measured[i].whole_ms / 1e3};
    b->counts = arena_one(a, struct bundle_counts);
    b->ops = (struct op_list){
        .n = 1, .ops = {{.kind = OP_MOE_UP_PROJ, .row = OP_MOE_UP_PROJ, .repeat = 1}}};
    op_table_build_experts(a, &qwen, &known, p, N, &b->table[OP_MOE_UP_PROJ]);
    bundle_sum_tables(a, b);
}

/* Balanced: pairs and experts are spread as evenly as they can be. */
static void one_of_many_devices_takes_what_was_measured(void **state)
{
    struct test *t = *state;
    struct bundle b = {0};
    make(t->a, &b);
    for (int i = 0; i < N && measured[i].part_ms > 0; i++) {
        const double tokens = measured[i].tokens;
        const double pairs = fmax(1, tokens * 8 / DEVICES), hit = fmin(128 / DEVICES, pairs);
        const double ms = 1e3 * predict_experts_part_s(&b, (int64_t)tokens, pairs, hit, 1);
        print_message("%4.0f tokens: %.1f us, measured %.1f; a part of all: %.1f\n", tokens,
                      1e3 * ms, 1e3 * measured[i].part_ms, 1e3 * measured[i].whole_ms / DEVICES);
        /* beyond, each device handles all tokens of the batch, which no table of all experts has */
        if (tokens <= 64)
            assert_near_rel(ms, measured[i].part_ms, 0.4);
        assert_true(fabs(ms - measured[i].part_ms) <
                    0.75 * fabs(measured[i].whole_ms / DEVICES - measured[i].part_ms));
    }
}

/* With all pairs and experts on one device it is the table. */
static void all_of_them_is_the_whole(void **state)
{
    struct test *t = *state;
    struct bundle b = {0};
    make(t->a, &b);
    for (int64_t n = 1; n < 20000; n = n * 3 + 1)
        assert_near_rel(
            predict_experts_part_s(&b, n, 8 * (double)n, model_experts_hit(&qwen, (double)n), 1),
            predict_experts_s(&b, n), 1e-12);
    assert_near(predict_experts_part_s(&b, 0, 0, 0, 1), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(one_of_many_devices_takes_what_was_measured),
                                       TEST(all_of_them_is_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
