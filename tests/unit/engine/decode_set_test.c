#include "engine/decode_set.h"

#include <string.h>

#include "base/rng.h"
#include "support/support.h"

enum { SLOTS = 200, BATCHES = 3000 };

/* Random changes, some batches at rest, against a table of flags. */
static void test_random_changes(void **state)
{
    (void)state;
    struct decode_set s = {0};
    bool in[SLOTS] = {0};
    struct rng rng = rng_stream(7, "decode_set");
    for (int i = 0; i < BATCHES; i++) {
        int32_t left[SLOTS], entered[SLOTS], n = 0;
        struct batch b = {.left = left, .entered = entered};
        for (int32_t slot = SLOTS - 1; slot >= 0; slot--) {
            if (rng_below(&rng, 10) != 0)
                continue;
            if (in[slot])
                left[b.n_left++] = slot;
            else
                entered[b.n_entered++] = slot;
            in[slot] = !in[slot];
        }
        for (int32_t slot = 0; slot < SLOTS; slot++)
            n += in[slot];
        b.n_decodes = rng_below(&rng, 5) == 0 ? 0 : n;
        decode_set_apply(&s, &b);
        assert_int_equal(s.n, n);
        for (int32_t at = 0, slot = 0; slot < SLOTS; slot++)
            if (in[slot])
                assert_int_equal(s.slots[at++], slot);
    }
    decode_set_free(&s);
}

/* A slot that was released and used again leaves and enters with one batch. */
static void test_left_is_applied_first(void **state)
{
    (void)state;
    struct decode_set s = {0};
    const int32_t five = 5;
    decode_set_apply(&s, &(struct batch){.entered = &five, .n_entered = 1, .n_decodes = 1});
    decode_set_apply(
        &s, &(struct batch){
                .left = &five, .n_left = 1, .entered = &five, .n_entered = 1, .n_decodes = 1});
    assert_int_equal(s.n, 1);
    assert_int_equal(s.slots[0], 5);
    decode_set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_left_is_applied_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
