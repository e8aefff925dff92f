/* Kernels that overlap, and which operator has their time. */
#include "engine/cuda/charges.h"

#include "engine/cuda/rules.h"
#include "support/support.h"

static const struct cuda_charge layer[] = {{OP_INPUT_NORM, "norm_bf16"},
                                           {OP_ATTN_PRE_PROJ, NULL},
                                           {OP_ATTN_DECODE, "attention_decode_bf16"}};

static struct cuda_charges of(const struct cuda_charge *list, size_t n)
{
    struct cuda_charges c = {0};
    for (size_t i = 0; i < n; i++)
        vec_push(&c.of, list[i]);
    return c;
}

static void kernels_are_charged_from_the_end_of_those_before(void **state)
{
    struct test *t = *state;
    struct cuda_charges c = of(layer, 3);
    double s[OP_ROWS];
    /* the second starts early, a third of cuBLASLt follows it, then nothing runs for 7 us */
    const struct gpu_record r[] = {{1000, 11000, "norm_bf16"},
                                   {4000, 31000, "nvjet_tst"},
                                   {30000, 34000, "splitKreduce"},
                                   {41000, 51000, "attention_decode_bf16"}};
    assert_ok(cuda_charges_divide(&c, r, 4, s, &t->e), t);
    assert_near(s[OP_INPUT_NORM], 10e-6, 1e-12);
    assert_near(s[OP_ATTN_PRE_PROJ], 23e-6, 1e-12);
    assert_near(s[OP_ATTN_DECODE], 10e-6, 1e-12);
    assert_near(s[OP_GAP], 7e-6, 1e-12);
    double sum = 0;
    for (int k = 0; k < OP_ROWS; k++)
        sum += s[k];
    assert_near(sum, 50e-6, 1e-12);
    vec_free(&c.of);
}

static void a_kernel_within_another_takes_no_time(void **state)
{
    struct test *t = *state;
    struct cuda_charges c = of(layer, 3);
    double s[OP_ROWS];
    const struct gpu_record r[] = {{0, 20000, "norm_bf16"},
                                   {5000, 15000, "nvjet_tst"},
                                   {18000, 30000, "attention_decode_bf16"}};
    assert_ok(cuda_charges_divide(&c, r, 3, s, &t->e), t);
    assert_near(s[OP_INPUT_NORM], 20e-6, 1e-12);
    assert_near(s[OP_ATTN_PRE_PROJ], 0, 1e-12);
    assert_near(s[OP_ATTN_DECODE], 10e-6, 1e-12);
    assert_near(s[OP_GAP], 0, 1e-12);
    vec_free(&c.of);
}

static void records_of_another_pass_are_refused(void **state)
{
    struct test *t = *state;
    struct cuda_charges c = of(layer, 3);
    double s[OP_ROWS];
    const struct gpu_record r[] = {{0, 1, "norm_bf16"},
                                   {2, 3, "nvjet_tst"},
                                   {4, 5, "attention_decode_bf16"},
                                   {6, 7, "norm_bf16"}};
    assert_int_equal(cuda_charges_divide(&c, r, 4, s, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "kernel 4 of 4 in CUPTI's records is norm_bf16 where "
                                             "the pass has no further kernel");
    err_clear(&t->e);
    assert_int_equal(cuda_charges_divide(&c, r, 2, s, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "kernel 3 of 2 in CUPTI's records is missing where "
                                             "the pass has attention_decode_bf16");
    err_clear(&t->e);
    assert_int_equal(cuda_charges_divide(&c, r + 2, 1, s, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "kernel 1 of 1 in CUPTI's records is "
                                             "attention_decode_bf16 where the pass has norm_bf16");
    err_clear(&t->e);
    const struct gpu_record no_product[] = {{0, 1, "norm_bf16"}, {4, 5, "attention_decode_bf16"}};
    assert_int_equal(cuda_charges_divide(&c, no_product, 2, s, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0),
                        "kernel 2 of 2 in CUPTI's records is attention_decode_bf16 where the pass "
                        "has a matrix product of cuBLASLt");
    err_clear(&t->e);
    vec_free(&c.of);
}

static void a_step_in_one_kernel_is_decode_attentions(void **state)
{
    const enum op_kind first = OP_EMB;
    (void)state;
    assert_int_equal(rule_charged(rule_for(RULE_STEP, &first, 1), false), OP_ATTN_DECODE);
    assert_int_equal(rule_charged(rule_for(0, &first, 1), false), OP_EMB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_are_charged_from_the_end_of_those_before),
        TEST(a_kernel_within_another_takes_no_time),
        TEST(records_of_another_pass_are_refused),
        TEST(a_step_in_one_kernel_is_decode_attentions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
