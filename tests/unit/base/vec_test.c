#include "support/support.h"

#include "base/vec.h"

static void elements_survive_growth(void **state)
{
    (void)state;
    VEC(int) v = {0};
    for (int i = 0; i < 10000; i++)
        vec_push(&v, i * 3);
    assert_int_equal(v.n, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(v.p[i], i * 3);
    assert_int_equal(vec_last(&v), 29997);
    assert_int_equal(vec_pop(&v), 29997);
    assert_int_equal(v.n, 9999);
    vec_clear(&v);
    assert_int_equal(v.n, 0);
    assert_non_null(v.p);
    vec_free(&v);
    assert_null(v.p);
}

static void structs_are_pushed_in_place(void **state)
{
    (void)state;
    struct point {
        int x, y;
    };
    VEC(struct point) v = {0};
    vec_push(&v, (struct point){1, 2});
    vec_reserve(&v, 100);
    assert_true(v.cap >= 100);
    assert_int_equal(v.p[0].y, 2);
    vec_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(elements_survive_growth),
        TEST(structs_are_pushed_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
