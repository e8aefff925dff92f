#include "sim/groups.h"

#include "model/shard.h"
#include "profile/read/iteration.h"
#include "sim/predictor.h"
#include "support/support.h"

/* A batch with the sums that the serving loop keeps. */
static struct batch batch_of(const struct chunk *chunks, int32_t n, int32_t decodes, int64_t kv,
                             int64_t kv_max)
{
    struct batch b = {.chunks = chunks,
                      .n_chunks = n,
                      .n_decodes = decodes,
                      .decode_kv_tokens = kv,
                      .decode_kv_max = kv_max};
    b.load = (struct op_load){
        .tokens = decodes, .rows = decodes, .seqs = decodes, .kv_tokens = kv + decodes};
    for (int32_t i = 0; i < n; i++) {
        b.prefill_tokens += chunks[i].tokens;
        b.n_last_chunks += chunks[i].last;
        b.load.tokens += chunks[i].tokens;
        b.load.rows += chunks[i].last;
        op_load_add_chunk(&b.load, NULL, chunks[i].start, chunks[i].tokens);
    }
    return b;
}

static void one_prompt_is_one_groups(void **state)
{
    struct test *t = *state;
    static const struct chunk one[] = {{.start = 8192, .tokens = 4096, .last = true}};
    const struct batch b = batch_of(one, 1, 0, 0, 0);
    struct groups g = groups_new(t->a, 8, (struct key_spans){0});
    struct group_part part[GROUP_PARTS];
    assert_int_equal(groups_busiest(&g, &b, part), 1);
    assert_memory_equal(&part[0].load, &b.load, sizeof b.load);
}

static void rows_fill_the_groups_evenly(void **state)
{
    struct test *t = *state;
    struct groups g = groups_new(t->a, 4, (struct key_spans){0});
    struct group_part part[GROUP_PARTS];
    struct batch b = batch_of(NULL, 0, 3, 1100, 1000); /* fewer than groups: the longest alone */
    assert_int_equal(groups_busiest(&g, &b, part), 1);
    assert_int_equal(part[0].decodes, 1);
    assert_int_equal(part[0].load.kv_tokens, 1001);
    b = batch_of(NULL, 0, 9, 1800, 1000); /* 3 in a group: the longest and two of the mean */
    assert_int_equal(groups_busiest(&g, &b, part), 1);
    assert_int_equal(part[0].decodes, 3);
    assert_int_equal(part[0].decode_kv, 1000 + 2 * 100);
    b.draft_tokens = 2;
    groups_busiest(&g, &b, part);
    assert_int_equal(part[0].load.tokens, 9);
    assert_int_equal(part[0].load.rows, 9);
    b = batch_of(NULL, 0, 8, 800, 100); /* all alike: a quarter */
    assert_int_equal(groups_busiest(&g, &b, part), 1);
    assert_int_equal(part[0].load.kv_tokens, 202);
}

static void a_group_with_a_prompt_has_fewer_rows(void **state)
{
    struct test *t = *state;
    static const struct chunk two[] = {{.start = 0, .tokens = 900}, {.start = 5000, .tokens = 300}};
    struct groups g = groups_new(t->a, 4, (struct key_spans){0});
    struct group_part part[GROUP_PARTS];
    struct batch b = batch_of(two, 2, 6, 600, 100);    /* 2 sequences in a group */
    assert_int_equal(groups_busiest(&g, &b, part), 2); /* most tokens, most pairs */
    assert_int_equal(part[0].load.tokens, 901);
    assert_int_equal(part[0].load.chunk_sq, 900 * 901 / 2);
    assert_int_equal(part[1].load.tokens, 301);
    assert_int_equal(part[1].load.kv_tokens_prefill, 300 * 5000);
    b = batch_of(two, 1, 2, 20100, 20000); /* as many groups as sequences: the row may be slower */
    assert_int_equal(groups_busiest(&g, &b, part), 2);
    assert_int_equal(part[0].decodes, 0);
    assert_int_equal(part[1].group, -1);
    assert_int_equal(part[1].load.kv_tokens, 20001);
}

