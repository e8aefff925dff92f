/* The whole decode step in one kernel against its twin: all blocks at work at once, so the GPUs are
 * small ones. */
#include "support/gpu_emulator/check_row.h"

/* Up to 4 rows of 4 head tiles; keys of one row in up to 4 parts. */
static void on_16_multiprocessors(void **state)
{
    check_row(state, "decode_step", 16, 2e7, 5);
}

/* Blocks without a tile, and without keys. */
static void on_43_multiprocessors(void **state)
{
    check_row(state, "decode_step", 43, 2e7, 11);
}

/* Every block has several tiles, and the last of them is short. */
static void on_5_multiprocessors(void **state)
{
    check_row(state, "decode_step", 5, 2e7, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(on_16_multiprocessors),
        TEST(on_43_multiprocessors),
        TEST(on_5_multiprocessors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
