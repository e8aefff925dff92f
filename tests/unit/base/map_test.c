#include "support/support.h"

#include "base/map.h"

static void keys_are_found_and_keep_their_order(void **state)
{
    struct test *t = *state;
    struct map m;
    map_init(&m, t->a);
    assert_null(map_find(&m, "k", 1));
    for (int i = 0; i < 5000; i++) {
        char key[16];
        int n = snprintf(key, sizeof key, "key%d", i * 7919 % 5000);
        bool is_new;
        map_put(&m, key, (size_t)n, &is_new)->i = i;
        assert_true(is_new);
    }
    assert_int_equal(m.n, 5000);
    for (int i = 0; i < 5000; i++) {
        char key[16];
        int n = snprintf(key, sizeof key, "key%d", i * 7919 % 5000);
        assert_int_equal(map_find(&m, key, (size_t)n)->i, i);
        assert_string_equal(m.entries[i].key, key);
        bool is_new;
        assert_int_equal(map_put(&m, key, (size_t)n, &is_new)->i, i);
        assert_false(is_new);
    }
    assert_int_equal(m.n, 5000);
    assert_null(map_find(&m, "key", 3));
}

static void keys_are_bytes_and_copied(void **state)
{
    struct test *t = *state;
    struct map m;
    char key[] = "a\0b";
    map_init(&m, t->a);
    map_put(&m, key, 3, NULL)->i = 1;
    map_put(&m, key, 1, NULL)->i = 2;
    map_put(&m, "", 0, NULL)->i = 3;
    key[0] = 'z';
    assert_int_equal(map_find(&m, "a\0b", 3)->i, 1);
    assert_int_equal(map_find(&m, "a", 1)->i, 2);
    assert_int_equal(map_find(&m, "", 0)->i, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_are_found_and_keep_their_order),
        TEST(keys_are_bytes_and_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
