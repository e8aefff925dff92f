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
static const double READING_S = 2e-3, TOKEN_S = 1e-6;

static double prompt_s(double of, double tokens)
{
    return pow(pow(READING_S * of, 1.5) + pow(TOKEN_S * tokens, 1.5), 1 / 1.5);
}

static double read_by(double rows)
{
    return model_experts_hit(&qwen, rows) / (double)qwen.experts;
}

/* times: by prompts' tokens, then by rows of decodes */
static void tell(struct arena *a, struct bundle *b, struct surface_point *times, int prompts,
                 int decodes)
{
    struct grid_set known = {0};
    b->counts = arena_one(a, struct bundle_counts);
    b->ops = (struct op_list){
        .n = 1, .ops = {{.kind = OP_MOE_UP_PROJ, .row = OP_MOE_UP_PROJ, .repeat = 1}}};
    op_table_build_experts(a, &qwen, &known, times, prompts, &b->table[OP_MOE_UP_PROJ]);
    op_table_build_experts(a, &qwen, &known, times + prompts, decodes,
                           &b->decode_table[OP_MOE_UP_PROJ]);
    bundle_sum_tables(a, b);
}

static void tell_decodes(struct arena *a, struct bundle *b, double of)
{
    enum { PROMPTS = 4, DECODES = 4 };
    static const double prompts[PROMPTS] = {16, 256, 1 << 19, 1 << 20},
                        rows[DECODES] = {1, 4, 16, 128};
    struct surface_point *p = arena_array(a, struct surface_point, PROMPTS + DECODES);
    for (int i = 0; i < PROMPTS; i++)
        p[i] = (struct surface_point){prompts[i], 0, prompt_s(of, prompts[i])};
    for (int i = 0; i < DECODES; i++)
        p[PROMPTS + i] = (struct surface_point){rows[i], 0, prompt_s(read_by(rows[i]), rows[i])};
    tell(a, b, p, PROMPTS, DECODES);
}

/* unread: by the prompts */
static double batch_s(const struct bundle *b, int64_t tokens, double unread, int64_t rows)
{
    const struct experts_part prompts = {tokens, unread},
                              decodes = {rows, predict_experts_unread(b, rows, true)};
    return predict_experts_s(b, tokens + rows) + predict_experts_more_s(b, &prompts, &decodes);
}

static void sequences_choose_experts_each_for_itself(void **state)
{
    struct test *t = *state;
    struct bundle b = {0};
    tell_decodes(t->a, &b, 0.25);
    const double unread = predict_experts_unread(&b, 256, false), read = read_by(16);
    assert_near_rel(unread, 0.75, 1e-3);
    assert_near_rel(predict_experts_unread(&b, 16, true), 1 - read, 1e-3);
    assert_near(predict_experts_unread(&b, 0, true), 1, 0);
    /* a prompt alone is as measured; two read more */
    assert_near_rel(batch_s(&b, 256, unread, 0), prompt_s(0.25, 256), 2e-3);
    assert_near_rel(batch_s(&b, 512, unread * unread, 0), prompt_s(1 - 0.75 * 0.75, 512), 2e-3);
    /* experts of the prompt alone, of decodes alone, of both */
    assert_near_rel(batch_s(&b, 256, unread, 16),
                    (1 - read) * prompt_s(0.25, 256) + 0.75 * prompt_s(read, 16) +
                        read * prompt_s(0.25, 256 + 0.25 / read * 16),
                    2e-3);
}

/* Where a prompt reads all experts, decodes beside it read nothing more. */
static void experts_that_are_read_already_cost_nothing(void **state)
{
    struct test *t = *state;
    struct bundle b = {0};
    tell_decodes(t->a, &b, 1);
    const double unread = predict_experts_unread(&b, 256, false);
    assert_near(unread, 0, 1e-3);
    assert_true(batch_s(&b, 256, unread, 64) < 1.01 * predict_experts_s(&b, 320));
    struct bundle one_table = {0}; /* Vidur's, and of CPUs */
    make(t->a, &one_table);
    assert_near(predict_experts_unread(&one_table, 64, true), 1, 0);
    assert_near(batch_s(&one_table, 256, 0.2, 64), predict_experts_s(&one_table, 320), 0);
}

