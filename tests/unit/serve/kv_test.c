#include "serve/kv.h"

#include "support/support.h"

static void counts_and_keeps_the_peak(void **state)
{
    struct test *t = *state;
    struct kv kv;
    struct request a = {0}, b = {0};
    kv_init(&kv, t->a, 16, 10, 0.25, false);
    assert_int_equal(kv.watermark, 2);
    assert_int_equal(kv_blocks_for(&kv, 0), 0);
    assert_int_equal(kv_blocks_for(&kv, 16), 1);
    assert_int_equal(kv_blocks_for(&kv, 17), 2);
    kv_take(&kv, &a, 4);
    kv_take(&kv, &b, 3);
    assert_int_equal(kv.free, 3);
    kv_give(&kv, &a);
    assert_int_equal(a.n_blocks, 0);
    kv_take(&kv, &b, 1);
    assert_int_equal(kv.free, 6);
    assert_int_equal(kv.peak, 7);
    assert_null(b.blocks);
}

static void no_id_is_held_twice(void **state)
{
    struct test *t = *state;
    struct kv kv;
    struct request q[3] = {0};
    bool held[12] = {false};
    kv_init(&kv, t->a, 4, 12, 0, true);
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 3; i++)
            kv_take(&kv, &q[i], 1);
    kv_give(&kv, &q[1]);
    kv_take(&kv, &q[0], 3);
    kv_take(&kv, &q[2], 1);
    assert_int_equal(kv.free, 0);
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < q[i].n_blocks; k++) {
            assert_in_range(q[i].blocks[k], 0, 11);
            assert_false(held[q[i].blocks[k]]);
            held[q[i].blocks[k]] = true;
        }
    for (int i = 0; i < 3; i++) {
        kv_give(&kv, &q[i]);
        mem_free(q[i].blocks);
    }
    assert_int_equal(kv.free, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(counts_and_keeps_the_peak), TEST(no_id_is_held_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