static const struct model mixtral = {.name = "mixtral",
                                     .family = MODEL_MIXTRAL,
                                     .norm = NORM_RMS,
                                     .act = ACT_SILU_GATED,
                                     .position = POSITION_ROPE,
                                     .layers = 32,
                                     .hidden = 4096,
                                     .heads = 32,
                                     .kv_heads = 8,
                                     .head_dim = 128,
                                     .intermediate = 14336,
                                     .vocab = 32000,
                                     .experts = 8,
                                     .experts_per_token = 2};

static double device_s(struct test *t, int64_t ep, const struct batch *b)
{
    static const struct iteration_hardware h100 = {.dram_bytes_per_s = 3.35e12,
                                                   .flop_per_s = {[PRECISION_BF16] = 9.89e14},
                                                   .links.link_bytes_per_s = 4.5e11};
    const struct predictor_params p = {
        .model = &mixtral, .tp = 1, .pp = 1, .ep = ep, .hardware = &h100};
    struct predictor predictor;
    struct stage_time stage;
    assert_ok(predictor_open(t->a, &predictor_roofline, &p, &predictor, &t->e), t);
    assert_ok(predictor.ops->predict(predictor.self, b, &stage, &t->e), t);
    return stage.device_s;
}

/* 30,000 tokens: attention alone takes 4 x 4,096 x 32 x 30,000^2 / 2 FLOP at half of 989 TFLOP/s on
 * the one group that has the prompt, 477 ms. */
static void a_prompt_takes_at_least_its_attention(void **state)
{
    struct test *t = *state;
    struct chunk eight[8], one = {.tokens = 30000, .last = true};
    for (int i = 0; i < 8; i++)
        eight[i] = one;
    const struct batch alone = batch_of(&one, 1, 0, 0, 0), full = batch_of(eight, 8, 0, 0, 0);
    const double attention = 4.0 * 4096 * 32 * 30000.0 * 30001 / 2 / (0.5 * 9.89e14);
    assert_near(attention, 0.477, 1e-3);
    const double one_s = device_s(t, 8, &alone), eight_s = device_s(t, 8, &full);
    assert_true(one_s > attention);
    assert_true(one_s < device_s(t, 1, &alone)); /* its experts are on eight */
    /* The other groups' prompts add work for the experts alone. */
    assert_true(eight_s > one_s);
    assert_true(eight_s < device_s(t, 1, &full) / 4);
}

/* A window of 128 keys: what the longest sees, and the mean of the others. */
static void spans_of_groups(void **state)
{
    struct test *t = *state;
    static const struct chunk two[] = {{.start = 0, .tokens = 900}, {.start = 5000, .tokens = 300}};
    const struct key_spans spans = {.n = 1, .of = {{.unit = 1, .most = 128}}};
    struct groups g = groups_new(t->a, 2, spans);
    struct group_part part[GROUP_PARTS];
    struct batch b = batch_of(NULL, 0, 4, 1000 + 3 * 50, 1000);
    b.load.n_spans = 1;
    b.load.spans[0].kv_tokens = 128 + 3 * 51;
    groups_busiest(&g, &b, part);
    assert_int_equal(part[0].decodes, 2);
    assert_int_equal(part[0].load.n_spans, 1);
    assert_int_equal(part[0].load.spans[0].kv_tokens, 128 + 51);
    b = batch_of(two, 2, 0, 0, 0);
    assert_int_equal(groups_busiest(&g, &b, part), 2);
    assert_int_equal(part[0].load.spans[0].pairs, 128 * 129 / 2 + (900 - 128) * 128);
    assert_int_equal(part[1].load.spans[0].pairs, 300 * 128);
    assert_int_equal(part[1].load.spans[0].keys, 127 + 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(spans_of_groups),
        TEST(one_prompt_is_one_groups),
        TEST(rows_fill_the_groups_evenly),
        TEST(a_group_with_a_prompt_has_fewer_rows),
        TEST(a_prompt_takes_at_least_its_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
