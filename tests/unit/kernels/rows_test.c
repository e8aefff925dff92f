#include "kernels/rows.h"

#include "support/support.h"

/* Each with what SQLite 3.40 and 3.42 make of round(v, 1). */
static void halves_go_up_as_in_sql(void **state)
{
    (void)state;
    static const struct {
        double v, want;
    } cases[] = {{0, 0},
                 {0.04, 0},
                 {0.05, 0.1},
                 {0.15, 0.2},
                 {0.25, 0.3},
                 {0.35, 0.4},
                 {1717.55, 1717.6},
                 {1717.549, 1717.5},
                 {4168.25, 4168.3},
                 {1000000.45, 1000000.5},
                 {98.94999, 98.9},
                 {99.96, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_near(kernels_rounded(cases[i].v), cases[i].want, 0);
}

static void largest_first_then_fewest_then_by_name(void **state)
{
    struct test *t = *state;
    static const char *const names[] = {"b", "a", "few", "most", "none"};
    int64_t values[] = {4, 4, 5, 3, 8, 20};
    size_t first[] = {0, 2, 4, 5, 6, 6};
    struct kernels_groups g = {first, values, 5};
    struct kernels_rows rows = kernels_rows_of(&g, names);
    struct table *out = table_new(t->a, 8);
    static const char *const order[] = {"most", "few", "a", "b"};
    assert_int_equal(rows.list.n, 4);
    assert_near(rows.total, 44, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(rows.list.p[i].name, order[i]);
        kernels_put_sum(out, &rows, &rows.list.p[i]);
    }
    static const char *const cells[] = {"18.2", "8", "2", "4.0", "4.0", "3", "5", "1.4"};
    for (int i = 0; i < 8; i++)
        assert_string_equal(table_at(out, 2, i), cells[i]);
    vec_free(&rows.list);
}

static void nothing_has_no_mean(void **state)
{
    struct test *t = *state;
    struct table *out = table_new(t->a, 5);
    kernels_put_time(out, &(struct kernels_stats){0});
    static const char *const cells[] = {"", "", "", "", "0.0"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(table_at(out, 0, i), cells[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(halves_go_up_as_in_sql),
        TEST(largest_first_then_fewest_then_by_name),
        TEST(nothing_has_no_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
