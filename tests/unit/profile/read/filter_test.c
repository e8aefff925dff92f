/* Rows of one model and configuration; where there are none, the nearest is named. */
#include "profile/read/filter.h"

#include "support/support.h"

static const struct filter_column columns[] = {
    {.name = "n_head", .want = 32},
    {.name = "use_gated_mlp", .want = 1, .is_bool = true},
    {.name = "head_dim", .want = 128, .optional = true},
};

/* The status of the whole file; *matched rows. */
static enum st read_all(struct test *t, struct filter *f, const char *text, int64_t *matched)
{
    struct csv_reader *r;
    enum st st = csv_open_bytes(&r, "mlp.csv", sv_of(text), &t->e);
    *f = (struct filter){0};
    *matched = 0;
    if (st != ST_OK)
        return st;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        filter_add(f, columns[i]);
    st = filter_bind(f, r, &t->e);
    while (st == ST_OK && (st = csv_next(r, &t->e)) == ST_OK) {
        bool match = false;
        st = filter_match(f, r, &match, &t->e);
        *matched += match;
    }
    csv_close(&r);
    return st == ST_END ? filter_done(f, "mlp.csv", &t->e) : st;
}

static void rows_that_match_are_counted(void **state)
{
    struct test *t = *state;
    struct filter f;
    int64_t n;
    assert_ok(read_all(t, &f,
                       "n_head,use_gated_mlp,head_dim\n"
                       "32,True,128\n16,True,128\n32,1,128\n32,False,128\n32,true,64\n",
                       &n),
              t);
    assert_int_equal(n, 2);
    assert_int_equal(f.matched, 2);
    assert_null(filter_lone_difference(&f, "n_head"));
}

static void optional_columns_may_be_missing(void **state)
{
    struct test *t = *state;
    struct filter f;
    int64_t n;
    assert_ok(read_all(t, &f, "use_gated_mlp,n_head\nTrue,32\n", &n), t);
    assert_int_equal(n, 1);
    assert_err(read_all(t, &f, "n_head,head_dim\n32,128\n", &n), ST_INPUT, t,
               "mlp.csv:1: no column 'use_gated_mlp' among: n_head, head_dim");
}

static void the_nearest_row_is_named(void **state)
{
    struct test *t = *state;
    struct filter f;
    int64_t n;
    /* one difference is nearer than two, and 28 nearer to 32 than 8 */
    assert_err(read_all(t, &f,
                        "n_head,use_gated_mlp,head_dim\n"
                        "32,False,64\n8,True,128\n28,True,128\n8,True,128\n",
                        &n),
               ST_INPUT, t,
               "mlp.csv: no rows for n_head 32, use_gated_mlp True, head_dim 128; the nearest rows "
               "have n_head 28");
    assert_int_equal(*filter_lone_difference(&f, "n_head"), 28);
    assert_null(filter_lone_difference(&f, "head_dim"));
}

static void two_differences_are_no_lone_one(void **state)
{
    struct test *t = *state;
    struct filter f;
    int64_t n;
    assert_err(read_all(t, &f, "n_head,use_gated_mlp,head_dim\n16,0,128\n", &n), ST_INPUT, t,
               "mlp.csv: no rows for n_head 32, use_gated_mlp True, head_dim 128; the nearest rows "
               "have n_head 16, use_gated_mlp False");
    assert_null(filter_lone_difference(&f, "n_head"));
}

static void files_without_rows_and_bad_cells_are_refused(void **state)
{
    struct test *t = *state;
    struct filter f;
    int64_t n;
    assert_err(read_all(t, &f, "n_head,use_gated_mlp\n", &n), ST_INPUT, t, "mlp.csv has no rows");
    err_clear(&t->e);
    assert_err(read_all(t, &f, "n_head,use_gated_mlp\n32,yes\n", &n), ST_INPUT, t,
               "mlp.csv:2:2: use_gated_mlp: expected True or False, got 'yes'");
    err_clear(&t->e);
    assert_int_equal(read_all(t, &f, "n_head,use_gated_mlp\nmany,True\n", &n), ST_INPUT);
    assert_cause(&t->e, "mlp.csv:2:1: n_head: expected an integer, got 'many'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_that_match_are_counted),
        TEST(optional_columns_may_be_missing),
        TEST(the_nearest_row_is_named),
        TEST(two_differences_are_no_lone_one),
        TEST(files_without_rows_and_bad_cells_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
