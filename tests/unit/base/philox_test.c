#include "base/philox.h"

#include "support/support.h"

/* Random123's kat_vectors, philox4x32 10. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        philox(rows[i].counter, rows[i].key, out);
        assert_memory_equal(out, rows[i].want, sizeof out);
    }
}

static void blocks_are_counted(void **state)
{
    (void)state;
    enum { N = 37 };
    const uint32_t key[2] = {1, 2}, stream[2] = {3, 4};
    const uint64_t first = 0xfffffff0;
    uint32_t all[N][4], one[4];
    philox_blocks(key, stream, first, N, all[0]);
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t b = first + i;
        philox((uint32_t[]){(uint32_t)b, (uint32_t)(b >> 32), 3, 4}, key, one);
        assert_memory_equal(all[i], one, sizeof one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_answers),
                                       cmocka_unit_test(blocks_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
