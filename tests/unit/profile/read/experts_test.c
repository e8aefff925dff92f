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

/* Experts of prompts whose tokens choose alike: a prompt reads `of` of all that decodes may read,
 * which take 2 ms; computing takes 1 us a token. */
static double prompt_s(double of, double tokens)
{
    return hypot(2e-3 * of, 1e-6 * tokens);
}

static void tell_decodes(struct arena *a, struct bundle *b, double of)
{
    enum { PROMPTS = 3, DECODES = 4 };
    static const double prompts[PROMPTS] = {16, 256, 1 << 20}, rows[DECODES] = {1, 4, 16, 128};
    struct surface_point p[PROMPTS + DECODES];
    struct grid_set known = {0};
    for (int i = 0; i < PROMPTS; i++)
        p[i] = (struct surface_point){prompts[i], 0, prompt_s(of, prompts[i])};
    for (int i = 0; i < DECODES; i++)
        p[PROMPTS + i] = (struct surface_point){
            rows[i], 0, 2e-3 * model_experts_hit(&qwen, rows[i]) / (double)qwen.experts};
    b->counts = arena_one(a, struct bundle_counts);
    b->ops = (struct op_list){
        .n = 1, .ops = {{.kind = OP_MOE_UP_PROJ, .row = OP_MOE_UP_PROJ, .repeat = 1}}};
    op_table_build_experts(a, &qwen, &known, p, PROMPTS, &b->table[OP_MOE_UP_PROJ]);
    op_table_build_experts(a, &qwen, &known, p + PROMPTS, DECODES,
                           &b->decode_table[OP_MOE_UP_PROJ]);
    bundle_sum_tables(a, b);
}

static void sequences_choose_experts_each_for_itself(void **state)
{
    struct test *t = *state;
    struct bundle b = {0};
    tell_decodes(t->a, &b, 0.25);
    const double prompt = predict_experts_unread(&b, 256, false),
                 decodes = predict_experts_unread(&b, 16, true);
    assert_near_rel(prompt, 0.75, 1e-3);
    assert_near_rel(decodes, 1 - model_experts_hit(&qwen, 16) / 128, 1e-9);
    assert_near(predict_experts_unread(&b, 0, true), 1, 0);
    /* a prompt alone is as measured; two read more, and decodes beside it */
    assert_near(predict_experts_more_s(&b, prompt, 256), 0, 1e-9);
    assert_near_rel(predict_experts_more_s(&b, prompt * prompt, 512) + predict_experts_s(&b, 512),
                    prompt_s(1 - 0.75 * 0.75, 512), 2e-3);
    assert_near_rel(predict_experts_more_s(&b, prompt * decodes, 272) + predict_experts_s(&b, 272),
                    prompt_s(1 - 0.75 * decodes, 272), 2e-3);
}

/* Where a prompt reads all experts, decodes beside it read nothing more. */
static void experts_that_are_read_already_cost_nothing(void **state)
{
    struct test *t = *state;
    struct bundle b = {0};
    tell_decodes(t->a, &b, 1);
    const double prompt = predict_experts_unread(&b, 256, false);
    assert_near(prompt, 0, 1e-3);
    assert_true(predict_experts_more_s(&b, prompt * predict_experts_unread(&b, 64, true), 320) <
                0.01 * predict_experts_s(&b, 320));
    struct bundle one_table = {0}; /* Vidur's, and of CPUs */
    make(t->a, &one_table);
    assert_near(predict_experts_unread(&one_table, 64, true), 1, 0);
    assert_near(predict_experts_more_s(&one_table, 0.2, 320), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(sequences_choose_experts_each_for_itself),
                                       TEST(experts_that_are_read_already_cost_nothing),
                                       TEST(one_of_many_devices_takes_what_was_measured),
                                       TEST(all_of_them_is_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