/* Qwen3-30B-A3B in bfloat16 on an H100 (700 W, 2026-11-28): ms of one layer's experts, in passes of
 * one prompt and of decode rows; and batches of a serving loop. Of these what they take more than a
 * prompt of as many tokens in the same run, all 48 layers, and of that the decodes' attention, by
 * its tables. */
static void batches_of_chunks_and_decodes_take_what_was_measured(void **state)
{
    enum { PROMPTS = 8, DECODES = 8, BATCHES = 11, LAYERS = 48 };
    static const double times[PROMPTS + DECODES][2] = {
        {16, 0.0700},   {64, 0.0937},   {257, 0.1670},  {513, 0.2545},
        {1025, 0.4278}, {1537, 0.6010}, {2048, 0.7749}, {4096, 1.4724},
        {1, 0.0354},    {2, 0.0622},    {17, 0.2590},   {32, 0.3510},
        {40, 0.3745},   {64, 0.4060},   {112, 0.4213},  {128, 0.4235}};
    static const struct {
        int64_t tokens, chunks, rows;
        double more_ms, attention_ms;
    } batches[BATCHES] = {
        {333, 1, 19, 10.60, 0.5},  {474, 1, 19, 10.25, 0.5}, {697, 1, 19, 11.71, 0.5},
        {1049, 1, 2, 2.62, 0.4},   {1509, 1, 2, 2.00, 0.4},  {200, 2, 112, 15.59, 1.0},
        {458, 3, 120, 14.44, 1.0}, {928, 7, 65, 11.71, 0.8}, {1668, 4, 14, 6.50, 0.5},
        {2092, 14, 30, 5.35, 0.5}, {4053, 56, 43, 3.81, 0.6}};
    static const double WITHIN = 0.12; /* of the experts' time; hypot of both left 26 % */
    struct test *t = *state;
    struct bundle b = {0};
    struct surface_point *p = arena_array(t->a, struct surface_point, PROMPTS + DECODES);
    for (int i = 0; i < PROMPTS + DECODES; i++)
        p[i] = (struct surface_point){times[i][0], 0, times[i][1] / 1e3};
    tell(t->a, &b, p, PROMPTS, DECODES);
    for (int i = 0; i < BATCHES; i++) {
        const int64_t tokens = batches[i].tokens, chunks = batches[i].chunks;
        const double unread =
                         pow(predict_experts_unread(&b, tokens / chunks, false), (double)chunks),
                     alone_ms = 1e3 * predict_experts_s(&b, tokens),
                     with_ms = 1e3 * batch_s(&b, tokens, unread, batches[i].rows),
                     measured_ms =
                         alone_ms + (batches[i].more_ms - batches[i].attention_ms) / LAYERS;
        print_message("%4lld tokens in %2lld chunks, %3lld rows: %.3f ms a layer, measured %.3f "
                      "(%+.1f %%), one prompt alone %.3f\n",
                      (long long)tokens, (long long)chunks, (long long)batches[i].rows, with_ms,
                      measured_ms, 100 * (with_ms / measured_ms - 1), alone_ms);
        assert_near_rel(with_ms, measured_ms, WITHIN);
    }
    const double unread = pow(predict_experts_unread(&b, 16, false), 128);
    assert_near_rel(1e3 * batch_s(&b, 2048, unread, 0), 0.90, 0.03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(sequences_choose_experts_each_for_itself),
                                       TEST(experts_that_are_read_already_cost_nothing),
                                       TEST(batches_of_chunks_and_decodes_take_what_was_measured),
                                       TEST(one_of_many_devices_takes_what_was_measured),
                                       TEST(all_of_them_is_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
