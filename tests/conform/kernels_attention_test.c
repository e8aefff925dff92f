/* Attention of decode rows, of chunks and of any shape: each source against its twin. */
#include "support/gpu_emulator/check_row.h"

static void decode_of_short_batches(void **state)
{
    check_row(state, "attention_decode", H200_SMS, 2e6, 5);
}

/* Rows of up to 8,192 tokens, 33 unequal ones: many parts. */
static void decode_of_long_batches(void **state)
{
    check_row(state, "attention_decode", H200_SMS, 3e7, 37);
}

/* Another plan: fewer parts of the same rows. */
static void decode_on_a_small_gpu(void **state)
{
    check_row(state, "attention_decode", 20, 4e6, 17);
}

static void prefill(void **state)
{
    check_row(state, "attention_prefill", H200_SMS, 1e6, 13);
}

static void any_shape(void **state)
{
    check_row(state, "attention_any", H200_SMS, 5e5, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(decode_of_short_batches),
        TEST(decode_of_long_batches),
        TEST(decode_on_a_small_gpu),
        TEST(prefill),
        TEST(any_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
